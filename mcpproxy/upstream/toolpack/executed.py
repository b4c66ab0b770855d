"""What a call of a tool comes to, as far as a pack says it: the command or the request, and the code that it runs.

Code is followed by name: a file of the pack belongs to a command when every part of its path, from the
folder of what names it or one above, is a word of the command or of code that belongs to it already. That finds what
`import`, `require`, `include` and a shell find, and at times a file more; not what is put together when it
runs, nor what is installed beside the pack.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from mcpproxy.upstream.toolpack.toolfile import ToolFile

CODE = frozenset(
    {".py", ".js", ".mjs", ".cjs", ".ts", ".php", ".sh", ".bash", ".rb", ".pl", ".lua", ".r", ".jq", ".awk", ".sql"}
)  # fmt: skip
"""Endings of files that are run; one that may be executed is as well."""
FOLDERS = frozenset({"__init__", "index"})
"""Code that goes by the name of its folder."""
WORD = re.compile(r"\w+")
MOST_TEXT = 2**20
"""Bytes of a file that are looked through for names; the hash is of all of it."""

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    folder: Parts
    names: tuple[frozenset[str], ...]
    """The words of each part of its path."""


class Code:
    """The code of a pack. Each file is read once, when something names it."""

    def __init__(self, root: Path, files: Iterable[tuple[Path, int]]) -> None:
        """`files` are those of the pack, each with its mode."""
        self._root = root
        self._by_word: dict[str, list[_File]] = {}
        for path, mode in files:
            if path.suffix.lower() in CODE or mode & 0o111:
                self._add(path)
        self._read: dict[_File, tuple[str, frozenset[str]]] = {}

    def _add(self, path: Path) -> None:
        *above, last = path.relative_to(self._root).parts
        stem = last.lstrip(".").partition(".")[0]
        spelled = above if stem in FOLDERS else [*above, stem]
        if spelled:
            names = tuple(map(words, spelled))
            file = _File(path, tuple(above), names)
            self._by_word.setdefault(min(names[-1], default=""), []).append(file)

    def of(self, command: Iterable[str], folder: Path) -> dict[str, str]:
        """The code that a command leads to which stands in a file of a folder: SHA-256 by path."""
        found: dict[_File, str] = {}
        todo = [(folder.relative_to(self._root).parts, words(" ".join(command)))]
        while todo:
            for file in self._named(*todo.pop()):
                if file not in found:
                    found[file], said = self._file(file)
                    todo.append((file.folder, said))
        shown = {file.path.relative_to(self._root).as_posix(): found[file] for file in found}
        return dict(sorted(shown.items()))

    def _named(self, folder: Parts, said: frozenset[str]) -> Iterator[_File]:
        for word in (*said, ""):
            for file in self._by_word.get(word, ()):
                above = sum(1 for _ in takewhile(_same, zip(file.folder, folder, strict=False)))
                if all(name <= said for name in file.names[min(above, len(file.names) - 1) :]):
                    yield file

    def _file(self, file: _File) -> tuple[str, frozenset[str]]:
        if (known := self._read.get(file)) is None:
            try:
                with file.path.open("rb") as stream:
                    said = words(stream.read(MOST_TEXT).decode("utf-8", "replace"))
                    stream.seek(0)
                    known = hashlib.file_digest(stream, "sha256").hexdigest(), said
            except OSError as error:  # as it is it can't be run; once it can, this is another text
                known = f"can't be read: {error.strerror}", frozenset()
            self._read[file] = known
        return known


def words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.casefold()))


def _same(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def runs(tool: ToolFile, file: Path, code: Code) -> dict[str, Any]:
    """What an operator approves of a tool besides its definition. Values of headers may be secrets: by hash."""
    found: dict[str, Any] = {"kind": tool.kind}
    if tool.kind == "http":
        found["method"] = tool.method
        if tool.headers:
            found["headers"] = {
                name: hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
                for name, value in tool.headers.items()
            }
        if tool.allow_hosts:
            found["allow_hosts"] = tool.allow_hosts
    command = tool.entry or tool.php or []
    found["entry"] = list(command)
    if tool.php_binary:
        found["phpBinary"] = tool.php_binary
    if tool.env:
        found["env"] = tool.env
    if tool.kind == "python":  # a file of such a name is imported in place of Python's own
        found["code"] = code.of([*command, *sys.stdlib_module_names], file.parent)
    elif tool.kind != "http":
        found["code"] = code.of(command, file.parent)
    return found
