"""What an operator is shown before deciding: the tools, what changed in each, and what looks odd."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from mcpproxy import approvals, suspicion
from mcpproxy.approvals import ServerRecord, fingerprint
from mcpproxy.catalog import Catalog, Server, Tool
from mcpproxy.decisions import Decided
from mcpproxy.listed import Listed, terms
from mcpproxy.stamps import stamp

Json = dict[str, Any]
WIDTH = 100
"""Columns of a line in a difference."""


def differences(before: Any, after: Any, path: str = "") -> Iterator[Json]:
    """Each place where two values differ: `field`, and `before` or `after` where there is one."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            here = f"{path}.{name}" if path else str(name)
            if name not in after:
                yield {"field": here, "before": before[name]}
            elif name not in before:
                yield {"field": here, "after": after[name]}
            else:
                yield from differences(before[name], after[name], here)
    elif before != after or type(before) is not type(after):
        yield {"field": path, "before": before, "after": after}


def lines(before: str, after: str) -> list[str]:
    """The difference of two texts for people: lines that went (`-`), that came (`+`), and one around them."""
    found = difflib.unified_diff(_wrapped(before), _wrapped(after), n=1, lineterm="")
    return [line for line in found if not line.startswith(("---", "+++", "@@"))]


def _wrapped(text: str) -> list[str]:
    return [
        part
        for line in suspicion.visible(text).splitlines()
        for part in textwrap.wrap(line, WIDTH, break_long_words=True) or [""]
    ]


def tool_report(
    tool: Tool, record: ServerRecord | None, decided: Decided | None, elsewhere: Mapping[str, str]
) -> Json:
    """One tool: whether it is approved, its definition, what changed, and what looks odd."""
    known = record.tools.get(tool.name) if record else None
    state = "new"
    if known is not None and known.blocked:
        state = "blocked"
    elif known is not None:
        state = "approved" if known.fingerprint == fingerprint(tool) else "changed"
    report: Json = {
        "name": tool.name,
        "state": state,
        "definition": dict(tool.definition),
        "findings": [asdict(found) for found in suspicion.inspect_tool(tool.definition, elsewhere)],
    }
    if decided is not None:
        was = approvals.terms(Tool(tool.server, decided.definition))
        report |= {
            "differences": list(differences(was, approvals.terms(tool))),
            "decided_at": stamp(decided.at),
            "decided_by": decided.by,
        }  # fmt: skip
    return report


def listed_report(
    one: Listed,
    known: Mapping[str, str] | None,
    decided: Decided | None,
    elsewhere: Mapping[str, str],
) -> Json:
    """A prompt or a resource in the same way; `known` are the approved fingerprints of its kind."""
    before, now = (known or {}).get(one.name), terms(one.definition)
    state = "new" if before is None else "approved" if before == one.fingerprint else "changed"
    report: Json = {
        "kind": one.kind,
        "name": one.name,
        "state": state,
        "definition": dict(one.definition),
        "findings": [asdict(found) for found in suspicion.inspect_tool(now, elsewhere)],
    }
    if decided is None:
        return report
    return report | {
        "differences": list(differences(terms(decided.definition), now)),
        "decided_at": stamp(decided.at),
        "decided_by": decided.by,
    }


def instructions_report(seen: Server, record: ServerRecord | None) -> Json | None:
    """What the server says of itself; None when it says nothing."""
    if not (says := seen.instructions):
        return None
    before = record.instructions if record else None
    state = "approved" if says == before else "changed" if before else "new"
    found = [asdict(one) for one in suspicion.inspect_text("instructions", says, {})]
    return {"state": state, "text": says, "before": before, "findings": found}


def elsewhere(server: Server, catalog: Catalog) -> dict[str, str]:
    """Names of other servers' tools that this one has none of, each with its server."""
    return {
        name: other.name
        for other in catalog.servers.values()
        for name in other.tools
        if other.name != server.name and name not in server.tools
    }
