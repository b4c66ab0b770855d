"""Code that ran well and was given a description, kept so that it can be run again.

What is kept is the program, never its result: a program that calls tools is run anew each time,
under the rights of whoever runs it. Each owner has room for so many; the oldest use goes first.
Who may see what is decided in `keptcode.py`; here is the file.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpproxy.database import Database
from mcpproxy.journal.trail import source_hash
from mcpproxy.stamps import stamp

MOST = 500
"""Programs that are kept for one owner."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS programs (
    n INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL, source TEXT NOT NULL,
    language TEXT NOT NULL, description TEXT NOT NULL, input TEXT NOT NULL, tools TEXT NOT NULL,
    kept REAL NOT NULL, used REAL NOT NULL, runs INTEGER NOT NULL, ms INTEGER NOT NULL,
    UNIQUE (id, owner)
);
CREATE VIRTUAL TABLE IF NOT EXISTS descriptions USING fts5(description, tokenize='porter unicode61');
"""
SELECT = (
    "SELECT owner, source, language, programs.description, input, tools, kept, used, runs, ms "
    "FROM programs "
)
INSERT = """
INSERT INTO programs
    (id, owner, source, language, description, input, tools, kept, used, runs, ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id, owner) DO UPDATE SET
    source = excluded.source, language = excluded.language, description = excluded.description,
    input = excluded.input, tools = excluded.tools, kept = excluded.kept, used = excluded.used,
    runs = runs + excluded.runs, ms = excluded.ms
RETURNING n
"""
OLDEST = "SELECT n FROM programs WHERE owner = ? ORDER BY used DESC, n DESC LIMIT -1 OFFSET ?"
ANY = "(:owner IS NULL OR owner = :owner)"
RECENT = "ORDER BY used DESC, n DESC"


@dataclass(frozen=True, slots=True)
class Kept:
    """One program and what is known of it."""

    source: str
    language: str
    description: str
    input: Mapping[str, Any]
    """What it ran with; `params` replace its members."""
    tools: Mapping[str, str]
    """The tools it called, as "server:tool", and the hash of the schemas that each had then."""
    ms: int
    """How long its last run took."""
    owner: str = ""
    """The caller whose run it was; empty for all administrators together."""
    kept: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)
    runs: int = 1

    @property
    def cache_id(self) -> str:
        """SHA-256 of the source, whatever its line ends and the blank space around it."""
        return source_hash(self.source)

    def shown(self) -> dict[str, Any]:
        """As a listing shows it."""
        return {
            "cache_id": self.cache_id,
            "description": self.description,
            "language": self.language,
            "params": list(self.input),
            "tools": list(self.tools),
            "owner": self.owner or None,
            "runs": self.runs,
            "last_ms": self.ms,
            "kept_at": stamp(self.kept),
            "used_at": stamp(self.used),
        }

    def whole(self) -> dict[str, Any]:
        """As its owner may read it."""
        return {**self.shown(), "source": self.source, "input": dict(self.input)}


class CodeCache:
    """The programs kept in one SQLite file, made when the first one is. Safe to use from any thread.

    An `owner` of None, where one is asked for, is all owners. Raises `sqlite3.Error` and `OSError`.
    """

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.path = path
        self._most = most
        self._database = Database(path, SCHEMA)

    def close(self) -> None:
        self._database.close()

    def keep(self, code: Kept) -> str:
        """Keep a program, or note another run of it; gives its id."""
        values = (
            code.cache_id, code.owner, code.source, code.language, code.description,
            json.dumps(dict(code.input)), json.dumps(dict(code.tools)),
            code.kept, code.used, code.runs, code.ms,
        )  # fmt: skip
        with self._database.changing() as database:
            ((n,),) = database.execute(INSERT, values).fetchall()
            database.execute(
                "INSERT OR REPLACE INTO descriptions (rowid, description) VALUES (?, ?)",
                (n, code.description),
            )
            for (old,) in database.execute(OLDEST, (code.owner, self._most)).fetchall():
                self._delete(database, old)
        return code.cache_id

    def find(self, start: str, owner: str | None, most: int = 2) -> list[Kept]:
        """Those whose id begins with `start`, the last used first."""
        if not re.fullmatch("[0-9a-f]+", start):
            return []
        return self._select(f"WHERE id GLOB :start || '*' AND {ANY} {RECENT} LIMIT :most", start=start, owner=owner, most=most)  # fmt: skip

    def listing(self, owner: str | None) -> list[Kept]:
        """All of them, the last used first."""
        return self._select(f"WHERE {ANY} {RECENT}", owner=owner)

    def search(self, query: str, owner: str | None, limit: int = 3) -> list[Kept]:
        """Those whose description has words of the query, the best first."""
        words = re.findall(r"\w+", query[:500])[:20]
        if not words:
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        return self._select(
            f"JOIN descriptions ON descriptions.rowid = n WHERE descriptions MATCH :wanted AND {ANY} "
            "ORDER BY rank, n LIMIT :limit",
            wanted=wanted, owner=owner, limit=limit,
        )  # fmt: skip

    def remove(self, cache_id: str, owner: str) -> bool:
        """Whether there was one to remove."""
        if not self._database.there:
            return False
        with self._database.changing() as database:
            found = database.execute(
                "SELECT n FROM programs WHERE id = ? AND owner = ?", (cache_id, owner)
            ).fetchall()
            for (n,) in found:
                self._delete(database, n)
        return bool(found)

    def _delete(self, database: sqlite3.Connection, n: int) -> None:
        database.execute("DELETE FROM programs WHERE n = ?", (n,))
        database.execute("DELETE FROM descriptions WHERE rowid = ?", (n,))

    def _select(self, rest: str, **values: Any) -> list[Kept]:
        if not self._database.there:
            return []
        with self._database.reading() as database:
            return [kept(row) for row in database.execute(SELECT + rest, values)]


def kept(row: tuple[Any, ...]) -> Kept:
    owner, source, language, description, given, tools, kept_at, used_at, runs, ms = row
    return Kept(
        source=source,
        language=language,
        description=description,
        input=json.loads(given),
        tools=json.loads(tools),
        ms=ms,
        owner=owner,
        kept=kept_at,
        used=used_at,
        runs=runs,
    )
