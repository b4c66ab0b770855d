"""Rank what the catalog has against a few words, in SQLite's full-text index.

A query's words become concepts: the word itself, its usual synonyms, or, where the catalog
doesn't know it, what it was probably meant to be (the start of a word, two words run together,
a word one or two letters away). Each concept is looked up by itself; BM25 says how much a match
tells, and how many of the concepts an entry has says the rest. A query of which nothing is
known finds nothing.

Knows neither servers nor tools, only entries with fields.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise

from mcpproxy.synonyms import STOP_WORDS, SYNONYMS

LONGEST_QUERY = 400
"""Characters of a query that are looked at; a longer one is text, not a question."""

MOST_WORDS = 24

PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
OTHER_PART = re.compile(r"[^\W\d_]+|\d+")
"""For words with letters beyond ASCII, whose case the first can't tell."""

TOKEN = re.compile(r"\w+")

ENDINGS = tuple(
    "ations ation ating ators ator ates ated ate ings ing ies ied ions ion ers er es ed s e y".split()
)

WEIGHTS = (6.0, 2.5, 3.0, 2.0, 1.2, 0.6)
"""Of the columns, in the order of `Entry`'s fields after `id`."""


OTHER_WORD = 0.7
"""What a synonym counts against the word itself."""

ONE_WORD = 0.35
"""What an entry's score keeps when it has next to none of a query's other words."""

TAIL = 0.15
"""Entries below this share of the best score are noise."""

MOST_FOUND = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that can be found, by the text of its fields."""

    id: str
    name: str
    group: str = ""
    title: str = ""
    text: str = ""
    parameters: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing that a query asks for, as the index's own expressions, the best first."""

    word: str
    best: str
    others: str = ""


def fold(text: str) -> str:
    """Without accents; what has no base letter stays as it is."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def words(text: str) -> list[str]:
    """The words of a text in lower case, identifiers taken apart."""
    found = []
    for token in TOKEN.findall(fold(text)):
        part = PART if token.isascii() else OTHER_PART
        parts = [word.lower() for word in part.findall(token)]
        # `k8s` and `s3` mean nothing in pieces.
        if len(parts) > 1 and any(word.isdigit() for word in parts) and len(token) <= 5:
            found.append(token.lower())
        else:
            found += parts
            # `GitHub` and `JavaScript` are written as one word, too.
            if len(parts) == 2 and "_" not in token:
                found.append("".join(parts))
    return found


def name_words(name: str) -> str:
    """A name's words, and pairs of them run together as people type them."""
    parts = words(name)
    return " ".join([*parts, *(a + b for a, b in pairwise(parts))])


class Index:
    """A fixed set of entries, ready to be asked from any thread."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._db.close)
        self._db.execute(
            "CREATE VIRTUAL TABLE entries USING fts5(name, group_, title, text, parameters, "
            "details, tokenize = 'porter unicode61', columnsize = 1)"
        )
        self._frequency: Counter[str] = Counter()
        self._db.executemany(
            "INSERT INTO entries(rowid, name, group_, title, text, parameters, details) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self._row(number, entry) for number, entry in enumerate(self.entries)),
        )
        self._names = [words(entry.name) for entry in self.entries]
        self._groups = {"".join(words(entry.group)): entry.group for entry in self.entries}
        self._by_start: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for word in self._frequency:
            self._by_start[word[0]].append((stem(word), word))

    def _row(self, number: int, entry: Entry) -> tuple[int | str, ...]:
        fields = [
            name_words(entry.name),
            name_words(entry.group),
            *(
                " ".join(words(t))
                for t in (entry.title, entry.text, entry.parameters, entry.details)
            ),
        ]
        self._frequency.update({word for text in fields for word in text.split()})
        return (number, *fields)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def search(self, query: str, group: str | None = None) -> list[str]:
        """Ids of what answers the query, best first; of one group only, if that is given."""
        preferred, query = self._qualified(query[:LONGEST_QUERY])
        with self._lock:
            scores = self._scored(list(self._concepts(query)))
        if group is not None:
            scores = {n: score for n, score in scores.items() if self.entries[n].group == group}
        ranked = self._ranked(query, scores)
        if preferred is not None:
            # A stable sort: those of the group named first, in their order.
            ranked.sort(key=lambda number: self.entries[number].group != preferred)
        return [self.entries[number].id for number in ranked]

    def _qualified(self, query: str) -> tuple[str | None, str]:
        """The group that `group: a few words` names, and the words."""
        before, colon, after = query.partition(":")
        group = self._groups.get("".join(words(before))) if colon and after.strip() else None
        return (group, after) if group is not None else (None, query)

    # ── what is asked for ───────────────────────────────────────────────────────────────────────

    def _concepts(self, query: str) -> Iterator[Concept]:
        parts = [word for token in TOKEN.findall(query) for word in self._asked(token)]
        asked = list(dict.fromkeys(parts))[:MOST_WORDS]
        telling = [word for word in asked if word not in STOP_WORDS]
        for word in telling or asked:
            if concept := self._concept(word):
                yield concept

    def _asked(self, token: str) -> list[str]:
        found = words(token)
        # What `words` adds for two parts in one is only worth asking for if somebody writes it.
        added = len(found) == 3 and found[2] == found[0] + found[1]
        return found[:2] if added and found[2] not in self._frequency else found

    def _concept(self, word: str) -> Concept | None:
        meanings = SYNONYMS.get(word, ())
        others = " OR ".join(self._phrase(meaning) for meaning in meanings)
        if self._known(term(word)):
            return Concept(word, term(word), others)
        if others and self._known(others):
            return Concept(word, others)
        if guess := self._meant(word):
            return Concept(word, guess)
        return None

    def _phrase(self, meaning: str) -> str:
        parts = [term(part) for part in meaning.split()]
        return f"({' AND '.join(parts)})" if len(parts) > 1 else parts[0]

    def _known(self, expression: str) -> bool:
        found = self._db.execute(
            "SELECT 1 FROM entries WHERE entries MATCH ? LIMIT 1", (expression,)
        )
        return found.fetchone() is not None

    def _meant(self, word: str) -> str | None:
        """What an unknown word probably stands for."""
        if len(word) >= 3 and not word.isdigit():
            # Not the index's own prefix: that would be one of the stem, and match too much.
            begun = [known for _, known in self._by_start[word[0]] if known.startswith(word)]
            if begun:
                begun.sort(key=lambda known: (-self._frequency[known], known))
                return " OR ".join(term(known) for known in begun[:6])
        for at in range(3, len(word) - 2):
            first, second = word[:at], word[at:]
            if first in self._frequency and second in self._frequency:
                return f"({term(first)} AND {term(second)})"
        near = self._near(word)
        return " OR ".join(term(other) for other in near) if near else None

    def _near(self, word: str) -> list[str]:
        """Known words one or two letters away, the nearest and commonest first."""
        if len(word) < 4:
            return []
        root = stem(word)
        most = 1 if len(root) < 6 else 2
        found = []
        for start in {word[0], word[1]}:
            for known_root, known in self._by_start[start]:
                if abs(len(known_root) - len(root)) <= most and len(known_root) >= 3:
                    away = distance(root, known_root, most)
                    if away <= most:
                        found.append((away, known[0] != word[0], -self._frequency[known], known))
        found.sort()
        return [known for away, _, _, known in found if away == found[0][0]][:2]

    # ── what answers it ─────────────────────────────────────────────────────────────────────────

    def _scored(self, concepts: Sequence[Concept]) -> dict[int, float]:
        """Each entry's score: how well it has the concepts, times how many of them it has."""
        total = 0.0
        scores: defaultdict[int, float] = defaultdict(float)
        covered: defaultdict[int, float] = defaultdict(float)
        for concept in concepts:
            found = self._matches(concept.best)
            if concept.others:
                for number, score in self._matches(concept.others).items():
                    found[number] = max(found.get(number, 0.0), OTHER_WORD * score)
            weight = self._weight(len(found))
            total += weight
            for number, score in found.items():
                scores[number] += score
                covered[number] += weight
        return {
            number: score * (ONE_WORD + (1 - ONE_WORD) * covered[number] / total)
            for number, score in scores.items()
        }

    def _ranked(self, query: str, scores: Mapping[int, float]) -> list[int]:
        """The best, in order. The long tail that shares a common word is left out."""
        least = TAIL * max(scores.values(), default=0.0)
        kept = nlargest(MOST_FOUND, ((s, -n) for n, s in scores.items() if s >= least))
        asked = "".join(words(query))
        own = set(words(query))
        named = [(s * (1 + self._name_bonus(-n, asked, own)), n) for s, n in kept]
        named.sort(reverse=True)
        return [-n for _, n in named]

    def _name_bonus(self, number: int, asked: str, own: set[str]) -> float:
        name, group = self._names[number], words(self.entries[number].group)
        bare = name[len(group) :] if name[: len(group)] == group else name
        joined = "".join(name)
        if asked in (joined, "".join(bare), "".join(group + name)):
            return 10.0
        bonus = 0.0
        if len(asked) >= 4 and joined.startswith(asked):
            bonus += 1.0
        if group and set(group) <= own:
            bonus += 0.4
        return bonus

    def _matches(self, expression: str) -> dict[int, float]:
        rows = self._db.execute(
            f"SELECT rowid, -bm25(entries, {', '.join(map(str, WEIGHTS))}) "  # noqa: S608 - numbers of ours
            "FROM entries WHERE entries MATCH ?",
            (expression,),
        )
        return dict(rows.fetchall())

    def _weight(self, matches: int) -> float:
        """How much a concept tells: the rarer the more."""
        return 1.0 / (1.0 + 4.0 * matches / max(len(self.entries), 1))


def stem(word: str) -> str:
    """A word without its ending, roughly: enough to compare a misspelt one with."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def term(word: str) -> str:
    """A word as an expression of the index, whatever is in it."""
    return '"' + word.replace('"', "") + '"'


def distance(a: str, b: str, most: int) -> int:
    """Letters to insert, drop, replace or swap with their neighbour; `most` + 1 if there are more."""
    if a == b:
        return 0
    before: list[int] = list(range(len(b) + 1))
    last: list[int] = []
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if last and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        last, before = before, row
    return before[-1]
