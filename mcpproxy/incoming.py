"""What a request at an MCP address has to be before the SDK gets it.

The SDK takes a request with an odd id for a notification, answers some faults with plain text and
others with pydantic's, refuses lone surrogates, knows no batches, and gives no answer at all to who
wants to resume a stream. Here each fault is told in JSON-RPC, and the rest is made into what the SDK
understands.

Sources: MCP 2025-03-26 to 2026-07-28, "Transports"; RFC 9110, 8.3.1 and 12.5.1, on media types.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy import jsonrpc
from mcpproxy.guard import respond
from mcpproxy.jsonrpc import INVALID_REQUEST, Json, Malformed

Headers = dict[bytes, bytes]

SESSION, VERSION = b"mcp-session-id", b"mcp-protocol-version"
KNOWN = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
UNTOLD = "2025-03-26"
"""The revision of a client that doesn't say which it speaks."""
META_VERSION = "io.modelcontextprotocol/protocolVersion"
PARAMS = "params"
"""In the state of a request: its parameters as they came, where the SDK was given others."""

NO_SESSION = (
    "a session is needed: send initialize, and with all that follows the Mcp-Session-Id of its answer; "
    "2026-07-28 has no sessions and wants the header MCP-Protocol-Version"
)
SESSION_GONE = "there is no such session, or not any more: send initialize to begin another"
DONE_SECONDS = 1.0
"""From the answer to a request until all that belongs to it is gone."""
ID_TAKEN = "a request with this id is under way in this session; give each an id of its own"
NOT_JSON = "send JSON, with Content-Type: application/json"
NOT_ACCEPTABLE = "the client must accept both application/json and text/event-stream"
NO_STREAM = "the client must accept text/event-stream"
TOO_LARGE = "the body has more than {:,} bytes; store the data where a tool can read it"


class Turned(Exception):
    """The request is answered here: with a status, and what is wrong."""

    def __init__(self, status: int, fault: Malformed, data: object = None, allow: str = "") -> None:
        super().__init__(str(fault))
        self.status = status
        self.said = jsonrpc.error(fault.code, str(fault), fault.id, data)
        self.headers = [(b"allow", allow.encode())] if allow else []


def turned(status: int, message: str, **more: Any) -> Turned:
    return Turned(status, Malformed(INVALID_REQUEST, message), **more)


class Incoming:
    """ASGI in front of a session manager of the SDK."""

    def __init__(self, app: ASGIApp, largest_body: int) -> None:
        self._app = app
        self._largest = largest_body
        self._under_way: dict[tuple[bytes, str, str], anyio.Event] = {}
        """When requests are over, by session, caller and id; the SDK doesn't tell 1 from "1"."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        legacy = headers.get(VERSION, b"").decode("latin-1") in ("", *HANDSHAKE_PROTOCOL_VERSIONS)
        explained = explaining(send) if legacy else send
        try:
            check_head(scope["method"], headers, legacy=legacy)
            scope = {**scope, "headers": list(usual(scope["headers"], headers))}
            if scope["method"] != "POST":
                await self._app(scope, receive, explained)
                return
            body = await read(receive, self._largest)
            if body is None:
                return
            message = parsed(body, headers, legacy=legacy)
        except Turned as found:
            await respond(send, found.status, json.dumps(found.said).encode(), found.headers)
            return
        session = headers.get(SESSION, b"")
        if isinstance(message, list):
            await self._batch(session, scope, message, receive, explained)
        else:
            await self._one(session, scope, message, body, receive, explained)

    async def _one(
        self, session: bytes, scope: Scope, message: Json, body: bytes, receive: Receive, send: Send
    ) -> None:
        """Pass one message on, unless a request with its id is under way: the SDK would mix them up."""
        scope, body = readable(scope, message, body)
        if not session or "method" not in message or "id" not in message:
            await self._app(scope, given(body, receive), send)
            return
        key = session, scope["state"]["caller"].name, str(message["id"])
        while (before := self._under_way.get(key)) is not None:
            # A client may have the answer a moment before we are done with it.
            with anyio.move_on_after(DONE_SECONDS) as patience:
                await before.wait()
            if patience.cancelled_caught:
                said = jsonrpc.error(INVALID_REQUEST, ID_TAKEN, message["id"])
                await respond(send, 400, json.dumps(said).encode())
                return
        over = self._under_way[key] = anyio.Event()
        try:
            await self._app(scope, given(body, receive), send)
        finally:
            del self._under_way[key]
            over.set()

    async def _batch(
        self, session: bytes, scope: Scope, messages: list[Json], receive: Receive, send: Send
    ) -> None:
        """One stream, with the answer to each request as it is ready."""
        stream = Joined(send)
        async with anyio.create_task_group() as tasks:
            for message in messages:
                body = json.dumps(message).encode()
                tasks.start_soon(self._one, session, scope, message, body, receive, stream.part())
        await stream.end()


class Joined:
    """Answers to the parts of a request, as the one answer to it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False
        self._failed: list[tuple[Message, bytes]] = []

    def part(self) -> Send:
        """The `send` of one part. What the SDK sends at once is one event, or a whole refusal."""
        start: Message = {}

        async def send(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                if start["status"] == 200 and not self._begun:
                    self._begun = True
                    await self._send(start)
            elif body := message.get("body"):
                if start["status"] == 200:
                    await self._send({**message, "more_body": True})
                else:
                    self._failed.append((start, body))

        return send

    async def end(self) -> None:
        if self._begun:
            events = [b"event: message\r\ndata: %s\r\n\r\n" % body for _, body in self._failed]
            await self._send({"type": "http.response.body", "body": b"".join(events)})
        else:
            accepted: Message = {"type": "http.response.start", "status": 202, "headers": []}
            start, body = self._failed[0] if self._failed else (accepted, b"")
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def check_head(method: str, headers: Headers, *, legacy: bool) -> None:
    """Raises `Turned`."""
    methods = ("GET", "POST", "DELETE") if legacy else ("POST",)
    if method not in methods:
        allow = ", ".join(methods)
        raise turned(405, f"this address takes {allow}, not {method[:20]}", allow=allow)
    if method == "POST" and media_type(headers.get(b"content-type", b"")) != "application/json":
        raise turned(415, NOT_JSON)
    takes = {media_type(each) for each in headers.get(b"accept", b"*/*").split(b",")}
    events = takes & {"*/*", "text/*", "text/event-stream"}
    if method == "POST" and not (events and takes & {"*/*", "application/*", "application/json"}):
        raise turned(406, NOT_ACCEPTABLE)
    if method == "GET" and not events:
        raise turned(406, NO_STREAM)
    if method != "POST" and SESSION not in headers:
        raise turned(400, NO_SESSION)


def media_type(value: bytes) -> str:
    return value.partition(b";")[0].strip().lower().decode("latin-1")


def usual(pairs: list[tuple[bytes, bytes]], headers: Headers) -> Iterator[tuple[bytes, bytes]]:
    """Headers as the SDK wants them: no resuming, media types in small letters, something accepted."""
    for name, value in pairs:
        if name != b"last-event-id":
            yield name, value.lower() if name == b"content-type" else value
    if b"accept" not in headers:
        yield b"accept", b"*/*"


async def read(receive: Receive, largest: int) -> bytes | None:
    """The whole body; None when the client left. Raises `Turned`."""
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > largest:
            raise turned(413, TOO_LARGE.format(largest))
        if not message.get("more_body", False):
            return b"".join(pieces).removeprefix(codecs.BOM_UTF8)


def parsed(body: bytes, headers: Headers, *, legacy: bool) -> Any:
    """The message in a body, or those of a batch. Raises `Turned`."""
    version = headers.get(VERSION, UNTOLD.encode()).decode("latin-1")
    try:
        message: Any = jsonrpc.loads(body)
        if isinstance(message, list):
            if not jsonrpc.has_batches(version):
                raise Malformed(INVALID_REQUEST, jsonrpc.NO_BATCHES)
            message = jsonrpc.elements(message)
        else:
            jsonrpc.check(message)
    except Malformed as fault:
        raise Turned(400, fault) from None
    one: Json = message if isinstance(message, dict) else {}
    if legacy and SESSION not in headers and one.get("method") != "initialize":
        raise Turned(400, Malformed(INVALID_REQUEST, NO_SESSION, one.get("id")))
    meta = (one.get("params") or {}).get("_meta")
    if version not in KNOWN and not (isinstance(meta, dict) and META_VERSION in meta):
        unsupported = jsonrpc.UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version"
        data = {"supported": KNOWN, "requested": version[:100]}
        raise Turned(400, Malformed(*unsupported, one.get("id")), data)
    return message


def readable(scope: Scope, message: Json, body: bytes) -> tuple[Scope, bytes]:
    """The request as the SDK can read it: JSON may have lone surrogates in it, its parser refuses them."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return scope, body
    text = json.dumps(message, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        state = {**scope["state"], PARAMS: message.get("params")}
        return {**scope, "state": state}, text.encode(errors="replace")
    return scope, body


def params_of(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, Any]:
    """The parameters of a request as they came, whatever the SDK was given."""
    kept = ctx.request.scope["state"].get(PARAMS) if ctx.request is not None else None
    return kept or ctx.params or {}


def given(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body which has been read, and then whatever comes."""
    rest = [body]

    async def receive_rest() -> Message:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        return await receive()

    return receive_rest


# ── answering ───────────────────────────────────────────────────────────────────────────────────


def explaining(send: Send) -> Send:
    """A `send` that says what to do where a session is gone, which is what 404 means before 2026-07-28."""
    gone = False

    async def explain(message: Message) -> None:
        nonlocal gone
        if message["type"] == "http.response.start" and message["status"] == 404:
            gone = True
            said = jsonrpc.error(INVALID_REQUEST, SESSION_GONE)
            await respond(send, 404, json.dumps(said).encode())
        elif not gone:
            await send(message)

    return explain
