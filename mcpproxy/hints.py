"""What to do next, said where an error is about something a script can't have.

Added to messages of scripts that failed; nothing here decides anything.
"""

from __future__ import annotations

import json
import re

ABSENT = {
    "fetch": "there is no network here: call a tool, e.g. await tools.<server>.<tool>({...}); search_tools() finds one",
    "XMLHttpRequest": "there is no network here: call a tool instead",
    "WebSocket": "there is no network here: call a tool instead",
    "require": "there are no modules here: require is not available; what comes from outside comes from tools",
    "module": "there are no modules here",
    "exports": "there are no modules here: end with the value, or return it",
    "process": "there is no process object or environment here: pass what you need as input",
    "Buffer": "there is no Buffer here: use TextEncoder, TextDecoder, atob or btoa",
    "fs": "there are no files here: fs is not available; call a tool that reads files",
    "setTimeout": "there are no timers here: use await sleep(ms)",
    "setInterval": "there are no timers here: setInterval is not available; loop with await sleep(ms)",
    "setImmediate": "there are no timers here: use queueMicrotask or await sleep(0)",
    "clearTimeout": "there are no timers here: use await sleep(ms)",
    "window": "this is no browser: use globalThis",
    "document": "this is no browser: there is no document",
    "Deno": "this is not Deno: call a tool instead",
    "Bun": "this is not Bun: call a tool instead",
    "Intl": "there is no Intl here: format by hand, e.g. toFixed or toISOString",
    "print": "use console.log",
    "WebAssembly": "there is no WebAssembly here",
}
"""Names that models expect, and what to use instead."""

MISSING = re.compile(r"^ReferenceError: (?:'?)([\w$]+)(?:'?) is not defined")
MODULE = re.compile(r"could not load module|^SyntaxError: .*\b(?:import|export|module)\b")
STATIC_IMPORT = re.compile(
    r"^\s*(?:import\s+[\w{*'\"]|export\s+(?:default|const|async|function|\{))", re.MULTILINE
)

SHELL = re.compile(
    r"\s*(?:\$\s|#!\s*/|(?:ls|cd|cat|curl|wget|git|npm|npx|pip|python3?|node|bash|sh|grep|find|echo|mkdir|rm|cp|mv|sudo|docker|kubectl)\s+[-\w./~\"'])"
)
PYTHON = re.compile(
    r"^\s*(?:def \w+\(.*\):|from \w[\w.]* import |import \w+\s*$|class \w+.*:\s*$|if .*:\s*$|for \w+ in .*:\s*$|print\()",
    re.MULTILINE,
)
MARKUP = re.compile(r"<(?:!doctype|\?xml|[a-z][\w-]*[\s>/])", re.IGNORECASE)
SQL = re.compile(
    r"(?:select\s.+\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from|create\s+table)\s",
    re.IGNORECASE | re.DOTALL,
)
PROSE = re.compile(r"\s*[A-Z][a-z']*(?:\s+[A-Za-z',]+){3,}[.?!:]?")

EXPECTED = (
    "code must be a JavaScript or TypeScript program that calls tools and gives a value, for example: "
    "const r = await tools.<server>.<tool>({...}); return r"
)


def advice(code: str, message: str, source: str) -> str | None:
    """One sentence for the one who wrote `source`, or None when there is nothing to add."""
    if (found := MISSING.match(message)) is not None:
        return ABSENT.get(found[1])
    if MODULE.search(message) or (code == "SYNTAX_ERROR" and STATIC_IMPORT.search(source)):
        return "import and export are not available, there are no modules here: tools are reached as await tools.<server>.<tool>({...})"
    if code == "SYNTAX_ERROR" and (guess := looks_like(source)) is not None:
        return f"This looks like {guess}, not JavaScript: {EXPECTED}"
    return None


def looks_like(source: str) -> str | None:
    """What a text that doesn't parse as a program seems to be instead."""
    text = source.strip().removeprefix("```").strip()
    if text[:1] in "{[":
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return "JSON"
    if MARKUP.match(text):
        return "HTML or XML"
    if SQL.match(text):
        return "SQL"
    if SHELL.match(text):
        return "a shell command"
    if PYTHON.search(text):
        return "Python"
    if PROSE.match(text) and not re.search(r"[;{}()=]", text[:200]):
        return "prose"
    return None
