"""Checks of values by JSON Schemas, and how much work one makes: a check can't be interrupted.

A small schema may take for ever: definitions that each refer twice to the next, or one that leads back
into itself by two ways at the same place of a value. So what is asked for is estimated before anybody does
it, erring on the side of more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

MANY_VALUES = 1000
"""In a value of which one violation is told, and no more."""
MOST_STEPS = 1_000_000
"""Of a check, which nothing can interrupt: some hundredths of a second."""

Ways = dict[str, int]
"""Places of a value, as a path from where it is checked, and how often a schema leads back into itself there."""
MOST_WAYS = 1000
MOST_BY_NAME = 10
"""References that lead to a name instead of a place; few schemas have any."""


class Effort:
    """How much there is to check by a schema, where a reference stands for all that it leads to.

    Forty definitions that each refer twice to the next are a small schema, and a check without end.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._known: dict[int, tuple[int, Ways] | None] = {}
        self.steps, ways = self._of(schema)
        anywhere = sum(n for place, n in ways.items() if "~" in place)
        self.again = max(ways.values(), default=0) + (anywhere if len(ways) > 1 else 0)
        """How often one place of a value may be checked for each time that what holds it is."""
        if len(ways) >= MOST_WAYS:
            self.again = max(self.again, 2)
        if by_name(schema) > MOST_BY_NAME:
            self.steps = MOST_STEPS + 1

    def _of(self, part: Any) -> tuple[int, Ways]:
        if not isinstance(part, Mapping | list):
            return 1, {}
        if id(part) in self._known:
            return self._known[id(part)] or (1, {"": 1})  # None: we are in it
        self._known[id(part)] = None
        steps, ways = 1, Ways()

        def add(place: str, found: tuple[int, Ways]) -> None:
            nonlocal steps
            steps = min(steps + found[0], MOST_STEPS + 1)
            for inner, n in found[1].items():
                if len(ways) < MOST_WAYS:
                    ways[place + inner] = min(ways.get(place + inner, 0) + n, MOST_STEPS)

        for name, each in part.items() if isinstance(part, Mapping) else (("", e) for e in part):
            if name == "properties" and isinstance(each, Mapping):
                for key, inner in each.items():
                    add(f"/{key}", self._of(inner))
            elif name in REFERENCES and isinstance(each, str):
                add("", self._led_to(each))
            elif name not in DEFINITIONS:
                add(INNER.get(name, ""), self._of(each))
        self._known[id(part)] = steps, ways
        return steps, ways

    def _led_to(self, ref: str) -> tuple[int, Ways]:
        found: Any = self._root
        for each in ref[1:].split("/")[1:]:
            name = unquote(each).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, Mapping) and name in found:
                found = found[name]
            else:
                return 1, {}
        return self._of(found)


def by_name(schema: Mapping[str, Any]) -> int:
    """How many references are no pointers into the schema: whither they lead isn't looked up here."""
    found, todo = 0, list[Any]([schema])
    while todo:
        part = todo.pop()
        if isinstance(part, Mapping):
            refs = [part[name] for name in REFERENCES if isinstance(part.get(name), str)]
            found += sum(ref != "#" and not ref.startswith("#/") for ref in refs)
        todo += (
            part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
        )
    return found


REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
DEFINITIONS = frozenset({"$defs", "definitions"})
INNER = {
    "items": "/*", "additionalItems": "/*", "prefixItems": "/*", "contains": "/*",
    "unevaluatedItems": "/*", "additionalProperties": "/*", "unevaluatedProperties": "/*",
    "patternProperties": "/~",
}  # fmt: skip
"""Keywords about what is in a value. Items of all kinds are one place, and a pattern may be any name's."""


def compiled(schema: Mapping[str, Any]) -> Any:
    """What checks values by a schema. Raises `ValueError`, `TypeError`, `RecursionError` or `ReferencingError`."""
    return jsonschema_rs.validator_for(dict(schema), retriever=_stay_here)


def _stay_here(uri: str) -> Any:
    raise ValueError(f"{uri} would have to be fetched")


def violations(validator: Any, value: Any) -> list[Any]:
    """What a value breaks; of a large one the first violation alone.

    The validator makes all of them at once, each with a copy of what it is about: seconds, and gigabytes.
    A lone surrogate, which it can't read, counts as a question mark.
    """
    try:
        return _violations(validator, value)
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return _violations(validator, json.loads(text))


def _violations(validator: Any, value: Any) -> list[Any]:
    if validator.is_valid(value):
        return []
    if not _large(value):
        return list(validator.iter_errors(value))
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def path_text(path: Iterable[str | int]) -> str:
    """Where in a value something is, as what follows the value's name: `.tags[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _large(value: Any) -> bool:
    todo, count = [value], 0
    while todo:
        found = todo.pop()
        if isinstance(found, Mapping | list):
            count += len(found)
            if count > MANY_VALUES:
                return True
            todo += found.values() if isinstance(found, Mapping) else found
    return False


def too_deep(value: Any, again: int) -> bool:
    """Whether a value is nested so deep that a schema which leads back into itself makes too many steps of it."""
    if again < 2 or not isinstance(value, Mapping | list):
        return False
    levels = math.log(MOST_STEPS, again)
    layer: list[Any] = [value]
    while layer and levels > 0:
        levels -= 1
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
            if isinstance(inner, Mapping | list)
        ]
    return bool(layer)
