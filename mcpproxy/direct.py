"""Direct mode: every upstream tool by itself, as `server__tool`, and all prompts and resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpproxy.asking import Asker
from mcpproxy.errors import CallError
from mcpproxy.face import Face, answered_before
from mcpproxy.library import KEYS, Library
from mcpproxy.names import ToolId, find_tool
from mcpproxy.toolbox import Context, Json, Report, Tools, asked_by, forwarded
from mcpproxy.upstream.connection import Client

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog

CATALOG_TTL_MS = 60_000
"""A list that follows the catalog; clients that listen hear of a change at once."""

HANDSHAKE_SECONDS = 2.0
"""How long a client that asks what there is waits for servers that are on their way."""

RESOURCE_NOT_FOUND = -32002
"""Of the legacy revisions; the newest has INVALID_PARAMS for it."""


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


LIBRARY = {
    "on_list_prompts": answered_before,
    "on_get_prompt": answered_before,
    "on_list_resources": answered_before,
    "on_list_resource_templates": answered_before,
    "on_read_resource": answered_before,
    "on_completion": answered_before,
}
LIBRARY_METHODS = frozenset({*KEYS, "prompts/get", "resources/read", "completion/complete"})
