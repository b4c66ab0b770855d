"""Files that say which tools there are: what is wrong with one, and that none leads out of its folder."""

from __future__ import annotations

from pathlib import Path

Where = tuple[str | int, ...]
"""The way to a part of a document: keys and places."""


class Bad(ValueError):
    """A file can't be used; the message says why, `line` says where if that is known."""

    def __init__(
        self,
        reason: str,
        line: int | None = None,
        file: Path | None = None,
        where: Where = (),
    ) -> None:
        super().__init__(reason)
        self.line = line
        self.file = file
        """The file at fault, where it isn't the one that was being read."""
        self.where = where
        """The part at fault, where its line isn't known to whoever found it."""


def inside(path: Path, root: Path) -> Path:
    """The file that a path leads to, all links followed. Raises `Bad` for what is no file below the root."""
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise Bad(f"there is no file {shown(path, root)}") from error
    if not found.is_relative_to(root.resolve()):
        raise Bad(f"{shown(path, root)} leads out of the folder {root.name}")
    if not found.is_file():
        raise Bad(f"{shown(path, root)} is no file")
    return found


def shown(path: Path, root: Path) -> str:
    """A path as messages name it: from the pack's root, on one line."""
    try:
        path = path.relative_to(root)
    except ValueError:
        pass
    return ascii(str(path))[1:-1] if not str(path).isprintable() else str(path)
