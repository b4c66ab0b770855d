"""Servers that crash, hang or don't start, and what is left of them."""

from __future__ import annotations

import asyncio  # noqa: TID251 - for those who embed us
import signal
import sys
from contextlib import suppress

import anyio
import pytest
from running import STUBS, WAIT, home
from upstreams import ERAS, alive, fleet_of, open_stubs, pid, refused, stub, until

from mcpproxy.upstream import link, stdio
from mcpproxy.upstream.warden import Warden, open_warden


@ERAS
async def test_a_crash_fails_the_calls_in_flight_and_the_next_call_finds_a_new_process(
    tmp_path, era
):
    async with fleet_of(tmp_path, "--era", era) as fleet:
        before = (await fleet.call("stub", "whoami", {}))["structuredContent"]["pid"]
        error = await refused(fleet, "crash")
        assert (
            error.code == "UPSTREAM_ERROR"
            and "unknown" in error.message
            and "stub" in error.message
        )
        with anyio.fail_after(20):
            after = (await fleet.call("stub", "whoami", {}))["structuredContent"]["pid"]
        assert after != before


async def test_a_crash_is_seen_though_a_grandchild_holds_the_pipes(tmp_path, monkeypatch):
    monkeypatch.setattr(stdio, "GRACE", 0.2)
    heir = tmp_path / "heir"
    async with fleet_of(tmp_path, "--grandchild", str(heir)) as fleet:
        error = await refused(fleet, "crash")
        assert "ended while crash ran" in error.message
        with anyio.fail_after(20):
            await fleet.call("stub", "ping", {})
    await until(lambda: not alive(int(heir.read_text(encoding="ascii"))))


async def test_a_server_that_floods_stderr_is_slowed_down_and_serves(tmp_path):
    async with fleet_of(tmp_path, "--flood", "2000000") as fleet:
        assert await fleet.call("stub", "ping", {})
    sizes = [file.stat().st_size for file in (tmp_path / "logs").iterdir()]
    assert sum(sizes) > 2_000_000


async def test_many_calls_after_a_crash_share_one_new_process(tmp_path):
    async with fleet_of(tmp_path) as fleet:
        await refused(fleet, "crash")
        pids = set()

        async def ask() -> None:
            pids.add((await fleet.call("stub", "whoami", {}))["structuredContent"]["pid"])

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(ask)
        assert len(pids) == 1


async def test_a_server_that_cannot_start_is_down_with_its_last_words(tmp_path):
    starts = str(tmp_path / "starts")
    async with fleet_of(tmp_path, "--starts", starts, "--fail", "1000") as fleet:
        server = fleet.catalog.servers["stub"]
        assert server.state == "down"
        assert server.error and "not this time" in server.error and "7" in server.error
        error = await refused(fleet, "echo")
        assert error.code == "SERVER_UNAVAILABLE" and error.retryable and error.retry_after_ms
        assert "stub" in error.message and "not this time" in error.message
        assert "not this time" in (tmp_path / "logs" / "server-stub.log").read_text(
            encoding="utf-8"
        )


async def test_a_call_to_a_server_that_is_down_has_it_tried_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "GAP", 0.0)
    monkeypatch.setattr(link, "FIRST_DELAY", 60.0)
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), "--fail", "1") as fleet:
        assert fleet.catalog.servers["stub"].state == "down"
        with anyio.fail_after(10):
            assert await fleet.call("stub", "ping", {})
        assert len(starts.read_text(encoding="ascii").split()) == 2


async def test_calls_in_a_row_do_not_start_a_broken_server_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "GAP", 60.0)
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), "--fail", "1000") as fleet:
        for _ in range(5):
            assert (await refused(fleet, "echo")).code == "SERVER_UNAVAILABLE"
        assert len(starts.read_text(encoding="ascii").split()) == 1


async def test_a_tool_that_is_not_there_once_the_server_is_has_close_names(tmp_path):
    async with open_stubs(tmp_path, stub("--slow-init", "0.2")) as fleet:
        error = await refused(fleet, "ech")
    assert error.code == "TOOL_NOT_FOUND" and "'echo'" in error.message


async def test_a_command_that_is_missing_is_named(tmp_path):
    async with open_stubs(tmp_path, wanted_command("no-such-program-here")) as fleet:
        error = await refused(fleet, "echo")
        status = fleet.status()[0]
    assert error.code == "SERVER_UNAVAILABLE" and "no-such-program-here" in error.message
    assert status["state"] == "down" and "no-such-program-here" in status["error"]


def wanted_command(command: str):
    return stub().model_copy(update={"command": command, "args": []})


@pytest.mark.threat("U3")
async def test_a_server_that_says_nothing_is_given_up_after_its_init_timeout(tmp_path):
    async with fleet_of(tmp_path, "--mute", init_timeout=100) as fleet:
        error = fleet.catalog.servers["stub"].error
    assert error == "it did not answer within 0.1 s (init_timeout)"


@ERAS
async def test_a_server_that_does_not_answer_pings_is_connected_anew(tmp_path, era):
    starts = tmp_path / "starts"
    flags = ("--era", era, "--deaf-to-pings", "--starts", str(starts))
    async with fleet_of(tmp_path, *flags, health_check_interval=20) as fleet:
        await until(lambda: len(starts.read_text(encoding="ascii").split()) >= 2)
        assert fleet is not None


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("grandchild", [False, True])
@pytest.mark.threat("U5")
async def test_no_process_is_left_when_the_fleet_has_closed(
    tmp_path, monkeypatch, stubborn, grandchild
):
    monkeypatch.setattr(stdio, "GRACE", 0.2)
    heir = tmp_path / "heir"
    flags = ["--stubborn"] * stubborn + ["--grandchild", str(heir)] * grandchild
    async with fleet_of(tmp_path, *flags) as fleet:
        pids = [await pid(fleet, "stub")]
        if grandchild:
            pids.append(int(heir.read_text(encoding="ascii")))
        assert all(alive(each) for each in pids)
        began = anyio.current_time()
    assert anyio.current_time() - began < 10
    await until(lambda: not any(alive(each) for each in pids))


@pytest.mark.threat("U5")
async def test_a_child_and_its_own_die_with_a_daemon_that_is_killed(tmp_path):
    starts, heir = tmp_path / "starts", tmp_path / "heir"
    flags = ("--stubborn", "--starts", str(starts), "--grandchild", str(heir))
    server = {**STUBS[0], "args": [*STUBS[0]["args"], *flags]}
    with home(mcpServers=[server], code_execution_pool_size=1) as place, place.serving() as daemon:
        assert daemon.execute("call_tool('stub', 'ping', {}).ok")["value"] is True
        pids = [int(each.read_text(encoding="ascii")) for each in (starts, heir)]
        assert all(map(alive, pids))
        daemon.process.kill()
        daemon.process.wait(WAIT)
        await until(lambda: not any(map(alive, pids)))


async def test_no_process_is_left_by_who_is_cancelled_twice_in_asyncio_s_own_way():
    program = stdio.Program(
        "stub", ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 9; done"], {}
    )
    children = []

    async def use() -> None:
        async with stdio.open_child(program, lambda lines: None, Warden(-1)) as child:
            children.append(child.process)
            await anyio.sleep_forever()

    using = asyncio.ensure_future(use())
    for _ in range(2):
        await anyio.wait_all_tasks_blocked()
        using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    with anyio.fail_after(10):
        assert await children[0].wait() == -signal.SIGKILL


async def test_a_server_that_closes_its_stdin_and_lives_on_is_given_up(monkeypatch):
    monkeypatch.setattr(stdio, "AFTERMATH", 0.01)
    code = "import os, time; os.close(0); time.sleep(600)"
    program = stdio.Program("deaf", [sys.executable, "-S", "-E", "-c", code], {})
    with anyio.fail_after(20):
        async with open_warden() as warden:
            async with stdio.open_child(program, lambda lines: None, warden) as child:
                while not child.writer.ended.is_set():
                    with suppress(anyio.BrokenResourceError):
                        child.writer.post(b"\n")
                    await anyio.lowlevel.checkpoint()
                with pytest.raises(anyio.ClosedResourceError):
                    await child.reader.receive()
                assert child.account() == "it closed its stdin"
                child.process.kill()
