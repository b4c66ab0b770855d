"""What a variable of a program holds, as far as the program's text shows: what a tool gives, or an envelope.

Asked where a variable was taken for something that it is not. Patterns take time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcpproxy import names
from mcpproxy.catalog import Catalog, Tool
from mcpproxy.declarations import access, returned
from mcpproxy.typings import one_line

MISTAKEN = re.compile(
    r"^TypeError: ([\w$]+)(?:\.[\w$]+|(?:\.[\w$]+)*\.(?:map|filter|forEach|find|reduce|some|split|slice)) is not a function$"
    r"|^TypeError: ([\w$]+)(?:\.[\w$]+)* is not iterable"
    r"|\(([\w$]+)(?:\??\.[\w$]+|\[[^\]\s]{1,50}\])* is undefined\)$"
)
"""A variable whose value is of another kind than the program takes it for."""

TOOL = r"tools((?:\??\.[\w$]+|(?:\?\.)?\[ *['\"][^'\"\]\n]{1,256}['\"] *\]){2})"
GOT = re.compile(
    r"(?<![\w$.])(?:([\w$]+)|\{([^{}=]{0,200})\}) *= *(?:await )?"
    rf"(?:{TOOL}|(search_tools|call_tools?))\("
)
"""Where a variable, or those that are taken apart, get what a tool, a search or a batch gives."""

INLINE = re.compile(
    rf"TypeError: (?:cannot (?:read|destructure) .{{0,200}}?)?\(?await {TOOL}\(", re.DOTALL
)
"""A call that was itself taken for what it doesn't give."""

EACH = "map|filter|forEach|flatMap|find|some|every|reduce"
PARSED = re.compile(rf"JSON\.parse\(\s*(?:\(?await {TOOL}\(|([\w$]+)(?:\.[\w$]+)*\s*\))?")
RETURNED = re.compile(r"(?:\breturn |^)([\w$]+)\??[.\[][^;\n]{1,200};?\s*\Z", re.MULTILINE)
LONGEST_RESULT = 200

ENVELOPE = (
    "call_tool gives {ok: true, result} or {ok: false, error}: read the data's members from result itself, a text from "
    "result.content[0].text; "
    "await tools.<server>.<tool>({...}) gives the tool's data itself"
)
ENVELOPES = (
    "call_tools gives an array, for each request {ok: true, result} or {ok: false, error}, in order"
)


@dataclass(frozen=True, slots=True)
class Contents:
    """The variables of one program."""

    source: str
    catalog: Catalog
    gave: Mapping[Any, Any]
    """What tools gave, in a few words each, by "server:tool"; told by whoever ran the program."""

    def mistaken(self, message: str) -> str | None:
        """What the variable got that an error is about, where that can be told."""
        if (inline := INLINE.match(message)) is not None:
            return self._from(inline[1])
        found = MISTAKEN.search(message)
        return None if found is None else self._given(found[found.lastindex or 0])

    def returned(self) -> str | None:
        """What the variable got of which a member is what the program returns last."""
        found = RETURNED.search(self.source)
        return None if found is None else self._given(found[1])

    def typed(self, variable: str) -> bool:
        """Whether the variable got what a tool gives, without an envelope around it."""
        return any(
            found[3] and (variable == found[1] or variable in re.findall(r"[\w$]+", found[2] or ""))
            for found in GOT.finditer(self.source)
        )

    def parsed(self) -> str | None:
        """What a tool gave whose data the one JSON.parse of a program was given."""
        found = list(PARSED.finditer(self.source))
        if len(found) != 1:
            return None
        path, variable = found[0].groups()
        if variable:
            return self._given(variable)
        return None if path is None else self._from(path)

    def _made(self, variable: str) -> str | None:
        """What those got of which a variable was made, or whose elements it stands for."""
        name = re.escape(variable)
        made = re.search(
            rf"\b(?:const|let|var) +{name} *= *([^;\n]{{1,200}})"
            rf"|\bfor \((?:const|let|var) {name} of ([^)\n]{{1,200}})\)"
            rf"|(?<![\w$.])([\w$.]{{1,200}})\.(?:{EACH})\((?:async )?\(?{name}\b",
            self.source,
        )
        text = next(filter(None, made.groups()), "") if made else ""
        words = list(dict.fromkeys(re.findall(r"(?<![.\w$])[A-Za-z_$][\w$]*", text)))
        return next(filter(None, (self._given(word, again=False) for word in words[:8])), None)

    def _given(self, variable: str, again: bool = True) -> str | None:
        """What a variable got, where that is what a tool, a search or a batch gives."""
        for found in GOT.finditer(self.source):
            whole, parts, path, function = found.groups()
            if variable == whole or variable in re.findall(r"[\w$]+", parts or ""):
                break
        else:
            return self._made(variable) if again else None
        match function:
            case "search_tools":
                array = "tools" if parts else f"{variable}.tools"
                return f"search_tools gives {{tools, more}}: the array is {array}"
            case "call_tools":
                return ENVELOPES
            case "call_tool":
                return ENVELOPE
        return self._from(path)

    def _from(self, path: str) -> str | None:
        """What the tool gives that two members of `tools` stand for: by its schema, or as it came."""
        if (tool := self._tool(path)) is None:
            return None
        if (result := returned(tool)) is not None:
            return (
                f"{access(tool)} gives {result if len(result) <= LONGEST_RESULT else members(tool)}"
            )
        if isinstance(shape := self.gave.get(f"{tool.server}:{tool.name}"), str):
            return f"{access(tool)} gave {one_line(shape, LONGEST_RESULT)}"
        return None

    def _tool(self, path: str) -> Tool | None:
        server_name, tool_name = (one or other for one, other in names.STEP.findall(path))
        servers = self.catalog.servers
        server = servers.get(names.understood(server_name, servers))
        if server is None:
            return None
        return server.tools.get(names.understood(tool_name, server.tools, server.name))


def members(tool: Tool) -> str:
    """What the object has that a tool gives, by name."""
    schema = tool.output_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    known = ", ".join(map(str, properties)) if isinstance(properties, Mapping) else ""
    return f"an object with {one_line(known, LONGEST_RESULT)}" if known else "an object"
