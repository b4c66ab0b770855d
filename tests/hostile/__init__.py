"""Scripts that try to hang, fill up, break out of, or lie to their host, as tables by kind.

Each says what it must end in. `test_corpus.py` runs them all and checks what must hold for any
script whatever: an answer in time, nothing left running, a host that is as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Gives:
    """Ends well, with this value or one that the predicate takes."""

    wanted: Any

    def takes(self, value: Any) -> bool:
        return bool(self.wanted(value)) if callable(self.wanted) else bool(self.wanted == value)


@dataclass(frozen=True, slots=True)
class Case:
    """One script and what it must end in: codes (any of the words), `Gives`, or "any" outcome at all."""

    id: str
    code: str
    ends: str | Gives
    within_ms: int = 20
    """The timeout of a script that may meet it."""
    memory_mb: int = 16
    says: str = ""
    """Part of the error's message."""
    calls: int | None = None
    """How many calls may reach an upstream."""
    options: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    """Other members of the request."""
    check: Callable[[dict[str, Any]], bool] | None = None
    """What else must be true of the reply."""

    @property
    def timeout_ms(self) -> int:
        """One that must end by itself is given time, since a loaded machine may need it."""
        if isinstance(self.ends, str) and (self.ends == "any" or "TIMEOUT" in self.ends):
            return self.within_ms
        return max(3000, self.within_ms)


ANY = "any"
TIMEOUT = "TIMEOUT"
RUNTIME = "RUNTIME_ERROR"
SYNTAX = "SYNTAX_ERROR"
MEMORY = "MEMORY_LIMIT"
UNWRITABLE = "SERIALIZATION_ERROR"
LARGE = "RESULT_TOO_LARGE"
