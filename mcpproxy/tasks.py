"""Tasks for as long as a block, whose error is the block's own; and one for each client of a listener."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import Listener, TaskGroup

logger = logging.getLogger(__name__)

PAUSE = 0.1
"""Seconds until the next attempt to take a client in."""


@asynccontextmanager
async def open_tasks() -> AsyncIterator[TaskGroup]:
    """A task group that is cancelled when its block ends.

    A single error comes out as itself rather than in a group: that we have tasks is no concern of
    whoever opened something that has them.
    """
    try:
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            finally:
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            (error,) = error.exceptions
        raise error from error.__cause__


async def serve_each(listener: Listener[Any], serve: Callable[[Any], Awaitable[None]]) -> None:
    """Serve whoever comes, for ever. One that can't be let in, for want of descriptors, costs nobody else."""
    async with anyio.create_task_group() as tasks:
        while True:
            try:
                await listener.serve(serve, tasks)
            except* (anyio.BrokenResourceError, OSError) as group:
                error = group.exceptions[0]
                logger.warning("a client could not be let in: %s", error.__cause__ or error)
                await anyio.sleep(PAUSE)
