"""How well and how quickly tools are found, by words alone and with the extra `mcpproxy[semantic]`.

    python scripts/bench/search.py [--tools FILE] [--queries FILE] [--half HALF] [--count N]

FILE of tools: {"server": [tool as in tools/list, …], …}; of queries: [{"query", "kind", "primary": ["server:tool", …]}, …],
no primary where nothing should be found. Without them, a small set of invented tools. HALF is "seen" or "held out", of
queries that say which they are (data/README.md). Times are taken at N tools
(default 10,000), made of the given ones.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common import p50, p99, table, timed

from mcpproxy.catalog import Tool
from mcpproxy.discovery import entry
from mcpproxy.search import semantic
from mcpproxy.search.index import Entry, Index
from mcpproxy.search.semantic import Meanings

DATA = Path(__file__).parent / "data"
SPEEDS = ("built in s", "one server again ms", "p50 ms", "p99 ms")


@dataclass
class Search:
    """One way to search the same entries."""

    index: Index
    meanings: Meanings | None

    def fill(self, entries: list[Entry]) -> None:
        groups: dict[str, list[Entry]] = {}
        for each in entries:
            groups.setdefault(each.group, []).append(each)
        for group, members in groups.items():
            self.replace(group, members)

    def replace(self, group: str, members: list[Entry]) -> None:
        self.index.replace(group, members)
        if self.meanings is not None:
            self.meanings.replace(group, members)

    def __call__(self, query: str) -> list[str]:
        likeness = self.meanings.likeness(query) if self.meanings is not None else None
        return self.index.search(query, likeness=likeness)


def ways() -> dict[str, Callable[[], Search]]:
    """What there is to compare; without the extra, words alone."""
    found = {"words alone": lambda: Search(Index(), None)}
    if semantic.meanings() is not None:
        found["and meaning"] = lambda: Search(Index(), semantic.meanings())
    return found


def rank(found: list[str], wanted: list[str]) -> float:
    """1 over the place of the first right answer; an empty answer is right where nothing is wanted."""
    if not wanted:
        return 0.0 if found else 1.0
    return next((1 / place for place, id in enumerate(found, 1) if id in wanted), 0.0)


def quality(search: Search, queries: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    kinds: dict[str, list[float]] = {}
    for each in queries:
        kinds.setdefault(each["kind"], []).append(rank(search(each["query"]), each["primary"]))
    every = [value for values in kinds.values() for value in values]
    return [
        (
            kind,
            len(values),
            f"{sum(value == 1 for value in values) / len(values):.2f}",
            f"{sum(value >= 1 / 5 for value in values) / len(values):.2f}",
            f"{sum(values) / len(values):.2f}",
        )
        for kind, values in [*kinds.items(), ("all", every)]
    ]


def many(entries: list[Entry], count: int) -> list[Entry]:
    """So many entries: copies under other servers, each with some words of its own."""
    chance = random.Random(1)
    known = [word for each in entries for word in each.lead.split()]
    made = []
    for number in range(count):
        one, copy = entries[number % len(entries)], number // len(entries)
        group = f"{one.group}{copy}" if copy else one.group
        text = f"{one.text} {' '.join(chance.choices(known, k=10))}"
        made.append(replace(one, id=f"{group}:{one.name}", group=group, text=text))
    return made


def speed(search: Search, entries: list[Entry], queries: list[str]) -> tuple[float, ...]:
    began = time.perf_counter()
    search.fill(entries)
    search("anything")
    built = time.perf_counter() - began
    group = entries[0].group
    members = [each for each in entries if each.group == group]

    def renew() -> None:
        search.replace(group, members)
        search("anything")

    again = timed(renew)
    took = [timed(lambda query=query: search(query)) for query in queries]  # type: ignore[misc]
    return built, again, p50(took), p99(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, default=DATA / "tools.json")
    parser.add_argument("--queries", type=Path, default=DATA / "queries.json")
    parser.add_argument("--half", choices=("seen", "held out"))
    parser.add_argument("--count", type=int, default=10_000)
    chosen = parser.parse_args()
    catalog = json.loads(chosen.tools.read_text(encoding="utf-8"))
    queries = json.loads(chosen.queries.read_text(encoding="utf-8"))
    if chosen.half is not None:
        queries = [each for each in queries if each.get("half") == chosen.half]
    entries = [entry(Tool(server, tool)) for server, tools in catalog.items() for tool in tools]
    for way, made in ways().items():
        search = made()
        search.fill(entries)
        title = f"{len(queries)} queries to {len(entries)} tools, {way}"
        table(title, ("", "queries", "recall@1", "recall@5", "MRR"), quality(search, queries))
    crowd = many(entries, chosen.count)
    asked = [each["query"] for each in queries]
    rows = [(way, *speed(made(), crowd, asked)) for way, made in ways().items()]
    table(f"At {len(crowd):,} tools", ("", *SPEEDS), rows)
    if len(rows) == 1:
        print("\nmcpproxy[semantic] is not installed: words alone")


if __name__ == "__main__":
    main()
