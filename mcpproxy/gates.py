"""Whether one tool call may go out: the same questions in the same order for every way of calling.

Order: arguments, budget, allowed servers, (token's servers, token's permission, approval), whether
the tool is there and enabled, arguments against the tool's input schema. Concurrency limits come
after that, in the fleet. The first "no" is the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jsonschema_rs

from mcpproxy import names
from mcpproxy.catalog import Catalog, Server, Tool
from mcpproxy.errors import CallError


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
        raise CallError(
            "SERVER_NOT_ALLOWED",
            f"Server '{server}' is not in the allowed servers list "
            f"({', '.join(sorted(allowed))}); call one of those, or ask for it in options.allowed_servers",
        )


def find(catalog: Catalog, server: str, tool: str) -> Tool | None:
    """The tool, or None where its server is known but its tools aren't (yet).

    Raises `CallError` when there is no such server, or when the server's list lacks the tool.
    """
    known = catalog.servers.get(server)
    if known is None:
        raise CallError("SERVER_NOT_FOUND", no_server(server, catalog))
    found = known.tools.get(tool)
    if found is None and known.state == "ready":
        raise CallError("TOOL_NOT_FOUND", no_tool(known, tool))
    return found


def no_server(server: str, catalog: Catalog) -> str:
    """The sentence for a server that isn't there."""
    if not catalog.servers:
        return f"there is no server '{server}': no servers are configured"
    return (
        f"there is no server '{server}'{meant(server, catalog.servers)} "
        f"list_servers shows all {len(catalog.servers)}"
    )


def no_tool(server: Server, tool: str) -> str:
    """The sentence for a tool that its server doesn't have."""
    return (
        f"server '{server.name}' has no tool '{tool}'{meant(tool, server.tools)} "
        "search_tools finds tools by what they do"
    )


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that isn't there: the names it may have been, if any."""
    close = names.close(name, known)
    return f", did you mean {' or '.join(repr(each) for each in close)}?" if close else ";"


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Raises `CallError` INVALID_TOOL_ARGS that names each field at fault and what it should be.

    Source: JSON Schema 2020-12, or draft-07 where the schema says so. A schema that is itself
    broken checks nothing: its server will.
    """
    schema = tool.input_schema
    if not isinstance(schema, Mapping) or not schema:
        return
    validator = _validator(tool.fingerprint, schema)
    if validator is None:
        return
    faults = []
    for error in validator.iter_errors(arguments):
        faults.append(fault(error))
        if len(faults) == 3:
            break
    if faults:
        raise CallError(
            "INVALID_TOOL_ARGS",
            f"{tool.server}:{tool.name}: {'; '.join(faults)}. "
            f'describe_tool("{tool.server}:{tool.name}") shows its parameters',
        )


_validators: dict[str, Any] = {}
VALIDATORS = 4096


def _validator(fingerprint: str, schema: Mapping[str, Any]) -> Any:
    """The compiled schema, None for one that can't be compiled; kept by the tool's fingerprint."""
    if fingerprint not in _validators:
        if len(_validators) >= VALIDATORS:
            _validators.clear()
        try:
            _validators[fingerprint] = jsonschema_rs.validator_for(
                dict(schema), retriever=_stay_here
            )
        except (ValueError, TypeError, jsonschema_rs.ReferencingError):
            _validators[fingerprint] = None
    return _validators[fingerprint]


def _stay_here(uri: str) -> Any:
    raise ValueError(f"{uri} would have to be fetched")


def fault(error: Any, root: str = "args") -> str:
    """One violation: the path of the field and what the schema wants there."""
    path = root + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path
    )
    return f"{path}: {error.message[:300]}"
