"""How servers and tools are named, spelled and misspelled.

Pure text, no catalog of its own: what exists is passed in. A name that somebody sends is
looked up among what exists and never parsed, because both halves may contain every separator.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from typing import Any, Protocol

SEPARATORS = (":", "__", ".", "/")
"""Between server and tool, in the ways that people and models write them."""

PREFIXES = ("mcp__", "mcp_", "functions.", "tools.")
"""What clients put in front of a tool's name."""

WRITTEN = re.compile(
    r"\s*tools((?:\.[\w$]+|\[ *(?:'[^']+'|\"[^\"]+\") *\]){2})(?:\(.*)?\s*\Z", re.DOTALL
)
"""How a program calls a tool."""
STEP = re.compile(r"\.([\w$]+)|\[ *['\"]([^'\"]+)['\"] *\]")

LONGEST = 256
"""No name that anyone means is longer; comparing longer ones only costs time."""

MANY = 100
"""Names that are compared letter by letter."""

ODD = re.compile(r"[^A-Za-z0-9_.-]")
"""What MCP (2025-11-25, tool names) and the models' own interfaces don't want in a tool's name."""

LONGEST_PLAIN = 64
"""Characters of a tool's name that every client takes: one that is longer costs some the whole list."""
MARKED = re.compile(r"_[0-9a-f]{6}\Z")
"""How a plain name ends that tells one tool from others."""

DULL = dict.fromkeys(map(ord, "_-. "))
"""Characters that don't count when names are compared."""


class HasTools(Protocol):
    """A server, for `HasServers`."""

    @property
    def tools(self) -> Mapping[str, Any]: ...


class HasServers(Protocol):
    """What `find_tool` needs of a catalog, so that this module stays below it."""

    @property
    def servers(self) -> Mapping[str, HasTools]: ...


@dataclass(frozen=True, slots=True)
class ToolId:
    """One tool of one server."""

    server: str
    tool: str

    def __str__(self) -> str:
        return f"{self.server}:{self.tool}"


def short(name: str) -> str:
    """What is repeated, or kept, of a name that somebody chose."""
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"


def find_tool(text: str, catalog: HasServers) -> ToolId | None:
    """The tool that `text` names in one of the usual ways, or None.

    The longest server name wins: with servers `a` and `a__b`, `a__b__c` is tool `c` of `a__b`.
    """
    fitting = (name for name in catalog.servers if text.startswith(name))
    for server in sorted(fitting, key=len, reverse=True):
        tools = catalog.servers[server].tools
        rest = text[len(server) :]
        for separator in SEPARATORS:
            tool = rest.removeprefix(separator)
            if tool != rest and tool in tools:
                return ToolId(server, tool)
    return _plainly(text, catalog)


def plain(tool: ToolId) -> str:
    """`server__tool` in characters that every client takes: `my server`'s `do it` is `my_server__do_it`."""
    return ODD.sub("_", f"{tool.server}__{tool.tool}")


def marked(tool: ToolId) -> str:
    """The same with the beginning of a hash, for a tool whose plain name is another's, too, or is long."""
    mark = hashlib.sha256(str(tool).encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{plain(tool)[: LONGEST_PLAIN - 7]}_{mark}"


def direct_name(tool: ToolId, catalog: HasServers) -> str:
    """The name of a tool where it is listed directly: the plain one, or the marked where that won't do."""
    name = plain(tool)
    fine = len(name) <= LONGEST_PLAIN and find_tool(name, catalog) == tool
    return name if fine else marked(tool)


def _plainly(text: str, catalog: HasServers) -> ToolId | None:
    """The one tool that is called so in plain characters, where it has others of its own or too many."""
    stem = MARKED.sub("", text)
    found = [
        each
        for server, known in catalog.servers.items()
        if stem and (start := ODD.sub("_", f"{server}__")).startswith(stem[: len(start)])
        for tool in known.tools
        if (name := plain(each := ToolId(server, tool))) == text
        or (stem != text and name.startswith(stem) and marked(each) == text)
    ]
    return found[0] if len(found) == 1 else None


def meant_tool(text: str, catalog: HasServers) -> ToolId | None:
    """The tool that a name in a script may have been meant as, or None.

    Beyond the usual ways: with the server or tool as JavaScript spells it, behind a prefix that
    clients put there, or alone; of several servers that have such a tool, the first.
    """
    if len(text) > 2 * LONGEST:
        return None
    for prefix in PREFIXES:
        text = text.removeprefix(prefix)
    if (found := find_tool(text, catalog)) is not None:
        return found
    for server, each in catalog.servers.items():
        rest = text.removeprefix(spelled(server))
        if rest != text and rest[:1] in ("_", ".", ":", "/"):
            tool = original(rest.lstrip("_.:/"), each.tools)
            if tool in each.tools:
                return ToolId(server, tool)
    having = (server for server, each in catalog.servers.items() if text in each.tools)
    return next((ToolId(server, text) for server in having), None)


def sole_tool(text: str, catalog: HasServers) -> ToolId | None:
    """The tool that `text` names in one of the usual ways, as programs write it, or alone where it is the only one so called."""
    if len(text) <= 2 * LONGEST and (written := WRITTEN.match(text)) is not None:
        text = ":".join(one or other for one, other in STEP.findall(written[1]))
    if (found := find_tool(text, catalog)) is not None or len(text) > LONGEST:
        return found
    wanted = _fold(text.replace(":", "").replace("/", ""))
    same = [
        ToolId(server, tool)
        for server, each in catalog.servers.items()
        for tool in each.tools
        if wanted in (_fold(tool), _fold(server + tool))
    ]
    return same[0] if len(same) == 1 else None


def alike(one: str, other: str) -> bool:
    """Whether two names differ in nothing but case and what separates their words."""
    return len(one) <= LONGEST >= len(other) and _fold(one) == _fold(other)


def close(name: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Up to `n` of the `known` names that `name` may have been meant as, nearest first."""
    if len(name) > LONGEST:
        return []
    folded: dict[str, list[str]] = {}
    for candidate in known:
        folded.setdefault(_fold(candidate), []).append(candidate)
    wanted = _fold(name)
    near = difflib.get_close_matches(wanted, _likely(wanted, folded), n=n, cutoff=0.6)
    return [original for key in near for original in folded[key]][:n]


def _likely(wanted: str, known: Mapping[str, object]) -> Iterable[str]:
    """Of many names, those that share the most pairs of letters: to compare each takes too long."""
    if len(known) <= MANY:
        return known
    pairs = {a + b for a, b in pairwise(wanted)}
    return nlargest(MANY, known, key=lambda name: sum(pair in name for pair in pairs))


def _fold(name: str) -> str:
    return name.casefold().translate(DULL)


def spelled(name: str) -> str:
    """The name as a JavaScript identifier: `my-server` gives `my_server`, `2fa` gives `_2fa`."""
    identifier = "".join(c if c == "$" or f"a{c}".isidentifier() else "_" for c in name)
    starts_well = identifier[:1] == "$" or identifier[:1].isidentifier()
    return identifier if starts_well else f"_{identifier}"


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Identifier to original, for the names that JavaScript can't spell as they are.

    Where two would share an identifier, neither gets it; a name that already is that
    identifier keeps it.
    """
    originals = set(names)
    claims: dict[str, list[str]] = {}
    for name in sorted(originals):
        claims.setdefault(spelled(name), []).append(name)
    return {
        identifier: claimants[0]
        for identifier, claimants in claims.items()
        if len(claimants) == 1 and identifier not in originals
    }


def understood(name: str, known: Iterable[str], before: str = "") -> str:
    """The one of the `known` names that a script means by a name: as it is, spelled, or `alike` as no
    other one is, perhaps with its server's name `before` it."""
    found = original(name, listed := tuple(known))
    if found in listed:
        return found
    for wanted in (name, before + name):
        if len(same := [each for each in listed if alike(each, wanted)]) == 1:
            return same[0]
    return name


def original(name: str, known: Iterable[str]) -> str:
    """The one of the `known` names that JavaScript spells so; the name itself where there is none."""
    return spellings(known).get(name, name)
