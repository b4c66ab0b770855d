"""Counts what is in a CSV text. `run` is called in a process of its own."""

from __future__ import annotations

import csv
import io


def run(payload):
    rows = list(
        csv.DictReader(io.StringIO(payload["text"]), delimiter=payload.get("delimiter", ","))
    )
    names = list(rows[0]) if rows else []
    if None in names:
        message = "a line has more values than there are column names"
        return {"error": {"code": "EINVAL", "message": message}}
    return {"rows": len(rows), "columns": [column(name, rows) for name in names]}


def column(name, rows):
    values = [row[name] for row in rows if row[name]]
    found = {"name": name, "filled": len(values), "distinct": len(set(values))}
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return found
    return {**found, "min": min(numbers), "max": max(numbers)} if numbers else found
