"""What the journal costs, on against off; and what a page of a large one costs.

    python scripts/bench/journal.py [--count N]

N records in the large journal (default 1,000,000, which takes a minute to make); the loads take their
share of it.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import common
from common import Client, cpu_of_all, execution, interleaved, p50, p99, request, timed

from mcpproxy.journal import queries
from mcpproxy.journal.records import Numbers, Record, spelled
from mcpproxy.journal.store import Retention, Store
from mcpproxy.journal.trail import direct_call
from mcpproxy.journal.writer import line, open_journal

TRIVIAL = execution("1 + 1")
CALLS = 100
CALLING = execution(f"for (let n = 0; n < {CALLS}; n++) call_tool('stub', 'echo', {{n}}); 1")
DAY = 86_400_000


def main() -> None:
    n = common.count(1_000_000, "records in the large journal")
    rounds = min(300, n)
    anyio.run(one_record, rounds, backend_options={"use_uvloop": True})
    settings: dict[str, Any] = {"code_execution_pool_size": 16}
    with (
        common.daemon(common.stub_settings(), **settings) as on,
        common.daemon(common.stub_settings(), activity_enabled=False, **settings) as off,
    ):
        one_by_one(rounds, on.port, off.port)
        at_once(rounds, on, off)
    with tempfile.TemporaryDirectory() as home:
        pages(n, Path(home))


# ── on against off ──────────────────────────────────────────────────────────────────────────────────


async def one_record(rounds: int) -> None:
    """What the event loop spends on one call, in microseconds."""
    small = {"content": [{"type": "text", "text": "x" * 200}]}
    large = {"content": [{"type": "text", "text": "word\n" * 20_000}]}
    keep, rows = Retention(90, 10**6, 1000), []
    with tempfile.TemporaryDirectory() as home:
        async with open_journal(Path(home), keep, 8192, on=True, lasting=True) as journal:
            for name, result in (("200 B", small), ("100 KB", large)):

                def call(result: dict[str, Any] = result) -> None:
                    with direct_call(journal, "stub", "echo", {"a": 1, "b": "text"}, "me") as made:
                        made.timing.now()
                        made.result = result

                took = []
                for _ in range(rounds):
                    took.append(1000 * timed(call))
                    await anyio.lowlevel.checkpoint()
                rows.append((f"a call whose result has {name}", p50(took), p99(took)))
    common.table("Recording, microseconds of the event loop", ("", "p50", "p99"), rows)


def one_by_one(rounds: int, on: int, off: int) -> None:
    with Client(on) as with_it, Client(off) as without:

        def sides(body: bytes, per: int) -> list[Callable[[], float]]:
            """Off and on, twice, the other way round the second time: one daemon's rest disturbs the next."""

            def ask(client: Client, port: int) -> float:
                time.sleep(PAUSE)
                return timed(lambda: client.ask(request(port, "POST", PATH, body))) / per

            return [
                lambda: ask(without, off),
                lambda: ask(with_it, on),
                lambda: ask(with_it, on),
                lambda: ask(without, off),
            ]

        trivial = interleaved(rounds, *sides(TRIVIAL, 1))
        calling = interleaved(max(3, rounds // 20), *sides(CALLING, CALLS))
    rows = [
        ("1 + 1", *compared(trivial)),
        (f"call_tool, one of {CALLS} in a loop", *compared(calling)),
    ]
    title = f"One after another over REST, {PAUSE * 1000:.0f} ms in between, ms (p50)"
    common.table(title, ("", "off", "on", "more", "ratio"), rows)


PATH = "/api/v1/code/exec"
PAUSE = 0.01


def compared(sides: list[list[float]]) -> tuple[float, float, float, float]:
    off, on = p50(sides[0] + sides[3]), p50(sides[1] + sides[2])
    return off, on, on - off, on / off


def at_once(rounds: int, on: common.Running, off: common.Running) -> None:
    def run(daemon: common.Running) -> tuple[float, float, float]:
        before = cpu_of_all(daemon.pid)
        found = common.loaded(daemon.port, request(daemon.port, "POST", PATH, TRIVIAL), 2 * rounds)
        return found["rate"], found["p50"], (cpu_of_all(daemon.pid) - before) / (2 * rounds)

    sides: dict[str, list[tuple[float, float, float]]] = {"off": [], "on": []}
    for n in range(max(1, min(8, rounds // 30))):
        for name, daemon in (("off", off), ("on", on)) if n % 2 else (("on", on), ("off", off)):
            sides[name].append(run(daemon))
    rows = [
        (name, *(p50([each[n] for each in found]) for n in range(3)))
        for name, found in sides.items()
    ]
    head = ("", "per second", "p50 ms", "CPU ms each")
    common.table("16 at once over REST, 1 + 1", head, rows)


# ── a large journal ─────────────────────────────────────────────────────────────────────────────────


def pages(n: int, home: Path) -> None:
    began = time.perf_counter()
    now = time.time_ns() // 1_000_000
    fill(home, n, now)
    filled = time.perf_counter() - began
    size = (home / "activity.sqlite3").stat().st_size / 2**20
    newest = queries.listing(home, {"type": "execution", "limit": 1}, now)["records"][0]
    rows = []
    for name, query in questions(newest, now):
        took = [timed(lambda q=query: queries.listing(home, q, now)) for _ in range(7)]  # type: ignore[misc]
        found = len(queries.listing(home, query, now)["records"])
        rows.append((name, found, took[0], p50(took), max(took)))
    one = [timed(lambda: queries.one(home, newest["id"])) for _ in range(7)]
    rows.append(("one execution and its calls", 1, one[0], p50(one), max(one)))
    title = f"A page of 50 out of {n:,} records ({size:,.0f} MiB, made in {filled:.0f} s), ms"
    common.table(title, ("", "records", "first", "p50", "worst"), rows)
    sums = [
        (f"the last {span}", timed(lambda s=span: queries.summary(home, {"from": s}, now)))  # type: ignore[misc]
        for span in ("24h", "7d", "30d")
    ]
    common.table("A summary, ms", ("", "ms"), sums)


def questions(newest: dict[str, Any], now: int) -> Iterator[tuple[str, dict[str, Any]]]:
    middle = spelled((now - 15 * DAY) << 20)
    yield "the newest", {}
    yield "the newest, with details", {"detail": True}
    yield "from the middle on", {"cursor": middle}
    yield "one server", {"server": "server3"}
    yield "one rare tool", {"tool": "tool150"}
    yield "errors", {"status": "error"}
    yield "executions", {"type": "execution"}
    yield "one request", {"request_id": newest["request_id"]}
    yield "calls of one execution", {"parent": newest["id"]}
    yield "errors of one server", {"status": "error", "server": "server1"}
    yield "blocked calls of one caller", {"status": "blocked", "caller": "agent1"}
    yield "errors of a rare tool", {"status": "error", "tool": "tool150"}
    yield "a caller nobody knows", {"caller": "nobody"}
    yield "what there is none of, over all calls", {"type": "tool_call", "status": "rejected"}
    yield "the same of one server", {"server": "server1", "status": "ok", "type": "execution"}


def fill(home: Path, n: int, now: int) -> None:
    """Thirty days of ten-call executions, as even as a bench may be."""
    numbers, chance = Numbers(0), random.Random(1)
    text = json.dumps({"ok": True, "result": {"content": [{"type": "text", "text": "y" * 300}]}})
    step = 30 * DAY / n
    with closing(Store(home)) as store:
        lines: list[bytes] = []
        parent, request_id = 0, ""
        for k in range(n):
            at = int(now - 30 * DAY + k * step)
            seq = numbers.next(at)
            if k % 11 == 0:
                parent, request_id = seq + 1, f"{chance.getrandbits(128):032x}"
            call = k % 11 != 10 and k != n - 1
            status = chance.choices(("ok", "error", "blocked"), (95, 4, 1))[0]
            lines.append(
                line(
                    Record(
                        seq=seq,
                        id=seq if call else parent,
                        parent=parent if call else None,
                        at=at,
                        type="tool_call" if call else "execution",
                        status=status,
                        code=None if status == "ok" else "TOOL_ERROR",
                        server=f"server{chance.randrange(8)}" if call else None,
                        tool=f"tool{int(chance.paretovariate(1)) % 200}" if call else None,
                        caller=chance.choice(("admin", "local", "agent1")),
                        client="a client 1.0",
                        request_id=request_id,
                        ms=chance.randrange(500),
                        seen=chance.randrange(9000),
                        detail={"arguments": '{"a": 1}', "result": text}
                        if call
                        else {"source": "1"},
                    ).row()
                )
            )
            if len(lines) == 1000 or k == n - 1:
                store.insert([b"".join(lines)])
                lines = []


if __name__ == "__main__":
    main()
