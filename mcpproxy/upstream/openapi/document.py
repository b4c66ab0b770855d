"""The files that a document consists of: plain data from JSON or YAML, and what its references lead to.

YAML as OpenAPI wants it: what JSON can say, so dates and times are texts, only `true` and `false` are
booleans, and numbers are those of JSON. Source: OpenAPI 3.1, "Format"; YAML 1.2, "JSON Schema".
A `$ref` may lead to another file beside a document that is a file, and nowhere over the network.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from mcpproxy.upstream.files import Bad, inside

Json = dict[str, Any]

LARGEST = 32 * 2**20
"""Bytes of a file."""
MOST_PARTS = 3_000_000
"""Values in a file, aliases of YAML counted as often as they are used."""
DEEPEST = 200
LONGEST_CHAIN = 32
"""References that lead to one another."""


# the ignored: which of the two it is, is known only when it runs
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML, with the tags of JSON alone (OpenAPI, "Format": the JSON schema ruleset)."""


_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(?:true|false)\Z", list("tf")),
    ("int", r"-?(?:0|[1-9][0-9]*)\Z", list("-0123456789")),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?\Z", list("-0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), _first)


def parse(raw: bytes) -> Any:
    """What a file says. Raises `Bad`."""
    if len(raw) > LARGEST:
        raise Bad(f"it is larger than {LARGEST >> 20} MiB")
    try:
        text = raw.decode("utf-8-sig")
        if text.lstrip()[:1] in ("{", "["):
            try:
                return _plain(json.loads(text))
            except json.JSONDecodeError as error:
                reason = error  # it may be YAML in flow style
        else:
            reason = None
        try:
            return _plain(yaml.load(text, Loader=_Loader))  # noqa: S506 - a safe loader
        except yaml.MarkedYAMLError as error:
            if reason is not None:
                raise Bad(f"it is not valid JSON: {reason.msg}", reason.lineno) from error
            mark = error.problem_mark or error.context_mark
            line = None if mark is None else mark.line + 1
            raise Bad(f"it is not valid YAML: {error.problem or error.context}", line) from error
    except UnicodeDecodeError as error:
        raise Bad("it is not UTF-8", raw[: error.start].count(b"\n") + 1) from error
    except yaml.YAMLError as error:
        raise Bad(f"it is not valid YAML: {str(error).splitlines()[0][:200]}") from error
    except RecursionError as error:
        raise Bad("it is nested too deep") from error
    except ValueError as error:
        raise error if isinstance(error, Bad) else Bad(f"it can't be read: {error}") from error


def _plain(found: Any) -> Any:
    """The same with texts as keys, as JSON has them: `200:` of YAML is a number. Raises `Bad`."""
    left = MOST_PARTS

    def plain(part: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise Bad(f"it has more than {MOST_PARTS} parts, aliases counted")
        if depth > DEEPEST:
            raise Bad("it is nested too deep, or contains itself")
        if isinstance(part, dict):
            if "<<" in part:
                raise Bad("merge keys (<<) are not supported")
            return {_name(key): plain(value, depth + 1) for key, value in part.items()}
        if isinstance(part, list):
            return [plain(each, depth + 1) for each in part]
        if isinstance(part, float) and not math.isfinite(part):
            raise Bad(f"{part} is no number of JSON")
        if part is None or isinstance(part, str | int | float):
            return part
        raise Bad(f"a {type(part).__name__} is nothing that JSON has")

    return plain(found, 0)


def _name(key: Any) -> str:
    """The name of a member, as JSON has it. Raises `Bad`."""
    if key is None or isinstance(key, str | int | float):
        return key if isinstance(key, str) else json.dumps(key)
    raise Bad(f"the key {key!r} is nothing that JSON has")


class Documents:
    """A document, and the files beside it that it refers to; those are read when they are needed."""

    def __init__(self, data: Json, file: Path | None) -> None:
        self.data = data
        self.file = file
        """None for a document of a URL, which consists of itself alone."""
        self._loaded: dict[Path | None, Any] = {file: data}

    @property
    def files(self) -> list[Path]:
        return [path for path in self._loaded if path is not None]

    def whole(self, part: Any, file: Path | None) -> tuple[Any, Path | None]:
        """What a part stands for, where it is a reference, and the file that has it. Raises `Bad`."""
        for _ in range(LONGEST_CHAIN):
            if not (isinstance(part, dict) and isinstance(part.get("$ref"), str)):
                return part, file
            beside = {
                name: value for name, value in part.items() if name in ("summary", "description")
            }
            path, pointer = self.target(part["$ref"], file)
            part, file = self.at(path, pointer), path
            if beside and isinstance(part, dict):
                part = {**part, **beside}
        raise Bad("references lead in a circle")

    def target(self, ref: str, file: Path | None) -> tuple[Path | None, str]:
        """The file and the JSON pointer of a reference. Raises `Bad`."""
        place, _, pointer = ref.partition("#")
        if pointer and not pointer.startswith("/"):
            raise Bad(f"$ref {ref[:200]!r}: a part of a document is named as #/components/…")
        if not place:
            return file, unquote(pointer)
        if file is None or self.file is None:
            raise Bad(f"$ref {ref[:200]!r} leads to another document; bundle them into one")
        if "://" in place or place.startswith(("/", "\\")) or "\0" in place:
            raise Bad(f"$ref {ref[:200]!r} must lead to a file beside the document")
        return inside(file.parent / unquote(place), self.file.resolve().parent), unquote(pointer)

    def at(self, file: Path | None, pointer: str) -> Any:
        """A part of a file. Raises `Bad`."""
        if file not in self._loaded:
            assert file is not None
            self._loaded[file] = parse(read(file))
        found = self._loaded[file]
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise Bad(f"there is nothing at #{pointer[:200]}")
        return found


def texts(found: Any) -> list[str]:
    """The texts of a list; of anything else, none."""
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def read(file: Path) -> bytes:
    """Raises `Bad`."""
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST + 1)
    except OSError as error:
        raise Bad(f"it can't be read: {error.strerror}") from error
