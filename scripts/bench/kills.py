"""A server that is killed over and over while calls go to it: what becomes of them, and what is left.

    python scripts/bench/kills.py [--count N]

N kills (default 1,000), one after another, with four clients of direct mode that call without a
pause. Each call has a number of its own, which the server writes down before it answers. Every call
has to end, in its result or in an error; none may reach the server twice; and afterwards the daemon
has to have as many processes and descriptors as before. Exit status 1 otherwise. Linux only.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import common
import fleet

CLIENTS = 4
QUIET = {"level": "error"}
LOST_SECONDS = 20.0
"""A call that hasn't ended by then counts as lost."""


class Calls:
    """What became of every call."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = itertools.count(1)
        self.asked = 0
        self.good: set[int] = set()
        self.errors: Counter[str] = Counter()
        self.lost: list[int] = []
        self.over = threading.Event()

    def answered(self) -> float:
        """Wait for results that can't be on their way yet; milliseconds that took."""
        began, enough = time.perf_counter(), len(self.good) + CLIENTS
        found(lambda: len(self.good) > enough)
        return (time.perf_counter() - began) * 1000

    def run(self) -> None:
        """One client, until it is over."""
        while not self.over.is_set():
            with common.Client(self._port) as client, contextlib.suppress(EOFError):
                client.wait_at_most(LOST_SECONDS)
                while not self.over.is_set():
                    self._call(client)

    def _call(self, client: common.Client) -> None:
        number = next(self._numbers)
        self.asked += 1
        params = {"name": fleet.TOOL, "arguments": {"n": number}}
        self.lost.append(number)
        reply = json.loads(client.ask(fleet.order(self._port, "tools/call", params)))
        result = reply.get("result") or {}
        text = (result.get("content") or [{}])[0].get("text", "")
        if result and not result.get("isError"):
            assert json.loads(text) == {"n": number}, "an answer to another call"
            self.good.add(number)
        else:
            told = json.loads(text) if text.startswith("{") else reply
            self.errors[(told.get("error") or {}).get("code", "?")] += 1
        self.lost.remove(number)


def main(kills: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder, "ledger")
        server = fleet.server(0, 1)
        server["args"] = [*server["args"], str(ledger)]
        with common.daemon(server, code_execution_pool_size=1, logging=QUIET) as daemon:
            run(daemon, kills, ledger)


def run(daemon: common.Running, kills: int, ledger: Path) -> None:
    calls = Calls(daemon.port)
    before = still(daemon.pid)
    clients = [threading.Thread(target=calls.run) for _ in range(CLIENTS)]
    began = time.perf_counter()
    for client in clients:
        client.start()
    pauses = [kill(daemon.pid, calls) for _ in range(kills)]
    calls.answered()
    seconds = time.perf_counter() - began
    calls.over.set()
    for client in clients:
        client.join()
    common.wait_for(lambda: common.joined(daemon.port, 1))
    after = still(daemon.pid)
    reached = Counter(int(word) for word in ledger.read_text(encoding="ascii").split())
    doubled = [number for number, times in reached.items() if times > 1]
    phantom = calls.good - reached.keys()
    rows: list[tuple[object, ...]] = [
        ("calls", calls.asked),
        ("with their result", len(calls.good)),
        *((f"with the error {code}", number) for code, number in calls.errors.most_common()),
        ("without an end", len(calls.lost)),
        ("that reached the server twice", len(doubled)),
        ("with a result though they never reached it", len(phantom)),
        ("from a kill to results again, ms (p50)", common.p50(pauses)),
        ("the same, ms (p99)", common.p99(pauses)),
        ("processes, before and after", f"{before[0]}, {after[0]}"),
        ("descriptors of the daemon, before and after", f"{before[1]}, {after[1]}"),
    ]
    common.table(f"{kills:,} kills in {seconds:.0f} s, {CLIENTS} clients", ("", "number"), rows)
    if calls.lost or doubled or phantom or after[0] > before[0] or after[1] > before[1]:
        raise SystemExit("something is lost, doubled or left")


def kill(daemon: int, calls: Calls) -> float:
    """Kill the server while it answers; milliseconds until calls had been answered again."""
    took = calls.answered()
    pid = found(lambda: upstream(daemon))
    os.kill(pid, signal.SIGKILL)
    found(lambda: 0 if alive(pid) else 1)
    return took


def found(look: Callable[[], int]) -> int:
    until = time.monotonic() + LOST_SECONDS
    while not (seen := look()):
        if time.monotonic() > until:
            raise SystemExit("the server did not come back")
        time.sleep(0.002)
    return seen


def children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for each in lists for word in each.read_text(encoding="ascii").split()]


def upstream(daemon: int) -> int:
    """The server's process, once it has become that; 0 where there is none."""
    for pid in children(daemon):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if any(word.endswith(b"light.py") for word in words) and b"--" not in words:
                return pid
    return 0


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def still(daemon: int) -> tuple[int, int]:
    """Processes and descriptors, once their number stays the same for a second."""
    seen: list[tuple[int, int]] = []
    while len(seen) < 10 or len(set(seen[-10:])) > 1:
        seen.append((len(common.family(daemon)), len(os.listdir(f"/proc/{daemon}/fd"))))
        time.sleep(0.1)
    return seen[-1]


if __name__ == "__main__":
    if sys.platform != "linux":
        raise SystemExit("this needs /proc")
    main(common.count(1000, "kills"))
