"""The first thing a request meets: which page sent it, under which name, and with which key.

A web page can make a browser send us requests, and can point a name of its own at this machine
(DNS rebinding). So the names we answer to are listed exactly, and a foreign `Origin` is refused,
before anything of the request is read. It does not defend against other programs of this user.

    Host ─> Origin ─> key ─> a Caller in the request's state, next to its request_id
"""

from __future__ import annotations

import hmac
import logging
import re
import uuid
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy.errors import Refused
from mcpproxy.policy import ADMIN, ANONYMOUS, LOCAL, Caller
from mcpproxy.replies import refused

if TYPE_CHECKING:
    from mcpproxy.settings import Settings

logger = logging.getLogger(__name__)

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="-")
"""Of the request that is being served, for log lines."""

PUBLIC = frozenset({"/livez", "/readyz", "/health", "/healthz", "/ready"})
"""What anyone may ask: whether we are there."""

SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?")
ORIGIN = re.compile(r"(https?)://([^/]+)")
DEFAULT_PORTS = {"http": 80, "https": 443}
ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to

KEY_NEEDED = (
    "a key is needed: send it as X-API-Key, as Authorization: Bearer, or as ?apikey=; "
    "it is api_key in the configuration file"
)
KEY_WRONG = "the key that was sent is not the right one; it is api_key in the configuration file"


class Names:
    """The names under which we may be addressed."""

    def __init__(self, listen_host: str, trusted: Iterable[str]) -> None:
        self._own = {"127.0.0.1", "localhost", "[::1]", bracketed(listen_host.lower())}
        self._any_address = listen_host in ANY_ADDRESS
        entries = [entry.lower() for entry in trusted]
        self._trusted = {entry for entry in entries if not entry.startswith(".")}
        self._below = tuple(entry for entry in entries if entry.startswith("."))

    def own(self, host: str, port: int | None, at: tuple[str, int | None]) -> bool:
        """Whether this is us, without anything in between; `at` is where the connection came in."""
        known = host in self._own or (self._any_address and host == bracketed(at[0]))
        return known and port in (None, at[1])

    def trusted(self, host: str, port: int | None) -> bool:
        """Whether the operator said that a proxy in front of us goes by this name."""
        return (
            host in self._trusted
            or f"{host}:{port}" in self._trusted
            or host.endswith(self._below)
            or "*" in self._trusted
        )


def bracketed(host: str) -> str:
    """A host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def authority(text: str) -> tuple[str, int | None] | None:
    """Host and port of what a Host header or an origin names; None if it can't be one."""
    found = AUTHORITY.fullmatch(text.lower())
    return (found[1], int(found[2]) if found[2] else None) if found else None


class Guard:
    """Lets a request through with a caller, or answers it. `local` is for the user's own socket."""

    def __init__(self, app: ASGIApp, settings: Settings, *, local: bool = False) -> None:
        self._app = app
        self._local = local
        self._names = Names(settings.host, settings.trusted_hosts)
        self._key = settings.api_key.get_secret_value().encode()
        self._mcp_open = settings.loopback and not settings.require_mcp_auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", scope["type"]
        headers = Headers(scope)
        request_id = headers.request_id()
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        REQUEST_ID.set(request_id)

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            state["caller"] = self.admit(scope, headers)
        except Refused as refusal:
            logger.warning("%s %s is refused: %s", scope["method"], shown(scope["path"]), refusal)
            challenge = {"www-authenticate": "Bearer"} if refusal.code == "UNAUTHORIZED" else None
            await refused(scope, refusal, challenge)(scope, receive, stamped)
            return
        await self._app(scope, receive, stamped)

    def admit(self, scope: Scope, headers: Headers) -> Caller:
        """Who asks. Raises `Refused`. Takes the key out of the query, so that nobody logs it."""
        sent = headers.keys(scope)
        direct = self._local or self._check_host(scope, headers)
        self._check_origin(scope, headers)
        if self._local:
            return LOCAL
        if scope["path"] in PUBLIC:
            return ANONYMOUS
        if sent:
            if all(hmac.compare_digest(key, self._key) for key in sent) and self._key:
                return ADMIN
            raise Refused("UNAUTHORIZED", KEY_WRONG)
        # What a proxy passes on comes from elsewhere, however close the proxy is.
        if self._mcp_open and direct and is_mcp(scope["path"]):
            return ANONYMOUS
        raise Refused("UNAUTHORIZED", KEY_NEEDED)

    def _check_host(self, scope: Scope, headers: Headers) -> bool:
        """Whether the name in the request is our own, rather than that of a proxy in front."""
        named = headers.text(b"host")
        found = authority(named[0]) if len(named) == 1 else None
        if found is not None:
            if self._names.own(*found, at(scope)):
                return True
            if self._names.trusted(*found):
                return False
        raise Refused(
            "FORBIDDEN",
            f"the Host header ({shown(', '.join(named))}) is not a name of this daemon; "
            "a proxy in front of it is named in trusted_hosts",
        )

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        for origin in headers.text(b"origin"):
            found = ORIGIN.fullmatch(origin.lower())
            named = authority(found[2]) if found else None
            if found and named:
                host, port = named[0], named[1] or DEFAULT_PORTS[found[1]]
                if self._names.own(host, port, at(scope)) or self._names.trusted(host, port):
                    continue
            raise Refused("FORBIDDEN", f"requests from the web page {shown(origin)} are refused")


class Headers:
    """What the guard needs of a request's headers."""

    WANTED = frozenset({b"host", b"origin", b"x-api-key", b"authorization", b"x-request-id"})

    def __init__(self, scope: Scope) -> None:
        self._found = [pair for pair in scope["headers"] if pair[0] in self.WANTED]

    def all(self, wanted: bytes) -> list[bytes]:
        return [value for name, value in self._found if name == wanted]

    def text(self, wanted: bytes) -> list[str]:
        return [value.decode("latin-1") for value in self.all(wanted)]

    def request_id(self) -> str:
        """The caller's own, where it is one that can stand in a log; else a new one."""
        given = self.all(b"x-request-id")
        if len(given) == 1 and SANE_ID.fullmatch(given[0]):
            return given[0].decode()
        return uuid.uuid4().hex

    def keys(self, scope: Scope) -> list[bytes]:
        """What was sent as a key, in the first of the three places that holds something."""
        queried = take_apikey(scope)
        bearers = [
            value[7:].strip() if value[:7].lower() == b"bearer " else b""
            for value in self.all(b"authorization")
        ]
        return self.all(b"x-api-key") or bearers or queried


def take_apikey(scope: Scope) -> list[bytes]:
    """Take `apikey` out of the query."""
    if b"apikey" not in scope["query_string"]:
        return []
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    scope["query_string"] = urlencode([pair for pair in pairs if pair[0] != "apikey"]).encode()
    return [value.encode("utf-8", "surrogateescape") for name, value in pairs if name == "apikey"]


def at(scope: Scope) -> tuple[str, int | None]:
    """Our own end of the connection."""
    host, port = scope.get("server") or ("", None)
    return host, port


def is_mcp(path: str) -> bool:
    return path == "/mcp" or path.startswith("/mcp/")


def shown(text: str) -> str:
    """Foreign text as it may stand in a message."""
    return repr(text[:100])
