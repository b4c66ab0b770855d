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
import select
import struct
import sys
import time
from _socket import socketpair  # `socket` brings a megabyte along
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import _quickjs as quickjs  # not `quickjs`: that starts a thread, and forking wants just one
import ada_url

from mcpproxy.sandbox import frames
from mcpproxy.sandbox.places import Places
from mcpproxy.sandbox.positions import code_points, utf16_units
from mcpproxy.sandbox.source import plain

FIRST_LINE = 2_000_000
"""Our own code is compiled as if it stood below this line, so that its stack frames can be told from
the script's: a script has at most 2^20 bytes, hence fewer lines."""

STACK_BYTES = 2 * 2**20
"""Of the 8 MiB C stack that a main thread has; past it the engine throws a RangeError."""

PARSER_STACK_BYTES = 4 * 2**20
SPARE_BYTES = 32 * 2**20
"""Extra memory for reporting how a script ended that had used up its own."""

READ_BYTES = 2**20
"""The most that is read at once."""

JOB = struct.Struct("!QQI4i")
"""What a job begins with: the memory that the script may use and the size of the largest result, in
bytes; how many bytes of what follows are a program that is ready; the seed of its random numbers. Then
the program and its input as JSON, or without one, JSON: source, language, compiled, refusal, input."""

NOT_THERE_EITHER = re.compile("import|export|'@'")
TYPED = '. This is TypeScript: send it with language "typescript"'

OUT_OF_MEMORY = 86
"""Exit status of a process that could not even say that its memory was used up."""


def asset(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


class Line:
    """The socket to the daemon, blocking. A bare descriptor: each page that is touched is copied anew."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, text: bytes) -> None:
        data = frames.pack(text)
        try:
            while (sent := os.write(self._descriptor, data)) < len(data):
                data = data[sent:]
        except OSError:
            os._exit(0)  # the daemon hung up: there is nobody left to run for

    def receive(self, seconds: float | None = None) -> bytes | None:
        """The next frame, or None when `seconds` pass without one. Ends the process on EOF."""
        if seconds is not None:
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLIN)
            if not waiting.poll(max(0.0, seconds) * 1000):
                return None
        return self._read(int.from_bytes(self._read(frames.HEADER.size), "big"))

    def _read(self, size: int) -> bytes:
        data = self._piece(size)
        if len(data) == size:
            return data
        pieces, left = [data], size - len(data)
        while left:
            pieces.append(self._piece(left))
            left -= len(pieces[-1])
        return b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        try:
            data = os.read(self._descriptor, min(size, READ_BYTES))
        except OSError:
            data = b""
        if not data and size:
            os._exit(0)
        return data


class Engine:
    """A context with the prelude in it, made before the fork and used once after it."""

    def __init__(self) -> None:
        self.line: Line | None = None
        self.settled = False
        self.timers: list[tuple[float, int]] = []
        self.answers: deque[bytes] = deque()
        self.told: Callable[[str], str] = str
        """A stack in the lines and columns of the script's source."""
        self.context = quickjs.Context()
        self.context.set_max_stack_size(STACK_BYTES)
        doors = {
            "send": self._send,
            "ask": self._ask,
            "settled": self._settled,
            "sleep": self._sleep,
            "random": self._random,
            "url": self._url,
            "place": self._place,
        }
        for name, function in doors.items():
            self.context.add_callable(name, function)
        names = ", ".join(doors)
        build = self.context.eval(
            f"({names}) => {{ const host = {{ {names} }};"
            + "\n" * FIRST_LINE
            + f"const made = {asset('prelude.js')}(host);\n{asset('helpers.js')}(made);\nreturn made.call; }}"
        )
        handles = [self.context.get(name) for name in doors]
        self.context.eval("".join(f"delete globalThis.{name};" for name in doors))
        self.call: Callable[..., Any] = build(*handles)

    # What JavaScript calls. No exception may cross into the engine.

    def _send(self, text: str) -> bool:
        """Whether it was sent; the daemon takes no frame that is longer."""
        assert self.line is not None
        data = text.encode()
        if len(data) > frames.MAX_FROM_VM:
            return False
        self.line.send(data)
        return True

    def _ask(self, text: str, number: int) -> str:
        """Send a question and wait for its answer; answers to others are kept for later.

        "" for one that is too long to be sent.
        """
        assert self.line is not None
        if not self._send(text):
            return ""
        wanted = b"%d " % number
        while True:
            frame = self.line.receive()
            assert frame is not None
            if frame.startswith(wanted):
                return frame[len(wanted) :].decode()
            self.answers.append(frame)

    def _settled(self) -> None:
        self.settled = True

    def _sleep(self, number: int, milliseconds: float) -> None:
        heapq.heappush(self.timers, (time.monotonic() + milliseconds / 1000, number))

    def _random(self, count: int) -> str:
        return os.urandom(int(count)).hex()

    def _place(self, stack: str) -> str:
        return self.told(stack)

    def _url(self, what: str, url: str, value: str, given: bool) -> str:
        """Ada's view of a URL as JSON, "" when there is none."""
        try:
            if what == "parse":
                found = ada_url.URL(url, value) if given else ada_url.URL(url)
            else:
                found = ada_url.URL(url)
                setattr(found, what, value)
        except ValueError:
            return ""
        return json.dumps({part: getattr(found, part) for part in URL_PARTS})


URL_PARTS = (
    "href", "origin", "protocol", "username", "password", "host",
    "hostname", "port", "pathname", "search", "hash",
)  # fmt: skip


class Parser:
    """The second context: it sees sources, never a running script."""

    def __init__(self) -> None:
        self._context = quickjs.Context()
        self._context.set_max_stack_size(PARSER_STACK_BYTES)
        self._context.eval(asset("vendor/acorn.js"))
        self._context.eval(f"globalThis.program = {asset('program.js')}")
        self._later = {
            "explain": typescript_parser(),
            "blame": fault_finder(),
            "thrown": fault_finder(),
        }
        """What only failed scripts need, by the question that needs it."""

    def ask(self, name: str, about: object) -> Any:
        """The answer of `program.js`; `{"error"}` when the engine itself gives up."""
        if (needed := self._later.pop(name, None)) is not None:
            self._context.eval(needed)
        self._context.set("about", json.dumps(about))
        try:
            return json.loads(self._context.eval(f"program.{name}(about)"))
        except (quickjs.JSException, quickjs.StackOverflow) as error:
            return {"error": str(error).partition("\n")[0], "offset": None}


def typescript_parser() -> str:
    module = asset("vendor/acorn-typescript.js").replace(
        'import * as acornNamespace from "acorn";', "const acornNamespace = acorn;"
    )
    module = re.sub(r"export \{\s*tsPlugin\s*\};", "return {tsPlugin};", module)
    return f"globalThis.acornTypescript = (() => {{{module}}})(); 0"


def fault_finder() -> str:
    return f"Object.assign(program, {asset('faults.js')}(program.parse)); 0"


def scalar(text: str) -> str:
    """The text with U+FFFD in place of each half of a surrogate pair, which UTF-8 can't hold."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Run:
    """One script: from its job to its last frame."""

    def __init__(self, line: Line, engine: Engine, parser: Parser, job: bytes) -> None:
        self._line = line
        self._engine = engine
        self._parser = parser
        self._frame = job
        self._memory, self._largest, self._ready, *self._seed = JOB.unpack_from(job)
        self._mode = "plain"
        self._peak = peak_bytes()
        engine.line = line
        engine.told = lambda stack: self._places.told(stack)

    def run(self) -> None:
        if end := self._ready and JOB.size + self._ready:
            self._execute(self._frame[JOB.size : end].decode(), self._frame[end:].decode())
        elif self._prepare():
            program = scalar(self._places.positions.program)
            self._execute(program, json.dumps(self._job["input"]))
        else:
            return
        self._report()

    @cached_property
    def _job(self) -> dict[str, Any]:
        """What the daemon sent: of a program that was ready, only what an error needs to know."""
        text = self._frame[JOB.size :]
        if self._ready:
            return {"source": text[: self._ready].decode(), **PLAIN}
        found: dict[str, Any] = json.loads(text)
        return found

    @cached_property
    def _places(self) -> Places:
        return Places(self._job["source"], self._job["language"], self._parser)

    # from source to program

    def _prepare(self) -> bool:
        """Whether there is a program to run; what is wrong with the source is told otherwise."""
        places, positions = self._places, self._places.positions
        if (refusal := self._job["refusal"]) is not None:
            found = self._parser.ask("explain", positions.source)
            place = found.get("offset")
            return self._bad_syntax(
                found.get("error") or refusal, "" if place is None else places.of_source(place)
            )
        if self._job["compiled"] is not None:
            positions.compiled(self._job["compiled"])
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

    def _fault(self, found: dict[str, Any]) -> tuple[str, str]:
        """What the parser finds wrong with the text, and a stack that says where."""
        place, message = found["offset"], found["error"]
        if self._job["language"] == "javascript" and not NOT_THERE_EITHER.search(message):
            if self._parser.ask("explain", self._places.positions.source) == {}:
                message += TYPED
        return message, "" if place is None else self._places.of_text(place)

    def _bad_syntax(self, message: str, stack: str) -> bool:
        self._fail("syntax", f"SyntaxError: {message}", stack)
        return False

    # the program

    def _execute(self, program: str, given: str) -> None:
        """`given` is the input as JSON."""
        engine = self._engine
        engine.context.set_memory_limit(self._memory)
        if engine.call("run", program, self._mode, given, *self._seed):
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
        if engine.answers:
            return engine.answers.popleft().decode()
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

    def _report(self) -> None:
        limit = self._memory
        self._engine.context.set_memory_limit(limit + SPARE_BYTES)
        text = self._engine.call("report")
        if text.startswith('{"t":"done"'):
            self._done(text)
            return
        frame = json.loads(text)
        stack = frame["stack"]
        if frame["message"] in WITHOUT_MEMORY and peak_bytes() - self._peak > limit // 2:
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
        # The engine compiles a regular expression when it comes to it.
        if "error" in found and (not compiles or found["error"].startswith("Invalid regular")):
            message, frame["stack"] = self._fault(found)
            frame["message"] = f"SyntaxError: {message}"
            return True
        return not compiles

    def _done(self, text: str) -> None:
        data = text.encode()
        start = text.index('"value":') + len('"value":')  # all before it is ASCII
        size = len(data) - start - 1
        if size > self._largest:
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


def peak_bytes() -> int:
    """The most memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


PLAIN: dict[str, Any] = {"language": "javascript", "compiled": None, "refusal": None}


def rehearse(engine: Engine, parser: Parser) -> None:
    """Go all the way that a script goes: what a first use makes or touches is then there."""
    near, far = socketpair()
    line = Line(near.fileno())
    unprepared = json.dumps({"source": "return await 0", "input": {}, **PLAIN}).encode()
    for ready, rest in ((0, unprepared), (1, b"0{}")):
        far.sendall(frames.pack(JOB.pack(2**28, 2**20, ready, 1, 2, 3, 4) + rest))
        frame = line.receive()
        assert frame is not None
        Run(line, engine, parser, frame).run()
        far.recv(64)
        engine.call("reset")
        engine.settled = False
    engine.call("compiles", '"0"')
    engine.told = str
    engine.line = None
    near.close()
    far.close()


def work(line: Line, engine: Engine, parser: Parser) -> NoReturn:
    """Wait for a job, do it, and end this process."""
    try:
        frame = line.receive()
        assert frame is not None
        Run(line, engine, parser, frame).run()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except (quickjs.JSException, quickjs.StackOverflow) as error:
        # The engine gave up in a place of ours: with its memory used up, or in a callback that
        # nobody waits for (queueMicrotask).
        kind = "memory" if "out of memory" in str(error) else "error"
        message = str(error).partition("\n")[0][:1000]
        failed = {"t": "failed", "kind": kind, "message": message, "stack": "", "dropped": 0}
        line.send(json.dumps(failed).encode())
    # The daemon reads the last frame and hangs up; dying first would race with it.
    line.receive()
    os._exit(0)
