"""The life of one script as a state machine, with no process and no clock.

Feed it what happened and it answers with what to do. The driver (`execution.py`) owns the process
and the time and has no opinions; what may be called, in which order, and what the ledger says is
decided here, where a test can make ten thousand histories a second.

    a frame from the VM ────┐
    a call went on the wire ┼─► Script ─► Dispatch (a call) | Answer (the VM) | Note (a console line)
    a call ended ───────────┤
    it is over ─────────────┘        ...until `script.outcome` is set
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcpproxy.calls import Batch, Call, Lane
from mcpproxy.errors import CallError

LEDGER_ENTRIES = 100

MAX_BATCH = 100
MAX_PARALLEL = 32
CROWD, CROWD_ASKING, CROWD_BYTES = 20_000, 1000, 16 * 2**20
"""Calls and questions that may wait for their turn, and the bytes of their frames; past any of them, nothing
more is read from the VM for a while."""
MAX_LOGGED = 2**18
"""Bytes of console lines, as frames. The prelude stops at 65,536 characters, and counts the rest."""

LONGEST_WARNING = 1000
LOG_LEVELS = frozenset({"log", "info", "warn", "error", "debug"})
FINAL_CODES = frozenset({"INVALID_ARGS", "MAX_TOOL_CALLS_EXCEEDED", "SERVER_NOT_ALLOWED"})
"""Refusals that fail the whole execution when they are its value."""


class Misbehaved(Exception):
    """The VM sent a frame that its own prelude never sends: something else writes on its socket."""


def _over(server: str, tool: str, arguments: dict[str, Any]) -> None:
    """The gates of a script that is over: whoever drove it isn't kept by it."""
    raise CallError("CANCELLED", "the script is over")


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send this call upstream and report with `started` and `finished`."""

    call: Call


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell the VM."""

    number: int
    body: Any


@dataclass(frozen=True, slots=True)
class Question:
    """Something about the catalog that the VM wants to know."""

    number: int
    what: str
    about: dict[str, Any]
    size: int = 0
    """Bytes it came in."""


@dataclass(frozen=True, slots=True)
class Note:
    """A console line, for the server's log."""

    level: str
    text: str


Command = Dispatch | Answer | Question | Note


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the script ended by its own account; what the driver adds (time, a dead process) is its own."""

    ok: bool
    value: Any = None
    code: str = ""
    message: str = ""
    stack: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


KINDS = {
    "syntax": "SYNTAX_ERROR",
    "error": "RUNTIME_ERROR",
    "memory": "MEMORY_LIMIT",
    "serialization": "SERIALIZATION_ERROR",
}
UNWRITABLE = "Result contains non-JSON-serializable values (functions, circular references, etc.)"


class Script:
    """See the module. `check` is the gates: it raises `CallError` for a call that must not go out."""

    def __init__(
        self,
        *,
        check: Callable[[str, str, dict[str, Any]], None],
        parallel: int,
        now: Callable[[], float],
    ) -> None:
        self._check = check
        self._parallel = parallel
        self._now = now
        self._typed = Lane(parallel)
        self._lanes: dict[int, Lane] = {}  # by the number of a call that runs
        self._refused: set[str] = set()
        self._made = 0
        self._size = 0
        self._held = 0
        self._asking = 0
        self._logged = 0
        self._ledger: list[Call] = []
        self._in_doubt: list[Call] = []
        self._open: dict[int, Call] = {}
        self.logs: list[dict[str, str]] = []
        self.logs_dropped = 0
        self.warning = ""
        """What the VM noticed of failures that the script didn't."""
        self.gave: dict[Any, Any] = {}
        """What tools gave, by "server:tool", in the VM's words."""
        self.unread = 0
        """Calls whose answers the script hadn't had when it ended, as the VM says."""
        self.outcome: Outcome | None = None

    # what the VM says

    def heard(self, frame: Any, size: int = 0) -> list[Command]:
        """Commands that follow from a frame of `size` bytes.

        Raises `Misbehaved` for what is no frame of ours.
        """
        if self.outcome is not None:
            return []
        self._size = size
        match frame:
            case {"t": "call"}:
                return self._lone(frame)
            case {
                "t": "batch",
                "id": int(number),
                "calls": list(calls),
                "max_parallel": parallel,
            } if 0 < len(calls) <= MAX_BATCH:
                return self._batch(number, calls, parallel)
            case {"t": "ask", "id": int(number), "what": str(what), **about}:
                self._asking += 1
                self._held += size
                asked = {str(key): value for key, value in about.items()}
                return [Question(number, what, asked, size)]
            case {"t": "log", "level": str(level), "text": str(text)} if level in LOG_LEVELS:
                self._logged += size
                if self._logged > MAX_LOGGED:
                    raise Misbehaved(f"{self._logged} bytes of console lines")
                self.logs.append({"level": level, "message": text})
                return [Note(level, text)]
            case {"t": "noticed", "warning": str(text), "gave": dict(gave), "unread": int(unread)}:
                self.warning, self.gave, self.unread = text[:LONGEST_WARNING], gave, unread
                return []
            case {"t": "done" | "failed" | "large" as kind, "dropped": int(dropped), **more}:
                self.logs_dropped = dropped
                self.outcome = self._outcome(kind, {str(key): value for key, value in more.items()})
                return []
        raise Misbehaved(str(frame)[:200])

    def _outcome(self, kind: str, more: dict[str, Any]) -> Outcome:
        match kind, more:
            case "done", {"value": value}:
                return Outcome(ok=True, value=value)
            case "large", {"size": int(size), "preview": str(preview)}:
                message = (
                    f"the result has {size:,} bytes ({size}) as JSON, more than code_execution_max_result_bytes allows; "
                    "return a part of it, a count or a summary"
                )
                return Outcome(
                    ok=False,
                    code="RESULT_TOO_LARGE",
                    message=message,
                    extra={"size": size, "preview": preview},
                )
            case "failed", {"kind": "refused", "code": str(code), "message": str(message)} if (
                code == "INVALID_ARGS" or code in self._refused
            ):
                return Outcome(ok=False, code=code, message=message)
            case "failed", {"kind": str(why), "message": str(message), "stack": str(stack)} if (
                why in KINDS
            ):
                # A syntax error comes before the first call, whatever the VM says.
                code = "RUNTIME_ERROR" if why == "syntax" and self._made else KINDS[why]
                if code == "SERIALIZATION_ERROR":
                    message = f"{UNWRITABLE}: {message}"
                return Outcome(ok=False, code=code, message=message, stack=stack)
        raise Misbehaved(f"{kind}: {str(more)[:200]}")

    # calls

    def _request(self, server: str, tool: str, arguments: dict[str, Any], reply: int) -> Call:
        self._made += 1
        call = Call(self._made, server, tool, arguments, reply=reply, size=self._size)
        if len(self._ledger) < LEDGER_ENTRIES:
            self._ledger.append(call)
        return call

    def _gate(self, call: Call) -> dict[str, Any] | None:
        """The envelope of a refusal, or None when the call may go out."""
        try:
            self._check(call.server, call.tool, call.arguments)
        except CallError as error:
            call.outcome, call.code = "error", error.code
            call.forget()
            if error.code in FINAL_CODES:
                self._refused.add(error.code)
            return error.envelope()
        self._open[call.n] = call
        self._held += call.size
        return None

    def _lone(self, frame: dict[str, Any]) -> list[Command]:
        get = frame.get  # a pattern would take half as long as all the rest
        number, server, tool, args = get("id"), get("server"), get("tool"), get("args")
        if not (
            isinstance(number, int)
            and isinstance(server, str)
            and isinstance(tool, str)
            and isinstance(args, dict)
        ):
            raise Misbehaved(str(frame)[:200])
        call = self._request(server, tool, args, number)
        if (refusal := self._gate(call)) is not None:
            return [Answer(number, refusal)]
        lane = self._typed if get("typed") is True else Lane(1)
        lane.waiting.append(call)
        return self._turn(lane)

    def _batch(self, number: int, elements: list[Any], parallel: object) -> list[Command]:
        cap = self._parallel if parallel is None else parallel
        if type(cap) is not int or not 1 <= cap <= MAX_PARALLEL:
            raise Misbehaved(f"max_parallel {cap!r}")
        self._size //= len(elements)
        batch = Batch(number, [None] * len(elements), len(elements))
        lane = Lane(cap)
        for slot, element in enumerate(elements):
            match element:
                case {"server": str(server), "tool": str(tool), "args": dict(args)}:
                    call = self._request(server, tool, args, number)
                case _:
                    raise Misbehaved(f"batch element {slot}")
            call.batch, call.slot = batch, slot
            if (refusal := self._gate(call)) is not None:
                batch.slots[slot] = refusal
                batch.left -= 1
            else:
                lane.waiting.append(call)
        if not batch.left:
            return [Answer(number, batch.slots)]
        return self._turn(lane)

    def _turn(self, lane: Lane) -> list[Command]:
        """Let those go out whose turn it is."""
        commands: list[Command] = []
        while lane.waiting and lane.running < lane.cap:
            call = lane.waiting.popleft()
            lane.running += 1
            self._lanes[call.n] = lane
            call.began = self._now()
            commands.append(Dispatch(call))
        return commands

    @property
    def crowded(self) -> bool:
        """Whether so much waits that the VM should wait, too."""
        calls, questions = len(self._open), self._asking
        return calls >= CROWD or questions >= CROWD_ASKING or self._held >= CROWD_BYTES

    def answered(self, question: Question) -> None:
        """A question is no longer under way."""
        self._asking -= 1
        self._held -= question.size

    # what became of the calls

    def started(self, call: Call) -> None:
        """The call is on the wire: from here on it may have had its effect."""
        call.outcome = "unknown"

    def finished(self, call: Call, envelope: dict[str, Any]) -> list[Command]:
        """The call ended with this envelope."""
        call.ms = round((self._now() - call.began) * 1000)
        call.outcome = "ok" if envelope["ok"] else "unknown" if call.in_doubt else "error"
        if not envelope["ok"]:
            call.code = envelope["error"]["code"]
        self._open.pop(call.n, None)
        self._held -= call.size
        call.forget()
        if call.in_doubt and len(self._in_doubt) < LEDGER_ENTRIES:
            self._in_doubt.append(call)
        lane = self._lanes.pop(call.n)
        lane.running -= 1
        if self.outcome is not None:
            return []
        commands = self._turn(lane)
        if (batch := call.batch) is None:
            commands.append(Answer(call.reply, envelope))
        else:
            batch.slots[call.slot] = envelope
            batch.left -= 1
            if not batch.left:
                commands.append(Answer(batch.reply, batch.slots))
        return commands

    # the ledger

    @property
    def unknown(self) -> list[Call]:
        """Calls on the wire whose outcome nobody knows."""
        return [call for call in self._open.values() if call.outcome == "unknown"]

    @property
    def unawaited(self) -> tuple[int, int]:
        """Calls the script left behind: how many were on the wire, and how many never went out."""
        on_wire = len(self.unknown)
        return on_wire, len(self._open) - on_wire

    def close(self) -> None:
        """Note how long calls have been in flight that nobody waits for any more, and keep no more than is told of them."""
        for call in self.unknown:
            call.ms = round((self._now() - call.began) * 1000)
        for call in self._open.values():
            call.forget()
        self._typed.waiting.clear()
        self._lanes.clear()
        self._check = _over

    def ledger(self) -> tuple[list[dict[str, Any]], int]:
        """The entries to show, at most 100, and how many are left out.

        Those of which nobody knows are always among them: they are what must not be repeated blindly.
        """
        unknown = [*self._in_doubt, *self.unknown]
        late = [call for call in unknown if call.n > LEDGER_ENTRIES][:LEDGER_ENTRIES]
        shown = [*self._ledger[: LEDGER_ENTRIES - len(late)], *late]
        return [call.entry() for call in shown], self._made - len(shown)
