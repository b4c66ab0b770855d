"""Stored scripts: files that a person keeps next to the configuration, called by name.

The file system is the only way to write one: nothing that listens does (`store` is for a person's
command line). A call opens one file once and reads it once, so a replaced file counts from the next
call on. What an agent's token may not know (paths, other names) is kept from it in every message.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcpproxy.errors import Refused
from mcpproxy.paths import reason, replace_file
from mcpproxy.policy import Caller

MODULES = (".mjs", ".cjs", ".mts", ".cts")
LANGUAGES: Mapping[str, str] = MappingProxyType({".js": "javascript", ".ts": "typescript"})
MAX_BYTES = 262_144
LONGEST_NAME = 64
LISTED = 20
CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "empty": "is empty: it must have at least 1 byte",
        "oversized": f"is oversized: scripts are limited to {MAX_BYTES} bytes",
        "unreadable": "is unreadable: check its permissions and that it is UTF-8",
        "non-regular": "is non-regular: a script must be a regular file, not a symlink, folder or device",
    }
)


@dataclass(frozen=True, slots=True)
class StoredScript:
    """What was read, once."""

    name: str
    source: str
    language: str


class Unusable(Exception):
    """A file that can't be a script; carries one of `REASONS`."""


class Scripts:
    """The stored scripts in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def read(self, name: str, language: str | None, caller: Caller) -> StoredScript:
        """The script called `name`.

        Raises `Refused`: INVALID_SCRIPT_NAME before any file is touched, SCRIPT_NOT_FOUND,
        SCRIPT_UNUSABLE, INVALID_LANGUAGE when `language` contradicts the extension.
        """
        check_name(name)
        paths = self._candidates().get(name, [])
        if not paths:
            raise Refused("SCRIPT_NOT_FOUND", self._not_found(name, caller))
        if len(paths) > 1:
            raise Refused("SCRIPT_UNUSABLE", self._ambiguous(name, paths, caller))
        (path,) = paths
        found = LANGUAGES[path.suffix]
        if language is not None and language != found:
            raise Refused(
                "INVALID_LANGUAGE",
                f'stored script "{name}" is a {path.suffix} file ({found}) but language "{language}" '
                f'was requested; leave language out, or ask for "{found}"',
            )
        try:
            return StoredScript(name, read_script(path), found)
        except FileNotFoundError:
            raise Refused("SCRIPT_NOT_FOUND", self._not_found(name, caller)) from None
        except Unusable as error:
            where = "" if caller.rank == "token" else f" ({path})"
            raise Refused(
                "SCRIPT_UNUSABLE", f'stored script "{name}"{where} {REASONS[str(error)]}'
            ) from None

    def listing(self) -> dict[str, Any]:
        """`{"dir", "scripts": [{"name", "paths", "status", "reason"?}]}`, in alphabetical order."""
        return {
            "dir": str(self.directory),
            "scripts": [
                self._entry(name, paths) for name, paths in sorted(self._candidates().items())
            ],
        }

    def _candidates(self) -> dict[str, list[Path]]:
        """Files with a script's name, by that name, exactly as the directory spells them."""
        found: dict[str, list[Path]] = {}
        for path in self._files():
            if path.suffix in LANGUAGES and valid_name(path.stem):
                found.setdefault(path.stem, []).append(path)
        return found

    def misnamed(self) -> list[Path]:
        """Files that look like scripts and, by their names, are none."""
        return [
            path
            for path in self._files()
            if path.suffix in {*LANGUAGES, *MODULES}
            and not path.stem.endswith(".d")  # declarations
            and not (path.suffix in LANGUAGES and valid_name(path.stem))
        ]

    def _files(self) -> list[Path]:
        try:
            return [self.directory / name for name in sorted(os.listdir(self.directory))]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []

    def _entry(self, name: str, paths: list[Path]) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": name,
            "paths": [str(path) for path in paths],
            "status": "ok",
        }
        if len(paths) > 1:
            return entry | {"status": "ambiguous"}
        try:
            read_script(paths[0])
        except (Unusable, FileNotFoundError) as error:
            reason = str(error) if isinstance(error, Unusable) else "unreadable"
            return entry | {"status": "invalid", "reason": reason}
        return entry

    def _not_found(self, name: str, caller: Caller) -> str:
        if caller.rank == "token":
            return (
                f'stored script "{name}" not found (the stored-script listing is available to '
                "administrators only; an agent-token caller must already know the script name)"
            )
        usable = [entry["name"] for entry in self.listing()["scripts"] if entry["status"] == "ok"]
        if not usable:
            return (
                f'stored script "{name}" not found: no stored scripts in {self.directory} '
                f"(create {name}.js or {name}.ts there)"
            )
        shown = ", ".join(usable[:LISTED]) + (" …" if len(usable) > LISTED else "")
        return (
            f'stored script "{name}" not found in {self.directory}. '
            f"Available scripts ({len(usable)}): {shown}"
        )

    def _ambiguous(self, name: str, paths: list[Path], caller: Caller) -> str:
        if caller.rank != "token":
            return f'stored script "{name}" is ambiguous: {paths[0]} and {paths[1]} both exist — remove one'
        return (
            f'stored script "{name}" is ambiguous: both a .js and a .ts file exist — '
            "ask an administrator to remove one"
        )


def store(directory: Path, name: str, source: str, language: str, *, replace: bool) -> Path:
    """Write a script, where there is none of that name yet or it may be replaced; gives its path.

    Raises `Refused`: INVALID_SCRIPT_NAME, SCRIPT_UNUSABLE.
    """
    check_name(name)
    try:
        text = source.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(source[error.start]):04x}"
        raise Refused(
            "SCRIPT_UNUSABLE",
            f"this code can't be a stored script: it has half a character; write it as {half}",
        ) from error
    if not 0 < len(text) <= MAX_BYTES:
        why = REASONS["oversized" if text else "empty"]
        raise Refused("SCRIPT_UNUSABLE", f"this code can't be a stored script: it {why}")
    (suffix,) = (each for each, spoken in LANGUAGES.items() if spoken == language)
    for other in LANGUAGES:
        path = directory / (name + other)
        if os.path.lexists(path) and not (replace and other == suffix):
            hint = "give another name, or --replace" if other == suffix else "remove it first"
            raise Refused("SCRIPT_UNUSABLE", f"there is {path} already; {hint}")
    path = directory / (name + suffix)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        raise Refused("SCRIPT_UNUSABLE", f"{path} can't be written: {reason(error)}") from error
    return path


def valid_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and CHARACTERS.issuperset(name)


def check_name(name: str) -> None:
    """Raises `Refused` for what can't be the name of a script; touches no file."""
    if valid_name(name):
        return
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in name[:LONGEST_NAME])
    shown += "…" if len(name) > LONGEST_NAME else ""
    if not name:
        reason = "it is empty"
    elif (bad := next((c for c in name if c not in CHARACTERS), None)) is not None:
        shown_bad = bad if bad.isprintable() else f"U+{ord(bad):04X}"
        reason = f'character "{shown_bad}" is not allowed'
    else:
        reason = f"it has {len(name)} characters"
    raise Refused(
        "INVALID_SCRIPT_NAME",
        f'invalid script name "{shown}": {reason}; a name has 1-{LONGEST_NAME} characters of A-Za-z0-9_- '
        "and is never a path",
    )


def read_script(path: Path) -> str:
    """The text of one file: one open, one bounded read.

    Raises `Unusable`, or `FileNotFoundError`. O_NOFOLLOW keeps symlinks out, O_NONBLOCK keeps a
    FIFO from holding us up.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        # A symlink gives ELOOP, a socket ENXIO; whatever the kernel says of a regular file is "unreadable".
        kind = _kind(path)
        raise Unusable(
            "unreadable" if kind is None or stat.S_ISREG(kind) else "non-regular"
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unusable("non-regular")
        data = read_all(descriptor, MAX_BYTES + 1)
    except OSError as error:
        raise Unusable("unreadable") from error
    finally:
        os.close(descriptor)
    if not data:
        raise Unusable("empty")
    if len(data) > MAX_BYTES:
        raise Unusable("oversized")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unusable("unreadable") from error


def read_all(descriptor: int, limit: int) -> bytes:
    """At most `limit` bytes."""
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(descriptor, limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _kind(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except OSError:
        return None
