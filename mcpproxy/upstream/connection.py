"""One connection to one server, agreed on and open: requests go out and raw results come back.

Raw, because a proxy has no business judging what a tool says: the SDK's typed client refuses whole
lists over one odd schema, and raises over an odd result after the tool has run.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.client import ClientSession
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import mcp_param_headers, x_mcp_header_map
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from mcpproxy.upstream.dial import Line
from mcpproxy.upstream.era import IDENTITY, Era, negotiate

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]

MOST_PAGES = 1000
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
RESUBSCRIBE_SECONDS, LONGEST_RESUBSCRIBE_SECONDS = 5.0, 300.0


class Bell:
    """Something happened, once or several times, since somebody last waited."""

    def __init__(self) -> None:
        self._rung = anyio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self) -> None:
        await self._rung.wait()
        self._rung = anyio.Event()


class Watched(JSONRPCDispatcher):
    """The SDK's dispatcher, with a sign that its connection ended."""

    def __init__(self, line: Line) -> None:
        super().__init__(line.read, line.write)
        self.ended = anyio.Event()

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed or self.ended.is_set()

    async def run(self, *args: Any, **options: Any) -> None:
        try:
            await super().run(*args, **options)
        finally:
            self.ended.set()


class Connection:
    """See the module. Made by `open_connection`, and done when `ended` is set."""

    def __init__(
        self, line: Line, dispatcher: Watched, session: ClientSession, changed: Bell, era: Era
    ) -> None:
        self.line = line
        self.ended = dispatcher.ended
        self.era = era
        self.changed = changed
        """Rung when the server says that its list of tools is another."""
        self.version = session.protocol_version
        self.instructions = session.instructions
        self._dispatcher = dispatcher
        self._session = session
        self._param_headers: dict[str, Any] = {}

    @property
    def closed(self) -> bool:
        return self._dispatcher.closed

    @property
    def tells_changes(self) -> bool:
        capabilities = self._session.server_capabilities
        tools = capabilities and capabilities.tools
        return bool(tools and tools.list_changed)

    async def request(
        self,
        method: str,
        params: Json,
        *,
        within: float | None = None,
        progress: Progress | None = None,
    ) -> Json:
        """Raises `MCPError`; `within` so many seconds where that is given."""
        data: Json = {"method": method, "params": params}
        options: CallOptions = {}
        if within is not None:
            options["timeout"] = within
        if progress is not None:
            options["on_progress"] = _reporting(progress)
        self._session._stamp(data, options)
        if self._param_headers and (header := self._param_headers.get(params.get("name", ""))):
            options["headers"].update(mcp_param_headers(header, params.get("arguments") or {}))
        return await self._dispatcher.send_raw_request(method, data["params"], options)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        progress: Progress | None,
    ) -> Json:
        """One `tools/call`, and what the server says, without the envelope of the era."""
        params: Json = {"name": tool, "arguments": dict(arguments)}
        if meta:
            params["_meta"] = dict(meta)
        result = await self.request("tools/call", params, progress=progress)
        kind = result.pop("resultType", "complete")
        if kind != "complete":
            raise MCPError(
                types.INTERNAL_ERROR,
                f"the tool wants more from a person ({kind}), which isn't possible here",
            )
        if isinstance(found := result.get("_meta"), dict) and SERVER_INFO in found:
            del found[SERVER_INFO]
            if not found:
                del result["_meta"]
        return result

    async def tools(self) -> tuple[list[Json], float | None]:
        """All of `tools/list`, as it came, and for how many seconds it holds if the server says so."""
        found: list[Json] = []
        held: float | None = None
        cursors: list[str] = []
        while len(cursors) < MOST_PAGES:
            page = await self.request("tools/list", {"cursor": cursors[-1]} if cursors else {})
            entries = page.get("tools")
            for entry in entries if isinstance(entries, list) else []:
                if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                    found.append(entry)
                else:
                    logger.warning("a tool without a name is left out: %.200r", entry)
            if isinstance(ttl := page.get("ttlMs"), int | float) and ttl > 0:
                held = ttl / 1000
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor in cursors:
                break
            cursors.append(cursor)
        if self.era == "modern" and self.line.way != "stdio":
            self._param_headers = {tool["name"]: h for tool in found if (h := _headers(tool))}
        return found, held

    async def watch(self) -> None:
        """Have a modern server tell when its list changes; a legacy one does so unasked."""
        pause = RESUBSCRIBE_SECONDS
        while self.era == "modern" and self.tells_changes:
            try:
                async with listen(self._session, tools_list_changed=True) as events:
                    self.changed.ring()  # whatever changed while nobody listened
                    async for _ in events:
                        self.changed.ring()
                        pause = RESUBSCRIBE_SECONDS
            except (MCPError, RuntimeError, TimeoutError) as error:
                logger.debug("subscription ended: %s", error)
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_RESUBSCRIBE_SECONDS)


def _reporting(tell: Progress) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        await tell(progress, total, message)

    return report


def _headers(tool: Json) -> Any:
    schema = tool.get("inputSchema")
    return x_mcp_header_map(schema) if isinstance(schema, dict) else None


@asynccontextmanager
async def open_connection(
    line: Line, expected: Era | None, *, sure: bool
) -> AsyncIterator[Connection]:
    """Agree with the server on a version; see `negotiate`."""
    dispatcher, changed = Watched(line), Bell()

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.ring()

    async with ClientSession(
        dispatcher=dispatcher, message_handler=hear, client_info=IDENTITY
    ) as session:
        era = await negotiate(session, dispatcher, expected, sure=sure)
        yield Connection(line, dispatcher, session, changed, era)
