"""Which servers run, with which settings, and what they list."""

from __future__ import annotations

import os
from functools import partial

import anyio
import pytest
from upstreams import ERAS, alive, fleet_of, open_stubs, pid, refused, stub, until, wanted

from mcpproxy.upstream import era as era_module


async def test_a_disabled_server_is_listed_and_not_started(tmp_path):
    starts = tmp_path / "starts"
    async with fleet_of(tmp_path, "--starts", str(starts), enabled=False) as fleet:
        assert fleet.catalog.servers["stub"].state == "disabled"
        error = await refused(fleet, "echo")
    assert (
        error.code == "SERVER_UNAVAILABLE"
        and "disabled" in error.message
        and "mcpproxy upstream enable stub" in error.message
        and not error.retryable
    )
    assert not starts.exists()


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
        with anyio.fail_after(20):
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


async def test_a_reason_that_stays_the_same_is_logged_once(tmp_path, caplog):
    caplog.set_level("DEBUG", logger="mcpproxy")
    async with fleet_of(tmp_path, env={"S": "${env:NO_SUCH_VARIABLE}"}) as fleet:
        for _ in range(3):
            await fleet.restart("stub")
    down = [each for each in caplog.records if "is down" in each.getMessage()]
    assert len(down) > 1
    assert [each.levelname for each in down].count("WARNING") == 1


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
        assert all(name and isinstance(name, str) for name in tools)


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
