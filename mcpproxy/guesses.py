"""What a text seems to be that was sent as a program and is none.

Only ever asked about a source that failed, so a wrong guess costs a sentence.
"""

from __future__ import annotations

import json
import re

from mcpproxy.sandbox.source import fence_tag, unfenced

TAGGED = {
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console"), "a shell command"),
    **dict.fromkeys(("python", "py", "python3"), "Python"),
    **dict.fromkeys(("html", "xml"), "HTML or XML"),
    **dict.fromkeys(("yaml", "yml"), "YAML"),
    "json": "JSON",
    "sql": "SQL",
    "diff": "a diff",
}
"""Names of the languages in fences."""

COMMANDS = "ls|cd|cat|curl|wget|git|npm|npx|pip3?|python3?|node|bash|sh|grep|find|echo|mkdir|rm|cp|mv|sudo|docker|kubectl|touch|chmod|ssh|tar|jq|make"
SHELL = re.compile(
    rf"(?:\$\s|#!\s*/|(?:{COMMANDS})\s+[-\w./~\"']|\.{{1,2}}/\w|export\s+\w+=|\w+=\S+\s+[./\w]"
    r"|for\s+\w+\s+in\s.*;\s*do\b|(?:if|while)\s+\[|(?:ls|pwd|whoami|env|date|ps|top|id|uname|history)\s*\Z)"
)
PYTHON = re.compile(
    r"^[ \t]*(?:(?:async\s+)?def \w+\(.*\).*:|from \w[\w.]* import |import \w[\w.]*(?:,\s*\w+)*\s*$|class \w+.*:\s*$"
    r"|(?:if|elif|while|with|except)\b.*:\s*$|(?:async\s+)?for \w+.* in .*:\s*$|(?:try|else|finally|except):\s*$|print\()"
    r"|=\s*lambda\b.*:|\[[^\[\]\n]* for \w+ in [^\[\]\n]*\]",
    re.MULTILINE,
)
MARKUP = re.compile(r"<(?:!doctype|\?xml|[a-z][\w-]*[\s>/])", re.IGNORECASE)
SQL = re.compile(
    r"(?:select\s.+\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from|create\s+table|with\s+\w+\s+as\s*\(select)\s",
    re.IGNORECASE | re.DOTALL,
)
DIFF = re.compile(r"diff --git |--- \S|@@ -\d")
YAML = re.compile(r"\s*(?:- .*|[\w.-]+:(?:\s.*)?|#.*)?\Z")
OTHER = re.compile(
    r"package \w+\s*$|#include\s*[<\"]|(?:public|private) (?:static |final )*(?:class|void) |using [A-Z][\w.]*;"
    r"|(?:pub )?fn \w+\(|func \w+\(|<\?php|puts |def \w+\s*$",
    re.MULTILINE,
)
WORD = "[^\\W\\d_][\\w'\u2019-]*"
PROSE = re.compile(rf"(?:{WORD}[ ,;]+)+{WORD}\s*[.?!:,]?\s*\Z|(?:{WORD}[ ,]+){{4}}")
"""A line of words alone, or one that begins with several."""
LISTED = re.compile(rf"(?:[-*•]|\d+[.)])\s+{WORD} {WORD}")
UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
STATEMENT = re.compile(
    r"(?:abstract|async|await|class|const|declare|do|else|enum|export|for|function|if|import|interface|let"
    r"|namespace|new|return|switch|throw|try|type|using|var|while|yield)\b"
)
CODE = re.compile(r"[;{}()=]")
LINES, COLUMNS = 40, 200
"""How much of a text is looked at: the daemon does this on its event loop."""


def looks_like(source: str) -> str | None:
    """What the text seems to be; None where nothing says so, or it seems to be a program."""
    if (tag := fence_tag(source)) in TAGGED:
        return TAGGED[tag]
    text = unfenced(source).strip()
    if text[:1] in "{[" and is_json(text):
        return "JSON"
    lines = [line[:COLUMNS] for line in text[: LINES * COLUMNS].split("\n")[:LINES]]
    text, first = "\n".join(lines), lines[0].strip()
    for pattern, what in (
        (MARKUP, "HTML or XML"),
        (SQL, "SQL"),
        (DIFF, "a diff"),
        (SHELL, "a shell command"),
    ):
        if pattern.match(text):
            return what
    if PYTHON.search(text):
        return "Python"
    if OTHER.search(first):
        return "another programming language"
    if len(lines) > 1 and all(YAML.match(line) for line in lines):
        return "YAML"
    if STATEMENT.match(first):
        return None
    unspaced = UNSPACED.search(first) and not CODE.search(first)
    return "prose" if unspaced or LISTED.match(first) or PROSE.match(first) else None


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
