"""Messages as lines in a pair of pipes: what `JSONRPCDispatcher` wants of a transport, and no more.

Without the tasks and queues in between that the SDK's own transport has: reading takes time in
proportion to the bytes however long a line is, and sending is one `write` in the usual case.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, Self

import anyio
import anyio.lowlevel
import mcp_types as types
import pydantic_core
from mcp.shared.message import SessionMessage

from mcpproxy import jsonrpc
from mcpproxy.bulk import uncollected
from mcpproxy.readiness import Readable

logger = logging.getLogger(__name__)

Json = dict[str, Any]

CHUNK = 1 << 18
LONGEST_MESSAGE = 1 << 25
"""Bytes of one message that is read; a longer answer is an error of its call. Reading it takes several times its size."""
ENDLESS_MESSAGE = 1 << 28
"""Bytes of one message after which who sends it is cut off."""
TURN = 16
"""Lines that are handled before others get their turn: each may start a task."""
UNREAD_BYTES = 1 << 20
"""Of answers and notifications behind what a server is slow to read. Who asks on and reads nothing gets no more."""
NOTED = 100
"""Lines per connection that are no messages and are logged; the rest isn't."""
OBJECT = re.compile(rb"\s*\{")


class Stream:
    """What either stream of a transport is to the SDK."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        raise NotImplementedError


class Messages(Stream):
    """One that is read."""

    async def receive(self) -> SessionMessage | Exception:
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


async def read(pipe: Readable) -> bytes:
    """Some bytes of a pipe; none at its end. Who writes without a pause doesn't keep us from others."""
    while True:
        await pipe.wait()
        with suppress(BlockingIOError):
            return os.read(pipe.fd, CHUNK)


class Lines(Messages):
    """The messages of a server, as they come; noise between them is logged and skipped."""

    def __init__(self, name: str, fd: int) -> None:
        self._name = name
        self._pipe = Readable(fd, self._look)
        self._parts: list[bytes] = []
        self._lines: deque[bytes] = deque()
        self._left: types.JSONRPCMessage | None = None
        self._size = 0
        self._handled = 0
        self._noise = 0
        self._ended = False
        self._closed = False
        self.takes: Callable[[int | str, Json], bool] = lambda number, answer: False
        """Told of each answer first; whether it is dealt with."""
        self.finished = False
        """Whether the server closed its side while we were listening."""
        self.fault = ""
        """What it did that made us stop reading."""

    async def receive(self) -> SessionMessage | Exception:
        while True:
            message, self._left = self._left, None
            while message is None and self._lines:
                self._handled += 1
                if not self._handled % TURN:
                    await anyio.lowlevel.checkpoint()
                message = self._next()
            if message is not None:
                return SessionMessage(message)
            if self._closed:
                raise anyio.ClosedResourceError
            if self._ended:
                raise anyio.EndOfStream
            await self._pipe.wait()
            if not self._lines and self._left is None:
                self._read()

    def _look(self) -> bool:
        """Deal with answers as they come, for which nobody here need wake; whether that isn't all."""
        self._read()
        for _ in range(TURN):
            if not self._lines or self._left is not None:
                break
            self._left = self._next()
        return bool(self._lines) or self._left is not None or self._ended

    def _next(self) -> types.JSONRPCMessage | None:
        """The message of the next line; None if there is none in it, or it is dealt with."""
        return parse(self._lines.popleft(), self._odd, self.takes)

    def _read(self) -> None:
        """Cut what is there into lines."""
        try:
            data = os.read(self._pipe.fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._ended = True
            return
        if not data:
            self._ended = self.finished = True
            return
        if not self._size and data.find(b"\n") == len(data) - 1:
            self._lines.append(data[:-1])  # one and no more, as nearly always
            return
        first, newline, rest = data.partition(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > LONGEST_MESSAGE:
            # Its ends tell whose answer it is. What is in between is nothing that JSON has.
            self._parts = [jsonrpc.ends(self._parts)]
        if newline:
            self._lines.append(b"".join(self._parts))
            *lines, last = rest.split(b"\n")
            self._lines.extend(lines)
            self._parts, self._size = [last], len(last)
        elif self._size > ENDLESS_MESSAGE:
            self._parts.clear()
            self.fault = f"it sent a message of more than {ENDLESS_MESSAGE >> 20} MiB"
            self._ended = True

    def _odd(self, what: str, line: bytes) -> None:
        self._noise += 1
        if self._noise <= NOTED:
            logger.info("server '%s' wrote %s: %r", self._name, what, line[:200])
        if self._noise == NOTED:
            logger.info("server '%s': more such lines are not logged", self._name)

    async def drain(self) -> None:
        """Read and forget until the server closes its side; nobody receives any more."""
        self.close()
        with suppress(OSError), closing(Readable(self._pipe.fd)) as pipe:
            while await read(pipe):
                pass

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Whoever waits in `receive` is told; the descriptor belongs to the child."""
        self._closed = True
        self._pipe.close()


class Pen(Stream):
    """Messages to a server. What the pipe doesn't take at once, `flush` sends."""

    def __init__(self, fd: int, done: Callable[[], None] = lambda: None) -> None:
        """`done` is called when whoever writes is about to close it."""
        self._fd: int | None = fd
        self._done = done
        self._backlog: deque[memoryview] = deque()
        self._behind = 0
        """Bytes of the backlog, its first line apart."""
        self._stuck = anyio.Event()
        self._flowing = anyio.Event()
        self.ended = anyio.Event()
        """Set when nothing can be sent any more."""

    async def send(self, item: SessionMessage) -> None:
        """A request waits until the server has taken it, and what went before; a notification, such
        as the cancellation of a call to a server that hangs, doesn't.
        """
        if not isinstance(item.message, types.JSONRPCRequest):
            self.post(encode(item.message))
            return
        await self.room()
        self.post(encode(item.message))
        await self.taken()

    async def room(self) -> None:
        """Until nothing is left to be sent: of requests, no more is kept than one that has begun to go
        out. Raises `BrokenResourceError` when the server can't take it.
        """
        while self._backlog:
            await self.taken()

    async def taken(self) -> None:
        """Until the server has taken all that was sent. Raises `BrokenResourceError` when it can't."""
        if self._backlog:
            await self._flowing.wait()
            if self._fd is None:
                raise anyio.BrokenResourceError

    def post(self, line: bytes) -> None:
        """Send a line, now or as soon as the server reads; whole, even if whoever sent it gives up.

        Raises `ClosedResourceError`, and `BrokenResourceError` when the server takes nothing more.
        """
        if self._fd is None:
            raise anyio.ClosedResourceError
        data = memoryview(line)
        if not self._backlog:
            data = self._put(data)
        elif self._behind > UNREAD_BYTES:
            raise anyio.BrokenResourceError
        else:
            self._behind += len(data)
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
            self.close()
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
                    if not self._backlog:  # it was closed just then
                        return
                    self._backlog[0] = self._put(self._backlog[0])
                    if not self._backlog[0]:
                        self._backlog.popleft()
                        self._behind -= len(self._backlog[0]) if self._backlog else 0
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
            self.ended.set()

    async def aclose(self) -> None:
        self._done()
        self.close()


# ── messages ────────────────────────────────────────────────────────────────────────────────────


def encode(message: types.JSONRPCMessage) -> bytes:
    """One line. A lone surrogate, as JavaScript allows in its strings, goes out escaped."""
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    except (pydantic_core.PydanticSerializationError, UnicodeEncodeError):
        text = json.dumps(message.model_dump(mode="python", by_alias=True, exclude_unset=True))
    return text.encode() + b"\n"


def parse(
    line: bytes,
    odd: Callable[[str, bytes], None],
    takes: Callable[[int | str, Json], bool] = lambda number, answer: False,
) -> types.JSONRPCMessage | None:
    """The message in a line; None for what is none, of which `odd` is told unless it is empty, and for
    an answer that `takes` has taken.
    """
    if not OBJECT.match(line):
        if not line.isspace() and line:
            odd("a line that is no message", line)
        return None
    try:
        with uncollected(len(line)):
            data = _load(line)
    except (ValueError, RecursionError) as error:
        odd("a line that is no message", line)
        if (data := _unreadable(line, error)) is None:
            return None
    if not data.get("method") and (number := data.get("id")) is not None:
        if type(number) in (int, str):
            return None if takes(number, data) else answer(data, number)
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


def _unreadable(line: bytes, error: Exception) -> Json | None:
    """An error in place of a response that can't be read, if that is what it is: its call must not hang."""
    if (number := jsonrpc.answer_to(line)) is None:
        return None
    why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    if jsonrpc.CUT in line:
        why = f"it has more than {LONGEST_MESSAGE >> 20} MiB; ask for less at once"
    message = f"the server sent a response that can't be read: {why}"
    fault = {"code": types.INTERNAL_ERROR, "message": message}
    return {"id": number, "error": fault}


def answer(data: Json, number: int | str) -> types.JSONRPCResponse | types.JSONRPCError:
    """A response, and an error in place of one that breaks the protocol: its call must not hang."""
    if isinstance(result := data.get("result"), dict):
        return types.JSONRPCResponse(jsonrpc="2.0", id=number, result=result)
    return types.JSONRPCError(jsonrpc="2.0", id=number, error=refusal(data))


def refusal(data: Json) -> types.ErrorData:
    """What an answer without a result says, or is said of one that breaks the protocol."""
    result, error = data.get("result"), data.get("error")
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        return types.ErrorData(
            code=error["code"], message=str(error.get("message", "")), data=error.get("data")
        )
    said = json.dumps(error if error is not None else result, default=str)[:200]
    return types.ErrorData(
        code=types.INTERNAL_ERROR, message=f"the server sent a malformed response: {said}"
    )
