"""One connection to one server, agreed on and open: requests go out and raw results come back.

Raw, because a proxy has no business judging what a tool says: the SDK's typed client refuses whole
lists over one odd schema, and raises over an odd result after the tool has run.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import mcp_types as types
from mcp.client import ClientSession
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)

from mcpproxy.errors import CallError
from mcpproxy.tracing import traced
from mcpproxy.upstream.dial import Line
from mcpproxy.upstream.era import IDENTITY, Era, negotiate
from mcpproxy.upstream.following import Following
from mcpproxy.upstream.listing import holds
from mcpproxy.upstream.watched import Bell, Watched

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Told how much is done, of how much if that is known, and a message, as `notifications/progress` has them."""

MOST_PAGES = 1000
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
RESUBSCRIBE_SECONDS, LONGEST_RESUBSCRIBE_SECONDS = 5.0, 300.0
MOST_TOLD = 100
"""Log messages and reports of progress of one call, each, that its client is slow to take; more are left out."""
MOST_ASKED = 16
"""Questions of one server that wait for their answers; more are refused."""
NO_ANSWER = (
    "a script can't answer questions: call the tool directly (server__tool) from a client that can, "
    "or give it all it needs in its arguments"
)


@dataclass(frozen=True, slots=True)
class Client:
    """Who waits for a request, where it can be asked something meanwhile."""

    capabilities: Json
    """As it declared them: what a modern server may ask."""
    retry: Json
    """`inputResponses` and `requestState` of a request that is made again, as they came."""
    ask: Callable[[str, Json], Awaitable[Json]] | None
    """Puts a legacy server's question; raises `MCPError`."""
    log_level: str | None = None
    """From which level up log messages are wanted; none are without it."""
    log: Callable[[Json], Awaitable[None]] | None = None
    """Takes the parameters of a `notifications/message`."""


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
        self._waiting: dict[object, Client | None] = {}
        self._asking = 0
        dispatcher.answer = self._answer
        dispatcher.told = self._told
        self.following = Following(session, era, self.request)
        self.heard: Callable[[str], None] | None = None
        """Called with "prompts" or "resources" when the server says that this list is another."""

    @property
    def closed(self) -> bool:
        return self._dispatcher.closed

    @property
    def offers(self) -> Json:
        """The server's capabilities."""
        found = self._session.server_capabilities
        return found.model_dump(by_alias=True, exclude_none=True) if found else {}

    @property
    def tells_changes(self) -> frozenset[str]:
        """The lists (tools, prompts, resources) whose changes the server announces."""
        offers = self.offers
        return frozenset(
            each
            for each in ("tools", "prompts", "resources")
            if (offers.get(each) or {}).get("listChanged")
        )

    async def request(
        self,
        method: str,
        params: Json,
        *,
        progress: Progress | None = None,
        capabilities: Json | None = None,
    ) -> Json:
        """Raises `MCPError`."""
        data: Json = {"method": method, "params": params}
        options: CallOptions = {}
        if progress is not None:
            options["on_progress"] = _few(progress)
        inflight = self.line.inflight
        if self.era == "modern" or inflight is None:  # else it is for headers alone
            self._session._stamp(data, options)
        if self.era == "modern":
            # Ours are those of whoever asks: a script can't be asked anything.
            data["params"]["_meta"][types.CLIENT_CAPABILITIES_META_KEY] = capabilities or {}
        if self._param_headers and (header := self._param_headers.get(params.get("name", ""))):
            options["headers"].update(mcp_param_headers(header, params.get("arguments") or {}))
        # More options than these: it has progress, or must not be cancelled (`server/discover`).
        if inflight is not None and options.keys() <= {"headers"} and not traced():
            return await inflight.request(method, data["params"])
        return await self._dispatcher.send_raw_request(method, data["params"], options)

    async def exchange(
        self,
        method: str,
        params: Json,
        meta: Mapping[str, Any] | None,
        progress: Progress | None,
        client: Client | None,
    ) -> Json:
        """One request for somebody, and what the server says, without the envelope of the era.

        For a client, that may be a question (`resultType` is `input_required`).
        Raises `MCPError`, and `CallError` where nobody is there to be asked.
        """
        capabilities: Json = {}
        if client is not None:
            params, capabilities = {**params, **client.retry}, client.capabilities
            client = replace(client, log=client.log and _few(client.log))
        meta = dict(meta or {})
        if self.era == "modern" and client is not None and client.log_level is not None:
            meta[types.LOG_LEVEL_META_KEY] = client.log_level
        if meta:
            params["_meta"] = meta
        key = object()
        self._waiting[key] = client
        try:
            result = await self.request(
                method, params, progress=progress, capabilities=capabilities
            )
        finally:
            del self._waiting[key]
        kind = result.get("resultType", "complete")
        if kind == "complete":
            result.pop("resultType", None)
        elif client is None or kind != "input_required":
            what = params.get("name", method)
            raise CallError("UPSTREAM_ERROR", f"{what} asks for more input ({kind}); {NO_ANSWER}")
        if isinstance(found := result.get("_meta"), dict) and SERVER_INFO in found:
            del found[SERVER_INFO]
            if not found:
                del result["_meta"]
        return result

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any] | None,
        progress: Progress | None,
        client: Client | None = None,
    ) -> Coroutine[Any, Any, Json]:
        """One `tools/call`; see `exchange`."""
        params: Json = {"name": tool, "arguments": dict(arguments)}
        return self.exchange("tools/call", params, meta, progress, client)

    async def _answer(self, method: str, params: Json) -> Json:
        """A question doesn't say which call it belongs to: it must be the only one."""
        if len(self._waiting) != 1:
            number = len(self._waiting) or "no"
            message = f"{number} calls are in flight on this connection: whom to ask is unknown"
            raise MCPError(types.INVALID_REQUEST, message)
        (client,) = self._waiting.values()
        if client is None:
            raise MCPError(types.INVALID_REQUEST, NO_ANSWER)
        if client.ask is None:
            message = f"the client that made this call does not answer {method}"
            raise MCPError(types.INVALID_REQUEST, message)
        if self._asking >= MOST_ASKED:
            message = (
                f"{self._asking} questions wait for their answers; ask again when they are there"
            )
            raise MCPError(types.INVALID_REQUEST, message)
        self._asking += 1
        try:
            return await client.ask(method, params)
        finally:
            self._asking -= 1

    async def _told(self, method: str, params: Json) -> None:
        """A log message doesn't say which call it belongs to, either: it must be the only one."""
        if method == "notifications/resources/updated":
            self.following.tell(params.get("uri"))
        elif method == "notifications/message" and len(self._waiting) == 1:
            (client,) = self._waiting.values()
            if client is not None and client.log is not None:
                await client.log(params)

    async def tools(self) -> tuple[list[Json], float | None]:
        """All of `tools/list`, as it came, and for how many seconds it holds if the server says so."""
        found: list[Json] = []
        held: float | None = None
        cursors: list[str] = []
        while len(cursors) < MOST_PAGES:
            page = await self.request("tools/list", {"cursor": cursors[-1]} if cursors else {})
            entries = page.get("tools")
            for entry in entries if isinstance(entries, list) else []:
                name = entry.get("name") if isinstance(entry, dict) else None
                if isinstance(name, str) and name:  # without one nobody could call it
                    found.append(entry)
                else:
                    logger.warning("a tool without a name is left out: %.200r", entry)
            held = holds(page) or held
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor in cursors:
                break
            cursors.append(cursor)
        if self.era == "modern" and self.line.way != "stdio":
            found = [tool for tool in found if _proper(tool)]
            self._param_headers = {tool["name"]: h for tool in found if (h := _headers(tool))}
        return found, held

    def tell(self, which: str) -> None:
        """Pass on that a list is another."""
        if which == "tools":
            self.changed.ring()
        elif which and self.heard is not None:
            self.heard(which)

    async def watch(self) -> None:
        """Have a modern server tell when its list changes; a legacy one does so unasked."""
        pause = RESUBSCRIBE_SECONDS
        while self.era == "modern" and (told := self.tells_changes):
            try:
                async with listen(
                    self._session,
                    tools_list_changed="tools" in told,
                    prompts_list_changed="prompts" in told,
                    resources_list_changed="resources" in told,
                ) as events:
                    for each in sorted(told):
                        self.tell(each)  # whatever changed while nobody listened
                    async for event in events:
                        self.tell(CHANGES.get(type(event).__name__, ""))
                        pause = RESUBSCRIBE_SECONDS
            except (MCPError, RuntimeError, TimeoutError) as error:
                logger.debug("subscription ended: %s", error)
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_RESUBSCRIBE_SECONDS)


CHANGES = {
    "ToolsListChanged": "tools",
    "PromptsListChanged": "prompts",
    "ResourcesListChanged": "resources",
    "ToolListChangedNotification": "tools",
    "PromptListChangedNotification": "prompts",
    "ResourceListChangedNotification": "resources",
}
"""What an event of a modern server, or a notification of a legacy one, is about."""


def _few(tell: Callable[..., Awaitable[None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """The same, but for what comes while `MOST_TOLD` are on their way: each is a task of its own."""
    telling = 0

    async def told(*about: Any) -> None:
        nonlocal telling
        if telling < MOST_TOLD:
            telling += 1
            try:
                await tell(*about)
            finally:
                telling -= 1

    return told


def _headers(tool: Json) -> Any:
    schema = tool.get("inputSchema")
    return x_mcp_header_map(schema) if isinstance(schema, dict) else None


def _proper(tool: Json) -> bool:
    """Whether its parameters can go into headers as it asks; the protocol wants it left out if not."""
    if (why := find_invalid_x_mcp_header(tool.get("inputSchema"))) is None:
        return True
    logger.warning("the tool %.100r is left out: %s", tool["name"], why)
    return False


@asynccontextmanager
async def open_connection(
    line: Line, expected: Era | None, *, sure: bool
) -> AsyncIterator[Connection]:
    """Agree with the server on a version; see `negotiate`."""
    dispatcher, changed = Watched(line), Bell()
    opened: Connection | None = None

    async def hear(message: object) -> None:
        which = CHANGES.get(type(message).__name__, "")
        if opened is not None:
            opened.tell(which)
        elif which == "tools":
            changed.ring()

    async with ClientSession(
        dispatcher=dispatcher,
        message_handler=hear,
        client_info=IDENTITY,
        # Only to declare that we may be asked: `Watched` answers.
        elicitation_callback=_unheard,
        sampling_callback=_unheard,
    ) as session:
        era = await negotiate(
            session,
            dispatcher,
            expected,
            sure=sure,
            unwanted=lambda: line.busy() or line.locked(),
        )
        opened = Connection(line, dispatcher, session, changed, era)
        yield opened


async def _unheard(context: object, params: object) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message="nobody can be asked")
