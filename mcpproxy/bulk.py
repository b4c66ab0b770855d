"""How much there is to read in a JSON text, told before anybody reads it: reading can't be interrupted.

Each value becomes an object of ours. A megabyte of empty lists is a third of a million of them. Import-light: VMs use this too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

MOST_VALUES = 250_000
"""In what a client sends: some hundredths of a second."""
LARGEST = 16 * 2**20
"""Bytes of one request, whichever way it comes: what is taken on one is taken on all."""
LARGE = 2**17
"""Bytes of a text that is read without Python's collector."""
TIMES = 4
"""How many times its size a text takes while it is read."""


def values(text: bytes, many: int) -> int:
    """About how many values there are: commas and brackets, those in strings left out if they come to more than `many`."""
    found = _marks(text)
    if found > many:
        bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        found = bare.count(b'"') // 2
        if found <= many:
            found = _marks(b"".join(bare.split(b'"')[::2]))
    return found


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def uncollected(size: int) -> AbstractContextManager[None]:
    """Without Python's collector, while a text of `size` bytes becomes a million values that are all needed.

    It would look through them again and again, which takes longer than reading them. A thread
    instead would help nobody: reading holds the interpreter's lock all the time.
    """
    return _uncollected() if size > LARGE and gc.isenabled() else COLLECTED


COLLECTED = nullcontext()


@contextmanager
def _uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
