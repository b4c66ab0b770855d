"""One run of a program: JSON in, its output out, and nothing left of it afterwards.

It has a process group of its own, which is killed whatever happened: when it ends by itself, when it
takes too long, and when nobody waits any more. A process that left the group is beyond our reach.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc

from mcpproxy.upstream.failure import Failure
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
    try:
        # Shielded, and no await between here and the next `try`: a cancellation would leave it behind.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                [*guarded(), *command], env=env, cwd=folder, start_new_session=True
            )
    except (OSError, ValueError) as error:
        raise Failure("EINTERNAL", f"it can't be started: {error}") from error
    output = bytearray()
    last: deque[str] = deque(maxlen=LAST_LINES)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_feed, process, given)
            tasks.start_soon(_watch, process, output, tasks.cancel_scope)
            async with anyio.create_task_group() as reading:
                reading.start_soon(_listen, process, last, note)
                await _collect(process, output, largest)
                if len(output) > largest:
                    tasks.cancel_scope.cancel()
            await process.wait()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _kill(process)
    if len(output) > largest:
        raise Failure("ECAP", f"its output is larger than {largest} bytes (limits.output)")
    return Ended(bytes(output), process.returncode, " | ".join(last)[-500:])


async def _feed(process: anyio.abc.Process, given: bytes) -> None:
    """A program that doesn't want its input may close it."""
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.send(given)
    with suppress(OSError):
        await process.stdin.aclose()


async def _watch(process: anyio.abc.Process, output: bytearray, scope: anyio.CancelScope) -> None:
    """End the reading with the process, though one that it left may hold its pipes open."""
    await process.wait()
    size = -1
    while size != len(output):
        size = len(output)
        await anyio.sleep(AFTERMATH)
    scope.cancel()


async def _collect(process: anyio.abc.Process, output: bytearray, largest: int) -> None:
    assert process.stdout is not None
    async for data in process.stdout:
        output += data
        if len(output) > largest:
            return


async def _listen(
    process: anyio.abc.Process, last: deque[str], note: Callable[[list[str]], None]
) -> None:
    assert process.stderr is not None
    part, size = b"", 0
    async for data in process.stderr:
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


async def _kill(process: anyio.abc.Process) -> None:
    """The program and all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(KILLED):
        await process.aclose()
