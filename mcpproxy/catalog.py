"""Every tool we can see, as a snapshot that is replaced and never edited.

A tool is kept as it came over the wire: what its server says of it, we do not reinterpret. The
order is that of the configuration and of each server's list, with new tools appended, so that what
is made from it stays the same to the byte while nothing changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

RUNS = "mcpproxy/runs"
"""Member of `_meta` of a tool or a prompt that is this program's: what a call comes to. For operators alone."""

NO_TOOLS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Tool:
    """One tool of one server; `definition` is its raw entry in `tools/list`."""

    server: str
    definition: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.definition["name"])

    @property
    def title(self) -> str | None:
        title = self.definition.get("title")
        return title if isinstance(title, str) else None

    @property
    def description(self) -> str:
        description = self.definition.get("description")
        return description if isinstance(description, str) else ""

    @property
    def input_schema(self) -> Any:
        """JSON Schema of the arguments, of whatever shape the server sent; None when it sent none."""
        return self.definition.get("inputSchema")

    @property
    def output_schema(self) -> Any:
        return self.definition.get("outputSchema")

    @property
    def annotations(self) -> Mapping[str, Any]:
        annotations = self.definition.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def runs(self) -> Any:
        return runs(self.definition)

    @cached_property
    def public(self) -> Mapping[str, Any]:
        return public(self.definition)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the definition in canonical JSON: changes with anything the server says of it."""
        return digest(self.definition)

    @cached_property
    def schemas(self) -> str:
        """SHA-256 of what it takes and gives alone: stays the same when only its words change."""
        return digest([self.input_schema, self.output_schema])


def running(definition: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """A definition that says what a call of it comes to."""
    return {**definition, "_meta": {**definition.get("_meta", {}), RUNS: runs}}


def runs(definition: Mapping[str, Any]) -> Any:
    """What a call comes to, where the source of the definition says that; None where it doesn't."""
    meta = definition.get("_meta")
    return meta.get(RUNS) if isinstance(meta, Mapping) else None


def public(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A definition as callers get to see it."""
    if runs(definition) is None:
        return definition
    meta = {key: value for key, value in definition["_meta"].items() if key != RUNS}
    found = {key: value for key, value in definition.items() if key != "_meta"}
    return {**found, "_meta": meta} if meta else found


def digest(data: Any) -> str:
    """SHA-256 of data as JSON; the order of members doesn't matter."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Held:
    """A tool that its server lists and that nobody but an operator gets to see."""

    tool: Tool
    why: Literal["new", "changed", "blocked", "disabled"]

    @property
    def waits(self) -> bool:
        """Whether somebody has yet to decide; else it is off because somebody has."""
        return self.why in ("new", "changed")


@dataclass(frozen=True)
class Server:
    """One upstream as far as it is known."""

    name: str
    state: str
    """connecting (the first attempt isn't over), ready, down, lazy (nobody called it), disabled, quarantined or blocked."""
    instructions: str | None
    tools: Mapping[str, Tool]
    error: str | None
    """Why it is down, for people."""
    held: Mapping[str, Held] = field(default_factory=lambda: NO_TOOLS)
    """Tools that wait for an operator, or are blocked; none of them is among `tools`."""
    held_instructions: str | None = None
    """What it says of itself, where that waits as well."""

    held_besides: int = 0
    """How many of its prompts and resources wait for an operator."""
    others: Mapping[Any, Mapping[str, Any]] = field(default_factory=lambda: NO_TOOLS)
    """Its prompts and resources, by kind and name: known where an operator looks at the server."""

    @property
    def waiting(self) -> int:
        """How much of what it has waits for an operator; its instructions are one of it."""
        held = sum(one.waits for one in self.held.values())
        return held + self.held_besides + (self.held_instructions is not None)

    @property
    def unknown(self) -> bool:
        """Whether nobody has asked it yet which tools it has."""
        return self.state == "connecting" or (self.state == "lazy" and not self.tools)


@dataclass(frozen=True)
class Catalog:
    """All servers, by name, in the order of the configuration."""

    servers: Mapping[str, Server]
    version: int
    """Goes up with each snapshot."""

    def tool(self, server: str, name: str) -> Tool | None:
        found = self.servers.get(server)
        return None if found is None else found.tools.get(name)

    def tools(self) -> Iterator[Tool]:
        for server in self.servers.values():
            yield from server.tools.values()


EMPTY = Catalog(MappingProxyType({}), 0)
