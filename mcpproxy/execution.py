"""One script from request to reply.

The driver around `script.py`: it owns the VM, the deadline and the calls under way, and does what
the state machine says. When it ends, for whatever reason, what was in flight is cancelled upstream
before anyone is told, and so is the VM killed, unless it has said its last word: it can do nothing
more, and is killed with the order for its successor.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import anyio
import pydantic_core

from mcpproxy import endings, gates, hints
from mcpproxy.bulk import uncollected
from mcpproxy.calls import Call
from mcpproxy.catalog import Catalog, Tool
from mcpproxy.envelopes import Reply, Told, answer_text, to_json, toolcall_envelope
from mcpproxy.errors import CallError, WorkerError
from mcpproxy.journal.trail import Timing, Trail
from mcpproxy.questions import Answers, Questions
from mcpproxy.request import Request
from mcpproxy.sandbox.frames import OUT_OF_MEMORY, BadFrame, too_many
from mcpproxy.sandbox.job import Wanted, pack
from mcpproxy.sandbox.pool import Pool
from mcpproxy.sandbox.source import scalar, unfenced
from mcpproxy.sandbox.transformer import Transformer
from mcpproxy.sandbox.vm import Vm
from mcpproxy.sandbox.work import Work
from mcpproxy.script import (
    Answer,
    Command,
    Dispatch,
    Misbehaved,
    Note,
    Outcome,
    Question,
    Script,
)

logger = logging.getLogger(__name__)
console = logging.getLogger("mcpproxy.console")

CallCount = Callable[[int, str], Awaitable[None]]
"""Told after each call: how many are done, and the last one as "server:tool"."""

RESULT = b'{"t":"done"'
"""How a script's result begins, which may have as many values as bytes, but comes only once."""
FRAMES_AT_ONCE, TURN_SECONDS = 32, 0.002
"""After so many frames of one script, or so long, it is the others' turn."""
CALL = b'{"t":"call",'
"""How the prelude begins a frame that asks for a call."""
ANSWERED_AT_ONCE = 4
"""Questions of one script about the catalog, of those that take time."""


class Upstreams(Protocol):
    """What an execution needs of the fleet, as its caller sees it."""

    @property
    def catalog(self) -> Catalog: ...

    def find(self, server: str, tool: str) -> Tool | None: ...

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        started: Callable[[], None] = ...,
    ) -> dict[str, Any]: ...

    async def known(self, names: list[str] | None = None) -> None: ...


class BrokenProtocol(WorkerError):
    """The VM sent what its prelude never sends; it is still there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an execution may use, as configured when it began."""

    memory_mb: int
    max_result_bytes: int
    max_parallel: int
    queue_seconds: float


class Execution:
    """One run of one request; use `run` once."""

    def __init__(
        self,
        request: Request,
        limits: Limits,
        pool: Pool,
        transformer: Transformer,
        upstreams: Upstreams,
        answers: Answers,
        request_id: str,
        progress: CallCount | None = None,
        trail: Trail | None = None,
    ) -> None:
        self._request = request
        self._limits = limits
        self._pool = pool
        self._transformer = transformer
        self._upstreams = upstreams
        self._questions = Questions(upstreams, answers)
        self._asked: deque[Question] = deque()
        self._answering = 0
        self._id = request_id
        self._progress = progress
        self._trail = trail
        self._budget = gates.Budget(request.max_tool_calls)
        self._script = Script(
            check=self._check_and_note, parallel=limits.max_parallel, now=time.monotonic
        )
        self._room = anyio.Event()
        self._done = 0
        self.seen = 0
        """Bytes that the script was given in answers."""
        self.called: dict[str, str] = {}
        """The tools that were called, as "server:tool", and the hashes of their schemas."""
        self._scope = anyio.CancelScope()
        self._stopped: str | None = None
        self._warnings = list(request.warnings)
        self.language = request.language
        """The one that it was run in."""

    async def run(self) -> Reply:
        """Run it to its end. Cancelling this kills the VM and cancels the calls in flight."""
        outcome: Outcome | None = None
        with self._scope:
            try:
                async with self._pool.vm(self._limits.queue_seconds) as vm:
                    if self._trail is not None:
                        self._trail.started()
                    outcome = await self._within_time(vm)
            except WorkerError as error:
                outcome = Outcome(ok=False, code=error.code, message=str(error))
            finally:  # a script chooses how much that is, and we are in a cycle that is found late
                self._asked.clear()
                self._script.close()
        return self._reply(outcome or endings.interrupted(self._script, self._stopped))

    def stop(self, reason: str) -> None:
        """End it now, whatever it does; `run` then replies with CANCELLED and this reason."""
        self._stopped = reason
        self._scope.cancel()

    async def _within_time(self, vm: Vm) -> Outcome:
        crash: WorkerError | None = None
        with anyio.move_on_after(self._request.timeout_ms / 1000):
            crash = await self._drive(vm)
        if crash is not None:
            return await self._crashed(vm, crash)
        return self._script.outcome or endings.timed_out(self._script, self._request.timeout_ms)

    async def _drive(self, vm: Vm) -> WorkerError | None:
        """Feed the state machine until it has an outcome; an error is how the VM ended without one."""
        job = await self._job()
        script = self._script
        crash: WorkerError | None = None
        async with anyio.create_task_group() as tasks:
            work = Work(vm, tasks)
            vm.takes = partial(self._takes, work)
            work.post(job)
            try:
                while script.outcome is None:
                    frames = await vm.receive()
                    turn = time.monotonic() + TURN_SECONDS
                    for n, frame in enumerate(frames, 1):
                        self._heard(frame, work)
                        if n % FRAMES_AT_ONCE == 0 or time.monotonic() > turn:
                            await anyio.lowlevel.checkpoint()
                            await self._caught_up(work)
                            turn = time.monotonic() + TURN_SECONDS
                    await self._caught_up(work)
            except WorkerError as error:
                crash = error
            except (BadFrame, Misbehaved) as error:
                logger.error("%s: the VM sent what its prelude never sends: %s", self._id, error)
                crash = BrokenProtocol(f"it broke its protocol: {error}")
            vm.finished = crash is None
            said = (endings.unawaited(script, self._request.source), script.warning)
            self._warnings += [each for each in said if each]
            work.end()
        return crash

    async def _caught_up(self, work: Work) -> None:
        """Until no more is under way, or has yet to be read by the VM, than there may be."""
        while self._script.crowded and self._script.outcome is None:
            self._room = anyio.Event()
            await self._room.wait()
        if self._script.outcome is None:
            await work.read()

    def _takes(self, work: Work, frame: bytes) -> bool:
        """Begin a call as it comes, which no task is started for; all else is for `_drive` to hear."""
        if not (work.idle and frame.startswith(CALL)) or work.unread or self._script.crowded:
            return False
        self._heard(frame, work)
        return True

    def _heard(self, frame: bytes, work: Work) -> None:
        for command in self._script.heard(read_frame(frame), len(frame)):
            self._do(command, work)

    async def _job(self) -> bytes:
        request = self._request
        source = scalar(unfenced(request.source))
        compiled, refused = None, None
        if request.language == "typescript":
            done = await self._transformer.transform(source)
            compiled, refused = done.text, done.refusal
        wanted = Wanted(
            source=source,
            language=request.language,
            compiled=compiled,
            refusal=refused,
            input=request.input_text,
        )
        limits = self._limits
        return pack(wanted, limits.memory_mb * 2**20, limits.max_result_bytes)

    def _do(self, command: Command, work: Work) -> None:
        match command:
            case Answer(number, body):
                text = answer_text(body)
                self.seen += len(text)
                work.post(b"%d " % number + text)
            case Dispatch(call):
                work.start(self._call, call, work)
            case Question(number, "typescript"):
                work.start(self._retype, number, work)
            case Question():
                if self._questions.takes_time(command):
                    self._asked.append(command)
                    if self._answering < ANSWERED_AT_ONCE:
                        self._answering += 1
                        work.start(self._answer_those, work)
                else:
                    self._answered(command, self._questions.answer_now(command), work)
            case Note(level, text):
                severity = logging.WARNING if level in ("warn", "error") else logging.INFO
                console.log(severity, "%s console.%s: %s", self._id, level, text)

    async def _retype(self, number: int, work: Work) -> None:
        """Answer what the source becomes as TypeScript, which it turned out to be; null where it is none."""
        text: str | None = None
        if self.language == "javascript" and not self._script.ledger()[0]:  # nothing runs twice
            self.language = "typescript"  # once: a VM that lies could ask for ever
            done = await self._transformer.transform(scalar(unfenced(self._request.source)))
            text = done.text
        work.post(b"%d " % number + json.dumps(text).encode())

    # calls

    def _check(self, server: str, tool: str, arguments: dict[str, Any]) -> None:
        """The gates, in order; see `gates.py`."""
        self._budget.charge()
        gates.check_allowed(server, self._request.allowed_servers)
        if (found := self._upstreams.find(server, tool)) is not None:
            gates.check_arguments(found, arguments)
            if (name := f"{server}:{tool}") not in self.called:
                self._warnings += gates.ignored(found, arguments)
            self.called[name] = found.schemas

    def _check_and_note(self, server: str, tool: str, arguments: dict[str, Any]) -> None:
        try:
            self._check(server, tool, arguments)
        except CallError as error:
            if self._trail is not None:
                self._trail.refused(server, tool, arguments, error.code)
            raise

    async def _call(self, call: Call, work: Work) -> None:
        timing, arguments = Timing(), call.arguments
        envelope: Told | None = None
        try:
            if work.unread:
                await work.read()
            envelope = Told(await self._envelope(call, timing))
            for command in self._script.finished(call, envelope):
                self._do(command, work)
        finally:
            # While the script goes on with the answer. Its own reply comes after this all the same.
            if self._trail is not None:
                outcome = call.outcome if envelope is None else envelope
                self._trail.called(call.server, call.tool, arguments, timing, outcome)
        self._room.set()
        self._done += 1
        if self._progress is not None:
            await self._progress(self._done, f"{call.server}:{call.tool}")

    async def _envelope(self, call: Call, timing: Timing) -> dict[str, Any]:
        def started() -> None:
            timing.now()
            self._script.started(call)

        try:
            result = await self._upstreams.call(
                call.server, call.tool, call.arguments, started=started
            )
        except CallError as error:
            call.in_doubt = error.in_doubt
            return error.envelope()
        return toolcall_envelope(result)

    async def _answer_those(self, work: Work) -> None:
        """Answer what takes time, until nothing is asked. A task for each of thousands would take long to end."""
        while self._asked:
            question = self._asked.popleft()
            await work.read()
            self._answered(question, await self._questions.answer(question), work)
            self._room.set()
        self._answering -= 1

    def _answered(self, question: Question, answer: dict[str, Any], work: Work) -> None:
        self._script.answered(question)
        work.post(b"%d " % question.number + to_json(answer))

    # how it ended

    async def _crashed(self, vm: Vm, crash: WorkerError) -> Outcome:
        if not isinstance(crash, BrokenProtocol):  # that one runs on until it is killed
            with anyio.move_on_after(1):
                await vm.ended.wait()
        if vm.status == OUT_OF_MEMORY:
            message = endings.out_of_memory(self._limits.memory_mb)
            return Outcome(ok=False, code="MEMORY_LIMIT", message=message)
        if vm.status == -signal.SIGSYS:
            logger.error("%s: the VM was killed for a system call that it may not make", self._id)
        if vm.ended.is_set() and vm.status is None:
            return endings.taken_along(self._script)
        return endings.crashed(self._script, str(crash), vm.status)

    def _reply(self, outcome: Outcome) -> Reply:
        script = self._script
        if outcome.ok:
            envelope: dict[str, Any] = {"ok": True, "value": outcome.value}
            source, catalog = self._request.source, self._upstreams.catalog
            self._warnings += hints.swallowed(outcome.value, script.logs, source, catalog)
        else:
            envelope = {"ok": False, "error": self._error(outcome)}
        if script.logs:
            envelope["logs"] = script.logs
        if script.logs_dropped:
            envelope["logs_dropped"] = script.logs_dropped
        if self._warnings:
            envelope["warnings"] = self._warnings
        if not outcome.ok or self._request.trace:
            entries, omitted = script.ledger()
            if entries or self._request.trace:
                envelope["calls"] = entries
            if omitted:
                envelope["calls_omitted"] = omitted
        return Reply(outcome.ok, envelope)

    def _error(self, outcome: Outcome) -> dict[str, Any]:
        message = outcome.message
        if outcome.code == "MEMORY_LIMIT":
            message = endings.out_of_memory(self._limits.memory_mb)
        catalog = self._upstreams.catalog
        request, script = self._request, self._script
        if advice := hints.advice(
            outcome.code, message, request.source, catalog, request.input, script.gave, script.logs
        ):
            message = f"{message}. {advice}"
        if outcome.code == "SERIALIZATION_ERROR":
            message += endings.had_effect(script, catalog)
        return {"code": outcome.code, "message": message, "stack": outcome.stack, **outcome.extra}


def read_frame(frame: bytes) -> object:
    """A frame's JSON. Raises `Misbehaved` for bytes that are none, or too much to be read in one go."""
    if not frame.startswith(RESULT) and too_many(frame):
        raise Misbehaved("more values than can be sent at once")
    try:
        with uncollected(len(frame)):
            try:
                return pydantic_core.from_json(frame, cache_strings="keys")
            except ValueError:  # half a surrogate pair, which is JSON, or deep nesting
                return json.loads(frame)
    except (ValueError, RecursionError) as error:
        raise Misbehaved(str(error)) from error
