"""One run of a program: JSON in, its output out, and nothing left of it afterwards.

It has a process group of its own, which is killed whatever happened: when it ends by itself, when it
takes too long, and when nobody waits any more. A process that left the group is beyond our reach.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio

from mcpproxy.readiness import Readable
from mcpproxy.spawning import Process, spawn
from mcpproxy.upstream.failure import Failure
from mcpproxy.upstream.pipes import read
from mcpproxy.upstream.stdio import guarded, outcome

AFTERMATH = 0.5
"""Seconds without output after which a program that ended is done, if others hold its pipes open."""
KILLED = 5.0
"""Seconds for a killed process to be gone."""
LAST_LINES = 3
LONGEST_LINE = 4096
MOST_STDERR = 2**20
"""Bytes of stderr that are looked at; what follows is read and forgotten."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program left behind."""

    output: bytes
    code: int | None
    said: str
    """Its last words on stderr."""

    def account(self) -> str:
        ended = "the program ended" if self.code is None else f"it ended with {outcome(self.code)}"
        return f"{ended}; its stderr: {self.said}" if self.said else ended


async def run(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    given: bytes,
    largest: int,
    note: Callable[[list[str]], None],
) -> Ended:
    """What comes of the program when it is given something on stdin; `note` gets lines of its stderr.

    Raises `Failure` when it can't be started, or writes more than `largest` bytes.
    """
    pipe = subprocess.PIPE
    try:
        # No await between here and the next `try`: a cancellation would leave it behind.
        process = spawn(
            [*guarded(), *command], env=env, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe
        )
    except (OSError, ValueError) as error:
        raise Failure("EINTERNAL", f"it can't be started: {error}") from error
    output = bytearray()
    last: deque[str] = deque(maxlen=LAST_LINES)
    try:
        await _converse(process, given, output, largest, last, note)
    finally:
        with anyio.CancelScope(shield=True):
            await _kill(process)
    if len(output) > largest:
        raise Failure("ECAP", f"its output is larger than {largest} bytes (limits.output)")
    return Ended(bytes(output), process.returncode, " | ".join(last)[-500:])


async def _converse(
    process: Process,
    given: bytes,
    output: bytearray,
    largest: int,
    last: deque[str],
    note: Callable[[list[str]], None],
) -> None:
    """Write and read until it has ended and said all, or has said too much."""
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin and stdout and stderr
    with stdin, stdout, stderr:
        for stream in (stdin, stdout, stderr):
            os.set_blocking(stream.fileno(), False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_feed, stdin, given)
            tasks.start_soon(_watch, process, output, tasks.cancel_scope)
            async with anyio.create_task_group() as reading:
                reading.start_soon(_listen, stderr, last, note)
                await _collect(stdout, output, largest)
                if len(output) > largest:
                    tasks.cancel_scope.cancel()
            await process.wait()
            tasks.cancel_scope.cancel()


async def _feed(stdin: IO[bytes], given: bytes) -> None:
    """A program that doesn't want its input may close it."""
    rest = memoryview(given)
    with stdin, suppress(OSError):
        while rest:
            try:
                rest = rest[os.write(stdin.fileno(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(stdin)


async def _watch(process: Process, output: bytearray, scope: anyio.CancelScope) -> None:
    """End the reading with the process, though one that it left may hold its pipes open."""
    await process.wait()
    size = -1
    while size != len(output):
        size = len(output)
        await anyio.sleep(AFTERMATH)
    scope.cancel()


async def _collect(stdout: IO[bytes], output: bytearray, largest: int) -> None:
    with closing(Readable(stdout.fileno())) as pipe:
        while data := await read(pipe):
            output += data
            if len(output) > largest:
                return


async def _listen(stderr: IO[bytes], last: deque[str], note: Callable[[list[str]], None]) -> None:
    part, size = b"", 0
    with closing(Readable(stderr.fileno())) as pipe:
        while data := await read(pipe):
            size += len(data)
            if size > MOST_STDERR:
                continue
            *lines, part = (part + data).split(b"\n")
            if len(part) > LONGEST_LINE:
                lines, part = [*lines, part], b""
            _take(lines, last, note)
    _take([part], last, note)


def _take(lines: list[bytes], last: deque[str], note: Callable[[list[str]], None]) -> None:
    texts = [line.decode("utf-8", "replace").rstrip()[:LONGEST_LINE] for line in lines]
    if texts := [text for text in texts if text]:
        last.extend(texts)
        note(texts)


async def _kill(process: Process) -> None:
    """The program and all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(KILLED):
        await process.wait()
