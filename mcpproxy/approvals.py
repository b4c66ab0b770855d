"""Which servers and tools an operator has approved, against what there is now. Decisions only.

    an entry of the file + what is on record ──► standing(): approved, waiting or blocked
    what a server lists  + what is on record ──► sort_out(): listed | held | learnt

What is approved of a tool is what a model or a gate goes by, the members in `FIELDS`, and of a tool
that we run ourselves what that is. Nothing here waits or writes; `baseline.py` keeps the records.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from mcpproxy.catalog import Held, Server, Tool, digest

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

Standing = Literal["approved", "waiting", "blocked"]

FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""Members of a definition whose change makes it another tool."""

PASSING = frozenset(
    {
        "name", "enabled", "quarantined", "auto_approve_tool_changes", "lazy", "idle_timeout", "era",
        "headers", "env", "oauth", "auth", "include", "exclude", "enabled_tools", "disabled_tools", "document_refresh", "call_tool_timeout", "init_timeout", "health_check_interval",
        "max_concurrent_requests", "queue_size", "queue_timeout",
    }
)  # fmt: skip
"""Settings that may change without making it another server; of `env` the names count."""


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """What was decided about one tool."""

    blocked: bool
    fingerprint: str
    """Of the definition that was approved or blocked."""


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """What was decided about one server. Immutable; tools are a mapping that is replaced."""

    standing: Standing
    identity: str
    """Of the entry that was decided about."""
    listed: bool = False
    """Whether its first list of tools has been taken as approved with it."""
    instructions: str | None = None
    tools: Mapping[str, ToolRecord] = field(default_factory=lambda: MappingProxyType({}))


def identity(entry: ServerSettings) -> str:
    """Changes with what would be run or reached; a hash, since arguments may hold secrets."""
    own = entry.model_dump(exclude_defaults=True, exclude=set(entry.model_extra or {}) | PASSING)
    return digest({**own, "env": sorted(entry.env)})


def terms(tool: Tool) -> dict[str, Any]:
    """What is approved of a tool: `FIELDS`, and what a call comes to where that is known."""
    found = {name: tool.definition[name] for name in FIELDS if name in tool.definition}
    return found if tool.runs is None else {**found, "runs": tool.runs}


def fingerprint(tool: Tool) -> str:
    """Changes with its `terms`; the order of members doesn't matter. Empty for one too deep to be read: it is no tool's."""
    try:
        return digest(terms(tool))
    except RecursionError:
        return ""


def standing(
    entry: ServerSettings, record: ServerRecord | None, *, first: bool, enabled: bool
) -> Standing:
    """Whether a server is let in.

    `first`: this is the first start that had servers, so the file is taken as it is. `enabled`:
    the setting `quarantine_enabled`. What the entry says comes before what is on record, except
    that a blocked server stays blocked.
    """
    if record is not None and record.standing == "blocked":
        return "blocked"
    if entry.quarantined is not None:
        return "waiting" if entry.quarantined else "approved"
    if not enabled or (first and record is None):
        return "approved"
    if record is None or record.identity != identity(entry):
        return "waiting"
    return record.standing


@dataclass(frozen=True, slots=True)
class Sorted:
    """What becomes of a list of tools."""

    tools: Mapping[str, Tool]
    held: Mapping[str, Held]
    learnt: Mapping[str, Tool]
    """Those among `tools` that are approved by being listed, and belong on record."""
    instructions: str | None
    held_instructions: str | None
    learns_instructions: bool


def sort_out(seen: Server, record: ServerRecord, *, trusting: bool) -> Sorted:
    """What of a server's list is shown, and what waits for an operator.

    The first list of a server that was let in is approved as it is; `trusting` approves all
    others as well. What is blocked stays out either way.
    """
    trusting = trusting or not record.listed
    tools: dict[str, Tool] = {}
    held: dict[str, Held] = {}
    learnt: dict[str, Tool] = {}
    for name, tool in seen.tools.items():
        known, now = record.tools.get(name), fingerprint(tool)
        if known is not None and known.blocked:
            held[name] = Held(tool, "blocked")
        elif known is not None and now and known.fingerprint == now:
            tools[name] = tool
        elif trusting and now:
            tools[name] = learnt[name] = tool
        else:
            held[name] = Held(tool, "new" if known is None else "changed")
    says = seen.instructions
    fine = trusting or not says or says == record.instructions
    return Sorted(
        tools if held else seen.tools,
        held,
        learnt,
        says if fine else None,
        None if fine else says,
        fine and bool(says) and says != record.instructions,
    )


@dataclass(frozen=True, slots=True)
class Sorting:
    """What a server's list came to, and of what."""

    seen: Server
    record: ServerRecord
    trusting: bool
    sorted: Sorted

    def holds(self, seen: Server, record: ServerRecord, trusting: bool) -> bool:
        return (
            self.seen.tools is seen.tools
            and self.seen.instructions == seen.instructions
            and self.record is record
            and self.trusting == trusting
        )


# ── what to say ─────────────────────────────────────────────────────────────────────────────────


def command(
    verb: Literal["inspect", "approve", "enable"], server: str, tool: str | None = None
) -> str:
    """The command line that an operator needs next."""
    words = ["mcpproxy", "upstream", verb, shlex.quote(server)]
    return " ".join(words + (["--tool", shlex.quote(tool)] if tool is not None else []))


def why_out(server: str, now: Standing) -> str:
    """Why a server isn't let in, and what an operator does about it."""
    if now == "blocked":
        return f"an operator blocked it; to let it in again: {command('approve', server)}"
    return (
        "it waits for an operator's approval; to see its tools: "
        f"{command('inspect', server)}; to let it in: {command('approve', server)}"
    )


WHY_HELD = {
    "new": "is new since its server was approved",
    "changed": "has changed since it was approved",
    "blocked": "was blocked",
}


def why_held(held: Held) -> str:
    """Why a tool is held back, and what an operator does about it. Nothing of its own words."""
    tool = held.tool
    if held.why == "disabled":
        return (
            f"{tool.server}:{tool.name} is switched off: an operator has to allow it in the configuration "
            f"(enabled_tools, disabled_tools of server '{tool.server}')"
        )
    return (
        f"{tool.server}:{tool.name} {WHY_HELD[held.why]}, and can't be called until an operator allows it: "
        f"{command('inspect', tool.server)} shows it, {command('approve', tool.server, tool.name)} allows it"
    )
