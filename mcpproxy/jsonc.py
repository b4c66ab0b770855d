"""JSON as people write it in configuration files: with `//` and `/* */` comments and trailing commas.

What is taken out is replaced by blanks, so that every position in an error is that of the file.
"""

from __future__ import annotations

import json
import re
from typing import Any

STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*"?|,(?=\s*[}\]])', re.DOTALL)


def loads(text: str) -> Any:
    """The value of a document. Raises `ValueError` whose message gives line and column."""
    plain = STRING_OR_COMMA.sub(
        lambda found: " " if found[0] == "," else found[0], uncommented(text.removeprefix("\ufeff"))
    )
    try:
        return json.loads(plain, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def uncommented(text: str) -> str:
    """The document with blanks for its comments."""
    return STRING_OR_COMMENT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
