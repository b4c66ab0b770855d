"""What operators decided about servers and tools, kept in a file of the state directory.

Memory is what counts while we run, so that a decision costs the callers nothing; each change is
written to SQLite right after it, in a thread. Of a tool the whole definition is kept, so that a later
one can be compared to it. `approvals.py` decides; this remembers, and says who and when.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from mcpproxy import approvals
from mcpproxy.approvals import ServerRecord, Sorted, Standing, ToolRecord
from mcpproxy.catalog import Server, Tool
from mcpproxy.errors import Refused, SettingsError
from mcpproxy.paths import private_directory, private_file

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings, Settings

logger = logging.getLogger(__name__)

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
"""
SERVERS = "SELECT name, standing, identity, listed, instructions, at, by FROM servers"
TOOLS = "SELECT server, name, blocked, fingerprint FROM tools"
PUT_SERVER = "INSERT OR REPLACE INTO servers VALUES (?, ?, ?, ?, ?, ?, ?)"
PUT_TOOL = "INSERT OR REPLACE INTO tools VALUES (?, ?, ?, ?, ?, ?, ?)"
# What was learnt, not decided, doesn't undo what somebody decided in another process meanwhile.
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
RETRY_SECONDS = 30.0
MOST_TOOLS = 5000
"""Of one server; beyond it those are forgotten that are neither listed nor blocked."""
DROP_TOOL = "DELETE FROM tools WHERE server = ? AND name = ?"
DETAILS = "SELECT name, blocked, definition, at, by FROM tools WHERE server = ?"


@dataclass(frozen=True, slots=True)
class Decided:
    """What is on record of one tool, in full."""

    blocked: bool
    definition: Mapping[str, Any]
    at: float
    by: str


class Baseline:
    """See the module. Not safe to use from other threads, except where it says so."""

    def __init__(self, path: Path) -> None:
        """Raises `SettingsError` for a file that can't be read: to go on would be to trust everything."""
        self._path = path
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._records: dict[str, ServerRecord] = {}
        self._stamps: dict[str, tuple[float, str]] = {}
        self._servers: dict[str, _Line] = {}
        self._tools: dict[tuple[str, str], _Row | None] = {}
        self._views: dict[str, _View] = {}
        self._inspected: dict[str, tuple[str, Server]] = {}
        """What an operator was shown, and the identity of the entry that it came from."""
        self._changed = anyio.Event()
        self._enabled = True
        if path.exists():
            try:
                self._load()
            except (sqlite3.Error, OSError, ValueError, TypeError) as error:
                raise SettingsError(
                    f"{path} can't be read: {error}. It holds what was approved; put back a copy, or move it "
                    "away to trust what the configuration and its servers say now"
                ) from error
        self._first = not self._records

    # decisions

    def become(self, settings: Settings) -> None:
        """Go by these settings, and put what they newly let in, or keep out, on record.

        The first settings are those of the start, all others come while we run.
        """
        self._enabled = settings.quarantine_enabled
        for entry in settings.servers:
            self._note(entry, self.standing(entry))
        self._first = False

    def standing(self, entry: ServerSettings) -> Standing:
        return approvals.standing(
            entry, self._records.get(entry.name), first=self._first, enabled=self._enabled
        )

    def _note(self, entry: ServerSettings, now: Standing) -> None:
        known, of = self._records.get(entry.name), approvals.identity(entry)
        if now == "approved" and (known is None or (known.standing, known.identity) != (now, of)):
            by = "the first start" if self._first else "the configuration"
            self._put(entry.name, self._decided(entry.name, now, of), by)
        elif now == "waiting" and not entry.quarantined:
            if known is None:
                self._put(entry.name, ServerRecord(now, of), "the configuration", learnt=True)
            if known is None or known.standing == "approved":
                why = approvals.why_out(entry.name, now)
                logger.warning("server '%s' is in quarantine: %s", entry.name, why)

    def judge(self, entry: ServerSettings, seen: Server) -> Server:
        """The server as callers get to see it; what its first list brings is put on record."""
        record = self._records.get(entry.name)
        if record is None or seen.state in ("quarantined", "blocked", "disabled"):
            return seen
        trusting = not self._enabled or entry.auto_approve_tool_changes
        view = self._views.get(entry.name)
        if view is None or not view.holds(seen, record, trusting):
            found = approvals.sort_out(seen, record, trusting=trusting)
            record = self._learn(entry.name, seen, record, found)
            _tell(entry.name, view.sorted if view else None, found)
            view = _View(seen, record, trusting, found)
            self._views[entry.name] = view
        found = view.sorted
        if not found.held and found.held_instructions is None:
            return seen
        return replace(
            seen,
            tools=found.tools,
            instructions=found.instructions,
            held=found.held,
            held_instructions=found.held_instructions,
        )

    def _learn(self, name: str, seen: Server, record: ServerRecord, found: Sorted) -> ServerRecord:
        first = not record.listed and bool(seen.tools)
        by = "its first list" if not record.listed else "auto_approve_tool_changes"
        if not self._enabled:
            by = "quarantine_enabled: false"
        if found.learnt:
            record = self._put_tools(name, record, found.learnt.values(), by, learnt=True)
            if len(record.tools) > MOST_TOOLS:
                record = self._forget(name, record, seen)
        if found.learns_instructions:
            record = replace(record, instructions=found.instructions)
        if first or found.learns_instructions:
            record = replace(record, listed=record.listed or first)
            self._put(name, record, self._stamps[name][1], self._stamps[name][0], learnt=True)
        return record

    def _forget(self, name: str, record: ServerRecord, seen: Server) -> ServerRecord:
        """Leave out what a server that makes names up without end lists no more."""
        kept = {
            tool: known
            for tool, known in record.tools.items()
            if known.blocked or tool in seen.tools
        }
        self._tools |= {(name, tool): None for tool in record.tools if tool not in kept}
        return replace(record, tools=MappingProxyType(kept))

    # an operator's acts

    def approve(self, entry: ServerSettings, by: str) -> None:
        """Let a server in. What its first list brings is approved with it, unless it was approved before."""
        now = self._decided(entry.name, "approved", approvals.identity(entry))
        self._put(entry.name, now, by)

    def accept(
        self, seen: Server, tools: Iterable[Tool], instructions: str | None, by: str
    ) -> None:
        """Approve these of a server's tools as they are; what else it lists waits.

        `instructions` None leaves those as they were decided.
        """
        record = self._put_tools(seen.name, self._records[seen.name], tools, by)
        record = replace(
            record,
            # Who was shown no tools didn't approve those that come later.
            listed=record.listed or bool(seen.tools) or seen.state == "ready",
            instructions=instructions or record.instructions,
        )
        at, decided_by = self._stamps[seen.name]
        self._put(seen.name, record, decided_by, at)

    def block(self, entry: ServerSettings, by: str) -> None:
        """Keep a server out, whatever its entry becomes, until it is approved."""
        now = self._decided(entry.name, "blocked", approvals.identity(entry))
        self._put(entry.name, now, by)

    def block_tools(self, entry: ServerSettings, tools: Iterable[Tool], by: str) -> None:
        """Keep tools out, whatever they become, until they are approved by name."""
        record = self._records.get(entry.name)
        if record is None:
            record = ServerRecord("waiting", approvals.identity(entry))
            self._put(entry.name, record, by)
        self._put_tools(entry.name, record, tools, by, blocked=True)

    def show(self, entry: ServerSettings, seen: Server) -> None:
        """Remember what an operator was shown, so that no more than that is approved."""
        self._inspected[entry.name] = approvals.identity(entry), seen

    def shown(self, entry: ServerSettings) -> Server | None:
        """What an operator was shown last, while we ran.

        Raises `Refused` where that was of another command or address: it isn't what would be let in.
        """
        if (found := self._inspected.get(entry.name)) is None:
            return None
        of, seen = found
        if of != approvals.identity(entry):
            raise Refused(
                "INVALID_REQUEST",
                f"the entry of server {entry.name!r} has changed since it was inspected; "
                f"{approvals.command('inspect', entry.name)} shows what it is now",
            )
        return seen

    def record(self, server: str) -> ServerRecord | None:
        return self._records.get(server)

    def stamp(self, server: str) -> tuple[float, str] | None:
        """When and by whom its standing was decided."""
        return self._stamps.get(server)

    def _decided(self, name: str, now: Standing, of: str) -> ServerRecord:
        known = self._records.get(name)
        return replace(known, standing=now, identity=of) if known else ServerRecord(now, of)

    # the records

    def _put(
        self,
        name: str,
        record: ServerRecord,
        by: str,
        at: float | None = None,
        *,
        learnt: bool = False,
    ) -> None:
        at = time.time() if at is None else at
        self._records[name] = record
        self._stamps[name] = at, by
        before = self._servers.get(name)
        self._servers[name] = _Line(record, at, by, learnt and (before is None or before.learnt))
        self._changed.set()

    def _put_tools(
        self,
        server: str,
        record: ServerRecord,
        tools: Iterable[Tool],
        by: str,
        *,
        blocked: bool = False,
        learnt: bool = False,
    ) -> ServerRecord:
        now, made = time.time(), dict(record.tools)
        for tool in tools:
            made[tool.name] = ToolRecord(blocked, approvals.fingerprint(tool))
            self._tools[server, tool.name] = _Row(made[tool.name], tool, now, by, learnt)
        record = replace(record, tools=MappingProxyType(made))
        self._records[server] = record
        self._changed.set()
        return record

    def _load(self) -> None:
        tools: dict[str, dict[str, ToolRecord]] = {}
        database = self._open()
        for server, name, blocked, fingerprint in database.execute(TOOLS):
            known = ToolRecord(bool(blocked), fingerprint)
            tools.setdefault(json.loads(server), {})[json.loads(name)] = known
        for text, now, of, listed, says, at, by in database.execute(SERVERS):
            name = json.loads(text)
            own = MappingProxyType(tools.get(name, {}))
            self._records[name] = ServerRecord(now, of, bool(listed), json.loads(says), own)
            self._stamps[name] = at, by

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            private_directory(self._path.parent)
            private_file(self._path)
            self._database = sqlite3.connect(
                self._path, check_same_thread=False, isolation_level=None
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(SCHEMA)
        return self._database

    def details(self, server: str) -> dict[str, Decided]:
        """What is on record of a server's tools. For a thread; `flush` comes before it."""
        with self._lock:
            if self._database is None and not self._path.exists():
                return {}
            rows = self._open().execute(DETAILS, (json.dumps(server),)).fetchall()
        return {
            json.loads(name): Decided(bool(blocked), json.loads(definition), at, by)
            for name, blocked, definition, at, by in rows
        }

    # keeping

    async def keep(self) -> None:
        """Write what changes, for ever."""
        while True:
            await self._changed.wait()
            if not await self.save():
                await anyio.sleep(RETRY_SECONDS)

    async def save(self) -> bool:
        """Write what has changed, or say in the log why that can't be done."""
        try:
            await self.flush()
        except (sqlite3.Error, OSError, ValueError) as error:
            logger.error("approvals can't be written to %s: %s", self._path, error)
            return False
        return True

    async def flush(self) -> None:
        """Write what has changed. Raises `sqlite3.Error` and `OSError`; then it will be tried again."""
        self._changed = anyio.Event()
        servers, self._servers = self._servers, {}
        tools, self._tools = self._tools, {}
        if not servers and not tools:
            return
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._write, servers, tools)
        except BaseException:
            self._servers = servers | self._servers
            self._tools = tools | self._tools
            self._changed.set()
            raise

    def _write(
        self,
        servers: Mapping[str, _Line],
        tools: Mapping[tuple[str, str], _Row | None],
    ) -> None:
        with self._lock:
            database = self._open()
            database.execute("BEGIN IMMEDIATE")
            try:
                for name, line in servers.items():
                    database.execute(
                        LEARN_SERVER if line.learnt else PUT_SERVER,
                        (json.dumps(name), *line.values()),
                    )
                for key, row in tools.items():
                    names = tuple(map(json.dumps, key))
                    if row is None:
                        database.execute(DROP_TOOL, names)
                    else:
                        database.execute(
                            LEARN_TOOL if row.learnt else PUT_TOOL, (*names, *row.values())
                        )
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


@asynccontextmanager
async def open_baseline(path: Path) -> AsyncIterator[Baseline]:
    """What is on record in a file; what changed last is written at the end of the block.

    Raises `SettingsError`.
    """
    baseline = await anyio.to_thread.run_sync(Baseline, path)
    try:
        yield baseline
    finally:
        with anyio.CancelScope(shield=True):
            await baseline.save()
        baseline.close()


@dataclass(frozen=True, slots=True)
class _Line:
    """A server's record that is to be written."""

    record: ServerRecord
    at: float
    by: str
    learnt: bool
    """Whether nobody decided it: it follows from what the server lists."""

    def values(self) -> tuple[Any, ...]:
        one = self.record
        says = json.dumps(one.instructions)
        return one.standing, one.identity, one.listed, says, self.at, self.by


@dataclass(frozen=True, slots=True)
class _Row:
    """A tool's record that is to be written."""

    record: ToolRecord
    tool: Tool
    at: float
    by: str
    learnt: bool

    def values(self) -> tuple[Any, ...]:
        known = self.record
        try:
            definition = json.dumps(dict(self.tool.definition))
        except RecursionError:
            definition = "{}"
        return known.blocked, known.fingerprint, definition, self.at, self.by


@dataclass(frozen=True, slots=True)
class _View:
    """What was made of a server's list, and of what."""

    seen: Server
    record: ServerRecord
    trusting: bool
    sorted: Sorted

    def holds(self, seen: Server, record: ServerRecord, trusting: bool) -> bool:
        return (
            self.seen.tools is seen.tools
            and self.seen.instructions == seen.instructions
            and self.record is record
            and self.trusting == trusting
        )


def _tell(server: str, before: Sorted | None, now: Sorted) -> None:
    """Log which tools are held back that weren't before."""
    known = before.held if before else {}
    fresh = [name for name, held in now.held.items() if held.why != "blocked" and name not in known]
    if fresh or (now.held_instructions and not (before and before.held_instructions)):
        what = ", ".join(repr(name[:100]) for name in fresh[:10]) or "its instructions"
        more = f" and {len(fresh) - 10} more" if len(fresh) > 10 else ""
        logger.warning(
            "server '%s' says something new that waits for approval: %s%s; to see it: %s",
            server, what, more, approvals.command("inspect", server),
        )  # fmt: skip
