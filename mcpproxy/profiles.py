"""Profiles: sets of servers that have a name, and a URL (`/mcp/p/<name>`) that shows no others.

A profile narrows whoever comes through it and gives nobody anything: what a token may not use, it
may not use there either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mcpproxy import names
from mcpproxy.errors import Refused
from mcpproxy.policy import Caller, Profile

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
RESERVED = frozenset({"all", "call", "code", "p"})
PATH = "/mcp/p/"


def by_name(value: object) -> object:
    """The servers of each profile, by its name; an array of {name, servers} says the same.

    Raises `ValueError`.
    """
    if isinstance(value, list):
        entries = []
        for each in value:
            if not isinstance(each, dict) or each.keys() != {"name", "servers"}:
                raise ValueError("must have entries of {name, servers}, or be an object by name")
            entries.append((each["name"], each["servers"]))
        if len({str(name) for name, _ in entries}) < len(entries):
            raise ValueError("must not have two profiles of one name")
        value = dict(entries)
    for name in value if isinstance(value, dict) else ():
        if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
            raise ValueError(
                f"must not have a profile called {str(name)[:80]!r}: a name is made of a-z 0-9 _ -, begins with a "
                f"letter or digit, and is none of {', '.join(sorted(RESERVED))}"
            )
    return value


def split(path: str) -> tuple[str, str] | None:
    """The name of a profile in a path, and the path without it; None where there is none in it."""
    if not path.startswith(PATH):
        return None
    name, slash, rest = path.removeprefix(PATH).partition("/")
    return name, "/mcp" + (slash + rest).rstrip("/")


def narrowed(profiles: Mapping[str, Sequence[str]], name: str, caller: Caller) -> Caller:
    """The caller within a profile. Raises `Refused`, with names close to it for an administrator alone."""
    if (servers := profiles.get(name)) is not None:
        return caller.within(Profile(name, frozenset(servers)))
    hint = "an operator defines them under `profiles` in the configuration"
    if caller.admin and (near := names.close(name, profiles)):
        hint = f"did you mean {' or '.join(map(repr, near))}?"
    raise Refused("NOT_FOUND", f"there is no profile {name[:64]!r}; {hint}")
