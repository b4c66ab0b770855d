"""Secrets, taken out of texts by their value.

Whatever is resolved from a reference, given as a key or received as a token is made known here, with
what to show in its place. Logs, errors and records ask here before a text goes anywhere: each place
hides all of them, however they got into the text. Only the servers that they are meant for see them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

HIDDEN = "(hidden)"
SHORTEST = 6
"""Characters of a value that is looked for: shorter ones are ordinary words and numbers as well."""
SHORTEST_LINE = 16
"""The same for one line of several, which a log may show alone."""
AGENT_TOKEN = re.compile(r"mcp_agt_[A-Za-z0-9_-]{16,}")
"""Tokens of ours are kept as hashes, so they are known by their looks alone."""

SECRET_NAME = re.compile(
    r"key|token|secret|pass|pw|credential|auth|cookie|(?:^|[_-])pat(?:$|[_-])", re.IGNORECASE
)
"""In the name of a variable or an option whose value is likely no word for everybody."""
LONG = 16
"""Characters from which a value without spaces is taken for a secret, whatever it is called."""

RANDOM_PART = re.compile(r"(?<=/)(?=[^/]*[0-9])[A-Za-z0-9_-]{24,}(?=[/?#]|$)")
"""A part of a path that nobody chose as a name."""


class Secrets:
    """Values to hide, each with what is shown instead."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._order: tuple[tuple[str, str], ...] = ()
        self._lock = threading.Lock()
        """Values come from any thread; two at once must not lose one of them."""

    def add(self, value: str, shown_as: str = HIDDEN) -> None:
        """Hide a value from now on. What it was first shown as stays, unless that was `HIDDEN`."""
        if len(value) < SHORTEST or self._shown.get(value, HIDDEN) != HIDDEN:
            return
        if value == HIDDEN:
            return  # it stands for a secret where settings that were shown are written back
        with self._lock:
            self._shown |= dict.fromkeys(_forms(value), shown_as)
            self._sort()

    def forget(self, value: str) -> None:
        """Hide it no longer, since it opens nothing any more."""
        with self._lock:
            for form in _forms(value):
                self._shown.pop(form, None)
            self._sort()

    def hide(self, text: str) -> str:
        """The text without any of the values. Time grows with its length, whatever is in it."""
        for value, shown in self._order:
            if value in text:
                text = text.replace(value, shown)
        if "mcp_agt_" in text:
            text = AGENT_TOKEN.sub(f"mcp_agt_{HIDDEN}", text)
        return text

    def hide_all(self, found: Any) -> Any:
        """The same for each text in JSON data, names included."""
        match found:
            case str():
                return self.hide(found)
            case dict():
                return {self.hide(name): self.hide_all(value) for name, value in found.items()}
            case list() | tuple():
                return [self.hide_all(each) for each in found]
        return found

    def _sort(self) -> None:
        """Longest first: one secret may begin another. A new tuple, as other threads may be reading."""
        self._order = tuple(sorted(self._shown.items(), key=lambda pair: -len(pair[0])))

    def __repr__(self) -> str:
        return f"Secrets({len(self._shown)} forms)"


def likely(name: str, value: str) -> bool:
    """Whether what was written under a name is a secret, so far as one can tell: a version is none."""
    if SECRET_NAME.search(name):
        return True
    return len(value) >= LONG and " " not in value and "://" not in value


def in_option(arg: str, before: str) -> str:
    """The value in a program's argument, if it is that of an option which is called like a secret."""
    name, equals, value = arg.partition("=")
    if name[:1] == "-":
        return value if equals and SECRET_NAME.search(name) else ""
    option = before[:1] == "-" and "=" not in before
    return arg if option and SECRET_NAME.search(before) else ""


def in_address(url: str) -> list[str]:
    """What in an address is likely a secret: a password, a parameter, a part of the path made at random."""
    parts = urlsplit(url)
    found = [value for name, value in parse_qsl(parts.query) if likely(name, value)]
    found += [text for text in (parts.password or parts.username,) if text]
    return [text for text in found + RANDOM_PART.findall(parts.path) if "${" not in text]


def _forms(value: str) -> Iterator[str]:
    """How a value may stand in a text: as it is, in JSON, in a URL, and each line of it."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="", errors="replace")
    yield quote_plus(value, errors="replace")
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= SHORTEST_LINE)


SECRETS = Secrets()
"""Those of this process."""
