"""From a server's settings to a line that messages can be sent on."""

from __future__ import annotations

import logging
import logging.handlers
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
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
from mcpproxy.upstream.inflight import InFlight
from mcpproxy.upstream.inside import open_inside
from mcpproxy.upstream.reasons import BUSY, refusal, retry_after
from mcpproxy.upstream.references import INHERITED, REFERENCE, References, Unreachable
from mcpproxy.upstream.request import TOKEN, header_fault
from mcpproxy.upstream.sse import open_sse
from mcpproxy.upstream.stdio import Program, open_child
from mcpproxy.upstream.tls import trust
from mcpproxy.upstream.warden import Warden

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

Way = Literal["stdio", "streamable-http", "sse", "toolpack", "openapi"]
INSIDE: frozenset[Way] = frozenset({"toolpack", "openapi"})
"""Ways to a source in this process (`inside.py`)."""
Note = Callable[[list[str]], None]
"""Takes lines for a server's log."""

PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers whose values are no secrets; any other's may be."""

LOG_BYTES = 5 * 2**20


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
    inflight: InFlight | None = None
    """The short way of a request, where there is one."""


@dataclass(slots=True)
class Answered:
    """The last refusal over HTTP, which the SDK's errors don't tell."""

    status: int | None = None
    pause: float | None = None

    async def note(self, response: httpx2.Response) -> None:
        if response.request.method == "POST" or response.status_code in (401, 403, 429):
            self.status = response.status_code if response.status_code >= 400 else None
            value = response.headers.get("retry-after")
            self.pause = retry_after(response.status_code, value)

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


@dataclass(frozen=True, slots=True)
class Means:
    """What every server is dialled with, besides its own settings and login."""

    references: References
    logs: Path
    """The folder in which it is kept what servers say on stderr."""
    warden: Warden


@asynccontextmanager
async def dial(
    settings: ServerSettings, way: Way, means: Means, grant: Grant
) -> AsyncIterator[Line]:
    """A line to the server for as long as the block. Raises `Unreachable`, `OSError`, `httpx2.HTTPError`."""
    await means.references.fetch(settings)
    async with OPENED[way](settings, means, grant) as line:
        yield line


@contextmanager
def _notes(settings: ServerSettings, means: Means) -> Iterator[Note]:
    """Where lines for a server's log go."""
    handler = _log_file(means.logs, settings.name)
    try:
        yield partial(_note, handler)
    finally:
        handler.close()


def _log_file(logs: Path, name: str) -> logging.handlers.RotatingFileHandler:
    private_directory(logs)
    return logging.handlers.RotatingFileHandler(
        server_log(logs, name),
        maxBytes=LOG_BYTES,
        backupCount=1,
        encoding="utf-8",
        delay=True,
        errors="backslashreplace",
    )


def _note(handler: logging.Handler, lines: list[str]) -> None:
    """Write them down, each with the time, all at once."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    text = SECRETS.hide("\n".join(f"{stamp} {line}" for line in lines))
    handler.handle(logging.LogRecord("stderr", logging.INFO, "", 0, text, None, None))


# ── processes ───────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _stdio(settings: ServerSettings, means: Means, _: Grant) -> AsyncIterator[Line]:
    planned = program(settings, means.references)
    with _notes(settings, means) as note:
        async with open_child(planned, note, means.warden) as child:
            inflight = child.inflight
            yield Line("stdio", inflight, child.writer, child.account, inflight=inflight)


def program(settings: ServerSettings, references: References) -> Program:
    """What to start, and in which environment. Raises `Unreachable` where it isn't there."""
    if not settings.command:
        raise Unreachable("it has no command")
    env = environment(settings, references)
    cwd = settings.working_dir and os.path.expanduser(
        references.resolve(settings.working_dir, "working_dir")
    )
    if cwd and not Path(cwd).is_dir():
        raise Unreachable(f"its working_dir {cwd} is no directory")
    command = os.path.expanduser(references.resolve(settings.command, "command"))
    if os.sep in command:
        place = os.path.join(cwd or "", command)
        found = shutil.which(place)
        found = found and os.path.abspath(found)
    else:
        place = ""
        found = shutil.which(command, path=env.get("PATH"))
    if not found:
        raise Unreachable(f"its command '{command}' {amiss(place)}")
    for before, arg in zip(["", *settings.args], settings.args, strict=False):
        if (value := in_option(arg, before)) and not REFERENCE.search(value):
            SECRETS.add(value)
    args = [references.resolve(arg, f"args[{n}]") for n, arg in enumerate(settings.args)]
    return Program(settings.name, [found, *args], env, cwd)


def amiss(place: str) -> str:
    """Why a command can't be started, and what helps; `place` is its path where that was given."""
    if not place:
        return (
            "is not installed, or not on the PATH of the daemon; write the whole path in its entry, or start "
            "the daemon anew from where the command is found"
        )
    if os.path.isdir(place):
        return "is a folder; name the program in it"
    if os.path.exists(place):
        return "may not be run; make it executable (chmod +x), or put what runs it in front"
    return "is not there; check the path"


def environment(settings: ServerSettings, references: References) -> dict[str, str]:
    """What a program sees of our environment, and what its settings give it. Raises `Unreachable`."""
    found = {
        name: value
        for name, value in references.environ.items()
        if name in INHERITED or name.startswith("LC_")
    }
    for name, value in settings.env.items():
        found[name] = references.resolve(value, f"env.{name}")
        if SECRET_NAME.search(name) and not REFERENCE.search(value):
            SECRETS.add(value)
    return found


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
        if not TOKEN.match(name) or not headers[name].isascii() or header_fault(headers[name]):
            raise Unreachable(f"headers.{name} can't be sent: it has characters no header can have")
        plain = REFERENCE.search(value) or name.lower() in PLAIN_HEADERS
        if not plain and likely(name, value):
            for part in {value, value.partition(" ")[2]}:  # "Bearer abc", and "abc" alone
                SECRETS.add(part)
    for part in in_address(settings.url):
        SECRETS.add(part)
    return references.resolve(settings.url, "url"), headers


@asynccontextmanager
async def _http(
    way: Literal["streamable-http", "sse"], settings: ServerSettings, means: Means, grant: Grant
) -> AsyncIterator[Line]:
    url, headers = address(settings, means.references)
    await grant.load()
    answered = Answered()
    async with (
        _client(answered, headers, auth=bearer(settings, grant, url)) as client,
        open_sse(client, url, settings.name)
        if way == "sse"
        else streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield answered.line(way, streams, grant)


# ── sources in this process ─────────────────────────────────────────────────────────────────────


def _directory(settings: ServerSettings, references: References) -> Path:
    found = Path(os.path.expanduser(references.resolve(settings.directory or "", "directory")))
    if not found.is_dir():
        raise Unreachable(f"its directory {found} is not there")
    return found


@asynccontextmanager
async def _toolpack(settings: ServerSettings, means: Means, _: Grant) -> AsyncIterator[Line]:
    # here, because most daemons have none: templates and schemas take their time to import
    from mcpproxy.upstream.toolpack.source import open_pack

    references, kept = means.references, means.logs.with_name("toolpacks.sqlite3")
    root = _directory(settings, references)
    environ = dict(references.environ)
    for name, value in settings.env.items():
        environ[name] = references.resolve(value, f"env.{name}")
    with _notes(settings, means) as note:
        opener = partial(open_pack, settings.name, root, environ, kept, note)
        async with open_inside(opener) as (read, write):
            yield Line("toolpack", read, write, lambda: "")


@asynccontextmanager
async def _openapi(settings: ServerSettings, means: Means, _: Grant) -> AsyncIterator[Line]:
    # here, for the same reason
    from mcpproxy.upstream.openapi.configured import wanted
    from mcpproxy.upstream.openapi.source import open_api

    with _notes(settings, means) as note:
        found = wanted(settings, means.references)
        opener = partial(open_api, settings.name, found, settings.document_refresh, note)
        async with open_inside(opener) as (read, write):
            yield Line("openapi", read, write, lambda: "")


Opened = Callable[["ServerSettings", Means, Grant], AbstractAsyncContextManager[Line]]
OPENED: Mapping[Way, Opened] = {
    "stdio": _stdio,
    "streamable-http": partial(_http, "streamable-http"),
    "sse": partial(_http, "sse"),
    "toolpack": _toolpack,
    "openapi": _openapi,
}
"""How each way is opened."""
