"""What an MCP connection is beside its calls: handshakes and revisions, news of changes, and its end."""

from __future__ import annotations

import json
from types import SimpleNamespace

import anyio
import pytest
from fakes import FakeDaemon, catalog
from mcp_face import (
    ALICE,
    ERAS,
    connected,
    conversation,
    http_client,
    pipe,
    read_lines,
    served,
)
from mcp_types import ToolListChangedNotification

from mcpproxy import framing
from mcpproxy.audience import Audience
from mcpproxy.policy import Caller
from mcpproxy.proxy import open_mcp
from mcpproxy.toolbox import Call

BOB = Caller("bob", "token", frozenset({"demo"}))
EVE = Caller("eve", "token", frozenset({"payroll"}))


@pytest.fixture
def daemon():
    return FakeDaemon(catalog(demo=["echo", "add", "wait"], github=["list_issues"]))


@pytest.mark.parametrize("way", ["http", "pipe"])
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_legacy_revision_is_answered_in_kind(daemon, tmp_path, way, version):
    async with open_mcp(daemon) as face, pipe(face) as stream:
        for line in conversation("legacy", "code_execution", {"code": "1"}):
            if line["method"] == "initialize":
                line["params"]["protocolVersion"] = version
            await stream.send(json.dumps(line).encode() + b"\n")
        answers = await read_lines(stream, 2)
    assert answers[0]["result"]["protocolVersion"] == version
    assert answers[0]["result"]["capabilities"]["tools"] == {"listChanged": True}
    assert set(answers[1]["result"]) == {"content", "isError"}


async def test_the_newest_revision_gets_its_envelope(daemon):
    async with open_mcp(daemon) as face, pipe(face) as stream:
        for line in conversation("2026-07-28", "demo__echo", {"a": None}):
            await stream.send(json.dumps(line).encode() + b"\n")
        (called,) = await read_lines(stream, 1)
        listing = {**line, "id": 3, "method": "tools/list"}
        await stream.send(json.dumps(listing).encode() + b"\n")
        (listed,) = await read_lines(stream, 1)
    assert called["result"]["resultType"] == "complete" and called["result"]["x-own"] == 1
    assert called["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mcpproxy"
    assert listed["result"]["cacheScope"] == "public" and listed["result"]["ttlMs"] > 0


async def test_nothing_is_answered_before_the_handshake(daemon):
    async with open_mcp(daemon) as face, pipe(face) as stream:
        call = {"name": "code_execution", "arguments": {"code": "1"}}
        for method, params in (("tools/call", call), ("tools/list", {})):
            line = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            await stream.send(json.dumps(line).encode() + b"\n")
        assert all("error" in answer for answer in await read_lines(stream, 2))
    assert daemon.executed == []


@pytest.mark.parametrize("params", [{"name": 7}, {}, {"name": "x", "arguments": []}])
async def test_a_malformed_call_is_a_protocol_error(daemon, params):
    async with open_mcp(daemon) as face, pipe(face) as stream:
        for line in conversation("legacy", "x", {}):
            if line["method"] == "tools/call":
                line["params"] = params
            await stream.send(json.dumps(line).encode() + b"\n")
        answers = await read_lines(stream, 2)
    assert answers[1]["error"]["code"] == -32602


async def test_without_a_guard_in_front_nobody_is_served(daemon):
    unguarded = SimpleNamespace(params={"name": "x"}, request=SimpleNamespace(scope={}))
    with pytest.raises(KeyError):
        Call.of(unguarded)


@pytest.mark.req("REQ-STOP-07")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("end", ["send_eof", "aclose"])
async def test_a_closed_pipe_stops_the_work(daemon, era, end, monkeypatch):
    monkeypatch.setattr(framing, "LAST_SECONDS", 0)
    async with open_mcp(daemon) as face, pipe(face) as stream:
        for line in conversation(era, "code_execution", {"code": "wait"}):
            await stream.send(json.dumps(line).encode() + b"\n")
        with anyio.fail_after(5):
            await daemon.started.wait()
            await getattr(stream, end)()
            await daemon.cancelled.wait()


async def test_legacy_clients_of_the_catalog_hear_of_a_change(daemon, tmp_path):
    heard = anyio.Event()

    async def hear(message):
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    way = connected(daemon, tmp_path, "http", "legacy", "/mcp/all", message_handler=hear)
    async with way as client:
        await client.list_tools()
        with anyio.fail_after(5):
            while not heard.is_set():
                # The client opens its stream for notices in its own time.
                count = daemon.fleet.catalog.version + 1
                daemon.fleet.show(catalog(count, demo=["echo", f"new{count}"]))
                await anyio.wait_all_tasks_blocked()
                # Or nobody has a turn while all of them wait for the network.
                await anyio.lowlevel.checkpoint()
        assert "demo__echo" in [tool.name for tool in (await client.list_tools()).tools]


async def test_modern_clients_of_the_catalog_hear_of_a_change(daemon, tmp_path):
    async with (
        connected(daemon, tmp_path, "http", "2026-07-28", "/mcp/all") as client,
        client.listen(tools_list_changed=True) as events,
    ):
        daemon.fleet.show(catalog(2, demo=["echo", "new"]))
        with anyio.fail_after(5):
            await anext(aiter(events))
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "demo__echo",
            "demo__new",
            "read_result",
        ]


@pytest.mark.threat("L5")
async def test_a_client_hears_of_a_change_of_what_it_sees_and_of_no_other(daemon, tmp_path):
    async with (
        open_mcp(daemon) as face,
        served(face, tmp_path, BOB) as socket,
        http_client(socket, "2026-07-28", "/mcp/all") as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True) as events,
    ):
        tools = ["echo", "add", "wait"]
        daemon.fleet.show(catalog(2, demo=tools, github=["list_issues", "new"]))
        daemon.listings.changed("github", "prompts")
        await anyio.wait_all_tasks_blocked()
        daemon.fleet.show(catalog(3, demo=["echo"], github=["list_issues"]))
        await anyio.wait_all_tasks_blocked()
        face.close()
        with anyio.fail_after(5):
            assert [type(event).__name__ async for event in events] == ["ToolsListChanged"]


@pytest.mark.threat("L5")
def test_whom_a_change_concerns():
    tools = {ALICE.scope: ["a"], BOB.scope: ["a"], EVE.scope: []}
    audience = Audience(lambda caller: list(tools[caller.scope]))
    for holder, caller in (("alice", ALICE), ("bob", BOB), ("eve", EVE)):
        audience.join(holder, caller)
    assert list(audience.concerned({})) == []
    tools[BOB.scope] = ["a", "b"]
    told = audience.concerned({"prompts": {"github"}, "resources": set()})
    assert list(told) == [("alice", "prompts"), ("bob", "tools")]
    tools[EVE.scope] = tools[BOB.scope] = ["b"]
    audience.leave("bob")
    assert list(audience.concerned({})) == [("eve", "tools")]


async def test_closing_ends_the_streams_that_clients_hold_open(daemon, tmp_path):
    async with (
        open_mcp(daemon) as face,
        served(face, tmp_path) as socket,
        http_client(socket, "legacy") as old,
        http_client(socket, "2026-07-28") as new,
        new.listen(tools_list_changed=True) as events,
    ):
        await old.list_tools()
        face.close()
        with anyio.fail_after(5):
            assert [event async for event in events] == []
