"""What clients of direct mode want to hear of: resources that change, and log messages.

Servers are shared: each is asked for what all clients together want, and each client hears of its
own. A resource goes by the address under which its client knows it, whatever the server calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcpproxy.asking import LEVELS
from mcpproxy.names import LONGEST

if TYPE_CHECKING:
    from mcpproxy.library import Library
    from mcpproxy.policy import Caller
    from mcpproxy.upstream.connection import Connection
    from mcpproxy.upstream.fleet import Fleet

MOST = 1000
"""Resources that one client may follow."""


class Subscribers:
    """See the module. A holder is a legacy client's connection or a modern client's stream."""

    def __init__(
        self, fleet: Fleet, library: Library, updated: Callable[[object, str], None]
    ) -> None:
        self._fleet = fleet
        self._library = library
        self._updated = updated
        """Told a holder, and the address as it knows it, of a resource that is another now."""
        self._held: dict[object, dict[str, tuple[str, str]]] = {}
        """Per holder: each address, and which resource of which server that is."""
        self._levels: dict[object, str] = {}

    async def subscribe(self, holder: object, uri: str, caller: Caller) -> None:
        """Raises `MCPError` for a resource that isn't there, or whose server tells no changes."""
        server, own = await self._library.find_resource(uri, caller)
        connection = self._fleet.connection(server)
        if connection is not None and not follows(connection):
            message = f"server '{server}' does not tell when its resources change"
            raise MCPError(INVALID_PARAMS, message, {"uri": uri[:LONGEST]})
        held = self._held.setdefault(holder, {})
        if uri not in held and len(held) >= MOST:
            raise MCPError(INVALID_PARAMS, f"a client can follow {MOST} resources; let go of some")
        held[uri] = (server, own)
        self.attend()

    def unsubscribe(self, holder: object, uri: str) -> None:
        self._held.get(holder, {}).pop(uri, None)
        self.attend()

    def set_level(self, holder: object, level: str) -> None:
        self._levels[holder] = level
        self.attend()

    def drop(self, holder: object) -> None:
        """Nobody is there any more."""
        self._held.pop(holder, None)
        self._levels.pop(holder, None)
        self.attend()

    def attend(self) -> None:
        """Have each server that is connected tell what somebody wants of it."""
        wanted = wanted_of(self._held.values())
        level = min(self._levels.values(), key=LEVELS.index, default=None)
        for server, connection in self._fleet.connections().items():
            connection.following.updated = partial(self._heard, server)
            connection.following.want(
                frozenset(wanted.get(server, ())) if follows(connection) else frozenset(),
                level if "logging" in connection.offers else None,
            )

    def _heard(self, server: str, uri: str) -> None:
        """A server may name a part of what was subscribed to."""
        for holder, held in self._held.items():
            for address, (owner, own) in held.items():
                if owner == server and (uri == own or uri.startswith(f"{own.rstrip('/')}/")):
                    self._updated(holder, address)


def follows(connection: Connection) -> bool:
    """Whether the server tells of changes to single resources."""
    return bool((connection.offers.get("resources") or {}).get("subscribe"))


def wanted_of(held: Iterable[Mapping[str, tuple[str, str]]]) -> dict[str, set[str]]:
    """Server -> its own URIs that somebody follows."""
    wanted: dict[str, set[str]] = {}
    for each in held:
        for server, own in each.values():
            wanted.setdefault(server, set()).add(own)
    return wanted
