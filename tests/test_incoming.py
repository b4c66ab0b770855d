"""What is wrong with a request to an MCP address is told in JSON-RPC; what the SDK can't do is done."""

from __future__ import annotations

import json
from functools import partial

import anyio
import pytest
from asgi import ask
from fakes import FakeDaemon, catalog

from mcpproxy import incoming
from mcpproxy.bulk import MOST_VALUES
from mcpproxy.policy import Caller
from mcpproxy.proxy import open_mcp

ALICE = Caller("alice", "token")
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MODERN = {"MCP-Protocol-Version": "2026-07-28"}


class Desk:
    """A client of the faces that writes its HTTP itself."""

    def __init__(self, daemon, face):
        self.daemon, self.face = daemon, face

    async def ask(self, method, body=b"", path="/mcp", **headers):
        async def app(scope, receive, send):
            scope["state"] = {"caller": ALICE, "request_id": "r-1"}
            await self.face.app(path)(scope, receive, send)

        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        all_headers = {
            name: value for name, value in {**HEADERS, **given}.items() if value is not None
        }
        return await ask(app, method, path, data, headers=all_headers)

    async def begin(self, revision="2025-11-25", path="/mcp"):
        """The headers of a session."""
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        answer = await self.ask("POST", message("initialize", params), path)
        assert events(answer)[0]["result"]["protocolVersion"] == revision
        headers = {
            "Mcp-Session-Id": answer.headers["mcp-session-id"],
            "MCP-Protocol-Version": revision,
        }
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.ask("POST", told, path, **headers)).status == 202
        return headers


@pytest.fixture
async def desk():
    daemon = FakeDaemon(catalog(demo=["echo"]))
    async with open_mcp(daemon) as face:
        yield Desk(daemon, face)


def message(method, params=None, id=1):
    found = {"jsonrpc": "2.0", "id": id, "method": method}
    return found if params is None else {**found, "params": params}


def call(arguments, id=1):
    return message("tools/call", {"name": "code_execution", "arguments": arguments}, id)


def events(answer):
    assert answer.status == 200, answer.text
    lines = answer.text.splitlines()
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


@pytest.mark.parametrize(
    ("status", "code", "body"),
    [
        (400, -32700, b"{bad"),
        (400, -32700, b""),
        (400, -32700, b"\xff"),
        (400, -32700, b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}'),
        (400, -32700, b"[" + b"{}," * MOST_VALUES + b"7]"),
        (400, -32600, b"7"),
        (400, -32600, message("ping", id=None)),
        (400, -32600, message("ping", id=1.5)),
        (400, -32600, message("ping", id=True)),
        (400, -32600, message("ping", [1])),
        (400, -32600, {"id": 1, "method": "ping"}),
        (400, -32600, [message("ping")]),
    ],
)
@pytest.mark.parametrize("modern", [False, True])
async def test_what_is_no_message_is_refused_and_nobody_waits_for_an_answer(
    desk, status, code, body, modern
):
    headers = MODERN if modern else await desk.begin()
    answer = await desk.ask("POST", body, **headers)
    assert (answer.status, answer.body["error"]["code"]) == (status, code)
    assert "pydantic" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ({"Content_Type": "text/plain"}, 415, "application/json"),
        ({"Content_Type": None}, 415, "application/json"),
        ({"Accept": "application/json"}, 406, "text/event-stream"),
        ({"MCP_Protocol_Version": "1999-01-01"}, 400, "Unsupported protocol version"),
        ({"Mcp_Session_Id": "no-such"}, 404, "send initialize"),
        ({}, 400, "send initialize"),
    ],
)
async def test_a_wrong_header_is_named_and_no_session_begins(desk, headers, status, says):
    answer = await desk.ask("POST", message("ping"), **headers)
    assert (answer.status, answer.headers.get("mcp-session-id")) == (status, None)
    assert says in answer.body["error"]["message"]


async def test_media_types_are_read_as_http_has_them(desk):
    session = await desk.begin()
    for headers in (
        {"Content_Type": "Application/JSON; charset=utf-8"},
        {"Accept": None},
        {"Accept": "*/*"},
    ):
        assert events(await desk.ask("POST", message("ping"), **session, **headers)) == [
            {"jsonrpc": "2.0", "id": 1, "result": {}}
        ]


@pytest.mark.parametrize(("headers", "allowed"), [({}, "GET, POST, DELETE"), (MODERN, "POST")])
async def test_another_method_is_told_which_there_are(desk, headers, allowed):
    answer = await desk.ask("PUT", b"{}", **headers)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)


async def test_who_would_resume_a_stream_gets_a_new_one(desk):
    session = await desk.begin()
    desk.face.close()  # which ends the stream that this opens
    answer = await desk.ask("GET", **session, Last_Event_ID="3")
    assert answer.status == 200 and "event-stream" in answer.headers["content-type"]


async def test_a_batch_is_answered_with_one_stream_where_the_revision_has_batches(desk):
    session = await desk.begin("2025-03-26")
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
    answer = await desk.ask(
        "POST", [call({"code": "a"}, 1), told, call({"code": "b"}, 2)], **session
    )
    assert {each["id"]: "error" in each for each in events(answer)} == {1: False, 2: False}
    assert [body["code"] for body, *_ in desk.daemon.executed] == ["a", "b"]
    assert (await desk.ask("POST", [told, told], **session)).status == 202
    gone = await desk.ask("POST", [message("ping")], **session | {"Mcp-Session-Id": "no-such"})
    assert (gone.status, gone.body["error"]["code"]) == (404, -32600)


async def test_of_two_requests_with_one_id_the_second_is_refused_while_the_first_is_under_way(
    desk, monkeypatch
):
    monkeypatch.setattr(incoming, "DONE_SECONDS", 0.0)
    session = await desk.begin()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(desk.ask, "POST", call({"code": "wait"}, 7), **session))
        await desk.daemon.started.wait()
        for id in (7, "7"):
            answer = await desk.ask("POST", call({"code": "1"}, id), **session)
            assert (answer.status, answer.body["id"]) == (400, id)
        assert events(await desk.ask("POST", call({"code": "1"}, 8), **session))
        tasks.cancel_scope.cancel()


async def test_an_id_can_be_used_again_by_whoever_has_the_answer(desk):
    session = await desk.begin("2025-03-26")
    for _ in range(20):
        assert "result" in events(await desk.ask("POST", message("ping"), **session))[0]
    batch = [message("ping"), message("ping")]
    assert all("result" in each for each in events(await desk.ask("POST", batch, **session)))


async def test_lone_surrogates_arrive_over_http(desk):
    session = await desk.begin()
    answer = await desk.ask(
        "POST", call({"code": "1", "input": {"s": "\ud800 \U0001f600"}}), **session
    )
    assert "error" not in events(answer)[0]
    assert desk.daemon.executed[0][0]["input"] == {"s": "\ud800 \U0001f600"}


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("prompts/get", {}, "params.name: field required"),
        ("prompts/list", {"cursor": "x"}, "no such cursor"),
        ("tools/list", {"cursor": "x"}, "no such cursor"),
    ],
)
async def test_wrong_parameters_are_named(desk, method, params, says):
    answer = await desk.ask("POST", message(method, params), **await desk.begin())
    (found,) = events(answer)
    assert found["error"]["code"] == -32602 and says in found["error"]["message"]


def nested(levels):
    found = {}
    for _ in range(levels):
        found = {"a": found}
    return found


async def test_what_is_nested_too_deeply_to_be_sent_costs_itself_alone(desk):
    schema = {"type": "object", "properties": nested(400)}
    flat, deep = "echo", {"name": "deep", "inputSchema": schema}
    desk.daemon.fleet.show(catalog(2, demo=[flat, deep]))
    desk.daemon.results["deep"] = {"content": [], "structuredContent": nested(400)}
    session = await desk.begin(path="/mcp/all")
    (listed,) = events(await desk.ask("POST", message("tools/list"), "/mcp/all", **session))
    schemas = {each["name"]: each["inputSchema"] for each in listed["result"]["tools"]}
    assert schemas["demo__echo"] == schemas["demo__deep"] == {"type": "object"}
    wanted = message("tools/call", {"name": "demo__deep", "arguments": {}})
    (answer,) = events(await desk.ask("POST", wanted, "/mcp/all", **session))
    assert answer["result"]["isError"] and "200 levels" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("meta", [5, "x", ["io.modelcontextprotocol/protocolVersion"], None])
async def test_a_revision_that_nobody_knows_is_refused_whatever_is_beside_it(desk, meta):
    asked = message("tools/list", {"_meta": meta})
    answer = await desk.ask("POST", asked, **{"MCP-Protocol-Version": "2099-01-01"})
    assert (answer.status, answer.body["error"]["code"]) == (400, -32022)
