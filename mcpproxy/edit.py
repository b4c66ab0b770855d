"""Changing one value in a JSON document with comments, and nothing else of its text.

A document is text here, never a tree that is written back: an edit finds where a value stands and
cuts or inserts there, so that comments, unknown keys, order, indentation and line ends survive by
not being touched. A path is a tuple of names and places, such as `("mcpServers", 0, "enabled")`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from mcpproxy import jsonc

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s"{}\[\],:\ufeff]+', re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")
BLANKS = " \t"

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One member of an object or element of an array, by positions in the text."""

    key: str | int
    start: int
    """Where it begins; of a member that is its name."""
    value: int
    end: int
    comma: int | None
    """Where the comma after it is, if there is one."""


@dataclass(frozen=True, slots=True)
class Container:
    """An object or an array, from its opening bracket to its closing one."""

    opening: int
    closing: int
    parts: tuple[Part, ...]

    def find(self, key: str | int) -> Part | None:
        """Of a name that comes twice the last counts, as it does for every parser."""
        return next((part for part in reversed(self.parts) if part.key == key), None)


def put(text: str, path: Path, value: Any) -> str:
    """The document with `value` at `path`: in place of what is there, else added at the end.

    What the last step of the path is taken in must be there. Raises `ValueError` for a document
    that doesn't parse, `LookupError` for a path that leads nowhere.
    """
    plain = _plain(text)
    within = _at(plain, path[:-1])
    key = path[-1]
    part = within.find(key)
    if part is not None:
        indent = _indent(text, part.start) or ""
        return text[: part.value] + _written(text, value, indent) + text[part.end :]
    if (plain[within.opening] == "{") != isinstance(key, str) or (
        isinstance(key, int) and key != len(within.parts)
    ):
        raise LookupError(f"there is no place for {key!r}")
    return _added(text, within, key, value)


def remove(text: str, path: Path) -> str:
    """The document without what is at `path`; the comments around it stay.

    Raises `ValueError` for a document that doesn't parse, `LookupError` when there is nothing.
    """
    for _ in range(text.count('"') + 1):
        plain = _plain(text)
        within = _at(plain, path[:-1])
        part = within.find(path[-1])
        if part is None:
            break
        text = _without(text, within, part)
        if isinstance(part.key, int) or sum(part.key == each.key for each in within.parts) == 1:
            return text
        # a name that came twice: the one before would come to light
    raise LookupError(f"there is no {path[-1]!r}")


# ── finding ─────────────────────────────────────────────────────────────────────────────────────


def _plain(text: str) -> str:
    """The text with blanks for comments, known to parse; each position is that of the text."""
    jsonc.loads(text)
    return jsonc.uncommented(text)


def _at(plain: str, path: Path) -> Container:
    """What is to be changed something in. Raises `LookupError`."""
    first = TOKEN.search(plain)
    where = first.start() if first else 0
    for key in path:
        part = _container(plain, where).find(key)
        if part is None:
            raise LookupError(f"there is no {key!r}")
        where = part.value
    return _container(plain, where)


def _container(plain: str, opening: int) -> Container:
    """The parts of what opens there, found by counting brackets; the text is known to parse."""
    if plain[opening : opening + 1] not in ("{", "["):
        raise LookupError("it is no object and no array")
    parts: list[Part] = []
    key: str | int | None = None
    start = value = None
    end = depth = 0
    for token in TOKEN.finditer(plain, opening + 1):
        mark = token[0]
        if depth == 0 and mark in (",", "}", "]"):
            if start is not None and value is not None:
                comma = token.start() if mark == "," else None
                parts.append(Part(len(parts) if key is None else key, start, value, end, comma))
            key = start = value = None
            if mark != ",":
                return Container(opening, token.start(), tuple(parts))
            continue
        if depth == 0 and mark == ":":
            key, value = json.loads(plain[start:end]), None
            continue
        start = token.start() if start is None else start
        value = token.start() if value is None else value
        depth += (mark in ("{", "[")) - (mark in ("}", "]"))
        end = token.end()
    raise ValueError("a bracket is never closed")


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def _added(text: str, within: Container, key: str | int, value: Any) -> str:
    """A new last part, after the comments that follow the one that was last."""
    last = within.parts[-1] if within.parts else None
    here = len(text[: within.closing].rstrip())
    starts = [within.opening + 1, *(part.comma or part.end for part in within.parts)]
    ends = [*(part.start for part in within.parts), within.closing]
    lines = last is None or any("\n" in text[a:b] for a, b in zip(starts, ends, strict=True))
    outer = _margin(text, within.opening)
    indent = outer + _unit(text)
    if last is not None and (found := _indent(text, last.start)) is not None:
        indent = found
    name = f"{json.dumps(key)}: " if isinstance(key, str) else ""
    new = name + (_written(text, value, indent) if lines else _dumped(value))
    if last is not None and last.comma is not None:
        new += ","  # the hand that wrote the others has one after each
    newline = _newline(text)
    gap = newline + indent if lines else " "
    rest = text[here:]
    if lines and "\n" not in text[here : within.closing]:
        rest = newline + outer + text[within.closing :]
    if last is None or last.comma is not None:
        return text[:here] + gap + new + rest
    return text[: last.end] + "," + text[last.end : here] + gap + new + rest


def _without(text: str, within: Container, part: Part) -> str:
    cuts = [(part.start, part.end)]
    n = within.parts.index(part)
    if part.comma is not None:
        cuts.append((part.comma, part.comma + 1))
    elif n and (comma := within.parts[n - 1].comma) is not None:
        cuts.append((comma, comma + 1))
    cuts.sort()
    (a, b), *more = cuts
    if more and not text[b : more[0][0]].strip():  # nothing but blanks between: one cut
        b, more = more[0][1], []
    for start, end in [*reversed(more), (a, b)]:
        text = _cut(text, start, end)
    return text


def _cut(text: str, start: int, end: int) -> str:
    """Without that stretch, and without the lines that it alone was on."""
    before = text[:start].rstrip(BLANKS)
    after = text[end:].lstrip(BLANKS)
    own = before[-1:] in ("\n", "") and after[:2].lstrip("\r")[:1] == "\n"
    if own:
        return before + after[after.index("\n") + 1 :]
    if after[:1] in ("\r", "\n"):
        return before + after
    return text[:start] + (after if before != text[:start] or before[-1:] in "[{\n" else text[end:])


def _written(text: str, value: Any, indent: str) -> str:
    """A value over several lines, in the document's own manner."""
    return _dumped(value, _unit(text)).replace("\n", _newline(text) + indent)


def _dumped(value: Any, indent: str | None = None) -> str:
    plain = json.dumps(value, indent=indent, ensure_ascii=False)
    return json.dumps(value, indent=indent) if SURROGATE.search(plain) else plain


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, position: int) -> str | None:
    """The blanks at the start of a line, if nothing else comes before the position."""
    line = text[text.rfind("\n", 0, position) + 1 : position].removeprefix("\ufeff")
    return line if not line.strip(BLANKS) else None


def _margin(text: str, position: int) -> str:
    """The blanks at the start of the line of a position."""
    line = text[text.rfind("\n", 0, position) + 1 : position].removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(BLANKS))]


def _unit(text: str) -> str:
    """One step of indentation, as the first indented line has it."""
    found = re.search(r"\n([ \t]+)[^\s/*]", text)
    return found[1] if found else "  "
