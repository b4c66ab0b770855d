"""What a server lists besides its tools, prompts, resources and templates of resources, and which of it is shown.

Approval is by the words that a person or a model goes by, as for tools (`approvals.py`). That there is
another resource is no news of that kind: files and rows come and go. So a new one that says no more of
itself than its name and address is shown; one with a title or a description waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcpproxy.catalog import digest, runs

Kind = Literal["prompt", "resource", "template"]

KINDS: dict[Kind, str] = {"prompt": "name", "resource": "uri", "template": "uriTemplate"}
"""Each kind, and the member of a definition that names one."""
FIELDS = ("name", "uri", "uriTemplate", "title", "description", "arguments", "mimeType")
"""Members of a definition whose change makes it another one."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One prompt, resource or template as its server lists it."""

    kind: Kind
    name: str
    definition: Mapping[str, Any]
    fingerprint: str

    @property
    def wordless(self) -> bool:
        return not (self.definition.get("title") or self.definition.get("description"))


def listed(kind: Kind, definition: Mapping[str, Any]) -> Listed:
    return Listed(kind, str(definition[KINDS[kind]]), definition, digest(terms(definition)))


def terms(definition: Mapping[str, Any]) -> dict[str, Any]:
    """What is approved of it."""
    found = {name: definition[name] for name in FIELDS if name in definition}
    gives = runs(definition)
    return found if gives is None else {**found, "gives": gives}


@dataclass(frozen=True, slots=True)
class Sorted:
    """What becomes of a list."""

    shown: Mapping[str, Listed]
    held: Mapping[str, Literal["new", "changed"]]
    """What waits for an operator, and why."""
    learnt: Mapping[str, Listed]
    """Those that are shown without having been approved one by one, and belong on record."""


def sort_out(
    found: Mapping[str, Listed], known: Mapping[str, str] | None, *, trusting: bool
) -> Sorted:
    """What of a list is shown. `known` are the approved fingerprints, None before the first list.

    The first list of a kind that has anything in it is approved as it is; `trusting` approves all others as well.
    """
    shown: dict[str, Listed] = {}
    held: dict[str, Literal["new", "changed"]] = {}
    learnt: dict[str, Listed] = {}
    trusting = trusting or known is None
    for name, one in found.items():
        before = (known or {}).get(name)
        if before == one.fingerprint:
            shown[name] = one
        elif trusting or (before is None and one.kind == "resource" and one.wordless):
            shown[name] = learnt[name] = one
        else:
            held[name] = "new" if before is None else "changed"
    return Sorted(shown, held, learnt)
