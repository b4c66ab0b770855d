"""The database of records: SQLite, one writer at a time, any number of readers.

Rows go in by the many as one JSON text that SQLite takes apart itself: one statement, so that the
thread that waits for it needs the interpreter but twice. WAL with `synchronous = NORMAL`: what is
committed outlives this process, not always a loss of power.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mcpproxy.journal.records import COLUMNS, LINE_END, SHIFT
from mcpproxy.paths import private_directory, private_file

logger = logging.getLogger(__name__)

FILE = "activity.sqlite3"
VERSION = 1
SCHEMA = """
CREATE TABLE records (
    seq INTEGER PRIMARY KEY, id INTEGER NOT NULL, parent INTEGER, at INTEGER NOT NULL,
    type TEXT NOT NULL, status TEXT NOT NULL, code TEXT, server TEXT, tool TEXT, caller TEXT,
    client TEXT, request_id TEXT, ms INTEGER, seen INTEGER, back INTEGER, detail TEXT NOT NULL
);
CREATE UNIQUE INDEX by_id ON records (id);
CREATE INDEX by_parent ON records (parent) WHERE parent IS NOT NULL;
CREATE INDEX by_request ON records (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX by_tool ON records (tool) WHERE tool IS NOT NULL;
CREATE INDEX by_server ON records (server) WHERE server IS NOT NULL;
CREATE INDEX by_caller ON records (caller) WHERE caller IS NOT NULL;
CREATE INDEX by_status ON records (status) WHERE status != 'ok';
CREATE INDEX by_type ON records (type);
"""
"""Each index ends with the row's `seq`, so it gives its rows in order, and a page costs what it shows."""
VALUES = ", ".join(f"value ->> {n}" for n in range(len(COLUMNS) - 1))
INSERT = (
    f"INSERT OR IGNORE INTO records SELECT {VALUES}, value -> {len(COLUMNS) - 1} FROM json_each(?)"  # noqa: S608, of our own making
)
LARGEST = 2**63 - 1
"""Of SQLite's numbers."""
CHUNK = 2000
"""Records that are deleted at once: others may write between two."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is kept; each is a limit of its own."""

    days: float
    records: int
    megabytes: float


class NotOurs(sqlite3.DatabaseError):
    """A database that this version can't go on with; the message says what to do."""


class Store:
    """The database, made if it isn't there. Raises `sqlite3.Error` and `OSError`; used by one thread at a time."""

    def __init__(self, directory: Path) -> None:
        private_directory(directory)
        self.path = directory / FILE
        private_file(self.path)  # SQLite's files beside it take its mode
        self._database = sqlite3.connect(
            self.path, timeout=10, check_same_thread=False, isolation_level=None
        )
        try:
            self._open()
        except BaseException:
            self._database.close()
            raise

    def _open(self) -> None:
        run = self._database.execute
        found = run("PRAGMA user_version").fetchone()[0]
        if found not in (0, VERSION):
            raise NotOurs(
                f"{self.path} was made by another version of mcpproxy ({found}, not {VERSION}): move it away"
            )
        run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run(f"PRAGMA journal_size_limit = {16 * 2**20}")
        if found == 0:
            run("BEGIN IMMEDIATE")
            if run("PRAGMA user_version").fetchone()[0] == 0:  # nobody was quicker
                for statement in SCHEMA.split(";")[:-1]:
                    run(statement)
                run(f"PRAGMA user_version = {VERSION}")
            run("COMMIT")

    def close(self) -> None:
        self._database.close()

    def last(self) -> int:
        """The highest number that was given, 0 for none."""
        return int(
            self._database.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()[0]
        )

    def count(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM records").fetchone()[0])

    def insert(self, pieces: Iterable[bytes]) -> None:
        """Add lines as `writer.line` writes them; those that are there already stay as they are.

        A line that is none of ours, perhaps half of one, costs itself alone.
        """
        for piece in pieces:
            if not self._takes(piece):
                lines = piece.splitlines()
                broken = len(lines) - sum(map(self._takes, lines))
                logger.warning("%d broken record(s) are left out of the journal", broken)

    def _takes(self, lines: bytes) -> bool:
        """Add these, all or none; whether they are records, by SQLite's own reading."""
        try:
            self._database.execute(INSERT, (f"[{lines.rstrip(LINE_END).decode()}]",))
        except (UnicodeDecodeError, sqlite3.IntegrityError):
            return False
        except sqlite3.OperationalError as error:
            if "JSON" not in str(error):
                raise
            return False
        return True

    # what is kept

    def used(self) -> int:
        """Bytes in use; the file may be larger for a while."""
        pages, free, size = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def trim(self, keep: Retention, now_ms: int) -> bool:
        """Delete some of the oldest, if there is too much; whether that was all there was to do."""
        run = self._database.execute
        before = int(max(0, now_ms - keep.days * 86_400_000)) << SHIFT
        found = run(
            "SELECT seq FROM records ORDER BY seq DESC LIMIT 1 OFFSET ?",
            (min(keep.records, LARGEST) - 1,),
        ).fetchone()
        if found is not None:
            before = max(before, found[0])
        deleted = self._delete(before)
        if not deleted and self.used() > keep.megabytes * 2**20:
            deleted = self._delete(LARGEST)
        if deleted:
            # `execute` would take one step only.
            self._database.executescript("PRAGMA incremental_vacuum")
        return not deleted

    def _delete(self, before: int) -> int:
        """The oldest `CHUNK` records below a number; how many there were."""
        return self._database.execute(
            "DELETE FROM records WHERE seq IN (SELECT seq FROM records WHERE seq < ? ORDER BY seq LIMIT ?)",
            (before, CHUNK),
        ).rowcount
