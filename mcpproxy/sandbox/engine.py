"""The engine in a VM process: what JavaScript sees of the world, and the parser beside it.

Both are made before the fork. `Engine` runs one script; `Parser` sees sources, never a running
script. Between them and the daemon there is one `Line`.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import resource
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import _quickjs as quickjs  # not `quickjs`: that starts a thread, and forking wants just one
import ada_url

from mcpproxy.sandbox import frames

FIRST_LINE = 2_000_000
"""Our own code is compiled as if it stood below this line, so that its stack frames can be told from
the script's: a script has at most 2^20 bytes, hence fewer lines."""

STACK_BYTES = 6 * 2**20
"""The most of the C stack that calls may take; past it the engine throws a RangeError."""


def stack_bytes() -> int:
    """Three quarters of the stack that a main thread has, which is 8 MiB nearly everywhere."""
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return STACK_BYTES if soft == resource.RLIM_INFINITY else min(STACK_BYTES, soft // 4 * 3)


SHORT_BYTES, READ_BYTES = 2**12, 2**20
"""The most that is read at once: of a frame whose length isn't known yet, and of the rest of one."""
MOST_KEPT = 2**28
"""Bytes of answers that are kept where nothing else is said."""
MOST_RANDOM = 2**16
LONGEST_URL = 2**22
"""Characters. Of a longer one each part is copied several times, out of reach of the engine's limit."""


def asset(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


class Line:
    """The socket to the daemon. A bare descriptor: each page that is touched is copied anew.

    Who sends reads as well: a daemon that takes no more calls for now may itself wait until its answers are read.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._readable, self._either = select.poll(), select.poll()
        self._readable.register(descriptor, select.POLLIN)
        self._either.register(descriptor, select.POLLIN | select.POLLOUT)
        self._begun = b""
        """What was read beyond the last frame."""
        self.kept: deque[bytes] = deque()
        """Answers that came while something else was waited for."""
        self.room = MOST_KEPT
        """Bytes of such answers that there may yet be. They are the script's, though JavaScript has yet to see them."""

    def send(self, text: bytes) -> None:
        data = memoryview(frames.pack(text))
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                for _, events in self._either.poll():
                    if not events & select.POLLOUT:
                        self.keep(self._frame())
            except OSError:
                os._exit(0)  # the daemon hung up: there is nobody left to run for

    def keep(self, frame: bytes) -> None:
        self.kept.append(frame)
        self.room -= len(frame)
        if self.room < 0:
            os._exit(frames.OUT_OF_MEMORY)

    def take(self) -> bytes:
        """The first that was kept."""
        frame = self.kept.popleft()
        self.room += len(frame)
        return frame

    def receive(self, seconds: float | None = None) -> bytes | None:
        """The next frame, or None when `seconds` pass without one. Ends the process on EOF."""
        if seconds is not None and not self._begun:
            if not self._readable.poll(max(0.0, seconds) * 1000):
                return None
        return self._frame()

    def _frame(self) -> bytes:
        found, self._begun = self._begun or self._read(SHORT_BYTES), b""
        while len(found) < frames.HEADER.size:
            found += self._read(SHORT_BYTES)
        end = frames.HEADER.size + int.from_bytes(found[: frames.HEADER.size], "big")
        if len(found) >= end:
            self._begun = found[end:]
            return found[frames.HEADER.size : end]
        pieces, left = [found[frames.HEADER.size :]], end - len(found)
        while left:
            pieces.append(self._read(min(left, READ_BYTES)))
            left -= len(pieces[-1])
        return b"".join(pieces)

    def _read(self, most: int) -> bytes:
        while True:
            self._readable.poll()
            try:
                data = os.read(self._descriptor, most)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                os._exit(0)
            return data


class Engine:
    """A context with the prelude in it, made before the fork and used once after it."""

    def __init__(self) -> None:
        self.line: Line | None = None
        self.settled = False
        self.timers: list[tuple[float, int]] = []
        self.told: Callable[[str], str] = str
        """A stack in the lines and columns of the script's source."""
        self.context = quickjs.Context()
        self.context.set_max_stack_size(stack_bytes())
        doors: dict[str, Callable[..., Any]] = {
            "send": self._send,
            "ask": self._ask,
            "settled": self._settled,
            "sleep": self._sleep,
            "random": self._random,
            "url": self._url,
            "place": self._place,
        }
        for name, function in doors.items():
            self.context.add_callable(name, guarded(function))
        names = ", ".join(doors)
        build = self.context.eval(
            f"({names}) => {{ const host = {{ {names} }};"
            + "\n" * FIRST_LINE
            + f"const made = {asset('prelude.js')}(host);\n{asset('helpers.js')}(made);\n{asset('english.js')}(made);\nreturn made.call; }}"
        )
        handles = [self.context.get(name) for name in doors]
        self.context.eval("".join(f"delete globalThis.{name};" for name in doors))
        self.call: Callable[..., Any] = build(*handles)

    # What JavaScript calls.

    def _send(self, text: str) -> bool:
        """Whether it was sent; the daemon takes no frame that is longer, or of more values."""
        assert self.line is not None
        data = text.encode()
        if len(data) > frames.MAX_FROM_VM or frames.too_many(data):
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
            self.line.keep(frame)

    def _settled(self) -> None:
        self.settled = True

    def _sleep(self, number: int, milliseconds: float) -> None:
        heapq.heappush(self.timers, (time.monotonic() + milliseconds / 1000, number))

    def _random(self, count: int) -> str:
        return os.urandom(min(int(count), MOST_RANDOM)).hex()

    def _place(self, stack: str) -> str:
        return self.told(stack)

    def _url(self, what: str, url: str, value: str, given: bool) -> str:
        """Ada's view of a URL as JSON, "" when there is none."""
        if len(url) + len(value) > LONGEST_URL:
            return ""
        try:
            if what == "parse":
                found = ada_url.URL(url, value) if given else ada_url.URL(url)
            elif what in URL_PARTS:
                found = ada_url.URL(url)
                setattr(found, what, value)
            else:
                return ""
        except ValueError:
            return ""
        return json.dumps({part: getattr(found, part) for part in URL_PARTS})


def guarded(door: Callable[..., Any]) -> Callable[..., Any]:
    """A door that no exception leaves: the engine would hand it to the script, and the binding end the process.

    It gives null where it is called as our own half never does, since a script may change what that leans on.
    """

    def call(*given: Any) -> Any:
        try:
            return door(*given)
        except MemoryError:
            os._exit(frames.OUT_OF_MEMORY)
        except Exception:
            return None

    return call


URL_PARTS = (
    "href", "origin", "protocol", "username", "password", "host",
    "hostname", "port", "pathname", "search", "hash",
)  # fmt: skip


class Parser:
    """The second context: it sees sources, never a running script."""

    def __init__(self) -> None:
        self._context = quickjs.Context()
        self._context.set_max_stack_size(stack_bytes())
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
