"""Every script of the corpus through a real pipeline, and what must hold whatever a script does."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path

import anyio
import pytest
from watched import Watched
from world import Played, World, open_world

from hostile import (
    Case,
    Gives,
    encoding,
    endless,
    escape,
    flooding,
    forgery,
    memory,
    pollution,
    serialisation,
    stack,
)
from mcpproxy.envelopes import refusal
from mcpproxy.errors import Refused
from mcpproxy.sandbox.pool import Pool

KINDS = [endless, memory, stack, escape, forgery, pollution, serialisation, flooding, encoding]
ALL = [
    pytest.param(case, id=f"{kind.__name__.partition('.')[2]}: {case.id}")
    for kind in KINDS
    for case in kind.CASES
]
OFTEN = 0.002
"""Seconds between two looks at whether the event loop is free."""

HEALTH = 0.050
GROWTH_BYTES = 32 * 2**20
"""What the tests themselves keep, and what the allocator of a thread does not give back, is up to 23 MB
of that; a script that left 100 KB would show."""


class Pulse:
    """How long others had to wait for the event loop, and how much of that was its own work."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.work: list[float] = []

    async def beat(self) -> None:
        # A measurement of delays is the one thing that can't do without a clock.
        while True:
            due, used = time.perf_counter() + OFTEN, time.thread_time()
            await anyio.sleep(OFTEN)
            self.late.append(time.perf_counter() - due)
            self.work.append(time.thread_time() - used)


class Names(list):
    """Calls without their arguments: a flood of them is not for us to keep."""

    def append(self, call: tuple) -> None:
        super().append(call[:2])


def played() -> Played:
    upstreams = Played()
    upstreams.calls = Names()
    return upstreams


class Lab:
    def __init__(self, world: World, pool: Pool) -> None:
        self.world, self.pool = world, pool
        self.pulses: list[Pulse] = []
        self.rss = 0


def resident() -> int:
    """Bytes in memory, without what the C library keeps for later."""
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
    if sys.platform == "linux":
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.fixture(scope="module")
async def lab():
    async with open_world(code_execution_pool_size=2, code_execution_memory_mb=64) as world:
        lab, pool = Lab(world, world.pool), world.pool
        world.pool = Watched(pool)
        for _ in range(2):
            await world.run("const n: number = 1; n", language="typescript")
            await world.run(
                "for (let i = 0; i < 1000; i++) { tools.stub.echo({i}); console.log(i) }"
            )
            await world.run("call_tool('stub', 'echo', {a: 'x'.repeat(1e6)}); return 1")
        world.upstreams = Played()
        gc.freeze()  # the tests' own many objects are not the daemon's to collect
        lab.rss = resident()
        yield lab
        gc.unfreeze()


def judged(case: Case, reply: dict) -> str:
    """What is wrong with the reply; "" for nothing."""
    if reply["ok"] is True:
        if isinstance(case.ends, Gives):
            taken = case.ends.takes(reply["value"])
        else:
            taken = case.ends == "any" or "VALUE" in case.ends.split()
        if not taken:
            return f"it gave {str(reply['value'])[:300]!r}"
    else:
        error = reply["error"]
        if isinstance(case.ends, Gives) or not (
            case.ends == "any" or error["code"] in case.ends.split()
        ):
            return f"it ended in {error['code']}: {error['message'][:300]}"
        if case.says not in error["message"]:
            return f"it said {error['message'][:300]}"
    if case.check is not None and not case.check(reply):
        return f"the reply is {str(reply)[:500]}"
    return ""


@pytest.mark.req("REQ-SAFE-01", "REQ-SAFE-03", "REQ-CODE-21")
@pytest.mark.parametrize("case", ALL)
@pytest.mark.threat("S1", "S2", "S3", "S6", "S8", "S9", "S10", "S13")
async def test_it_ends_as_it_must_and_leaves_nothing(lab, case):
    world, pulse = lab.world, Pulse()
    lab.pulses.append(pulse)
    world.upstreams, world.progress = played(), []
    memory = {"code_execution_memory_mb": case.memory_mb}
    world.settings = world.settings.model_copy(update=memory)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pulse.beat)
        await anyio.lowlevel.checkpoint()
        began = time.monotonic()
        try:
            reply = await world.run(
                case.code, options={"timeout_ms": case.timeout_ms, **case.options}, **case.more
            )
        except Refused as refused:
            reply = refusal(refused.code, str(refused))
        seconds = time.monotonic() - began
        calls = len(world.upstreams.calls)
        vm = world.pool.last
        assert vm is not None
        with anyio.fail_after(5):
            await vm.ended.wait()
        tasks.cancel_scope.cancel()

    assert judged(case, reply) == ""
    assert seconds < case.timeout_ms / 1000 + 1 + max(pulse.late, default=0)
    json.dumps(reply).encode()
    assert len(str(reply)) < 2 * 2**20
    assert lab.pool.busy == 0
    assert not alive(vm.pid)
    assert (len(world.upstreams.calls), world.upstreams.in_flight) == (calls, 0)
    if case.calls is not None:
        assert calls == case.calls
    assert max(pulse.work, default=0) <= HEALTH, "the event loop was kept busy in one go"


def alive(pid: int | None) -> bool:
    """Whether the process is there; its parent has taken its status before it said that it ended."""
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.req("REQ-SAFE-01", "REQ-SAFE-02")
@pytest.mark.threat("S3")
async def test_the_loop_was_free_and_the_host_is_no_larger_after_all_of_them(lab):
    late = sorted(delay for pulse in lab.pulses for delay in pulse.late)
    lab.pulses.clear()
    assert late and late[int(len(late) * 0.99)] <= HEALTH
    lab.world.upstreams = Played()
    assert await lab.world.value("1 + 1") == 2
    gc.unfreeze()
    assert resident() - lab.rss < GROWTH_BYTES


def test_there_are_enough_of_them_and_no_two_alike():
    cases = [case for kind in KINDS for case in kind.CASES]
    assert len(cases) >= 150
    assert len({case.code for case in cases}) == len(cases)
    assert all(len({case.id for case in kind.CASES}) == len(kind.CASES) for kind in KINDS)
