"""A pool that remembers whom it handed out last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcpproxy.sandbox.pool import Pool, Vm


class Watched:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.last: Vm | None = None

    @asynccontextmanager
    async def vm(self, queue_seconds: float) -> AsyncIterator[Vm]:
        async with self.pool.vm(queue_seconds) as vm:
            self.last = vm
            yield vm
