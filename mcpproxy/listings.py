"""The lists of prompts and resources of each server: fetched when somebody asks, kept with the connection they came from.

A server that doesn't list costs its own entries. What waits for an operator is in no list that is shown.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcpproxy import readable
from mcpproxy.approvals import WHY_HELD, command
from mcpproxy.catalog import public
from mcpproxy.errors import CallError
from mcpproxy.listed import Kind, Listed, listed
from mcpproxy.names import LONGEST
from mcpproxy.upstream.listing import holds

if TYPE_CHECKING:
    from mcpproxy.upstream.connection import Connection
    from mcpproxy.upstream.fleet import Fleet

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Ask = Callable[[str, Json], Awaitable[Json]]
"""Method and parameters to a server's raw result."""

PROMPTS, RESOURCES, TEMPLATES = "prompts/list", "resources/list", "resources/templates/list"
KEYS = {
    PROMPTS: ("prompts", "name"),
    RESOURCES: ("resources", "uri"),
    TEMPLATES: ("resourceTemplates", "uriTemplate"),
}
"""Of each list: the member of the result, and the member of an entry that names it."""
KINDS: dict[str, Kind] = {PROMPTS: "prompt", RESOURCES: "resource", TEMPLATES: "template"}
READ = {PROMPTS: readable.prompt, RESOURCES: readable.resource, TEMPLATES: readable.template}
"""How an entry of each is made such that clients can read it."""

HOLD_SECONDS = 60.0
FAILED_SECONDS = 5.0
"""How long a server that didn't list isn't asked again."""
LISTING_SECONDS = 5.0
"""How long everyone waits for the slowest server."""
MOST_ENTRIES = 20_000
AT_ONCE = 500
"""Entries that are looked at on the event loop; more go to a thread."""


def offered(method: str) -> str:
    """The capability that a server has which answers this."""
    return method.partition("/")[0]


@dataclass
class Listing:
    """One list of one connection."""

    entries: Mapping[str, Listed] = field(default_factory=dict)
    until: float = -math.inf
    edition: int = 0
    """Goes up when the server says that the list is another."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)


def _nobody(server: str, kind: str) -> None:
    """The default of `changed`."""


class Listings:
    """See the module."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.changed: Callable[[str, str], None] = _nobody
        """Told a server, and "prompts" or "resources", when a list that was asked for is another."""
        self._kept: WeakKeyDictionary[Connection, dict[str, Listing]] = WeakKeyDictionary()

    async def refresh(self, sources: Mapping[str, Connection], method: str) -> None:
        """Have these servers' lists at hand, or those before, or none."""
        async with anyio.create_task_group() as tasks:
            for server, connection in sources.items():
                tasks.start_soon(self._refresh, server, connection, method)

    def shown(self, server: str, connection: Connection, method: str) -> list[Json]:
        """What callers get to see of a list that is at hand."""
        entries = self._listing(connection, method).entries
        found = self._fleet.sort_listed(server, KINDS[method], entries)
        return [dict(public(one.definition)) for one in found.shown.values()]

    async def fit(self, server: str, method: str, page: object) -> list[Json]:
        """Those of a page that a server gave which callers get to see."""
        if (connection := self._fleet.connection(server)) is None or not isinstance(page, list):
            return []
        await self._refresh(server, connection, method)
        kind, key = KINDS[method], KEYS[method][1]
        entries = self._listing(connection, method).entries
        shown = self._fleet.sort_listed(server, kind, entries).shown
        known = (READ[method](each) for each in page if isinstance(each, dict))
        return [
            each
            for each in known
            if each is not None
            and (one := shown.get(each[key])) is not None
            and one.fingerprint == listed(kind, each).fingerprint
        ]

    async def check(self, server: str, method: str, name: str) -> None:
        """Raises `CallError` for a prompt or a resource that waits for an operator."""
        connection = self._fleet.connection(server)
        if connection is None or offered(method) not in connection.offers:
            return
        await self._refresh(server, connection, method)
        kind, entries = KINDS[method], self._listing(connection, method).entries
        if (why := self._fleet.sort_listed(server, kind, entries).held.get(name)) is not None:
            raise CallError(
                "TOOL_NOT_APPROVED",
                f"{kind} {name[:LONGEST]!r} of server '{server}' {WHY_HELD[why]}, and can't be used until an operator "
                f"allows it: {command('inspect', server)} shows it, {command('approve', server)} allows it",
            )

    def _listing(self, connection: Connection, method: str) -> Listing:
        return self._kept.setdefault(connection, {}).setdefault(method, Listing())

    async def _refresh(self, server: str, connection: Connection, method: str) -> None:
        listing = self._listing(connection, method)
        connection.heard = lambda kind: self._heard(server, connection, kind)
        with anyio.move_on_after(LISTING_SECONDS):
            async with listing.lock:
                if anyio.current_time() < listing.until:
                    return
                edition = listing.edition
                # However this ends, the server isn't asked again at once.
                listing.until = anyio.current_time() + FAILED_SECONDS
                try:
                    listing.entries, held = await self._fetch(server, method)
                except (CallError, MCPError) as error:
                    if not none_such(error):
                        logger.warning("server '%s' did not answer %s: %s", server, method, error)
                        return
                    listing.entries, held = {}, HOLD_SECONDS
                if edition == listing.edition:
                    listing.until = anyio.current_time() + held
                else:
                    listing.until = -math.inf
                return
        logger.warning("server '%s' has not answered %s so far", server, method)

    def _heard(self, server: str, connection: Connection, kind: str) -> None:
        for method, listing in self._kept.get(connection, {}).items():
            if method.startswith(kind):
                listing.until = -math.inf
                listing.edition += 1
        self.changed(server, kind)

    async def _fetch(self, server: str, method: str) -> tuple[dict[str, Listed], float]:
        async def ask(method: str, params: Json) -> Json:
            return await self._fleet.request(server, method, params)

        return await fetch(server, ask, method)


def none_such(error: Exception) -> bool:
    """Whether a server says with this that it has no such list."""
    return isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND


async def fetch(server: str, ask: Ask, method: str) -> tuple[dict[str, Listed], float]:
    """A whole list by name, made readable, and for how many seconds it holds. Raises what `ask` does."""
    member, key = KEYS[method]
    found: dict[str, Json] = {}
    held = HOLD_SECONDS
    cursors: set[str] = set()
    params: Json = {}
    while len(found) < MOST_ENTRIES:
        page = await ask(method, params)
        entries = page.get(member)
        for entry in entries if isinstance(entries, list) else []:
            known = READ[method](entry) if isinstance(entry, dict) else None
            if known is not None:
                found.setdefault(known[key], known)
            else:
                logger.warning(
                    "server '%s': an entry of %s without %s is left out", server, method, key
                )
        if (told := holds(page)) is not None:
            held = min(held, max(1.0, told))
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor or cursor in cursors:
            break
        cursors.add(cursor)
        params = {"cursor": cursor}
    if len(found) > AT_ONCE:
        return await anyio.to_thread.run_sync(_marked, method, found), held
    return _marked(method, found), held


async def all_of(server: str, connection: Connection) -> dict[Kind, dict[str, Listed]]:
    """What a server lists now of each kind that it has, for an operator; nothing of one that it doesn't list."""

    async def ask(method: str, params: Json) -> Json:
        return await connection.exchange(method, params, None, None, None)

    found: dict[Kind, dict[str, Listed]] = {}
    for method, kind in KINDS.items():
        if offered(method) not in connection.offers:
            continue
        with anyio.move_on_after(LISTING_SECONDS) as scope:
            try:
                found[kind] = (await fetch(server, ask, method))[0]
            except (CallError, MCPError) as error:
                if not none_such(error):
                    logger.warning("server '%s' did not answer %s: %s", server, method, error)
        if scope.cancelled_caught:
            logger.warning("server '%s' has not answered %s", server, method)
    return found


def _marked(method: str, found: Mapping[str, Json]) -> dict[str, Listed]:
    return {name: listed(KINDS[method], entry) for name, entry in found.items()}
