"""What a variable of a program holds, as far as the program's text shows: what a tool gives, or an envelope.

Asked where a variable was taken for something that it is not. Patterns take time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mcpproxy import names
from mcpproxy.catalog import Catalog, Tool
from mcpproxy.declarations import access, returned
from mcpproxy.typings import one_line

MISTAKEN = re.compile(
    r"^TypeError: ([\w$]+)(?:\.[\w$]+|(?:\.[\w$]+)*\.(?:map|filter|forEach|find|reduce|some|split|slice)) is not a function$"
    r"|^TypeError: ([\w$]+)(?:\.[\w$]+)* is not iterable"
    r"|\(([\w$]+)(?:\.[\w$]+)* is undefined\)$"
)
"""A variable whose value is of another kind than the program takes it for."""

TOOL = r"tools((?:\??\.[\w$]+|(?:\?\.)?\[ *['\"][^'\"\]\n]{1,256}['\"] *\]){2})"
STEP = re.compile(r"\.([\w$]+)|\[ *['\"]([^'\"\]\n]+)['\"] *\]")
GOT = re.compile(
    r"(?<![\w$.])(?:([\w$]+)|\{([^{}=]{0,200})\}) *= *(?:await )?"
    rf"(?:{TOOL}|(search_tools|call_tools?))\("
)
"""Where a variable, or those that are taken apart, get what a tool, a search or a batch gives."""

PARSED = re.compile(rf"JSON\.parse\(\s*(?:\(?await {TOOL}\(|([\w$]+)\s*\))?")
RETURNED = re.compile(r"(?:\breturn |^)([\w$]+)\??[.\[][^;\n]{1,200};?\s*\Z", re.MULTILINE)
LONGEST_RESULT = 200

ENVELOPE = (
    "call_tool gives {ok: true, result} or {ok: false, error}, a text is in result.content[0].text; "
    "await tools.<server>.<tool>({...}) gives the tool's data itself"
)
ENVELOPES = (
    "call_tools gives an array, for each request {ok: true, result} or {ok: false, error}, in order"
)


def mistaken(message: str, source: str, catalog: Catalog) -> str | None:
    """What the variable got that an error is about, where that can be told."""
    found = MISTAKEN.search(message)
    return None if found is None else given(found[found.lastindex or 0], source, catalog)


def returned_from(source: str, catalog: Catalog) -> str | None:
    """What the variable got of which a member is what the program returns last."""
    found = RETURNED.search(source)
    return None if found is None else given(found[1], source, catalog)


def parsed(source: str, catalog: Catalog) -> str | None:
    """What a tool gives whose data the one JSON.parse of a program was given."""
    found = list(PARSED.finditer(source))
    if len(found) != 1:
        return None
    path, variable = found[0].groups()
    if variable:
        return given(variable, source, catalog)
    tool = None if path is None else called(path, catalog)
    return None if tool is None else gives(tool)


def given(variable: str, source: str, catalog: Catalog) -> str | None:
    """What a variable got, where that is what a tool, a search or a batch gives."""
    for found in GOT.finditer(source):
        whole, parts, path, function = found.groups()
        if variable == whole or variable in re.findall(r"[\w$]+", parts or ""):
            break
    else:
        return None
    match function:
        case "search_tools":
            array = "tools" if parts else f"{variable}.tools"
            return f"search_tools gives {{tools, more}}: the array is {array}"
        case "call_tools":
            return ENVELOPES
        case "call_tool":
            return ENVELOPE
    tool = called(path, catalog)
    return None if tool is None else gives(tool, whole or "all of it")


def called(path: str, catalog: Catalog) -> Tool | None:
    """The tool that two members of `tools` stand for."""
    server_name, tool_name = (dotted or bracketed for dotted, bracketed in STEP.findall(path))
    server = catalog.servers.get(names.understood(server_name, catalog.servers))
    if server is None:
        return None
    return server.tools.get(names.understood(tool_name, server.tools, server.name))


def members(tool: Tool) -> str:
    """What the object has that a tool gives, by name."""
    schema = tool.output_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    known = ", ".join(map(str, properties)) if isinstance(properties, Mapping) else ""
    return f"an object with {one_line(known, LONGEST_RESULT)}" if known else "an object"


def gives(tool: Tool, shown: str = "") -> str | None:
    """What a tool says that it gives; where it doesn't, how to see it."""
    result = returned(tool)
    if result is not None:
        return f"{access(tool)} gives {result if len(result) <= LONGEST_RESULT else members(tool)}"
    if not shown:
        return None
    return (
        f"{access(tool)} doesn't say what it gives, which often is a text: return {shown} to see it"
    )
