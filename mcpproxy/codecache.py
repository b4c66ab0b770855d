"""Code that ran well and was given a description, kept so that it can be run again.

What is kept is the program, never its result: a program that calls tools is run anew each time,
under the rights of whoever runs it. The oldest use goes first when there is no more room.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpproxy.paths import private_directory

MOST = 500
"""Programs that are kept."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS code (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, language TEXT NOT NULL, description TEXT NOT NULL,
    input TEXT NOT NULL, tools TEXT NOT NULL, kept REAL NOT NULL, used REAL NOT NULL,
    runs INTEGER NOT NULL, ms INTEGER NOT NULL
);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(id UNINDEXED, description, tokenize='porter unicode61');
"""
SELECT = "SELECT id, source, language, description, input, tools, kept, used, runs, ms FROM code "
INSERT = "INSERT OR REPLACE INTO code VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
TRIM = (
    "DELETE FROM words WHERE id IN (SELECT id FROM code ORDER BY used DESC, id LIMIT -1 OFFSET ?)",
    "DELETE FROM code WHERE id IN (SELECT id FROM code ORDER BY used DESC, id LIMIT -1 OFFSET ?)",
)


@dataclass(frozen=True, slots=True)
class Kept:
    """One program and what is known of it."""

    source: str
    language: str
    description: str
    input: Mapping[str, Any]
    """What it ran with; `params` replace its members."""
    tools: Mapping[str, str]
    """The tools it called, as "server:tool", and the fingerprint each had then."""
    ms: int
    """How long its last run took."""
    kept: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)
    runs: int = 1

    @property
    def cache_id(self) -> str:
        """SHA-256 of the source, whatever its line ends and the blank space around it."""
        return hashlib.sha256(normal(self.source).encode("utf-8", "surrogatepass")).hexdigest()

    def shown(self) -> dict[str, Any]:
        """As a listing shows it."""
        return {
            "cache_id": self.cache_id,
            "description": self.description,
            "language": self.language,
            "params": list(self.input),
            "tools": list(self.tools),
            "runs": self.runs,
            "last_ms": self.ms,
            "kept_at": stamp(self.kept),
            "used_at": stamp(self.used),
        }


def normal(source: str) -> str:
    return source.replace("\r\n", "\n").strip()


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class CodeCache:
    """The programs kept in one SQLite file, made when the first one is. Safe to use from any thread."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._made: sqlite3.Connection | None = None

    def _open(self) -> sqlite3.Connection:
        if self._made is None:
            private_directory(self._path.parent)
            self._made = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            self._made.execute("PRAGMA journal_mode = WAL")
            self._made.execute("PRAGMA synchronous = NORMAL")
            self._made.executescript(SCHEMA)
        return self._made

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def keep(self, code: Kept) -> str:
        """Keep a program, or note another run of it; gives its id."""
        with self._lock, self._open() as database:
            before = self._row(code.cache_id)
            runs = code.runs + (before.runs if before else 0)
            database.execute("BEGIN IMMEDIATE")
            database.execute(
                INSERT,
                (
                    code.cache_id, code.source, code.language, code.description,
                    json.dumps(dict(code.input)), json.dumps(dict(code.tools)),
                    before.kept if before else code.kept, code.used, runs, code.ms,
                ),
            )  # fmt: skip
            database.execute("DELETE FROM words WHERE id = ?", (code.cache_id,))
            database.execute(
                "INSERT INTO words (id, description) VALUES (?, ?)",
                (code.cache_id, code.description),
            )
            for statement in TRIM:
                database.execute(statement, (self._most,))
            database.execute("COMMIT")
        return code.cache_id

    def find(self, cache_id: str) -> Kept | None:
        with self._lock:
            return self._row(cache_id) if self._there() else None

    def listing(self) -> list[Kept]:
        """All of them, the last used first."""
        if not self._there():
            return []
        with self._lock:
            rows = self._open().execute(SELECT + "ORDER BY used DESC, id")
            return [kept(row) for row in rows]

    def search(self, query: str, limit: int = 3) -> list[Kept]:
        """Those whose description has words of the query, the best first."""
        words = re.findall(r"\w+", query[:500])[:20]
        if not words or not self._there():
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            rows = self._open().execute(
                "SELECT id FROM words WHERE words MATCH ? ORDER BY rank, id LIMIT ?",
                (wanted, limit),
            )
            found = [self._row(cache_id) for (cache_id,) in rows.fetchall()]
        return [each for each in found if each is not None]

    def remove(self, cache_id: str) -> bool:
        """Whether there was one to remove."""
        with self._lock:
            if not self._there() or self._row(cache_id) is None:
                return False
            with self._open() as database:
                database.execute("DELETE FROM code WHERE id = ?", (cache_id,))
                database.execute("DELETE FROM words WHERE id = ?", (cache_id,))
            return True

    def _there(self) -> bool:
        return self._made is not None or self._path.exists()

    def _row(self, cache_id: str) -> Kept | None:
        row = self._open().execute(SELECT + "WHERE id = ?", (cache_id,)).fetchone()
        return None if row is None else kept(row)


def kept(row: tuple[Any, ...]) -> Kept:
    _, source, language, description, given, tools, kept_at, used_at, runs, ms = row
    return Kept(
        source,
        language,
        description,
        json.loads(given),
        json.loads(tools),
        ms,
        kept_at,
        used_at,
        runs,
    )
