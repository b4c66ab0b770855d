"""The MCP face: a few tools over HTTP and over a pipe, for every revision of the protocol.

One raw middleware answers `tools/list` and `tools/call` from plain dicts, so that nothing of
an upstream's tools or results is lost or refused on the way through typed models. What a tool
does is the daemon's business; here are only the protocol's shapes.

    /mcp       five tools and a prompt        also what the pipe serves
    /mcp/call  search_tools, get_functions, call_tool
    /mcp/all   every upstream tool as server__tool; prompts and resources of all servers

`/mcp` and `/mcp/call` have none of the servers' prompts and resources: a client shows or loads all
that is listed, and these faces are there for who wants to see little.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp.server import NotificationOptions, Server
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp

from mcpproxy import __version__, offer
from mcpproxy.asking import Asker
from mcpproxy.errors import CallError
from mcpproxy.framing import open_messages
from mcpproxy.library import KEYS, Library
from mcpproxy.names import LONGEST, ToolId, find_tool
from mcpproxy.toolbox import Call, Context, Json, Report, Tools, asked_by, forwarded
from mcpproxy.upstream.connection import Client

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog
    from mcpproxy.daemon import Daemon

LARGEST_BODY = 16 * 2**20
"""Bytes of one request: room for a script's source and a large input."""

NOTICE_SECONDS = 5.0
"""How long one client may take to accept a notification before the others go on without it."""

FIXED_TTL_MS = 3_600_000
"""A list that only a new version of this program changes."""

CATALOG_TTL_MS = 60_000
"""A list that follows the catalog; clients that listen hear of a change at once."""

HANDSHAKE_SECONDS = 2.0
"""How long a client that asks what there is waits for servers that are on their way."""

RESOURCE_NOT_FOUND = -32002
"""Of the legacy revisions; the newest has INVALID_PARAMS for it."""

EVENTS: dict[str, Callable[[], ServerEvent]] = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}

# ── faces ───────────────────────────────────────────────────────────────────────────────────────


class FaceServer(Server[Any]):
    """A server that tells legacy clients, too, that its lists may change."""

    offers: Callable[[], frozenset[str]] | None = None
    """Which of prompts, resources and completions there are at this moment; all, without it."""

    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        found = super().get_capabilities(*args, **options)
        if self.offers is not None:
            offers = self.offers()
            for each in {"prompts", "resources", "completions"} - offers:
                setattr(found, each, None)
        if found.resources is not None:
            found.resources.subscribe = False
        return found

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        # The HTTP manager calls this without arguments.
        lists = self.offers is not None
        options = notification_options or NotificationOptions(
            tools_changed=True, prompts_changed=lists, resources_changed=lists
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Face:
    """One list of tools at one address, in every revision of the protocol."""

    ttl_ms = FIXED_TTL_MS
    scope = "public"

    def __init__(
        self,
        tools: Tools,
        listed: tuple[Json, ...],
        instructions: str,
        *,
        handlers: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.tools = tools
        self._listed = listed
        self.bus = InMemorySubscriptionBus()
        self.listeners = ListenHandler(self.bus)
        self.legacy: set[Connection] = set()
        self.server = FaceServer(
            "mcpproxy",
            version=__version__,
            instructions=instructions,
            on_list_tools=answered_before,
            on_call_tool=answered_before,
            on_subscriptions_listen=self.listeners,
            **handlers,
            get_tool_input_schema=self.input_schema,
        )
        self.server.middleware[:] = [self._answer]
        self.manager = StreamableHTTPSessionManager(
            self.server,
            # The guard in front has checked Host and Origin against the settings.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=LARGEST_BODY,
        )

    def listed(self) -> list[Json]:
        return list(self._listed)

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """For the SDK's check of `Mcp-Param-*` headers, which else lists all tools every time."""
        if own := offer.OWN.get(offer.OTHER_NAMES.get(name, name)):
            return own["inputSchema"]  # type: ignore[no-any-return]
        catalog = self.tools.daemon.fleet.catalog
        found = find_tool(name, catalog)
        tool = found and catalog.tool(found.server, found.tool)
        return tool.input_schema if tool and isinstance(tool.input_schema, Mapping) else None

    async def changed(self, kind: str) -> None:
        """Tell everyone who listens that the list of tools, prompts or resources is another."""
        await self.bus.publish(EVENTS[kind]())
        async with anyio.create_task_group() as tasks:
            for connection in list(self.legacy):
                tasks.start_soon(self._notify, connection, kind)

    async def _notify(self, connection: Connection, kind: str) -> None:
        with anyio.move_on_after(NOTICE_SECONDS):
            match kind:
                case "prompts":
                    await connection.send_prompt_list_changed()
                case "resources":
                    await connection.send_resource_list_changed()
                case _:
                    await connection.send_tool_list_changed()

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        # `_connection` has no public accessor in this SDK; nothing else here touches it.
        connection: Connection = ctx.session._connection
        if ctx.method == "notifications/initialized":
            result = await call_next(ctx)
            if connection not in self.legacy:
                self.legacy.add(connection)
                connection.exit_stack.callback(self.legacy.discard, connection)
            return result
        # A middleware that answers by itself goes around the SDK's own gate.
        if connection.initialize_accepted and ctx.method == "tools/list":
            return self._stamped(ctx, self._page(ctx))
        if connection.initialize_accepted and ctx.method == "tools/call":
            return self._stamped(ctx, await self.tools.call(Call.of(ctx)))
        return await self._other(ctx, call_next, connection)

    async def _other(
        self, ctx: Context, call_next: CallNext, connection: Connection
    ) -> HandlerResult:
        """What isn't about tools."""
        return await call_next(ctx)

    def _page(self, ctx: Context) -> Json:
        if (ctx.params or {}).get("cursor"):
            raise MCPError(types.INVALID_PARAMS, "there is no such cursor: the list has one page")
        return {"tools": self.listed(), "ttlMs": self.ttl_ms, "cacheScope": self.scope}

    def _stamped(self, ctx: Context, result: Json) -> Json:
        """The result in the envelope of the client's revision."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            meta = {
                **(result.get("_meta") or {}),
                types.SERVER_INFO_META_KEY: self.server.server_info_stamp,
            }
            return {"resultType": "complete", **result, "_meta": meta}
        modern_only = ("resultType", "ttlMs", "cacheScope")
        return {key: value for key, value in result.items() if key not in modern_only}


class CatalogFace(Face):
    """Every upstream tool by itself, as `server__tool`, and all prompts and resources."""

    ttl_ms = CATALOG_TTL_MS
    scope = "private"

    def __init__(self, tools: Tools, instructions: str) -> None:
        super().__init__(tools, (), instructions, handlers=LIBRARY)
        self._catalog: Catalog | None = None
        self.other_lists: set[str] = set()
        """Of prompts and resources, what is to be announced."""
        self.news = anyio.Event()
        self.library = Library(tools.daemon.fleet, self._heard)
        self.server.offers = self.library.offers

    def _heard(self, kind: str) -> None:
        self.other_lists.add(kind)
        self.news.set()

    def sources(self) -> dict[str, list[int]]:
        """Where prompts and resources come from: other connections may have other ones."""
        return {
            kind: [id(each) for each in self.library.sources(kind).values()]
            for kind in ("prompts", "resources")
        }

    async def _other(
        self, ctx: Context, call_next: CallNext, connection: Connection
    ) -> HandlerResult:
        if ctx.method in ("initialize", "server/discover") or ctx.method in KEYS:
            with anyio.move_on_after(HANDSHAKE_SECONDS):
                await self.tools.daemon.fleet.settled()
        if not connection.initialize_accepted or ctx.method not in LIBRARY_METHODS:
            return await call_next(ctx)
        try:
            return self._stamped(ctx, await self._from_library(ctx))
        except CallError as error:
            data = {"code": error.code, "retry_after_ms": error.retry_after_ms}
            raise MCPError(types.INTERNAL_ERROR, error.message, data) from error
        except MCPError as error:
            if (
                error.code == RESOURCE_NOT_FOUND
                and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            ):
                raise MCPError(types.INVALID_PARAMS, error.message, error.error.data) from error
            raise

    async def _from_library(self, ctx: Context) -> Json:
        params = dict(ctx.params or {})
        meta = forwarded(params.get("_meta"))
        if ctx.method in KEYS:
            page = await self.library.page(ctx.method, params.get("cursor"))
            return {**page, "ttlMs": self.ttl_ms, "cacheScope": self.scope}
        caller, _ = asked_by(ctx)
        asker = Asker.of(ctx, caller.name)
        for key in ("_meta", "inputResponses", "requestState"):
            params.pop(key, None)

        async def send(server: str, method: str, params: Json) -> Json:
            async def request(client: Client | None, report: Report | None) -> Json:
                return await self.tools.daemon.request(
                    server, method, params, caller, progress=report, meta=meta, client=client
                )

            what = f"{method} of server '{server}'"
            return await self.tools.desk.converse(
                asker, what, request, legacy=self.tools.is_legacy(server)
            )

        match ctx.method:
            case "prompts/get":
                return await self.library.get_prompt(params, send)
            case "completion/complete":
                return await self.library.complete(params, send)
        result = await self.library.read(params, send)
        if result.get("resultType") == "input_required":
            return result
        # What a server shows to everyone, it showed to our credentials.
        return {**result, "ttlMs": result.get("ttlMs", 0), "cacheScope": self.scope}

    def listed(self) -> list[Json]:
        catalog = self.tools.daemon.fleet.catalog
        if catalog is not self._catalog:
            self._catalog = catalog
            self._listed = tuple(
                {**tool.definition, "name": direct_name(ToolId(tool.server, tool.name), catalog)}
                for tool in catalog.tools()
            )
        return list(self._listed)


def direct_name(tool: ToolId, catalog: Catalog) -> str:
    """`server__tool`, or another spelling where that already names a tool of another server."""
    for separator in ("__", ".", "/"):
        name = f"{tool.server}{separator}{tool.tool}"
        if find_tool(name, catalog) == tool:
            return name
    return str(tool)


async def answered_before(ctx: Context, params: object) -> Any:
    """Registered so that the capability shows; the middleware answers an accepted client."""
    raise AssertionError(f"{ctx.method} passed the middleware")


LIBRARY = {
    "on_list_prompts": answered_before,
    "on_get_prompt": answered_before,
    "on_list_resources": answered_before,
    "on_list_resource_templates": answered_before,
    "on_read_resource": answered_before,
    "on_completion": answered_before,
}
LIBRARY_METHODS = frozenset({*KEYS, "prompts/get", "resources/read", "completion/complete"})


async def list_prompts(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    guide = types.Prompt(
        name=offer.GUIDE_NAME, title="Reusable code", description=offer.GUIDE_SUMMARY
    )
    return types.ListPromptsResult(prompts=[guide], ttl_ms=FIXED_TTL_MS, cache_scope="public")


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    if params.name != offer.GUIDE_NAME:
        message = f'there is no prompt "{params.name[:LONGEST]}"; there is {offer.GUIDE_NAME}'
        raise MCPError(types.INVALID_PARAMS, message)
    text = types.TextContent(type="text", text=offer.GUIDE)
    return types.GetPromptResult(
        description=offer.GUIDE_SUMMARY,
        messages=[types.PromptMessage(role="user", content=text)],
    )


GUIDE = {"on_list_prompts": list_prompts, "on_get_prompt": get_prompt}

# ── all faces ───────────────────────────────────────────────────────────────────────────────────


class McpFace:
    """The faces of one daemon, open as long as `open_mcp` is."""

    def __init__(self, daemon: Daemon) -> None:
        tools = self.tools = Tools(daemon)
        self.whole = CatalogFace(tools, offer.INSTRUCTIONS_ALL)
        self.faces: dict[str, Face] = {
            "/mcp": Face(tools, offer.FIVE, offer.INSTRUCTIONS, handlers=GUIDE),
            "/mcp/call": Face(tools, offer.THREE, offer.INSTRUCTIONS_CALL),
            "/mcp/all": self.whole,
        }
        self._closing = anyio.Event()

    def app(self, path: str) -> ASGIApp:
        """The ASGI application of `/mcp`, `/mcp/call` or `/mcp/all`; a guard belongs in front."""
        return self.faces[path].manager.handle_request

    async def serve_pipe(self, read: ByteReceiveStream, write: ByteSendStream) -> None:
        """Serve one client on two byte streams, a message per line, until it is gone."""
        server = self.faces["/mcp"].server
        async with open_messages(read, write) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    def close(self) -> None:
        """End the streams that clients hold open, so that an HTTP server can come to rest."""
        for face in self.faces.values():
            face.listeners.close()
        self._closing.set()

    async def run(self, manager: StreamableHTTPSessionManager, *, task_status: Any) -> None:
        async with manager.run():
            task_status.started()
            await self._closing.wait()

    async def announce(self, *, task_status: Any) -> None:
        """Tell the listeners of `/mcp/all` whenever one of its lists has changed."""
        whole, fleet = self.whole, self.tools.daemon.fleet

        def wake(_: Catalog) -> None:
            whole.news.set()

        last, sources = whole.listed(), whole.sources()
        unsubscribe = fleet.listen(wake)
        task_status.started()
        try:
            while True:
                await whole.news.wait()
                whole.news = anyio.Event()
                kinds, whole.other_lists = whole.other_lists, set()
                before, sources = sources, whole.sources()
                kinds |= {kind for kind, ids in sources.items() if ids != before[kind]}
                if (now := whole.listed()) != last:
                    last = now
                    kinds.add("tools")
                for kind in sorted(kinds):
                    await whole.changed(kind)
        finally:
            unsubscribe()


@asynccontextmanager
async def open_mcp(daemon: Daemon) -> AsyncIterator[McpFace]:
    face = McpFace(daemon)
    async with anyio.create_task_group() as tasks:
        face.tools.desk.tasks = tasks
        for one in face.faces.values():
            await tasks.start(face.run, one.manager)
        await tasks.start(face.announce)
        try:
            yield face
        finally:
            face.close()
            tasks.cancel_scope.cancel()
