"""The transport of 2024-11-05: messages come as events of one response, and go out as POSTs.

In place of the SDK's client of it, which ends the connection over an event of more than 1 MiB, and
leaves a request that the server refused by HTTP's status without an answer.

Source: MCP 2024-11-05, "HTTP with SSE". How far redirects are followed is the SDK's rule.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared._httpx_utils import request_within_origin, sse_within_origin
from mcp.shared.message import SessionMessage

from mcpproxy.upstream.pipes import encode, parse
from mcpproxy.upstream.reasons import FAILED

logger = logging.getLogger(__name__)

JSON = {"Content-Type": "application/json"}

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]


class Elsewhere(ConnectionError):
    """A server wants our messages sent to somebody else."""


class Posts:
    """Messages to the server. A request that it doesn't take is answered in its place."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: str,
        answers: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        self._client = client
        self._url = url
        self._answers = answers

    async def send(self, item: SessionMessage) -> None:
        code, why = types.INTERNAL_ERROR, FAILED
        try:
            response = await request_within_origin(
                self._client, "POST", self._url, content=encode(item.message), headers=JSON
            )
            if response.is_success:
                return
        except httpx2.HTTPError as error:
            # It may have arrived all the same.
            code, why = types.CONNECTION_CLOSED, f"{type(error).__name__}: {error}"
        if isinstance(item.message, types.JSONRPCRequest):
            fault = types.ErrorData(code=code, message=why)
            answer = types.JSONRPCError(jsonrpc="2.0", id=item.message.id, error=fault)
            await self._answers.send(SessionMessage(answer))
        else:
            logger.debug("a notification was not taken: %s", why)

    async def aclose(self) -> None:
        """The connection ends with its events."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


@asynccontextmanager
async def open_sse(
    client: httpx2.AsyncClient, url: str, name: str
) -> AsyncGenerator[tuple[Incoming, Posts]]:
    """Messages of the server, and a way to send it some, for as long as the block.

    Raises `httpx2.HTTPError`, and `Elsewhere`.
    """
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    with into, incoming:
        async with sse_within_origin(client, url, max_event_size=None) as source:
            source.response.raise_for_status()
            events = aiter(source)
            target = await _endpoint(events, url)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_hear, events, into.clone(), name)
                yield incoming, Posts(client, target, into)
                tasks.cancel_scope.cancel()


async def _endpoint(events: AsyncIterator[httpx2.ServerSentEvent], url: str) -> str:
    """Where the server wants messages sent: it says so first."""
    async for event in events:
        if event.event == "endpoint":
            target = urljoin(url, event.data)
            if urlsplit(target)[:2] != urlsplit(url)[:2]:
                raise Elsewhere(f"it wants messages sent to another place: {target[:200]}")
            return target
    raise Elsewhere("it ended the stream without saying where to send messages")


async def _hear(
    events: AsyncIterator[httpx2.ServerSentEvent],
    into: MemoryObjectSendStream[SessionMessage | Exception],
    name: str,
) -> None:
    def odd(what: str, data: bytes) -> None:
        logger.info("server '%s' sent %s: %r", name, what, data[:200])

    with into:
        try:
            async for event in events:
                if event.event != "message" or not event.data:
                    continue
                if (message := parse(event.data.encode(), odd)) is not None:
                    await into.send(SessionMessage(message))
        except httpx2.HTTPError as error:
            logger.info("the stream of server '%s' broke: %s", name, error)
