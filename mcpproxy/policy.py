"""Who asks, what that lets them do, and the catalog as they see it.

Three ranks: an administrator (the key, the local socket, stdio, the command line on its own), the
holder of an agent's token, and the anonymous MCP client on loopback. An administrator and an
anonymous client may call every tool; only an administrator may change or read what is the
operator's. A token has servers and permissions; the URL of a profile narrows everyone.

What a caller may call and what it can see is one question, answered once: `Views.seen`. All that
lists, searches, describes or names tools starts from its answer.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from mcpproxy.catalog import EMPTY, Catalog, Server, Tool

Permission = Literal["read", "write", "destructive"]
Rank = Literal["admin", "token", "anonymous"]

PERMISSIONS: tuple[Permission, ...] = ("read", "write", "destructive")
EVERYTHING: frozenset[Permission] = frozenset(PERMISSIONS)
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
MOST_VIEWS = 256
"""Scopes whose catalogs are kept; more than that and they are made anew."""


class Profile(NamedTuple):
    """The servers that a URL (`/mcp/p/<name>`) stands for."""

    name: str
    servers: frozenset[str]


class Ceilings(NamedTuple):
    """What no request of a token may pass; None is no ceiling."""

    timeout_ms: int | None = None
    tool_calls: int | None = None
    """Of one execution."""
    executions_per_minute: int | None = None


UNLIMITED = Ceilings()


class Scope(NamedTuple):
    """All that the view of a catalog depends on."""

    servers: frozenset[str] | None
    """None is all."""
    permissions: frozenset[Permission]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request comes from. Passed along as an argument, never looked up from a global."""

    name: str
    """Of a token its name; else "admin", "local" or "anonymous", which no token can be called."""
    rank: Rank
    servers: frozenset[str] | None = None
    """The servers that its token names; None is all."""
    permissions: frozenset[Permission] = EVERYTHING
    ceilings: Ceilings = UNLIMITED
    profile: Profile | None = None
    token: str = field(default="", repr=False)
    """The hash of its token: another one once that was given a new secret."""
    since: float = 0.0
    """When its token was made, in seconds since 1970: what came before is of another one of that name."""

    @property
    def admin(self) -> bool:
        return self.rank == "admin"

    @property
    def owner(self) -> str:
        """Under which name what it leaves with us is kept: administrators share, nobody else does."""
        return "" if self.admin else self.name

    @property
    def scope(self) -> Scope:
        servers = self.servers
        if self.profile is not None:
            named = self.profile.servers
            servers = named if servers is None else servers & named
        return Scope(servers, self.permissions)

    def reaches(self, server: str) -> bool:
        """Whether it may know of a server at all, be there one or not."""
        if self.profile is not None and server not in self.profile.servers:
            return False
        return self.servers is None or server in self.servers

    def within(self, profile: Profile) -> Caller:
        return replace(self, profile=profile)


ADMIN = Caller("admin", "admin")
"""Holder of the API key."""

LOCAL = Caller("local", "admin")
"""The same user on this machine: the socket, a stdio client, the command line."""

ANONYMOUS = Caller("anonymous", "anonymous")
"""An MCP client on loopback that showed no key, while `require_mcp_auth` is off."""

RESERVED = frozenset({ADMIN.name, LOCAL.name, ANONYMOUS.name})


def needed(annotations: Mapping[str, Any]) -> Permission:
    """The permission that a tool with these annotations needs.

    Source: ToolAnnotations of MCP 2025-11-25: `readOnlyHint` is false and `destructiveHint` true
    when they are unset. Without any hint it is `write`. A hint that isn't a boolean is not believed.
    """
    if annotations.get("destructiveHint") is True:
        return "destructive"
    if annotations.get("readOnlyHint") is True:
        return "read"
    if not any(name in annotations for name in HINTS):
        return "write"
    return "write" if annotations.get("destructiveHint") is False else "destructive"


def may_use(caller: Caller, tool: Tool) -> bool:
    if not caller.reaches(tool.server):
        return False
    return caller.permissions == EVERYTHING or needed(tool.annotations) in caller.permissions


class Views:
    """Catalogs by scope, made once for each snapshot. Safe to ask from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalog = EMPTY
        self._views: dict[Scope, Catalog] = {}
        self._tools: dict[
            tuple[str, frozenset[Permission]], tuple[Mapping[str, Tool], Mapping[str, Tool]]
        ] = {}
        """What a server's tools came to, as long as they are the same mapping: an index is kept by it."""

    def seen(self, catalog: Catalog, scope: Scope) -> Catalog:
        """A snapshot with the servers and tools of a scope and nothing else."""
        if scope == (None, EVERYTHING):
            return catalog
        with self._lock:
            if catalog is not self._catalog or len(self._views) >= MOST_VIEWS:
                self._catalog = catalog
                self._views = {}
                self._forget(catalog)
            if (view := self._views.get(scope)) is None:
                view = self._views[scope] = self._made(catalog, scope)
            return view

    def _forget(self, catalog: Catalog) -> None:
        self._tools = {
            key: kept
            for key, kept in self._tools.items()
            if (server := catalog.servers.get(key[0])) is not None and server.tools is kept[0]
        }

    def _made(self, catalog: Catalog, scope: Scope) -> Catalog:
        servers = {
            name: self._narrowed(server, scope.permissions)
            for name, server in catalog.servers.items()
            if scope.servers is None or name in scope.servers
        }
        return Catalog(MappingProxyType(servers), catalog.version)

    def _narrowed(self, server: Server, permissions: frozenset[Permission]) -> Server:
        if permissions == EVERYTHING:
            return server
        kept = self._tools.get((server.name, permissions))
        if kept is None or kept[0] is not server.tools:
            tools = {
                name: tool
                for name, tool in server.tools.items()
                if needed(tool.annotations) in permissions
            }
            kept = self._tools[server.name, permissions] = server.tools, MappingProxyType(tools)
        held = {
            name: one
            for name, one in server.held.items()
            if needed(one.tool.annotations) in permissions
        }
        return replace(server, tools=kept[1], held=held)
