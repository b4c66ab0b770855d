"""A link keeps one server connected: one task that opens, lives with, and closes its connections.

Everything of a connection is entered and left in that task. Whoever calls finds `connection`, or
wakes the link and waits for its next attempt.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mcpproxy.catalog import Server, Tool
from mcpproxy.errors import ProxyError
from mcpproxy.upstream.connection import Connection, open_connection
from mcpproxy.upstream.dial import (
    INSIDE,
    Line,
    Way,
    dial,
    refusal,
    retry_after,
    ways,
)
from mcpproxy.upstream.era import Era
from mcpproxy.upstream.grant import Grant
from mcpproxy.upstream.listing import Found, Shelf
from mcpproxy.upstream.references import References, Unreachable
from mcpproxy.upstream.warden import Warden

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

logger = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
JITTER = 0.2
STEADY = 10.0
"""Seconds after which a connection counts as a success: one that ends at once makes the pauses grow, too."""
GAP = 0.2
"""Seconds after a failed attempt in which a call doesn't cause another one."""
PINGS = 3
"""Unanswered pings after which a connection is given up."""
LONGEST_RETRY_AFTER = 3600.0
"""Seconds that a server may have us wait for the next attempt."""
ERA_SECONDS = 86_400.0
"""How long the era that a server was found to speak is taken for granted across our own restarts."""
FIRST_REST, LONGEST_REST = 0.05, 5.0
"""Seconds for which a server is not listed again that says, right after a listing, that it is another: doubled each time."""
SHORTEST_HOLD = 10.0
"""Seconds between two listings, however short a server says that its list holds."""


class Lost(ProxyError):
    """A connection failed or ended; the message says why, and holds no secrets."""

    wait: float | None = None
    """Seconds in which the server wants no other attempt."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings say about time, in seconds."""

    init: float = 30.0
    call: float = 120.0
    ping: float = 30.0
    listing: float = 300.0
    idle: float = 600.0


class Link:
    """See the module. `keep` is the task; the rest is for its neighbours."""

    def __init__(
        self,
        settings: ServerSettings,
        terms: Terms,
        references: References,
        grant: Grant,
        logs: Path,
        warden: Warden,
        changed: Callable[[], None],
        listings: Path | None = None,
    ) -> None:
        self.settings = settings
        self.terms = terms
        self.settled = anyio.Event()
        """Set when the first attempt is over, or there will be none."""
        self.next_attempt: float | None = None
        """When the pause ends, on anyio's clock."""
        self.calls = 0
        """Calls that are on the wire."""
        self.used_at = 0.0
        """When a call last began or ended, on anyio's clock."""
        self.seen = Server(settings.name, "connecting", None, MappingProxyType({}), None)
        self.listed_at: float | None = None
        """When the tools were last listed, in seconds since 1970."""
        self._shelf = Shelf(listings, settings)
        self.grant = grant
        self._references = references
        self._logs = logs
        self._warden = warden
        self._changed = changed
        self._connection: Connection | None = None
        self._era: Era | None = None
        self._found: Found | None = None
        """The era, and when the server was last asked for it."""
        self._way: Way | None = None
        self._delay = FIRST_DELAY
        self._failed_at = self._ready_at = self._not_before = -math.inf
        self._trying = False
        """Whether an attempt runs whose result isn't known yet."""
        self._tried = anyio.Event()
        """Set when the attempt that runs, or else the next one, has a result; then there is another."""
        self._wake = anyio.Event()
        self._reason = ""

    @property
    def connection(self) -> Connection | None:
        """The open connection, if there is one."""
        found = self._connection
        return None if found is None or found.closed else found

    @property
    def version(self) -> str | None:
        return self._connection.version if self._connection else None

    # for whoever calls

    async def connected(self) -> Connection | None:
        """The connection, after at most one attempt to open it; None if that failed."""
        if (found := self.connection) is not None:
            return found
        if anyio.current_time() >= max(self._failed_at + GAP, self._not_before):
            await self._next_result()
        return self.connection

    def drop(self, connection: Connection, reason: str) -> None:
        """Give a connection up, if it hasn't ended by itself; the link makes another one at once."""
        if connection is self._connection:
            self._reason = reason
            connection.ended.set()
            self._wake.set()

    async def restart(self) -> None:
        """Connect anew; returns when that was tried."""
        if self._connection is not None:
            self.drop(self._connection, "it is being restarted")
        await self._next_result()

    async def _next_result(self) -> None:
        """Have an attempt made now, unless one runs already, and wait for what comes of it."""
        tried = self._tried
        if not self._trying:
            self._wake.set()
        await tried.wait()

    def rest(self, state: str, why: str) -> None:
        """Stay unconnected."""
        self.seen = replace(self.seen, state=state, error=why)
        self.settled.set()

    # the task

    async def keep(self) -> None:
        """Connect, stay connected, and try again, for ever. Nobody waits for a link that was let go."""
        try:
            await self._keep()
        finally:
            self._failed_at = math.inf
            self._try_over()

    async def _keep(self) -> None:
        if (kept := self._shelf.load()) is not None:
            tools = merged(self.settings.name, {}, kept.tools)
            self.listed_at = kept.at
            self._show(replace(self.seen, tools=tools, instructions=kept.instructions))
            if kept.era is not None and 0 <= time.time() - kept.era.at < ERA_SECONDS:
                self._found, self._era = kept.era, kept.era.era
        if self.settings.lazy:
            self._lie_down()
            self.settled.set()
            await self._wake.wait()
        while True:
            self._wake = anyio.Event()
            self.next_attempt = None
            self._trying = True
            wait = await self._attempt()
            if self.settings.lazy and not self._trying:
                await self._wake.wait()
                continue
            if not self._trying and anyio.current_time() - self._ready_at > STEADY:
                self._delay = FIRST_DELAY
            pause = self._delay * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
            self._delay = min(2 * self._delay, LONGEST_DELAY)
            if wait is not None:
                pause = max(pause, min(wait, LONGEST_RETRY_AFTER))
                self._not_before = anyio.current_time() + pause
            self.next_attempt = anyio.current_time() + pause
            if self.settings.lazy:  # nobody asks for another attempt until it is called
                self.next_attempt = None if wait is None else self._not_before
                pause = math.inf
            logger.warning(
                "server '%s' is down: %s; the next attempt is %s",
                self.settings.name,
                self.seen.error,
                self._when(pause, wait),
            )
            if self._trying:
                self._try_over()
            with anyio.move_on_after(pause):
                await self._wake.wait()

    def _when(self, pause: float, wait: float | None) -> str:
        if math.isinf(pause):
            return "when it is called"
        return f"in {pause:.1f} s" + (", or when it is called" if wait is None else "")

    async def _attempt(self) -> float | None:
        """One connection from beginning to end, whatever that is; the server may want us to wait then."""
        try:
            await self._connect()
        except Lost as error:
            self._connection = None
            if self.settings.lazy and not self._trying:
                logger.info("server '%s' is let go: %s", self.settings.name, error)
                self._lie_down()
                return None
            if self._trying:
                self._failed_at = anyio.current_time()
                self._era = self._way = self._found = None
            self._show(replace(self.seen, state="down", error=str(error)))
            return error.wait
        finally:
            self._connection = None
        return None

    def _lie_down(self) -> None:
        """Be a lazy server that nobody has called (for a while)."""
        unknown = "it connects at its first use (lazy); its tools are not known before"
        self._show(replace(self.seen, state="lazy", error=None if self.seen.tools else unknown))

    async def _connect(self) -> None:
        """Raises `Lost`, always: that is how a connection ends."""
        choices = (self._way,) if self._way else ways(self.settings)
        first: Lost | None = None
        for way in choices:
            refused: list[bool] = []
            try:
                await self._stay(way, refused)
            except Lost as error:
                if way is choices[-1] or not any(refused):
                    if first is not None and self._trying:
                        raise first from error  # no way led there: the first one's reason says most
                    raise
                first = error

    async def _stay(self, way: Way, refused: list[bool]) -> None:
        """Dial, agree, list, and live with it. `refused`: whether it spoke HTTP, but not this way."""
        line: Line | None = None
        why: BaseException | None = None
        with anyio.CancelScope(deadline=anyio.current_time() + self.terms.init) as scope:
            try:
                async with dial(
                    self.settings, way, self._references, self._logs, self.grant, self._warden
                ) as line:
                    async with open_connection(
                        line, self._expected(way), sure=self._sure(way)
                    ) as connection:
                        definitions, held = await connection.tools()
                        scope.deadline = math.inf
                        self._ready(connection, way, definitions)
                        await self._live(connection, held)
            except Exception as error:
                why = leaf(error)
                refused.append(_refused(why, line))
            finally:
                self._connection = None
        if scope.cancelled_caught:
            reason = f"it did not answer within {self.terms.init:g} s (init_timeout)"
        else:
            reason, self._reason = self._reason or (self._said(why) if why else ""), ""
        account = line.account() if line else ""
        told = reason or ("" if account else "the connection ended")
        lost = Lost("; ".join(filter(None, (told, account))))
        lost.wait = line.wanted_pause() if line else None
        if isinstance(why, httpx2.HTTPStatusError):
            lost.wait = retry_after(why.response)
        raise lost from why

    def _said(self, why: BaseException) -> str:
        """What went wrong, where there was no line yet that could tell that a login is needed."""
        if isinstance(why, httpx2.HTTPStatusError) and self.grant.wanted:
            return f"{self.grant.account()} (HTTP {why.response.status_code})"
        return sentence(why)

    def _expected(self, way: Way) -> Era | None:
        if way == "sse" or way in INSIDE:
            return "legacy"
        return self._era if self.settings.era == "auto" else self.settings.era

    def _sure(self, way: Way) -> bool:
        return way == "sse" or way in INSIDE or self.settings.era != "auto"

    def _ready(
        self, connection: Connection, way: Way, definitions: Iterable[Mapping[str, Any]]
    ) -> None:
        self._connection = connection
        if self._found is None or connection.era != self._era:
            self._found = Found(connection.era, time.time())
        self._era, self._way, self._ready_at = connection.era, way, anyio.current_time()
        tools = merged(self.settings.name, self.seen.tools, definitions)
        logger.info(
            "server '%s' is ready: %d tools, protocol %s",
            self.settings.name,
            len(tools),
            connection.version,
        )
        self.listed_at, self.used_at = time.time(), anyio.current_time()
        self._not_before = -math.inf
        self._show(Server(self.settings.name, "ready", connection.instructions, tools, None))
        self._try_over()

    def _try_over(self) -> None:
        self._trying = False
        self.settled.set()
        self._tried.set()
        self._tried = anyio.Event()

    def _show(self, seen: Server) -> None:
        if seen != self.seen:
            self.seen = seen
            self._changed()

    # living with a connection

    async def _live(self, connection: Connection, held: float | None) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._relist, connection, held)
            tasks.start_soon(connection.watch)
            tasks.start_soon(connection.following.run)
            tasks.start_soon(self._stay_logged_in, connection)
            if self.settings.lazy:
                tasks.start_soon(self._let_go_when_idle, connection)
            if connection.era == "legacy" or connection.line.way == "stdio":
                tasks.start_soon(self._ping, connection)
            await connection.ended.wait()
            tasks.cancel_scope.cancel()

    async def _relist(self, connection: Connection, held: float | None) -> None:
        """List the tools again when the server says that they changed, or else after a while."""
        rest = 0.0
        while True:
            await self._keep_listing()
            listed = anyio.current_time()
            with anyio.move_on_after(max(held, SHORTEST_HOLD) if held else self.terms.listing):
                await connection.changed.wait()
            at_once = anyio.current_time() - listed < 1
            rest = min(max(2 * rest, FIRST_REST), LONGEST_REST) if at_once else 0.0
            await anyio.sleep(rest)
            try:
                with anyio.fail_after(self.terms.init):
                    definitions, held = await connection.tools()
            except (MCPError, TimeoutError) as error:
                logger.warning(
                    "server '%s' did not list its tools: %s; the last list stays in use",
                    self.settings.name,
                    sentence(error),
                )
                continue
            tools = merged(self.settings.name, self.seen.tools, definitions)
            self.listed_at = time.time()
            self._show(replace(self.seen, tools=tools))

    async def _keep_listing(self) -> None:
        seen = self.seen
        tools = [tool.definition for tool in seen.tools.values()]
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._shelf.save, tools, seen.instructions, self._found)

    async def _stay_logged_in(self, connection: Connection) -> None:
        """Renew the token ahead of time; where only a new login helps, connect anew, which says so."""
        await self.grant.keep_fresh()
        self.drop(connection, self.grant.account())

    async def _let_go_when_idle(self, connection: Connection) -> None:
        """End the connection once no call has used it for a while."""
        while True:
            idle = self.terms.idle
            left = self.used_at + idle - anyio.current_time()
            if idle and left <= 0 and not self.calls:
                self._reason = f"nobody used it for {idle:g} s (idle_timeout)"
                connection.ended.set()
                return
            await anyio.sleep(left if left > 0 else idle or self.terms.listing)

    async def _ping(self, connection: Connection) -> None:
        """Give up a connection that doesn't answer. A server at work on a call may be deaf: that has its own timeout."""
        # 2026-07-28 has no pings; this is what every server of it must answer.
        ask = "ping" if connection.era == "legacy" else "server/discover"
        missed = 0
        while missed < PINGS:
            await anyio.sleep(self.terms.ping)
            try:
                await connection.request(ask, {}, within=self.terms.ping)
            except MCPError as error:
                if error.code == types.REQUEST_TIMEOUT:
                    missed += not self.calls
                    continue
                if error.code == types.CONNECTION_CLOSED:
                    return
            missed = 0
        self.drop(connection, f"it did not answer {PINGS} pings")


def merged(
    server: str, known: Mapping[str, Tool], definitions: Iterable[Mapping[str, Any]]
) -> Mapping[str, Tool]:
    """The tools of a list: those known before in the order they had, new ones after them."""
    listed: dict[str, Tool] = {}
    for definition in definitions:
        name = definition["name"]
        before = known.get(name)
        same = before is not None and before.definition == definition
        listed.setdefault(name, before if before and same else Tool(server, definition))
    old = {name: listed[name] for name in known if name in listed}
    return MappingProxyType(old | listed)


# ── what went wrong ─────────────────────────────────────────────────────────────────────────────


def leaf(error: BaseException) -> BaseException:
    """The first real error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def sentence(error: BaseException) -> str:
    """What went wrong with a connection, for people."""
    match error:
        case Unreachable() | RuntimeError():
            return str(error)
        case MCPError(code=types.CONNECTION_CLOSED):
            return "the connection ended"
        case MCPError(message="Server returned an error response"):
            return ""  # the account of the line says it
        case MCPError():
            return f"it said: {error.message} ({error.code})"
        case httpx2.HTTPStatusError():
            return refusal(error.response.status_code)
        case httpx2.ConnectError():
            return f"nothing answers at its URL: {error}"
        case httpx2.HTTPError() | OSError():
            return f"{error or type(error).__name__}"
        case ValidationError():
            return f"its first answer is not valid MCP: {error.errors(include_url=False)[0]['msg']}"
    logger.error("unexpected failure of a connection", exc_info=error)
    return f"{type(error).__name__}: {error}"


def _refused(error: BaseException, line: Line | None) -> bool:
    """Whether an HTTP server refused the way it was spoken to (so that another may do)."""
    return (
        isinstance(error, MCPError)
        and line is not None
        and line.way == "streamable-http"
        and "HTTP 4" in (said := line.account())
        and not any(code in said for code in ("401", "403", "429"))
    )
