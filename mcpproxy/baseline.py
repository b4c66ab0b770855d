"""What operators decided about servers and tools, kept in a file of the state directory.

Memory is what counts while we run, so that a decision costs the callers nothing; each change is
written right after it, in a thread. `approvals.py` decides; this remembers, and says who and when;
`decisions.py` is the file.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcpproxy import approvals
from mcpproxy.approvals import ServerRecord, Sorted, Sorting, Standing, ToolRecord
from mcpproxy.catalog import Server, Tool
from mcpproxy.database import mend
from mcpproxy.decisions import Decided, Decisions, Known, ServerRow, Stamp, ToolRow, Waits
from mcpproxy.errors import Refused, SettingsError
from mcpproxy.listed import Kind, Listed
from mcpproxy.listed import Sorted as Others
from mcpproxy.listedbaseline import ListedBaseline

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings, Settings

logger = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
FAILURES = (sqlite3.Error, OSError, ValueError)
UNREADABLE = (*FAILURES, TypeError)  # JSON, but not of the kind that we write
MOST_TOOLS = 5000
"""Of one server; beyond it those are forgotten that are neither listed nor blocked."""


class Baseline:
    """See the module. Not safe to use from other threads, except where it says so."""

    def __init__(self, path: Path) -> None:
        """Raises `SettingsError` for a file that can't be read: to go on would be to trust everything."""
        self.path = path
        self._file = Decisions(path)
        try:
            known = self._file.read()
        except UNREADABLE as error:
            self._file.close()
            what = (
                "it holds what was approved, so put back a copy, or move it away to trust what the "
                "configuration and its servers say now"
            )
            raise SettingsError(
                f"{path} can't be read: {error}; {mend(error, path, what)}"
            ) from error
        self._changed = anyio.Event()
        self.listed = ListedBaseline(known.listed, lambda: self._changed.set())
        self._know(known)
        self._servers: dict[str, ServerRow] = {}
        self._tools: dict[tuple[str, str], ToolRow | None] = {}
        """What is still to be written, of servers and of tools."""
        self._views: dict[str, Sorting] = {}
        self._inspected: dict[str, tuple[str, Server]] = {}
        """What an operator was shown, and the identity of the entry that it came from."""
        self._turn = anyio.Lock()
        self._unwritable = False
        self._reading = False
        """Whether what others decided is being taken in."""
        self._unread = ""
        """Why the last look at what others decided failed; the log has it once."""
        self._enabled = True
        self._first = not self._records

    def _know(self, known: Known) -> None:
        self._records = {name: record for name, (record, _) in known.servers.items()}
        self._stamps = {name: stamp for name, (_, stamp) in known.servers.items()}
        self.listed.records = known.listed

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
        trusting = self._trusting(entry)
        view = self._views.get(entry.name)
        if view is None or not view.holds(seen, record, trusting):
            found = approvals.sort_out(seen, record, trusting=trusting)
            record = self._learn(entry.name, seen, record, found)
            _tell(entry.name, view.sorted if view else None, found)
            view = Sorting(seen, record, trusting, found)
            self._views[entry.name] = view
        found, listed = view.sorted, self.listed.waiting(entry.name)
        if not found.held and found.held_instructions is None and not listed:
            return seen
        return replace(
            seen,
            held_besides=listed,
            tools=found.tools,
            instructions=found.instructions,
            held=found.held,
            held_instructions=found.held_instructions,
        )

    def sort_listed(self, entry: ServerSettings, kind: Kind, found: Mapping[str, Listed]) -> Others:
        """What callers get to see of a server's list of prompts or resources."""
        return self.listed.sort(entry.name, kind, found, trusting=self._trusting(entry))

    def _trusting(self, entry: ServerSettings) -> bool:
        return not self._enabled or bool(entry.auto_approve_tool_changes)

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
            self._put(name, record, self._stamps[name], learnt=True)
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
        self._put(seen.name, record, self._stamps[seen.name])

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

    def stamp(self, server: str) -> Stamp | None:
        """When and by whom its standing was decided."""
        return self._stamps.get(server)

    def _decided(self, name: str, now: Standing, of: str) -> ServerRecord:
        known = self._records.get(name)
        return replace(known, standing=now, identity=of) if known else ServerRecord(now, of)

    # the records

    def _put(
        self, name: str, record: ServerRecord, by: str | Stamp, *, learnt: bool = False
    ) -> None:
        """Note a server's record, decided by somebody now, or as its stamp says."""
        stamp = (time.time(), by) if isinstance(by, str) else by
        self._records[name] = record
        self._stamps[name] = stamp
        before = self._servers.get(name)
        self._servers[name] = ServerRow(record, stamp, learnt and (before is None or before.learnt))
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
        stamp, made = (time.time(), by), dict(record.tools)
        for tool in tools:
            made[tool.name] = ToolRecord(blocked, approvals.fingerprint(tool))
            self._tools[server, tool.name] = ToolRow(made[tool.name], tool, stamp, learnt)
        record = replace(record, tools=MappingProxyType(made))
        self._records[server] = record
        self._changed.set()
        return record

    def details(self, server: str) -> dict[str, Decided]:
        """What is on record of a server's tools, in full. For a thread; `flush` comes before it.

        Raises `sqlite3.Error` and `OSError`.
        """
        return self._file.details(server)

    def listed_details(self, server: str) -> dict[tuple[Kind, str], Decided]:
        """The same of its prompts and resources."""
        return self._file.listed_details(server)

    # keeping

    async def keep(self) -> None:
        """Write what changes, for ever."""
        while True:
            await self._changed.wait()
            if not await self.save():
                await anyio.sleep(RETRY_SECONDS)

    async def save(self) -> bool:
        """Write what has changed, or say in the log why that can't be done."""
        async with self._turn:
            return await self._save()

    async def _save(self) -> bool:
        try:
            await self._write()
        except FAILURES as error:
            logger.error("approvals can't be written to %s: %s", self.path, error)
            return False
        return True

    async def flush(self) -> None:
        """Write what has changed. Raises `sqlite3.Error` and `OSError`; then it will be tried again."""
        async with self._turn:
            await self._write()

    async def _write(self) -> None:
        self._changed = anyio.Event()
        waits = self._waits()
        self._servers, self._tools, self.listed.unwritten = {}, {}, {}
        if waits == Waits():
            return
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._file.write, waits)
        except BaseException:
            self._servers = {**waits.servers, **self._servers}
            self._tools = {**waits.tools, **self._tools}
            self.listed.unwritten = {**waits.listed, **self.listed.unwritten}
            self._changed.set()
            self._unwritable = True
            raise
        self._unwritable = False

    def _waits(self) -> Waits:
        """What is still to be written."""
        return Waits({**self._servers}, {**self._tools}, {**self.listed.unwritten})

    @property
    def touched(self) -> bool:
        """Whether somebody, perhaps ourselves, has written to the record since it was taken in. Takes microseconds."""
        return self._reading or self._file.touched()

    async def refresh(self) -> bool:
        """Take in what another process has put on record meanwhile; whether there was anything."""
        if not self.touched:
            return False
        async with self._turn:
            if not self._unwritable:  # else `keep` tries again in a while
                await self._save()
            self._reading = True
            try:
                return await self._take_in()
            except BaseException as error:
                self._file.forget()  # the next look tries again
                if not isinstance(error, UNREADABLE):
                    raise
                if self._unread != str(error):
                    logger.error("what others approved can't be read from %s: %s", self.path, error)
                self._unread = str(error)
                return False
            finally:
                self._reading = False

    async def _take_in(self) -> bool:
        known = await anyio.to_thread.run_sync(self._file.news)
        while known is not None and (waits := self._waits()) != Waits():
            # Not written: a full disk must not keep what somebody blocked from counting.
            known = await anyio.to_thread.run_sync(self._file.with_those, waits)
            if waits == self._waits():  # else something was learnt in between
                break
        self._unread = ""
        before = self._records, self.listed.records
        if known is not None:
            self._know(known)
        return (self._records, self.listed.records) != before

    def close(self) -> None:
        self._file.close()


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


def _tell(server: str, before: Sorted | None, now: Sorted) -> None:
    """Log which tools are held back that weren't before."""
    known = before.held if before else {}
    fresh = [name for name, held in now.held.items() if held.waits and name not in known]
    if fresh or (now.held_instructions and not (before and before.held_instructions)):
        what = ", ".join(repr(name[:100]) for name in fresh[:10]) or "its instructions"
        more = f" and {len(fresh) - 10} more" if len(fresh) > 10 else ""
        logger.warning(
            "server '%s' has something new that waits for approval: %s%s; to see it: %s",
            server, what, more, approvals.command("inspect", server),
        )  # fmt: skip
