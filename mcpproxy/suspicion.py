"""What in a tool's words looks as if it were meant to steer a model rather than to describe a tool.

Pure, and no more than a hint for the person who approves: it finds what is often seen in attacks
(hidden characters, orders to a model, other servers' tools, requests for secrets, what a page doesn't
show), and a description without a finding proves nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mcpproxy.names import SEPARATORS

DEEPEST = 40
"""Levels of a schema that are looked into."""
LONGEST = 20_000
"""Characters of one text that are looked at."""
AROUND = 30
"""Characters shown on both sides of a find."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should look at."""

    kind: str
    where: str
    """Path of the text within the definition."""
    excerpt: str
    """With hidden characters made visible."""
    why: str


# ── characters ──────────────────────────────────────────────────────────────────────────────────

TAGS = range(0xE0000, 0xE0080)
VARIATIONS = range(0xE0100, 0xE01F0)
BIDI = {0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069}
MARKS = {0x200E, 0x200F, 0x061C}
"""Directions of writing; at home in a text that has letters from right to left."""
JOINERS = {0x200C, 0x200D}
"""At home between emoji, and in scripts that join their letters."""
FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f")
"""The flag of a region, such as Wales: the one right use of tags."""


def visible(text: str) -> str:
    """The text with each character that isn't seen, or acts on a terminal, named in its place."""
    return "".join(
        char if char in "\n\t" or not _unseen(char) else f"<U+{ord(char):04X}>" for char in text
    )


def _unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co") or ord(char) in VARIATIONS


def hidden(text: str) -> Iterator[tuple[int, str]]:
    """Place and kind of each character that hides something."""
    if text.isascii() and text.isprintable():
        return
    text = FLAG.sub(lambda match: " " * len(match[0]), text)
    letters = (char for char in text if ord(char) not in MARKS)  # two marks have that direction
    right_to_left = any(unicodedata.bidirectional(char) in ("R", "AL") for char in letters)
    for at, char in enumerate(text):
        code = ord(char)
        if char in "\n\r\t" or not _unseen(char) or (code == 0xFEFF and at == 0):
            continue
        if (code in MARKS and right_to_left) or (code in JOINERS and _joins(text, at)):
            continue
        if code in TAGS:
            yield at, "letters that are not shown (Unicode tags)"
        elif code in BIDI or code in MARKS:
            yield at, "a change of the direction of writing"
        elif unicodedata.category(char) == "Cc":
            yield at, "a control character"
        else:
            yield at, "a character that is not shown"


def _joins(text: str, at: int) -> bool:
    """Whether a joiner stands between what is joined: emoji, or letters of a script that does so."""
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    return all(one and ord(one) >= 0x0600 and not _unseen(one) for one in (before, after))


# ── words ───────────────────────────────────────────────────────────────────────────────────────

_I = re.IGNORECASE
ORDERS = [
    (re.compile(pattern, _I), why)
    for pattern, why in (
        (r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:previous|prior|earlier|above|preceding|other|all|any|system|safety|your)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules?|guidelines?|guardrails|directives?|constraints|context)\b", "it tells a model to ignore its instructions"),
        (r"\b(?:do\s*not|don't|never|must not|without|avoid)\b[^.\n]{0,30}\b(?:tell|telling|mention|mentioning|inform|informing|notify|notifying|reveal|revealing|disclose|show|ask|asking|alert|alerting)\b[^.\n]{0,40}\b(?:users?|humans?|person|anyone|operator)\b", "it wants something kept from the user"),
        (r"\bthe user (?:must|should|need|does|will|can) ?(?:not|n't|never)\b[^.\n]{0,30}\b(?:know|see|be (?:told|aware|informed|notified))\b", "it wants something kept from the user"),
        (r"\b(?:secretly|silently|covertly|quietly)\b[^.\n]{0,60}\b(?:send|forward|copy|cc|bcc|upload|post|read|include|add|call|append|collect)\b", "it wants something done unseen"),
        (r"</?\s*(?:important|system|instructions?|secret|hidden|admin|critical|assistant|human|im_start|im_end|s)\s*>|<\|[a-z_]+\|>|\[/?INST\]|\[SYSTEM\]", "it has marks that set off orders to a model"),
        (r"\bbefore\b[^.\n]{0,30}\b(?:using|calling|invoking|running|executing|you (?:use|call|run))\b[^.\n]{0,20}\b(?:any|every|all|each|another|other)\b[^.\n]{0,12}\btools?\b", "it gives orders about other tools"),
        (r"\b(?:instead of|rather than|in place of|replaces?|never use|do not use|don't use|stop using)\b[^.\n]{0,20}\b(?:any|every|all|the|your|its|another|other)\b[^.\n]{0,12}\b(?:other|built-?in|native|existing|default)\b[^.\n]{0,20}\btools?\b", "it wants to be taken instead of other tools"),
        (r"\b(?:when|whenever|if|every time|each time)\b[^.\n]{0,30}\b(?:another|other|any|a different)\b[^.\n]{0,15}\b(?:tools?|servers?)\b[^.\n]{0,40}\b(?:called|used|invoked|available|send|sends|run)\b[^.\n]{0,80}\b(?:must|always|should|change|redirect|modify|replace|instead)\b", "it gives orders about other tools"),
        (r"\byou are (?:now|no longer|actually|going to (?:be|act))\b", "it tells a model who it is"),
        (r"\b(?:new|updated|real|actual|true|additional|secret|hidden) (?:system )?(?:instructions?|directives?|orders)\s*(?::|for (?:the )?(?:ai|assistant|model|agent|llm))", "it claims to be a model's instructions"),
        (r"\b(?:your|the) system prompt\b", "it speaks of the system prompt"),
        (r"\b(?:attention|note|message|warning|instructions?)\b[^.\n]{0,10}\b(?:to|for) (?:the |all |any )?(?:ai|llm|language model|assistant|agent|claude|gpt|chatgpt|gemini|copilot)s?\b\s*[:!-]", "it speaks to a model rather than of a tool"),
        (r"\b(?:otherwise|or else|failing to|if you (?:do not|don't|fail)|without this)\b[^.\n]{0,60}\b(?:application|system|everything|app|server|tool|task)?\s*\b(?:will (?:crash|be (?:deleted|lost|terminated))|crashes|people (?:will )?die|be (?:shut down|punished|terminated))\b", "it threatens"),
    )
]  # fmt: skip

SECRETS = [
    (re.compile(pattern, _I), why)
    for pattern, why in (
        (r"~?/?\.ssh/|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\bauthorized_keys\b|/etc/(?:passwd|shadow|sudoers)\b", "it names files that hold secrets"),
        (r"(?:~|\$HOME|%USERPROFILE%)/?\\?\.(?:aws|kube|gnupg|docker|netrc|npmrc|pypirc|git-credentials|cursor|claude|config/gcloud|mcpproxy)\b|\.aws/credentials|\.cursor/mcp\.json|\bclaude_desktop_config\.json|\bmcp_config\.json", "it names files that hold secrets"),
        (r"\b(?:read|open|load|cat|fetch|get|send|include|attach|upload|copy|pass)\b[^.\n]{0,50}(?:(?<![\w.])\.env\b|\bprivate keys?\b|\bkeychain\b|\bbrowser (?:cookies|passwords)|\bwallet\.dat\b|\bseed phrase)", "it asks for secrets"),
        (r"\b(?:send|include|pass|provide|put|append|attach|share|forward|exfiltrate|leak|collect|gather)\b[^.\n]{0,40}\b(?:user'?s|their|your|all|any|the system'?s|environment|stored|saved)\b[^.\n]{0,25}\b(?:passwords?|credentials?|api[ _-]?keys?|access tokens?|secrets?|environment variables?|cookies|credit card)", "it asks for secrets"),
        (r"\b(?:full|entire|whole|complete|all|previous|current|prior)\b[^.\n]{0,15}\b(?:conversation|chat|message)s?\b[^.\n]{0,12}\b(?:history|log|transcript|context|so far|verbatim)\b", "it asks for the conversation"),
        (r"\b(?:contents?|text) of\b[^.\n]{0,40}\b(?:as|in|into|to|through|via|with)\b[^.\n]{0,15}(?:\bthis\b|the\b|a\b|its\b|'\w+'|`\w+`|\"\w+\")\s*\w*\s*(?:parameter|argument|field|note|sidenote|param)\b", "it wants a file's contents passed along"),
    )
]  # fmt: skip

UNSEEN = [
    (re.compile(pattern, _I | re.DOTALL), kind, why)
    for pattern, kind, why in (
        (r"<!--.{0,2000}?(?:-->|$)", "comment", "an HTML comment is not shown to people who read the page"),
        (r"<[a-z]+\b[^>]{0,200}\b(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0\b|hidden\b)[^>]{0,200}>", "comment", "markup that is not shown"),
        (r"!\[[^\]\n]{0,200}\]\(\s{0,20}https?://[^)\s?&]{0,400}[?&][^)\s=]{0,400}=", "link", "an image whose address can carry data away"),
    )
]  # fmt: skip
BLANK = re.compile(r"\s{30,}")
BLOB = re.compile(r"(?<![\w/+.:-])(?:[A-Za-z0-9+/]{80,}={0,2}|[A-Za-z0-9_-]{100,})(?![\w/+])")
DATA = re.compile(r"\bdata:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=]{40,}")
DULL = re.compile(r"\$(?:schema|ref|id|anchor)$")
"""Members of a schema that nobody reads."""
WORD = re.compile(r"[A-Za-z0-9]+(?:[_.:/-]{1,2}[A-Za-z0-9]+)*")
NAME = re.compile(r"[_.:/-]|[a-z][A-Z]")
"""What names of tools have in them and words of English haven't."""


def inspect_text(where: str, text: str, elsewhere: Mapping[str, str]) -> Iterator[Finding]:
    """What one text has. `elsewhere`: other servers' tools, each with its server's name."""
    if len(text) > LONGEST:
        why = f"it has {len(text):,} characters, of which the first {LONGEST:,} were looked at"
        yield Finding("not looked at", where, _around(text, LONGEST, LONGEST + 1), why)
        text = text[:LONGEST]
    found = list(hidden(text))
    if found:
        at, why = found[0]
        more = f", {len(found)} in all" if len(found) > 1 else ""
        yield Finding("hidden characters", where, _around(text, at, at + 1), f"it has {why}{more}")
    said = _shown(text)
    for patterns, kind in ((ORDERS, "orders to a model"), (SECRETS, "secrets")):
        for pattern, why in patterns:
            if match := pattern.search(said):
                yield Finding(kind, where, _around(said, *match.span()), why)
    for pattern, kind, why in UNSEEN:
        if match := pattern.search(text):
            yield Finding(kind, where, _around(text, *match.span()), why)
    for match in BLANK.finditer(text):
        if match.end() < len(text) and (len(match[0]) >= 120 or match[0].count("\n") >= 30):
            why = "much blank space, which pushes what follows out of sight"
            yield Finding("blank space", where, _around(text, match.end() - 1, match.end()), why)
            break
    for match in (BLOB.search(text), DATA.search(text)):
        if match and (match.re is DATA or _mixed(match[0])):
            why = "a block of encoded data, which people can't read"
            yield Finding("encoded data", where, _around(text, *match.span()), why)
            break
    yield from _references(where, text, elsewhere)


def _references(where: str, text: str, elsewhere: Mapping[str, str]) -> Iterator[Finding]:
    told: set[str] = set()
    for match in WORD.finditer(text):
        word = match[0]
        name = next((each for each in _bare(word) if each in elsewhere), word)
        if (server := elsewhere.get(name)) is not None and NAME.search(word) and name not in told:
            told.add(name)
            why = f"it speaks of a tool of another server ({server})"
            yield Finding("another tool", where, _around(text, *match.span()), why)


def _bare(word: str) -> Iterator[str]:
    """A word, and what it is without a server's name in front, however the two are joined."""
    yield word
    for separator in SEPARATORS:
        _, found, tool = word.partition(separator)
        if found:
            yield tool


def _shown(text: str) -> str:
    """The text as a model may read it: without what is not shown, with tags as the letters they stand for."""
    if text.isascii():
        return text
    plain = "".join(
        chr(ord(char) - 0xE0000) if ord(char) in TAGS else char
        for char in text
        if ord(char) in TAGS or not _unseen(char) or char in "\n\t"
    )
    return unicodedata.normalize("NFKC", plain)


def _mixed(blob: str) -> bool:
    """Whether it has letters of both cases and digits, as encoded data has, and isn't hexadecimal."""
    kinds = (str.isupper, str.islower, str.isdigit)
    return all(any(kind(char) for char in blob) for kind in kinds) and len(set(blob)) > 20


def _around(text: str, start: int, end: int) -> str:
    end = min(end, start + 160)
    cut = text[max(0, start - AROUND) : end + AROUND]
    return " ".join(visible(cut).split())


# ── definitions ─────────────────────────────────────────────────────────────────────────────────


def texts(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Path and text of each string in a definition, names of members included."""
    if depth > DEEPEST:
        return
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            name = str(key)
            here = f"{path}.{visible(name)[:60]}" if path else visible(name)[:60]
            if not name.isascii() or len(name) > 64:
                yield f"{here} (its name)", name
            yield from texts(inner, here, depth + 1)
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from texts(inner, f"{path}[{at}]", depth + 1)


def _deeper(value: Any, levels: int) -> bool:
    """Whether there is anything that `texts` doesn't reach."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, Mapping | list | tuple)
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
        ]
    return bool(layer)


def inspect_tool(definition: Mapping[str, Any], elsewhere: Mapping[str, str]) -> list[Finding]:
    """What there is to look at in a tool's definition; the same find in several places once."""
    found: dict[tuple[str, str], Finding] = {}
    if _deeper(definition, DEEPEST):
        why = f"it is nested more than {DEEPEST} levels deep, and no deeper was looked"
        found["not looked at", why] = Finding("not looked at", "", "", why)
    said = [(where, text) for where, text in texts(definition) if not DULL.search(where)]
    own = {text for where, text in said if ".enum[" in where or where.endswith(".const")}
    others = {name: server for name, server in elsewhere.items() if name not in own}
    for where, text in said:
        for finding in inspect_text(where, text, others):
            found.setdefault((finding.kind, finding.why), finding)
    return list(found.values())
