"""An MCP server as a child process, spoken to in lines over its stdin and stdout.

How the messages travel is in `pipes.py`. What the server says on stderr goes to a file of its own;
the last of it is kept for error messages.

Nothing of the server is left when the block ends: its stdin is closed, its process group is asked
to end, and then made to. A process that left the group (`setsid`) is beyond our reach. Should the
daemon itself be killed, the kernel kills the child at once where `setpriv` can arrange it, and the
warden kills what is in its group.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

import anyio

from mcpproxy.readiness import Readable
from mcpproxy.spawning import Process, spawn
from mcpproxy.upstream.inflight import InFlight
from mcpproxy.upstream.pipes import Lines, Pen, read
from mcpproxy.upstream.warden import Warden

logger = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds for each step of closing: after the end of stdin, after SIGTERM, after SIGKILL."""
AFTERMATH = 0.5
"""Seconds in which the output of a process that ended is still read, if others hold its pipe open."""
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

    def __init__(self, name: str, process: Process, stdin: int, stdout: int) -> None:
        self.process = process
        self.reader = Lines(name, stdout)
        self.writer = Pen(stdin, self.let_go)
        self.inflight = InFlight(self.reader, self.writer)
        self.stderr: deque[str] = deque(maxlen=RING)
        self.told = False
        """Whether it ran until we told it to end: then its exit status says nothing."""

    def let_go(self) -> None:
        """Note, before its stdin ends, whether it runs: many a server takes that for its end."""
        if self.process.returncode is None and not self.reader.finished:
            self.told = True

    def account(self) -> str:
        """How it ended, if it did by itself, and its last words."""
        code = None if self.told else self.process.returncode
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
async def open_child(
    program: Program, note: Callable[[list[str]], None], warden: Warden
) -> AsyncIterator[Child]:
    """The server, running for as long as the block; `note` gets the lines of its stderr.

    Raises `OSError` when it can't be started.
    """
    fds: list[int] = []
    try:
        # No await between here and the `try`: a cancellation would leave the child behind.
        child, stderr = _start(program, fds)
        with warden.watching(child.process.pid):
            async with anyio.create_task_group() as tasks:
                try:
                    tasks.start_soon(_listen, stderr, child.stderr, note)
                    tasks.start_soon(child.writer.flush)
                    tasks.start_soon(_watch, child)
                    yield child
                finally:
                    try:
                        with anyio.CancelScope(shield=True):
                            await _close(child)
                    except BaseException:  # asyncio's own cancellation, which no shield stops
                        _signal(child.process.pid, signal.SIGKILL)
                        raise
                    finally:
                        child.reader.close()  # before its descriptor is
                        tasks.cancel_scope.cancel()
    finally:
        for fd in fds:
            with suppress(OSError):
                os.close(fd)


def _start(program: Program, fds: list[int]) -> tuple[Child, int]:
    """The server, and our end of its stderr. `fds` gets the descriptors that are to be closed after it."""
    theirs_in, stdin = _pipe(fds)
    stdout, theirs_out = _pipe(fds)
    stderr, theirs_err = _pipe(fds)
    for ours in (stdin, stdout, stderr):
        os.set_blocking(ours, False)
    process = spawn(
        [*guarded(), *program.command],
        stdin=theirs_in,
        stdout=theirs_out,
        stderr=theirs_err,
        env=program.env,
        cwd=program.cwd,
    )
    for theirs in (theirs_in, theirs_out, theirs_err):
        fds.remove(theirs)
        os.close(theirs)
    fds.remove(stdin)  # the pen's, which closes it before the rest
    return Child(program.name, process, stdin, stdout), stderr


def _pipe(fds: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    fds.extend(ends)
    return ends


def guarded() -> list[str]:
    """What starts a program such that it dies with us, however we die; empty where nothing can."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


async def _watch(child: Child) -> None:
    """End the connection with its process, though a process that it left may hold the pipes open; or
    with its stdin, though it lives on.
    """
    async with anyio.create_task_group() as tasks:

        async def first(end: Callable[[], Awaitable[object]]) -> None:
            await end()
            tasks.cancel_scope.cancel()

        tasks.start_soon(first, child.process.wait)
        tasks.start_soon(first, child.writer.ended.wait)
    await anyio.sleep(AFTERMATH)
    if child.process.returncode is None and not child.told:
        child.reader.fault = "it closed its stdin"
    child.reader.close()


async def _listen(fd: int, ring: deque[str], note: Callable[[list[str]], None]) -> None:
    """Take what the server says on stderr until it closes it; who floods it is slowed down."""
    part = b""
    with closing(Readable(fd)) as pipe:
        while data := await read(pipe):
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


# ── closing ─────────────────────────────────────────────────────────────────────────────────────


async def _close(child: Child) -> None:
    """See the child out, and all of its group."""
    process, group = child.process, child.process.pid
    child.let_go()
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


async def _exit(process: Process) -> bool:
    with anyio.move_on_after(GRACE):
        await process.wait()
    return process.returncode is not None


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _gone(process: Process, group: int) -> bool:
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
