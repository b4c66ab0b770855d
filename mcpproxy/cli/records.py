"""What happened, as commands ask for it: of the running daemon or, without one, of its files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from mcpproxy.cli.asking import ask
from mcpproxy.cli.telling import FAILED, refuse

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from pathlib import Path

    from mcpproxy.cli.local import Running

ACTIVITY = "/api/v1/activity"
LOOK_SECONDS = 0.5
SILENCE_SECONDS = 60.0
"""The daemon says at least every 15 s that it is there."""

Json = dict[str, Any]
Query = dict[str, str | None]


def query_of(chosen: Query) -> Query:
    """The query of a request, from the options of a command."""
    renamed = {"since": "from", "until": "to"}
    return {
        renamed.get(name, name): zoned(value) if name in renamed else value
        for name, value in chosen.items()
    }


def zoned(text: str | None) -> str | None:
    """A time without a zone as one of the clock on the wall, which the times that are shown are of."""
    try:
        moment = datetime.fromisoformat(text or "")
        return text if moment.tzinfo is not None else moment.astimezone().isoformat()
    except (ValueError, OverflowError):
        return text  # how long ago, or no time at all, which is said where it is read


def encoded(query: Query) -> str:
    return urlencode({key: value for key, value in query.items() if value is not None})


# ── those that are there ────────────────────────────────────────────────────────────────────────


def listing(config: str | None, query: Query) -> Any:
    """A page of records, and where the next one begins. Leaves with 2 on a refusal."""

    def of_files(queries: Any, directory: Path) -> Any:
        asked = {**query, "limit": int(query.get("limit") or 50)}
        return queries.listing(directory, asked, now_ms())

    return look(config, f"?{encoded(query)}", of_files)


def summary(config: str | None, query: Query) -> Any:
    """How many records there were in a time, and how they went. Leaves with 2 on a refusal."""

    def of_files(queries: Any, directory: Path) -> Any:
        return queries.summary(directory, query, now_ms())

    return look(config, f"/summary?{encoded(query)}", of_files)


def one(config: str | None, id: str) -> Any:
    """A record with its details. Leaves with 2 on a refusal."""

    def of_files(queries: Any, directory: Path) -> Any:
        found = queries.one(directory, id)
        if found is None:
            refuse(f"there is no record {id}; mcpproxy activity list shows those there are")
        return found

    return look(config, f"/{quote(id, safe='')}", of_files)


def look(config: str | None, path: str, of_files: Callable[[Any, Path], Any]) -> Any:
    def without_daemon() -> Any:
        with in_files(config) as (queries, directory):
            return of_files(queries, directory)

    return ask(config, "GET", f"{ACTIVITY}{path}", without_daemon)


def export(config: str | None, query: Query) -> Iterator[str]:
    """All records that fit, as text, piece by piece. Leaves with 1 where the end doesn't come."""
    from mcpproxy.cli import local

    daemon = local.find(config)
    if daemon is None:
        with in_files(config) as (queries, directory):
            yield from queries.export(directory, query, now_ms())
        return
    try:
        yield from lines_of(daemon, f"{ACTIVITY}/export?{encoded(query)}")
    except local.NoAnswer as error:
        refuse(f"{error}; what was written is not all", FAILED)


# ── those that come ─────────────────────────────────────────────────────────────────────────────


def coming(config: str | None) -> Iterator[Json]:
    """Records from now on: as the daemon tells of them, else as they appear in the files."""
    from mcpproxy.cli import local

    last: str | None = None
    while True:
        daemon = local.find(config)
        if daemon is None:
            last = yield from appearing(config, last)
        else:
            last = yield from told(daemon, last)
        time.sleep(LOOK_SECONDS)


def told(daemon: Running, last: str | None) -> Generator[Json, None, str | None]:
    """Records as events of the daemon, until it hangs up; gives the place of the last."""
    from mcpproxy.cli.local import NoAnswer

    path = f"/events?{encoded({'after': last})}"
    try:
        for line in lines_of(daemon, path, timeout=SILENCE_SECONDS):
            if line.startswith("data: "):
                record = json.loads(line.removeprefix("data: "))
                if "seq" in record:
                    last = record["seq"]
                    yield record
    except NoAnswer:
        pass  # it is gone; whoever calls looks for another
    return last


def appearing(config: str | None, last: str | None) -> Generator[Json, None, str | None]:
    """Records that stand-alone runs leave, one look at the files; gives the place of the last."""
    with in_files(config) as (queries, directory):
        if last is None:
            newest = queries.listing(directory, {"limit": 1}, 0)["records"]
            return newest[0]["seq"] if newest else f"{0:016x}"
        found = queries.listing(directory, {"cursor": last, "order": "oldest"}, 0)["records"]
        yield from found
        return found[-1]["seq"] if found else last


# ── daemon or files ─────────────────────────────────────────────────────────────────────────────


@contextmanager
def in_files(config: str | None) -> Iterator[tuple[Any, Path]]:
    """What can be asked of the journal's files, and where they are. Leaves with 2 where they can't be read."""
    import sqlite3

    from mcpproxy.cli import local
    from mcpproxy.journal import queries
    from mcpproxy.journal.reading import take_in

    directory = local.places_of(config).journal
    try:
        try:
            take_in(directory)
        except OSError as error:
            refuse(unreadable(directory, error))
        yield queries, directory
    except ValueError as error:
        refuse(str(error))
    except sqlite3.Error as error:
        refuse(unreadable(directory, error))


def unreadable(directory: Path, error: Exception) -> str:
    return f"the journal in {directory} can't be read: {error}; see mcpproxy doctor"


def lines_of(daemon: Running, path: str, timeout: float = 60.0) -> Iterator[str]:
    """Lines of an answer, as they come. Leaves with 2 on a refusal.

    Raises `NoAnswer` when the daemon hangs up before the end.
    """
    from http.client import HTTPException

    from mcpproxy.cli.local import NoAnswer

    with closing(daemon.connect(timeout)) as connection:
        try:
            connection.request("GET", path, headers=daemon.headers)
            response: HTTPResponse = connection.getresponse()
            if response.status != 200:
                refuse(json.loads(response.read())["error"]["message"])
            while line := response.readline():
                yield line.decode()
        except (OSError, HTTPException) as error:
            why = error or type(error).__name__
            raise NoAnswer(f"the daemon hung up before the end: {why}") from error


def now_ms() -> int:
    return time.time_ns() // 1_000_000
