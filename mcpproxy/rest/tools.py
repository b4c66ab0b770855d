"""`/api/v1/tools`: what can be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpproxy.errors import Refused
from mcpproxy.rest.routing import Query, Request, Route

if TYPE_CHECKING:
    from mcpproxy.daemon import Daemon

TOOL = {"server": "time", "name": "convert_time", "inputSchema": {"type": "object"}}


class Tools:
    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/api/v1/tools",
                summary="The definitions of all tools, as their servers gave them",
                handle=self._list,
                operators=False,
                query=(Query("server", "only this server's"),),
                example={"tools": [TOOL], "partial": False, "missing_servers": []},
            ),
        )

    async def _list(self, request: Request) -> Any:
        wanted = request.query.get("server")
        catalog = self._daemon.catalog_for(request.caller)
        if wanted is not None and wanted not in catalog.servers:
            raise Refused("NOT_FOUND", f"there is no server {wanted[:100]!r}")
        tools = [
            {**tool.definition, "server": tool.server}
            for tool in catalog.tools()
            if wanted in (None, tool.server)
        ]
        missing = [
            name
            for name, server in catalog.servers.items()
            if wanted in (None, name)
            and (
                server.state in ("connecting", "down")
                or (server.state == "lazy" and not server.tools)
            )
        ]
        return {"tools": tools, "partial": bool(missing), "missing_servers": missing}
