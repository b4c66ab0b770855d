"""The file of what was decided about servers and tools, and of each tool's whole definition.

`baseline.py` has the records in memory while we run, and writes them here behind. What was only
learnt from a server's list doesn't undo what somebody decided in another process meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcpproxy.approvals import ServerRecord, ToolRecord
from mcpproxy.catalog import Tool
from mcpproxy.database import Database
from mcpproxy.listed import Kind, Listed

Stamp = tuple[float, str]
"""When something was decided, in seconds since 1970, and by whom."""

# Names and instructions are JSON strings: what a server sends need not be valid UTF-8.
SCHEMA = """
CREATE TABLE IF NOT EXISTS servers (
    name TEXT PRIMARY KEY, standing TEXT NOT NULL, identity TEXT NOT NULL, listed INTEGER NOT NULL,
    instructions TEXT, at REAL NOT NULL, by TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tools (
    server TEXT NOT NULL, name TEXT NOT NULL, blocked INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL, at REAL NOT NULL, by TEXT NOT NULL, PRIMARY KEY (server, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS listed (
    server TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL, at REAL NOT NULL, by TEXT NOT NULL, PRIMARY KEY (server, kind, name)
) WITHOUT ROWID;
"""
SERVERS = "SELECT name, standing, identity, listed, instructions, at, by FROM servers"
TOOLS = "SELECT server, name, blocked, fingerprint FROM tools"
DETAILS = "SELECT name, blocked, definition, at, by FROM tools WHERE server = ?"
PUT_SERVER = "INSERT OR REPLACE INTO servers VALUES (?, ?, ?, ?, ?, ?, ?)"
PUT_TOOL = "INSERT OR REPLACE INTO tools VALUES (?, ?, ?, ?, ?, ?, ?)"
LEARN_SERVER = """
INSERT INTO servers VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
    listed = max(listed, excluded.listed),
    instructions = CASE WHEN excluded.listed THEN excluded.instructions ELSE instructions END
"""
LEARN_TOOL = """
INSERT INTO tools VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (server, name) DO UPDATE SET
    fingerprint = excluded.fingerprint, definition = excluded.definition, at = excluded.at, by = excluded.by
WHERE NOT blocked
"""
DROP_TOOL = "DELETE FROM tools WHERE server = ? AND name = ?"
# The name `null` says that the kind has been decided about, though there may have been none of it.
LISTED = "SELECT server, kind, name, fingerprint FROM listed"
PUT_LISTED = "INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?, ?, ?, ?)"
DROP_LISTED = "DELETE FROM listed WHERE server = ? AND kind = ? AND name = ?"
LISTED_DETAILS = (
    "SELECT kind, name, definition, at, by FROM listed WHERE server = ? AND name != 'null'"
)


@dataclass(frozen=True, slots=True)
class Decided:
    """What is on record of one tool, in full."""

    blocked: bool
    definition: Mapping[str, Any]
    at: float
    by: str


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server's record that is to be written."""

    record: ServerRecord
    stamp: Stamp
    learnt: bool
    """Whether nobody decided it: it follows from what the server lists."""

    def put(self, database: sqlite3.Connection, name: str) -> None:
        one = self.record
        says = json.dumps(one.instructions)
        database.execute(
            LEARN_SERVER if self.learnt else PUT_SERVER,
            (json.dumps(name), one.standing, one.identity, one.listed, says, *self.stamp),
        )


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool's record that is to be written."""

    record: ToolRecord
    tool: Tool
    stamp: Stamp
    learnt: bool

    def put(self, database: sqlite3.Connection, server: str, name: str) -> None:
        try:
            definition = json.dumps(dict(self.tool.definition))
        except RecursionError:
            definition = "{}"
        known = self.record
        database.execute(
            LEARN_TOOL if self.learnt else PUT_TOOL,
            (json.dumps(server), json.dumps(name), known.blocked, known.fingerprint, definition, *self.stamp),
        )  # fmt: skip


ListedKey = tuple[str, Kind, str | None]
"""Server, kind and name; no name is for the kind itself."""


@dataclass(frozen=True, slots=True)
class ListedRow:
    """What was approved of a prompt or a resource, or None for the kind itself, that is to be written."""

    listed: Listed | None
    stamp: Stamp

    def put(self, database: sqlite3.Connection, key: ListedKey) -> None:
        server, kind, name = key
        one = self.listed
        definition = "{}" if one is None else json.dumps(dict(one.definition))
        fingerprint = "" if one is None else one.fingerprint
        database.execute(
            PUT_LISTED,
            (json.dumps(server), kind, json.dumps(name), fingerprint, definition, *self.stamp),
        )


@dataclass(frozen=True, slots=True)
class Waits:
    """What is still to be written; what is None goes."""

    servers: Mapping[str, ServerRow] = field(default_factory=dict)
    tools: Mapping[tuple[str, str], ToolRow | None] = field(default_factory=dict)
    listed: Mapping[ListedKey, ListedRow | None] = field(default_factory=dict)

    def put(self, database: sqlite3.Connection) -> None:
        for name, server in self.servers.items():
            server.put(database, name)
        for key, tool in self.tools.items():
            if tool is None:
                database.execute(DROP_TOOL, tuple(map(json.dumps, key)))
            else:
                tool.put(database, *key)
        for (of, kind, known_as), one in self.listed.items():
            if one is None:
                database.execute(DROP_LISTED, (json.dumps(of), kind, json.dumps(known_as)))
            else:
                one.put(database, (of, kind, known_as))


@dataclass(frozen=True, slots=True)
class Known:
    """All that is on record."""

    servers: dict[str, tuple[ServerRecord, Stamp]]
    """By server: its record, and when and by whom its standing was decided."""
    listed: dict[tuple[str, Kind], Mapping[str, str]]
    """Approved fingerprints of prompts and resources, by name."""


def _records(database: sqlite3.Connection) -> Known:
    tools: dict[str, dict[str, ToolRecord]] = {}
    for server, name, blocked, fingerprint in database.execute(TOOLS):
        known = ToolRecord(bool(blocked), fingerprint)
        tools.setdefault(json.loads(server), {})[json.loads(name)] = known
    found: dict[str, tuple[ServerRecord, Stamp]] = {}
    for text, now, of, listed, says, at, by in database.execute(SERVERS):
        name = json.loads(text)
        own = MappingProxyType(tools.get(name, {}))
        found[name] = ServerRecord(now, of, bool(listed), json.loads(says), own), (at, by)
    others: dict[tuple[str, Kind], dict[str, str]] = {}
    for server, kind, name, fingerprint in database.execute(LISTED):
        known_of = others.setdefault((json.loads(server), kind), {})
        if (spelled := json.loads(name)) is not None:
            known_of[spelled] = fingerprint
    return Known(found, {**others})


class Decisions:
    """See the module. Safe to use from any thread. Raises `sqlite3.Error`, `OSError` and `ValueError`."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, SCHEMA, synchronous="FULL")
        self._seen: object = None
        self._version: int | None = None

    def touched(self) -> bool:
        """Whether somebody, perhaps ourselves, has written since `news` was told last. Takes microseconds."""
        return self._database.signature != self._seen

    def news(self) -> Known | None:
        """All that is on record; None if no other process has written since this was asked last."""
        seen = self._database.signature
        if not self._database.there:
            self._seen = seen
            return None
        with self._database.still() as (database, alone):
            # What is being changed can't be read yet, though the signature may have it: look again.
            seen = self._database.signature if alone else None
            # Source: SQLite, PRAGMA data_version: another value once another connection has committed.
            version = database.execute("PRAGMA data_version").fetchone()[0]
            found = None if version == self._version else _records(database)
        self._seen, self._version = seen, version
        return found

    def forget(self) -> None:
        """Have all of it be news."""
        self._seen = self._version = None

    def read(self) -> Known:
        """All that is on record: of each server with its tools, and of prompts and resources."""
        self.forget()
        return self.news() or Known({}, {})

    def write(self, waits: Waits) -> None:
        """Put these in, all or none; what is None goes."""
        with self._database.changing() as database:
            waits.put(database)

    def with_those(self, waits: Waits) -> Known:
        """All that is on record, as it will be when these have been written."""
        with closing(sqlite3.connect(":memory:")) as copy:
            with self._database.reading() as database:
                database.backup(copy)
            waits.put(copy)
            return _records(copy)

    def details(self, server: str) -> dict[str, Decided]:
        """What is on record of a server's tools, in full."""
        if not self._database.there:
            return {}
        with self._database.reading() as database:
            rows = database.execute(DETAILS, (json.dumps(server),)).fetchall()
        return {
            json.loads(name): Decided(bool(blocked), json.loads(definition), at, by)
            for name, blocked, definition, at, by in rows
        }

    def listed_details(self, server: str) -> dict[tuple[Kind, str], Decided]:
        """What is on record of a server's prompts and resources, in full."""
        if not self._database.there:
            return {}
        with self._database.reading() as database:
            rows = database.execute(LISTED_DETAILS, (json.dumps(server),)).fetchall()
        return {
            (kind, json.loads(name)): Decided(False, json.loads(definition), at, by)
            for kind, name, definition, at, by in rows
        }

    def close(self) -> None:
        self._database.close()
