"""Each layer around a VM, proven by breaking it, and what becomes of everybody when somebody dies."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from itertools import product
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from watched import Watched, pid_of, pids, status
from world import Played, open_world

from mcpproxy.sandbox.confine import MACHINES, MAX_CPU_SECONDS, assemble
from mcpproxy.sandbox.pool import open_pool
from mcpproxy.sandbox.probe import ACTS, LANDLOCK_ACT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what is looked at here is in /proc, which is Linux's"
)


@pytest.fixture(scope="module")
async def pool():
    async with open_pool(2, 64) as pool:
        yield pool


@pytest.fixture(scope="module")
async def seen(pool):
    return await pool.verify()


@pytest.mark.parametrize("act", [*ACTS, LANDLOCK_ACT])
@pytest.mark.threat("S5", "S6", "S7")
async def test_a_vm_that_tries_is_stopped(seen, act):
    assert seen[act] is True


@pytest.mark.threat("S5")
async def test_every_layer_is_in_force(pool):
    assert pool.layers == {"not dumpable": True, "no_new_privs": True, "landlock": True}


async def test_a_vm_gives_way_to_the_daemon(pool):
    async with a_vm(pool) as pid:
        assert os.sched_getscheduler(pid) == os.SCHED_BATCH


@asynccontextmanager
async def a_vm(pool):
    """A VM that has confined itself and waits for its job: its process ID."""
    async with pool.vm(10) as vm:
        pid = await pid_of(vm, pool)
        with anyio.fail_after(10):
            while status(pid).get("Seccomp") != "2":
                await checkpoint()
        yield pid


def looked_into(pid: int, name: str) -> str:
    """A file of a process that is not dumpable: only root may look."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except PermissionError:
        pytest.skip("only root may look into a process that is not dumpable")


@pytest.mark.threat("S5")
async def test_a_vm_has_no_new_privileges_and_a_filter(pool):
    async with a_vm(pool) as pid:
        found = status(pid)
    assert (found["NoNewPrivs"], found["Seccomp"], found["Threads"]) == ("1", "2", "1")


@pytest.mark.threat("S6")
async def test_a_vm_has_an_empty_environment_and_the_secrets_of_nobody(pool):
    async with a_vm(pool) as pid:
        found = looked_into(pid, "environ").split("\0")
        assert set(found) <= {"", "LD_BIND_NOW=1"}  # for the dynamic linker, the same for everybody
        command = looked_into(pid, "cmdline")
    assert "mcpproxy.sandbox.zygote" in command


@pytest.mark.threat("S6")
async def test_a_vm_has_exactly_one_descriptor(pool):
    async with a_vm(pool) as pid:
        try:
            found = {
                name: os.readlink(f"/proc/{pid}/fd/{name}")
                for name in os.listdir(f"/proc/{pid}/fd")
            }
        except PermissionError:
            pytest.skip("only root may look into a process that is not dumpable")
    assert list(found) == ["3"]
    assert found["3"].startswith("socket:")


@pytest.mark.threat("S2", "S7")
async def test_a_vm_has_limits(pool):
    async with a_vm(pool) as pid:
        text = looked_into(pid, "limits")
    limits = {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()[1:]}
    assert limits["Max cpu time"] == [str(MAX_CPU_SECONDS)] * 2
    for none in ("Max core file size", "Max file size", "Max processes"):
        assert limits[none] == ["0", "0"]
    assert limits["Max open files"] == ["4", "4"]
    soft, hard = map(int, limits["Max address space"])
    assert 64 * 2**20 < soft == hard < 2 * 2**30


@pytest.mark.threat("S5")
def test_the_filter_names_no_call_that_reaches_out():
    x86 = MACHINES["x86_64"]
    reaching = {"open": 2, "openat": 257, "socket": 41, "connect": 42, "fork": 57, "clone": 56, "clone3": 435,
                "execve": 59, "kill": 62, "tgkill": 234, "ptrace": 101, "process_vm_readv": 310, "ioctl": 16,
                "sendmsg": 46, "recvmsg": 47, "prctl": 157, "io_uring_setup": 425, "memfd_create": 319, "dup": 32}  # fmt: skip
    allowed = {*x86.allowed.values(), *x86.without_exec.values()}
    assert not allowed & set(reaching.values())
    assert all(len(assemble(machine)) % 8 == 0 for machine in MACHINES.values())
    assert MACHINES["aarch64"].without_exec.keys() == x86.without_exec.keys()


# somebody dies


@asynccontextmanager
async def a_running(world, code: str):
    """A script on its way, once its call has reached an upstream: its VM, and where its reply will be."""
    replies: list[dict] = []

    async def run() -> None:
        replies.append(await world.run(code))

    world.upstreams = Played()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(10):
            await world.upstreams.reached.wait()
        yield world.pool.last, replies


async def all_vms(world) -> list[int]:
    return list((await pids(world.pool.pool)).values())


def parent(pid: int) -> int:
    return int(status(pid)["PPid"])


def is_there(pid: int) -> bool:
    """Whether the process runs; a container may lack somebody who buries the orphaned ones."""
    try:
        return not status(pid)["State"].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(pid: int) -> None:
    """Return when the process has ended, and fail when it doesn't."""
    with anyio.fail_after(10):
        while is_there(pid):
            await checkpoint()


@pytest.fixture
async def world():
    async with open_world(code_execution_pool_size=3) as world:
        world.pool = Watched(world.pool)
        assert await world.value("1") == 1
        yield world


HANGS = "call_tool('stub', 'hang', {}); 1"


@pytest.mark.threat("S4")
async def test_killing_a_vm_costs_its_script_alone(world):
    async with a_running(world, HANGS) as (vm, replies):
        assert await world.value("'another'") == "another"
        os.kill(await pid_of(vm, world.pool.pool), signal.SIGKILL)
    assert replies[0]["error"]["code"] == "WORKER_CRASHED"
    assert "signal 9" in replies[0]["error"]["message"]
    assert "call 1 (stub:hang)" in replies[0]["error"]["message"]
    assert replies[0]["calls"][0]["outcome"] == "unknown"
    assert world.upstreams.cancelled == ["hang"]
    assert await world.value("'next'") == "next"


async def test_a_crash_without_a_call_in_flight_says_to_run_it_again(world):
    async with a_running(world, "call_tool('stub', 'echo', {}); for (;;) {}") as (vm, replies):
        while world.upstreams.in_flight:
            await checkpoint()
        await checkpoint()
        os.kill(await pid_of(vm, world.pool.pool), signal.SIGKILL)
    assert replies[0]["error"]["message"].endswith("run it again")


async def test_what_was_stopped_and_goes_on_is_as_it_was(world):
    code = "call_tool('stub', 'echo', {}); await sleep(100); 'went on'"
    async with a_running(world, code) as (_, replies):
        vms = await all_vms(world)
        while not replies:  # as a machine does that sleeps and wakes
            for number, pid in product((signal.SIGSTOP, signal.SIGCONT), vms):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            await checkpoint()
    assert replies == [{"ok": True, "value": "went on"}]


async def test_a_spare_that_was_killed_is_given_to_nobody(world):
    for pid in await all_vms(world):
        os.kill(pid, signal.SIGKILL)
        while is_there(pid):  # nobody else has a turn: the pool can't have heard of it
            pass
    assert await world.value("'whole'") == "whole"


@pytest.mark.threat("S4")
async def test_killing_the_fork_server_ends_all_vms_and_it_is_started_again(world):
    async with a_running(world, HANGS) as (_, replies):
        zygote = world.pool.pool.fork_server
        vms = await all_vms(world)
        os.kill(zygote, signal.SIGKILL)
    assert replies[0]["error"]["code"] == "WORKER_CRASHED"
    assert "whatever else ran at that moment ended, too" in replies[0]["error"]["message"]
    for pid in [zygote, *vms]:
        await gone(pid)
    assert await world.value("'next'") == "next"
    assert zygote not in map(parent, await all_vms(world))


@pytest.mark.threat("S4")
async def test_closing_the_pool_leaves_no_process_not_even_one_that_spins():
    async with open_world(code_execution_pool_size=2) as world, anyio.create_task_group() as tasks:
        world.pool = Watched(world.pool)
        tasks.start_soon(world.run, "call_tool('stub', 'echo', {}); for (;;) {}")
        with anyio.fail_after(10):
            await world.upstreams.reached.wait()
        zygote, vms = world.pool.pool.fork_server, await all_vms(world)
        tasks.cancel_scope.cancel()
    for pid in [zygote, *vms]:
        await gone(pid)


@pytest.mark.threat("S4")
async def test_a_fork_server_that_loses_its_daemon_takes_spinning_vms_along(world):
    async with a_running(world, "call_tool('stub', 'echo', {}); for (;;) {}") as (vm, replies):
        zygote, pid = world.pool.pool.fork_server, await pid_of(vm, world.pool.pool)
        world.pool.pool._control.shutdown(2)  # what the kernel does to it when a daemon is killed
        await gone(pid)
        await gone(zygote)
    assert replies[0]["error"]["code"] == "WORKER_CRASHED"
