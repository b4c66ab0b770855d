"""A process that has imported the program and forks into it for everybody who asks.

A request is a connection to its Unix socket: arguments, environment and folder as JSON, with the
descriptors that are to be stdin, stdout and stderr. Two lines come back: the new process' id, and its
exit code once it has ended. Whoever hangs up before that kills it.

    python warmed.py LISTENER          serves at this descriptor until its stdin ends
    python warmed.py ADDRESS WORD…     runs the command there as if it had been started here
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COMPILED = Path(__file__).with_name("__pycache__") / "oxc"
"""For what OXC compiles to, which takes nearly a second of CPU: all daemons share it, those of later runs too."""
MORE = ["mcpproxy.serve", "mcpproxy.cli.code", "mcpproxy.cli.stdio"]


def ask(
    line: socket.socket,
    words: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    streams: Sequence[int],
) -> None:
    text = json.dumps([[*words], dict(environ), folder]).encode()
    socket.send_fds(line, [len(text).to_bytes(4, "big")], streams)
    line.sendall(text)


def read(line: socket.socket) -> tuple[list[Any], list[int]]:
    size, streams, _, _ = socket.recv_fds(line, 4, 3)
    with line.makefile("rb") as request:
        return json.loads(request.read(int.from_bytes(size, "big"))), streams


def hurry() -> None:
    """Have changed files be noticed sooner than is good for a battery."""
    from mcpproxy import watching

    watching.STEP_MS = 20


def prepare() -> None:
    """Import what processes need, and see to it that OXC is compiled."""
    import gc
    import importlib

    for name in MORE:
        importlib.import_module(name)
    hurry()
    if not (pid := os.fork()):  # the compiler has threads, which a process that forks must not have
        from mcpproxy.sandbox.typescript import load_compiled

        load_compiled(COMPILED)
        os._exit(0)
    os.waitpid(pid, 0)
    gc.collect()
    gc.freeze()  # what is here stays shared with the processes


def serve(listener: socket.socket) -> None:
    """Fork until nobody can ask any more."""
    import select
    import signal

    prepare()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes)
    lines: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, woken, listener, *lines.values()], [], [])
        if woken in ready:
            os.read(woken, 1 << 16)
        while lines:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            with lines.pop(pid) as line:
                try:
                    line.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                except BrokenPipeError:
                    pass  # whoever asked has gone
        for pid, line in lines.items():
            if line in ready or 0 in ready:
                os.kill(pid, signal.SIGKILL)
        if 0 in ready:
            return
        if listener in ready:
            line, _ = listener.accept()
            request, streams = read(line)
            if not (pid := os.fork()):
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for other in (listener, line, *lines.values()):
                    other.close()
                for end in (woken, wakes):
                    os.close(end)
                become(*request, streams)
            for stream in streams:
                os.close(stream)
            lines[pid] = line
            line.sendall(b"%d\n" % pid)


def become(words: list[str], environ: dict[str, str], folder: str, streams: list[int]) -> None:
    """Be the command, and end as it does."""
    import atexit
    import io
    import threading
    import traceback

    from mcpproxy.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb"), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", 0), encoding="utf-8", write_through=True)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.argv = words
    code: Any = 1
    try:
        main(prog_name="mcpproxy")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    # As an interpreter ends, but for taking itself apart.
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def relay(address: str, words: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        ask(line, ["mcpproxy", *words], os.environ, os.getcwd(), [0, 1, 2])
        with line.makefile("rb") as answers:
            _, code = answers
    return int(code) if int(code) >= 0 else 128 - int(code)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        with socket.socket(fileno=int(sys.argv[1])) as listener:
            serve(listener)
    else:
        sys.exit(relay(sys.argv[1], sys.argv[2:]))
