"""The whole catalog as one file of ambient declarations, so that editors complete in stored scripts.

What a script sees besides the tools is `globals.d.ts` beside this module. Each server has a
namespace of its own, so that no schema's type meets another's or one of the language. The text is
the same to the byte for the same catalog.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any

from mcpproxy import __version__
from mcpproxy.catalog import Catalog, Server, Tool
from mcpproxy.declarations import LONGEST_NOTE, shape, title_of
from mcpproxy.names import spelled, spellings
from mcpproxy.typings import alias, key, one_line

LONGEST_DESCRIPTION = 700
LONGEST_SUMMARY = 200
HEAD = """\
// What scripts of mcpproxy {version} can use, for editors. Made by: mcpproxy tools types
// It changes with the tools: make it anew rather than editing it.
"""


def ambient(catalog: Catalog) -> str:
    """TypeScript that declares the globals and every tool of the catalog."""
    fixed = resources.files("mcpproxy").joinpath("globals.d.ts").read_text(encoding="utf-8")
    names = namespaces(catalog.servers)
    servers = [
        line
        for name, server in catalog.servers.items()
        for line in members(
            name, catalog.servers, about(server), f": {names[name]}.Tools;", "Servers"
        )
    ]
    spaces = [
        line
        for server in catalog.servers.values()
        for line in ["", *namespace(names[server.name], server)]
    ]
    lines = [
        "declare namespace Mcp {",
        *indented(["interface Servers {", *indented(servers), "}", *spaces]),
        "}",
        "",
        "declare const tools: Mcp.Servers;",
    ]
    return HEAD.format(version=__version__) + "\n" + fixed + "\n" + "\n".join(lines) + "\n"


def namespaces(servers: Iterable[str]) -> dict[str, str]:
    """A name for the namespace of each server."""
    found: dict[str, str] = {}
    taken = {"Servers", "Envelope", "Failure", "Result"}
    for server in servers:
        base = name = alias(server)
        n = 2
        while name in taken:
            name, n = f"{base}{n}", n + 1
        taken.add(name)
        found[server] = name
    return found


def about(server: Server) -> str:
    if server.unknown or (not server.tools and server.state == "down"):
        return "Its tools are not known yet."
    return one_line(server.instructions, LONGEST_SUMMARY)


def namespace(name: str, server: Server) -> Iterator[str]:
    """The lines that declare one server's tools and their types."""
    taken = {"Tools"}
    types: list[str] = []
    tools: list[str] = []
    for tool in server.tools.values():
        found = shape(tool, taken, note)
        types += [f"type {each} = {body};" for each, body in found.types.items()]
        gives = "any" if found.result in (None, "unknown") else found.result
        written = f"({found.args}): Promise<{gives}>;"
        tools += members(tool.name, server.tools, described(tool), written, "Tools")
    yield f"namespace {name} {{"
    yield from indented([*types, "interface Tools {", *indented(tools), "}"])
    yield "}"


def members(
    name: str, siblings: Mapping[str, Any], doc: str, rest: str, interface: str
) -> Iterator[str]:
    """A member under its identifier, and in brackets where that is another spelling."""
    identifier = spelled(name)
    if identifier == name:
        yield from documented(doc, key(name) + rest)
    elif spellings(siblings).get(identifier) == name:
        yield from documented(doc, key(identifier) + rest)
        yield from documented(
            f"The same as `{identifier}`.", f"{key(name)}: {interface}[{json.dumps(identifier)}];"
        )
    else:
        why = f"In brackets only: another one would be spelled `{identifier}`, too."
        yield from documented(f"{why}\n{doc}", key(name) + rest)


def described(tool: Tool) -> str:
    text = one_line(tool.description, LONGEST_DESCRIPTION) or one_line(title_of(tool), 200)
    if tool.output_schema is None:
        return f"{text}\n@returns not declared: look at one result first".strip()
    return text


def documented(doc: str, line: str) -> Iterator[str]:
    """A line below its comment, if it has one."""
    lines = doc.splitlines()
    if len(lines) == 1:
        yield f"/** {lines[0]} */"
    elif lines:
        yield "/**"
        yield from (f" * {each}" for each in lines)
        yield " */"
    yield line


def note(schema: Mapping[str, Any]) -> str:
    """What a comment says of a member: its description, form and default."""
    text = one_line(schema.get("description"), LONGEST_NOTE)
    if form := one_line(schema.get("format"), 30):
        text = f"{text} ({form})" if text else form
    if "default" in schema:
        text += f" @default {one_line(json.dumps(schema['default'], default=str), 60)}"
    return f"/** {text.strip()} */ " if text.strip() else ""


def indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
