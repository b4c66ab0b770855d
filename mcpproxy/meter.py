"""What is counted, whether or not it is recorded: executions, calls, refusals, and how long they took.

Plain numbers, since they are added to on the way of every call; `rest/metrics.py` writes them down.
Labels are few by nature: servers as configured, codes as in `errors.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0)
"""Upper bounds of the classes of durations, in seconds."""

OK = "ok"


class Durations:
    """How often something took how long."""

    __slots__ = ("classes", "total")

    def __init__(self) -> None:
        self.classes = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.classes[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """Each upper bound, and how many took no longer."""
        found, so_far = [], 0
        for bound, number in zip((*map(str, BOUNDS), "+Inf"), self.classes, strict=True):
            so_far += number
            found.append((bound, so_far))
        return found


class Meter:
    """What was counted since the daemon began, as `/metrics` tells it."""

    def __init__(self) -> None:
        self.executions: Counter[str] = Counter()
        """By outcome: "ok", or the code."""
        self.running, self.waiting = Durations(), Durations()
        """Of executions: with a VM, and until they had one."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls that passed the gates, by server and outcome."""
        self.call_durations: dict[str, Durations] = {}
        """From going out to the answer, by server."""
        self.refused_calls: Counter[str] = Counter()
        """Calls that did not pass the gates, by code."""
        self.refused: Counter[str] = Counter()
        """Whole requests that were turned away, by code."""

    def executed(self, code: str | None, queue_ms: float, ms: float | None) -> None:
        self.executions[code or OK] += 1
        self.waiting.add(queue_ms / 1000)
        if ms is not None:
            self.running.add(ms / 1000)

    def called(self, server: str, outcome: str | None, ms: float | None) -> None:
        self.calls[server, outcome or OK] += 1
        if ms is not None:
            if (found := self.call_durations.get(server)) is None:
                found = self.call_durations[server] = Durations()
            found.add(ms / 1000)

    def turned_away(self, code: str) -> None:
        self.refused_calls[code] += 1
