"""Rank what the catalog has against a few words, in SQLite's full-text index.

Each concept of a query (`query.py`) is looked up by itself: where it is found and how rare it is say how
much that tells, the share of the query's concepts that an entry has says the rest. The best are then
looked at again: an entry whose name says what was asked for goes first.

One index serves all: a selection of its entries is searched as if there were nothing else, so what somebody
may not see doesn't weigh in what they find. Knows neither servers nor tools, only entries with fields, in
groups that are replaced as a whole.
"""

from __future__ import annotations

import math
import sqlite3
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from mcpproxy.search.lexicon import Vocabulary, name_words, stem, words
from mcpproxy.search.query import LONGEST_QUERY, Concept, Form, concepts
from mcpproxy.search.ranking import (
    MOST_ALIKE,
    MOST_FOUND,
    TAIL,
    TAIL_BY_WORDS,
    Likeness,
    Ranking,
    Row,
    with_likeness,
)

CREATE = """
CREATE VIRTUAL TABLE entries USING fts5(
    name, title, lead, text, parameters, details, group_,
    tokenize = 'porter unicode61', detail = column
)
"""
INSERT = (
    "INSERT INTO entries(rowid, name, title, lead, text, parameters, details, group_) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
MATCH = "SELECT rowid, ? FROM entries WHERE entries MATCH ?"
SELECT = "SELECT name, title, lead, text, parameters, details, group_ FROM entries WHERE rowid = ?"

PLACES = (
    ("name", 2.2),
    ("title lead parameters group_", 1.7),
    ("text", 0.6),
    ("details", 0.3),
)
"""Where a word may be found, and what it counts there: once, in the first of them."""

COMMON = 0.05
FEW, MANY = 20, 200
"""A word that more than a share of the entries (but FEW at least, MANY at most) has in the first two places
is not looked for in the others, nor one that more than MANY have in names anywhere else: it would tell
nothing there."""

MOST_ABSENT = 10_000

ONE_WORD = 0.2
"""What an entry's score keeps when it has next to none of a query's other words."""

RARE = 4.0
"""How much more a concept that few entries have weighs against one that all have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that can be found, by the text of its fields."""

    id: str
    name: str
    group: str = ""
    title: str = ""
    lead: str = ""
    """The first sentence of what is said of it."""
    text: str = ""
    parameters: str = ""
    details: str = ""
    outdated: bool = False
    """Whether there is something better by now, as is said of it."""


@dataclass(frozen=True)
class Selection:
    """Entries of one state of an index that are searched as if there were no others."""

    rows: dict[int, Row]
    numbers: dict[str, int]
    """Of the rows, by their ids."""
    named: Counter[str]
    """How many of the names have a stem."""
    groups: dict[str, str]
    """By the words of their names."""
    whole: bool
    spelled: Callable[[], Vocabulary]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of these entries alone, for one that nobody knows: a word of another may have the
        stem of one of these, and be nearer to what was asked."""
        return self.spelled()

    def telling(self, name_stem: str) -> float:
        return math.log(1 + len(self.rows) / (1 + self.named[name_stem]))


class Index:
    """Entries that can be asked for, and replaced group by group. From one thread at a time."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._db.close)
        self._db.execute(CREATE)
        self._rows: dict[int, Row] = {}
        self._groups: dict[str, list[int]] = {}
        self._vocabulary = Vocabulary()
        self._next = 1
        self._absent: set[str] = set()
        """Words that were looked for and are nowhere: what else things are called, mostly."""
        self._all: Selection | None = None
        found: dict[str, list[Entry]] = {}
        for entry in entries:
            found.setdefault(entry.group, []).append(entry)
        for group, members in found.items():
            self.replace(group, members)

    # ── what is in it ───────────────────────────────────────────────────────────────────────────

    def replace(self, group: str, entries: Iterable[Entry]) -> None:
        """Have these entries and no others in a group. Selections made before are void."""
        self._all = None
        self._absent.clear()
        self._db.execute("BEGIN")
        self._remove(group)
        for entry in entries:
            self._add(row(entry), texts(entry))
        self._db.execute("COMMIT")

    def _add(self, new: Row, fields: Sequence[str]) -> None:
        number = self._next
        self._next += 1
        self._rows[number] = new
        self._groups.setdefault(new.group, []).append(number)
        self._vocabulary.add({word for text in fields for word in text.split()})
        self._db.execute(INSERT, (number, *fields))

    def _remove(self, group: str) -> None:
        for number in self._groups.pop(group, ()):
            del self._rows[number]
            fields = self._db.execute(SELECT, (number,)).fetchone()
            self._vocabulary.remove({word for text in fields for word in text.split()})
            self._db.execute("DELETE FROM entries WHERE rowid = ?", (number,))

    def select(self, ids: Iterable[str] | None = None) -> Selection:
        """Those of these ids that are there; all there are, without any."""
        if ids is None and self._all is not None:
            return self._all
        wanted = None if ids is None else frozenset(ids)
        rows = {n: row for n, row in self._rows.items() if wanted is None or row.id in wanted}
        named = Counter(each for row in rows.values() for each in row.stems)
        groups = {"".join(words(name)): name for name in sorted({r.group for r in rows.values()})}
        numbers = {row.id: n for n, row in rows.items()}
        # Neither holds the index, so that it is closed with its last reader.
        every = self._vocabulary
        spelled = (lambda: every) if ids is None else partial(spellings, self._db, rows)
        found = Selection(rows, numbers, named, groups, ids is None, spelled)
        if ids is None:
            self._all = found
        return found

    # ── what answers a query ────────────────────────────────────────────────────────────────────

    def search(
        self,
        query: str,
        group: str | None = None,
        among: Selection | None = None,
        likeness: Likeness | None = None,
    ) -> list[str]:
        """Ids of what answers the query, best first: of a selection, and of one group if that is given.

        `likeness` adds what entries mean to what they say.
        """
        among = among or self.select()
        preferred, rest = qualified(query[:LONGEST_QUERY], among)
        if len(self._absent) > MOST_ABSENT:
            self._absent.clear()
        lookup = Lookup(self._db, among, self._absent)
        asked = concepts(rest, lambda: among.vocabulary, lookup.count)
        found = lookup.scores(asked)
        rows, numbers = among.rows, among.numbers
        if group is not None:
            numbers = {rows[n].id: n for n in self._groups.get(group, ()) if n in rows}
            found = {n: score for n, score in found.items() if rows[n].group == group}
        alike = likeness if " " in rest.strip() else None
        tail = TAIL if alike is None else TAIL_BY_WORDS
        final = Ranking(rest, lookup.weights, rows, among.telling).scores(found, tail)
        if alike is not None:
            final = with_likeness(final, alike, numbers, rows)
        ranked = sorted(final, key=lambda n: (-round(final[n], 6), rows[n].id))
        if preferred is not None:
            if group is None and not any(rows[number].group == preferred for number in ranked):
                ranked = [*self._members(preferred, among, likeness), *ranked]
            # A stable sort: those of the group named first, in their order.
            ranked.sort(key=lambda number: rows[number].group != preferred)
        return [rows[number].id for number in ranked]

    def _members(self, group: str, among: Selection, likeness: Likeness | None) -> list[int]:
        """All of a group, where it is all that is known of a query."""
        ids = sorted(among.rows[n].id for n in self._groups[group] if n in among.rows)
        if likeness is not None:
            ids.sort(key=likeness.__getitem__, reverse=True)
        return [among.numbers[id] for id in ids[:MOST_ALIKE]]


def spellings(database: sqlite3.Connection, numbers: Iterable[int]) -> Vocabulary:
    """The words that occur in some rows."""
    found = Vocabulary()
    for number in numbers:
        fields = database.execute(SELECT, (number,)).fetchone()
        found.add({word for text in fields for word in text.split()})
    return found


def qualified(query: str, among: Selection) -> tuple[str | None, str]:
    """The group that `group: a few words` names, and the words."""
    before, colon, after = query.partition(":")
    group = among.groups.get("".join(words(before))) if colon and after.strip() else None
    return (group, after) if group is not None else (None, query)


class Lookup:
    """What one query finds in a selection, word by word."""

    def __init__(
        self, database: sqlite3.Connection, among: Selection, absent: set[str] | None = None
    ) -> None:
        """`absent` has words that are in no entry at all, and is added to."""
        self._db = database
        self.among = among
        self._absent = set() if absent is None else absent
        self._size = len(among.rows)
        self._found: dict[str, dict[int, float]] = {}
        self._rarity: dict[str, float] = {}
        self.weights: dict[Concept, float] = {}
        """How much each concept tells: the rarer the more."""

    def count(self, word: str) -> int:
        """How many entries have a word, in any of its forms."""
        return len(self._places(word))

    def _places(self, word: str) -> dict[int, float]:
        """The entries that have a word, and what its place there counts."""
        if word not in self._found:
            found = self._found[word] = self._look(word)
            self._rarity[word] = math.log(1 + (self._size - len(found) + 0.5) / (len(found) + 0.5))
        return self._found[word]

    def _look(self, word: str) -> dict[int, float]:
        found: dict[int, float] = {}
        if word in self._absent:
            return found
        somewhere = False
        enough = min(max(COMMON * self._size, FEW), MANY)
        for columns, counts in PLACES:
            if len(found) > (enough if counts < 1 else MANY):
                break
            more = dict(self._db.execute(MATCH, (counts, f'{{{columns}}} : "{word}"')))
            somewhere = somewhere or bool(more)
            if not self.among.whole:
                more = dict.fromkeys(more.keys() & self.among.rows.keys(), counts)
            found = more | found
        if not somewhere:
            self._absent.add(word)
        return found

    def concept(self, concept: Concept) -> dict[int, float]:
        found = self._form(concept.forms[0])
        for form in concept.forms[1:]:
            for number, score in self._form(form).items():
                if score > found.get(number, 0.0):
                    found[number] = score
        return found

    def _form(self, form: Form) -> dict[int, float]:
        """The entries that have all words of a form, and how much that tells."""
        each = [self._places(word) for word in form.words]
        tells = [self._rarity[word] * form.factor / len(each) for word in form.words]
        if len(each) == 1:
            return {number: place * tells[0] for number, place in each[0].items()}
        return {
            number: sum(one[number] * tell for one, tell in zip(each, tells, strict=True))
            for number in set.intersection(*map(set, each))
        }

    def scores(self, asked: Sequence[Concept]) -> dict[int, float]:
        """The best entries' scores: how well each has the concepts, times how many of them it has."""
        sums: defaultdict[int, float] = defaultdict(float)
        covered: defaultdict[int, float] = defaultdict(float)
        for concept in asked:
            found = self.concept(concept)
            weight = self.weights[concept] = 1 / (1 + RARE * len(found) / max(self._size, 1))
            for number, score in found.items():
                sums[number] += score
                covered[number] += weight
        total = sum(self.weights.values())
        least = sorted(sums.values(), reverse=True)[: 2 * MOST_FOUND][-1:]
        return {
            number: score * (ONE_WORD + (1 - ONE_WORD) * covered[number] / total)
            for number, score in sums.items()
            if score >= least[0]
        }


# ── entries as the index takes them ─────────────────────────────────────────────────────────────


def row(entry: Entry) -> Row:
    """What ranking goes by. Of a name that begins with its group, the rest is what it is called."""
    name, group = words(entry.name), words(entry.group)
    bare = name[len(group) :] if name[: len(group)] == group and len(name) > len(group) else name
    whole = "".join(name)
    return Row(
        entry.id,
        entry.group,
        tuple(dict.fromkeys(map(stem, bare))),
        (whole, "".join(bare), "".join(group) + whole),
        frozenset(group),
        entry.outdated,
    )


def texts(entry: Entry) -> list[str]:
    """In the order of the columns."""
    others = (entry.title, entry.lead, entry.text, entry.parameters, entry.details)
    return [
        name_words(entry.name),
        *(" ".join(words(text)) for text in others),
        name_words(entry.group),
    ]
