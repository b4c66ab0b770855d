"""How a server is reached, what it is given, and what is said when it can't be."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from listening import listening, port_of
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, CallToolResult, ListToolsResult, TextContent
from mcp_types import Tool as WireTool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from upstreams import open_stubs, stub

from mcpproxy.errors import CallError
from mcpproxy.redaction import SECRETS
from mcpproxy.settings import ServerSettings
from mcpproxy.upstream import link
from mcpproxy.upstream.dial import address, program, ways
from mcpproxy.upstream.reasons import refusal, retry_after, sentence
from mcpproxy.upstream.references import References, Unreachable


@pytest.mark.parametrize(
    ("settings", "tried"),
    [
        ({"command": "x"}, ("stdio",)),
        ({"command": "x", "url": "http://y"}, ("stdio",)),
        ({"url": "http://y"}, ("streamable-http", "sse")),
        ({"url": "http://y", "protocol": "http"}, ("streamable-http",)),
        ({"url": "http://y", "protocol": "sse"}, ("sse",)),
        ({"command": "x", "url": "http://y", "protocol": "streamable-http"}, ("streamable-http",)),
    ],
)
def test_the_ways_to_a_server(settings, tried):
    assert ways(ServerSettings(name="s", **settings)) == tried


@pytest.mark.threat("U2")
def test_a_secret_goes_to_the_server_and_nowhere_else():
    references = References({"PATH": "/bin:/usr/bin", "TOKEN": "s3cr3t", "LONG": "s3cr3t-and-more"})
    settings = ServerSettings(
        name="s", command="sh", args=["--key=${env:TOKEN}"], env={"KEY": "${env:LONG}"}
    )
    planned = program(settings, references)
    assert planned.command[1:] == ["--key=s3cr3t"] and planned.env["KEY"] == "s3cr3t-and-more"
    assert "s3cr3t" not in repr(references) + repr(planned.env and planned.cwd)
    assert SECRETS.hide("s3cr3t, s3cr3t-and-more") == "${env:TOKEN}, ${env:LONG}"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"command": "no-such-program"}, "no-such-program"),
        ({"command": "./no/such/program"}, "'./no/such/program' is not there; check the path"),
        ({"command": "/"}, "'/' is a folder; name the program in it"),
        ({"command": "/etc/passwd"}, "'/etc/passwd' may not be run; make it executable"),
        ({"command": "sh", "working_dir": "/no/such/folder"}, "/no/such/folder"),
        ({"command": "sh", "args": ["a", "${env:NOT_SET}"]}, "args[1]"),
        ({"command": "sh", "env": {"A": "${env:NOT_SET}"}}, "NOT_SET"),
        ({"command": "${env:NOT_SET}"}, "command"),
    ],
)
def test_what_is_missing_is_named(settings, said):
    with pytest.raises(Unreachable) as error:
        program(ServerSettings(name="s", **settings), References({"PATH": "/bin:/usr/bin"}))
    assert said in str(error.value)


@pytest.mark.parametrize(
    "headers",
    [{"A": "hush€"}, {"A": "hush\ny"}, {"é": "hush"}, {"": "hush"}, {"A B": "hush"}],
)
def test_a_header_that_can_not_be_sent_is_named_without_its_value(headers):
    settings = ServerSettings(name="x", url="http://h/", headers=headers)
    with pytest.raises(Unreachable, match=r"headers\..* can't be sent") as refused:
        address(settings, References({}))
    assert "hush" not in str(refused.value)


def test_a_command_with_a_folder_is_looked_for_in_the_working_dir(tmp_path):
    (tmp_path / "run").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "run").chmod(0o700)
    settings = ServerSettings(name="s", command="./run", working_dir=str(tmp_path))
    assert program(settings, References({})).command == [str(tmp_path / "run")]


def test_a_status_of_http_says_what_to_do():
    assert "headers" in refusal(401) and "headers" in refusal(403)
    assert "path" in refusal(404)
    for status in (400, 401, 403, 404, 405, 418, 429, 500, 501, 503):
        assert re.fullmatch(rf".*\(HTTP {status}\); .+", refusal(status))


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "its TLS failed: .*; check that it is https"),
        ("All connection attempts failed", "nothing answers .*; check the URL, and whether it runs"),
    ],
)  # fmt: skip
def test_a_connection_that_fails_says_what_to_check(why, said):
    assert re.match(said, sentence(httpx2.ConnectError(why)))


async def test_a_name_with_slashes_logs_into_the_folder_of_logs(tmp_path):
    logs = tmp_path / "logs"
    async with open_stubs(logs, stub("--flood", "1", name="../a/b")) as fleet:
        assert fleet.catalog.servers["../a/b"].state == "ready"
    assert [file.parent for file in tmp_path.rglob("*.log*")] == [logs]


# ── HTTP ────────────────────────────────────────────────────────────────────────────────────────


BIG = 3 << 20
"""More than the SDK takes in one event unless it is told otherwise."""


class Remote:
    """A server on HTTP: what was asked of it, and where it is."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[str] = []
        self.headers: list[str | None] = []
        self.hanging = anyio.Event()
        self.cancelled = anyio.Event()

    def server(self) -> Server[Any]:
        async def listing(context: Any, params: Any = None) -> ListToolsResult:
            tools = [
                WireTool(name=name, input_schema={"type": "object"})
                for name in ("echo", "hang", "forget", "big")
            ]
            for name, kind in (("headed", "string"), ("beheaded", "number")):
                part = {"part": {"type": kind, "x-mcp-header": "Part"}}
                schema = {"type": "object", "properties": part}
                tools.append(WireTool(name=name, input_schema=schema))
            return ListToolsResult(tools=tools)

        async def calling(context: Any, params: Any) -> CallToolResult:
            if params.name == "forget":
                self.seen.append("forget")
                raise MCPError(INVALID_REQUEST, "Session not found: 7")
            if params.name == "hang":
                self.hanging.set()
                try:
                    await anyio.sleep_forever()
                finally:
                    self.cancelled.set()
            self.seen.append(params.name)
            text = "x" * BIG if params.name == "big" else "hi"
            return CallToolResult(content=[TextContent(type="text", text=text)])

        return Server("remote", version="1", on_list_tools=listing, on_call_tool=calling)

    def streamable(self) -> Starlette:
        return self.server().streamable_http_app()

    def sse(self) -> Starlette:
        transport, server = SseServerTransport("/messages/"), self.server()

        async def connect(request: Request) -> Response:
            async with transport.connect_sse(
                request.scope, request.receive, request._send
            ) as streams:
                await server.run(*streams, server.create_initialization_options())
            return Response()

        return Starlette(
            routes=[
                Route("/mcp", connect, methods=["GET"]),
                Mount("/messages/", app=transport.handle_post_message),
            ]
        )

    def refusing(self, status: int, retry_after: str | None = None) -> Starlette:
        headers = {} if retry_after is None else {"Retry-After": retry_after}

        async def refuse(request: Request) -> Response:
            self.headers.append(request.headers.get("authorization"))
            return Response("no", status_code=status, headers=headers)

        return Starlette(routes=[Route("/mcp", refuse, methods=["GET", "POST", "DELETE"])])


@asynccontextmanager
async def serving(app: Any, remote: Remote) -> AsyncIterator[None]:
    async with listening(app, port=0) as server:
        remote.url = f"http://127.0.0.1:{port_of(server)}/mcp"
        yield


def at(remote: Remote, **settings: Any) -> ServerSettings:
    return ServerSettings(name="remote", url=remote.url, **settings)


@pytest.mark.parametrize(
    ("kind", "settings", "version"),
    [
        ("streamable", {}, "2026-07-28"),
        ("streamable", {"era": "legacy"}, "2025-11-25"),
        ("sse", {"protocol": "sse"}, "2025-11-25"),
        ("sse", {}, "2025-11-25"),
    ],
)
async def test_calls_and_cancellations_go_over_http(tmp_path, kind, settings, version):
    remote = Remote()
    async with (
        serving(getattr(remote, kind)(), remote),
        open_stubs(tmp_path, at(remote, **settings)) as fleet,
    ):
        assert fleet.status()[0]["protocol_version"] == version
        result = await fleet.call("remote", "echo", {})
        assert result["content"] == [{"type": "text", "text": "hi"}] and "_meta" not in result
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fleet.call, "remote", "hang", {})
                await remote.hanging.wait()
                tasks.cancel_scope.cancel()
            await remote.cancelled.wait()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("streamable", {}), ("streamable", {"era": "legacy"}), ("sse", {"protocol": "sse"})],
)
async def test_a_large_result_comes_over_http(tmp_path, kind, settings):
    remote = Remote()
    async with (
        serving(getattr(remote, kind)(), remote),
        open_stubs(tmp_path, at(remote, **settings)) as fleet,
    ):
        (block,) = (await fleet.call("remote", "big", {}))["content"]
        assert len(block["text"]) == BIG
        assert await fleet.call("remote", "echo", {})


async def test_a_message_that_an_sse_server_does_not_take_fails_its_call_at_once(tmp_path):
    remote = Remote()
    app, broken = remote.sse(), False

    async def either(scope: Any, receive: Any, send: Any) -> None:
        posting = scope["type"] == "http" and scope["method"] == "POST"
        await (Response("no", status_code=500) if posting and broken else app)(scope, receive, send)

    async with (
        serving(either, remote),
        open_stubs(tmp_path, at(remote, protocol="sse")) as fleet,
    ):
        assert await fleet.call("remote", "echo", {})
        broken = True
        with anyio.fail_after(20), pytest.raises(CallError, match="HTTP 500"):
            await fleet.call("remote", "echo", {})
        broken = False
        assert await fleet.call("remote", "echo", {})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 429, 500, 503])
@pytest.mark.parametrize("protocol", ["auto", "http", "sse"])
@pytest.mark.threat("L3")
async def test_a_refusal_says_its_status_and_keeps_our_secrets(tmp_path, status, protocol):
    remote = Remote()
    async with serving(remote.refusing(status), remote):
        server = at(remote, protocol=protocol, headers={"Authorization": "Bearer ${env:TOKEN}"})
        async with open_stubs(tmp_path, server, environ={"TOKEN": "s3cr3t"}) as fleet:
            error = fleet.catalog.servers["remote"].error
    assert error and str(status) in error and "s3cr3t" not in error
    assert set(remote.headers) == {"Bearer s3cr3t"}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("protocol", ["http", "sse"])
@pytest.mark.parametrize("lazy", [False, True])
async def test_a_server_that_asks_for_a_pause_gets_it(
    tmp_path, status, protocol, lazy, monkeypatch
):
    monkeypatch.setattr(link, "GAP", 0.0)
    remote = Remote()
    async with (
        serving(remote.refusing(status, "77"), remote),
        open_stubs(tmp_path, at(remote, protocol=protocol, lazy=lazy)) as fleet,
    ):
        for _ in range(3):
            with pytest.raises(CallError) as caught:
                await fleet.call("remote", "echo", {})
            assert caught.value.code == "SERVER_UNAVAILABLE"
            assert 70_000 < (caught.value.retry_after_ms or 0) <= 77_000
        assert len(remote.headers) == 1
        assert 70 < fleet.status()[0]["next_attempt_in_seconds"] <= 77


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("protocol", ["auto", "http", "sse"])
async def test_a_server_that_takes_no_requests_gets_one_each_attempt(tmp_path, status, protocol):
    remote = Remote()
    async with (
        serving(remote.refusing(status), remote),
        open_stubs(tmp_path, at(remote, protocol=protocol)) as fleet,
    ):
        assert fleet.status()[0]["next_attempt_in_seconds"] <= 1.2
        assert len(remote.headers) == 1


@pytest.mark.parametrize(("status", "in_doubt"), [(500, True), (504, True), (400, False)])
async def test_a_server_that_fails_over_http_may_have_done_its_work(tmp_path, status, in_doubt):
    remote = Remote()
    apps = [remote.streamable(), remote.refusing(status)]
    failing = False

    async def either(scope: Any, receive: Any, send: Any) -> None:
        await apps[failing and scope["type"] == "http"](scope, receive, send)

    async with serving(either, remote), open_stubs(tmp_path, at(remote)) as fleet:
        failing = True
        with pytest.raises(CallError, match=f"HTTP {status}") as caught:
            await fleet.call("remote", "echo", {})
        assert caught.value.in_doubt == ("took effect is unknown" in str(caught.value)) == in_doubt
        failing = False


async def test_a_call_that_is_refused_for_a_while_says_for_how_long(tmp_path):
    remote = Remote()
    apps = [remote.streamable(), remote.refusing(429, "9")]
    busy = False

    async def either(scope: Any, receive: Any, send: Any) -> None:
        await apps[busy and scope["type"] == "http"](scope, receive, send)

    async with serving(either, remote), open_stubs(tmp_path, at(remote)) as fleet:
        busy = True
        with pytest.raises(CallError, match="HTTP 429") as caught:
            await fleet.call("remote", "echo", {})
        assert caught.value.code == "SERVER_UNAVAILABLE" and caught.value.retryable
        assert caught.value.retry_after_ms == 9000
        busy = False
        assert await fleet.call("remote", "echo", {})


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("0", 0, 0),
        (" 12 ", 12, 12),
        (lambda: format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True), 3000, 3600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("9" * 400, 999_999_999, 999_999_999),
    ],
)
def test_a_pause_is_a_number_or_a_date(value, least, most):
    value = value() if callable(value) else value
    found = retry_after(429, value)
    assert found is not None and least <= found <= most
    assert retry_after(500, value) is None


@pytest.mark.parametrize("value", [None, "", "soon", "-1", "1.5", "٣"])
def test_what_is_no_pause_is_none(value):
    assert retry_after(429, value) is None


@pytest.mark.parametrize(("era", "left_out"), [("modern", True), ("legacy", False)])
async def test_a_tool_whose_headers_are_against_the_protocol_is_left_out(
    tmp_path, caplog, era, left_out
):
    remote = Remote()
    async with (
        serving(remote.streamable(), remote),
        open_stubs(tmp_path, at(remote, era=era)) as fleet,
    ):
        tools = fleet.catalog.servers["remote"].tools
        assert "headed" in tools and ("beheaded" in tools) is not left_out
    assert ("beheaded" in caplog.text) is left_out


async def test_nothing_at_the_url_is_said_so(tmp_path):
    server = ServerSettings(name="remote", url="http://127.0.0.1:1/mcp")
    async with open_stubs(tmp_path, server) as fleet:
        error = fleet.catalog.servers["remote"].error
    assert error and "nothing answers" in error


async def test_a_server_that_forgot_our_session_is_asked_again_in_a_new_one(tmp_path):
    remote = Remote()
    apps = [remote.streamable(), remote.streamable()]
    lost = False

    async def either(scope: Any, receive: Any, send: Any) -> None:
        await apps[lost and scope["type"] == "http"](scope, receive, send)

    async with (
        apps[1].router.lifespan_context(apps[1]),
        serving(either, remote),
        open_stubs(tmp_path, at(remote, era="legacy")) as fleet,
    ):
        await fleet.call("remote", "echo", {})
        lost = True
        told: list[int] = []
        with anyio.fail_after(10):
            await fleet.call("remote", "echo", {}, started=lambda: told.append(1))
        assert remote.seen == ["echo", "echo"] and told == [1]


async def test_a_tool_that_misses_a_session_of_its_own_is_called_once(tmp_path):
    remote = Remote()
    async with (
        serving(remote.streamable(), remote),
        open_stubs(tmp_path, at(remote, era="legacy")) as fleet,
    ):
        with anyio.fail_after(10), pytest.raises(CallError, match="Session not found: 7"):
            await fleet.call("remote", "forget", {})
        assert remote.seen == ["forget"]


@pytest.mark.threat("L2")
def test_the_logs_are_a_folder_of_this_user_alone(tmp_path):
    from mcpproxy.upstream.dial import _log_file

    handler = _log_file(Path(tmp_path) / "logs", "ü" * 128)
    handler.close()
    assert (tmp_path / "logs").stat().st_mode & 0o077 == 0
    assert len(Path(handler.baseFilename).name) < 255
