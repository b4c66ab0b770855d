"""The line to the process that makes JavaScript of TypeScript (`typescript.py`): one source at a time.

It is killed when it takes too long or when nobody waits any more, and started again when it is asked next.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from mcpproxy.errors import WorkerError
from mcpproxy.sandbox import frames
from mcpproxy.spawning import Process, spawn

SECONDS = 10.0
"""For one source; OXC takes 50 ms for the largest that is accepted."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """JavaScript, or None and the transform's own words."""

    text: str | None
    refusal: str | None = None


class Transformer:
    """One process that transforms, started when first needed or by `warm`.

    `cache` is a directory of ours for what OXC compiles to: half a second and 40 MB the first time only.
    """

    def __init__(self, cache: Path | None) -> None:
        self._cache = cache
        self._lock = anyio.Lock(fast_acquire=True)
        self._line: socket.socket | None = None
        self._process: Process | None = None

    async def warm(self) -> None:
        """Have it ready before somebody waits for it: the first use compiles for half a second."""
        await self.transform("let ready: boolean")

    async def transform(self, source: str) -> Compiled:
        """What `source` is in JavaScript. Raises `WorkerError` when the process gives no answer."""
        async with self._lock:
            try:
                with anyio.fail_after(SECONDS):
                    return await self._ask(source)
            except TimeoutError:
                await self._stop()
                return Compiled(None, "the TypeScript transform took too long")
            except (OSError, WorkerError, ValueError, LookupError, TypeError) as error:
                # What is no answer comes from a process that isn't ours any more.
                await self._stop()
                raise WorkerError(f"the TypeScript transform ended: {error}") from error
            except anyio.get_cancelled_exc_class():
                await self._stop()  # its answer must not reach the next one who asks
                raise

    async def _ask(self, source: str) -> Compiled:
        if self._line is None:
            self._start()
        line = self._line
        assert line is not None
        await send(line, json.dumps(source).encode())
        answer = json.loads(await receive(line))
        return Compiled(answer["text"], answer["refusal"])

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._line = ours
        with theirs:
            self._process = spawn(
                [
                    sys.executable,
                    "-I",
                    "-c",
                    "from mcpproxy.sandbox.typescript import main; main()",
                    str(theirs.fileno()),
                    *([] if self._cache is None else [str(self._cache)]),
                ],
                env={},
                pass_fds=[theirs.fileno()],
            )

    async def _stop(self) -> None:
        line, self._line = self._line, None
        process, self._process = self._process, None
        if line is not None:
            line.close()
        if process is not None:
            await process.end()


@asynccontextmanager
async def open_transformer(cache: Path | None = None) -> AsyncIterator[Transformer]:
    """A transformer whose process lives no longer than this block."""
    transformer = Transformer(cache)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(transformer._stop)
        yield transformer


async def send(line: socket.socket, text: bytes) -> None:
    data = memoryview(frames.pack(text))
    while data:
        try:
            data = data[line.send(data) :]
        except BlockingIOError:
            await anyio.wait_writable(line)


async def receive(line: socket.socket) -> bytes:
    splitter = frames.Splitter()
    while True:
        await anyio.wait_readable(line)
        data = line.recv(1 << 18)
        if not data:
            raise WorkerError("no answer")
        if found := splitter.feed(data):
            return found[0]
