"""The SDK's dispatcher, such that its end is noticed, and what a server asks and says is had as raw JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.shared.dispatcher import DispatchContext, OnNotify, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from mcpproxy.upstream.dial import Line

Json = dict[str, Any]

QUESTIONS = ("elicitation/create", "sampling/createMessage")
"""What we let a legacy server ask while a call runs. Not roots: a server asks for them unprompted."""


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
        self.answer: Callable[[str, Json], Awaitable[Json]] | None = None
        """Answers the server's questions, as raw JSON."""
        self.told: Callable[[str, Json], Awaitable[None]] | None = None
        """Hears notifications, as raw JSON."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed or self.ended.is_set()

    async def run(
        self, on_request: OnRequest, on_notify: OnNotify, *args: Any, **options: Any
    ) -> None:
        async def hear(ctx: DispatchContext[Any], method: str, params: Any) -> Json:
            if method in QUESTIONS and self.answer is not None:
                return await self.answer(method, dict(params or {}))
            return await on_request(ctx, method, params)

        async def note(ctx: DispatchContext[Any], method: str, params: Any) -> None:
            if self.told is not None:
                await self.told(method, dict(params or {}))
            await on_notify(ctx, method, params)

        try:
            await super().run(hear, note, *args, **options)
        finally:
            self.ended.set()
