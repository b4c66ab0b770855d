"""`mcpproxy stdio`: MCP for clients that start a command.

With a daemon running it only carries bytes between the standard streams and the daemon's pipe, whose
framing is the same; nothing of MCP is imported. Without one it is the daemon, for this one client.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress
from pathlib import Path

LAST_SECONDS = 5.0
"""How long the daemon may take to hang up after the client has."""


def bridge(pipe: Path) -> bool:
    """Carry bytes until either side ends; False when no daemon listens on `pipe`."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(str(pipe))
    except OSError:
        line.close()
        return False
    pump(line)
    return True


def pump(line: socket.socket) -> None:
    """Carry bytes between the standard streams and `line`; returns when either side has ended."""
    ended = threading.Event()
    with line:
        threading.Thread(target=upward, args=(line, ended), daemon=True).start()
        threading.Thread(target=downward, args=(line, ended), daemon=True).start()
        ended.wait()


def upward(line: socket.socket, ended: threading.Event) -> None:
    """From the client to the daemon."""
    with suppress(OSError):
        while data := taken():
            line.sendall(data)
    if heard():
        with suppress(OSError):
            line.shutdown(socket.SHUT_WR)
        ended.wait(LAST_SECONDS)  # the daemon hangs up when it has answered what it could
    ended.set()


def downward(line: socket.socket, ended: threading.Event) -> None:
    """From the daemon to the client."""
    with suppress(OSError):
        while data := line.recv(1 << 16):
            view = memoryview(data)
            while view:
                view = view[given(view) :]
    ended.set()


def taken() -> bytes:
    """What the client says next; empty at the end. Raises `OSError`."""
    while True:
        try:
            return os.read(0, 1 << 16)
        except BlockingIOError:  # whoever started us left its end so
            select.select([0], [], [])


def heard() -> bool:
    """Whether anybody reads what we print."""
    look = select.poll()
    look.register(1, 0)  # POLLERR is always told
    return not look.poll(0)


def given(data: memoryview) -> int:
    """How many of these bytes the client took, at least one. Raises `OSError`."""
    while True:
        try:
            return os.write(1, data)
        except BlockingIOError:
            select.select([], [1], [])


def stand_alone(config: str | None, log_level: str | None) -> None:
    """Be the daemon, for the client on the standard streams."""
    import anyio

    from mcpproxy import logs, paths, settings
    from mcpproxy.cli.telling import BAD_CONFIG, refuse
    from mcpproxy.errors import SettingsError
    from mcpproxy.serve import serve_one

    try:
        loaded = settings.load(paths.config_file(config), os.environ, create=config is None)
        logs.set_up(log_level or loaded.settings.logging.level, None)
        ours, theirs = socket.socketpair()
        carrier = threading.Thread(target=pump, args=(ours,), daemon=True)
        with theirs:
            carrier.start()
            anyio.run(serve_one, loaded, os.environ, theirs, backend_options={"use_uvloop": True})
        carrier.join(LAST_SECONDS)  # what was answered last is still on its way to the client
    except SettingsError as error:
        refuse(str(error), BAD_CONFIG)
