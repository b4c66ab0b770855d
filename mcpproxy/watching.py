"""Files that are looked at again whenever something changes about them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from watchfiles import awatch

from mcpproxy.tasks import open_tasks

logger = logging.getLogger(__name__)

DEBOUNCE_MS = 300
"""Longest time in which changes are taken together; `STEP_MS` without one end it."""
STEP_MS = 200
"""Between looks of the thread that gathers changes: it can't sleep until there are any, and wakes the CPU each time."""
LOOK_MS = 5000
"""Between looks at the files where nobody tells us of changes, as on some network file systems."""


async def watch(
    look: Callable[[], Awaitable[None]], *folders: Path, recursive: bool = False
) -> None:
    """Await `look` now, after each change in the folders, and every `LOOK_MS`, for ever.

    Where nobody tells us of changes (a folder is away, its name isn't UTF-8, the system has no more
    watches), it is the looks alone; the log says so, once for each reason.
    """
    said = ""
    while True:
        try:
            await _told(look, folders, recursive)
        except (OSError, RuntimeError, UnicodeEncodeError) as error:
            if said != str(error):
                said = str(error)
                logger.info("%s is looked at every %g s: %s", folders[0], LOOK_MS / 1000, error)
        await anyio.sleep(LOOK_MS / 1000)


async def _told(
    look: Callable[[], Awaitable[None]], folders: tuple[Path, ...], recursive: bool
) -> None:
    stop = anyio.Event()
    async with open_tasks() as tasks:
        tasks.start_soon(_set_at_end, stop)
        await look()
        async for _ in awatch(
            *folders, watch_filter=None, debounce=DEBOUNCE_MS, step=STEP_MS, rust_timeout=LOOK_MS,
            yield_on_timeout=True, recursive=recursive, stop_event=stop,
        ):  # fmt: skip
            await look()


async def _set_at_end(event: anyio.Event) -> None:
    """The thread that waits for changes can't be cancelled, but it looks at this event."""
    try:
        await anyio.sleep_forever()
    finally:
        event.set()
