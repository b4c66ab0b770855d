"""From a position in the program that ran back to the source that was sent.

Two things lie between them: text that was put into the source (`program.js` wraps some programs), and
for TypeScript the transform, which leaves types out and sets the rest anew. Lines are counted at line
feeds alone, as the engine does, and columns in code points, where the engine counts bytes of UTF-8.
"""

from __future__ import annotations

import bisect
import codecs
from collections.abc import Iterable, Iterator

from mcpproxy.sandbox.alignment import aligned

codecs.lookup("utf-16-le")  # its module is read from a file, which a VM can't do later

Tokens = list[tuple[str, int]]
"""Each token's text, and where it begins in UTF-16 units."""


class Positions:
    """The source, what the transform made of it, and the program with what was put in."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.text = source
        self._inserted: list[tuple[int, int]] = []
        """Offset in the program and length of each piece that was put in."""
        self._pairs: list[tuple[int, int]] = []
        """Offsets in the compiled text beside those in the source."""
        self.program = source

    def compiled(self, text: str) -> None:
        self.text = self.program = text

    def insert(self, insertions: list[tuple[int, str]]) -> None:
        pieces, last, added = [], 0, 0
        for offset, text in insertions:
            pieces += [self.text[last:offset], text]
            self._inserted.append((offset + added, len(text)))
            added += len(text)
            last = offset
        self.program = "".join([*pieces, self.text[last:]])

    @property
    def aligned(self) -> bool:
        """Whether positions can be led back: always, but for TypeScript that was not aligned."""
        return self.text is self.source or bool(self._pairs)

    def align(self, before: Tokens, after: Tokens) -> None:
        """Pair the tokens of the source with those of the compiled text, which keeps their order."""
        pairs = aligned([t for t, _ in before], [t for t, _ in after])
        origins = points(self.source, (before[a][1] for a, _ in pairs))
        results = points(self.text, (after[b][1] for _, b in pairs))
        self._pairs = list(zip(results, origins, strict=True))

    def behind(self, line: int, column: int) -> int:
        """The offset in the text that a place in the program comes from."""
        offset = offset_at(self.program, line, column)
        for start, length in reversed(self._inserted):
            if offset >= start + length:
                offset -= length
            elif offset > start:
                offset = start
        return offset

    def put_in(self, line: int, column: int) -> bool:
        """Whether a place in the program is in a piece that was put in."""
        offset = offset_at(self.program, line, column)
        return any(start <= offset < start + length for start, length in self._inserted)

    def appended(self, line: int) -> bool:
        """Whether a line of the program is one that was put behind the end of the text."""
        return line > self.text.count("\n") + 1

    def origin(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, in the source of an offset in the text."""
        if self.text is not self.source:
            at = bisect.bisect_right(self._pairs, (offset, len(self.source))) - 1
            if at < 0:
                return 1, 1
            offset = self._pairs[at][1]
        return position(self.source, offset)

    def locate(self, line: int, column: int) -> tuple[int, int]:
        """Line and column, from 1, in the source of a place in the program."""
        return self.origin(self.behind(line, column))


def offset_at(text: str, line: int, column: int) -> int:
    """Where a place is, whose column counts bytes of UTF-8, as QuickJS does."""
    start = 0
    for _ in range(line - 1):
        found = text.find("\n", start)
        if found < 0:
            break
        start = found + 1
    line_text = text[start : start + column - 1].partition("\n")[0]
    if line_text.isascii():
        return min(len(text), start + column - 1)
    before = line_text.encode("utf-8", "surrogatepass")[: column - 1]
    return start + len(before.decode("utf-8", "ignore"))


def position(text: str, offset: int) -> tuple[int, int]:
    offset = min(offset, len(text))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def code_points(text: str, units: int) -> int:
    """The index in `text` that is `units` UTF-16 units from its start."""
    if text.isascii():
        return units
    return len(decoded(text.encode("utf-16-le", "surrogatepass")[: 2 * units]))


def utf16_units(text: str, index: int) -> int:
    """How many UTF-16 units lie before an index in `text`."""
    return len(text[:index].encode("utf-16-le", "surrogatepass")) // 2


def points(text: str, units: Iterable[int]) -> Iterator[int]:
    """The indices in `text` of rising numbers of UTF-16 units."""
    if text.isascii():
        yield from units
        return
    data = text.encode("utf-16-le", "surrogatepass")
    last = count = 0
    for each in units:
        count += len(decoded(data[2 * last : 2 * each]))
        last = each
        yield count


def decoded(data: bytes) -> str:
    return data.decode("utf-16-le", "surrogatepass")
