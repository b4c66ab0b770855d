"""Writing the journal: a record is safe when `record` returns, and in the database soon after.

`record` appends a line to a file (`pending.py`), which takes a few microseconds and outlives the
process. One task moves the lines into the database in a thread, and has old ones deleted. So nobody
waits for the database, and whoever got a reply finds its record, though the daemon be killed.

When a line or a batch can't be written (a full disk, a broken file) the journal is off, loudly, until
an attempt a minute later succeeds; what was not recorded meanwhile is counted. No call fails for it.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from mcpproxy import logs
from mcpproxy.envelopes import to_json
from mcpproxy.journal.pending import Pending, left_behind, read_lines
from mcpproxy.journal.records import LINE_END, Numbers, Record, name, text
from mcpproxy.journal.store import FILE, Retention, Store
from mcpproxy.meter import Meter
from mcpproxy.tasks import open_tasks

if TYPE_CHECKING:
    from mcpproxy.settings import Loaded, Settings

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.25
"""How long records gather before they go into the database together, unless a reader is in a hurry."""
RETRY_SECONDS = 60.0
NOW_AND_THEN = 3600.0
"""Between looks at how much is kept; `MUCH_BYTES` of new records bring the next one about, too."""
MUCH_BYTES = 16 * 2**20
MUCH_WAITING = 2**20
"""Bytes that a process leaves behind at most when it ran a single script."""

Listener = Callable[[Record], None]
FAILURES = (OSError, sqlite3.Error)


class Journal:
    """See the module. Made by `open_journal`; used on the event loop alone."""

    def __init__(self, directory: Path, keep: Retention, most: int, *, on: bool) -> None:
        self.directory = directory
        self.keep = keep
        self.most = most
        """Characters of one text that are kept."""
        self.on = on
        """Whether the settings want it."""
        self.meter = Meter()
        """Counts what happens, on or off."""
        self.error: str | None = None
        """Why nothing is written although it should be."""
        self.lost = 0
        """Records that were not written for that reason."""
        self._pending: Pending | None = None
        self._store: Store | None = None
        self._numbers = Numbers(0)
        self._listeners: dict[object, Listener] = {}
        self._written = self._stored = 0
        self._bytes = 0
        self._some = anyio.Event()
        self._hurry = anyio.Event()
        self._moved = anyio.Event()

    # recording

    def number(self) -> int:
        """A number for what will be recorded when it has ended."""
        return self._numbers.next(time.time_ns() // 1_000_000)

    def record(
        self,
        type: str,
        status: str,
        *,
        id: int | None = None,
        parent: int | None = None,
        code: str | None = None,
        server: str | None = None,
        tool: str | None = None,
        caller: str | None = None,
        request_id: str | None = None,
        ms: int | None = None,
        seen: int | None = None,
        back: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Write one record; see `Record`. Never fails and never waits.

        Caller, client and request are those of the context unless given.
        """
        if not self.on:
            return
        now = time.time_ns() // 1_000_000
        seq = self._numbers.next(now)
        row: list[Any] = [
            seq,
            seq if id is None else id,
            parent,
            now,
            type,
            status,
            code,
            name(server),
            name(tool),
            name(caller or logs.caller.get()),
            name(logs.client.get()),
            request_id or logs.known_request(),
            ms,
            seen,
            back,
            detail or {},
        ]
        if self._listeners:
            record = Record(*row)
            for listener in list(self._listeners.values()):
                listener(record)
        self._write(row)

    def refused(
        self,
        code: str,
        message: str,
        *,
        caller: str | None = None,
        request_id: str | None = None,
        **detail: Any,
    ) -> None:
        """A whole request was turned away."""
        self.meter.refused[code] += 1
        self.record(
            "refusal",
            "blocked",
            code=code,
            caller=caller,
            request_id=request_id,
            detail={"message": text(message, self.most), **detail},
        )

    def _write(self, row: list[Any]) -> None:
        if self._pending is None or self.error is not None:
            self.lost += 1
            return
        written = line(row)
        try:
            self._pending.add(written)
        except OSError as error:
            self.lost += 1
            self._fail(error)
            return
        self._written += 1
        self._bytes += len(written)
        self._some.set()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` told of each record, written or not; it must not fail. The result ends that."""
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    # moving into the database

    async def flush(self) -> None:
        """Return when everything recorded so far can be read from the database, or can't be at all."""
        wanted = self._written
        while self._stored < wanted and self.error is None:
            self._hurry.set()
            await self._moved.wait()

    async def run(self) -> None:
        """Move records, and delete old ones, for ever."""
        due = 0.0
        await self._attempt(self._begin)
        while True:
            if self.error is not None:
                await anyio.sleep(RETRY_SECONDS)
                await self._attempt(self._begin_again)
                continue
            with anyio.move_on_after(max(0.0, due - anyio.current_time())):
                await self._some.wait()
                with anyio.move_on_after(GATHER_SECONDS):
                    await self._hurry.wait()
            await self._attempt(self.move)
            if anyio.current_time() >= due or self._bytes > MUCH_BYTES:
                if await self._attempt(self._trim):
                    due, self._bytes = anyio.current_time() + NOW_AND_THEN, 0

    async def _attempt(self, act: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await act()
        except FAILURES as error:
            self._fail(error)
            return False
        finally:
            self._moved.set()
            self._moved = anyio.Event()

    def _fail(self, error: Exception) -> None:
        self.error = f"{self.directory / FILE}: {error}"
        logger.error(
            "the journal is OFF, so what happens now is not recorded: %s; next attempt in %g s",
            self.error,
            RETRY_SECONDS,
        )

    async def _begin(self) -> bool:
        """Open the database, and take in what was left over."""
        store = await anyio.to_thread.run_sync(self._open)
        self._numbers.past(await anyio.to_thread.run_sync(store.last))
        return True

    async def _begin_again(self) -> bool:
        if self._store is not None:  # its file may be another one by now
            await anyio.to_thread.run_sync(self._store.close)
            self._store = None
        await self._begin()
        lost, self.lost, self.error = self.lost, 0, None
        logger.warning("the journal is on again; %d record(s) were not written", lost)
        self.record("system", "error", code="JOURNAL_GAP", detail={"not_written": lost})
        return True

    def _open(self) -> Store:
        if self._pending is None:
            self._pending = self._slot()
        if self._store is None:
            self._store = Store(self.directory)
        self._store.insert(read_lines(self._pending.resting))
        self._pending.emptied()
        with left_behind(self.directory) as files:
            for file in files:
                self._store.insert(read_lines(file))
        return self._store

    async def move(self) -> bool:
        """Bring what waits into the database."""
        pending, store = self._pending, self._store
        assert pending is not None and store is not None
        written = self._written
        self._some, self._hurry = anyio.Event(), anyio.Event()
        file = pending.turn()
        await anyio.to_thread.run_sync(store.insert, read_lines(file))
        pending.emptied()
        self._stored = written
        return True

    async def _trim(self) -> bool:
        assert self._store is not None
        return await anyio.to_thread.run_sync(
            self._store.trim, self.keep, time.time_ns() // 1_000_000
        )

    # opening and closing

    def become(self, settings: Settings) -> None:
        """Keep as much as these settings say from now on."""
        self.keep, self.most = retention(settings), settings.activity_max_response_size

    def open(self) -> None:
        """Have a place to write. What was there before is taken in by `run`."""
        try:
            self._pending = self._slot()
        except OSError as error:
            self._fail(error)

    def _slot(self) -> Pending:
        pending = Pending(self.directory)
        self._numbers = Numbers(pending.slot)
        return pending

    def close(self) -> None:
        """Let go of the files; what waits is in the database then, or stays in the slot for the next."""
        try:
            if self._pending is not None and self.error is None:
                if self._store is not None or self._pending.size > MUCH_WAITING:
                    self._open().insert(read_lines(self._pending.turn()))
                    self._pending.emptied()
        except FAILURES as error:
            logger.error("the last records could not be moved: %s", error)
        finally:
            if self._store is not None:
                self._store.close()
            if self._pending is not None:
                # Who is late must not write to what has their numbers by then.
                pending, self._pending = self._pending, None
                pending.close()

    def status(self) -> dict[str, Any]:
        """As `mcpproxy status` shows it."""
        found: dict[str, Any] = {"on": self.on and self.error is None}
        if self.error is not None:
            found |= {"error": self.error, "not_written": self.lost}
        elif self.on:
            file = self.directory / FILE
            size = file.stat().st_size if file.exists() else 0
            found |= {"file": str(file), "megabytes": round(size / 2**20, 1)}
        return found

    def warnings(self) -> list[str]:
        """What an operator must know now."""
        if self.error is None:
            return []
        return [f"the journal is OFF, {self.lost} record(s) were not written: {self.error}"]


def line(row: list[Any]) -> bytes:
    """A record as it is on disk until it is in the database."""
    return to_json(row) + LINE_END


def retention(settings: Settings) -> Retention:
    return Retention(
        days=settings.activity_retention_days,
        records=settings.activity_max_records,
        megabytes=settings.activity_max_size_mb,
    )


def journal_of(loaded: Loaded, *, lasting: bool) -> AbstractAsyncContextManager[Journal]:
    """The journal that a configuration asks for."""
    return open_journal(
        loaded.places.journal,
        retention(loaded.settings),
        loaded.settings.activity_max_response_size,
        on=loaded.settings.activity_enabled,
        lasting=lasting,
    )


@asynccontextmanager
async def open_journal(
    directory: Path, keep: Retention, most: int, *, on: bool, lasting: bool
) -> AsyncIterator[Journal]:
    """A journal that is written as long as this block runs, and complete when it has ended.

    With `lasting` false nothing is moved into the database: a later daemon or reader does that.
    """
    journal = Journal(directory, keep, most, on=on)
    if not on:
        yield journal
        return
    journal.open()
    try:
        async with open_tasks() as tasks:
            if lasting:
                tasks.start_soon(journal.run)
            yield journal
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(journal.close)


@contextmanager
def brief_journal(loaded: Loaded) -> Iterator[Journal]:
    """A journal for a program without an event loop; the next daemon or reader moves what it leaves."""
    journal = Journal(
        loaded.places.journal,
        retention(loaded.settings),
        loaded.settings.activity_max_response_size,
        on=loaded.settings.activity_enabled,
    )
    if journal.on:
        journal.open()
    try:
        yield journal
    finally:
        journal.close()
