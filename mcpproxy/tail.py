"""The end of a log file."""

from __future__ import annotations

from pathlib import Path

CHUNK = 1 << 16


def tail(path: Path, count: int, size: int | None = None) -> list[str]:
    """The last `count` lines of a file, or of its first `size` bytes; none when it isn't there."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return []
    with file:
        position = file.seek(0, 2) if size is None else size
        data = b""
        while position and data.count(b"\n") <= count:
            step = min(CHUNK, position)
            position = file.seek(position - step)
            data = file.read(step) + data
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []
    return lines[-count:] if count else []
