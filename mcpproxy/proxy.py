"""The MCP face: a few tools over HTTP and over a pipe, for every revision of the protocol.

    /mcp       five tools and a prompt        also what the pipe serves
    /mcp/call  search_tools, get_functions, call_tool
    /mcp/all   every upstream tool as server__tool; prompts and resources of all servers

`/mcp` and `/mcp/call` have none of the servers' prompts and resources: a client shows or loads all
that is listed, and these faces are there for who wants to see little.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp

from mcpproxy import offer
from mcpproxy.direct import CatalogFace
from mcpproxy.face import FIXED_TTL_MS, Face
from mcpproxy.framing import open_messages
from mcpproxy.names import LONGEST
from mcpproxy.toolbox import Context, Tools

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog
    from mcpproxy.daemon import Daemon


async def list_prompts(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    if params is not None and params.cursor:
        raise MCPError(types.INVALID_PARAMS, "there is no such cursor: the list has one page")
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
        return self.faces[path].handle

    async def serve_pipe(self, read: ByteReceiveStream, write: ByteSendStream) -> None:
        """Serve one client on two byte streams, a message per line, until it is gone."""
        server = self.faces["/mcp"].server
        moved = self.tools.daemon.pool.moved
        async with open_messages(read, write, moved) as (incoming, outgoing):
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
        """Tell each listener of `/mcp/all` whenever one of the lists that it sees has changed."""
        whole, fleet = self.whole, self.tools.daemon.fleet

        def wake(_: Catalog) -> None:
            whole.news.set()

        sources = whole.sources()
        unsubscribe = fleet.listen(wake)
        task_status.started()
        try:
            while True:
                await whole.news.wait()
                whole.news = anyio.Event()
                others, whole.other_lists = whole.other_lists, {}
                before, sources = sources, whole.sources()
                for kind, now in sources.items():
                    known = before[kind]
                    moved = {each for each in {**known, **now} if known.get(each) != now.get(each)}
                    others[kind] = others.get(kind, set()) | moved
                await whole.announce(whole.audience.concerned(others))
                whole.subscribers.attend()
                await whole.announce_updates()
        finally:
            unsubscribe()


@asynccontextmanager
async def open_mcp(daemon: Daemon) -> AsyncIterator[McpFace]:
    """The MCP faces, for as long as the block."""
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
