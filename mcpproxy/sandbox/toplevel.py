"""Where a TypeScript source has what stands in no function: type imports, exports, namespaces.

The source is read as far as it takes to tell code from texts, templates, comments and regular
expressions, so that what merely looks like one of them stays as it is. Import-light, and linear in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

TOKEN = re.compile(
    r"(?P<space>\s++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z))"
    r"|(?P<text>'(?:[^'\\\n]++|\\[\s\S])*+'?|\"(?:[^\"\\\n]++|\\[\s\S])*+\"?)"
    r"|(?P<word>[\w$]++)"
    r"|(?P<mark>[\s\S])"
)
TEMPLATE = re.compile(r"(?:[^`\\$]++|\\[\s\S]|\$(?!\{))*+(?:`|\$\{|\Z)")
"""From the beginning of a template, or the end of what is put into it, to the next of either."""
REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.){0,100}+\]){1,200}+/\w*")
BEFORE_REGEX = frozenset((*"(,=:[!&|?{};+-*%~^<>", ""))
WORDS_BEFORE_REGEX = frozenset(
    "return typeof case in of delete void throw new else do await yield".split()
)
STATEMENT_ENDS = frozenset(("", ";", "}", "export"))

IMPORT_TYPE = re.compile(
    r"import\s+(?:type\b[^;'\"]{0,2000}+|\{\s*+(?:type\s[\w\s$]{1,200}+(?:,\s*+|(?=\})))+\}\s*(?:from\s*)?)"
    r"['\"][^'\"\n]*['\"];?"
)
EXPORT = re.compile(
    r"export\s+type\s*\{[^{}]{0,2000}+\}(?:\s*from\s*['\"][^'\"\n]*['\"])?;?"
    r"|export\s*\{[^{}]{0,2000}+\}(?!\s*from);?|export\b(?:\s+default\b)?(?!\s*[{*=])"
)
NAMESPACE = re.compile(r"(?:declare\s+)?(?:namespace|module|global)\b[^\n{;=()]{0,200}+\{")
OPENS, CLOSES = frozenset("([{"), frozenset(")]}")

Kind = Literal["import", "export", "namespace"]


def pieces(source: str) -> Iterator[tuple[Kind, int, int]]:
    """What there is, and where it begins and ends, in order; of an export with a declaration the keywords alone."""
    last, began = "", -1
    for word, start, end, depth, fresh in words(source):
        if depth or last == ".":
            pass
        elif began >= 0 and word == "}":
            yield "namespace", began, end
            began = -1
        elif word == "import" and (whole := IMPORT_TYPE.match(source, start)):
            yield "import", start, whole.end()
        elif word == "export" and (whole := EXPORT.match(source, start)):
            yield "export", start, whole.end()
        elif began < 0 and (fresh or last in STATEMENT_ENDS) and NAMESPACE.match(source, start):
            began = start
        last = word


def words(source: str) -> Iterator[tuple[str, int, int, int, bool]]:
    """What the source consists of: the text, where it begins and ends, how many brackets are open
    around it, and whether it begins a line. Texts of all kinds have a quote in place of their own."""
    opened: list[str] = []
    at, last, fresh = 0, "", False
    while at < len(source):
        found = TOKEN.match(source, at)
        assert found is not None
        start, at, word = at, found.end(), found[0]
        if found["space"] is not None:
            fresh = fresh or "\n" in word
            continue
        if word == "`" or (word == "}" and opened[-1:] == ["`"]):
            del opened[len(opened) - (word == "}") :]
            at, within = _template(source, at)
            opened += ["`"] * within
            word = "`"
        elif word in CLOSES:
            del opened[-1:]
        elif word == "/" and (last in BEFORE_REGEX or last in WORDS_BEFORE_REGEX):
            regex = REGEX.match(source, start)
            at, word = (at, word) if regex is None else (regex.end(), "`")
        yield ("'" if found["text"] else word), start, at, len(opened), fresh
        if word in OPENS:
            opened.append(word)
        last, fresh = word, False


def _template(source: str, at: int) -> tuple[int, bool]:
    """Where a piece of a template ends, and whether something is put in there."""
    found = TEMPLATE.match(source, at)
    assert found is not None
    return found.end(), found[0].endswith("${")
