"""A SQLite file of this user's, made when something is first kept, and changed all or nothing.

Threads share its one connection and take turns. WAL: what is committed outlives this process; with
`synchronous = FULL` it outlives a loss of power as well, which costs the disk's time at each change.
Everything here raises `sqlite3.Error` and `OSError`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from mcpproxy.paths import ALLOW, nearly_full, private_directory, private_file, signature

BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
OUTSIDE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)
"""What has to do with a disk or with rights, and not with what is in the file."""
BUSY_MS = 5000
"""How long is waited for another process that changes it."""
TICK_NS = 20_000_000
"""Nanoseconds in which two changes may leave a file with the same time; most systems note a few milliseconds."""


class Database:
    """See the module. `schema` is run at each opening, so it makes what isn't there."""

    def __init__(
        self, path: Path, schema: str, *, synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    ) -> None:
        self.path = path
        self._schema = schema
        self._synchronous = synchronous
        self._log = f"{path}-wal"
        self._turn = threading.Lock()
        self._made: sqlite3.Connection | None = None

    @property
    def there(self) -> bool:
        """Whether there is anything to read."""
        return self._made is not None or self.path.exists()

    @property
    def signature(self) -> object:
        """Another one after each change, whoever made it; at times without one."""
        found = signature(self._log)  # as long as there is one, all changes are written to it
        if isinstance(found, int):
            found = signature(self.path)
        match found:
            case (*_, int(at)) if 0 <= time.time_ns() - at < TICK_NS:
                return object()  # the next change may look the same: the log is written over
        return found

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone; for a single statement, too, that changes something."""
        with self._turn:
            if self._made is None:
                self._made = self._open()
            yield self._made

    @contextmanager
    def still(self) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """The connection, with all of it as it is at one moment; and whether nobody is changing it then.

        A change is in the file, and in its signature, some time before it can be read: until the disk has it.
        """
        with self.reading() as connection:
            connection.execute("PRAGMA busy_timeout = 0")  # whoever changes it isn't waited for
            try:
                connection.execute("BEGIN IMMEDIATE")
                alone = True
            except sqlite3.OperationalError:
                connection.execute("BEGIN")
                alone = False
            finally:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            try:
                yield connection, alone
            finally:
                connection.rollback()

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """The same, in a transaction that an error in the block takes back."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:  # ends it, one way or the other
                yield connection

    def close(self) -> None:
        with self._turn:
            if self._made is not None:
                self._made.close()
                self._made = None

    def _open(self) -> sqlite3.Connection:
        private_directory(self.path.parent)
        private_file(self.path)  # SQLite's files beside it take its mode
        made = sqlite3.connect(
            self.path, timeout=BUSY_MS / 1000, check_same_thread=False, isolation_level=None
        )
        try:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute(f"PRAGMA synchronous = {self._synchronous}")
            made.executescript(self._schema)
        except BaseException:
            made.close()
            raise
        return made


def mend(error: Exception, path: Path, damaged: str) -> str:
    """What mends a database that can't be used; `damaged` where it may be what is in it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in BUSY:
        return "another process is at work on it: try again"
    if isinstance(error, OSError) or code in OUTSIDE:
        return "make room on its disk" if nearly_full(path) else ALLOW
    return damaged
