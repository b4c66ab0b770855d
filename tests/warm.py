"""The program in a process that was forked from one which has imported it already.

Importing takes most of a daemon's start, and the tests start dozens. All else is as if the
command had been typed: its arguments, environment, folder and pipes are its own.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["mcpproxy.serve", "mcpproxy.cli.code", "mcpproxy.cli.stdio"])
COMPILED = Path(__file__).with_name("__pycache__") / "oxc"
"""For what OXC compiles to, which takes nearly a second of CPU: all daemons share it, those of later runs too."""
COMPILED.mkdir(parents=True, exist_ok=True)


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
        self._process = SERVER.Process(
            target=_run,
            args=([*map(str, words)], dict(environ), str(folder), [*map(DupFd, theirs)]),
        )
        self._process.start()
        for descriptor in theirs:
            os.close(descriptor)
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired("mcpproxy", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
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


def _run(words: list[str], environ: dict[str, str], folder: str, streams: list[Any]) -> None:
    """What a new process does; it ends as the command does."""
    for number, stream in enumerate(streams):
        descriptor = stream.detach()
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb"), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", 0), encoding="utf-8", write_through=True)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.argv = words
    from mcpproxy.cli import main

    main(prog_name="mcpproxy")
