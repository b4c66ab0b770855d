"""`/api/v1/tools`: what can be called, found, read and called directly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from mcpproxy import offer, toolbox
from mcpproxy.ambient import ambient
from mcpproxy.asking import Asker
from mcpproxy.discovery import MOST, no_server
from mcpproxy.envelopes import to_json
from mcpproxy.errors import CallError, Refused
from mcpproxy.locating import NoTool, acquainted, located, settled
from mcpproxy.names import ToolId
from mcpproxy.paging import Cut, NoPage
from mcpproxy.policy import Caller
from mcpproxy.rest.routing import Answer, Area, Query, Request, Route, while_there

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog
    from mcpproxy.daemon import Daemon

CALL_STATUS: Mapping[str, int] = {
    "INVALID_ARGS": 400,
    "INVALID_TOOL_ARGS": 400,
    "SERVER_NOT_ALLOWED": 403,
    "ACCESS_DENIED": 403,
    "PERMISSION_DENIED": 403,
    "QUARANTINED": 403,
    "TOOL_NOT_APPROVED": 403,
    "TOOL_DISABLED": 403,
    "SERVER_NOT_FOUND": 404,
    "TOOL_NOT_FOUND": 404,
    "MAX_TOOL_CALLS_EXCEEDED": 429,
    "queue_full": 429,
    "queue_timeout": 429,
    "TOOL_ERROR": 502,
    "UPSTREAM_ERROR": 502,
    "SERVER_UNAVAILABLE": 503,
    "CANCELLED": 503,
    "UPSTREAM_TIMEOUT": 504,
}
"""HTTP status of each code in `errors.CALL_CODES`. Below 500 and at 503 the tool was not called."""

TYPESCRIPT = "text/plain; charset=utf-8"
"""The type that is registered for .ts files is of films."""

OURS = frozenset(tool["name"] for tool in offer.FIVE)
"""Those of our tools that can be called here; direct calls and reading on are the route itself."""

MODERN_ONLY = frozenset({"resultType", "ttlMs", "cacheScope"})
"""What the newest revision of the protocol says about a result; nothing of the tool's."""

TOOL = {"server": "time", "name": "convert_time", "inputSchema": {"type": "object"}}
HIT = {
    "name": "time:convert_time",
    "description": "Convert time between timezones",
    "signature": "tools.time.convert_time(args: { time: string })",
}
DESCRIBED = {
    "name": HIT["name"],
    "description": HIT["description"],
    "declaration": "declare function convert_time(…)",
    "call": 'tools.time.convert_time({ time: "14:30" })',
    "parameters": [{"name": "time", "type": "string", "required": True}],
    "returns": "not declared",
}
WORDS = Query("q", "what to look for; must be given")
LIMIT = Query("limit", "how many at most", {"type": "integer", "minimum": 1, "maximum": MOST})
SERVER = Query("server", "only this server's")
LAZY = Query("lazy", "connect servers that wait for their first use, too", {"type": "boolean"})
CALL = {
    "type": "object",
    "properties": {
        "tool_name": {
            "type": "string",
            "description": "server:tool, or one of our own tools such as search_tools",
        },
        "arguments": {"type": "object", "description": "The tool's arguments; {} unless given."},
        "cursor": {
            "type": "string",
            "description": "Alone: where to read on in a result that was cut.",
        },
    },
    "additionalProperties": False,
}
RESULT = {"content": [{"type": "text", "text": "14:30"}]}


class Tools(Area):
    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        self._own = toolbox.Tools(daemon)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/api/v1/tools",
                summary="The definitions of all tools, as their servers gave them",
                handle=self._list,
                operators=False,
                query=(SERVER, LAZY),
                example={"tools": [TOOL], "partial": False, "missing_servers": []},
            ),
            Route(
                method="GET",
                path="/api/v1/tools/search",
                summary="The tools that fit some words, the best first",
                handle=self._search,
                operators=False,
                query=(WORDS, LIMIT, SERVER),
                example={"tools": [HIT], "more": 0},
            ),
            Route(
                method="GET",
                path="/api/v1/tools/types.d.ts",
                summary="All that a script can use, as TypeScript declarations for editors",
                handle=self._types,
                operators=False,
                query=(SERVER,),
                example="declare const tools: Mcp.Servers;",
                content_type=TYPESCRIPT,
            ),
            Route(
                method="GET",
                path="/api/v1/tools/{name}",
                summary="One tool: its declaration in TypeScript, its parameters and what it returns",
                handle=self._show,
                operators=False,
                example=DESCRIBED,
            ),
            Route(
                method="POST",
                path="/api/v1/tools/call",
                summary="Call one tool; its result as it came, whether that reports an error or not",
                handle=self._call,
                operators=False,
                body=CALL,
                example=RESULT,
            ),
        )

    async def _catalog(self, request: Request, *, whole: bool) -> Catalog:
        """What the caller sees, or of that the one server that it asks for.

        `whole` connects servers that wait for their first use and have never said what they have.
        """
        wanted = request.query.get("server")
        if whole or wanted is not None:
            await acquainted(self._daemon, request.caller, None if wanted is None else [wanted])
        else:
            await settled(self._daemon)
        catalog = self._daemon.catalog_for(request.caller)
        if wanted is None:
            return catalog
        if wanted not in catalog.servers:
            raise Refused("NOT_FOUND", no_server(wanted, catalog))
        return replace(catalog, servers={wanted: catalog.servers[wanted]})

    async def _types(self, request: Request) -> Any:
        catalog = await self._catalog(request, whole=True)
        text = await anyio.to_thread.run_sync(ambient, catalog)
        return Answer(text.encode("utf-8", "replace"), content_type=TYPESCRIPT)

    async def _list(self, request: Request) -> Any:
        catalog = await self._catalog(request, whole=request.query.get("lazy", False))
        tools = [{**tool.public, "server": tool.server} for tool in catalog.tools()]
        missing = [
            name
            for name, server in catalog.servers.items()
            if server.state in ("connecting", "down")
            or (server.state == "lazy" and not server.tools)
        ]
        return {"tools": tools, "partial": bool(missing), "missing_servers": missing}

    async def _search(self, request: Request) -> Any:
        take = request.query.get
        if take("q") is None:
            raise Refused("INVALID_REQUEST", "q is missing: give what to look for as ?q=WORDS")
        search = self._daemon.discovery.search_tools
        asked = partial(search, take("q"), take("limit"), take("server"), request.caller)
        return await self._look(asked, request.caller, take("server"))

    async def _show(self, request: Request) -> Any:
        describe = self._daemon.discovery.describe_tool
        name = request.parameters["name"]
        return await self._look(partial(describe, name, request.caller), request.caller, name)

    async def _look(self, read: Callable[[], Any], caller: Caller, about: str | None) -> Any:
        await acquainted(self._daemon, caller, None if about is None else [about])
        try:
            return await anyio.to_thread.run_sync(read)
        except LookupError as error:
            raise Refused("NOT_FOUND", str(error.args[0])) from error
        except ValueError as error:
            raise Refused("INVALID_REQUEST", str(error)) from error

    async def _call(self, request: Request) -> Any:
        name, cursor = request.body.get("tool_name"), request.body.get("cursor")
        if (name is None) == (cursor is None):
            raise Refused("INVALID_REQUEST", "give tool_name, or cursor to read on, one of them")
        if cursor is not None:
            return self._read_on(cursor, request)
        if offer.OTHER_NAMES.get(str(name), name) in OURS:
            return await while_there(request, partial(self._own.call, ours(str(name), request)))
        try:
            found = await located(self._daemon, str(name), request.caller)
            return await while_there(request, partial(self._result, found, request))
        except CallError as error:
            return failed(error, request.request_id)
        except NoTool as error:
            raise Refused("NOT_FOUND", str(error)) from error

    async def _result(self, tool: ToolId, request: Request) -> Any:
        arguments = request.body.get("arguments", {})
        result = await self._daemon.call(tool.server, tool.tool, arguments, request.caller)
        plain = {key: value for key, value in result.items() if key not in MODERN_ONLY}
        return self._cut(
            *self._daemon.pages.first({"content": [], **plain}, self._limit, request.caller.owner)
        )

    @property
    def _limit(self) -> int:
        return self._daemon.settings.tool_response_limit

    def _read_on(self, cursor: str, request: Request) -> Any:
        try:
            text, cut = self._daemon.pages.next(cursor, self._limit, request.caller.owner)
        except NoPage as error:
            raise Refused("NOT_FOUND", str(error)) from error
        return self._cut({"content": [{"type": "text", "text": text}]}, cut)

    def _cut(self, result: dict[str, Any], cut: Cut | None) -> dict[str, Any]:
        return result if cut is None else {**result, "cut": cut.shown()}


def ours(name: str, request: Request) -> toolbox.Call:
    """A call of a tool of our own, as it would come over MCP."""
    return toolbox.Call(
        name=name,
        arguments=request.body.get("arguments", {}),
        meta={},
        caller=request.caller,
        client=None,
        request_id=request.request_id,
        report=None,
        asker=Asker.nobody(request.caller.name),
    )


def failed(error: CallError, request_id: str) -> Answer:
    body = {"success": False, **error.envelope(), "request_id": request_id}
    headers = []
    if error.retry_after_ms is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after_ms / 1000)))
    return Answer(to_json(body), CALL_STATUS[error.code], headers=headers)
