"""The line to the processes that make JavaScript of TypeScript (`typescript.py`): one source at a time each.

One process serves all. One that takes long with a source is left alone with it, and another takes its place, so
that nobody else waits. It is killed when it takes too long or when nobody waits any more.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from mcpproxy.errors import WorkerError
from mcpproxy.sandbox import frames
from mcpproxy.spawning import spawn

QUICK_SECONDS = 0.2
"""In which others wait for a source; OXC takes 50 ms for the largest that is accepted."""
SECONDS = 10.0
"""For one source."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """JavaScript, or None and the transform's own words."""

    text: str | None
    refusal: str | None = None


class Worker:
    """One process. Whoever has it sees to its end."""

    def __init__(self, cache: Path | None) -> None:
        self.line, theirs = socket.socketpair()
        self.line.setblocking(False)
        self._rest = memoryview(b"")
        self._splitter = frames.Splitter()
        with theirs:
            self.process = spawn(
                [
                    sys.executable,
                    "-I",
                    "-c",
                    "from mcpproxy.sandbox.typescript import main; main()",
                    str(theirs.fileno()),
                    *([] if cache is None else [str(cache)]),
                ],
                env={},
                pass_fds=[theirs.fileno()],
            )

    def give(self, source: str) -> None:
        self._rest = memoryview(frames.pack(json.dumps(source).encode()))

    async def answer(self) -> Compiled:
        """To what it was given. Who is cancelled meanwhile may go on waiting later."""
        while self._rest:
            try:
                self._rest = self._rest[self.line.send(self._rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self.line)
        while True:
            await anyio.wait_readable(self.line)
            data = self.line.recv(1 << 18)
            if not data:
                raise WorkerError("no answer")
            if found := self._splitter.feed(data):
                answer = json.loads(found[0])
                return Compiled(answer["text"], answer["refusal"])

    async def end(self) -> None:
        self.line.close()
        await self.process.end()


class Transformer:
    """Started when first needed or by `warm`.

    `cache` is a directory of ours for what OXC compiles to: half a second and 40 MB the first time only.
    """

    def __init__(self, cache: Path | None) -> None:
        self._cache = cache
        self._lock = anyio.Lock(fast_acquire=True)
        self.worker: Worker | None = None
        """One that has nothing to do."""

    async def warm(self) -> None:
        """Have it ready before somebody waits for it: the first use compiles for half a second."""
        await self.transform("let ready: boolean")

    async def transform(self, source: str) -> Compiled:
        """What `source` is in JavaScript. Raises `WorkerError` when the process gives no answer."""
        with suppress(WorkerError):
            return await self._transform(source)
        return await self._transform(source)  # it may have been killed while it had nothing to do

    async def _transform(self, source: str) -> Compiled:
        worker, found = None, None
        try:
            async with self._lock:
                worker, self.worker = self.worker or Worker(self._cache), None
                worker.give(source)
                with anyio.move_on_after(QUICK_SECONDS):
                    found = await worker.answer()
            if found is None:
                with anyio.fail_after(SECONDS - QUICK_SECONDS):
                    found = await worker.answer()
            if self.worker is None:
                self.worker, worker = worker, None
            return found
        except TimeoutError:
            return Compiled(None, "the TypeScript transform took too long")
        except (OSError, WorkerError, ValueError, LookupError, TypeError) as error:
            # What is no answer comes from a process that isn't ours any more.
            raise WorkerError(f"the TypeScript transform ended: {error}") from error
        finally:
            if worker is not None:
                await worker.end()


@asynccontextmanager
async def open_transformer(cache: Path | None = None) -> AsyncIterator[Transformer]:
    """A transformer whose processes live no longer than this block, or than who waits for them."""
    transformer = Transformer(cache)
    try:
        yield transformer
    finally:
        if transformer.worker is not None:
            await transformer.worker.end()
