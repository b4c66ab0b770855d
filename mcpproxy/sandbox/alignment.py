"""Pairing the tokens of two texts of which one was made from the other and kept its order.

Tokens that come once in each text hold the pairing in place, in as long a rising line as there is
(patience diff); what lies between two of them is mostly small, and compared token by token. What is
large and repeats itself is walked through side by side. So time grows with the length of the texts,
where comparing them whole would grow with its square.
"""

from __future__ import annotations

import bisect
import difflib
from collections import Counter
from collections.abc import Iterator

MOST_COMPARED = 1_000_000
"""Tokens of one side times those of the other: more than that is walked through."""

LONGEST_SKIP, SURE = 300, 4
"""Tokens of both sides that a walk leaves out at once, and how many must agree after them."""


def aligned(before: list[str], after: list[str]) -> list[tuple[int, int]]:
    """Indices in `before` beside those in `after`, both rising."""
    found: list[tuple[int, int]] = []
    todo = [(0, len(before), 0, len(after))]
    while todo:
        a, a_end, b, b_end = todo.pop()
        if anchors := list(_anchors(before[a:a_end], after[b:b_end])):
            for x, y in [(a + x, b + y) for x, y in anchors]:
                todo.append((a, x, b, y))
                found.append((x, y))
                a, b = x + 1, y + 1
            todo.append((a, a_end, b, b_end))
        elif before[a:a_end] == after[b:b_end]:
            found += zip(range(a, a_end), range(b, b_end), strict=True)
        elif (a_end - a) * (b_end - b) <= MOST_COMPARED:
            matcher = difflib.SequenceMatcher(None, before[a:a_end], after[b:b_end])
            for x, y, size in matcher.get_matching_blocks():
                found += ((a + x + n, b + y + n) for n in range(size))
        else:
            walk = _walk(before[a:a_end], after[b:b_end])
            found += ((a + x, b + y) for x, y in walk)
    return sorted(found)


def _walk(before: list[str], after: list[str]) -> Iterator[tuple[int, int]]:
    """Side by side; where the texts part, from the nearest place at which they agree again."""
    a = b = 0
    while a < len(before) and b < len(after):
        if before[a] == after[b]:
            yield a, b
            a, b = a + 1, b + 1
            continue
        for skip in range(1, LONGEST_SKIP):
            for new in range(min(skip, LONGEST_SKIP // 10) + 1):
                x, y = a + skip - new, b + new
                if before[x : x + SURE] == after[y : y + SURE]:
                    break
            else:
                continue
            break
        else:
            return
        a, b = x, y


def _anchors(before: list[str], after: list[str]) -> Iterator[tuple[int, int]]:
    """The longest rising line through what is unique in both."""
    once = Counter(after)
    places = {token: n for n, token in enumerate(after) if once[token] == 1}
    twice = Counter(before)
    pairs = [(n, places[t]) for n, t in enumerate(before) if twice[t] == 1 and t in places]
    ends: list[int] = []  # the lowest end of a line of each length, and which pair that is
    last: list[int] = []
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect.bisect_left(ends, place)
        previous.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [place], [number]
    line = []
    number = last[-1] if last else -1
    while number >= 0:
        line.append(pairs[number])
        number = previous[number]
    yield from reversed(line)
