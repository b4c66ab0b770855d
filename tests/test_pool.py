"""The pool: forked or fresh, each VM is confined, and waiting is first come, first served."""

from __future__ import annotations

import json
import os
import signal

import anyio
import pytest
from upstreams import until

from mcpproxy.errors import PoolBusy
from mcpproxy.sandbox import pool as pools
from mcpproxy.sandbox.job import Wanted, pack
from mcpproxy.sandbox.pool import open_pool


async def run(pool, source):
    async with pool.vm(10) as vm:
        wanted = Wanted(
            source=source, language="javascript", compiled=None, refusal=None, input="{}"
        )
        vm.post(pack(wanted, 64 * 2**20, 2**20))
        reply = json.loads((await vm.receive())[-1])
        vm.finished = True
        return reply


@pytest.mark.parametrize("forks", [True, False], ids=["forked", "in fresh interpreters"])
async def test_vms_run_and_are_confined(forks):
    with anyio.fail_after(30):
        async with open_pool(2, 64, forks=forks) as pool:
            assert (await run(pool, "[1 + 1, new Date(0).getTimezoneOffset()]"))["value"] == [2, 0]
            assert set((await pool.verify()).values()) == {True}


@pytest.mark.req("REQ-POOL-02")
async def test_who_came_first_is_served_first():
    served = []
    async with open_pool(1, 64) as pool:

        async def wait(name, *, task_status):
            task_status.started()
            async with pool.vm(10):
                served.append(name)

        async with anyio.create_task_group() as tasks:
            async with pool.vm(10):
                for n, name in enumerate("abc", 1):
                    await tasks.start(wait, name)
                    while pool.waiting < n:
                        await anyio.lowlevel.checkpoint()
    assert served == ["a", "b", "c"]


async def test_who_gives_up_leaves_the_line_to_the_others():
    async with open_pool(1, 64) as pool, pool.vm(10):
        with pytest.raises(PoolBusy, match="code_execution_pool_size"):
            async with pool.vm(0.01):
                pass
        assert (pool.busy, pool.waiting) == (1, 0)


async def test_who_is_interrupted_as_its_turn_comes_hands_the_place_on():
    async with open_pool(1, 64) as pool:
        async with pool.vm(10):
            waiting = pool._enter(10)
            waiting.send(None)
            assert pool.waiting == 1
        with pytest.raises(KeyboardInterrupt):
            waiting.throw(KeyboardInterrupt)
        assert (pool.busy, pool.waiting) == (0, 0)
        assert (await run(pool, "1"))["value"] == 1


@pytest.mark.req("REQ-POOL-01")
async def test_as_many_run_as_the_pool_is_large():
    async with open_pool(2, 64) as pool, pool.vm(10), pool.vm(10):
        assert pool.busy == 2
        with anyio.move_on_after(0.05) as waiting:
            async with pool.vm(10):
                pytest.fail("a third one was let in")
        assert waiting.cancelled_caught
        assert pool.waiting == 0


async def test_never_are_there_more_vms_than_the_pool_is_large():
    there = []

    async def several(pool):
        for _ in range(12):
            await run(pool, "1")
            there.append(len(pool._spares) + pool.busy - pool._handed + len(pool._over))

    async with open_pool(2, 64) as pool, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(several, pool)
    assert max(there) == 2


async def test_a_fork_server_is_started_again_however_often_that_fails(monkeypatch, caplog):
    monkeypatch.setattr(pools, "FIRST_PAUSE", 0.001)
    spawn, failures = pools.spawn, [OSError("too many of them"), ["/bin/false"]]

    def failing(command, **options):
        failure = failures.pop() if failures else command
        if isinstance(failure, OSError):
            raise failure
        return spawn(failure, **options)

    async with open_pool(1, 64) as pool:
        assert (await run(pool, "1"))["value"] == 1
        monkeypatch.setattr(pools, "spawn", failing)
        os.kill(pool.fork_server, signal.SIGKILL)
        await until(lambda: pool.fork_server is None)
        with anyio.fail_after(10):
            assert (await run(pool, "2"))["value"] == 2
    assert not failures and "can't be started: too many of them" in caplog.text
