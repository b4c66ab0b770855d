"""Calls to real servers, and what becomes of them when the server doesn't play along."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from upstreams import open_stubs, stub, wanted

from mcpproxy import gates
from mcpproxy.errors import CallError
from mcpproxy.policy import LOCAL
from mcpproxy.upstream import era as era_module
from mcpproxy.upstream import link
from mcpproxy.upstream.fleet import Fleet

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


async def until(true: Callable[[], bool | Awaitable[bool]], seconds: float = 5) -> None:
    """Wait for something that nobody announces."""
    with anyio.fail_after(seconds):
        while True:
            found = true()
            if found if isinstance(found, bool) else await found:
                return
            await anyio.lowlevel.checkpoint()


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and waits for its parent doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


@asynccontextmanager
async def fleet_of(tmp_path: Path, *flags: str, **settings: Any) -> AsyncIterator[Fleet]:
    async with open_stubs(tmp_path / "logs", stub(*flags, **settings)) as fleet:
        yield fleet


async def stats(fleet: Fleet) -> dict[str, Any]:
    result = await fleet.call("stub", "stats", {})
    found: dict[str, Any] = result["structuredContent"]
    return found


async def refused(
    fleet: Fleet,
    tool: str,
    arguments: dict[str, Any] | None = None,
    server: str = "stub",
    **more: Any,
) -> CallError:
    with anyio.fail_after(15), pytest.raises(CallError) as caught:
        await fleet.call(server, tool, arguments or {}, **more)
    return caught.value


# ── calls ───────────────────────────────────────────────────────────────────────────────────────


@ERAS
async def test_a_result_is_what_the_server_sent_without_the_envelope_of_its_era(tmp_path, era):
    async with fleet_of(tmp_path, "--era", era) as fleet:
        result = await fleet.call("stub", "add", {"a": 1, "b": 2})
    assert result == {
        "content": [{"type": "text", "text": '{"sum": 3}'}],
        "structuredContent": {"sum": 3},
    }


@ERAS
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": "no list"},
        {"content": [{"type": "unheard-of", "x": [1]}], "structuredContent": [1, 2], "isError": None},
        {"content": [], "_meta": {"own/key": 1}, "extra": {"deep": {"resultType": "mine"}}},
    ],
)  # fmt: skip
async def test_an_odd_result_comes_through_as_it_is(tmp_path, era, result):
    async with fleet_of(tmp_path, "--era", era) as fleet:
        assert await fleet.call("stub", "odd", {"result": result}) == result


async def test_a_tool_that_fails_is_a_result_and_a_protocol_error_is_not(tmp_path):
    async with fleet_of(tmp_path) as fleet:
        assert (await fleet.call("stub", "fail", {"message": "no"}))["isError"] is True
        error = await refused(fleet, "rpc_error", {"code": 4321, "message": "out of order"})
    assert error.code == "UPSTREAM_ERROR"
    assert all(part in error.message for part in ("stub", "out of order", "4321"))


@ERAS
async def test_started_is_told_once_before_the_server_hears_of_it(tmp_path, era):
    told = []
    async with fleet_of(tmp_path, "--era", era) as fleet:
        await fleet.call(
            "stub", "ping", {}, started=lambda: told.append(fleet.status()[0]["in_flight"])
        )
    assert told == [1]


@ERAS
async def test_progress_reaches_the_caller(tmp_path, era):
    seen: list[tuple[float, float | None, str | None]] = []
    all_seen = anyio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))
        if done == total:
            all_seen.set()

    async with fleet_of(tmp_path, "--era", era) as fleet:
        await fleet.call("stub", "progress", {"steps": 2}, progress=progress)
        with anyio.fail_after(5):
            await all_seen.wait()
    assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_what_a_caller_adds_as_meta_reaches_the_server(tmp_path):
    async with fleet_of(tmp_path) as fleet:
        result = await fleet.call("stub", "whoami", {}, meta={"traceparent": "00-1-2-3"})
    assert result["structuredContent"]["meta"]["traceparent"] == "00-1-2-3"


@ERAS
async def test_many_calls_are_in_flight_at_once(tmp_path, era):
    async with fleet_of(tmp_path, "--era", era) as fleet:
        scopes = []

        async def hang() -> None:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await fleet.call("stub", "hang", {})

        async def all_there() -> bool:
            return bool((await stats(fleet))["in_flight"] == 20)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(hang)
            await until(all_there)
            for scope in scopes:
                scope.cancel()


@ERAS
async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path, era):
    async with fleet_of(tmp_path, "--era", era) as fleet:
        on_wire = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: fleet.call("stub", "hang", {}, started=on_wire.set))
            await on_wire.wait()
            await until(lambda: in_flight(fleet))
            tasks.cancel_scope.cancel()
        await until(lambda: was_cancelled(fleet, "hang"))
        assert fleet.status()[0]["in_flight"] == 0


async def in_flight(fleet: Fleet) -> bool:
    return bool((await stats(fleet))["in_flight"])


async def was_cancelled(fleet: Fleet, tool: str) -> bool:
    return tool in (await stats(fleet))["cancelled"]


@pytest.mark.threat("U3")
async def test_a_call_that_takes_too_long_is_given_up_and_says_that_its_outcome_is_unknown(
    tmp_path,
):
    async with fleet_of(tmp_path, call_tool_timeout=50) as fleet:
        error = await refused(fleet, "hang")
        assert error.code == "UPSTREAM_TIMEOUT" and error.retryable
        assert "stub:hang" in error.message and "unknown" in error.message
        await until(lambda: was_cancelled(fleet, "hang"))


async def test_a_result_of_20_megabytes_comes_through(tmp_path):
    async with fleet_of(tmp_path) as fleet:
        with anyio.fail_after(10):
            result = await fleet.call("stub", "big", {"bytes": 20_000_000})
    assert len(result["content"][0]["text"]) == 20_000_000


async def test_arguments_of_20_megabytes_go_through(tmp_path):
    async with fleet_of(tmp_path) as fleet:
        with anyio.fail_after(20):
            result = await fleet.call("stub", "plain_text", {"text": "ä" * 10_000_000})
    assert len(result["content"][0]["text"]) == 10_000_000


async def test_half_a_surrogate_pair_goes_out_and_comes_back_readable(tmp_path):
    async with fleet_of(tmp_path) as fleet:
        result = await fleet.call("stub", "plain_text", {"text": "cut \ud83d"})
    result["content"][0]["text"].encode()
    assert result["content"][0]["text"].startswith("cut ")


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":%ID%,"result":[1]}',
        '{"jsonrpc":"2.0","id":%ID%,"result":null}',
        '{"jsonrpc":"2.0","id":%ID%,"error":"text"}',
        '{"jsonrpc":"2.0","id":%ID%}',
    ],
)
@pytest.mark.threat("U1")
async def test_a_response_that_breaks_the_protocol_fails_its_call_at_once(tmp_path, line):
    async with fleet_of(tmp_path) as fleet:
        error = await refused(fleet, "line", {"line": line})
        assert error.code == "UPSTREAM_ERROR" and "stub" in error.message
        assert await fleet.call("stub", "ping", {})


@pytest.mark.threat("U1")
async def test_a_second_answer_to_a_call_is_nobodys(tmp_path):
    answer = '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[],"n":'
    async with fleet_of(tmp_path) as fleet:
        line = f"{answer}1}}}}\n{answer}2}}}}"
        assert (await fleet.call("stub", "line", {"line": line}))["n"] == 1
        for n in range(3):
            assert (await fleet.call("stub", "echo", {"n": n}))["structuredContent"] == {"n": n}


async def test_lines_that_are_no_messages_do_no_harm(tmp_path):
    async with fleet_of(tmp_path, "--noise") as fleet:
        assert (await fleet.call("stub", "noise", {}))["content"][0]["text"] == "after the noise"


# ── servers that end ────────────────────────────────────────────────────────────────────────────


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
        with anyio.fail_after(5):
            after = (await fleet.call("stub", "whoami", {}))["structuredContent"]["pid"]
        assert after != before


async def test_a_crash_is_seen_though_a_grandchild_holds_the_pipes(tmp_path):
    heir = tmp_path / "heir"
    async with fleet_of(tmp_path, "--grandchild", str(heir)) as fleet:
        error = await refused(fleet, "crash")
        assert "ended while crash ran" in error.message
        with anyio.fail_after(5):
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

        with anyio.fail_after(5):
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
        assert "not this time" in (tmp_path / "logs" / "stub.log").read_text(encoding="utf-8")


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


# ── settings ────────────────────────────────────────────────────────────────────────────────────


async def test_a_disabled_server_is_listed_and_not_started(tmp_path):
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), enabled=False) as fleet:
        assert fleet.catalog.servers["stub"].state == "disabled"
        error = await refused(fleet, "echo")
    assert (
        error.code == "SERVER_UNAVAILABLE"
        and "disabled" in error.message
        and "mcpproxy upstream enable stub" in error.message
    )
    assert not starts.exists()


async def test_a_lazy_server_is_started_by_its_first_call(tmp_path):
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), lazy=True) as fleet:
        assert fleet.catalog.servers["stub"].state == "lazy" and not starts.exists()
        assert await fleet.call("stub", "ping", {})
        assert fleet.catalog.servers["stub"].state == "ready"


async def test_a_lazy_server_is_let_go_when_nobody_uses_it_and_comes_back_for_a_call(tmp_path):
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), lazy=True, idle_timeout=100) as fleet:
        first = await pid(fleet, "stub")
        await until(lambda: fleet.catalog.servers["stub"].state == "lazy")
        await until(lambda: not alive(first))
        assert "ping" in fleet.catalog.servers["stub"].tools
        assert fleet.status()[0]["listing"] == "kept"
        assert len(starts.read_text(encoding="ascii").split()) == 1
        assert await pid(fleet, "stub") != first


async def test_a_lazy_server_is_not_let_go_while_a_call_runs(tmp_path):
    async with fleet_of(tmp_path, lazy=True, idle_timeout=50) as fleet:
        first = await pid(fleet, "stub")
        result = await fleet.call("stub", "sleep", {"ms": 300})
        assert result["structuredContent"] == {"slept": 300} and first


async def test_a_lazy_server_that_crashed_waits_for_its_next_call(tmp_path):
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), lazy=True) as fleet:
        await refused(fleet, "crash")
        await until(lambda: fleet.catalog.servers["stub"].state == "lazy")
        assert len(starts.read_text(encoding="ascii").split()) == 1
        assert await fleet.call("stub", "ping", {})


async def test_a_lazy_server_that_does_not_start_is_tried_by_calls_only(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "GAP", 0.0)
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), "--fail", "1", lazy=True) as fleet:
        error = await refused(fleet, "ping")
        assert error.code == "SERVER_UNAVAILABLE" and "the next call tries again" in error.message
        assert fleet.catalog.servers["stub"].state == "down"
        assert fleet.status()[0]["next_attempt_in_seconds"] is None
        assert await fleet.call("stub", "ping", {})


async def test_the_last_list_of_a_lazy_server_is_known_before_it_is_connected(tmp_path):
    kept, starts = tmp_path / "listings", tmp_path / "starts"
    server = stub("--starts", str(starts), lazy=True)
    async with open_stubs(tmp_path, server, state=tmp_path) as fleet:
        assert fleet.status()[0]["listing"] is None
        await fleet.call("stub", "ping", {})
        assert fleet.status()[0]["listing"] == "live"
        await until(lambda: any(kept.glob("*.json")))
        tools = dict(fleet.catalog.servers["stub"].tools)
    (file,) = kept.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and kept.stat().st_mode & 0o777 == 0o700
    os.utime(file, (0, 0))
    async with open_stubs(tmp_path, server, state=tmp_path) as fleet:
        found = fleet.catalog.servers["stub"]
        assert found.state == "lazy" and found.error is None
        assert found.tools == tools and found.instructions == "Stub instructions."
        status = fleet.status()[0]
        assert status["listing"] == "kept" and status["listing_age_seconds"] > 1e9
        assert len(starts.read_text(encoding="ascii").split()) == 1
        assert gates.find(fleet.catalog, LOCAL, "stub", "ping") is not None
        assert await fleet.call("stub", "ping", {})
        assert fleet.status()[0]["listing_age_seconds"] < 60


async def test_the_last_list_of_a_server_that_is_down_is_known_and_a_change_is_kept(tmp_path):
    kept, starts = tmp_path / "listings", tmp_path / "starts"
    flags = "--starts", str(starts), "--fail", "1"
    starts.write_text("1\n", encoding="ascii")
    async with open_stubs(tmp_path, stub(*flags), state=tmp_path) as fleet:
        await fleet.call("stub", "grow", {"name": "grown"})
        await until(
            lambda: any('"grown"' in one.read_text(encoding="utf-8") for one in kept.glob("*.json"))
        )
    starts.unlink()
    async with open_stubs(tmp_path, stub(*flags), state=tmp_path) as fleet:
        assert fleet.catalog.servers["stub"].state == "down"
        assert "grown" in fleet.catalog.servers["stub"].tools
        assert fleet.status()[0]["listing"] == "kept"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"of": 1}', "[" * 100_000])
async def test_a_kept_list_that_cannot_be_used_is_as_good_as_none(tmp_path, text):
    kept, server = tmp_path / "listings", stub(lazy=True)
    kept.mkdir()
    (kept / "stub.json").write_text(text, encoding="utf-8")
    async with open_stubs(tmp_path, server, state=tmp_path) as fleet:
        assert not fleet.catalog.servers["stub"].tools
        assert await fleet.call("stub", "ping", {})


async def test_a_kept_list_is_of_one_command_and_shown_of_no_server_at_rest(tmp_path):
    kept = tmp_path / "listings"
    async with open_stubs(tmp_path, stub(), state=tmp_path):
        await until(lambda: any(kept.glob("*.json")))
    for server in (stub("--noise", lazy=True), stub(enabled=False), stub(quarantined=True)):
        async with open_stubs(tmp_path, server, state=tmp_path) as fleet:
            assert not fleet.catalog.servers["stub"].tools


async def test_a_quarantined_server_is_not_started(tmp_path):
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), quarantined=True) as fleet:
        assert (await refused(fleet, "echo")).code == "QUARANTINED"
    assert not starts.exists()


async def test_settings_that_change_connect_and_let_go_of_no_more_than_they_say(tmp_path):
    keep, go = stub(name="keep"), stub(name="go")
    async with open_stubs(tmp_path, keep, go) as fleet:
        before = await pid(fleet, "keep")
        gone = await pid(fleet, "go")
        limited = keep.model_copy(update={"max_concurrent_requests": 3})
        fleet.become(wanted(limited, stub(name="come")))
        fleet.become(wanted(limited, stub(name="come")))
        assert list(fleet.catalog.servers) == ["keep", "come"]
        with anyio.fail_after(10):
            await fleet.settled()
        assert await pid(fleet, "keep") == before
        assert await pid(fleet, "come") != before
        await until(lambda: not alive(gone))


async def pid(fleet: Fleet, server: str) -> int:
    found: int = (await fleet.call(server, "whoami", {}))["structuredContent"]["pid"]
    return found


@pytest.mark.parametrize("after", [(), (stub(env={"A": "1"}),), (stub(enabled=False),)])
async def test_a_call_in_flight_finishes_though_its_server_goes_or_changes(tmp_path, after):
    async with fleet_of(tmp_path) as fleet:
        before = await pid(fleet, "stub")
        on_wire = anyio.Event()
        results = []

        async def call() -> None:
            results.append(await fleet.call("stub", "sleep", {"ms": 200}, started=on_wire.set))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await on_wire.wait()
            fleet.become(wanted(*after))
            assert alive(before)
        assert not results[0].get("isError")
        await until(lambda: not alive(before))
        if not after:
            assert (await refused(fleet, "echo")).code == "SERVER_NOT_FOUND"


async def test_a_call_that_outlives_its_server_has_no_more_than_its_own_time(tmp_path):
    async with fleet_of(tmp_path, call_tool_timeout=300) as fleet:
        before = await pid(fleet, "stub")
        on_wire = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(refused, fleet, "hang", started=on_wire.set))
            await on_wire.wait()
            fleet.become(wanted())
        await until(lambda: not alive(before))


async def test_a_restart_gives_another_process(tmp_path):
    async with fleet_of(tmp_path) as fleet:
        before = await pid(fleet, "stub")
        with anyio.fail_after(5):
            await fleet.restart("stub")
        assert await pid(fleet, "stub") != before


@pytest.mark.threat("U2")
async def test_a_server_sees_its_settings_and_little_else(tmp_path):
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/",
        "SECRET": "hunter22",
        "TOKEN": "s3cr3t-value",
    }
    server = stub(env={"MINE": "Bearer ${env:TOKEN}"})
    async with open_stubs(tmp_path, server, environ=environ) as fleet:
        seen = (await fleet.call("stub", "environment", {}))["structuredContent"]
    seen.pop("LC_CTYPE", None)  # Python's own doing
    assert seen == {"PATH": environ["PATH"], "HOME": "/", "MINE": "Bearer s3cr3t-value"}


async def test_a_variable_that_is_not_set_is_named_and_nothing_is_started(tmp_path):
    starts = tmp_path / "starts"
    async with fleet_of(
        tmp_path, "--starts", str(starts), env={"X": "${env:NOT_SET_HERE}"}
    ) as fleet:
        error = fleet.catalog.servers["stub"].error
    assert error and "NOT_SET_HERE" in error and "env.X" in error
    assert not starts.exists()


async def test_limits_hold_and_name_the_server(tmp_path):
    async with fleet_of(tmp_path, max_concurrent_requests=1) as fleet:
        on_wire = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: fleet.call("stub", "hang", {}, started=on_wire.set))
            await on_wire.wait()
            told: list[int] = []
            error = await refused(fleet, "ping", started=lambda: told.append(1))
            tasks.cancel_scope.cancel()
        assert error.code == "queue_full" and "stub" in error.message and not told
        assert await fleet.call("stub", "ping", {})


async def test_the_limit_of_all_servers_together_counts_every_server(tmp_path):
    async with open_stubs(
        tmp_path, stub(name="a"), stub(name="b"), max_concurrent_requests=1
    ) as fleet:
        on_wire = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: fleet.call("a", "hang", {}, started=on_wire.set))
            await on_wire.wait()
            error = await refused(fleet, "ping", server="b")
            tasks.cancel_scope.cancel()
        assert error.code == "queue_full" and "b:ping" in error.message
        assert await fleet.call("b", "ping", {})


# ── lists ───────────────────────────────────────────────────────────────────────────────────────


@ERAS
async def test_a_list_that_changes_is_seen_at_once_and_new_tools_come_last(tmp_path, era):
    async with fleet_of(tmp_path, "--era", era) as fleet:
        before = list(fleet.catalog.servers["stub"].tools)
        versions: list[int] = []
        stop = fleet.listen(lambda catalog: versions.append(catalog.version))
        await fleet.call("stub", "grow", {"name": "aardvark", "at": 0})
        await until(lambda: bool(versions))
        assert list(fleet.catalog.servers["stub"].tools) == [*before, "aardvark"]
        assert versions == [fleet.catalog.version]
        stop()


async def test_odd_tools_are_listed_as_they_are_and_those_without_a_name_are_left_out(tmp_path):
    async with fleet_of(tmp_path, "--malformed") as fleet:
        tools = fleet.catalog.servers["stub"].tools
        assert tools["no_schema"].definition["x-own"] == {"kept": [1, None]}
        assert tools["no_schema"].input_schema is None and tools["odd_schema"].input_schema == {}
        assert all(isinstance(name, str) for name in tools)


async def test_all_pages_of_a_list_are_read(tmp_path):
    async with fleet_of(tmp_path, "--tools", "95", "--page", "10") as fleet:
        tools = fleet.catalog.servers["stub"].tools
        assert [name for name in tools if name.startswith("tool_")] == [
            f"tool_{n}" for n in range(95)
        ]
        assert fleet.catalog.servers["stub"].instructions == "Stub instructions."


async def test_the_wait_for_a_server_that_ignores_the_first_question_is_paid_once(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(era_module, "PROBE_SECONDS", 0.1)
    async with fleet_of(tmp_path, "--era", "legacy", "--silent") as fleet:
        assert fleet.status()[0]["protocol_version"] == "2025-11-25"
        monkeypatch.setattr(era_module, "PROBE_SECONDS", 60.0)
        with anyio.fail_after(10):
            await fleet.restart("stub")
            assert await fleet.call("stub", "ping", {})


async def test_a_lazy_server_is_not_probed_anew_when_the_daemon_is(tmp_path, monkeypatch):
    monkeypatch.setattr(era_module, "PROBE_SECONDS", 0.1)
    server = stub("--era", "legacy", "--silent", lazy=True)
    (state := tmp_path / "state").mkdir()
    for probe in (0.1, 60.0):
        monkeypatch.setattr(era_module, "PROBE_SECONDS", probe)
        async with open_stubs(tmp_path, server, state=state) as fleet:
            with anyio.fail_after(10):
                assert await fleet.call("stub", "ping", {})
            await until(lambda: any((state / "listings").glob("*.json")))
    monkeypatch.setattr(link, "ERA_SECONDS", 0.0)
    monkeypatch.setattr(era_module, "PROBE_SECONDS", 0.1)
    async with open_stubs(tmp_path, server, state=state) as fleet:
        began = anyio.current_time()
        assert await fleet.call("stub", "ping", {})
        assert anyio.current_time() - began > 0.1


@pytest.mark.parametrize(
    ("era", "version"), [("legacy", "2025-11-25"), ("modern", "2026-07-28"), ("both", "2026-07-28")]
)
async def test_each_era_is_found_out(tmp_path, era, version):
    async with fleet_of(tmp_path, "--era", era) as fleet:
        assert fleet.status()[0]["protocol_version"] == version


async def test_a_modern_server_that_is_slow_to_answer_the_first_question_is_found_out(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(era_module, "PROBE_SECONDS", 0.05)
    async with fleet_of(tmp_path, "--era", "modern", "--slow-init", "0.2") as fleet:
        assert fleet.status()[0]["protocol_version"] == "2026-07-28"


async def test_an_error_in_the_block_comes_out_as_it_is(tmp_path):
    with pytest.raises(LookupError):
        async with fleet_of(tmp_path):
            raise LookupError


async def test_a_setting_says_which_era_to_speak(tmp_path):
    async with fleet_of(tmp_path, era="legacy") as fleet:
        assert fleet.status()[0]["protocol_version"] == "2025-11-25"


# ── what is left behind ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("grandchild", [False, True])
@pytest.mark.threat("U5")
async def test_no_process_is_left_when_the_fleet_has_closed(tmp_path, stubborn, grandchild):
    heir = tmp_path / "heir"
    flags = ["--stubborn"] * stubborn + ["--grandchild", str(heir)] * grandchild
    async with fleet_of(tmp_path, *flags) as fleet:
        pids = [await pid(fleet, "stub")]
        if grandchild:
            pids.append(int(heir.read_text(encoding="ascii")))
        assert all(alive(each) for each in pids)
        deadline = anyio.current_time() + 3
    await until(lambda: not any(alive(each) for each in pids), deadline - anyio.current_time())


@pytest.mark.threat("U5")
async def test_a_child_and_its_own_die_with_a_daemon_that_is_killed(tmp_path):
    starts, heir = tmp_path / "starts", tmp_path / "heir"
    flags = ("--stubborn", "--starts", str(starts), "--grandchild", str(heir))
    program = f"""
import anyio, sys
from pathlib import Path
from upstreams import open_stubs, stub
async def main():
    async with open_stubs(Path({str(tmp_path)!r}), stub(*{flags!r})):
        print("up", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    here = str(Path(__file__).parent)
    async with await anyio.open_process([sys.executable, "-c", program], cwd=here) as daemon:
        assert daemon.stdout is not None
        with anyio.fail_after(20):
            await daemon.stdout.receive()
        pids = [int(each.read_text(encoding="ascii")) for each in (starts, heir)]
        assert all(map(alive, pids))
        daemon.send_signal(signal.SIGKILL)
        await until(lambda: not any(map(alive, pids)))
