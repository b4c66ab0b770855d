"""Records as they come, for who listens: what isn't fetched in time is dropped, and the listener with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from mcpproxy.journal.records import Record
from mcpproxy.journal.writer import Journal

MOST_WAITING = 1000
"""Records that may wait for one listener."""

KINDS = {
    "server_state": "servers",
    "catalog_change": "catalog",
    "config_change": "config",
}
"""What a type of record is news of; all others are `activity`."""


class Listener:
    """One who listens. Once it is `slow` or `over` it hears nothing more."""

    def __init__(self) -> None:
        self.slow = False
        """So many were not fetched that it would have missed some."""
        self.over = False
        """The daemon stops."""
        self._waiting: deque[Record] = deque()
        self._some = anyio.Event()

    def hear(self, record: Record) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.slow = True
        elif not self.slow:
            self._waiting.append(record)
        self._some.set()

    def close(self) -> None:
        self.over = True
        self._some.set()

    async def fetch(self, seconds: float) -> list[Record]:
        """What has come; waits that long for the first."""
        with anyio.move_on_after(seconds):
            await self._some.wait()
        self._some = anyio.Event()
        found = list(self._waiting)
        self._waiting.clear()
        return found


class Feed:
    """All who listen to one journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._open: set[Listener] = set()

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """A listener that hears of every record from now on."""
        listener = Listener()
        self._open.add(listener)
        unsubscribe = self._journal.listen(listener.hear)
        try:
            yield listener
        finally:
            unsubscribe()
            self._open.discard(listener)

    def close(self) -> None:
        """Let all of them go."""
        for listener in self._open:
            listener.close()


def kind(type: str) -> str:
    """What a record of this type is news of."""
    return KINDS.get(type, "activity")
