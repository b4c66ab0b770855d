"""Processes that start without a copy of this one: how their end is told."""

from __future__ import annotations

import asyncio  # noqa: TID251 - for those who embed us
import os
import signal
import subprocess
import sys

import anyio
import pytest

from mcpproxy import spawning
from mcpproxy.spawning import spawn

SHELL = ["/bin/sh", "-c"]


@pytest.mark.parametrize("told", [True, False], ids=["by a descriptor", "by a thread"])
async def test_everyone_who_waits_hears_how_it_ended(told, monkeypatch):
    if not told:
        monkeypatch.setattr(spawning, "descriptor", lambda pid: None)
    process = spawn([*SHELL, "read word; exit 7"], env={}, stdin=subprocess.PIPE)
    codes = []

    async def wait() -> None:
        codes.append(await process.wait())

    with anyio.move_on_after(0):
        await process.wait()
    assert process.returncode is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        process.stdin.close()
    assert codes == [7, 7] and process.returncode == 7


async def test_one_that_is_killed_says_by_what_and_may_be_killed_again():
    process = spawn([*SHELL, "read word"], env={}, stdin=subprocess.PIPE)
    with process.stdin:
        process.kill()
        assert await process.wait() == -signal.SIGKILL
    process.kill()
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a process in /proc")
async def test_it_has_a_session_of_its_own_and_no_descriptor_but_those_it_is_given():
    open_here = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(open_here, True)
    process = spawn([*SHELL, "read word"], env={}, stdin=subprocess.PIPE)
    with process.stdin:
        assert os.getsid(process.pid) == process.pid
        assert str(open_here) not in os.listdir(f"/proc/{process.pid}/fd")
    os.close(open_here)
    await process.wait()


async def test_a_program_that_is_not_there_is_an_error_at_once():
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        spawn(["/no-such-program"], env={})


async def test_an_end_is_seen_to_though_who_asks_is_cancelled():
    process = spawn([*SHELL, "read word"], env={}, stdin=subprocess.PIPE)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await process.end(0.01)
    assert process.returncode == -signal.SIGKILL
    process.stdin.close()
    await process.end(60)


async def test_asyncio_s_own_cancellation_leaves_no_process_behind():
    process = spawn([*SHELL, "read word"], env={}, stdin=subprocess.PIPE)
    with process.stdin:
        ending = asyncio.ensure_future(process.end(60))
        await anyio.wait_all_tasks_blocked()
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert await process.wait() == -signal.SIGKILL


async def test_an_end_is_noticed_though_the_loop_forgets_who_waits_for_it(monkeypatch):
    monkeypatch.setattr(spawning, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(anyio, "wait_readable", lambda descriptor: anyio.sleep_forever())
    process = spawn([*SHELL, "exit 7"], env={})
    with anyio.fail_after(10):
        assert await process.wait() == 7
