"""What is recorded of one script and of one call: which words and figures, no more."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcpproxy.envelopes import Reply, Told, toolcall_envelope
from mcpproxy.errors import CallError, Refused
from mcpproxy.journal.records import BEYOND, LONGEST_NAME, json_text, status_of, text
from mcpproxy.redaction import SECRETS

if TYPE_CHECKING:
    from mcpproxy.journal.writer import Journal
    from mcpproxy.meter import Meter

REFUSALS = 100
"""Calls of one script that policy turned away and that are recorded one by one; the others are counted."""
LONGEST_SOURCE = 65_536


def source_hash(source: str) -> str:
    """SHA-256 of a program: equal ones are found by it, whatever their line ends and the blanks around them."""
    normal = source.replace("\r\n", "\n").strip()
    return hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()


class Timing:
    """When a call began to wait for its turn, and when it went out."""

    __slots__ = ("began", "sent")

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.sent: float | None = None

    def now(self) -> None:
        """It goes out."""
        self.sent = time.perf_counter()

    def spent(self) -> tuple[int, int | None]:
        """Milliseconds in the queue, and from there on; None where it never went out."""
        now = time.perf_counter()
        if self.sent is None:
            return round((now - self.began) * 1000), None
        return round((self.sent - self.began) * 1000), round((now - self.sent) * 1000)


class Trail:
    """Of one execution: its calls as they end, and at last itself."""

    def __init__(self, journal: Journal, caller: str, request_id: str) -> None:
        self._journal = journal
        self._who: dict[str, Any] = {"caller": caller, "request_id": request_id}
        self._timing = Timing()
        self.id = journal.number()
        self.calls = self.turned_away = 0
        self._calls_ms = 0

    def started(self) -> None:
        """It has its VM; the wait for one is over."""
        self._timing.now()

    def called(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timing: Timing,
        outcome: str | Told,
    ) -> None:
        """A call ended: with an envelope, or as the ledger's outcome says."""
        self.calls += 1
        ms = timing.spent()[1]
        self._calls_ms += ms or 0
        journal = self._journal
        code = code_of(outcome)
        count(journal.meter, server, code, ms)
        if not journal.on:
            return
        written = b"" if isinstance(outcome, str) else outcome.written
        result = cut("result", written, journal.most) if written else {}
        record_call(
            journal, server, tool, arguments, timing, outcome, result, len(written),
            parent=self.id, **self._who,
        )  # fmt: skip

    def refused(self, server: str, tool: str, arguments: Mapping[str, Any], code: str) -> None:
        """A call did not get past the gates."""
        self.calls += 1
        self.turned_away += 1
        self._journal.meter.turned_away(code)
        if self.turned_away <= REFUSALS:
            self._journal.record(
                "tool_call",
                status_of(code),
                code=code,
                server=SECRETS.hide(server),  # of the script's own making
                tool=SECRETS.hide(tool),
                parent=self.id,
                detail=texts("arguments", arguments, self._journal.most),
                **self._who,
            )

    def ended(self, program: Mapping[str, Any], reply: Reply | None, seen: int) -> None:
        """It is over: `program` is what was asked for, `seen` the bytes that the script was given.

        No reply: whoever asked is gone.
        """
        journal = self._journal
        envelope = {} if reply is None else reply.envelope
        code = "CANCELLED" if reply is None else reply.code
        queue_ms, ms = self._timing.spent()
        journal.meter.executed(code, queue_ms, ms)
        if not journal.on:
            return
        written = b"" if reply is None else reply.written
        given, source = dict(program), program["source"]
        if "description" in given:
            given["description"] = text(given["description"], journal.most)
        detail: dict[str, Any] = {
            "source_hash": source_hash(source),
            "source": text(source, LONGEST_SOURCE),
            **texts("input", given.pop("input"), journal.most),
            **texts("logs", envelope.get("logs"), journal.most),
            **cut("reply", written, journal.most),
            "calls": self.calls,
            "calls_ms": self._calls_ms,
            "queue_ms": queue_ms,
        }
        if self.turned_away > REFUSALS:
            detail["calls_not_recorded"] = self.turned_away - REFUSALS
        journal.record(
            "execution",
            "ok" if code is None else "rejected" if code == "POOL_BUSY" else "error",
            id=self.id,
            code=code,
            ms=ms,
            seen=seen,
            back=len(written),
            detail=given | detail,
            **self._who,
        )


@dataclass(slots=True)
class Direct:
    """A call from outside a script, while it runs."""

    timing: Timing
    result: dict[str, Any]


@contextmanager
def direct_call(
    journal: Journal,
    server: str,
    tool: str,
    arguments: Mapping[str, Any],
    caller: str,
    type: str = "tool_call",
) -> Iterator[Direct]:
    """Record the call that the block makes, however it ends; the block puts its `result`.

    For any other request `tool` is its method, and `type` is `request`.
    """
    call = Direct(Timing(), {})
    outcome: str | Mapping[str, Any] | None = None
    try:
        yield call
        outcome = toolcall_envelope(call.result)
    except CallError as error:
        outcome = call.result = error.envelope()
        raise
    except Exception as error:  # what a server itself says no with
        outcome = call.result = CallError("UPSTREAM_ERROR", str(error)).envelope()
        raise
    finally:
        outcome = outcome or ("not_started" if call.timing.sent is None else "unknown")
        code = code_of(outcome)
        count(journal.meter, server, code, call.timing.spent()[1])
        if journal.on:
            shown = texts("result", call.result, journal.most)
            size = weight(call.result) if "result_cut" in shown else len(shown.get("result", ""))
            if call.timing.sent is None:  # perhaps no names of ours
                server, tool = SECRETS.hide(server), SECRETS.hide(tool)
            record_call(
                journal, server, tool, arguments, call.timing, outcome, shown, size,
                caller=caller, back=size, type=type,
            )  # fmt: skip


@contextmanager
def noted(journal: Journal, caller: str, request_id: str) -> Iterator[None]:
    """Record a request that the block turns away."""
    try:
        yield
    except Refused as error:
        journal.refused(error.code, str(error), caller=caller, request_id=request_id)
        raise


class Door:
    """Requests that the door turned away: the first of each minute one by one, the others counted.

    Whoever may not come in must not be able to push out the record of those who may.
    """

    MOST = 60

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._clock = clock
        self._since = clock()
        self._recorded = self._others = 0

    def __call__(self, code: str, message: str, peer: str, path: str) -> None:
        if self._clock() - self._since >= 60:
            self._since, self._recorded = self._clock(), 0
        if self._recorded >= self.MOST:
            self._others += 1
            return
        self._recorded += 1
        detail: dict[str, Any] = {"peer": peer, "path": text(path, LONGEST_NAME)}
        if self._others:
            detail["others_before"], self._others = self._others, 0
        self._journal.refused(code, message, caller="nobody", **detail)


def count(meter: Meter, server: str, code: str | None, ms: int | None) -> None:
    """A call that ended, which a gate may still have refused when its turn came."""
    if code is not None and status_of(code) == "blocked":
        meter.turned_away(code)
    else:
        meter.called(server, code, ms)


def code_of(outcome: str | Mapping[str, Any]) -> str | None:
    """The code of a call's outcome: an envelope, or what the ledger says of one that has none."""
    if isinstance(outcome, str):
        return outcome
    return None if outcome["ok"] else str(outcome["error"]["code"])


def weight(result: Mapping[str, Any]) -> int:
    """About how large a large result is: the characters in its blocks. Its JSON would take long to make."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    found = (each for block in blocks if isinstance(block, dict) for each in block.values())
    return sum(len(each) for each in found if isinstance(each, str))


def record_call(
    journal: Journal,
    server: str,
    tool: str,
    arguments: Mapping[str, Any],
    timing: Timing,
    outcome: str | Mapping[str, Any],
    result: Mapping[str, Any],
    size: int,
    *,
    type: str = "tool_call",
    **rest: Any,
) -> None:
    """One call of a tool: its envelope or, without one, its status; what is shown of its result."""
    queue_ms, ms = timing.spent()
    code = None
    status = outcome if isinstance(outcome, str) else "ok"
    if not isinstance(outcome, str) and not outcome["ok"]:
        code = outcome["error"]["code"]
        status = status_of(code)
    journal.record(
        type,
        status,
        code=code,
        server=server,
        tool=tool,
        ms=ms,
        seen=size,
        detail={**texts("arguments", arguments, journal.most), "queue_ms": queue_ms, **result},
        **rest,
    )


def texts(key: str, value: Any, most: int) -> dict[str, Any]:
    """The beginning of a value's JSON, and whether there was more; nothing for nothing."""
    if not value:
        return {}
    shown, whole = json_text(value, most)
    return {key: shown} if whole else {key: shown, f"{key}_cut": True}


def cut(key: str, whole: bytes, most: int) -> dict[str, Any]:
    """The beginning of an encoded text, and whether there was more."""
    far = 4 * (most + BEYOND)
    begun = whole[:far].decode("utf-8", "ignore")
    shown = {key: text(begun, most)}
    return shown | {f"{key}_cut": True} if len(begun) > most or len(whole) > far else shown
