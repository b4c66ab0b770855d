"""A call that a script asked for: on its way, in its batch, and as the ledger shows it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from mcpproxy.names import short


@dataclass(slots=True)
class Call:
    """One requested call and what became of it."""

    n: int
    server: str
    tool: str
    arguments: dict[str, Any]
    outcome: str = "not_started"
    code: str | None = None
    in_doubt: bool = False
    """It failed without an answer of its server: nobody knows whether it took effect."""
    began: float = 0.0
    ms: int = 0
    reply: int = 0
    """Number of the VM's frame this answers."""
    size: int = 0
    """Bytes it came in."""
    batch: Batch | None = None
    slot: int = 0

    def entry(self) -> dict[str, Any]:
        """As the ledger shows it."""
        found: dict[str, Any] = {
            "n": self.n,
            "server": short(self.server),
            "tool": short(self.tool),
            "outcome": self.outcome,
        }
        if self.code is not None:
            found["code"] = self.code
        return {**found, "ms": self.ms}

    def forget(self) -> None:
        """Keep what the ledger shows of a call that is over: a script chooses how large the rest is."""
        self.arguments = {}
        self.server, self.tool = short(self.server), short(self.tool)


@dataclass(slots=True)
class Batch:
    """A `call_tools` under way: its slots, and whose turn it is."""

    reply: int
    slots: list[dict[str, Any] | None]
    left: int


@dataclass(slots=True)
class Lane:
    """Calls that share a cap: those of one batch, or all typed calls."""

    cap: int
    running: int = 0
    waiting: deque[Call] = field(default_factory=deque)
