"""What was recorded and isn't in the database yet: lines of two files that take turns.

A line is there as soon as `add` returns, in a few microseconds: it is the kernel's then, and the end
of this process, however it comes, doesn't take it back. (The end of the machine may: nothing here
waits for the disk.) The database gets the lines by the many, one file while the other one fills.

Each process that writes has a slot of its own, held by a lock that ends with it. What a dead one left
in its slot is taken over by whoever comes next.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mcpproxy.journal.records import WRITERS
from mcpproxy.paths import private_directory

STEM = "activity"
MOST_BYTES = 256 * 2**20
"""Of lines that wait: more means that the database doesn't keep up."""


class Pending:
    """The slot of this process. Raises `OSError` where it can't be had or written."""

    def __init__(self, directory: Path) -> None:
        private_directory(directory)
        for slot in range(WRITERS):
            pair = take(directory, slot)
            if pair is not None:
                self.slot = slot
                self._filling, self.resting = pair
                break
        else:
            raise OSError(errno.EMFILE, f"{WRITERS} processes write the journal already")
        self.size = os.fstat(self._filling).st_size

    def add(self, line: bytes) -> None:
        """Write one line, whole or not at all."""
        if self.size + len(line) > MOST_BYTES:
            raise OSError(errno.EFBIG, "too many records wait for the database")
        written = os.write(self._filling, line)
        if written < len(line):
            os.ftruncate(self._filling, self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += written

    def turn(self) -> int:
        """Let the file fill that rests, and must be empty; gives the one to read now, which rests now."""
        self._filling, self.resting = self.resting, self._filling
        self.size = os.fstat(self._filling).st_size
        return self.resting

    def emptied(self) -> None:
        """What `turn` gave is in the database."""
        os.ftruncate(self.resting, 0)

    def close(self) -> None:
        os.close(self.resting)
        os.close(self._filling)


def take(directory: Path, slot: int) -> tuple[int, int] | None:
    """Both files of a slot, open, or None where somebody lives in it. Raises `OSError`."""
    files = []
    with ExitStack() as opened:
        for part in "ab":
            path = directory / f"{STEM}.{slot}.{part}"
            files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
            opened.callback(os.close, files[-1])
        try:
            fcntl.flock(files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        for file in files:
            end_last_line(file)
        opened.pop_all()
    return files[0], files[1]


def end_last_line(file: int) -> None:
    """A line that a process was killed over must not spoil the next one."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")


@contextmanager
def left_behind(directory: Path) -> Iterator[list[int]]:
    """Files with lines whose writers are gone; they are emptied when the block ends well."""
    slots = {
        int(path.name.split(".")[1])
        for path in directory.glob(f"{STEM}.[0-9]*.[ab]")
        if path.stat().st_size
    }
    files: list[int] = []
    try:
        for slot in sorted(slots):
            files += take(directory, slot) or ()
        yield files
        for file in files:
            os.ftruncate(file, 0)
    finally:
        for file in files:
            os.close(file)


def read_lines(file: int, most: int = 4 * 2**20) -> Iterator[bytes]:
    """Whole lines of a file, about `most` bytes at a time."""
    position, rest = 0, b""
    while piece := os.pread(file, most, position):
        position += len(piece)
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            yield whole + newline
