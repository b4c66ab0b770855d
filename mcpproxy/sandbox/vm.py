"""One VM process, seen from the daemon: a line to it, and how it ended."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

import anyio

from mcpproxy.errors import WorkerError
from mcpproxy.readiness import Readable
from mcpproxy.sandbox import frames


class Vm:
    """See the module. What it sends is not trusted."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.finished = False
        """Whether it has said its last word, and waits for its end; set by who reads it."""
        self.ended = anyio.Event()
        self.status: int | None = None
        """Exit status, negative for a signal. None while it runs, or if the fork server took it along."""
        self.pid: int | None = None
        """Its process ID, told when it has ended."""
        self._socket = sock
        self._readable = Readable(sock.fileno(), self._look)
        self._frames: list[bytes] = []
        self._gone = False
        self.takes: Callable[[bytes], bool] = lambda frame: False
        """Offered a frame that comes by itself; what it takes, `receive` doesn't give."""
        self._splitter = frames.Splitter()
        self._backlog: deque[memoryview] = deque()
        self.moved = 0
        """Bytes that went either way."""
        self.unread = 0
        """Bytes that it was slow to read, and that wait to be sent."""

    @property
    def there(self) -> bool:
        """Whether it still listens. Only asked before it has been given anything, so that it says nothing."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def post(self, text: bytes) -> bool:
        """Send one frame, now or as soon as the VM reads again. Never blocks.

        True when it could not take it all: then somebody has to `flush`. A VM that is gone is
        noticed by `receive`.
        """
        data = memoryview(frames.pack(text))
        self.moved += len(data)
        behind = bool(self._backlog)
        if not behind:
            data = self._put(data)
        if data:
            self._backlog.append(data)
            self.unread += len(data)
        return bool(data) and not behind

    def _put(self, data: memoryview) -> memoryview:
        """Send what fits; what is left is returned."""
        try:
            return data[self._socket.send(data) :]
        except BlockingIOError:
            return data
        except OSError:
            return memoryview(b"")

    async def flush(self) -> None:
        """Send what `post` could not."""
        while self._backlog:
            await anyio.wait_writable(self._socket)
            rest = self._put(self._backlog[0])
            self.unread -= len(self._backlog[0]) - len(rest)
            if rest:
                self._backlog[0] = rest
            else:
                self._backlog.popleft()

    async def receive(self) -> list[bytes]:
        """The next frames. Raises `WorkerError` at the end, `BadFrame` for what can be no frame."""
        while True:
            found, self._frames = self._frames, []
            if found:
                return found
            if self._gone:
                raise WorkerError("nobody can tell how")
            if self.ended.is_set():
                self._read()
            if not self._frames and not self._gone:
                await self._readable.wait()
                if not self._frames:
                    self._read()

    def _look(self) -> bool:
        """Offer a single frame at once, for which nobody need wake; whether somebody has to."""
        self._read()
        if len(self._frames) == 1 and self.takes(self._frames[0]):
            self._frames.clear()
        return bool(self._frames) or self._gone

    def _read(self) -> None:
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # it ended with something unread
        self._gone = not data
        self.moved += len(data)
        self._frames += self._splitter.feed(data)

    def end(self) -> None:
        """Its process has ended: whoever listens hears what it still said, and of the end."""
        self.ended.set()
        self._readable.wake()

    def close(self) -> None:
        self._readable.close()
        self._socket.close()
        self._frames.clear()
        self._backlog.clear()
        self.takes = lambda frame: False
