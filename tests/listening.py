"""An application over real HTTP within a test, for as long as a block.

As `uvicorn.Server.serve`, which looks every tenth of a second whether it should end, and takes another to do so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import uvicorn

GRACE = 1.0
"""Seconds in which what is under way may end."""


@asynccontextmanager
async def listening(app: Any, **options: Any) -> AsyncIterator[uvicorn.Server]:
    config = uvicorn.Config(app, log_level="critical", **options)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await _end(server)


async def _end(server: uvicorn.Server) -> None:
    state = server.server_state
    for each in server.servers:
        each.close()
    for connection in list(state.connections):
        connection.shutdown()
    with anyio.move_on_after(GRACE):
        while state.connections or state.tasks:
            await anyio.lowlevel.checkpoint()
    for task in state.tasks:
        task.cancel()
    await server.lifespan.shutdown()


def port_of(server: uvicorn.Server) -> int:
    found: int = server.servers[0].sockets[0].getsockname()[1]
    return found
