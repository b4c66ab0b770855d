"""What goes on while a connection is open: a task each, ended with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcpproxy.upstream.connection import Connection
from mcpproxy.upstream.reasons import sentence
from mcpproxy.upstream.terms import Terms

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings
    from mcpproxy.upstream.grant import Grant

logger = logging.getLogger(__name__)

PINGS = 3
"""Unanswered pings after which a connection is given up."""
FIRST_REST, LONGEST_REST = 0.05, 5.0
"""Seconds for which a server is not listed again that says, right after a listing, that it is another: doubled each time."""
SHORTEST_HOLD = 10.0
"""Seconds between two listings, however short a server says that its list holds."""

LOOK_SECONDS = 300.0
"""Between looks whether a setting that is 0, for never, still is."""


class Linked(Protocol):
    """What these tasks need of the link that has the connection."""

    settings: ServerSettings
    terms: Terms
    grant: Grant
    calls: int
    used_at: float

    def drop(self, connection: Connection, reason: str) -> None: ...
    def end(self, connection: Connection, reason: str) -> None: ...
    def relisted(self, definitions: Iterable[Mapping[str, Any]]) -> None: ...
    async def keep_listing(self) -> None: ...


async def live(link: Linked, connection: Connection, held: float | None) -> None:
    """Until the connection ends. `held`: the seconds for which the server says that its list holds."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relist, link, connection, held)
        tasks.start_soon(connection.watch)
        tasks.start_soon(connection.following.run)
        tasks.start_soon(_stay_logged_in, link, connection)
        if link.settings.lazy:
            tasks.start_soon(_let_go_when_idle, link, connection)
        if connection.era == "legacy" or connection.line.way == "stdio":
            tasks.start_soon(_ping, link, connection)
        await connection.ended.wait()
        tasks.cancel_scope.cancel()


async def relist(link: Linked, connection: Connection, held: float | None) -> None:
    """List the tools again when the server says that they changed, or else after a while."""
    rest = 0.0
    while True:
        await link.keep_listing()
        listed = anyio.current_time()
        await _due(link, connection, held)
        at_once = anyio.current_time() - listed < 1
        rest = min(max(2 * rest, FIRST_REST), LONGEST_REST) if at_once else 0.0
        await anyio.sleep(rest)
        try:
            with anyio.fail_after(link.terms.init):
                definitions, held = await connection.tools()
        except (MCPError, TimeoutError) as error:
            logger.warning(
                "server '%s' did not list its tools: %s; the last list stays in use",
                link.settings.name,
                sentence(error),
            )
            continue
        link.relisted(definitions)


async def _due(link: Linked, connection: Connection, held: float | None) -> None:
    """Wait until the tools are to be listed again."""
    while True:
        hold = max(held, SHORTEST_HOLD) if held else link.terms.listing
        with anyio.move_on_after(hold or LOOK_SECONDS):
            await connection.changed.wait()
            return
        if hold:
            return


async def _stay_logged_in(link: Linked, connection: Connection) -> None:
    """Renew the token ahead of time; where only a new login helps, connect anew, which says so."""
    await link.grant.keep_fresh()
    link.drop(connection, link.grant.account())


async def _let_go_when_idle(link: Linked, connection: Connection) -> None:
    """End the connection once no call has used it for a while."""
    while True:
        idle = link.terms.idle
        left = link.used_at + idle - time.monotonic()
        if idle and left <= 0 and not link.calls:
            link.end(connection, f"nobody used it for {idle:g} s (idle_timeout)")
            return
        await anyio.sleep(left if left > 0 else idle or LOOK_SECONDS)


async def _ping(link: Linked, connection: Connection) -> None:
    """Give up a connection that doesn't answer. A server at work on a call may be deaf: that has its own timeout."""
    # 2026-07-28 has no pings; this is what every server of it must answer.
    ask = "ping" if connection.era == "legacy" else "server/discover"
    missed = 0
    while missed < PINGS:
        await anyio.sleep(link.terms.ping or LOOK_SECONDS)
        if not (within := link.terms.ping):
            continue
        answered = False
        with anyio.move_on_after(within):
            try:
                await connection.request(ask, {})
                answered = True
            except MCPError as error:
                answered = error.code != types.CONNECTION_CLOSED  # it couldn't even be sent
        missed = 0 if answered else missed + (not link.calls)
    link.drop(connection, f"it did not answer {PINGS} pings")
