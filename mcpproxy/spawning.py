"""Processes that start without a copy of this one.

The event loop's own way is `fork`: the more memory a daemon has, the longer that takes (15 ms at
250 MB), and every page that it writes to meanwhile is copied. `subprocess` uses `vfork` on Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

LOOK_SECONDS = 30.0
"""Between looks at a process, should its end not be told: an event loop forgets who waits for a descriptor
when another one with that number is closed in the turn in which its own waiter wakes."""
KILLED_SECONDS = 5.0
"""In which a process is gone that was killed."""


class Process:
    """Made by `spawn`. Whoever has it sees to its end."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.stdin, self.stdout, self.stderr = popen.stdin, popen.stdout, popen.stderr
        """Our ends of the pipes, unbuffered; None for what is none."""

    @property
    def returncode(self) -> int | None:
        """Its exit status once it has ended, the negative number of the signal that ended it, or None."""
        return self._popen.poll()

    async def wait(self) -> int:
        """The exit status, once it has ended."""
        while (code := self._popen.poll()) is None:
            if (ends := descriptor(self.pid)) is None:
                await anyio.to_thread.run_sync(
                    self._popen.wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
                )
                continue
            try:
                with anyio.move_on_after(LOOK_SECONDS):
                    await anyio.wait_readable(ends)
            finally:
                os.close(ends)
        return code

    def kill(self) -> None:
        """End it, if it runs."""
        self._popen.kill()

    async def end(self, patience: float = 0.0) -> None:
        """Return once it has ended; it is killed when that takes more than `patience` seconds.

        No cancellation cuts this short, or a process would be left behind; asyncio's own, which no
        shield stops, has it killed at once. One that the kernel can't end, since it waits for a device
        that is gone, is given up.
        """
        try:
            with anyio.CancelScope(shield=True):
                for seconds in (patience, KILLED_SECONDS):
                    with anyio.move_on_after(seconds):
                        await self.wait()
                        return
                    self.kill()
        finally:
            self.kill()


def descriptor(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended, where the kernel has such."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int | None = subprocess.DEVNULL,
    cwd: str | Path | None = None,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start a program in a session of its own, its streams as `subprocess` takes them.

    Nothing is awaited, so no cancellation can come between its start and the answer.
    Raises `OSError`, or `ValueError` for a NUL in a word.
    """
    return Process(
        subprocess.Popen(
            list(command),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=cwd,
            start_new_session=True,
            pass_fds=pass_fds,
            bufsize=0,
        )
    )
