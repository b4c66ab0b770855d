"""Reading the journal: pages, one record, sums. Synchronous, for a thread or the command line.

A page begins where the one before it ended (its `next`), so that each record is on exactly one page
though others are written meanwhile. The narrowest condition picks an index, whose rows come in order;
the others are tested on at most `WINDOW` rows at a time. So a page takes the same time whatever is
asked, and may be short or even empty although there is more: go on while there is a `next`.
"""

# ruff: noqa: S608, names of columns and indexes are our own; what a reader gives is always a parameter

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from mcpproxy.journal.pending import left_behind, read_lines
from mcpproxy.journal.records import ABOUT, COLUMNS, SHIFT, about, moment, number, spelled
from mcpproxy.journal.store import FILE, VERSION, Store

Json = dict[str, Any]

LIMIT, MOST = 50, 1000
"""Records of one page: unless asked, and at most."""
WINDOW = 10_000

DRIVERS = {
    "parent": "by_parent",
    "request_id": "by_request",
    "tool": "by_tool",
    "server": "by_server",
    "caller": "by_caller",
    "status": "by_status",
    "type": "by_type",
}
"""Conditions, the narrowest first, and the index that serves each."""
SHOWN = COLUMNS[:-1]
GLANCE_AT = (
    "script", "description", "source", "message", "state", "error", "changed", "counts", "change",
    "name", "tools",
)  # fmt: skip
GLANCE = "json_object({})".format(
    ", ".join(f"'{key}', substr(detail ->> '{key}', 1, {ABOUT})" for key in GLANCE_AT)
)
"""As much of the details as a line about a record needs."""
JSON_TEXTS = ("arguments", "result", "input", "reply", "logs")
"""Members of `detail` that hold JSON, perhaps only its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records; what is None leaves all."""

    type: str | None = None
    server: str | None = None
    tool: str | None = None
    status: str | None = None
    caller: str | None = None
    request_id: str | None = None
    parent: int | None = None
    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    """The same, not included."""

    def equal(self) -> dict[str, Any]:
        """The columns that must have a value, the one to begin with first."""
        return {name: value for name in DRIVERS if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the records that were asked for, in their order."""

    records: list[Json]
    next: str | None
    """Where the next page begins; None when this is the last."""

    def data(self) -> Json:
        return {"records": self.records, "next": self.next}


def read(directory: Path) -> sqlite3.Connection:
    """The database in a state directory, to be read by one thread at a time. Raises `sqlite3.Error`."""
    path = directory / FILE
    if not path.exists():
        Store(directory).close()
    database = sqlite3.connect(
        f"{path.as_uri()}?mode=ro", uri=True, timeout=5, check_same_thread=False
    )
    # SQLite makes the escape of a lone surrogate, which a program may have, into bytes that are no UTF-8.
    database.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        if database.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            # It is just being made, or of another version, which this says.
            Store(directory).close()
    except BaseException:
        database.close()
        raise
    return database


def take_in(directory: Path) -> None:
    """Bring into the database what processes left that are gone. Raises `sqlite3.Error`, `OSError`."""
    with left_behind(directory) as files:
        if files:
            with closing(Store(directory)) as store:
                for file in files:
                    store.insert(read_lines(file))


# ── pages ───────────────────────────────────────────────────────────────────────────────────────


def page(
    database: sqlite3.Connection,
    wanted: Wanted,
    *,
    limit: int = LIMIT,
    cursor: str | None = None,
    oldest_first: bool = False,
    whole: bool = False,
) -> Page:
    """Records in the order in which they were written, the newest first unless asked.

    `cursor` is the `next` of the page before. `whole` ones have their `detail`. Raises `ValueError`.
    """
    scan = Scan(wanted, cursor, oldest_first)
    columns = ", ".join(SHOWN)
    text = database.execute(
        f"SELECT json_group_array(json_array({columns}, ("
        f"SELECT {'json(detail)' if whole else GLANCE} FROM records AS r WHERE r.seq = found.seq))) "
        f"FROM (SELECT {columns} FROM ({scan.sql(columns)} LIMIT {WINDOW}) {scan.rest} LIMIT ?) AS found",
        (*scan.values, *scan.rest_values, limit + 1),
    ).fetchone()[0]
    rows = sorted(json.loads(text), key=lambda row: row[0], reverse=not oldest_first)
    records = [shown(row, whole) for row in rows[:limit]]
    if len(rows) > limit:
        return Page(records, spelled(rows[limit - 1][0]))
    return Page(records, scan.beyond(database))


class Scan:
    """The rows to look through, in order, from one index; and what is tested on each."""

    def __init__(self, wanted: Wanted, cursor: str | None, oldest_first: bool) -> None:
        equal = wanted.equal()
        if equal.get("status") == "ok" and len(equal) > 1:
            equal["status"] = equal.pop("status")  # nearly all are: last
        driver = next((name for name in equal if (name, equal[name]) != ("status", "ok")), None)
        first, last = (wanted.since or 0) << SHIFT, (wanted.until or 2**42) << SHIFT
        if cursor is not None and oldest_first:
            first = max(first, number(cursor) + 1)
        elif cursor is not None:
            last = min(last, number(cursor))
        self._order = "ASC" if oldest_first else "DESC"
        self._where = "seq >= ? AND seq < ?"
        self.values: tuple[Any, ...] = (first, last)
        self._index = "NOT INDEXED"
        if driver is not None:
            self._index = f"INDEXED BY {DRIVERS[driver]}"
            self._where = f"{driver} = ? AND {self._where}"
            self.values = (equal.pop(driver), *self.values)
            if driver == "status":
                self._where = f"status != 'ok' AND {self._where}"  # as the index says it
        self.rest = f"WHERE {' AND '.join(f'{name} = ?' for name in equal)}" if equal else ""
        self.rest_values = tuple(equal.values())

    def sql(self, columns: str) -> str:
        return (
            f"SELECT {columns} FROM records {self._index} WHERE {self._where} "
            f"ORDER BY seq {self._order}"
        )

    def beyond(self, database: sqlite3.Connection) -> str | None:
        """Where to go on when the window had less than a page of what is wanted."""
        row = database.execute(
            f"{self.sql('seq')} LIMIT 1 OFFSET {WINDOW - 1}", self.values
        ).fetchone()
        return spelled(row[0]) if row else None


def shown(row: list[Any], whole: bool) -> Json:
    """A record as it is given to readers."""
    found: Json = dict(zip(COLUMNS, row, strict=True))
    detail = found.pop("detail")
    record = {
        "id": spelled(found.pop("id")),
        "time": moment(found.pop("at")),
        **{key: value for key, value in found.items() if value is not None},
        "about": about(found["type"], detail),
    }
    record["seq"] = spelled(record["seq"])
    if "parent" in record:
        record["parent"] = spelled(record["parent"])
    if whole:
        record["detail"] = {key: opened(key, value) for key, value in detail.items()}
    return record


def opened(key: str, value: Any) -> Any:
    """A text of JSON as what it says, unless it was cut."""
    if key in JSON_TEXTS and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def one(database: sqlite3.Connection, id: str) -> Json | None:
    """A record by its id, with its details. Raises `ValueError` for what is no id."""
    columns = ", ".join(SHOWN)
    row = database.execute(
        f"SELECT json_array({columns}, json(detail)) FROM records WHERE id = ?",
        (number(id),),
    ).fetchone()
    return None if row is None else shown(json.loads(row[0]), True)


def pages(
    database: sqlite3.Connection, wanted: Wanted, *, whole: bool = True
) -> Iterator[list[Json]]:
    """All that is wanted, page by page, the oldest first."""
    cursor = None
    while True:
        found = page(database, wanted, limit=500, cursor=cursor, oldest_first=True, whole=whole)
        yield found.records
        cursor = found.next
        if cursor is None:
            return


# ── sums ────────────────────────────────────────────────────────────────────────────────────────

GROUPS = {
    "tool": ("server || ':' || tool", "tool_call"),
    "server": ("server", "tool_call"),
    "caller": ("caller", "execution"),
    "client": ("client", "execution"),
    "script": (
        "coalesce(detail ->> 'script', substr(detail ->> 'source_hash', 1, 12))",
        "execution",
    ),
    "code": ("code", None),
    "type": ("type", None),
}
"""What sums can be made by: the SQL of the group, and the type of records it is about."""
SUMMED = ("ok", "error", "blocked", "rejected")
"""Statuses that sums count."""
MOST_GROUPS = 50


def summary(database: sqlite3.Connection, since: int, until: int, by: str) -> Json:
    """How many there were, how they went, how long they took and how much they moved.

    From `since` until before `until`, in milliseconds since 1970; `by` is one of `GROUPS`.
    """
    group, type = GROUPS[by]
    first, last = since << SHIFT, until << SHIFT
    counts = ", ".join(f"'{name}', sum(status = '{name}')" for name in SUMMED)
    sums = (
        f"'count', count(*), {counts}, 'mean_ms', round(avg(ms), 1), 'max_ms', max(ms), "
        "'seen', sum(seen), 'back', sum(back)"
    )

    def grouped(what: str, where: str, limit: int) -> list[Json]:
        text = database.execute(
            f"SELECT json_group_array(json(row)) FROM (SELECT json_object('name', {what}, {sums}) AS row "
            f"FROM records WHERE seq >= ? AND seq < ? {where} GROUP BY {what} ORDER BY count(*) DESC LIMIT ?)",
            (first, last, limit),
        ).fetchone()[0]
        found: list[Json] = json.loads(text)
        return found

    about = f"AND type = '{type}'" if type else f"AND {group} IS NOT NULL"
    return {
        "since": moment(since),
        "until": moment(until),
        "types": grouped("type", "", len(GROUPS) + 10),
        "by": by,
        "groups": grouped(group, about, MOST_GROUPS),
    }


assert set(DRIVERS) <= {field.name for field in fields(Wanted)}
