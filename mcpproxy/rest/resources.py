"""`/api/v1/servers/{name}/resources`: what a server has to read, and reading it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcpproxy import gates
from mcpproxy.errors import CallError, Refused
from mcpproxy.listings import KEYS, RESOURCES, TEMPLATES
from mcpproxy.rest.routing import Area, Query, Request, Route, while_there
from mcpproxy.rest.tools import failed

NOT_THERE = frozenset({types.INVALID_PARAMS, -32002})
"""What servers say of a resource that they don't have: since 2026-07-28, and before."""

RESOURCE = {"uri": "file:///notes.md", "name": "notes", "mimeType": "text/markdown"}
READ = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "The resource's own URI"}},
    "required": ["uri"],
    "additionalProperties": False,
}


class Resources(Area):
    def routes(self) -> tuple[Route, ...]:
        one = "/api/v1/servers/{name}/resources"
        return (
            Route(
                method="GET",
                path=one,
                summary="A page of a server's resources; the templates of its URIs with the first",
                handle=self._list,
                operators=False,
                query=(Query("cursor", "the nextCursor of the page before"),),
                example={"resources": [RESOURCE], "resourceTemplates": []},
            ),
            Route(
                method="POST",
                path=f"{one}/read",
                summary="Read one resource of a server",
                handle=self._read,
                operators=False,
                body=READ,
                example={"contents": [{"uri": RESOURCE["uri"], "text": "# Notes"}]},
            ),
        )

    async def _list(self, request: Request) -> Any:
        cursor = request.query.get("cursor")
        return await self._answer(request, partial(self._page, request, cursor))

    async def _page(self, request: Request, cursor: str | None) -> Any:
        params = {} if cursor is None else {"cursor": cursor}
        page = await self._ask(request, RESOURCES, params)
        found = {"resources": page.get("resources", []), "resourceTemplates": []}
        if cursor is None:
            member = KEYS[TEMPLATES][0]
            found[member] = (await self._ask(request, TEMPLATES, {})).get(member, [])
        more = page.get("nextCursor")
        return {**found, "nextCursor": more} if isinstance(more, str) and more else found

    async def _ask(self, request: Request, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """What the server lists: nothing, if it has no such list, and nothing that waits for an operator."""
        name, member = request.parameters["name"], KEYS[method][0]
        try:
            page = await self._daemon.request(name, method, params, request.caller)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return {}
            raise
        return {**page, member: await self._daemon.listings.fit(name, method, page.get(member))}

    async def _read(self, request: Request) -> Any:
        async def read() -> Any:
            name, uri = request.parameters["name"], request.body["uri"]
            params = {"uri": uri}
            gates.check_server(request.caller, name)
            await self._daemon.listings.check(name, RESOURCES, uri)
            result = await self._daemon.request(name, "resources/read", params, request.caller)
            return {"contents": result.get("contents", [])}

        return await self._answer(request, read)

    async def _answer(self, request: Request, act: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await while_there(request, act)
        except CallError as error:
            return failed(error, request.request_id)
        except MCPError as error:
            if error.code in NOT_THERE:
                raise Refused("NOT_FOUND", f"the server says: {error.message}") from error
            return failed(CallError("UPSTREAM_ERROR", error.message), request.request_id)
