"""What an agent can find out: which servers there are, which tools fit, and how to call them.

The same answers over MCP, inside scripts, over REST and on the command line: plain JSON data,
short, the same to the byte for the same catalog, and saying what was left out.
"""

from __future__ import annotations

import operator
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcpproxy.approvals import command, why_held
from mcpproxy.declarations import (
    DEPRECATED,
    call_line,
    declaration,
    listed,
    name_of,
    outline,
    outlined,
    parameters,
    returned,
    signature,
    summary,
    title_of,
)
from mcpproxy.names import LONGEST, ToolId, close, find_tool, sole_tool
from mcpproxy.policy import LOCAL, Caller
from mcpproxy.search.index import Entry, Index, Selection
from mcpproxy.typings import one_line

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog, Server, Tool
    from mcpproxy.codecache import Kept
    from mcpproxy.search.semantic import Meanings

LIMIT = 8
LIKELY = 3
"""Results that are told in full: what is looked for is among the first, nearly always."""

MOST = 50
"""Results of one search."""

MOST_SELECTIONS = 64
"""Views of the catalog for which it is kept what of the index they show."""

MOST_FUNCTIONS = 20
LONGEST_DESCRIPTION = 200
LONGEST_RESULT = 50
TOGETHER = 3
"""Functions that one usually asks for at once: who asks for one alone has the room of all."""

NAMES_BUDGET = 8000
"""Characters of tool names in `list_servers`."""

Json = dict[str, Any]


class Discovery:
    """Answers from the catalog of the moment, as the caller sees it. Safe to ask from any thread."""

    def __init__(
        self,
        catalog: Callable[[Caller], Catalog],
        kept: Callable[[str, Caller], Sequence[Kept]] = lambda query, caller: (),
        meanings: Callable[[], Meanings | None] = lambda: None,
    ) -> None:
        self._catalog = catalog
        self._kept = kept
        self._lock = threading.Lock()
        self._index = Index()
        self._open_meanings: Callable[[], Meanings | None] | None = meanings
        """Until the first search: opening them takes a moment."""
        self._meanings: Meanings | None = None
        self._indexed: dict[str, Mapping[str, Tool]] = {}
        """What the index has of each server."""
        self._selected: list[tuple[list[Mapping[str, Tool]], Selection]] = []
        """The last used last."""

    def search_tools(
        self, query: object, limit: object = None, server: object = None, caller: Caller = LOCAL
    ) -> Json:
        """The tools that fit a query, the best first, and how to go on.

        Raises `ValueError` that names the argument at fault.
        """
        if not isinstance(query, str):
            raise ValueError("query must be a string")
        most = whole(limit, "limit", MOST) if limit is not None else LIMIT
        if server is not None and not isinstance(server, str):
            raise ValueError("server must be a string")
        catalog = self._catalog(caller)
        if server is not None and server not in catalog.servers:
            raise ValueError(no_server(server, catalog))
        found = [known(name, catalog) for name in self._search(query, server, catalog)]
        answer: Json = {
            "tools": [hit(tool, place) for place, tool in enumerate(found[:most])],
            "more": max(len(found) - most, 0),
        }
        if server is None and (code := self._kept(query, caller)):
            answer["kept_code"] = [
                {
                    "kind": "code",
                    "cache_id": each.cache_id,
                    "description": each.description,
                    "params": list(each.input),
                }
                for each in code
            ]
        if not found:
            answer["hint"] = nothing_found(query, catalog)
        if away := unavailable(catalog, server):
            answer["not_searched"] = away
        return answer

    def describe_tool(self, name: object, caller: Caller = LOCAL, times: int = TOGETHER) -> Json:
        """What a tool takes and gives, in words that have so many times the usual room.

        Raises `ValueError`, and `LookupError` with names close to it.
        """
        if not isinstance(name, str):
            raise ValueError('name must be a string, "server:tool"')
        catalog = self._catalog(caller)
        found = sole_tool(name, catalog)
        if found is None:
            raise LookupError(no_tool(name, catalog))
        return described(known(str(found), catalog), times)

    def get_functions(self, functions: object, caller: Caller = LOCAL) -> Json:
        """The same for several; those that there aren't are in `not_found`. Raises `ValueError`."""
        if not isinstance(functions, list) or not 1 <= len(functions) <= MOST_FUNCTIONS:
            raise ValueError(f"functions must be an array of 1 to {MOST_FUNCTIONS} elements")
        # Everything is checked before anything is answered.
        names = [function_name(one, at) for at, one in enumerate(functions)]
        found, missing = [], []
        times = max(TOGETHER // len(set(names)), 1)
        for name in dict.fromkeys(names):
            try:
                found.append(self.describe_tool(name, caller, times))
            except LookupError as error:
                missing.append({"name": name[:LONGEST], "error": str(error.args[0])})
        return {"functions": found, **({"not_found": missing} if missing else {})}

    def list_servers(self, caller: Caller = LOCAL) -> Json:
        """All servers that the caller sees, with as many names of their tools as there is room for."""
        budget = NAMES_BUDGET
        servers = []
        for server in self._catalog(caller).servers.values():
            names = list(server.tools)
            shown = fitting(names, budget)
            budget -= sum(len(name) + 3 for name in names[:shown])
            servers.append(overview(server, names, shown))
        return {"servers": servers}

    def _search(self, query: str, server: str | None, catalog: Catalog) -> list[str]:
        with self._lock:
            # Within the lock: an older snapshot must not take the place of a newer one.
            self._refresh(self._catalog(LOCAL))
            likeness = self._meanings.likeness(query) if self._meanings is not None else None
            return self._index.search(query, server, self._selection(catalog), likeness)

    def _refresh(self, whole: Catalog) -> None:
        """Bring the index up to date: only what changed is indexed again, server by server."""
        if self._open_meanings is not None:
            self._meanings, self._open_meanings = self._open_meanings(), None
        # A new snapshot may only say that a server is down: its mapping of tools is the same.
        tools = {server.name: server.tools for server in whole.servers.values()}
        for name in dict.fromkeys([*self._indexed, *tools]):
            if self._indexed.get(name) is not tools.get(name):
                entries = [entry(tool) for tool in tools.get(name, {}).values()]
                self._index.replace(name, entries)
                if self._meanings is not None:
                    self._meanings.replace(name, entries)
                self._selected.clear()
        self._indexed = tools

    def _selection(self, catalog: Catalog) -> Selection:
        """What of the index this catalog shows: what is hidden must not even weigh in the ranking."""
        tools = [server.tools for server in catalog.servers.values()]
        found = next((each for each in self._selected if same(each[0], tools)), None)
        if found is None:
            every = same(tools, list(self._indexed.values()))
            found = tools, self._index.select(None if every else map(id_of, catalog.tools()))
        else:
            self._selected.remove(found)
        self._selected = [*self._selected, found][-MOST_SELECTIONS:]
        return found[1]


def same(before: Sequence[object], after: Sequence[object]) -> bool:
    return len(before) == len(after) and all(map(operator.is_, before, after))


# ── searching ───────────────────────────────────────────────────────────────────────────────────


SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


def id_of(tool: Tool) -> str:
    return str(ToolId(tool.server, name_of(tool)))


def entry(tool: Tool) -> Entry:
    """A tool as the search index has it."""
    schema = tool.definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    properties = properties if isinstance(properties, Mapping) else {}
    notes = [
        str(one.get("description") or "")[:300]
        for one in properties.values()
        if isinstance(one, Mapping)
    ]
    described = tool.definition.get("description")
    text = described[:1500].strip() if isinstance(described, str) else ""
    lead, *rest = SENTENCE.split(text, maxsplit=1)
    return Entry(
        id=id_of(tool),
        name=name_of(tool),
        group=tool.server,
        title=title_of(tool),
        lead=lead,
        text=" ".join(rest),
        parameters=" ".join(map(str, properties)),
        details=" ".join(notes)[:4000],
        outdated=DEPRECATED.search(text) is not None,
    )


def hit(tool: Tool, place: int) -> Json:
    return {
        "name": str(ToolId(tool.server, name_of(tool))),
        "description": summary(tool),
        "signature": signature(tool, short=place >= LIKELY),
    }


def nothing_found(query: str, catalog: Catalog) -> str:
    if not query.strip():
        return "query is empty: say in a few words what the tool does, or see list_servers for what there is"
    near = near_names(query, catalog)
    if near:
        return f"nothing has these words; near in spelling: {', '.join(near)}"
    return "nothing has these words; try others, or list_servers to see what there is"


def unavailable(catalog: Catalog, server: str | None) -> list[str]:
    """The servers that were not asked because their tools are not known, and why."""
    return [
        f"{one.name} ({one.state})"
        for one in catalog.servers.values()
        if not one.tools and one.state not in ("ready", "disabled") and server in (None, one.name)
    ]


# ── one tool ────────────────────────────────────────────────────────────────────────────────────


def described(tool: Tool, times: int) -> Json:
    """A tool as a program needs to know it."""
    result = returned(tool)
    text, all_of_it = (declaration(tool), True) if times > 1 else outline(tool)
    every = parameters(tool)
    shown = listed(every, times)
    answer: Json = {
        "name": str(ToolId(tool.server, name_of(tool))),
        "description": one_line(tool.definition.get("description"), LONGEST_DESCRIPTION * times),
        "declaration": text,
        "call": call_line(tool),
        "parameters": shown,
        "returns": "not declared" if result is None else outlined(result, LONGEST_RESULT),
    }
    if not all_of_it or len(shown) < len(every):
        answer["shortened"] = True
    if hints := telling(tool.definition.get("annotations")):
        answer["annotations"] = hints
    return answer


def telling(annotations: object) -> Json:
    """Annotations without the title, and without what goes without saying (MCP, ToolAnnotations)."""
    if not isinstance(annotations, Mapping):
        return {}
    return {
        name: value
        for name, value in annotations.items()
        if name != "title" and (name not in USUAL or value is not USUAL[name])
    }


USUAL = {"readOnlyHint": False, "idempotentHint": False, "openWorldHint": True}


def function_name(function: object, at: int) -> str:
    """The tool that an element of `functions` means, as "server:tool". Raises `ValueError`."""
    match function:
        case str(name) | {"name": str(name)}:
            return name
        case {"server_name": str(server), "function_name": str(tool)}:
            return str(ToolId(server, tool))
        case {"server": str(server), "tool": str(tool)}:
            return str(ToolId(server, tool))
    raise ValueError(
        f'functions: element {at} must be "server:tool" or {{server_name, function_name}}'
    )


def known(name: str, catalog: Catalog) -> Tool:
    """The tool of a name that was looked up in the same catalog."""
    server, _, tool = name.partition(":")
    found = catalog.tool(server, tool)
    if found is None:
        # Server names with a colon: the slow way.
        at = find_tool(name, catalog)
        found = catalog.tool(at.server, at.tool) if at else None
    assert found is not None, name
    return found


def near_names(name: str, catalog: Catalog) -> list[str]:
    every = [ToolId(tool.server, name_of(tool)) for tool in catalog.tools()]
    same = [str(one) for one in every if one.tool == name.partition(":")[2] or one.tool == name]
    bare: dict[str, list[str]] = {}
    for one in every:
        bare.setdefault(one.tool, []).append(str(one))
    near = [full for tool in close(name, bare) for full in bare[tool]]
    return list(dict.fromkeys([*same, *close(name, map(str, every)), *near]))[:3]


def no_tool(name: str, catalog: Catalog) -> str:
    """Why a tool isn't there, and what to do: its server, or names close to it."""
    server, _, tool = name.partition(":")
    if (known := catalog.servers.get(server)) is not None:
        if known.state in ("quarantined", "blocked"):
            return f"server '{server}' is {known.state}: {known.error}"
        if tool in known.held:
            return why_held(known.held[tool])
        if not known.tools and known.error:
            return f"the tools of server '{server}' are not known now, it is {known.state}: {known.error}"
    near = near_names(name, catalog)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; find tools with search_tools"
    return f'there is no tool "{name[:LONGEST]}"{hint}'


def no_server(name: str, catalog: Catalog) -> str:
    near = close(name, catalog.servers) or list(catalog.servers)[:10]
    return f'there is no server "{name[:LONGEST]}"; there is {", ".join(near) or "none at all"}'


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


def overview(server: Server, names: list[str], shown: int) -> Json:
    """A server and the first `shown` names of its tools."""
    answer: Json = {
        "name": server.name,
        "summary": about(server),
        "state": server.state,
        "tools": len(names),
    }
    if server.error:
        answer["error"] = one_line(server.error, 300)
    if waiting := server.waiting:
        answer["waiting_for_approval"] = waiting
        answer["operator_command"] = command("inspect", server.name)
    if names:
        answer["names"] = names[:shown]
        complete = shown == len(names)
        answer["listed"] = "COMPLETE" if complete else f"PARTIAL: {shown} of {len(names)}"
    return answer


def about(server: Server) -> str:
    """What the server says of itself, or else what its tools do."""
    if said := one_line(server.instructions, 160):
        return said
    some = [summary(tool, 60) for tool in list(server.tools.values())[:3]]
    return one_line("; ".join(text for text in some if text), 160)


def fitting(names: list[str], budget: int) -> int:
    """How many of the names fit."""
    for count, name in enumerate(names):
        budget -= len(name) + 3
        if budget < 0:
            return count
    return len(names)


def whole(value: object, name: str, most: int) -> int:
    """An integer from 1 to `most`. Raises `ValueError`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of number
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{name} must be an integer from 1 to {most}")
    return value
