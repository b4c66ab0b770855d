"""Direct mode: every upstream tool by itself, as `server__tool`, and all prompts and resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpproxy import offer, readable
from mcpproxy.asking import LEVELS, LOG_LEVEL, Asker
from mcpproxy.audience import Audience
from mcpproxy.errors import CallError
from mcpproxy.face import Face, answered_before, stream
from mcpproxy.library import Library
from mcpproxy.listings import KEYS
from mcpproxy.locating import acquainted
from mcpproxy.names import ToolId, direct_name, find_tool
from mcpproxy.policy import LOCAL, Caller
from mcpproxy.subscribers import Subscribers
from mcpproxy.toolbox import Context, Json, Tools, asked_by, forwarded
from mcpproxy.upstream.connection import Client, Progress

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog, Tool

CATALOG_TTL_MS = 60_000
"""A list that follows the catalog; clients that listen hear of a change at once."""

NOTICE_SECONDS = 5.0
"""How long one client may take to accept a notification before the others go on without it."""

HANDSHAKE_SECONDS = 2.0
"""How long a client that asks what there is waits for servers that are on their way."""

MOST_LISTINGS = 32
"""Views of the catalog whose list is kept."""

RESOURCE_NOT_FOUND = -32002
"""Of the legacy revisions; the newest has INVALID_PARAMS for it."""


class CatalogFace(Face):
    """Every upstream tool by itself, as `server__tool`, and all prompts and resources."""

    ttl_ms = CATALOG_TTL_MS
    scope = "private"

    def __init__(self, tools: Tools, instructions: str) -> None:
        super().__init__(tools, (), instructions, handlers=LIBRARY)
        self._listings: list[tuple[Catalog, bool, list[Json]]] = []
        self.other_lists: dict[str, set[str]] = {}
        """Of prompts and resources, the servers whose list is to be announced."""
        self.audience = Audience(self.listed)
        self.news = anyio.Event()
        self.library = Library(tools.daemon.fleet, tools.daemon.listings)
        tools.daemon.listings.changed = self._heard
        self.server.whole = True
        self.updates: dict[tuple[object, str], None] = {}
        """Who is to be told of which resources."""
        self.subscribers = Subscribers(tools.daemon.fleet, self.library, self._updated)

    def _heard(self, server: str, kind: str) -> None:
        self.other_lists.setdefault(kind, set()).add(server)
        self.news.set()

    def _updated(self, holder: object, uri: str) -> None:
        self.updates[holder, uri] = None
        self.news.set()

    def meet(self, connection: Connection, caller: Caller) -> None:
        if connection not in self.audience:
            connection.exit_stack.callback(self._left, connection)
        self.audience.join(connection, caller)

    def _left(self, holder: object) -> None:
        self.audience.leave(holder)
        self.subscribers.drop(holder)

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A stream of a modern client; what it follows is followed as long as it is open."""
        holder, caller, wanted = object(), asked_by(ctx)[0], params.notifications
        followed: list[str] = []
        try:
            for uri in wanted.resource_subscriptions or ():
                with suppress(MCPError):  # what isn't there, or not for this caller, never changes
                    await self.subscribers.subscribe(holder, uri, caller)
                    followed.append(uri)
            wanted = wanted.model_copy(update={"resource_subscriptions": followed})
            stream.set(holder)
            self.audience.join(holder, caller)
            return await super().listen(ctx, params.model_copy(update={"notifications": wanted}))
        finally:
            self._left(holder)

    async def announce(self, changes: Iterable[tuple[object, str]]) -> None:
        """Tell each of these holders that its list of tools, prompts or resources is another."""
        async with anyio.create_task_group() as tasks:
            for holder, kind in changes:
                if isinstance(holder, Connection):
                    tasks.start_soon(tell_changed, holder, kind)
                else:
                    self.bus.tell(holder, EVENTS[kind]())

    async def announce_updates(self) -> None:
        """Tell who follows a resource that it is another now."""
        updates, self.updates = self.updates, {}
        async with anyio.create_task_group() as tasks:
            for holder, uri in updates:
                if isinstance(holder, Connection):
                    tasks.start_soon(tell_updated, holder, uri)
                else:
                    self.bus.tell(holder, ResourceUpdated(uri=uri))

    def named(self, name: str, catalog: Catalog) -> str:
        """A tool's own name is enough where one server alone has such a tool.

        Pages that a server brings along (MCP Apps) call its tools that way, and so do models.
        """
        if name in offer.OWN or name in offer.OTHER_NAMES or find_tool(name, catalog) is not None:
            return name
        owners = [each for each, one in catalog.servers.items() if name in one.tools]
        return str(ToolId(owners[0], name)) if len(owners) == 1 else name

    def sources(self) -> dict[str, Mapping[str, object]]:
        """What the lists of prompts and resources follow from, by server: the connection, and how much is held back."""
        servers = self.tools.daemon.catalog_for(LOCAL).servers
        return {
            kind: {
                server: (connection, servers[server].held_besides if server in servers else 0)
                for server, connection in self.library.sources(kind).items()
            }
            for kind in ("prompts", "resources")
        }

    async def _other(
        self, ctx: Context, call_next: CallNext, connection: Connection
    ) -> HandlerResult:
        if ctx.method in KEYS:
            with anyio.move_on_after(HANDSHAKE_SECONDS):
                await acquainted(self.tools.daemon, asked_by(ctx)[0])
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if connection.initialize_accepted and not modern and ctx.method in HEARING_METHODS:
            return await self._hearing(ctx, connection)
        if not connection.initialize_accepted or ctx.method not in LIBRARY_METHODS:
            return await call_next(ctx)
        try:
            return self._stamped(ctx, readable.shallow(await self._from_library(ctx)))
        except CallError as error:
            data = {"code": error.code, "retry_after_ms": error.retry_after_ms}
            raise MCPError(types.INTERNAL_ERROR, error.message, data) from error
        except MCPError as error:
            if error.code == RESOURCE_NOT_FOUND and modern:
                raise MCPError(types.INVALID_PARAMS, error.message, error.error.data) from error
            raise

    async def _hearing(self, ctx: Context, connection: Connection) -> Json:
        """What a legacy client wants to hear of; a modern one says so otherwise."""
        params = ctx.params or {}
        caller, _ = asked_by(ctx)
        self.meet(connection, caller)
        if ctx.method == "logging/setLevel":
            if params.get("level") not in LEVELS:
                raise MCPError(types.INVALID_PARAMS, f"level must be one of {', '.join(LEVELS)}")
            connection.state[LOG_LEVEL] = params["level"]
            self.subscribers.set_level(connection, params["level"])
            return {}
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise MCPError(types.INVALID_PARAMS, "uri must be a string")
        if ctx.method == "resources/subscribe":
            await self.subscribers.subscribe(connection, uri, caller)
        else:
            self.subscribers.unsubscribe(connection, uri)
        return {}

    async def _from_library(self, ctx: Context) -> Json:
        params = dict(ctx.params or {})
        meta = forwarded(params.get("_meta"))
        caller, _ = asked_by(ctx)
        if ctx.method in KEYS:
            page = await self.library.page(ctx.method, params.get("cursor"), caller)
            return {**page, "ttlMs": self.ttl_ms, "cacheScope": self.scope}
        asker = Asker.of(ctx, caller.name)
        for key in ("_meta", "inputResponses", "requestState"):
            params.pop(key, None)

        async def send(server: str, method: str, params: Json) -> Json:
            async def request(client: Client | None, report: Progress | None) -> Json:
                return await self.tools.daemon.request(
                    server, method, params, caller, progress=report, meta=meta, client=client
                )

            what = f"{method} of server '{server}'"
            return await self.tools.desk.converse(
                asker, what, request, legacy=self.tools.is_legacy(server)
            )

        match ctx.method:
            case "prompts/get":
                return await self.library.get_prompt(params, send, caller)
            case "completion/complete":
                return await self.library.complete(params, send, caller)
        result = await self.library.read(params, send, caller)
        if result.get("resultType") == "input_required":
            return result
        # What a server shows to everyone, it showed to our credentials.
        return {**result, "ttlMs": result.get("ttlMs", 0), "cacheScope": self.scope}

    def listed(self, caller: Caller = LOCAL) -> list[Json]:
        """The tools that the caller sees, as `tools/list` has them; made anew when the catalog changes."""
        catalog = self.tools.daemon.catalog_for(caller)
        cuts = self.tools.daemon.settings.tool_response_limit > 0
        for one, cutting, listed in self._listings:
            if one is catalog and cutting is cuts:
                return list(listed)
        made = [
            found
            for tool in catalog.tools()
            if (found := direct(tool, catalog, cuts=cuts)) is not None
        ]
        made += [offer.READ_RESULT] if cuts else []
        self._listings = [*self._listings, (catalog, cuts, made)][-MOST_LISTINGS:]
        return list(made)


def direct(tool: Tool, catalog: Catalog, *, cuts: bool) -> Json | None:
    """A tool's definition under the name that it has here; None for one that no client could read.

    Where results may be cut, no schema is promised for them: a client that holds us to one would
    refuse a result without its structured content. Nor is one that isn't of type object, as those of
    an API may be: clients of the revisions up to 2025-11-25 refuse a whole list for it.
    """
    found = {**tool.public, "name": direct_name(ToolId(tool.server, tool.name), catalog)}
    promised = found.get("outputSchema")
    if cuts or not (isinstance(promised, dict) and promised.get("type") == "object"):
        found.pop("outputSchema", None)
    return readable.tool(found)


async def tell_changed(connection: Connection, kind: str) -> None:
    with anyio.move_on_after(NOTICE_SECONDS):
        match kind:
            case "prompts":
                await connection.send_prompt_list_changed()
            case "resources":
                await connection.send_resource_list_changed()
            case _:
                await connection.send_tool_list_changed()


async def tell_updated(connection: Connection, uri: str) -> None:
    with anyio.move_on_after(NOTICE_SECONDS):
        await connection.send_resource_updated(uri)


EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}
LIBRARY = {
    "on_list_prompts": answered_before,
    "on_get_prompt": answered_before,
    "on_list_resources": answered_before,
    "on_list_resource_templates": answered_before,
    "on_read_resource": answered_before,
    "on_completion": answered_before,
}
HEARING_METHODS = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
LIBRARY_METHODS = frozenset({*KEYS, "prompts/get", "resources/read", "completion/complete"})
