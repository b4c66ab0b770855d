"""Which functions a chat completion is offered, and what each of them calls.

Pure: from what a daemon says of its servers and tools to function tools as OpenAI-compatible chat
completions take them, and from results to the text that goes back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Required, TypedDict

Json = dict[str, Any]
Kind = Literal["tool", "resource", "own"]

LONGEST_NAME = 64
"""Characters of a function's name, of [A-Za-z0-9_-]. Source: FunctionObject of OpenAI's API description."""
READ_RESOURCE = "read_resource"
MOST_RESOURCES = 20
"""Resources that the function which reads them names."""
URI = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "The URI of the resource"}},
    "required": ["uri"],
}
AWAY: Mapping[str, str] = {
    "connecting": "it hasn't answered yet; load() again in a moment",
    "lazy": "it connects at its first use, and its tools aren't known before",
    "quarantined": "it waits for approval; an operator decides with: mcpproxy upstream inspect {name}",
    "blocked": "an operator has blocked it",
}
"""Why a server in this state has no tools, where it gives no error of its own."""


class FunctionDefinition(TypedDict, total=False):
    """As in OpenAI's API, member for member, so that its client's types take it."""

    name: Required[str]
    description: str
    parameters: dict[str, object]
    strict: bool | None


class FunctionTool(TypedDict):
    """One of `tools` of a chat completion. Source: ChatCompletionTool of OpenAI's API description."""

    type: Literal["function"]
    function: FunctionDefinition


@dataclass(frozen=True, slots=True)
class MCPClient:
    """One MCP server whose tools are offered."""

    id: int
    """Its place among the daemon's servers, from 1. The daemon itself is 0."""
    name: str
    instructions: str | None = None


PROXY = MCPClient(0, "mcpproxy")
"""What the functions of `mode="code"` belong to."""


@dataclass(frozen=True, slots=True)
class MCPFunction:
    """A function that the model is offered, and what it calls."""

    name: str
    mcpclient: MCPClient
    kind: Kind
    """A tool of the server, reading one of its resources, or a tool of the daemon's own."""
    tool_name: str | None = None


@dataclass
class Functions:
    """What one load found."""

    tools: list[FunctionTool] = field(default_factory=list)
    functions: dict[str, MCPFunction] = field(default_factory=dict)
    instructions: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    connected: list[MCPClient] = field(default_factory=list)

    def function_name(self, mcpclient: MCPClient, name: str, kind: Kind = "tool") -> str:
        """The name under which a tool of a server is, or would be, offered."""
        tool_name = name if kind == "tool" else None
        for candidate in candidates(f"mcp{mcpclient.id}_{safe(name)}", name):
            wanted = MCPFunction(candidate, mcpclient, kind, tool_name)
            if self.functions.get(candidate, wanted) == wanted:
                return candidate
        raise AssertionError("a digest has no end of prefixes")

    def add_function(self, function: MCPFunction, description: str, parameters: Any) -> None:
        """Offer a function, and remember what it calls."""
        self.functions[function.name] = function
        self.tools.append(
            {
                "type": "function",
                "function": {
                    "name": function.name,
                    "description": description,
                    "parameters": object_schema(parameters),
                },
            }
        )

    def add_server(self, mcpclient: MCPClient, listed: list[Json], resources: Json) -> None:
        """Offer what a server has."""
        if mcpclient.instructions:
            self.instructions[mcpclient.name] = mcpclient.instructions
        for tool in listed:
            if tool["server"] == mcpclient.name:
                self.add_tool(mcpclient, tool)
        self.add_resources(mcpclient, resources)

    def add_tool(self, mcpclient: MCPClient, tool: Json) -> None:
        name = tool["name"]
        function = MCPFunction(self.function_name(mcpclient, name), mcpclient, "tool", name)
        said = tool.get("description") or tool.get("title")
        self.add_function(function, said if isinstance(said, str) else "", tool.get("inputSchema"))

    def add_resources(self, mcpclient: MCPClient, listed: Json) -> None:
        """A function that reads the server's resources, if it has any."""
        shown = [
            *known(listed, "resources", "uri"),
            *known(listed, "resourceTemplates", "uriTemplate"),
        ]
        if not shown:
            return
        name = self.function_name(mcpclient, READ_RESOURCE, "resource")
        more = len(shown) - MOST_RESOURCES
        lines = [*shown[:MOST_RESOURCES], *([f"and {more} more"] if more > 0 else [])]
        description = f"Read a resource of the server {mcpclient.name}. It has:\n" + "\n".join(
            lines
        )
        self.add_function(MCPFunction(name, mcpclient, "resource"), description, URI)

    def system_prompt(self) -> str | None:
        """The servers' instructions; None if no server has any."""
        numbers = {each.name: each.id for each in (*self.connected, PROXY)}
        parts = [
            f"Instructions of the server {name} (functions mcp{numbers[name]}_*):\n{text}"
            if numbers[name]
            else text
            for name, text in self.instructions.items()
        ]
        return "\n\n".join(parts) or None


def known(listed: Json, member: str, key: str) -> Iterator[str]:
    """A line for each resource, or template of resources, of a list."""
    entries = listed.get(member)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get(key), str):
            said = entry.get("description") or entry.get("title") or entry.get("name")
            yield (
                f"{entry[key]}: {' '.join(said.split())[:120]}"
                if isinstance(said, str)
                else entry[key]
            )


# ── names and schemas ───────────────────────────────────────────────────────────────────────────


def safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def candidates(name: str, own: str) -> Iterator[str]:
    """The name, if it isn't too long; then it with more and more of a hash of the tool's own name."""
    if len(name) <= LONGEST_NAME:
        yield name
    digest = hashlib.sha256(own.encode("utf-8", "surrogatepass")).hexdigest()
    for length in range(8, LONGEST_NAME - 16, 8):
        yield f"{name[: LONGEST_NAME - length - 1]}_{digest[:length]}"


def object_schema(schema: Any) -> Json:
    """The arguments' schema; an object's has `properties`, which some services insist on."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return {"type": "object", "properties": {}}
    return {"type": "object", "properties": {}, **schema}


# ── a load ──────────────────────────────────────────────────────────────────────────────────────


def clients(servers: list[Json], wanted: tuple[str, ...] | None) -> list[tuple[MCPClient, Json]]:
    """The servers that are meant, in the order that was asked for; those that are off aren't."""
    every = {
        each["name"]: (MCPClient(n, each["name"], each.get("instructions")), each)
        for n, each in enumerate(servers, 1)
        if each["state"] != "disabled"
    }
    names = every if wanted is None else wanted
    return [every[name] for name in names if name in every]


def why_away(name: str, server: Json, *, listed: bool) -> str | None:
    """Why a server has nothing to offer now; None when it has.

    Where its tools needn't be `listed`, one that isn't connected yet has: a program waits for it.
    """
    state = server["state"]
    soon = state in ("lazy", "connecting") and not listed
    if state == "ready" or soon or (state == "lazy" and server["tools"]):
        return None
    return server.get("error") or AWAY.get(state, f"it is {state}").format(name=name)


# ── texts ───────────────────────────────────────────────────────────────────────────────────────


def result_text(result: Json) -> str:
    """A tool's result as text: its blocks one after the other, or else its structured content."""
    content = result.get("content")
    texts = [block_text(block) for block in content] if isinstance(content, list) else []
    if not texts and "structuredContent" in result:
        texts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    return "\n".join(texts)


def contents_text(contents: Any) -> str:
    """What was read of a resource, as text."""
    return "\n".join(inside_text(each) for each in contents if isinstance(each, dict))


def block_text(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": dict(inside)}:
            return inside_text(inside)
        case {"type": "resource_link", "uri": str(uri)}:
            return f"[resource {uri}]"
        case {"type": str(kind), "data": str(data)}:
            return f"[{kind} {block.get('mimeType', '')}, {size(data)} bytes, not shown]"
    return json.dumps(block, ensure_ascii=False)


def inside_text(resource: Json) -> str:
    match resource:
        case {"text": str(text)}:
            return text
        case {"blob": str(data)}:
            kind = resource.get("mimeType", "")
            return f"[{resource.get('uri', '')} {kind}, {size(data)} bytes, not shown]"
    return json.dumps(resource, ensure_ascii=False)


def size(data: str) -> int:
    """Bytes behind base64."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def error(message: str) -> str:
    """A failure, such that the model can tell it from a result."""
    return f"Error: {message}"
