"""An MCP server as a child process, spoken to in lines over its stdin and stdout.

What `JSONRPCDispatcher` wants of a transport, without its tasks in between: reading takes time in
proportion to the bytes however long a line is, and sending is one `write` in the usual case. What
the server says on stderr goes to a file of its own; the last of it is kept for error messages.

Nothing of the server is left when the block ends: its stdin is closed, its process group is asked
to end, and then made to. A process that left the group (`setsid`) is beyond our reach. Should the
daemon itself be killed, the kernel kills the child where `setpriv` can arrange it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import anyio
import anyio.abc
import anyio.lowlevel
import mcp_types as types
import pydantic_core
from mcp.shared.message import SessionMessage

logger = logging.getLogger(__name__)

CHUNK = 1 << 18
GRACE = 1.0
"""Seconds for each step of closing: after the end of stdin, after SIGTERM, after SIGKILL."""
AFTERMATH = 0.5
"""Seconds in which the output of a process that ended is still read, if others hold its pipe open."""
LONGEST_MESSAGE = 1 << 28
"""Bytes of one message; who sends more is cut off, before it takes our memory."""
TURN = 64
"""Lines that are handled before others get their turn."""
NOTED = 100
"""Lines per connection that are no messages and are logged; the rest isn't."""
POLL = 0.01
RING = 200
"""Lines of stderr that are kept."""
LONGEST_LINE = 8192
"""Bytes of a line of stderr; what is longer is cut into several."""


@dataclass(frozen=True, slots=True)
class Program:
    """A child to be: everything resolved, nothing started."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None = None


class Child:
    """A running server: the two streams of a transport, and what else is known of it."""

    def __init__(self, name: str, process: anyio.abc.Process, stdin: int, stdout: int) -> None:
        self.process = process
        self.reader = Lines(name, stdout)
        self.writer = Pen(stdin)
        self.stderr: deque[str] = deque(maxlen=RING)

    def account(self) -> str:
        """How it ended, if it did, and its last words."""
        code = self.process.returncode
        ended = "" if code is None else f"the process ended with {outcome(code)}"
        last = " | ".join(line for line in list(self.stderr)[-3:] if line.strip())[-500:]
        said = last and f"its stderr: {last}"
        return "; ".join(part for part in (self.reader.fault, ended, said) if part)


def outcome(code: int) -> str:
    """An exit status in words."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


@asynccontextmanager
async def open_child(program: Program, note: Callable[[list[str]], None]) -> AsyncIterator[Child]:
    """The server, running for as long as the block; `note` gets the lines of its stderr.

    Raises `OSError` when it can't be started.
    """
    fds: list[int] = []
    try:
        theirs_in, stdin = _pipe(fds)
        stdout, theirs_out = _pipe(fds)
        stderr, theirs_err = _pipe(fds)
        for ours in (stdin, stdout, stderr):
            os.set_blocking(ours, False)
        process = await anyio.open_process(
            [*guarded(), *program.command],
            stdin=theirs_in,
            stdout=theirs_out,
            stderr=theirs_err,
            env=program.env,
            cwd=program.cwd,
            start_new_session=True,
        )
        # no await between here and the `try`: a cancellation there would leave the child behind
        for theirs in (theirs_in, theirs_out, theirs_err):
            fds.remove(theirs)
            os.close(theirs)
        fds.remove(stdin)  # the pen's, which closes it before the rest
        child = Child(program.name, process, stdin, stdout)
        async with anyio.create_task_group() as tasks:
            try:
                tasks.start_soon(_listen, stderr, child.stderr, note)
                tasks.start_soon(child.writer.flush)
                tasks.start_soon(_watch, child)
                yield child
            finally:
                with anyio.CancelScope(shield=True):
                    await _close(child)
                tasks.cancel_scope.cancel()
    finally:
        for fd in fds:
            with suppress(OSError):
                os.close(fd)


def _pipe(fds: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    fds.extend(ends)
    return ends


def guarded() -> list[str]:
    """What starts a program such that it dies with us, however we die; empty where nothing can."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


async def _watch(child: Child) -> None:
    """End the connection with its process, though a process that it left may hold the pipes open."""
    await child.process.wait()
    await anyio.sleep(AFTERMATH)
    await child.reader.aclose()


async def _listen(fd: int, ring: deque[str], note: Callable[[list[str]], None]) -> None:
    """Take what the server says on stderr until it closes it; who floods it is slowed down."""
    part = b""
    while data := await _read(fd):
        *lines, part = (part + data).split(b"\n")
        while len(part) > LONGEST_LINE:
            lines.append(part[:LONGEST_LINE])
            part = part[LONGEST_LINE:]
        if lines:
            texts = [line.decode("utf-8", "replace").rstrip() for line in lines]
            ring.extend(texts)
            note(texts)
        if len(data) > LONGEST_LINE:
            await anyio.sleep(POLL)


async def _read(fd: int) -> bytes:
    """Some bytes of a pipe; none at its end. Who writes without a pause doesn't keep us from others."""
    waited = False
    while True:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(fd)
            waited = True
            continue
        if not waited:
            await anyio.lowlevel.checkpoint()
        return data


# ── closing ─────────────────────────────────────────────────────────────────────────────────────


async def _close(child: Child) -> None:
    """See the child out, and all of its group."""
    process, group = child.process, child.process.pid
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.reader.drain)  # who is stuck in a write doesn't see its stdin end
        child.writer.close()
        await _exit(process)
        _signal(group, signal.SIGTERM)
        if not await _gone(process, group):
            _signal(group, signal.SIGKILL)
            # of the group only the leader is ours to wait for; nobody survives that signal
            if not await _exit(process):
                logger.warning("process %d is still there after SIGKILL", group)
        tasks.cancel_scope.cancel()


async def _exit(process: anyio.abc.Process) -> bool:
    with anyio.move_on_after(GRACE):
        await process.wait()
    return process.returncode is not None


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _gone(process: anyio.abc.Process, group: int) -> bool:
    """Whether the child and everyone in its group ended in time."""
    with anyio.move_on_after(GRACE):
        await process.wait()
        while _alive(group):  # noqa: ASYNC110 - nothing tells when a group has ended
            await anyio.sleep(POLL)
        return True
    return False


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # only members that are not ours any more
        return False
    return True


# ── streams ─────────────────────────────────────────────────────────────────────────────────────


class _Stream:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        raise NotImplementedError


class Lines(_Stream):
    """The messages of a server, as they come; noise between them is logged and skipped."""

    def __init__(self, name: str, fd: int) -> None:
        self._name = name
        self._fd = fd
        self._parts: list[bytes] = []
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._handled = 0
        self._noise = 0
        self._closed = False
        self.fault = ""
        """What it did that made us stop reading."""

    async def receive(self) -> SessionMessage | Exception:
        while True:
            while self._lines:
                self._handled += 1
                if not self._handled % TURN:
                    await anyio.lowlevel.checkpoint()
                message = parse(self._lines.popleft(), self._odd)
                if message is not None:
                    return SessionMessage(message)
            if self._closed:
                raise anyio.ClosedResourceError
            await self._more()

    async def _more(self) -> None:
        try:
            data = await _read(self._fd)
        except OSError as error:
            raise anyio.EndOfStream from error
        if not data:
            raise anyio.EndOfStream
        first, newline, rest = data.partition(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if newline:
            self._lines.append(b"".join(self._parts))
            *lines, last = rest.split(b"\n")
            self._lines.extend(lines)
            self._parts, self._size = [last], len(last)
        elif self._size > LONGEST_MESSAGE:
            self._parts.clear()
            self.fault = f"it sent a message of more than {LONGEST_MESSAGE >> 20} MiB"
            raise anyio.EndOfStream

    def _odd(self, what: str, line: bytes) -> None:
        self._noise += 1
        if self._noise <= NOTED:
            logger.info("server '%s' wrote %s: %r", self._name, what, line[:200])
        if self._noise == NOTED:
            logger.info("server '%s': more such lines are not logged", self._name)

    async def drain(self) -> None:
        """Read and forget until the server closes its side."""
        with suppress(OSError):
            while await _read(self._fd):
                pass

    async def aclose(self) -> None:
        """Whoever waits in `receive` is told; the descriptor belongs to the child."""
        self._closed = True
        anyio.notify_closing(self._fd)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Pen(_Stream):
    """Messages to a server. What the pipe doesn't take at once, `flush` sends."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._backlog: deque[memoryview] = deque()
        self._stuck = anyio.Event()
        self._flowing = anyio.Event()

    async def send(self, item: SessionMessage) -> None:
        """Whole lines only: a cancelled sender's line goes out all the same, or hadn't begun.

        A request waits until the server has taken it; a notification, such as the cancellation of
        a call to a server that hangs, doesn't.
        """
        self._post(encode(item.message))
        if self._backlog and isinstance(item.message, types.JSONRPCRequest):
            await self._flowing.wait()
            if self._fd is None:
                raise anyio.BrokenResourceError

    def _post(self, line: bytes) -> None:
        if self._fd is None:
            raise anyio.ClosedResourceError
        data = memoryview(line)
        if not self._backlog:
            data = self._put(data)
        if data:
            self._backlog.append(data)
            if len(self._backlog) == 1:
                self._flowing = anyio.Event()
            self._stuck.set()

    def _put(self, data: memoryview) -> memoryview:
        """Write what fits; what is left is returned."""
        assert self._fd is not None
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except BlockingIOError:
            return data
        except OSError as error:
            raise anyio.BrokenResourceError from error
        return data

    async def flush(self) -> None:
        """Send what didn't fit, for ever. One task per child runs this."""
        while True:
            await self._stuck.wait()
            try:
                while self._backlog:
                    assert self._fd is not None
                    await anyio.wait_writable(self._fd)
                    self._backlog[0] = self._put(self._backlog[0])
                    if not self._backlog[0]:
                        self._backlog.popleft()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                self.close()
                return
            self._stuck = anyio.Event()
            self._flowing.set()

    def close(self) -> None:
        """The end of the server's stdin. What it didn't take by now is lost."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            anyio.notify_closing(fd)
            with suppress(OSError):
                os.close(fd)
            self._backlog.clear()
            self._flowing.set()

    async def aclose(self) -> None:
        self.close()


OBJECT = re.compile(rb"\s*\{")


# ── messages ────────────────────────────────────────────────────────────────────────────────────


def encode(message: types.JSONRPCMessage) -> bytes:
    """One line. A lone surrogate, as JavaScript allows in its strings, goes out escaped."""
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    except (pydantic_core.PydanticSerializationError, UnicodeEncodeError):
        text = json.dumps(message.model_dump(mode="python", by_alias=True, exclude_unset=True))
    return text.encode() + b"\n"


def parse(line: bytes, odd: Callable[[str, bytes], None]) -> types.JSONRPCMessage | None:
    """The message in a line; None for what is none, of which `odd` is told unless it is empty."""
    if not OBJECT.match(line):
        if not line.isspace() and line:
            odd("a line that is no message", line)
        return None
    try:
        data = _load(line)
    except (ValueError, RecursionError):
        odd("a line that is no message", line)
        return None
    if "method" not in data and (number := data.get("id")) is not None:
        if isinstance(number, int | str) and not isinstance(number, bool):
            return _answer(data, number)
        odd("an answer to no request", line)
        return None
    try:
        return types.jsonrpc_message_adapter.validate_python(data, by_name=False)
    except ValueError:
        odd("JSON that is no message", line)
        return None


def _load(line: bytes) -> Any:
    """Read JSON as servers write it: NaN is null, and a lone surrogate is U+FFFD."""
    try:
        return pydantic_core.from_json(line, allow_inf_nan=False)
    except ValueError:
        text = line.decode("utf-8", "replace")
        data = json.loads(text, parse_constant=lambda _: None)
        clean = json.dumps(data, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
        return json.loads(clean.decode("utf-16-le", "replace"))


def _answer(data: dict[str, Any], number: int | str) -> types.JSONRPCMessage:
    """A response, and an error in place of one that breaks the protocol: its call must not hang."""
    result, error = data.get("result"), data.get("error")
    if isinstance(result, dict):
        return types.JSONRPCResponse(jsonrpc="2.0", id=number, result=result)
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        fault = types.ErrorData(
            code=error["code"], message=str(error.get("message", "")), data=error.get("data")
        )
    else:
        said = json.dumps(error if error is not None else result, default=str)[:200]
        fault = types.ErrorData(
            code=types.INTERNAL_ERROR, message=f"the server sent a malformed response: {said}"
        )
    return types.JSONRPCError(jsonrpc="2.0", id=number, error=fault)
