"""Results of deterministic tools, kept in SQLite; and the same call at the same time made once.

Only results that are good are kept, for a day, and no more than there is room for: the ones used
longest ago go first.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from mcpproxy.database import Database

logger = logging.getLogger(__name__)

OLDEST = 24 * 3600.0
"""Seconds for which a result is used."""
ROOM = 64 * 2**20
"""Bytes of results that are kept."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, result TEXT NOT NULL, size INTEGER NOT NULL, made REAL NOT NULL, used REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS by_use ON results (used);
"""


def key_of(*parts: Any) -> str:
    """The key of a call: SHA-256 of everything that its result depends on."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Shelf:
    """The results in one file, which is made when the first one is kept. Safe to use from any thread."""

    def __init__(self, path: Path, room: int = ROOM, oldest: float = OLDEST) -> None:
        self._room = room
        self._oldest = oldest
        self._database = Database(path, SCHEMA)

    def close(self) -> None:
        self._database.close()

    def find(self, key: str) -> str | None:
        if not self._database.there:
            return None
        now = time.time()
        with self._database.reading() as database:
            found = database.execute(
                "UPDATE results SET used = ? WHERE key = ? AND made > ? RETURNING result",
                (now, key, now - self._oldest),
            ).fetchone()
        return None if found is None else str(found[0])

    def keep(self, key: str, result: str) -> None:
        size, now = len(result.encode()), time.time()
        if size > self._room // 4:
            return
        with self._database.changing() as database:
            self._put(database, key, result, size, now)

    def _put(
        self, database: sqlite3.Connection, key: str, result: str, size: int, now: float
    ) -> None:
        database.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)",
            (key, result, size, now, now),
        )
        database.execute("DELETE FROM results WHERE made <= ?", (now - self._oldest,))
        database.execute(
            "DELETE FROM results WHERE key IN (SELECT key FROM ("
            "SELECT key, SUM(size) OVER (ORDER BY used DESC, key) AS total FROM results"
            ") WHERE total > ?)",
            (self._room,),
        )


class _Flight:
    """A call that is being made, and what came of it."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.result: str | None = None
        """None when it was cancelled: then whoever waited makes it."""


class Cache:
    """Results by key, made once."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._flights: dict[str, _Flight] = {}

    async def get(self, key: str, make: Callable[[], Awaitable[tuple[str, bool]]]) -> str:
        """The result that is kept or being made, or else what `make` gives: a result, and whether to keep it.

        Those who wait for a call get what comes of it, a failure too.
        """
        while (flight := self._flights.get(key)) is not None:
            await flight.done.wait()
            if flight.result is not None:
                return flight.result
        flight = self._flights[key] = _Flight()
        try:
            flight.result = await self._kept(key) or await self._make(key, make)
        finally:
            del self._flights[key]
            flight.done.set()
        return flight.result

    async def _kept(self, key: str) -> str | None:
        try:
            return await anyio.to_thread.run_sync(self._shelf.find, key)
        except (sqlite3.Error, OSError) as error:
            logger.warning("the kept results of tools can't be read: %s; tools run anew", error)
            return None

    async def _make(self, key: str, make: Callable[[], Awaitable[tuple[str, bool]]]) -> str:
        result, good = await make()
        if good:
            try:
                await anyio.to_thread.run_sync(self._shelf.keep, key, result)
            except (sqlite3.Error, OSError) as error:
                logger.warning("a tool's result can't be kept: %s", error)
        return result
