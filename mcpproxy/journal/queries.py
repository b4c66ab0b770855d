"""What can be asked of the journal, and the answers: the same over REST and on the command line.

Synchronous and import-light. All raise `ValueError` that names the parameter, and `sqlite3.Error`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcpproxy.journal import reading
from mcpproxy.journal.reading import LIMIT, Wanted
from mcpproxy.journal.records import STATUSES, TYPES, number

Json = dict[str, Any]

BACK = re.compile(r"(\d{1,9})([smhdw])")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
LATEST = 2**42 - 1
"""Milliseconds since 1970 that a number of a record has room for."""
PERIOD = "24h"
"""What sums are about unless asked."""
FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
CSV_COLUMNS = (
    "time", "type", "status", "code", "server", "tool", "about", "caller", "client", "ms", "seen",
    "back", "id", "parent", "request_id",
)  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def instant(name: str, text: str, now_ms: int) -> int:
    """A time in milliseconds since 1970: ISO 8601 (UTC unless it says), or so long ago ("24h", "7d").

    Raises `ValueError`; `name` is what the time is called in it.
    """
    if found := BACK.fullmatch(text):
        return max(1, now_ms - int(found[1]) * UNITS[found[2]] * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{name}: {text[:40]!r} is no time; give one such as 2026-11-30T08:00:00Z, or how long ago: 90m, 24h, 7d"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(1, int(moment.timestamp() * 1000)), LATEST)


def wanted(query: Mapping[str, Any], now_ms: int) -> Wanted:
    """The conditions in a query."""
    times: Json = {
        field: instant(name, query[name], now_ms)
        for name, field in (("from", "since"), ("to", "until"))
        if query.get(name) is not None
    }
    equal: Json = {
        name: query.get(name)
        for name in ("type", "server", "tool", "status", "caller", "request_id")
    }
    for name, known in (("type", TYPES), ("status", STATUSES)):
        if equal[name] is not None and equal[name] not in known:
            raise ValueError(f"{name}: {equal[name]!r} is none of {', '.join(known)}")
    parent = query.get("parent")
    return Wanted(**equal, **times, parent=None if parent is None else number(parent))


def listing(directory: Path, query: Mapping[str, Any], now_ms: int) -> Json:
    """A page of records, and where the next one begins."""
    with closing(reading.read(directory)) as database:
        return reading.page(
            database,
            wanted(query, now_ms),
            limit=query.get("limit") or LIMIT,
            cursor=query.get("cursor"),
            oldest_first=query.get("order") == "oldest",
            whole=bool(query.get("detail")),
        ).data()


def one(directory: Path, id: str) -> Json | None:
    """A record with its details, and the calls of an execution."""
    with closing(reading.read(directory)) as database:
        found = reading.one(database, id)
        if found is not None and found["type"] == "execution":
            calls = reading.page(database, Wanted(parent=number(id)), limit=100, oldest_first=True)
            found["calls"] = calls.records
            if calls.next:
                found["next_calls"] = calls.next
        return found


def summary(directory: Path, query: Mapping[str, Any], now_ms: int) -> Json:
    """How many records there were in a time, and how they went."""
    since = instant("from", query.get("from") or PERIOD, now_ms)
    until = now_ms if query.get("to") is None else instant("to", query["to"], now_ms)
    with closing(reading.read(directory)) as database:
        return reading.summary(database, since, until, query.get("by") or "tool")


def export(directory: Path, query: Mapping[str, Any], now_ms: int) -> Iterator[str]:
    """All records that are wanted, the oldest first, as text of one format, piece by piece."""
    conditions = wanted(query, now_ms)
    whole = bool(query.get("detail"))
    write = csv_rows if query.get("format") == "csv" else json_lines

    def pieces() -> Iterator[str]:
        if write is csv_rows:
            yield row_text([*CSV_COLUMNS, *(["detail"] if whole else [])])
        with closing(reading.read(directory)) as database:
            for records in reading.pages(database, conditions, whole=whole):
                # In JSON the escape of a lone surrogate is what it was.
                yield write(records, whole).encode("utf-8", "backslashreplace").decode()

    return pieces()


def json_lines(records: list[Json], whole: bool) -> str:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records)


def csv_rows(records: list[Json], whole: bool) -> str:
    rows = []
    for record in records:
        row = [harmless(record.get(name, "")) for name in CSV_COLUMNS]
        if whole:
            row.append(json.dumps(record["detail"], ensure_ascii=False))
        rows.append(row_text(row))
    return "".join(rows)


def row_text(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def harmless(cell: Any) -> Any:
    """A text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
