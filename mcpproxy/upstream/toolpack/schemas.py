"""JSON Schemas of tools and prompts: one self-contained document from several files of a pack.

A `$ref` may lead to another file beside it, never to one outside of the pack (however it is spelled
or linked) and never over the network. What it leads to becomes a member of `$defs`.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mcpproxy.upstream.files import Bad, inside
from mcpproxy.upstream.toolpack.document import DEEPEST, load

Json = dict[str, Any]

VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas."""


class Bundle:
    """The files that one schema consists of. `files` is complete once `whole` has returned."""

    def __init__(self, root: Path) -> None:
        self.files: dict[Path, str] = {}
        """Each file and its name in `$defs`."""
        self._root = root
        self._definitions: Json = {}
        self._reserved: set[str] = set()

    def whole(self, schema: Any, file: Path) -> Json:
        """A schema that stands in a file, with all that it refers to. Raises `Bad`."""
        match schema:
            case {"$ref": str(ref)} if len(schema) == 1 and "#" not in ref:
                file = self._file(ref, file)
                schema = self._read(file)
        if not isinstance(schema, dict):
            raise Bad("a schema must be an object", file=file)
        own = schema.get("$defs")
        self._reserved = set(own) if isinstance(own, dict) else set()
        found: Json = self._taken(schema, file, "", 0)
        if self._definitions:
            found["$defs"] = {**found.get("$defs", {}), **self._definitions}
        return found

    def _taken(self, part: Any, file: Path, base: str, depth: int) -> Any:
        """A copy of a part of a file's schema, whose references hold in the bundle; `base` is where the file is in it."""
        if depth > DEEPEST:
            raise Bad("its schema is nested too deep", file=file)
        if isinstance(part, list):
            return [self._taken(each, file, base, depth + 1) for each in part]
        if not isinstance(part, dict):
            return part
        found = {}
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                found[key] = self._pointer(value, file, base)
            elif key in VALUES:
                found[key] = value
            elif key != "$id" or not isinstance(value, str):  # it would be another base for $ref
                found[key] = self._taken(value, file, base, depth + 1)
        return found

    def _pointer(self, ref: str, file: Path, base: str) -> str:
        place, _, fragment = ref.partition("#")
        if fragment and not fragment.startswith("/"):
            raise Bad(f"$ref {ref!r}: a part of a file is named as #/$defs/name", file=file)
        if not place:
            return f"#{base}{fragment}"
        target = self._file(place, file)
        name = self.files.get(target)
        if name is None or name not in self._definitions:
            numbered = (f"file{n}" for n in count(1))
            taken = self._reserved | self._definitions.keys()
            name = self.files[target] = next(each for each in numbered if each not in taken)
            self._definitions[name] = {}  # it may refer to itself
            self._definitions[name] = self._taken(self._read(target), target, f"/$defs/{name}", 0)
        return f"#/$defs/{name}{fragment}"

    def _file(self, ref: str, file: Path) -> Path:
        if "://" in ref or ref.startswith(("/", "\\")) or "\0" in ref:
            raise Bad(
                f"$ref {ref!r} must lead to a file beside this one, such as ./name.json", file=file
            )
        try:
            found = inside(file.parent / unquote(ref), self._root)
        except Bad as error:
            raise Bad(f"$ref {ref!r}: {error}", file=file) from error
        self.files.setdefault(found, "")
        return found

    def _read(self, file: Path) -> Any:
        try:
            return load(file).data
        except Bad as error:
            raise Bad(str(error), error.line, file) from error
