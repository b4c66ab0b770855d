"""The life of a VM process: one script, then gone.

It owns a JavaScript engine and one socket. It trusts nobody and is trusted by nobody: limits, gates
and the clock are the daemon's. What it sends are frames (`frames.py`); what it gets are a job and
the answers to what the script asked.

    job ──► program.js (a parser in a context of its own) ──► prelude.js runs it ──► calls, logs ──► one last frame

Import-light: this module and the engine are all that the fork server loads.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import resource
import sys
import time
from _socket import socketpair  # `socket` brings a megabyte along
from functools import cached_property
from typing import Any, NoReturn

import _quickjs as quickjs  # not `quickjs`: that starts a thread, and forking wants just one

from mcpproxy.sandbox import frames
from mcpproxy.sandbox.engine import Engine, Line, Parser
from mcpproxy.sandbox.job import Job, Wanted, pack
from mcpproxy.sandbox.places import Places
from mcpproxy.sandbox.positions import code_points, utf16_units
from mcpproxy.sandbox.source import plain

SPARE_BYTES = 32 * 2**20
"""Extra memory for reporting how a script ended that had used up its own."""

UNSAID = "(Failed obtaining QuickJS error string."
"""How the binding calls a value that throws when it is made a text."""

NOT_THERE_EITHER = re.compile("import|export|'@'")
"""Faults of a source that TypeScript wouldn't mend."""
NAMED = re.compile(r"\btools[\w$.\[\]'\"-]{0,300}\(\s*[\w$]+\s*\Z")
"""What goes before the colon of an argument with a name, which neither language has."""
TYPED = '. This is TypeScript: send it with language "typescript"'
TO_COMPILE = b'{"t":"ask","id":0,"what":"typescript"}'


class IsTypeScript(Exception):
    """Nothing of the source has run, which is no JavaScript; what it becomes as TypeScript."""


class Run:
    """One script: from its job to its last frame."""

    def __init__(self, line: Line, engine: Engine, parser: Parser, job: Job) -> None:
        self._line = line
        self._engine = engine
        self._parser = parser
        self._job = job
        self._mode = "plain"
        self._peak = peak_bytes()
        engine.line = line
        engine.told = lambda stack: self._places.told(stack)

    def run(self) -> None:
        try:
            self._run()
        except IsTypeScript as found:
            self._engine.call("reset")
            self._job.retype(str(found))
            del self._places
            self._run()

    def _run(self) -> None:
        if self._job.ready:
            self._execute(self._job.ready)
        elif self._prepare():
            self._execute(self._places.positions.program)
        else:
            return
        self._report()

    @cached_property
    def _places(self) -> Places:
        return Places(self._job.wanted["source"], self._job.wanted["language"], self._parser)

    # from source to program

    def _prepare(self) -> bool:
        """Whether there is a program to run; what is wrong with the source is told otherwise."""
        places, positions = self._places, self._places.positions
        if (refusal := self._job.wanted["refusal"]) is not None:
            found = self._parser.ask("explain", positions.source)
            place = found.get("offset")
            return self._bad_syntax(
                found.get("error") or refusal, "" if place is None else places.of_source(place)
            )
        if self._job.wanted["compiled"] is not None:
            positions.compiled(self._job.wanted["compiled"])
        text = positions.text
        if plain(text):
            return True
        plan = self._parser.ask("plan", text)
        if "error" in plan:
            # The engine has the last word: it may know syntax that the parser doesn't yet.
            if not self._engine.call("fits", json.dumps(text)):
                return self._bad_syntax(*self._fault(plan))
            end = utf16_units(text, len(text))
            plan = {"mode": "wrapped", "insert": [[0, "(async function(){"], [end, "\n})"]]}
        self._mode = plan["mode"]
        # JavaScript counts UTF-16 units.
        positions.insert([(code_points(text, offset), piece) for offset, piece in plan["insert"]])
        return True

    def _fault(self, found: dict[str, Any], started: bool = False) -> tuple[str, str]:
        """What the parser finds wrong with the text, and a stack that says where.

        Raises `IsTypeScript` where it need not be wrong, and has not `started`.
        """
        places, place, message = self._places, found["offset"], found["error"]
        if not NOT_THERE_EITHER.search(message):
            in_source = self._parser.ask("explain", places.positions.source)
            if places.positions.text is not places.positions.source:
                if in_source.get("offset") is not None:
                    return in_source["error"], places.of_source(in_source["offset"])
            elif in_source == {}:
                if not started and (compiled := self._compiled()) is not None:
                    raise IsTypeScript(compiled)
                message += "" if NAMED.search(places.positions.text[: place or 0]) else TYPED
            elif "'<'" not in message and (in_source.get("offset") or 0) > (place or 0):
                # It gets further as TypeScript, so that is what it was meant as, unless it is markup.
                message, place = in_source["error"], in_source["offset"]
        return message, "" if place is None else places.of_text(place)

    def _compiled(self) -> str | None:
        """What the source becomes as TypeScript; None where it doesn't."""
        self._line.send(TO_COMPILE)
        frame = self._line.receive()
        assert frame is not None
        text: str | None = json.loads(frame.partition(b" ")[2])
        return text

    def _bad_syntax(self, message: str, stack: str) -> bool:
        self._fail("syntax", f"SyntaxError: {message}", stack)
        return False

    # the program

    def _execute(self, program: str) -> None:
        job = self._job
        engine = self._engine
        engine.context.set_memory_limit(job.memory)
        self._line.room = job.memory
        if engine.call("run", program, self._mode, job.input, *job.seed):
            return
        while not engine.settled:
            if engine.context.execute_pending_job():
                continue
            if (answer := self._next()) is None:
                return
            engine.call("deliver", answer)

    def _next(self) -> str | None:
        """The next answer or timer that is due; None when nothing is left that could wake the script."""
        engine = self._engine
        if self._line.kept:
            return self._line.take().decode()
        if not engine.timers:
            if not engine.call("pending"):
                return None
            frame = self._line.receive()
            assert frame is not None
            return frame.decode()
        due, number = engine.timers[0]
        frame = self._line.receive(due - time.monotonic())
        if frame is not None:
            return frame.decode()
        heapq.heappop(engine.timers)
        return f"{number} null"

    # how it ended

    @property
    def used_much(self) -> bool:
        """Whether it used so much memory that an error without words may be for want of it."""
        return peak_bytes() - self._peak > int(self._job.memory) // 2

    def _report(self) -> None:
        limit = self._job.memory
        self._engine.context.set_memory_limit(limit + SPARE_BYTES)
        text = self._engine.call("report")
        if text.startswith('{"t":"done"'):
            self._done(text)
            return
        frame = json.loads(text)
        stack = frame["stack"]
        without = frame["message"] in WITHOUT_MEMORY or (frame["message"], stack) == WITHOUT_WORDS
        if without and self.used_much:
            frame["kind"] = "memory"
        if frame["kind"] == "syntax" and not self._at_compiling(frame):
            frame["kind"] = "error"  # it compiled: the script threw this one
        if frame["kind"] == "error":
            frame["message"], frame["stack"] = self._places.blamed(frame["message"], stack)
        elif frame["kind"] != "syntax":
            frame["stack"] = self._places.told(stack)
        message = frame["message"] + frame.get("after", "")
        self._fail(frame["kind"], message, frame["stack"], frame["dropped"], frame.get("code"))

    def _at_compiling(self, frame: dict[str, Any]) -> bool:
        """Whether a SyntaxError is one of the program itself; then it is told in the parser's words."""
        places = self._places
        compiles = self._engine.call("compiles", json.dumps(places.positions.program))
        found = self._parser.ask("plan", places.positions.text)
        frame["stack"] = places.told(frame["stack"])
        # What the engine finds only when it comes to it has no stack: regular expressions, private names.
        if "error" in found and not (compiles and frame["stack"]):
            message, frame["stack"] = self._fault(found, started=compiles)
            frame["message"] = f"SyntaxError: {message}"
            return True
        return not compiles

    def _done(self, text: str) -> None:
        data = text.encode()
        start = text.index('"value":') + len('"value":')  # all before it is ASCII
        size = len(data) - start - 1
        if size > self._job.largest:
            preview = data[start : start + PREVIEW_BYTES].decode(errors="ignore")
            dropped = json.loads(text[: start - len(',"value":')] + "}")["dropped"]
            large = {"t": "large", "dropped": dropped, "size": size, "preview": preview}
            data = json.dumps(large).encode()
        self._line.send(data)

    def _fail(
        self, kind: str, message: str, stack: str, dropped: int = 0, code: str | None = None
    ) -> None:
        frame = {
            "t": "failed",
            "kind": kind,
            "message": message,
            "stack": stack,
            "dropped": dropped,
        }
        if code is not None:
            frame["code"] = code
        self._line.send(json.dumps(frame).encode())


PREVIEW_BYTES = 2048

WITHOUT_MEMORY = ("Uncaught null", "SyntaxError: out of memory")
"""What the engine throws without memory for its own error object, and for a regular expression."""
WITHOUT_WORDS = ("SyntaxError", "")
"""The message and stack of the latter without memory for its message."""


def peak_bytes() -> int:
    """The most memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def rehearse(engine: Engine, parser: Parser) -> None:
    """Go all the way that a script goes: what a first use makes or touches is then there."""
    near, far = socketpair()
    line = Line(near.fileno())
    for source in ("return await call_tool('a', 'b', {})", "call_tool('a', 'b', {})"):
        wanted = Wanted(
            source=source, language="javascript", compiled=None, refusal=None, input="{}"
        )
        far.sendall(frames.pack(pack(wanted, 2**28, 2**20)))
        frame = line.receive()
        assert frame is not None
        far.sendall(frames.pack(b'1 {"ok":true,"result":{}}'))
        Run(line, engine, parser, Job(frame)).run()
        far.recv(256)
        engine.call("reset")
        engine.settled = False
    engine.call("compiles", '"0"')
    engine.told = str
    engine.line = None
    near.close()
    far.close()


def work(line: Line, engine: Engine, parser: Parser) -> NoReturn:
    """Wait for a job, do it, and end this process."""
    frame = line.receive()
    assert frame is not None
    run = Run(line, engine, parser, Job(frame))
    try:
        run.run()
    except (MemoryError, SystemError):
        # The latter where the binding could make no text of a result.
        os._exit(frames.OUT_OF_MEMORY)
    except (quickjs.JSException, quickjs.StackOverflow) as error:
        # The engine gave up in a place of ours: with its memory used up, or in a callback that
        # nobody waits for (queueMicrotask).
        message = str(error).partition("\n")[0][:1000]
        without = "out of memory" in message or (message == "null" and run.used_much)
        kind = "memory" if without else "error"
        if message.startswith(UNSAID):
            message = "Uncaught [a value that throws when it is looked at]"
        failed = {"t": "failed", "kind": kind, "message": message, "stack": "", "dropped": 0}
        line.send(json.dumps(failed).encode())
    # The daemon reads the last frame and hangs up; dying first would race with it.
    line.receive()
    os._exit(0)
