"""The door: who may talk to us at all, and as whom. The first thing a request meets.

Against web pages: `Host` must be one of ours (a rebound DNS name isn't), `Origin` must be ours or
absent. Against everybody else: the administrator's key, except that MCP is open on loopback while
`require_mcp_auth` is off. A wrong key is never better than none. On the Unix socket, which only this
user can open, everybody is local.
"""

from __future__ import annotations

import hmac
import json
import re
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy.policy import ADMIN, ANONYMOUS, LOCAL, Caller
from mcpproxy.settings import Settings

OPEN = frozenset({"/livez", "/readyz", "/healthz", "/ready"})
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Guard:
    """ASGI middleware; puts `caller` and `request_id` into the request's state."""

    def __init__(self, app: ASGIApp, settings: Settings, *, local: bool) -> None:
        self._app = app
        self._local = local
        self._key = settings.api_key.get_secret_value().encode()
        self._anonymous_mcp = settings.loopback and not settings.require_mcp_auth
        self._names = {"127.0.0.1", "localhost", "::1", settings.host.lower()}
        self._names |= {name.lower() for name in settings.trusted_hosts if not name.startswith(".")}
        self._below = tuple(name.lower() for name in settings.trusted_hosts if name.startswith("."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get(b"x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        found = self._judge(scope, headers)
        if isinstance(found, Refusal):
            await refuse(send, found.status, found.code, found.message, request_id)
            return
        scope.setdefault("state", {}).update(caller=found, request_id=request_id)
        marked = (b"x-request-id", request_id.encode())

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), marked]}
            await send(message)

        await self._app(scope, receive, send_marked)

    def _judge(self, scope: Scope, headers: dict[bytes, str]) -> Caller | Refusal:
        host = headers.get(b"host", "")
        if not self._ours(hostname(f"//{host}")):
            return Refusal(
                421,
                "FORBIDDEN",
                f"the Host {host[:100]!r} is not ours; use 127.0.0.1 or localhost, or add it to trusted_hosts",
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._ours(hostname(origin)):
            return Refusal(403, "FORBIDDEN", "requests from web pages are refused (Origin)")
        if self._local:
            return LOCAL
        path = scope["path"]
        key = self._given_key(scope, headers)
        if key is not None:
            if hmac.compare_digest(key.encode("utf-8", "surrogateescape"), self._key):
                return ADMIN
            return Refusal(
                401, "UNAUTHORIZED", "the API key is wrong; it is `api_key` in the configuration"
            )
        if path in OPEN or (self._anonymous_mcp and (path == "/mcp" or path.startswith("/mcp/"))):
            return ANONYMOUS
        return Refusal(
            401,
            "UNAUTHORIZED",
            "an API key is needed: send it as X-API-Key or Authorization: Bearer; it is `api_key` in the configuration",
        )

    def _ours(self, name: str | None) -> bool:
        return name is not None and (
            name in self._names or (bool(self._below) and name.endswith(self._below))
        )

    @staticmethod
    def _given_key(scope: Scope, headers: dict[bytes, str]) -> str | None:
        if (key := headers.get(b"x-api-key")) is not None:
            return key
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return query["apikey"][0] if "apikey" in query else None


class Refusal:
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message


def hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


async def refuse(send: Send, status: int, code: str, message: str, request_id: str) -> None:
    """Answer with the envelope that all refusals share; `ok` and `success` serve both kinds of readers."""
    body: dict[str, Any] = {
        "ok": False,
        "success": False,
        "error": {"code": code, "message": message},
        "request_id": request_id,
    }
    headers = [(b"x-request-id", request_id.encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await respond(send, status, json.dumps(body).encode(), headers)


async def respond(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """One whole JSON answer."""
    fixed = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send(
        {"type": "http.response.start", "status": status, "headers": [*fixed, *(headers or [])]}
    )
    await send({"type": "http.response.body", "body": body})
