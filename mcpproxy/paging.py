"""A direct result that is too large for one answer: its first part now, the rest for whoever asked.

Only text counts, for only text fills a model's context: text blocks, the text of embedded resources,
and structured content that no text says. Images and the like pass whole. The rest is kept in memory
for a while, within bounds for each caller and for all, and is given to the caller who made the call
alone. Scripts never come through here: what they are given is whole.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mcpproxy.envelopes import to_json

MOST_BYTES = 64 * 2**20
"""Memory that all rests together may take."""
MOST_BYTES_EACH = 16 * 2**20
"""Memory that the rests of one caller may take."""
KEPT_SECONDS = 900.0

Json = dict[str, Any]


class NoPage(LookupError):
    """A cursor that leads nowhere (any more); the message says what to do."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Which part of a text was given. Counts characters (Unicode code points)."""

    start: int
    end: int
    characters: int
    """Of the whole."""
    cursor: str | None
    """For the next part; None after the last."""
    lost: int = 0
    """Characters at the end that are not kept, because there are too many."""

    def shown(self) -> Json:
        """For programs."""
        found: Json = {"start": self.start, "end": self.end, "characters": self.characters}
        if self.lost:
            found["not_kept"] = self.lost
        return {**found, "cursor": self.cursor}

    def told(self, reader: str) -> str:
        """For a model; `reader` is the tool that reads on."""
        part = f"characters {self.start + 1:,}-{self.end:,} of {self.characters:,}"
        if self.cursor is None:
            rest = f"; the last {self.lost:,} were too many to keep" if self.lost else ""
            return f"[{part}; this is the end{rest}]"
        minutes = KEPT_SECONDS / 60
        return (
            f"[Cut: {part}. The call is done, don't repeat it. Read on within {minutes:g} minutes: "
            f"{reader}({json.dumps({'cursor': self.cursor})})]"
        )


@dataclass(slots=True)
class Whole:
    """A result of which there is more to read."""

    caller: str
    text: str
    lost: int
    """Characters after `text` that were too many to keep."""
    size: int
    """Bytes of memory."""
    until: float


class Pages:
    """The rests of results. Safe to use from any thread. `now` gives seconds."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        most: int = MOST_BYTES,
        most_each: int = MOST_BYTES_EACH,
    ) -> None:
        self._now = now
        self._most = most
        self._most_each = most_each
        self._lock = threading.Lock()
        self._kept: dict[str, Whole] = {}
        """The oldest first."""

    def first(self, result: Json, limit: int, caller: str) -> tuple[Json, Cut | None]:
        """The result with at most `limit` characters of text in it, and what was cut if it was.

        A limit of 0 is none. Structured content of a result that is cut is left out: half of it
        would be no JSON, and would look whole.
        """
        content = result.get("content")
        if not limit or not isinstance(content, list):
            return result, None
        text = whole_text(content, result.get("structuredContent"), limit)
        if len(text) <= limit:
            return result, None
        cut = self._keep(text, limit, caller)
        blocks = list(fitting(content, limit))
        used = sum(len(text_of(block) or "") + 1 for block in blocks if text_of(block) is not None)
        if used < limit:  # the texts are all there; what is cut is the structured content
            blocks.append({"type": "text", "text": text[used:limit]})
        left = {name: value for name, value in result.items() if name != "structuredContent"}
        return {**left, "content": blocks}, cut

    def next(self, cursor: str, limit: int, caller: str) -> tuple[str, Cut]:
        """The part that a cursor stands for. Raises `NoPage`."""
        key, _, at = cursor.partition(".")
        with self._lock:
            self._forget()
            kept = self._kept.get(key)
            if kept is None or kept.caller != caller or not at.isdecimal() or len(at) > 12:
                raise NoPage(
                    f"there is nothing to read on at cursor {cursor[:60]!r}: a rest is kept for "
                    f"{KEPT_SECONDS / 60:g} minutes, while there is room; ask the tool for less at a time, "
                    "or call it in a program with code_execution"
                )
            kept.until = self._now() + KEPT_SECONDS
            text, lost = kept.text, kept.lost
        start = min(int(at), len(text))
        end = min(start + limit, len(text)) if limit else len(text)
        return text[start:end], self._cut(key, text, lost, start, end)

    def _keep(self, text: str, limit: int, caller: str) -> Cut:
        whole = len(text)
        width = max(sys.getsizeof(text) // whole, 1)
        text = text[: max(self._most_each // width - 100, limit)]
        lost, size = whole - len(text), sys.getsizeof(text)
        key = secrets.token_urlsafe(12)
        with self._lock:
            self._forget()
            self._make_room(size, self._most_each, caller)
            self._make_room(size, self._most, None)
            self._kept[key] = Whole(caller, text, lost, size, self._now() + KEPT_SECONDS)
        return self._cut(key, text, lost, 0, limit)

    def _cut(self, key: str, text: str, lost: int, start: int, end: int) -> Cut:
        cursor = f"{key}.{end}" if end < len(text) else None
        return Cut(start, end, len(text) + lost, cursor, lost)

    def _forget(self) -> None:
        now = self._now()
        self._kept = {key: kept for key, kept in self._kept.items() if kept.until > now}

    def _make_room(self, size: int, most: int, caller: str | None) -> None:
        """Let the oldest go, of one caller or of all, until there is room."""
        theirs = {
            key: kept.size for key, kept in self._kept.items() if caller in (None, kept.caller)
        }
        taken = sum(theirs.values())
        for key, freed in theirs.items():
            if taken + size <= most:
                break
            taken -= freed
            del self._kept[key]


def whole_text(content: list[Any], structured: Any, limit: int) -> str:
    """All that is text in a result, block after block, and its structured content where no text says it."""
    texts = [text for block in content if (text := text_of(block)) is not None]
    joined = "\n".join(texts)
    if structured is None:
        return joined
    data = to_json(structured).decode()
    if len(joined) + len(data) < limit or (joined and says(joined, structured)):
        return joined
    return f"{joined}\n{data}" if texts else data


def says(text: str, structured: Any) -> bool:
    """Whether a text is the structured content, itself or as the one value in `result`.

    Source: MCP 2025-06-18, "Structured Content": it should come as serialised JSON in a text block, too.
    The wrapper is what common frameworks make of a function that returns no object.
    """
    inner = structured
    if isinstance(structured, Mapping) and structured.keys() == {"result"}:
        inner = structured["result"]
    if text == inner:
        return True
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(found == structured or found == inner)


def text_of(block: Any) -> str | None:
    """The text of a block, None for one that has none."""
    if not isinstance(block, Mapping):
        return None
    inside = block.get("resource") if block.get("type") == "resource" else block
    text = inside.get("text") if isinstance(inside, Mapping) else None
    return text if isinstance(text, str) else None


def fitting(content: list[Any], limit: int) -> Iterator[Any]:
    """The blocks with no more than so many characters of text; those without text pass."""
    left = limit
    for block in content:
        text = text_of(block)
        if text is None:
            yield block
        elif left > 0:
            yield block if len(text) <= left else shortened(block, text[:left])
            left -= len(text) + 1  # the line end between two


def shortened(block: Json, text: str) -> Json:
    if block.get("type") == "resource":
        return {**block, "resource": {**block["resource"], "text": text}}
    return {**block, "text": text}
