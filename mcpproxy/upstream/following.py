"""What a server is asked to tell us of besides its lists: resources that change, and log messages.

Somebody says what is wanted of a connection as a whole, whenever that changes; a task brings the
server there. A legacy server is told of each difference; a modern one gets one stream with all that
is wanted, in place of the one before.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
from mcp.client import ClientSession
from mcp.client.subscriptions import ResourceUpdated, listen
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from mcpproxy.upstream.era import Era

logger = logging.getLogger(__name__)

Json = dict[str, Any]
AGAIN_SECONDS = 5.0
"""Pause before a server that ended the stream, or refused it, is asked again."""


class Following:
    """What is wanted of one connection, and whom to tell."""

    def __init__(
        self,
        session: ClientSession,
        era: Era,
        request: Callable[[str, Json], Awaitable[Json]],
    ) -> None:
        self._session = session
        self._era = era
        self._request = request
        self._wanted = anyio.Event()
        self._uris: frozenset[str] = frozenset()
        self._level: str | None = None
        self.updated: Callable[[str], None] | None = None
        """Called with the URI of a resource that is another now."""

    def want(self, uris: frozenset[str], level: str | None) -> None:
        """Hear of changes in these resources, and (of a legacy server) log messages from `level` up."""
        if (uris, level) != (self._uris, self._level):
            self._uris, self._level = uris, level
            self._wanted.set()

    def tell(self, uri: object) -> None:
        if self.updated is not None and isinstance(uri, str):
            self.updated(uri)

    async def run(self) -> None:
        await (self._say_differences() if self._era == "legacy" else self._stream())

    async def _say_differences(self) -> None:
        told: frozenset[str] = frozenset()
        level: str | None = None
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            uris = self._uris
            for uri in sorted(told - uris):
                await self._say("resources/unsubscribe", {"uri": uri})
            for uri in sorted(uris - told):
                await self._say("resources/subscribe", {"uri": uri})
            told = uris
            if self._level not in (None, level):
                level = self._level
                await self._say("logging/setLevel", {"level": level})

    async def _say(self, method: str, params: Json) -> None:
        try:
            await self._request(method, params)
        except MCPError as error:
            logger.warning("a server refused %s %s: %s", method, params, error.message)

    async def _stream(self) -> None:
        missed: frozenset[str] = frozenset()
        while True:
            self._wanted = anyio.Event()
            uris = self._uris
            async with anyio.create_task_group() as tasks:
                if uris:
                    tasks.start_soon(self._listen, uris, missed)
                await self._wanted.wait()
                tasks.cancel_scope.cancel()
            missed = uris

    async def _listen(self, uris: frozenset[str], missed: frozenset[str]) -> None:
        """Keep a stream open. `missed`: what somebody followed before, and nobody did in between."""
        while True:
            try:
                async with listen(self._session, resource_subscriptions=sorted(uris)) as events:
                    for uri in sorted(missed & uris):
                        self.tell(uri)
                    async for event in events:
                        if isinstance(event, ResourceUpdated):
                            self.tell(event.uri)
            except (MCPError, RuntimeError, TimeoutError) as error:
                logger.debug("subscription to resources ended: %s", error)
            missed = uris
            await anyio.sleep(AGAIN_SECONDS)
