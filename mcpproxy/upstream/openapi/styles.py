"""How values of parameters are written: the styles of OpenAPI 3 (3.1, "Style Values"; RFC 6570).

All that comes from a value is encoded for its place, so that it can't become a part of the path, another
parameter, or a header. What can't be written so that it stays one value is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

Pairs = list[tuple[str, str]]
"""Names and values of a query, encoded."""

RESERVED = ":/?[]@!$'()*,="
"""Characters that `allowReserved` leaves: not "&", "#", "+" and ";", which would end the value or mean another."""
DEFAULTS = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
FITTING = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}


class Unwritable(ValueError):
    """A value can't be written in the style that the document wants."""


def text(value: Any) -> str:
    """A single value. Nested ones, for which there is no rule, are written as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encoded(value: Any, *, reserved: bool = False) -> str:
    return _quoted(text(value), RESERVED if reserved else "")


def _quoted(single: str, safe: str) -> str:
    try:
        return quote(single, safe=safe)
    except UnicodeEncodeError as error:
        raise Unwritable("it has half a character in it") from error


def in_path(name: str, value: Any, style: str, explode: bool) -> str:
    """What stands in place of `{name}`. Raises `Unwritable`."""
    singles = list(_singles(value))
    for single in singles:
        if any(part in (".", "..") for part in single.replace("\\", "/").split("/")):
            raise Unwritable("it can't have '.' or '..' as a part of a path")
    if value is None or not any(singles):
        raise Unwritable("it can't be empty: the path would be another")
    joined = _joined(value, explode, encoded)
    if style == "label":
        pieces = _pieces(value, explode, encoded)
        return "." + ("." if explode else ",").join(pieces)
    if style == "matrix":
        if explode and isinstance(value, list):
            return "".join(f";{encoded(name)}={encoded(each)}" for each in value)
        if explode and isinstance(value, dict):
            return "".join(f";{encoded(key)}={encoded(each)}" for key, each in value.items())
        return f";{encoded(name)}={joined}"
    return joined


def in_header(value: Any, explode: bool) -> str:
    """Not encoded (RFC 9110 has no encoding); whether a header can hold it is for others to see."""
    return _joined(value, explode, text)


def in_query(name: str, value: Any, style: str, explode: bool, *, reserved: bool = False) -> Pairs:
    """Raises `Unwritable`."""

    def one(each: Any) -> str:
        return encoded(each, reserved=reserved)

    key = _quoted(name, "[]$" if style != "form" else "$")
    if style == "deepObject" and isinstance(value, dict):
        return list(_deep(key, value, one))
    if isinstance(value, dict) and explode:
        return [(encoded(inner), one(each)) for inner, each in value.items()]
    if isinstance(value, list) and (explode or style == "deepObject"):
        return [(key, one(each)) for each in value]
    if isinstance(value, list | dict):
        delimiter = DELIMITERS.get(style, ",")
        pieces = list(_pieces(value, explode, one))
        if style != "form" and any(delimiter in each for each in pieces):
            raise Unwritable("a value of it has the character in it that separates values")
        return [(key, delimiter.join(pieces))] if pieces else []
    return [(key, one(value))]


def _deep(key: str, value: dict[str, Any], one: Callable[[Any], str]) -> Iterator[tuple[str, str]]:
    for name, each in value.items():
        inner = f"{key}[{encoded(name)}]"
        if isinstance(each, dict):
            yield from _deep(inner, each, one)
        elif isinstance(each, list):
            yield from ((inner, one(item)) for item in each)
        elif each is not None:
            yield inner, one(each)


def _joined(value: Any, explode: bool, one: Callable[[Any], str]) -> str:
    return ",".join(_pieces(value, explode, one))


def _pieces(value: Any, explode: bool, one: Callable[[Any], str]) -> Iterator[str]:
    if isinstance(value, list):
        yield from (one(each) for each in value)
    elif isinstance(value, dict) and explode:
        yield from (f"{one(key)}={one(each)}" for key, each in value.items())
    elif isinstance(value, dict):
        for pair in value.items():
            yield from map(one, pair)
    else:
        yield one(value)


def _singles(value: Any) -> Iterator[str]:
    """Each text that a value becomes."""
    return _pieces(value, False, text)
