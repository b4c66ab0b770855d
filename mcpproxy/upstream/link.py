"""A link keeps one server connected: one task that opens, lives with, and closes its connections.

Everything of a connection is entered and left in that task. Whoever calls finds `connection`, or
wakes the link and waits for its next attempt. What goes on meanwhile on a connection is `living.py`.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx2
from mcp.shared.exceptions import MCPError

from mcpproxy.catalog import Server
from mcpproxy.errors import ProxyError
from mcpproxy.upstream.connection import Connection, open_connection
from mcpproxy.upstream.dial import INSIDE, Line, Means, Way, dial, ways
from mcpproxy.upstream.era import Era
from mcpproxy.upstream.grant import Grant
from mcpproxy.upstream.listing import Found, Shelf, merged
from mcpproxy.upstream.living import live
from mcpproxy.upstream.reasons import leaf, retry_after, sentence
from mcpproxy.upstream.terms import Terms

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

logger = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
JITTER = 0.2
STEADY = 10.0
"""Seconds after which a connection counts as a success: one that ends at once makes the pauses grow, too."""
GAP = 0.2
"""Seconds after a failed attempt in which a call doesn't cause another one."""
LONGEST_RETRY_AFTER = 3600.0
"""Seconds that a server may have us wait for the next attempt."""
ERA_SECONDS = 86_400.0
"""How long the era that a server was found to speak is taken for granted across our own restarts."""


class Lost(ProxyError):
    """A connection failed or ended; the message says why, and holds no secrets."""

    wait: float | None = None
    """Seconds in which the server wants no other attempt."""


class Link:
    """See the module. `keep` is the task; the rest is for its neighbours."""

    def __init__(
        self,
        settings: ServerSettings,
        terms: Terms,
        means: Means,
        grant: Grant,
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
        """When a call last ended, or the connection was made, on the monotonic clock."""
        self.seen = Server(settings.name, "connecting", None, MappingProxyType({}), None)
        self.listed_at: float | None = None
        """When the tools were last listed, in seconds since 1970."""
        self._shelf = Shelf(listings, settings)
        self.grant = grant
        self._means = means
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
        self._logged: str | None = None
        """Why the last attempts failed, as the log has it; None once one succeeded."""

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
            self.end(connection, reason)
            self._wake.set()

    def end(self, connection: Connection, reason: str) -> None:
        """Give it up; whether another one is made at once is up to the link."""
        self._reason = reason
        connection.ended.set()

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
        self._remember()
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
            pause = self._pause(wait)
            # Once a minute for days would hide what else there is to read.
            logger.log(
                logging.DEBUG if self.seen.error == self._logged else logging.WARNING,
                "server '%s' is down: %s; the next attempt is %s",
                self.settings.name,
                self.seen.error,
                _when(pause, wait),
            )
            self._logged = self.seen.error
            if self._trying:
                self._try_over()
            with anyio.move_on_after(pause):
                await self._wake.wait()

    def _remember(self) -> None:
        """Begin with what the server listed the last time."""
        if (kept := self._shelf.load()) is None:
            return
        tools = merged(self.settings.name, {}, kept.tools)
        self.listed_at = kept.at
        self._show(replace(self.seen, tools=tools, instructions=kept.instructions))
        if kept.era is not None and 0 <= time.time() - kept.era.at < ERA_SECONDS:
            self._found, self._era = kept.era, kept.era.era

    def _pause(self, wait: float | None) -> float:
        """Seconds until the next attempt; `wait` are those in which the server wants none."""
        now = anyio.current_time()
        if not self._trying and now - self._ready_at > STEADY:
            self._delay = FIRST_DELAY
        pause = self._delay * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
        self._delay = min(2 * self._delay, LONGEST_DELAY)
        if wait is not None:
            pause = max(pause, min(wait, LONGEST_RETRY_AFTER))
            self._not_before = now + pause
        if self.settings.lazy:  # nobody asks for another attempt until it is called
            self.next_attempt = None if wait is None else self._not_before
            return math.inf
        self.next_attempt = now + pause
        return pause

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
                async with dial(self.settings, way, self._means, self.grant) as line:
                    async with open_connection(
                        line, self._expected(way), sure=self._sure(way)
                    ) as connection:
                        definitions, held = await connection.tools()
                        scope.deadline = math.inf
                        self._ready(connection, way, definitions)
                        await live(self, connection, held)
            except Exception as error:
                why = leaf(error)
                refused.append(_refused_way(why, line))
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
            answer = why.response
            lost.wait = retry_after(answer.status_code, answer.headers.get("retry-after"))
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
        self.listed_at, self.used_at = time.time(), time.monotonic()
        self._not_before, self._logged = -math.inf, None
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

    # for the tasks that live with a connection

    def relisted(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        """Show the tools that the server has just listed."""
        self.listed_at = time.time()
        tools = merged(self.settings.name, self.seen.tools, definitions)
        self._show(replace(self.seen, tools=tools))

    async def keep_listing(self) -> None:
        """Put what is shown on disk, for when the server isn't connected."""
        tools = [tool.definition for tool in self.seen.tools.values()]
        said, found = self.seen.instructions, self._found
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._shelf.save, tools, said, found)


def _when(pause: float, wait: float | None) -> str:
    if math.isinf(pause):
        return "when it is called"
    return f"in {pause:.1f} s" + (", or when it is called" if wait is None else "")


def _refused_way(error: BaseException, line: Line | None) -> bool:
    """Whether an HTTP server refused the way it was spoken to (so that another may do)."""
    return (
        isinstance(error, MCPError)
        and line is not None
        and line.way == "streamable-http"
        and "HTTP 4" in (said := line.account())
        and not any(code in said for code in ("401", "403", "429"))
    )
