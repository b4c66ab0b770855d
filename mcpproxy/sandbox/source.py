"""What is done with a source before anything reads it as a program.

The daemon does this on its event loop with whatever it was sent, so each step takes time in
proportion to the text.
"""

from __future__ import annotations

import re

WORDS = re.compile(
    r"\b(?:await|return)\b|\busing\s+[\w$]+\s*=|^[ \t]*(?:export\b|(?:module\.)?exports\b)",
    re.MULTILINE,
)
FUNCTION = re.compile(r"\s*(?:/[/*]|async\b|function\b|\(|[\w$]+\s*=>)")

MARKS = ("```", "~~~")
TYPESCRIPT = frozenset({"ts", "typescript", "mts", "cts"})
TAGS = TYPESCRIPT | {"js", "javascript", "jsx", "mjs", "cjs", "node", "tsx"}
"""What fences of programs are called; on one line, other words are taken for code."""


def plain(source: str) -> bool:
    """Whether `eval` takes a JavaScript source as it is, so that nothing has to be parsed."""
    return not (WORDS.search(source) or FUNCTION.match(source))


def unfenced(source: str) -> str:
    """The code in a Markdown fence, each line where it was; other sources as they are.

    A first line such as `#!/usr/bin/env node` becomes a comment: code that is put around the rest
    could not stand before it.
    """
    source = source.removeprefix("\ufeff")
    if source.startswith("#!"):
        return f"//{source[2:]}"
    if not source.lstrip().startswith(MARKS):
        return source
    code = _fenced(source)
    return source if code is None else code


def fence_tag(source: str) -> str:
    """How the language of a fenced source is called, in lower case; "" without a fence or a name."""
    text = source.removeprefix("\ufeff").lstrip()
    if not text.startswith(MARKS):
        return ""
    words = text.partition("\n")[0].lstrip(text[0]).lower().split()
    return words[0] if words else ""


def _fenced(source: str) -> str | None:
    text = source.lstrip()
    length = len(text) - len(text.lstrip(text[0]))
    mark = text[0] * length
    head, newline, _ = text.partition("\n")
    before = len(source) - len(text)
    if not newline:
        return _on_one_line(text.rstrip(), mark, before)
    if text[0] in head[length:]:
        return None
    start = before + len(head) + 1
    code = source[start:].rstrip()
    if code.endswith(mark):
        code = (
            code.rstrip(text[0])
            if code.rpartition("\n")[2].strip(f" \t{mark}") == ""
            else code[:-length]
        )
        code = code.rstrip(" \t").removesuffix("\n")
    if any(line.lstrip().startswith(mark) for line in code.split("\n")):
        return None  # more than one of them
    return "\n" * source.count("\n", 0, start) + code


def _on_one_line(text: str, mark: str, before: int) -> str | None:
    inner = text[len(mark) : -len(mark)]
    if not text.endswith(mark) or len(text) <= 2 * len(mark) or mark[0] in inner:
        return None
    tag, space, rest = inner.partition(" ")
    if space and tag.lower() in TAGS:
        return " " * (before + len(mark) + len(tag) + 1) + rest
    return " " * (before + len(mark)) + inner


def scalar(text: str) -> str:
    """The text with U+FFFD in place of each half of a surrogate pair, which UTF-8 can't hold."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
