"""Attempts at what a VM must not be able to do, made from inside one.

The daemon has each of them tried at its start, and `mcpproxy doctor` shows the outcome: a layer of
the confinement counts when it was seen to hold, not because a call to set it up returned 0.
"""

from __future__ import annotations

import os
from _socket import socket
from collections.abc import Callable
from typing import NoReturn

from mcpproxy.sandbox.confine import Confinement

ACTS: dict[str, Callable[[], object]] = {
    "open a file": lambda: os.open("/etc/hostname", os.O_RDONLY),
    "open a socket": socket,
    "fork": os.fork,
    "run a program": lambda: os.execv("/bin/true", ["true"]),  # noqa: S606 - it is to fail
    "signal a process": lambda: os.kill(1, 0),
}
"""Each must end its process: seccomp kills on the call itself."""

LANDLOCK_ACT = "open a file without seccomp"
"""The same as the first, with Landlock alone in the way."""

ALL = [*ACTS, LANDLOCK_ACT]

REFUSED, DONE = 77, 78
"""Exit status of a probe whose act was refused by the kernel, and of one that succeeded."""


def attempt(act: str, confinement: Confinement) -> NoReturn:
    """Try `act` and say with the exit status how it went, if there is still anyone to say it."""
    perform = ACTS["open a file" if act == LANDLOCK_ACT else act]
    if act != LANDLOCK_ACT:
        confinement.seal()
    try:
        perform()
    except OSError:
        os._exit(REFUSED)
    os._exit(DONE)
