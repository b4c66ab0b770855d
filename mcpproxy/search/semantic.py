"""How near entries are in meaning to a query, where the extra `mcpproxy[semantic]` is installed.

A text's vector is the mean of its tokens' vectors, which come in the wheel of `wordllama` (16 MB, 32,000
tokens of 256 numbers). Only its two data files are used: its own loader would look for them on the
network, and importing it sets up logging. Nothing is imported before the first search.
"""

from __future__ import annotations

import importlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcpproxy.search.everyday import SAID
from mcpproxy.search.index import Entry
from mcpproxy.search.lexicon import stem, words
from mcpproxy.search.query import LONGEST_QUERY
from mcpproxy.search.synonyms import STOP_WORDS

logger = logging.getLogger(__name__)

WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")

NEAR = 0.4
"""Cosine from which an entry without a word of the query is an answer. What has nothing to do with
any tool stays below it."""

DIMENSIONS = 128
"""Of the 256, the first were trained to do alone. Twice as many find nothing more, and take twice the time."""

AT_ONCE = 256
"""Texts whose vectors are made in one go: their tokens' take a few MB."""

MOST_SAID = 4
SAYING = 0.5
"""Lines of what people say for what an entry is called, and what they count beside its own text."""

LONGEST_TEXT = 300
"""Characters of an entry's text that its vector is made of."""


def meanings() -> Meanings | None:
    """None where the extra isn't installed, or not as it was made."""
    found = find_spec("wordllama")
    if found is None:
        return None
    folder = Path(next(iter(found.submodule_search_locations or ()), ""))
    try:
        return Meanings(Vectors(folder / WEIGHTS, folder / TOKENIZER))
    except (ImportError, OSError, ValueError) as error:
        logger.warning(
            "searching by words alone: mcpproxy[semantic] is installed in part: %s", error
        )
        return None


class Vectors:
    """Texts as rows of length 1."""

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        self._np: Any = importlib.import_module("numpy")
        (every,) = importlib.import_module("safetensors.numpy").load_file(weights).values()
        self._tokens = every[:, :DIMENSIONS].copy()
        self._tokenizer: Any = importlib.import_module("tokenizers").Tokenizer.from_file(
            str(tokenizer)
        )
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def of(self, texts: Sequence[str]) -> Any:
        parts = [self._some(texts[n : n + AT_ONCE]) for n in range(0, len(texts), AT_ONCE)]
        return self.stacked(parts)

    def cosines(self, rows: Any, vector: Any) -> Any:
        # Not `@`: a library of many threads, which wait for each other longer than this takes.
        return self._np.einsum("ij,j->i", rows, vector)

    def nearer(self, rows: Any, others: Sequence[list[Any]]) -> Any:
        """The rows, each drawn towards others."""
        np = self._np
        for row, drawn in zip(rows, others, strict=True):
            if drawn:
                mean = np.sum(drawn, axis=0)
                row += SAYING * mean / max(np.linalg.norm(mean), 1e-9)
                row /= max(np.linalg.norm(row), 1e-9)
        return rows

    def stacked(self, parts: Sequence[Any]) -> Any:
        np = self._np
        return np.concatenate(parts) if parts else np.zeros((0, self._tokens.shape[1]), np.float32)

    def _some(self, texts: Sequence[str]) -> Any:
        np = self._np
        # A space in front, so that none is without a token.
        encoded = self._tokenizer.encode_batch(
            [f" {each}" for each in texts], add_special_tokens=False
        )
        tokens = [np.array(each.ids) for each in encoded]
        starts = np.cumsum([0, *(len(each) for each in tokens[:-1])])
        rows = self._tokens[np.concatenate(tokens)].astype(np.float32)
        sums = np.add.reduceat(rows, starts)
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)


class Likeness:
    """How near each entry is to one query: a cosine."""

    def __init__(self, places: dict[str, int], ids: list[str], cosines: Any) -> None:
        self._places = places
        self._ids = ids
        self._cosines = cosines

    def __getitem__(self, id: str) -> float:
        return float(self._cosines[self._places[id]])

    def near(self) -> Iterator[str]:
        """The entries that answer the query by what they mean, the nearest first."""
        (places,) = (self._cosines >= NEAR).nonzero()
        for place in places[(-self._cosines[places]).argsort(kind="stable")]:
            yield self._ids[place]


class Sayings:
    """What people say for what entries are called, line by line of the table, and what that means."""

    def __init__(self, vectors: Vectors) -> None:
        every = [line.partition(": ") for line in map(str.strip, SAID.splitlines()) if line]
        self._rows = vectors.of([said for _, _, said in every])
        self._called: defaultdict[str, list[tuple[frozenset[str], int]]] = defaultdict(list)
        """The stems of each expression and its line, by one of the stems."""
        for at, (called, _, _) in enumerate(every):
            for expression in called.split(","):
                stems = frozenset(map(stem, expression.split()))
                self._called[min(stems)].append((stems, at))

    def of(self, entry: Entry) -> list[Any]:
        """The vectors of the lines that say most of what its name says."""
        named = frozenset(map(stem, words(f"{entry.name} {entry.group}")))
        found = {
            at: len(stems)
            for each in sorted(named)
            for stems, at in self._called.get(each, ())
            if stems <= named
        }
        return [self._rows[at] for at in sorted(found, key=lambda at: (-found[at], at))[:MOST_SAID]]


class Meanings:
    """Entries by what they mean, replaced group by group. From one thread at a time."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._sayings = Sayings(vectors)
        self._groups: dict[str, tuple[list[str], Any]] = {}
        self._all: tuple[dict[str, int], list[str], Any] | None = None

    def replace(self, group: str, entries: Iterable[Entry]) -> None:
        """Have these entries and no others in a group."""
        self._all = None
        found = list(entries)
        self._groups.pop(group, None)
        if found:
            rows = self._vectors.of([meant(entry) for entry in found])
            vectors = self._vectors.nearer(rows, [self._sayings.of(entry) for entry in found])
            self._groups[group] = [entry.id for entry in found], vectors

    def likeness(self, query: str) -> Likeness:
        """How near each entry is to what is asked."""
        if self._all is None:
            ids = [id for group, _ in self._groups.values() for id in group]
            matrix = self._vectors.stacked([vectors for _, vectors in self._groups.values()])
            self._all = {id: n for n, id in enumerate(ids)}, ids, matrix
        asked = words(query[:LONGEST_QUERY])
        telling = [word for word in asked if word not in STOP_WORDS]
        (vector,) = self._vectors.of([" ".join(telling or asked)])
        places, ids, matrix = self._all
        return Likeness(places, ids, self._vectors.cosines(matrix, vector))


def meant(entry: Entry) -> str:
    """The text whose vector stands for an entry."""
    return f"{' '.join(words(entry.name))}. {f'{entry.lead} {entry.text}'[:LONGEST_TEXT]}"
