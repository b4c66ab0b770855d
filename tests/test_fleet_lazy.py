"""Servers that are started by need, and what is known of those that don't run."""

from __future__ import annotations

import os

import anyio
import pytest
from upstreams import alive, fleet_of, open_stubs, pid, refused, stub, until

from mcpproxy import gates
from mcpproxy.policy import LOCAL
from mcpproxy.settings import ServerSettings
from mcpproxy.upstream import era as era_module
from mcpproxy.upstream import link
from mcpproxy.upstream.listing import Shelf


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


async def test_the_last_list_of_another_document_is_none_of_this_one_s(tmp_path):
    server = {"name": "api", "protocol": "openapi", "document": "/one.yaml"}
    one, other, less = (
        ServerSettings.model_validate({**server, **change})
        for change in ({}, {"document": "/other.yaml"}, {"exclude": ["tag:admin"]})
    )
    Shelf(tmp_path, one).save([{"name": "ping"}], None)
    assert Shelf(tmp_path, one).load() is not None
    assert Shelf(tmp_path, other).load() is None and Shelf(tmp_path, less).load() is None


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
