"""Whether one tool call may go out: the same questions in the same order for every way of calling.

Order: arguments, budget, allowed servers, token's servers, the profile's servers, token's
permission, approval, whether the tool is there and enabled, arguments against the tool's input schema.
Concurrency limits come after that, in the fleet, which asks about the tool once more when the call
goes out: it may have changed while the call waited. The first "no" is the answer.

Each catalog here is one that the caller may see. So what is kept from it and what isn't there get
the same answer, to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any

import jsonschema_rs

from mcpproxy import approvals, names
from mcpproxy.catalog import Catalog, Server, Tool
from mcpproxy.effort import MOST_STEPS, Effort, compiled, path_text, too_deep, violations
from mcpproxy.errors import CallError
from mcpproxy.names import short
from mcpproxy.policy import EVERYTHING, PERMISSIONS, Caller, may_use

MOST_NAMED = 20
"""Servers that a refusal names."""
FEW = 12
"""Servers that are all named where none of them comes close."""
LONGEST_FAULT = 400
"""Characters of what is said about one field."""
ELSEWHERE = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")
"""Where a schema has parameters besides its own properties."""
VALIDATORS = 4096
"""Compiled schemas that are kept."""


class Budget:
    """How many more calls one execution may make; 0 to begin with means any number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0

    def charge(self) -> None:
        """One more call. Raises `CallError` when there are none left."""
        if self._limit and self._used >= self._limit:
            raise CallError(
                "MAX_TOOL_CALLS_EXCEEDED",
                f"Exceeded maximum tool calls limit ({self._limit})",
            )
        self._used += 1


def check_allowed(server: str, allowed: frozenset[str] | None) -> None:
    """Raises `CallError` unless `server` is among `allowed`; None allows all."""
    if allowed is not None and server not in allowed:
        some = ", ".join(nsmallest(MOST_NAMED, allowed))
        more = f" and {len(allowed) - MOST_NAMED} more" if len(allowed) > MOST_NAMED else ""
        raise CallError(
            "SERVER_NOT_ALLOWED",
            f"Server '{short(server)}' is not in the allowed servers list ({some}{more}); "
            "call one of those, or ask for it in options.allowed_servers",
        )


def check_server(caller: Caller, server: str) -> None:
    """Raises `CallError` for a server that isn't the caller's, whether there is one or not."""
    if caller.servers is not None and server not in caller.servers:
        raise CallError(
            "ACCESS_DENIED",
            f"this token may not use server '{short(server)}'; it may use {named(caller)}. "
            "An operator can give it another scope",
        )
    if caller.profile is not None and server not in caller.profile.servers:
        raise CallError(
            "SERVER_NOT_ALLOWED",
            f"Server '{short(server)}' is not in the profile '{caller.profile.name}', which has {named(caller)}; call one of those",
        )


def check_token(valid: bool) -> None:
    """Raises `CallError` where the caller's token has come to its end while it was at work."""
    if not valid:
        raise CallError(
            "ACCESS_DENIED",
            "this token was revoked, renewed or has expired since this began; an operator can say which",
        )


def named(caller: Caller) -> str:
    """The servers of the caller's own scope, in words."""
    return ", ".join(sorted(caller.scope.servers or ())) or "none"


def find(catalog: Catalog, caller: Caller, server: str, tool: str) -> Tool | None:
    """The tool, or None where its server is known but its tools aren't (yet).

    Raises `CallError` when the server isn't the caller's, isn't there, waits for an operator, or
    lacks the tool.
    """
    check_server(caller, server)
    known = catalog.servers.get(server)
    if known is None:
        raise CallError("SERVER_NOT_FOUND", no_server(server, catalog))
    if known.state in ("quarantined", "blocked"):
        raise CallError("QUARANTINED", f"server '{server}' is {known.state}: {known.error}")
    if tool not in known.tools and tool not in known.held and known.state != "ready":
        return None
    return check_tool(caller, tool, known)


def check_tool(caller: Caller, tool: str, server: Server) -> Tool:
    """The tool of a server as it is now, seen by the caller or not. Raises `CallError`."""
    found = server.tools.get(tool)
    if found is not None and may_use(caller, found):
        return found
    held = server.held.get(tool)
    if held is not None and may_use(caller, held.tool):
        code = "TOOL_DISABLED" if held.why == "disabled" else "TOOL_NOT_APPROVED"
        raise CallError(code, approvals.why_held(held))
    usable = [name for name, each in server.tools.items() if may_use(caller, each)]
    if caller.permissions == EVERYTHING:
        raise CallError("TOOL_NOT_FOUND", no_tool(server.name, tool, usable))
    granted = [name for name in PERMISSIONS if name in caller.permissions]
    raise CallError(
        "PERMISSION_DENIED",
        f"this token has no permission beyond {' and '.join(granted)}, and no tool '{short(tool)}' of server "
        f"'{server.name}' does with that{meant(tool, usable)} search_tools finds what it may use, "
        "an operator can give it more",
    )


def no_server(server: str, catalog: Catalog) -> str:
    """The sentence for a server that isn't there."""
    if not catalog.servers:
        return f"there is no server '{short(server)}': no servers are configured"
    known = meant(server, catalog.servers)
    if known == ";" and len(catalog.servers) <= FEW:
        return f"there is no server '{short(server)}'; there are {', '.join(catalog.servers)}"
    return (
        f"there is no server '{short(server)}'{known} list_servers shows all {len(catalog.servers)}"
    )


def no_tool(server: str, tool: str, known: Iterable[str]) -> str:
    """The sentence for a tool that its server doesn't have; `known` are those it has."""
    return (
        f"server '{server}' has no tool '{short(tool)}'{meant(tool, known)} "
        "search_tools finds tools by what they do"
    )


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that isn't there: the names it may have been, if any."""
    close = names.close(name, known)
    return f", did you mean {' or '.join(repr(each) for each in close)}?" if close else ";"


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Raises `CallError` INVALID_TOOL_ARGS that names each field at fault and what it should be.

    Source: JSON Schema 2020-12, or draft-07 where the schema says so. A schema that is itself
    broken, or would take too long, checks nothing: its server will.
    """
    schema = tool.input_schema
    if not isinstance(schema, Mapping) or not schema:
        return
    validator, again = _validator(tool.fingerprint, schema)
    if validator is None or too_deep(arguments, again):
        return
    faults = [fault(each) for each in violations(validator, arguments)[:3]]
    if faults:
        faults += unknown(schema, arguments)
        raise CallError(
            "INVALID_TOOL_ARGS",
            f"{tool.server}:{tool.name}: {'; '.join(faults)}. "
            f'describe_tool("{tool.server}:{tool.name}") shows its parameters',
        )


_validators: dict[str, tuple[Any, int]] = {}


def _validator(fingerprint: str, schema: Mapping[str, Any]) -> tuple[Any, int]:
    """The compiled schema, or None, and how often it leads back into itself; kept by the tool's fingerprint."""
    if fingerprint not in _validators:
        if len(_validators) >= VALIDATORS:
            _validators.clear()
        try:
            effort = Effort(schema)
            made = compiled(schema) if effort.steps <= MOST_STEPS else None
            _validators[fingerprint] = made, effort.again
        except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError):
            _validators[fingerprint] = None, 0
    return _validators[fingerprint]


def fault(error: Any, root: str = "args") -> str:
    """One violation: the path of the field and what the schema wants there."""
    return f"{root}{path_text(error.instance_path)}: {unmet(error)[:LONGEST_FAULT]}"


def unknown(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Names of arguments that are none of the parameters, and those that are: one may stand for another."""
    known = schema.get("properties")
    if not isinstance(known, Mapping) or schema.get("additionalProperties") not in (None, False):
        return []
    odd = next((name for name in arguments if name not in known), None)
    if odd is None or not known:
        return []
    return [f"{brief(odd)} is none of its parameters: {', '.join(map(str, known))[:LONGEST_FAULT]}"]


def ignored(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """What to say of an argument that a good call had and that its tool doesn't know: most servers pass over it."""
    schema = tool.input_schema
    if not isinstance(schema, Mapping) or any(word in schema for word in ELSEWHERE):
        return []
    return [
        f"{tool.server}:{tool.name}: {each}; its server may have ignored that"
        for each in unknown(schema, arguments)
    ]


def unmet(error: Any) -> str:
    """What a value isn't, with all that it may be: the validator's own words leave some of that out."""
    match error.kind.name:
        case "type" if error.instance is None:
            return f"{error.message}: leave it out, or give a value"
        case "enum" if isinstance(error.kind.options, list):
            allowed = ", ".join(json.dumps(each, ensure_ascii=False) for each in error.kind.options)
            return f"{brief(error.instance)} is none of {allowed}"
        case "anyOf" | "oneOf" if all(error.kind.context):
            here = len(error.instance_path)
            firsts = [way[0] for way in error.kind.context]
            ways = [f"{path_text(one.instance_path[here:])} {unmet(one)}" for one in firsts]
            return "; and ".join(way.strip() for way in dict.fromkeys(ways))
    return str(error.message)


def brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
