"""The MCP face with the SDK's own client, in both eras, over HTTP on a Unix socket and a pipe."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, nullcontext
from types import SimpleNamespace

import anyio
import httpx2
import pytest
import uvicorn
from anyio.streams.stapled import StapledByteStream
from fakes import FakeDaemon, catalog, server
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import ToolListChangedNotification, jsonrpc_message_adapter

from mcpproxy import offer
from mcpproxy.audience import Audience
from mcpproxy.catalog import Catalog
from mcpproxy.errors import CallError
from mcpproxy.policy import Caller
from mcpproxy.proxy import open_mcp
from mcpproxy.settings import Settings
from mcpproxy.toolbox import Call

ERAS = ("legacy", "2026-07-28")
WAYS = [(way, era) for way in ("http", "pipe") for era in ERAS]
FIVE = ["code_execution", "search_tools", "get_functions", "list_servers", "run_cached_code"]
ALICE = Caller("alice", "token")
BOB = Caller("bob", "token", frozenset({"demo"}))
EVE = Caller("eve", "token", frozenset({"payroll"}))


@pytest.fixture
def daemon():
    return FakeDaemon(catalog(demo=["echo", "add", "wait"], github=["list_issues"]))


class Door:
    """Stands where the guard stands, and lets everyone in as the same caller."""

    def __init__(self, face, caller):
        self.caller = caller
        self.apps = {path: face.app(path) for path in ("/mcp", "/mcp/call", "/mcp/all")}

    async def __call__(self, scope, receive, send):
        scope["state"] = {"caller": self.caller, "request_id": "r-1"}
        await self.apps[scope["path"]](scope, receive, send)


class Quiet(uvicorn.Server):
    """Leaves signals alone and says when it listens."""

    def __init__(self, config):
        super().__init__(config)
        self.listening = anyio.Event()

    def capture_signals(self):
        return nullcontext()

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def served(face, tmp_path, caller=ALICE):
    """The faces over real HTTP."""
    socket = tmp_path / "mcp.sock"
    config = uvicorn.Config(
        Door(face, caller),
        uds=str(socket),
        lifespan="off",
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    server = Quiet(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        with anyio.fail_after(5):
            await server.listening.wait()
        try:
            yield socket
        finally:
            face.close()
            server.should_exit = True


@asynccontextmanager
async def http_client(socket, era, path="/mcp", **options):
    transport = httpx2.AsyncHTTPTransport(uds=str(socket))
    async with httpx2.AsyncClient(transport=transport, timeout=5) as http:
        streams = streamable_http_client(f"http://localhost{path}", http_client=http)
        async with Client(streams, mode=era, cache=None, **options) as client:
            yield client


class Wire:
    """Two byte streams that end where the other side begins."""

    def __init__(self):
        self.sends, self.receives = anyio.create_memory_object_stream[bytes](1000)

    async def receive(self, max_bytes=65536):
        return await self.receives.receive()

    async def send(self, data):
        await self.sends.send(data)

    async def send_eof(self):
        self.sends.close()

    async def aclose(self):
        self.sends.close()
        self.receives.close()


@asynccontextmanager
async def pipe(face):
    """A client's end of a served pipe: bytes to send, bytes to read."""
    there, back = Wire(), Wire()

    async def serve():
        await face.serve_pipe(there, back)
        await back.send_eof()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield StapledByteStream(there, back)
        finally:
            await there.send_eof()
            tasks.cancel_scope.cancel()
            for wire in (there, back):
                await wire.aclose()


@asynccontextmanager
async def as_messages(stream):
    """The SDK's client transport over a byte stream."""
    into, incoming = anyio.create_memory_object_stream(0)
    outgoing, out_of = anyio.create_memory_object_stream(0)

    async def read():
        rest = b""
        async with into:
            async for chunk in stream:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await into.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

    async def write():
        async with out_of:
            async for message in out_of:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(text.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()
            incoming.close()
            outgoing.close()


@asynccontextmanager
async def connected(daemon, tmp_path, way, era, path="/mcp", **options):
    async with open_mcp(daemon) as face:
        if way == "http":
            async with served(face, tmp_path) as socket:
                async with http_client(socket, era, path, **options) as client:
                    yield client
        else:
            async with (
                pipe(face) as stream,
                Client(as_messages(stream), mode=era, cache=None, **options) as client,
            ):
                yield client


def said(result) -> str:
    assert [block.type for block in result.content] == ["text"]
    return result.content[0].text


@pytest.mark.req("REQ-REPLY-05", "REQ-REPLY-07")
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_a_program_runs_on_every_surface_in_both_eras(daemon, tmp_path, way, era):
    async with connected(daemon, tmp_path, way, era) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == FIVE
        result = await client.call_tool("code_execution", {"code": "1", "input": {"a": 2}})
    assert json.loads(said(result)) == {"ok": True, "value": "1"}
    assert not result.is_error
    assert result.structured_content is None
    body, caller, request_id = daemon.executed[0]
    assert body == {"code": "1", "input": {"a": 2}}
    assert caller == ("alice" if way == "http" else "local")
    assert request_id == "r-1" or way == "pipe"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"code": "fail"}, "RUNTIME_ERROR"),
        ({}, "INVALID_REQUEST"),
        ({"code": "bug"}, "INTERNAL_ERROR"),
    ],
)
async def test_what_fails_is_an_error_with_its_envelope(daemon, tmp_path, era, arguments, code):
    async with connected(daemon, tmp_path, "pipe", era) as client:
        result = await client.call_tool("code_execution", arguments)
    envelope = json.loads(said(result))
    assert result.is_error and envelope["ok"] is False and envelope["error"]["code"] == code
    assert "secret" not in said(result)


@pytest.mark.req("REQ-PROG-01", "REQ-PROG-02")
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_progress_reaches_a_client_that_asked_for_it(daemon, tmp_path, way, era):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, total, message))

    async with connected(daemon, tmp_path, way, era) as client:
        await client.call_tool("code_execution", {"code": "report"}, progress_callback=hear)
        await client.call_tool("code_execution", {"code": "silent"})
        await client.call_tool("demo__echo", {}, progress_callback=hear)
    assert heard == [(1, None, "demo:echo"), (2, None, "demo:add"), (1, 2, "half")]


@pytest.mark.req("REQ-STOP-04", "REQ-STOP-05", "REQ-STOP-06")
@pytest.mark.parametrize(("way", "era"), WAYS)
@pytest.mark.parametrize("tool", ["code_execution", "demo__wait"])
async def test_a_client_that_gives_up_stops_the_work(daemon, tmp_path, way, era, tool):
    async with connected(daemon, tmp_path, way, era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, tool, {"code": "wait"})
            with anyio.fail_after(5):
                await daemon.started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await daemon.cancelled.wait()
        assert (await client.call_tool("code_execution", {"code": "1"})).is_error is False


@pytest.mark.req("REQ-STOP-07")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("end", ["send_eof", "aclose"])
async def test_a_closed_pipe_stops_the_work(daemon, era, end):
    async with open_mcp(daemon) as face, pipe(face) as stream:
        for line in conversation(era, "code_execution", {"code": "wait"}):
            await stream.send(json.dumps(line).encode() + b"\n")
        with anyio.fail_after(5):
            await daemon.started.wait()
            await getattr(stream, end)()
            await daemon.cancelled.wait()


def conversation(era, tool, arguments):
    """The lines of a client that calls one tool."""
    params = {"name": tool, "arguments": arguments}
    if era == "legacy":
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": WHO}
        yield {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    else:
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {f"{prefix}protocolVersion": era, f"{prefix}clientCapabilities": {}}
    yield {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


WHO = {"name": "test", "version": "1"}
DIRECT = ["demo__echo", "demo__add", "demo__wait", "github__list_issues"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/mcp", FIVE),
        ("/mcp/call", ["search_tools", "get_functions", "call_tool"]),
        ("/mcp/all", [*DIRECT, "read_result"]),
    ],
)
@pytest.mark.parametrize("era", ERAS)
async def test_each_face_has_its_list(daemon, tmp_path, era, path, names):
    async with connected(daemon, tmp_path, "http", era, path) as client:
        first, second = await client.list_tools(), await client.list_tools()
        assert [tool.name for tool in first.tools] == names
        assert first.model_dump_json() == second.model_dump_json()
        with pytest.raises(MCPError, match="cursor"):
            await client.list_tools(cursor="2")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/call", "/mcp/all"])
@pytest.mark.parametrize("name", ["demo__echo", "demo:echo", "demo.echo", "demo/echo"])
async def test_an_upstream_tool_can_be_called_on_every_face(daemon, tmp_path, path, name):
    async with connected(daemon, tmp_path, "http", "2026-07-28", path) as client:
        result = await client.call_tool(name, {"a": 1}, meta={"traceparent": "t"})
    assert json.loads(said(result)) == {"a": 1}
    assert daemon.called == [("demo", "echo", {"a": 1}, {"traceparent": "t"})]


LONG = {
    "content": [{"type": "text", "text": "x" * 30}, {"type": "text", "text": "y" * 30}],
    "structuredContent": {"a": "x" * 30},
    "isError": True,
    "_meta": {"own": 1},
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("path", "tool", "arguments", "reader"),
    [
        ("/mcp/all", "demo__echo", {}, "read_result"),
        ("/mcp", "demo__echo", {}, "read_result"),
        ("/mcp/call", "call_tool", {"name": "demo:echo"}, "call_tool"),
    ],
)
async def test_a_long_result_is_cut_and_read_on(
    daemon, tmp_path, era, path, tool, arguments, reader
):
    daemon.results["echo"] = LONG
    daemon.settings = Settings(tool_response_limit=40)
    async with connected(daemon, tmp_path, "http", era, path) as client:
        if path != "/mcp":
            assert reader in [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool(tool, arguments)
        first, second, note = [block.text for block in result.content]
        assert (first, second) == ("x" * 30, "y" * 9)
        # The structured content is not what the texts say: it belongs to the whole.
        size = len(
            "x" * 30 + "\n" + "y" * 30 + "\n" + json.dumps({"a": "x" * 30}, separators=(",", ":"))
        )
        assert note.startswith(f"[Cut: characters 1-40 of {size}. The call is done")
        assert (result.is_error, result.structured_content, result.meta["own"]) == (True, None, 1)
        cursor = result.meta["mcpproxy/cut"]["cursor"]
        assert f"{reader}({json.dumps({'cursor': cursor})})" in note
        got = first + "\n" + second
        while cursor:
            part = await client.call_tool(reader, {"cursor": cursor})
            got += part.content[0].text
            cursor = part.meta["mcpproxy/cut"]["cursor"]
        assert "this is the end" in part.content[1].text
        wrong = await client.call_tool(reader, {"cursor": "none.1"})
    assert len(got) == size and json.loads(got[62:]) == LONG["structuredContent"]
    assert wrong.is_error and "nothing to read on" in said(wrong)
    assert len(daemon.called) == 1


@pytest.mark.parametrize("limit", [0, 40])
async def test_a_schema_is_promised_only_for_results_that_are_never_cut(daemon, tmp_path, limit):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = {"name": "echo", "inputSchema": {"type": "object"}, "outputSchema": schema}
    daemon.fleet.show(catalog(demo=[{**tool, "annotations": {"readOnlyHint": True}}]))
    daemon.results["echo"] = {"content": [], "structuredContent": {"a": "x" * 100}}
    daemon.settings = Settings(tool_response_limit=limit)
    async with connected(daemon, tmp_path, "http", "legacy", "/mcp/all") as client:
        (listed, *others) = (await client.list_tools()).tools
        result = await client.call_tool("demo__echo", {})
    assert listed.annotations.read_only_hint
    assert listed.output_schema == (None if limit else schema)
    assert [each.name for each in others] == (["read_result"] if limit else [])
    assert (result.structured_content is None) == bool(limit)


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        ({"name": "demo:echo", "args": {"a": 1}}, {"a": 1}),
        ({"name": "demo__echo", "arguments": {"a": 1}}, {"a": 1}),
        ({"server": "demo", "tool": "echo"}, {}),
        ({"name": "demo:echo", "args_json": '{"a": 1}'}, {"a": 1}),
    ],
)
async def test_call_tool_calls(daemon, tmp_path, arguments, called):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        await client.call_tool("call_tool", arguments)
    assert daemon.called == [("demo", "echo", called, None)]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({}, "name must be"),
        ({"name": 7}, "name must be"),
        ({"name": "demo:echo", "args": []}, "args must be an object"),
        ({"name": "demo:ecko"}, "demo:echo"),
        ({"name": "demo:echo", "args_json": "{"}, "args_json is not JSON"),
        ({"cursor": 7}, "cursor must be a string"),
    ],
)
async def test_call_tool_says_what_is_wrong(daemon, tmp_path, arguments, part):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("call_tool", arguments)
    assert result.is_error and part in said(result)
    assert daemon.called == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("no_such_tool", ["search_tools", "code_execution"]),
        ("list_issues", ["github:list_issues"]),
        ("demo:ecko", ["demo:echo"]),
        ("code_exection", ["code_execution"]),
        ("x" * 100_000, ["search_tools"]),
    ],
)
async def test_an_unknown_name_is_told_what_to_do(daemon, tmp_path, name, parts):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool(name, {})
    assert result.is_error and all(part in said(result) for part in parts)
    assert len(said(result)) < 1000


@pytest.mark.parametrize(
    ("name", "arguments", "asked"),
    [
        ("search_tools", {"query": "x", "limit": 3}, ("search_tools", "x", 3, None, "local")),
        ("retrieve_tools", {"query": "x"}, ("search_tools", "x", None, None, "local")),
        ("get_functions", {"functions": ["a:b"]}, ("get_functions", ["a:b"], "local")),
        ("describe_tool", {"name": "a:b"}, ("get_functions", ["a:b"], "local")),
        ("list_tools", {}, ("list_servers", "local")),
    ],
)
async def test_discovery_is_asked_under_its_usual_names(daemon, tmp_path, name, arguments, asked):
    async with connected(daemon, tmp_path, "pipe", "2026-07-28") as client:
        result = await client.call_tool(name, arguments)
    assert daemon.discovery.asked == [asked]
    assert json.loads(said(result)) and not result.is_error


@pytest.mark.parametrize("path", ["/mcp", "/mcp/call", "/mcp/all"])
async def test_our_tools_can_be_called_on_every_face(daemon, tmp_path, path):
    async with connected(daemon, tmp_path, "http", "2026-07-28", path) as client:
        results = [
            await client.call_tool("execute_code", {"code": "1"}),
            await client.call_tool("list_servers", {}),
            await client.call_tool("call_tool", {"name": "demo:echo"}),
            await client.call_tool("run_cached_code", {"cache_id": "kept"}),
        ]
    assert [result.is_error for result in results] == [False] * 4


@pytest.mark.parametrize("name", ["execute_code", "run_code"])
async def test_code_runs_under_its_usual_names_with_a_summary(daemon, tmp_path, name):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        await client.call_tool(name, {"code": "1", "description": "count"})
    assert daemon.executed[0][0] == {"code": "1", "description": "count"}


async def test_a_wrong_type_is_named(daemon, tmp_path):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("search_tools", {"query": 7})
    assert result.is_error and "query must be a string" in said(result)


async def test_a_server_that_is_on_its_way_is_waited_for(daemon, tmp_path):
    daemon.fleet.coming = [catalog(2, late=["tool"])]
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        await client.call_tool("late__tool", {})
    assert daemon.called == [("late", "tool", {}, None)]


async def test_a_call_to_a_server_that_is_down_is_left_to_the_fleet(daemon, tmp_path):
    daemon.fleet.catalog = Catalog({"slack": server("slack", state="down")}, 1)
    daemon.results["post"] = CallError("SERVER_UNAVAILABLE", "slack is down")
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("slack__post", {"a": 1})
    assert json.loads(said(result))["error"]["code"] == "SERVER_UNAVAILABLE"
    assert daemon.called == [("slack", "post", {"a": 1}, None)]


async def test_kept_code_runs_by_its_id(daemon, tmp_path):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("run_cached_code", {"cache_id": "kept", "params": {"a": 1}})
        missing = await client.call_tool("run_cached_code", {"cache_id": "abc"})
    assert json.loads(said(result)) == {"ok": True, "value": {"a": 1}}
    assert missing.is_error
    assert json.loads(said(missing))["error"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize("era", ERAS)
async def test_a_refused_call_shows_its_envelope_and_a_failed_tool_its_result(
    daemon, tmp_path, era
):
    daemon.results["echo"] = CallError("queue_full", "demo is busy", retry_after_ms=250)
    own = {"content": [{"type": "text", "text": "own words"}], "isError": True}
    daemon.results["add"] = CallError("TOOL_ERROR", "own words", result=own)
    async with connected(daemon, tmp_path, "pipe", era) as client:
        busy = await client.call_tool("demo__echo", {})
        failed = await client.call_tool("demo__add", {})
    assert json.loads(said(busy))["error"]["retry_after_ms"] == 250 and busy.is_error
    assert said(failed) == "own words" and failed.is_error


async def test_the_prompt_is_there_and_no_other(daemon, tmp_path):
    async with connected(daemon, tmp_path, "http", "legacy") as client:
        assert [p.name for p in (await client.list_prompts()).prompts] == ["reusable_code_guide"]
        prompt = await client.get_prompt("reusable_code_guide")
        assert prompt.messages[0].content.text == offer.GUIDE
        with pytest.raises(MCPError, match="reusable_code_guide"):
            await client.get_prompt("other")


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


async def read_lines(stream, count):
    text = b""
    with anyio.fail_after(5):
        while text.count(b"\n") < count:
            text += await stream.receive()
    return [json.loads(line) for line in text.splitlines()]


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
        face.whole.library._changed("github", "prompts")
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


def test_the_description_is_short_and_says_what_matters():
    text = offer.DESCRIPTION
    assert len(text) < 2000
    for part in ("call_tools", "max_parallel", "tools.github", "search_tools", "script", "return"):
        assert part in text
