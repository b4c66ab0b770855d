"""YAML and JSON files of a pack: plain data, and the line on which each part of it begins.

Only what JSON can say comes out. Aliases are allowed, and counted as often as they are used, so
that a small file can't stand for a huge one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mcpproxy.upstream.files import Bad, Where

LARGEST = 2**20
"""Bytes of a file."""
MOST_PARTS = 20_000
DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says."""

    data: Any
    lines: dict[Where, int]

    def line(self, where: Where) -> int | None:
        """The line of a part, or of the nearest one around it."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where)


def load(path: Path) -> Document:
    """Raises `Bad`."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise Bad(f"it can't be read: {error.strerror}") from error
    if len(raw) > LARGEST:
        raise Bad(f"it is larger than {LARGEST >> 10} KiB")
    try:
        text = raw.decode()
        return _json(text) if path.suffix == ".json" else parse(text)
    except UnicodeDecodeError as error:
        raise Bad("it is not UTF-8", raw[: error.start].count(b"\n") + 1) from error


def _json(text: str) -> Document:
    """JSON may be indented by tabs, which YAML forbids."""

    def constant(name: str) -> Any:
        raise Bad(f"{name} is no number of JSON")

    try:
        return Document(json.loads(text, parse_constant=constant), {})
    except json.JSONDecodeError as error:
        raise Bad(f"it is not valid JSON: {error.msg}", error.lineno) from error
    except RecursionError as error:
        raise Bad("it is nested too deep") from error
    except ValueError as error:
        raise error if isinstance(error, Bad) else Bad(f"it can't be read: {error}") from error


def parse(text: str) -> Document:
    """Raises `Bad`."""
    try:
        reader = _Reader(text)
        node = reader.get_single_node()
        if node is None:
            raise Bad("it is empty")
        lines: dict[Where, int] = {}
        return Document(reader.plain(node, (), lines), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Bad(f"it is not valid YAML: {error.problem or error.context}", _line(mark)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Bad(f"it has a character that YAML doesn't allow: {error.reason}", line) from error
    except RecursionError as error:
        raise Bad("it is nested too deep") from error


def _line(mark: yaml.Mark | None) -> int | None:
    return None if mark is None else mark.line + 1


class _Reader(yaml.SafeLoader):
    """PyYAML up to its graph of nodes, and our own way from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._parts = 0

    def plain(self, node: yaml.Node, where: Where, lines: dict[Where, int]) -> Any:
        line = node.start_mark.line + 1
        lines.setdefault(where, line)
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise Bad(f"it has more than {MOST_PARTS} parts, aliases counted", line)
        if len(where) > DEEPEST:
            raise Bad("it is nested too deep", line)
        match node:
            case yaml.MappingNode():
                return {
                    key: self.plain(value, (*where, key), lines)
                    for key, value in self._members(node, where, lines)
                }
            case yaml.SequenceNode():
                return [self.plain(each, (*where, n), lines) for n, each in enumerate(node.value)]
        return self._scalar(node, line)

    def _members(
        self, node: yaml.MappingNode, where: Where, lines: dict[Where, int]
    ) -> Iterator[tuple[str, yaml.Node]]:
        if any(name.tag == "tag:yaml.org,2002:merge" for name, _ in node.value):
            raise Bad("merge keys (<<) are not supported", node.start_mark.line + 1)
        seen: set[str] = set()
        for name, value in node.value:
            line = name.start_mark.line + 1
            key = self.construct_object(name)
            if not isinstance(key, str):
                raise Bad(f"the key {key!r} must be a text: put it into quotes", line)
            if key in seen:
                raise Bad(f"the key {key!r} is there twice", line)
            seen.add(key)
            lines[(*where, key)] = line
            yield key, value

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        try:
            value = self.construct_object(node)
        except ValueError as error:
            raise Bad(f"{node.value!r} is no value: {error}", line) from error
        if isinstance(value, float) and not math.isfinite(value):
            raise Bad(f"{node.value!r} is no number of JSON", line)
        # To YAML 1.1 a time of day is a number in base 60.
        if isinstance(value, (int, float)) and ":" in node.value:
            raise Bad(f"{node.value!r} is read as {value}: put it into quotes", line)
        if value is None or isinstance(value, (str, int, float)):
            return value
        raise Bad(f"{node.value!r} is read as a {type(value).__name__}: put it into quotes", line)
