"""Who ends the servers' processes when the daemon is killed: a shell that outlives it for that.

It reads the process groups from a pipe that only the daemon writes to. However the daemon ends, the
kernel ends the pipe, and the shell kills the groups that were not taken back. It has a session of
its own, so that what is sent to the daemon's group or terminal doesn't reach it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from mcpproxy.spawning import spawn

SCRIPT = """
groups=" "
while read -r act group; do
    case $act in
        +) groups="$groups$group " ;;
        -) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""
PATIENCE = 1.0
"""Seconds in which it ends once there is nothing to do."""


class Warden:
    """Made by `open_warden`."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    @contextmanager
    def watching(self, group: int) -> Iterator[None]:
        """See to a process group until the block ends, whose task is to end it otherwise."""
        self._tell(f"+ {group}\n")
        try:
            yield
        finally:
            self._tell(f"- {group}\n")

    def _tell(self, line: str) -> None:
        # Somebody may have killed or stopped it: that costs what it is for, and no call.
        with suppress(OSError):
            os.write(self._pipe, line.encode("ascii"))


@asynccontextmanager
async def open_warden() -> AsyncIterator[Warden]:
    """One for all servers of a fleet. Raises `OSError` where there is no shell."""
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    try:
        command = ["/bin/sh", "-c", SCRIPT, "mcpproxy-warden"]
        process = spawn(command, stdin=theirs, env={}, cwd="/")
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        yield Warden(ours)
    finally:
        os.close(ours)
        await process.end(PATIENCE)
