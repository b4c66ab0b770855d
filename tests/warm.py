"""The program in a process that was forked from one which has imported it already.

Importing takes most of a daemon's start, and the tests start dozens. All else is as if the
command had been typed: its arguments, environment, folder and pipes are its own.
"""

from __future__ import annotations

import atexit
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

import warmed
from warmed import COMPILED as COMPILED

COMPILED.mkdir(parents=True, exist_ok=True)
ADDRESS = "MCPPROXY_TESTS_WARM"
"""The variable by which the processes of one run find the one that forks."""


def address() -> str:
    """Where to ask. It forks for this process and all below it, and ends with this one."""
    if ADDRESS not in os.environ:
        folder = tempfile.mkdtemp(prefix="mp-")
        os.environ[ADDRESS] = f"{folder}/warm.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.environ[ADDRESS])
            listener.listen(64)
            number = listener.fileno()
            server = subprocess.Popen(
                [sys.executable, "-P", warmed.__file__, str(number)],
                stdin=subprocess.PIPE,
                pass_fds=[number],
            )

        @atexit.register
        def end() -> None:
            assert server.stdin is not None
            server.stdin.close()
            server.wait()
            shutil.rmtree(folder)

    return os.environ[ADDRESS]


def command(folder: Path, *words: str | Path) -> str:
    """Put a `mcpproxy` for shells into `folder`, which gets these words as well; gives their PATH."""
    quoted = shlex.join(map(str, [sys.executable, "-I", "-S", warmed.__file__, address()]))
    program = folder / "mcpproxy"
    program.write_text(
        f'#!/bin/sh\nexec {quoted} "$@" {shlex.join(map(str, words))}\n', encoding="utf-8"
    )
    program.chmod(0o700)
    return f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"


def share_compiled(state: Path) -> None:
    """Have a daemon with this state directory find what was compiled."""
    state.mkdir(exist_ok=True)
    (state / "compiled").symlink_to(COMPILED)


class Process:
    """As much of `subprocess.Popen` as the tests use."""

    def __init__(
        self,
        words: Sequence[str | Path],
        environ: Mapping[str, str],
        folder: Path,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self.stdin, self.stdout, self.stderr = None, None, None
        theirs = []
        for number, (name, asked) in enumerate(
            [("stdin", stdin), ("stdout", stdout), ("stderr", stderr)]
        ):
            if asked is None:
                theirs.append(os.dup(number))
            elif asked == subprocess.DEVNULL:
                theirs.append(os.open(os.devnull, os.O_RDWR))
            else:
                ends = os.pipe()
                theirs.append(ends[number != 0])
                mine = os.fdopen(ends[number == 0], "rb" if number else "wb", buffering=-1)
                setattr(self, name, mine)
        line = socket.socket(socket.AF_UNIX)
        line.connect(address())
        warmed.ask(line, [*map(str, words)], environ, str(folder), theirs)
        for descriptor in theirs:
            os.close(descriptor)
        self._line = line.detach()
        weakref.finalize(self, os.close, self._line)
        self._reading = threading.Lock()
        self.returncode: int | None = None
        self.pid = self._answer()

    def _answer(self) -> int:
        text = b""
        while not text.endswith(b"\n"):
            more = os.read(self._line, 1)
            assert more, "the process that forks has ended"
            text += more
        return int(text)

    def poll(self, timeout: float | None = 0) -> int | None:
        if self.returncode is None and select.select([self._line], [], [], timeout)[0]:
            with self._reading:
                if self.returncode is None:
                    self.returncode = self._answer()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if (code := self.poll(timeout)) is None:
            raise subprocess.TimeoutExpired("mcpproxy", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and we have yet to be told
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Give it this, close its stdin, and read all it says until it has ended."""

        def rest(stream: IO[bytes] | None) -> bytes:
            if stream is None or stream.closed:
                return b""
            with stream:
                return stream.read()

        with ThreadPoolExecutor(2) as readers:
            said = [readers.submit(rest, stream) for stream in (self.stdout, self.stderr)]
            if self.stdin is not None and not self.stdin.closed:
                try:
                    self.stdin.write(given)
                    self.stdin.close()
                except BrokenPipeError:
                    pass
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            out, errors = (future.result(timeout) for future in said)
        return out, errors
