"""From a server's settings to a line that messages can be sent on."""

from __future__ import annotations

import logging
import logging.handlers
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from mcpproxy.paths import private_directory, server_log
from mcpproxy.redaction import SECRET_NAME, SECRETS, in_address, in_option, likely
from mcpproxy.upstream.grant import Bearer, Grant
from mcpproxy.upstream.inside import open_inside
from mcpproxy.upstream.references import INHERITED, REFERENCE, References, Unreachable
from mcpproxy.upstream.sse import open_sse
from mcpproxy.upstream.stdio import Program, open_child
from mcpproxy.upstream.tls import trust
from mcpproxy.upstream.warden import Warden

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

Way = Literal["stdio", "streamable-http", "sse", "toolpack", "openapi"]
INSIDE: frozenset[Way] = frozenset({"toolpack", "openapi"})
"""Ways to a source in this process (`inside.py`)."""

PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers whose values are no secrets; any other's may be."""

LOG_BYTES = 5 * 2**20
STATUS = {
    401: "it wants other credentials (HTTP 401); check its headers",
    403: "it refuses our credentials (HTTP 403); check its headers",
    404: "there is nothing at its URL (HTTP 404); check the path",
    429: "it has had too many requests (HTTP 429)",
}

BUSY = (429, 502, 503, 504)


@dataclass(slots=True)
class Line:
    """Two streams to a server, and an account of what is known about their end."""

    way: Way
    read: ReadStream[SessionMessage | Exception]
    write: WriteStream[SessionMessage]
    account: Callable[[], str]
    wanted_pause: Callable[[], float | None] = lambda: None
    """Seconds for which the server, refusing a request, asked to be left alone."""
    locked: Callable[[], bool] = lambda: False
    """Whether the server lets nobody in with what we have, whatever is asked."""
    busy: Callable[[], bool] = lambda: False
    """Whether the server, or what stands before it, takes no requests now, whatever is asked."""


@dataclass(slots=True)
class Answered:
    """The last refusal over HTTP, which the SDK's errors don't tell."""

    status: int | None = None
    pause: float | None = None

    async def note(self, response: httpx2.Response) -> None:
        if response.request.method == "POST" or response.status_code in (401, 403, 429):
            self.status = response.status_code if response.status_code >= 400 else None
            self.pause = retry_after(response)

    def account(self, grant: Grant) -> str:
        if self.status in (401, 403) and (said := grant.account()):
            return f"{said} (HTTP {self.status})"
        return "" if self.status is None else refusal(self.status)

    def line(
        self,
        way: Way,
        streams: tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]],
        grant: Grant,
    ) -> Line:
        return Line(
            way,
            *streams,
            partial(self.account, grant),
            lambda: self.pause,
            lambda: self.status == 401,
            lambda: self.status in BUSY,
        )


def refusal(status: int) -> str:
    """What a status of HTTP says of a server, and what to do about it."""
    kind = "it failed" if status >= 500 else "it refused our request"
    return STATUS.get(status, f"{kind} (HTTP {status})")


def retry_after(response: httpx2.Response) -> float | None:
    """The seconds that a 429 or 503 asks us to wait: a number, or a date (RFC 9110, 10.2.3)."""
    value = response.headers.get("retry-after", "").strip()
    if response.status_code not in (429, 503) or not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None


def ways(settings: ServerSettings) -> tuple[Way, ...]:
    """How the server may be reached, in the order to try."""
    match settings.protocol:
        case "stdio":
            return ("stdio",)
        case "http" | "streamable-http":
            return ("streamable-http",)
        case "sse":
            return ("sse",)
        case "toolpack" | "openapi":
            return (settings.protocol,)
    return ("stdio",) if settings.command else ("streamable-http", "sse")


@asynccontextmanager
async def dial(
    settings: ServerSettings,
    way: Way,
    references: References,
    logs: Path,
    grant: Grant,
    warden: Warden,
) -> AsyncIterator[Line]:
    """A line to the server for as long as the block. Raises `Unreachable`, `OSError`, `httpx2.HTTPError`."""
    await references.fetch(settings)
    async with (
        _stdio(settings, references, logs, warden)
        if way == "stdio"
        else OPENED[way](settings, references, logs, grant)
    ) as line:
        yield line


# ── processes ───────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _stdio(
    settings: ServerSettings, references: References, logs: Path, warden: Warden
) -> AsyncIterator[Line]:
    planned = program(settings, references)
    handler = _log_file(logs, settings.name)
    try:
        async with open_child(planned, partial(_note, handler), warden) as child:
            yield Line("stdio", child.reader, child.writer, child.account)
    finally:
        handler.close()


def program(settings: ServerSettings, references: References) -> Program:
    """What to start, and in which environment. Raises `Unreachable` where it isn't there."""
    if not settings.command:
        raise Unreachable("it has no command")
    env = {
        name: value
        for name, value in references.environ.items()
        if name in INHERITED or name.startswith("LC_")
    }
    for name, value in settings.env.items():
        env[name] = references.resolve(value, f"env.{name}")
        if SECRET_NAME.search(name) and not REFERENCE.search(value):
            SECRETS.add(value)
    cwd = settings.working_dir and os.path.expanduser(
        references.resolve(settings.working_dir, "working_dir")
    )
    if cwd and not Path(cwd).is_dir():
        raise Unreachable(f"its working_dir {cwd} is no directory")
    command = os.path.expanduser(references.resolve(settings.command, "command"))
    if os.sep in command:
        found = shutil.which(os.path.join(cwd or "", command))
        found = found and os.path.abspath(found)
    else:
        found = shutil.which(command, path=env.get("PATH"))
    if not found:
        raise Unreachable(
            f"its command '{command}' is not installed, or not on the PATH it is given"
        )
    for before, arg in zip(["", *settings.args], settings.args, strict=False):
        if (value := in_option(arg, before)) and not REFERENCE.search(value):
            SECRETS.add(value)
    args = [references.resolve(arg, f"args[{n}]") for n, arg in enumerate(settings.args)]
    return Program(settings.name, [found, *args], env, cwd)


def _log_file(logs: Path, name: str) -> logging.handlers.RotatingFileHandler:
    private_directory(logs)
    return logging.handlers.RotatingFileHandler(
        server_log(logs, name), maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True
    )


def _note(handler: logging.Handler, lines: list[str]) -> None:
    """Write them down, each with the time, all at once."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    text = SECRETS.hide("\n".join(f"{stamp} {line}" for line in lines))
    handler.handle(logging.LogRecord("stderr", logging.INFO, "", 0, text, None, None))


# ── HTTP ────────────────────────────────────────────────────────────────────────────────────────


def _client(
    answered: Answered,
    headers: dict[str, str],
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        verify=trust(),
        headers=headers,
        auth=auth,
        timeout=httpx2.Timeout(30, read=None),
        limits=httpx2.Limits(max_connections=None),
        event_hooks={"response": [answered.note]},
    )


def own_key(settings: ServerSettings) -> bool:
    """Whether the settings themselves say how we are known there."""
    return any(name.lower() == "authorization" for name in settings.headers)


def bearer(settings: ServerSettings, grant: Grant, url: str) -> Bearer | None:
    return None if own_key(settings) else Bearer(grant, url)


def address(settings: ServerSettings, references: References) -> tuple[str, dict[str, str]]:
    """URL and headers, resolved. Raises `Unreachable`."""
    if not settings.url:
        raise Unreachable("it has no url")
    headers = {
        name: references.resolve(value, f"headers.{name}")
        for name, value in settings.headers.items()
    }
    for name, value in settings.headers.items():
        plain = REFERENCE.search(value) or name.lower() in PLAIN_HEADERS
        if not plain and likely(name, value):
            for part in {value, value.partition(" ")[2]}:  # "Bearer abc", and "abc" alone
                SECRETS.add(part)
    for part in in_address(settings.url):
        SECRETS.add(part)
    return references.resolve(settings.url, "url"), headers


@asynccontextmanager
async def _streamable(
    settings: ServerSettings, references: References, _: Path, grant: Grant
) -> AsyncIterator[Line]:
    url, headers = address(settings, references)
    await grant.load()
    answered = Answered()
    async with (
        _client(answered, headers, auth=bearer(settings, grant, url)) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield answered.line("streamable-http", streams, grant)


@asynccontextmanager
async def _sse(
    settings: ServerSettings, references: References, _: Path, grant: Grant
) -> AsyncIterator[Line]:
    url, headers = address(settings, references)
    await grant.load()
    answered = Answered()
    async with (
        _client(answered, headers, auth=bearer(settings, grant, url)) as client,
        open_sse(client, url, settings.name) as streams,
    ):
        yield answered.line("sse", streams, grant)


# ── sources in this process ─────────────────────────────────────────────────────────────────────


def _directory(settings: ServerSettings, references: References) -> Path:
    found = Path(os.path.expanduser(references.resolve(settings.directory or "", "directory")))
    if not found.is_dir():
        raise Unreachable(f"its directory {found} is not there")
    return found


@asynccontextmanager
async def _toolpack(
    settings: ServerSettings, references: References, logs: Path, _: Grant
) -> AsyncIterator[Line]:
    # here, because most daemons have none: templates and schemas take their time to import
    from mcpproxy.upstream.toolpack.source import open_pack

    root = _directory(settings, references)
    environ = dict(references.environ)
    for name, value in settings.env.items():
        environ[name] = references.resolve(value, f"env.{name}")
    handler = _log_file(logs, settings.name)
    try:
        note, kept = partial(_note, handler), logs.with_name("toolpacks.sqlite3")
        opener = partial(open_pack, settings.name, root, environ, kept, note)
        async with open_inside(opener) as (read, write):
            yield Line("toolpack", read, write, lambda: "")
    finally:
        handler.close()


@asynccontextmanager
async def _openapi(
    settings: ServerSettings, references: References, logs: Path, _: Grant
) -> AsyncIterator[Line]:
    # here, for the same reason
    from mcpproxy.upstream.openapi.configured import wanted
    from mcpproxy.upstream.openapi.source import open_api

    handler = _log_file(logs, settings.name)
    try:
        found, note = wanted(settings, references), partial(_note, handler)
        opener = partial(open_api, settings.name, found, settings.document_refresh, note)
        async with open_inside(opener) as (read, write):
            yield Line("openapi", read, write, lambda: "")
    finally:
        handler.close()


Opened = Callable[["ServerSettings", References, Path, Grant], AbstractAsyncContextManager[Line]]
OPENED: Mapping[Way, Opened] = {
    "streamable-http": _streamable,
    "sse": _sse,
    "toolpack": _toolpack,
    "openapi": _openapi,
}
"""How each way is opened but that of processes, which want a warden."""
