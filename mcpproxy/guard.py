"""The door: who may talk to us at all, and as whom. The first thing a request meets.

Against web pages: `Host` must be one of ours (a rebound DNS name isn't), `Origin` must be ours or
absent. Against everybody else: the administrator's key, except that MCP is open on loopback while
`require_mcp_auth` is off and no reverse proxy stands in front. A wrong key is never better than none. On the Unix socket, which only this
user can open, everybody is local.
"""

from __future__ import annotations

import hmac
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy import logs
from mcpproxy.policy import ADMIN, ANONYMOUS, LOCAL, Caller
from mcpproxy.settings import Settings

OPEN = frozenset({"/livez", "/readyz", "/healthz", "/ready"})
OURS = ("127.0.0.1", "localhost", "[::1]")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Strict, where a URL parser is kind: "evil@localhost" and "localhost/evil" are no names of ours.
AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
ORIGIN = re.compile(rf"https?://{AUTHORITY.pattern}", re.IGNORECASE)

NO_KEY = (
    "an API key is needed: send it as X-API-Key or Authorization: Bearer; "
    "it is `api_key` in the configuration"
)
WRONG_KEY = "the API key is wrong; it is `api_key` in the configuration"


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    code: str
    message: str


class Guard:
    """ASGI middleware; puts `caller` and `request_id` into the request's state."""

    def __init__(self, app: ASGIApp, settings: Settings, *, local: bool) -> None:
        self._app = app
        self._local = local
        self._key = settings.api_key.get_secret_value().encode()
        self._anonymous_mcp = settings.loopback and not settings.require_mcp_auth
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        trusted = [name.lower() for name in settings.trusted_hosts]
        self._names = {*OURS, host.lower(), *(name for name in trusted if name[:1] != ".")}
        self._below = tuple(name for name in trusted if name[:1] == "." and name != ".")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"nothing here speaks {scope['type']}")
        headers = {name.lower(): value for name, value in scope["headers"]}
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        logs.request.set(request_id)
        found = self._judge(scope, headers)
        if isinstance(found, Refusal):
            await refuse(send, found, request_id)
            return
        scope.setdefault("state", {}).update(caller=found, request_id=request_id)
        logs.caller.set(found.name)
        logs.client.set(headers.get(b"user-agent", b"").decode("latin-1") or None)
        marked = (b"x-request-id", request_id.encode())

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), marked]}
            await send(message)

        await self._app(scope, receive, send_marked)

    def _judge(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller | Refusal:
        text = headers.get(b"host", b"").decode("latin-1")
        host = AUTHORITY.fullmatch(text)
        if host is None or not self._ours(host):
            return Refusal(
                421,
                "FORBIDDEN",
                f"the Host {text[:100]!r} is not ours; use 127.0.0.1 or localhost, or add it to trusted_hosts",
            )
        if (origin := headers.get(b"origin")) is not None:
            page = ORIGIN.fullmatch(origin.decode("latin-1"))
            # Another port is another web server, whatever its name: not ours.
            if page is None or not self._ours(page) or page[2] != host[2]:
                return Refusal(
                    403, "FORBIDDEN", "requests from foreign web pages are refused (Origin)"
                )
        if self._local:
            return LOCAL
        path = scope["path"]
        if path in OPEN:
            return ANONYMOUS
        key = given_key(scope["query_string"], headers)
        if key is not None:
            right = self._key and hmac.compare_digest(key, self._key)
            return ADMIN if right else Refusal(401, "UNAUTHORIZED", WRONG_KEY)
        # A trusted host is a reverse proxy: who comes through it need not be on this machine.
        near = host[1].lower() in OURS
        if self._anonymous_mcp and near and (path == "/mcp" or path.startswith("/mcp/")):
            return ANONYMOUS
        return Refusal(401, "UNAUTHORIZED", NO_KEY)

    def _ours(self, found: re.Match[str]) -> bool:
        name = found[1].lower()
        return name in self._names or name.endswith(self._below)


def given_key(query: bytes, headers: dict[bytes, bytes]) -> bytes | None:
    """The key that came with a request, as its bytes; None when none came."""
    if (key := headers.get(b"x-api-key")) is not None:
        return key
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return token.strip()
    # As Latin-1 every byte is one character, so that this is the bytes as they came.
    found = parse_qs(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    return found["apikey"][0].encode("latin-1") if "apikey" in found else None


async def refuse(send: Send, refusal: Refusal, request_id: str) -> None:
    """Answer with the envelope that all refusals share; `ok` and `success` serve both kinds of readers."""
    body: dict[str, Any] = {
        "ok": False,
        "success": False,
        "error": {"code": refusal.code, "message": refusal.message},
        "request_id": request_id,
    }
    headers = [(b"x-request-id", request_id.encode())]
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
