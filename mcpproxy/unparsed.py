"""What a source that doesn't parse was meant as, and what to send instead."""

from __future__ import annotations

import json
import re

from mcpproxy import modules
from mcpproxy.absent import EXPECTED, LEFT_OVER, mentioned, stood_for
from mcpproxy.catalog import Catalog
from mcpproxy.declarations import call_line
from mcpproxy.guesses import looks_like
from mcpproxy.sandbox.source import unfenced

MODULE = re.compile(r"could not load module|^SyntaxError: .*\bmodules?\b")
EXPORT = re.compile(r"^[ \t]*export\s*[*{]", re.MULTILINE)
IMPORTED = "import is not available, there are no modules here"
EXPORTED = "there are no modules here, so nothing can be exported again from another one"

QUOTES = re.compile("Unexpected character '[\u2018\u2019\u201c\u201d\u00ab\u00bb]'")
AROUND_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
ALONE = "Send the code alone, without the text around it, in one block"

JSX = re.compile(r"(?:[=(,?:&]|return)\s*<(?:[A-Za-z][\w.]*(?:\s[^<>]*)?)?/?>")
OBJECT = re.compile(
    r"(?:\A|[;}\n])[ \t]*\{\s*(?:\.\.\.|[\w$]+\s*[:,]|'[^'\n]*'\s*:|\"[^\"\n]*\"\s*:)"
)
ACCESSOR = re.compile(r"[{;}\n]\s?[ \t]*(?:static\s+)?accessor\s+[\w$#]")
ESCAPED = re.compile(r"Expecting Unicode escape sequence")
TWICE = (
    "The code was escaped once too often: send line breaks as they are, not as \\n, and quotes without a \\ "
    "in front of them"
)
ENTITIES = re.compile(r"&(?:gt|lt|amp|quot|#39);")
BROKEN = "A text in quotes ends in its own line: write \\n in it, which JSON has as \\\\n, or use a template, `...`"
NAMED = re.compile(r"\btools[\w$.\[\]'\"-]{0,300}\(\s*[\w$]+\s*:")
LANGUAGE = re.compile(r"\A\s*(?:javascript|js|typescript|ts|code) *:? *\n", re.IGNORECASE)
TAGS = re.compile(r"\A\s*<([A-Za-z][\w-]*)[^<>]{0,200}>(.*)</\1>\s*\Z", re.DOTALL)


def unparsed(message: str, source: str, catalog: Catalog) -> str | None:
    """One sentence on a source that doesn't parse, or None where the message says it all."""
    if "This is TypeScript" in message:
        return None
    if "token ':'" in message and NAMED.search(source):
        return "Arguments go in one object: await tools.<server>.<tool>({name: value})"
    if (tagged := TAGS.match(source)) is not None and looks_like(tagged[2]) is None:
        return "Send the code alone, without the tags around it"
    if (guess := looks_like(source)) is not None:
        if AROUND_FENCE.search(source) and unfenced(source) == source:
            return f"This looks like {guess}, not JavaScript. {ALONE}"
        meant = asked_for(guess, source, catalog) or EXPECTED
        return f"This looks like {guess}, not JavaScript: {meant}"
    if MODULE.search(message):
        if modules.IMPORT.search(source) is None and EXPORT.search(source):
            return EXPORTED
        return f"{IMPORTED}: {modules.instead(source, catalog)}"
    if (word := re.search(r"token '(and|or)'", message)) is not None:
        return f"This is JavaScript: write {'&&' if word[1] == 'and' else '||'}"
    if ESCAPED.search(message):
        return TWICE
    if "Unterminated string" in message:
        return BROKEN
    if ENTITIES.search(source) and re.search("token '[&;]'", message):
        return "The code has entities of HTML: write > for &gt;, < for &lt; and & for &amp;"
    if LANGUAGE.match(source):
        return f"{LEFT_OVER[0].upper()}{LEFT_OVER[1:]}"
    if QUOTES.search(message):
        return "Those are typographic quotes: write ' or \""
    if AROUND_FENCE.search(source) and unfenced(source) == source:
        return ALONE
    if source.lstrip().startswith("#"):
        return "# begins no comment in JavaScript: write //"
    if "character '@'" in message:
        return "Decorators are not available: wrap the function or class by hand"
    if ACCESSOR.search(source):
        return "Accessor fields are not available: write a plain field, or get and set"
    if JSX.search(source) and ("</" in source or "/>" in source):
        return "JSX is not available, there is no page here: return plain data"
    if (brought := modules.IMPORT.search(source)) and not brought[1].startswith(" type "):
        return f"{IMPORTED}: {modules.instead(source, catalog)}"
    if "token ':'" in message and OBJECT.search(source):
        return (
            "An object that is to be the value needs parentheses, ({...}), or return in front of it"
        )
    return None


def asked_for(guess: str, source: str, catalog: Catalog) -> str | None:
    """The call that what is no program seems to ask for."""
    if guess in ("Python", "HTML or XML"):
        tool = mentioned(source, catalog)
    else:
        try:
            asked = json.loads(unfenced(source)) if guess == "JSON" else None
        except (ValueError, RecursionError):
            return None
        members = asked.values() if isinstance(asked, dict) else ()
        if isinstance(asked, dict) and isinstance(asked.get("code"), str):
            return 'Send what is under "code" alone'
        words = [each for each in members if isinstance(each, str)]
        tool = next(stood_for(words[:10], catalog), None)
    return None if tool is None else f"Write {call_line(tool)}"
