"""How long a call may take, not counting the time in which somebody thinks about a question of it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from mcpproxy.upstream.connection import Client

Json = dict[str, Any]
Ask = Callable[[str, Json], Awaitable[Json]]


class Patience:
    """A time limit that stands still while the call's client is asked something."""

    def __init__(self, seconds: float) -> None:
        self.scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._asking = 0
        self._left = seconds

    def around(self, client: Client | None) -> Client | None:
        """The client, such that asking it stops the clock."""
        if client is None or client.ask is None:
            return client
        return replace(client, ask=partial(self._ask, client.ask))

    async def _ask(self, ask: Ask, method: str, params: Json) -> Json:
        if not self._asking:
            self._left = self.scope.deadline - anyio.current_time()
            self.scope.deadline = math.inf
        self._asking += 1
        try:
            return await ask(method, params)
        finally:
            self._asking -= 1
            if not self._asking:
                self.scope.deadline = anyio.current_time() + self._left
