"""JSON as people write it in configuration files: with `//` and `/* */` comments and trailing commas.
And, in `strict`, as programs send it.

What is taken out is replaced by blanks, so that every position in an error is that of the file.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

from mcpproxy.bulk import uncollected, values

STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*"?|,(?=\s*[}\]])', re.DOTALL)

ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""Both halves of a pair of surrogates, one alone, or another escape."""


LONGEST_WHOLE = 308
"""Digits of a whole number that every double can hold, if not exactly."""


def loads(text: str, doubled: list[str] | None = None) -> Any:
    """The value of a document. Raises `ValueError` whose message gives line and column.

    Half of a pair of surrogates is refused: no text that leaves us could have it.
    Names that an object has more than once are added to `doubled`; the last of them counts.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if doubled is not None and len(found) < len(pairs):
            doubled.extend(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        return found

    plain = STRING_OR_COMMA.sub(
        lambda found: " " if found[0] == "," else found[0], uncommented(text.removeprefix("\ufeff"))
    )
    try:
        hook = None if doubled is None else members
        found = json.loads(plain, parse_constant=_refuse, object_pairs_hook=hook)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    for escape in ESCAPE.finditer(plain):
        if escape["half"]:
            line = plain.count("\n", 0, escape.start()) + 1
            column = escape.start() - plain.rfind("\n", 0, escape.start())
            raise ValueError(f"line {line}, column {column}: {escape['half']} is half a character")
    return found


def uncommented(text: str) -> str:
    """The document with blanks for its comments."""
    return STRING_OR_COMMENT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def strict(text: str | bytes, most: int | None = None) -> Any:
    """The value of a document that came from a program: JSON as it is, and no number beyond a double.

    Raises `ValueError` whose message says where, or that there are more than `most` values in it.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        if most is not None and values(text.encode("utf-8", "surrogatepass"), most) > most:
            raise ValueError(
                f"it has more than {most:,} values; store the data where a tool can read it"
            )
        with uncollected(len(text)):
            return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        shown = digits if len(digits) <= 50 else f"{digits[:50]}…"
        raise ValueError(f"{shown} is too large for a number")
    return number


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_WHOLE:
        _finite(digits)
    return int(digits)
