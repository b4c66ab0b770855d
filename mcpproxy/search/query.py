"""What a query asks for: its words as concepts, each with the ways it may be written in an index.

A concept is a word itself and what else it may be called or, where nobody knows the word, what it
was probably meant to be: the start of a word, two words run together, a word one or two letters away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from mcpproxy.search.acts import ACTS
from mcpproxy.search.everyday import SAID
from mcpproxy.search.foreign import EXPRESSIONS, FOREIGN
from mcpproxy.search.lexicon import TOKEN, Vocabulary, fold, foreign_stem, parts, stem
from mcpproxy.search.synonyms import SAME, STOP_WORDS, one_way, together

LONGEST_QUERY = 400
"""Characters of a query that are looked at; a longer one is text, not a question."""

MOST_WORDS = 24
MOST_FORMS = 6
CANDIDATES = 12
"""Words that an unknown one may begin, of which the commonest are taken."""

OTHER_WORD = 0.55
"""What a synonym counts against the word itself; each further one counts a little less."""

FADING = 0.8
PHRASE = 0.9
"""What an expression of several words counts: it is less of a guess than one word."""

ASKING = ("list", "get", "read", "search")
QUESTIONS = {
    **dict.fromkeys(("which", "what", "how", "where"), ASKING),
    **dict.fromkeys(("who", "whose"), ("user", "member", "author", *ASKING)),
    "when": ("time", "date"),
}
HINTS = {"new": ("create", "new")}
ASKED = 0.3
"""What it counts that a tool has such a word, for a query that begins with the one or has the other."""

BEGUN = 0.9
RUN_TOGETHER = 0.95
MISSPELT = 0.8

LITERALS = (
    (re.compile(r"\bhttps?://\S+|\bwww\.\S+"), " url "),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.\w+"), " email "),
    (re.compile(r"(?<!\S)(?:\.{0,2}/[\w.-]+){2,}"), " file path "),
    (re.compile(r"\b[\w-]+\.(?:md|txt|json|ya?ml|toml|csv|docx?|xlsx?|log|ini|html?)\b"), " file "),
    (
        re.compile(r"\b(?:SELECT\s.+\sFROM|INSERT INTO|DELETE FROM|UPDATE \w+ SET)\s.*"),
        " sql query ",
    ),
    (re.compile(r"\d\s*(?:%\s*of|[+*\u00d7\u00f7^]|[-/]\s)\s*\d"), " calculate "),
    (re.compile(r"(?<!\w)#(?=[a-z])"), " channel "),
    (re.compile(r"(?<!\w)@(?=[a-z])"), " user "),
    (re.compile(r"(?<!\w):[a-z]\w+:"), " emoji "),
    (re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"), " commit "),
    (re.compile(r"\*\.\w+"), " files pattern "),
    (re.compile(r"(?i)\b\d{1,2}(?:[:.]\d\d)?\s?(?:[ap]m\b|o.clock|uhr\b)"), " time "),
    (re.compile(r"\bv?\d+\.\d+\.\d+\b"), " version "),
)
"""Things themselves, and words for them: no tool is described by somebody's address."""

DENIALS = frozenset("not never no without t".split())

JOINING = frozenset("a an and by for from in of on or the to with".split())

REACH = 3
"""Words ahead in which the second of an expression is looked for."""

PREFIX = re.compile("(?:sub|un|re|non|multi|auto|pre)(?=.{4})")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to say a concept: words that all have to be there, and what finding them counts."""

    words: tuple[str, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing that a query asks for, the likeliest form first."""

    forms: tuple[Form, ...]
    guessed: bool = False
    """Whether nobody knows the word, and it was taken for another."""


Count = Callable[[str], int]
"""How many of the texts that are searched have a word, in any of its forms."""
Words = Callable[[], Vocabulary]
"""The words that occur there; asked for when a word isn't known."""


def concepts(query: str, vocabulary: Words, count: Count) -> list[Concept]:
    """What is asked for, or nothing where nothing is known and not all could be guessed.

    Only what `count` knows is asked for.
    """
    said_so = list(split(query, count))[: 2 * MOST_WORDS]
    asked = list(dict.fromkeys(said_so))[:MOST_WORDS]
    telling = [word for word in asked if word not in STOP_WORDS and not word.isdigit()] or asked
    found, unknown = [], 0
    for word in telling:
        if concept := meant(word, vocabulary, count):
            found.append(joined(concept, word, asked, count))
        else:
            unknown += 1
    said = [*phrases(said_so, count), *opposites(said_so, count), *initials(asked, count)]
    if unknown and not said and all(concept.guessed for concept in found):
        return []
    said += hints(asked, count)
    return list(dict.fromkeys([*said, *found]))


def split(query: str, count: Count) -> Iterator[str]:
    """The words of a query, as they are written and in their parts."""
    text = fold(query[:LONGEST_QUERY])
    if " " in text.strip():  # alone, `git.log` is a name
        for literal, word in LITERALS:
            text = literal.sub(word, text)
    for token in TOKEN.findall(text):
        found = parts(token)
        # What `parts` adds for two in one is only worth asking for if somebody writes it.
        added = len(found) == 3 and found[2] == found[0] + found[1]
        yield from found[:2] if added and not count(found[2]) else found


def phrases(asked: list[str], count: Count) -> Iterator[Concept]:
    """Expressions of a few words that people use for something else."""
    stems = [stem(word) for word in asked]
    for size in (4, 3):
        for at in range(len(asked) - size + 1):
            yield from phrase(tuple(stems[at : at + size]), count)
    for at, first in enumerate(stems):
        # Others may stand between two words: `throw it all away`.
        for second in stems[at + 1 : at + 1 + REACH]:
            yield from phrase((first, second), count)


def phrase(stems: tuple[str, ...], count: Count) -> Iterator[Concept]:
    if forms := others(PHRASES.get(stems, ()), count, PHRASE):
        yield Concept(forms)


def hints(asked: list[str], count: Count) -> Iterator[Concept]:
    """What a word that says little by itself makes likelier."""
    hinted = [QUESTIONS.get(word, ()) for word in asked[:1]]
    hinted += [HINTS.get(word, ()) for word in asked]
    for names in hinted:
        if forms := others(names, count, ASKED):
            yield Concept(forms)


def opposites(asked: list[str], count: Count) -> Iterator[Concept]:
    """`untracked` for what is not tracked."""
    for at, word in enumerate(asked):
        if word in DENIALS:
            for denied in asked[at + 1 : at + 1 + REACH]:
                if denied not in STOP_WORDS and count(f"un{denied}"):
                    yield Concept((Form((f"un{denied}",), 1.0),))


def initials(asked: list[str], count: Count) -> Iterator[Concept]:
    """`inp` for the interaction to next paint, where a word of it is not known as it stands."""
    asked = [word for word in asked if word not in JOINING]
    for size in (5, 4, 3):
        for at in range(len(asked) - size + 1):
            written = asked[at : at + size]
            short = "".join(word[0] for word in written)
            unknown = any(word not in STOP_WORDS and not count(word) for word in written)
            if unknown and count(short):
                yield Concept((Form((short,), 1.0),))


def joined(concept: Concept, word: str, asked: list[str], count: Count) -> Concept:
    """With the word and its neighbour as one, where somebody writes them so: `screen shot`."""
    pairs = [a + b for a, b in pairwise(asked) if word in (a, b)]
    forms = tuple(Form((pair,), 1.0) for pair in pairs if count(pair))
    return replace(concept, forms=(*concept.forms, *forms)) if forms else concept


def meant(word: str, vocabulary: Words, count: Count) -> Concept | None:
    meanings = others(synonyms(word), count)
    if count(word):
        return Concept((Form((word,), 1.0), *meanings))
    if meanings:
        return Concept(meanings)
    guess = tuple(guesses(word, vocabulary, count))
    return Concept(guess, guessed=True) if guess else None


def others(meanings: Iterable[str], count: Count, counts: float = OTHER_WORD) -> tuple[Form, ...]:
    """Those of its meanings that occur, each of which counts less than the one before."""
    forms: list[Form] = []
    for meaning in meanings:
        said = meaning.split()
        there = tuple(word for word in said if count(word))
        if there and len(forms) < MOST_FORMS:
            part = len(there) / len(said)
            forms.append(Form(there, counts * part * FADING ** len(forms)))
    return tuple(forms)


def guesses(word: str, vocabulary: Words, count: Count) -> Sequence[Form]:
    """What an unknown word probably stands for."""
    candidates = sorted(vocabulary().begun(word), key=lambda each: (len(each), each))[:CANDIDATES]
    if begun := likeliest(candidates, count, MOST_FORMS):
        return [Form((each,), BEGUN) for each in begun]
    if short := likeliest(vocabulary().shortened(word), count, MOST_FORMS):
        return [Form((each,), BEGUN) for each in short]
    for at in range(3, len(word) - 2):
        halves = word[:at], word[at:]
        if all(map(count, halves)):
            return [Form(halves, RUN_TOGETHER)]
    if forms := compound(word, count) or prefixed(word, count):
        return forms
    near: Sequence[str] = ()
    for away in (1, 2):
        near = near or likeliest(vocabulary().near(word, away), count, MOST_FORMS)
    return [Form((each,), MISSPELT) for each in near]


def likeliest(candidates: Iterable[str], count: Count, most: int) -> list[str]:
    """The commonest of those that there are."""
    there = [(-n, word) for word in candidates if (n := count(word))]
    return [word for _, word in sorted(there)[:most]]


def compound(word: str, count: Count) -> tuple[Form, ...]:
    """Two words of another language in one, as German writes them."""
    for at in range(4, len(word) - 3):
        first, second = foreign(word[:at]), foreign(word[at:])
        if forms := others((f"{a} {b}" for a in first[:2] for b in second[:2]), count):
            return forms
    return ()


def prefixed(word: str, count: Count) -> tuple[Form, ...]:
    """`subfolder` without its `sub`."""
    if not (start := PREFIX.match(word)):
        return ()
    rest = word[start.end() :]
    itself = (Form((rest,), RUN_TOGETHER),) if count(rest) else ()
    return (*itself, *others(synonyms(rest), count))


# ── other words ─────────────────────────────────────────────────────────────────────────────────


def synonyms(word: str) -> tuple[str, ...]:
    """What else a word of the trade, of everyday speech or of another language may be called."""
    return WORDS.get(word) or STEMS.get(stem(word)) or foreign(word)


def foreign(word: str) -> tuple[str, ...]:
    return ABROAD.get(foreign_stem(word), ())


def ways(said: tuple[str, ...]) -> list[tuple[str, ...]]:
    """An expression, and the other way to say `links on site`: `site links`."""
    if len(said) == 3 and said[1] in JOINING:
        return [said, (said[2], said[0])]
    return [said]


SAYINGS = together(one_way(SAID + ACTS + EXPRESSIONS), SAME)
WORDS = {said: meanings for said, meanings in SAYINGS.items() if " " not in said}
STEMS = {stem(word): meanings for word, meanings in reversed(WORDS.items())}
PHRASES = {
    way: meanings
    for said, meanings in reversed(SAYINGS.items())
    if " " in said
    for way in ways(tuple(map(stem, said.split())))
}
del SAYINGS
ABROAD = one_way(FOREIGN, foreign_stem)
