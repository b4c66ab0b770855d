"""Requests in flight over a pair of pipes, and whose answer is whose.

The SDK's dispatcher gives each request a queue, a clock, a span and a place for its progress, which
takes longer than most servers take for the call. A request that needs none of this goes past it:
under a number that the dispatcher doesn't reach, so that either knows its own answers.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from mcpproxy.envelopes import to_json
from mcpproxy.readiness import Once, once
from mcpproxy.upstream.pipes import Lines, Messages, Pen, refusal

Json = dict[str, Any]

FIRST_ID = 1 << 30
"""The dispatcher counts from 1. Some servers keep an id in 32 bits."""
ENDED = types.ErrorData(code=types.CONNECTION_CLOSED, message="Connection closed")


class Waiting:
    """A request without its answer so far."""

    __slots__ = ("answer", "answered")

    def __init__(self, answered: Once | anyio.Event) -> None:
        self.answered = answered
        self.answer: Json | None = None


class InFlight(Messages):
    """See the module: the messages that are left for the dispatcher, and `request` for the others."""

    def __init__(self, lines: Lines, pen: Pen) -> None:
        lines.takes = self._takes
        self._lines = lines
        self._pen = pen
        self._ids = count(FIRST_ID)
        self._once = once()
        self._waiting: dict[types.RequestId, Waiting] = {}
        self._ended = False

    async def request(self, method: str, params: Json) -> Json:
        """The result. Cancelling this cancels the request, which goes out even if that was done before.

        Raises `MCPError`.
        """
        number = next(self._ids)
        waiting = Waiting(self._once())
        try:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._pen.room()
                if not self._ended:
                    self._waiting[number] = waiting
                    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                    self._pen.post(to_json(message) + b"\n")
                    await self._pen.taken()
                    await waiting.answered.wait()
        except anyio.get_cancelled_exc_class():
            if number in self._waiting:  # else it never went out
                self._cancel(number)
            raise
        finally:
            self._waiting.pop(number, None)
        found = waiting.answer
        if found is None:
            raise MCPError.from_error_data(ENDED)
        if isinstance(result := found.get("result"), dict):
            return result
        raise MCPError.from_error_data(refusal(found))

    def _cancel(self, number: int) -> None:
        about = {"requestId": number, "reason": "caller cancelled"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": about}
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._pen.post(to_json(message) + b"\n")

    async def receive(self) -> SessionMessage | Exception:
        return await self._lines.receive()

    def _takes(self, number: int | str, answer: Json) -> bool:
        """Whether somebody waited for it here, who has it now."""
        waiting = self._waiting.get(coerce_request_id(number))
        if waiting is None:
            return False
        if not waiting.answered.is_set():
            waiting.answer = answer
            waiting.answered.set()
        return True

    async def aclose(self) -> None:
        """No answer comes any more: whoever waits for one is told."""
        self._ended = True
        for waiting in self._waiting.values():
            waiting.answered.set()
        await self._lines.aclose()
