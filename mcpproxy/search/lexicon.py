"""Words: how texts and identifiers are taken apart, and what a word nobody knows was meant to be.

Pure text, no index of its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

PART = re.compile(r"[A-Z]{2,5}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
OTHER_PART = re.compile(r"[^\W\d_]+|\d+")
"""For words with letters beyond ASCII, whose case the first can't tell."""

PLURAL = re.compile("[A-Z]{2,5}s")

TOKEN = re.compile(r"\w+")

ENDINGS = tuple(
    "ations ation ating ators ator ates ated ate ings ing ies ied ions ion es ed s e y".split()
)

FOREIGN_ENDING = re.compile(r"(en|er|es|ar|ir|re|os|as|em|te|ez|e|a|o|s|n|t|x)$")

VOWEL = re.compile("[aeiou]")
TWICE = re.compile(r"(.)\1")

LONGEST_WORD = 64


def fold(text: str) -> str:
    """Without accents; what has no base letter stays as it is."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def words(text: str) -> list[str]:
    """The words of a text in lower case, identifiers taken apart."""
    found: list[str] = []
    for token in TOKEN.findall(fold(text)):
        found += parts(token)
    return found


@lru_cache(maxsize=50_000)
def parts(token: str) -> tuple[str, ...]:
    """The words of one token. `GitHub` and `JavaScript` are written as one word, too: that comes last."""
    if PLURAL.fullmatch(token):  # `PRs`, `URLs`
        return (token.lower(),)
    part = PART if token.isascii() else OTHER_PART
    found = [word.lower()[:LONGEST_WORD] for word in part.findall(token)]
    # `k8s` and `s3` mean nothing in pieces.
    if len(found) > 1 and len(token) <= 5 and any(word.isdigit() for word in found):
        return (token.lower(),)
    if len(found) == 2 and "_" not in token:
        found.append("".join(found))
    return tuple(found)


def name_words(name: str) -> str:
    """A name's words, and pairs of them run together as people type them."""
    found = words(name)
    return " ".join([*found, *(a + b for a, b in pairwise(found))])


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word without its ending, roughly: enough to compare two forms of it."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def foreign_stem(word: str) -> str:
    """The same for words of the languages around us, whose endings pile up."""
    for _ in range(2):
        shorter = FOREIGN_ENDING.sub("", word)
        word = shorter if len(shorter) >= 5 else word
    return word


def distance(a: str, b: str, most: int) -> int:
    """Letters to insert, drop, replace or swap with their neighbour; `most` + 1 if there are more."""
    if a == b:
        return 0
    if abs(len(a) - len(b)) > most or len(set(a) - set(b)) > most:
        return most + 1
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


class Vocabulary:
    """The words that occur in any of many texts."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        """How many texts have each."""
        self._by_start: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Words and their stems, by first letter."""

    def add(self, found: Iterable[str]) -> None:
        """The different words of one text."""
        for word in found:
            self._count[word] += 1
            if self._count[word] == 1:
                self._by_start[word[0]][word] = stem(word)

    def remove(self, found: Iterable[str]) -> None:
        """Of a text that was added before."""
        for word in found:
            self._count[word] -= 1
            if not self._count[word]:
                del self._count[word]
                del self._by_start[word[0]][word]

    def begun(self, start: str) -> Iterator[str]:
        """Words that begin so."""
        if len(start) >= 3 and not start.isdigit():
            yield from (word for word in self._by_start.get(start[0], ()) if word.startswith(start))

    def shortened(self, word: str) -> Iterator[str]:
        """Words that it has the consonants of, all but one of them: `txt`, `cfg`."""
        if len(word) < 3 or VOWEL.search(word):
            return
        for known in self._by_start.get(word[0], ()):
            left = TWICE.sub(r"\1", VOWEL.sub("", known))
            if left[-1:] == word[-1] and 0 <= len(left) - len(word) <= 1:
                if distance(word, left, 1) <= 1:
                    yield known

    def near(self, word: str, away: int) -> Iterator[str]:
        """Words that are so many letters away, endings apart. Short words allow for one at most."""
        root = stem(word)
        if len(word) < 4 or away > (1 if len(root) < 6 else 2):
            return
        for start in {word[0], word[1]}:
            for known, known_root in self._by_start.get(start, {}).items():
                if len(known_root) >= 3 and (
                    distance(word, known, away) == away or distance(root, known_root, away) == away
                ):
                    yield known
