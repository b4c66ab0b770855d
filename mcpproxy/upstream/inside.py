"""A server that lives in this process: a source of tools behind the same line as any other server.

To the link it is an MCP server of the handshake era; what is between them are messages in memory
instead of bytes. So limits, catalog, progress, cancellation and changes of lists come from where
they come for everyone. Raw dictionaries in and out: a source says what goes over the wire.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Literal

import anyio
import anyio.abc
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mcpproxy import __version__

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells whoever called how far it is: progress, total, message."""
Announce = Callable[[Literal["tools", "prompts"]], None]
"""Says that a list is another now."""

Ends = tuple[MemoryObjectReceiveStream[SessionMessage], MemoryObjectSendStream[SessionMessage]]


class Unfit(Exception):
    """A request asks for what there isn't, or in a way that can't be; the code is JSON-RPC's."""

    def __init__(self, message: str, code: int = types.INVALID_PARAMS) -> None:
        super().__init__(message)
        self.code = code


class Source:
    """What a server in this process consists of. Made by an `Opener`, whose block is its lifetime.

    Lists and results are as they travel; they are not copied, so nobody may change them afterwards.
    """

    instructions: str | None = None

    def tools(self) -> list[Json]:
        """The entries of `tools/list`."""
        raise NotImplementedError

    async def call(self, name: str, arguments: Json, report: Report) -> Json:
        """The result of `tools/call`; calls run at once, and one that is cancelled has to end.

        Raises `Unfit` for a name that isn't listed. A call that fails is a result with `isError`.
        """
        raise NotImplementedError

    def prompts(self) -> list[Json]:
        """The entries of `prompts/list`."""
        return []

    async def prompt(self, name: str, arguments: Json) -> Json:
        """The result of `prompts/get`. Raises `Unfit` for a name or arguments that don't fit."""
        raise Unfit(f"there is no prompt {name[:100]!r}")

    def complete(self, prompt: str, argument: str, begun: str) -> list[str]:
        """Values for an argument of a prompt that go on from what was begun."""
        return []


Opener = Callable[[Announce], AbstractAsyncContextManager[Source]]


@asynccontextmanager
async def open_inside(opener: Opener) -> AsyncIterator[Ends]:
    """Our ends of the line (read, write) to a source that is open for as long as the block."""
    theirs_out, ours_in = anyio.create_memory_object_stream[SessionMessage](math.inf)
    ours_out, theirs_in = anyio.create_memory_object_stream[SessionMessage](math.inf)
    with ours_in, ours_out, theirs_in, theirs_out:
        async with opener(lambda which: _announce(theirs_out, which)) as source:
            async with anyio.create_task_group() as tasks:
                server = Server(source, theirs_out, tasks)
                tasks.start_soon(server.run, theirs_in)
                try:
                    yield ours_in, ours_out
                finally:
                    tasks.cancel_scope.cancel()


def _announce(writer: MemoryObjectSendStream[SessionMessage], which: str) -> None:
    method = f"notifications/{which}/list_changed"
    _post(writer, types.JSONRPCNotification(jsonrpc="2.0", method=method))


def _post(writer: MemoryObjectSendStream[SessionMessage], message: types.JSONRPCMessage) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens any more
        writer.send_nowait(SessionMessage(message))


class Server:
    """The other end of the line: each request is a task of its own until it is answered."""

    def __init__(
        self,
        source: Source,
        writer: MemoryObjectSendStream[SessionMessage],
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self._source = source
        self._writer = writer
        self._tasks = tasks
        self._running: dict[int | str, anyio.CancelScope] = {}

    async def run(self, reader: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in reader:
            match item.message:
                case types.JSONRPCRequest() as request:
                    scope = self._running[request.id] = anyio.CancelScope()
                    self._tasks.start_soon(self._serve, request, scope)
                case types.JSONRPCNotification(method="notifications/cancelled") as said:
                    number = (said.params or {}).get("requestId")
                    if number is not None and (running := self._running.get(number)):
                        running.cancel()

    async def _serve(self, request: types.JSONRPCRequest, scope: anyio.CancelScope) -> None:
        """Answer, unless it is cancelled: then nobody waits for an answer."""
        answer: types.JSONRPCMessage | None = None
        try:
            with scope:
                answer = await self._answer(request)
        finally:
            del self._running[request.id]
        if answer is not None:
            _post(self._writer, answer)

    async def _answer(self, request: types.JSONRPCRequest) -> types.JSONRPCMessage:
        try:
            result = await self._result(request.method, request.params or {})
            return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)
        except Unfit as error:
            fault = types.ErrorData(code=error.code, message=str(error))
        except Exception as error:
            logger.exception("a source of tools failed at %s", request.method)
            message = f"it failed inside ({type(error).__name__}); the daemon's log says more"
            fault = types.ErrorData(code=types.INTERNAL_ERROR, message=message)
        return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=fault)

    async def _result(self, method: str, params: Json) -> Json:
        match method:
            case "initialize":
                return self._introduction(params.get("protocolVersion"))
            case "ping":
                return {}
            case "tools/list":
                return {"tools": self._source.tools()}
            case "tools/call":
                name, arguments = _named(params)
                return await self._source.call(name, arguments, self._report(params))
            case "prompts/list":
                return {"prompts": self._source.prompts()}
            case "prompts/get":
                return await self._source.prompt(*_named(params))
            case "completion/complete":
                return {"completion": {"values": self._values(params)[:100]}}
        raise Unfit(f"{method} is not known here", types.METHOD_NOT_FOUND)

    def _introduction(self, asked: object) -> Json:
        version = asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else HANDSHAKE_PROTOCOL_VERSIONS[-1]
        told = {"listChanged": True}
        said = {"instructions": self._source.instructions} if self._source.instructions else {}
        return {
            "protocolVersion": version,
            "capabilities": {"tools": told, "prompts": told, "completions": {}},
            "serverInfo": {"name": "mcpproxy", "version": __version__},
            **said,
        }

    def _report(self, params: Json) -> Report:
        token = (params.get("_meta") or {}).get("progressToken")

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if token is None:
                return
            said = {
                "progressToken": token,
                "progress": progress,
                "total": total,
                "message": message,
            }
            said = {name: value for name, value in said.items() if value is not None}
            method = "notifications/progress"
            notification = types.JSONRPCNotification(jsonrpc="2.0", method=method, params=said)
            _post(self._writer, notification)

        return report

    def _values(self, params: Json) -> list[str]:
        match params:
            case {
                "ref": {"type": "ref/prompt", "name": str(name)},
                "argument": {"name": str(argument), "value": str(begun)},
            }:
                return self._source.complete(name, argument, begun)
        return []


def _named(params: Json) -> tuple[str, Json]:
    """What is asked for, and its arguments. Raises `Unfit`."""
    match params:
        case {"name": str(name), "arguments": dict(arguments)}:
            return name, arguments
        case {"name": str(name)} if params.get("arguments") is None:
            return name, {}
    raise Unfit("name must be a string, and arguments an object")
