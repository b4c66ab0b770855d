"""The door: who may talk to us at all, and as whom. The first thing a request meets.

Against web pages: `Host` must be one of ours (a rebound DNS name isn't); `Origin` must be absent, or
ours where MCP is spoken. Against everybody else: the administrator's key or an agent's token, except
that MCP is open on loopback while `require_mcp_auth` is off and no reverse proxy stands in front. A
wrong key is never better than none, and who shows many has to wait. On the Unix socket, which only
this user can open, everybody is local.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy import jsonrpc, logs, tracing
from mcpproxy.policy import ADMIN, ANONYMOUS, LOCAL, Caller
from mcpproxy.rates import WrongKeys
from mcpproxy.settings import Settings
from mcpproxy.tokens import Tokens

logger = logging.getLogger(__name__)

OPEN = frozenset({"/livez", "/readyz", "/healthz", "/health", "/ready"})
OURS = ("127.0.0.1", "localhost", "[::1]")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Strict, where a URL parser is kind: "evil@localhost" and "localhost/evil" are no names of ours.
AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
ORIGIN = re.compile(rf"https?://{AUTHORITY.pattern}", re.IGNORECASE)

NO_KEY = (
    "a key is needed: send it as X-API-Key or Authorization: Bearer; it is `api_key` in the "
    "configuration, or an agent's token"
)
WRONG_KEY = (
    "this is neither the API key (`api_key` in the configuration) nor an agent's token that is in use; "
    "an operator can make one with: mcpproxy token create"
)
EXPIRED = "this token has expired; an operator can renew it with: mcpproxy token regenerate"
NO_PAGES = "requests of web pages are refused (Origin); send it from a program, without that header"
LONG_KEY = 32
"""Bytes of a key that nobody guesses: it is looked at however many wrong ones came before."""
FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})
"""Headers of reverse proxies."""
KEY = "apikey"
"""The query parameter that may hold a key."""
EXEC = "/api/v1/code/exec"
"""Whose refusals have no `success` in their envelope."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request doesn't get in, as HTTP and as the envelope tell it."""

    status: int
    code: str
    message: str
    wait: int = 0
    """Seconds until it makes sense to ask again."""


TurnedAway = Callable[[str, str, str, str], None]
"""Told of each refusal: code, message, the peer's address, path."""


class Guard:
    """ASGI middleware; puts `caller` and `request_id` into the request's state."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        *,
        local: bool,
        tokens: Tokens | None = None,
        turned_away: TurnedAway | None = None,
    ) -> None:
        self._app = app
        self._turned_away = turned_away
        self._tokens = tokens
        self._wrong = WrongKeys()
        self._local = local
        self._key = settings.api_key.get_secret_value().encode()
        self._anonymous_mcp = settings.anonymous_mcp
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        trusted = [name.lower() for name in settings.trusted_hosts]
        self._names = {*OURS, host.lower(), *(name for name in trusted if name[:1] != ".")}
        self._below = tuple(name for name in trusted if name[:1] == ".")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"nothing here speaks {scope['type']}")
        headers = {name.lower(): value for name, value in scope["headers"]}
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        logs.request.set(request_id)
        found = self._judge(scope, headers)
        if isinstance(found, Refusal):
            if self._turned_away is not None:
                self._turned_away(found.code, found.message, peer_of(scope), scope["path"])
            await refuse(send, found, request_id, scope["path"])
            return
        scope["query_string"] = without_key(scope["query_string"])
        scope.setdefault("state", {}).update(caller=found, request_id=request_id)
        logs.caller.set(found.name)
        logs.client.set(headers.get(b"user-agent", b"").decode("latin-1") or None)
        marked = (b"x-request-id", request_id.encode())

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), marked]}
            await send(message)

        with tracing.continued(trace_of(headers)):
            await self._app(scope, receive, send_marked)

    def _judge(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller | Refusal:
        path = scope["path"]
        # Of two that differ, somebody in front of us may go by the other one.
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        text = b", ".join(hosts).decode("latin-1")
        host = AUTHORITY.fullmatch(text)
        if host is None or not self._ours(host):
            trust = f', or add "{host[1][:100]}" to trusted_hosts' if host is not None else ""
            return Refusal(
                421,
                "FORBIDDEN",
                f"the Host {text[:100]!r} is not ours; use 127.0.0.1 or localhost{trust}",
            )
        if (origin := headers.get(b"origin")) is not None:
            page = ORIGIN.fullmatch(origin.decode("latin-1"))
            # Another port is another web server, whatever its name: not ours.
            if page is None or not self._ours(page) or page[2] != host[2] or not is_mcp(path):
                return Refusal(403, "FORBIDDEN", NO_PAGES)
        # What a browser says of its own accord, also where it sends no Origin.
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return Refusal(403, "FORBIDDEN", NO_PAGES)
        if self._local:
            return LOCAL
        if path in OPEN:
            return ANONYMOUS
        key = given_key(scope["query_string"], headers)
        if key is not None:
            return self._holder(key, peer_of(scope))
        # Who comes through a reverse proxy need not be on this machine.
        near = host[1].lower() in OURS and not FORWARDED & headers.keys()
        if self._anonymous_mcp and near and is_mcp(path):
            return ANONYMOUS
        elsewhere = "" if is_mcp(path) or path.startswith("/api/") else "; MCP is at /mcp"
        return Refusal(401, "UNAUTHORIZED", NO_KEY + elsewhere)

    def _holder(self, key: bytes, peer: str) -> Caller | Refusal:
        """Whose key this is."""
        slow_down: Refusal | None = None
        if wait := self._wrong.wait(peer, key):
            message = f"too many wrong keys; try again in {wait} s"
            slow_down = Refusal(429, "RATE_LIMITED", message, wait)
            if len(key) < LONG_KEY:
                return slow_down
        if self._key and hmac.compare_digest(key, self._key):
            self._wrong.right(key)
            return ADMIN
        token = self._tokens.find(key) if self._tokens is not None else None
        if token is None:
            if self._wrong.wrong(peer):
                logger.warning("a wrong key was shown by %s", peer or "a client")
            return slow_down or Refusal(401, "UNAUTHORIZED", WRONG_KEY)
        self._wrong.right(key)
        if self._tokens is not None and self._tokens.expired(token):
            return Refusal(401, "UNAUTHORIZED", EXPIRED)
        return token.caller()

    def _ours(self, found: re.Match[str]) -> bool:
        name = found[1].lower()
        return name in self._names or name.endswith(self._below)


def peer_of(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def given_key(query: bytes, headers: dict[bytes, bytes]) -> bytes | None:
    """The key that came with a request, as its bytes; None when none came. An empty one is none."""
    if key := headers.get(b"x-api-key", b"").strip():
        return key
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and (token := token.strip()):
        return token
    # As Latin-1 every byte is one character, so that this is the bytes as they came.
    found = parse_qs(query.decode("latin-1"), encoding="latin-1")
    return found[KEY][0].encode("latin-1") if KEY in found else None


def without_key(query: bytes) -> bytes:
    """A query that nobody further in can learn a key from."""
    if not query:
        return query
    parts = query.split(b"&")
    return b"&".join(
        p for p in parts if unquote_plus(p.partition(b"=")[0].decode("latin-1")) != KEY
    )


def is_mcp(path: str) -> bool:
    return path == "/mcp" or path.startswith("/mcp/")


def trace_of(headers: dict[bytes, bytes]) -> dict[str, str]:
    """What names the trace that a request belongs to (W3C Trace Context)."""
    return {
        name: value.decode("latin-1")
        for name in (tracing.PARENT, tracing.STATE)
        if (value := headers.get(name.encode())) is not None
    }


async def refuse(send: Send, refusal: Refusal, request_id: str, path: str) -> None:
    """Answer with the envelope of the surface that was asked for."""
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
    headers = [(b"x-request-id", request_id.encode())]
    if refusal.wait:
        error["retry_after_ms"] = refusal.wait * 1000
        headers.append((b"retry-after", b"%d" % refusal.wait))
    body: dict[str, Any] = {"ok": False, "error": error, "request_id": request_id}
    if is_mcp(path):
        body = jsonrpc.error(jsonrpc.INVALID_REQUEST, refusal.message, data=error)
    elif path != EXEC:
        body = {"success": False, **body}
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await respond(send, refusal.status, json.dumps(body).encode(), headers)


async def respond(
    send: Send,
    status: int,
    body: bytes,
    headers: list[tuple[bytes, bytes]] | None = None,
    content_type: str = "application/json",
) -> None:
    """One whole answer."""
    fixed = [
        (b"content-type", content_type.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send(
        {"type": "http.response.start", "status": status, "headers": [*fixed, *(headers or [])]}
    )
    await send({"type": "http.response.body", "body": body})
