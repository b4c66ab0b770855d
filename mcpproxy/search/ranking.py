"""The order of what was found: names are compared with the query, and nearness in meaning is added.

Scores come in, one for each entry that has a word of the query, and go out as they decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from mcpproxy.search.lexicon import stem, words
from mcpproxy.search.query import Concept

NAME_IS_ASKED = 0.6
ASKED_IS_NAMED = 1.0
"""What it adds that all words of the name are asked for, and that all that is asked for is in the name."""

EXACT = 10.0
BEGINS_SO = 1.0
OWN_GROUP = 0.5
"""What it adds that the query is the name, begins it, or has the words of the entry's group."""

OUTDATED = 0.5
"""What is left of the score of an entry that is deprecated."""

TAIL = 0.2
TAIL_BY_WORDS, TAIL_WITH_LIKENESS = 0.15, 0.3
"""Entries below this share of the best score are noise: where there are words alone; before nearness in
meaning is added, and then, as everything is a little alike."""

MEANING = 0.75
"""What it counts how near an entry is in meaning, against the best score by words."""

MOST_FOUND = 200
MOST_ALIKE = 20
"""Entries that are near in meaning without having a word of the query."""

COMPARED = 60
"""Of the best so many, the names are compared with the query."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept of an entry beside the index."""

    id: str
    group: str
    stems: tuple[str, ...]
    """Of the words of its name, without those of the group."""
    spellings: tuple[str, ...]
    """Its name as one word: whole, without the group, with the group in front."""
    own: frozenset[str]
    """The words of its group."""
    outdated: bool = False
    """Whether it says itself that there is something better."""


class Ranking:
    """The last word on the order of what was found: names are compared with the query."""

    def __init__(
        self,
        query: str,
        asked: Mapping[Concept, float],
        rows: Mapping[int, Row],
        telling: Callable[[str], float],
    ) -> None:
        """`asked` has what each concept weighs; `telling` says how much a word of a name does."""
        self._words = frozenset(words(query))
        self._spelled = "".join(words(query))
        self._rows = rows
        self._telling = telling
        total = sum(asked.values()) or 1.0
        self._asked = [
            (
                weight / total,
                [(frozenset(map(stem, form.words)), form.factor) for form in concept.forms],
            )
            for concept, weight in asked.items()
        ]

    def scores(self, scores: Mapping[int, float], tail: float = TAIL) -> dict[int, float]:
        """Of the best. The long tail that shares a common word is left out."""
        rows = self._rows
        ahead = sorted(scores, key=lambda n: (-scores[n], rows[n].id))[:MOST_FOUND]
        return {
            number: scores[number]
            * (1 + self._bonus(rows[number], place < COMPARED))
            * (OUTDATED if rows[number].outdated else 1)
            for place, number in enumerate(ahead)
            if scores[number] >= tail * scores[ahead[0]]
        }

    def _bonus(self, row: Row, compared: bool) -> float:
        bonus = self._named_so(row) if compared else 0.0
        if self._spelled in row.spellings:
            bonus += EXACT
        elif len(self._spelled) >= 4 and row.spellings[0].startswith(self._spelled):
            bonus += BEGINS_SO
        if row.own and row.own <= self._words:
            bonus += OWN_GROUP
        return bonus

    def _named_so(self, row: Row) -> float:
        hit: set[str] = set()
        named = 0.0
        for weight, forms in self._asked:
            best = 0.0
            for stems, factor in forms:
                if stems.issubset(row.stems):
                    hit |= stems
                    best = max(best, factor)
            named += best * weight
        if not hit:
            return 0.0
        telling = {each: self._telling(each) for each in row.stems}
        asked = sum(tells for each, tells in telling.items() if each in hit) / sum(telling.values())
        return NAME_IS_ASKED * asked + ASKED_IS_NAMED * named


class Likeness(Protocol):
    """How near entries are to a query in meaning; see `semantic.py`."""

    def __getitem__(self, id: str) -> float: ...

    def near(self) -> Iterable[str]: ...


def with_likeness(
    scores: Mapping[int, float],
    likeness: Likeness,
    numbers: Mapping[str, int],
    rows: Mapping[int, Row],
) -> dict[int, float]:
    """Scores as shares of the best, and likeness added; with the nearest that no word found."""
    best = max(scores.values(), default=1.0)
    final = {
        n: score / best + MEANING * max(likeness[rows[n].id], 0.0) for n, score in scores.items()
    }
    near = (id for id in likeness.near() if id in numbers)
    for id in islice(near, MOST_ALIKE):
        final.setdefault(numbers[id], MEANING * likeness[id])
    least = TAIL_WITH_LIKENESS * max(final.values(), default=0.0)
    return {number: score for number, score in final.items() if score >= least}
