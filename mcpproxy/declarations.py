"""One tool as TypeScript: what to write to call it, and what comes back.

Takes a tool as it was listed on the wire; whatever is wrong with it, there is an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcpproxy.names import spelled
from mcpproxy.typings import (
    ANYTHING,
    DEEPEST,
    RESERVED,
    Types,
    branches,
    key,
    one_line,
    quoted,
    required_names,
)

LONGEST_SIGNATURE = 90
LONGEST_RETURN = 200
LONGEST_TYPE = 50
LONGEST_NOTE = 120
"""Characters of a parameter's description, where there is room."""

SHORT_SIGNATURE = 30
SHORT_RETURN = 60
"""The same of a tool that is less likely meant."""

REPEATED_TYPE = 24
"""Characters of a type that the declaration has, too."""

LONGEST_DECLARATION = 500
"""Characters of one of several declarations; alone each is whole."""

MOST_MEMBERS = 10
"""Of an object in a result, where there is no room for all."""

DEPTHS = (DEEPEST, 4, 3, 2, 1, 0)
"""How deep a declaration goes: as deep as there is room for."""

NOTES = 160
"""Characters of all parameters' descriptions together, for a model: those of required ones come first."""

LONGEST_SAMPLE = 60
DEEPEST_SAMPLE = 4
MOST_SAMPLES = 60
"""Objects and arrays in one line that calls a tool; the others are empty."""

SHORT_NOTE = 70
SHORTEST_NOTE = 30

DEPRECATED = re.compile(r"\bDEPRECATED\b|\b(?:[Ii]s|[Tt]ool|[Nn]ow) deprecated\b|^Deprecated\b")
OUTDATED = " (deprecated)"


class Described(Protocol):
    """What is read of a tool in the catalog."""

    @property
    def server(self) -> str: ...
    @property
    def definition(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool, and the type that its schema comes to."""

    name: str
    type: str
    required: bool
    schema: Any

    @property
    def written(self) -> str:
        type = outlined(self.type, LONGEST_TYPE)
        return f"{key(self.name)}{'' if self.required else '?'}: {type}"

    def described(self, longest: int) -> dict[str, Any]:
        """As JSON data; what is not known is left out, and of its description what is longer."""
        found: dict[str, Any] = {
            "name": self.name,
            "type": outlined(self.type, REPEATED_TYPE),
            "required": self.required,
        }
        if isinstance(self.schema, Mapping) and "default" in self.schema:
            found["default"] = self.schema["default"]
        if note := self.note(longest):
            found["description"] = note
        return found

    def note(self, longest: int) -> str:
        """What its schema says of it, in so many characters at most."""
        if not isinstance(self.schema, Mapping) or not longest:
            return ""
        note = one_line(self.schema.get("description"), longest)
        if form := one_line(self.schema.get("format"), 30):
            return f"{note} ({form})" if note else form
        return note


def outlined(type: str, longest: int) -> str:
    """A type without its insides where it is long; it stands whole in the declaration."""
    if len(type) <= longest:
        return type
    if type.endswith("[]"):
        return "object[]" if type.startswith(("{", "({")) else "unknown[]"
    return "string" if type.startswith('"') else "object" if type.startswith("{") else "unknown"


def name_of(tool: Described) -> str:
    return str(tool.definition.get("name"))


def title_of(tool: Described) -> str:
    annotations = tool.definition.get("annotations")
    hinted = annotations.get("title") if isinstance(annotations, Mapping) else None
    title = tool.definition.get("title") or hinted
    return title if isinstance(title, str) else ""


def summary(tool: Described, longest: int = 80) -> str:
    """One line on what the tool does: the first sentence of its description, or its title.

    That another tool is to be used instead is often said in a later one.
    """
    text = one_line(tool.definition.get("description"), 1000) or one_line(title_of(tool), longest)
    sentence, stop, rest = text.partition(". ")
    if stop and len(sentence) >= 15:
        text = sentence
        if DEPRECATED.search(rest):
            return f"{one_line(text, longest - len(OUTDATED)).removesuffix('.')}{OUTDATED}"
    return one_line(text, longest).removesuffix(".")


def access(tool: Described) -> str:
    """The expression for the tool in a script."""
    return "tools" + member(tool.server) + member(name_of(tool))


def member(name: str) -> str:
    return f".{name}" if name and spelled(name) == name else f"[{quoted(name)}]"


def arguments(tool: Described) -> Mapping[str, Any]:
    """The schema of the tool's arguments itself, where it is only referred to."""
    root = tool.definition.get("inputSchema")
    schema = Types(root).target() if isinstance(root, Mapping) else None
    return schema if isinstance(schema, Mapping) else {}


def parameters(tool: Described) -> list[Parameter]:
    """What a tool takes, in the order of its schema."""
    schema = arguments(tool)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = required_names(schema)
    types = Types(tool.definition.get("inputSchema"), brief=True)
    return [
        Parameter(str(name), types.of(one), str(name) in required, one)
        for name, one in properties.items()
    ]


def listed(found: Sequence[Parameter], times: int = 1) -> list[dict[str, Any]]:
    """Parameters as JSON data, described as far as there is room: so many times the usual.

    Without more room than usual, optional ones without a description are left out: the declaration has
    their names and types.
    """
    room, short = NOTES * times, SHORT_NOTE * times
    longest = dict.fromkeys((each.name for each in found), 0)
    for parameter in sorted(found, key=lambda each: not each.required):
        if room >= SHORTEST_NOTE:
            longest[parameter.name] = min(short, room)
            room -= len(parameter.note(short))
    every = [parameter.described(longest[parameter.name]) for parameter in found]
    return [each for each in every if times > 1 or each["required"] or "description" in each]


def returned(tool: Described) -> str | None:
    """The type of what the tool gives, on one line, or None where it doesn't say."""
    schema = tool.definition.get("outputSchema")
    return Types(schema, "Result", brief=True).expression() if schema is not None else None


def signature(tool: Described, *, short: bool = False) -> str:
    """The call on one line, shortened where it is long: optional parameters go first."""
    found = parameters(tool)
    kept = sorted(found, key=lambda parameter: not parameter.required)
    written, left = [], SHORT_SIGNATURE if short else LONGEST_SIGNATURE
    for parameter in kept:
        left -= len(parameter.written) + 2
        if left < 0 and not parameter.required:
            break
        written.append(parameter.written)
    if omitted := len(found) - len(written):
        written.append(f"/* {omitted} optional */")
    if found:
        inside = "; ".join(written)
        mark = "" if any(parameter.required for parameter in found) else "?"
        args = f"args{mark}: {{ {inside} }}"
    else:
        args = arguments_without_properties(tool)
    if (result := returned(tool)) is None:
        return f"{access(tool)}({args})"
    result = result if len(result) <= (SHORT_RETURN if short else LONGEST_RETURN) else "object"
    return f"{access(tool)}({args}): Promise<{result}>"


def arguments_without_properties(tool: Described) -> str:
    schema = tool.definition.get("inputSchema")
    if not isinstance(schema, Mapping) or set(schema) <= PLAIN_WORDS:
        return ""
    return f"args: {Types(schema, brief=True).expression()}"


PLAIN_WORDS = {"type", "properties", "required", "additionalProperties", "$schema", "title"}
"""A schema of these alone, without properties, is of a tool that takes nothing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a function takes and gives, and the named types that it needs for that."""

    types: Mapping[str, str]
    args: str
    """The parameter: name, mark and type."""
    result: str | None
    """None where it isn't declared."""
    whole: bool = True
    """Whether nothing lay too deep."""


def shape(
    tool: Described,
    taken: set[str],
    comment: Callable[[Mapping[str, Any]], str] = lambda schema: "",
    deepest: int = DEEPEST,
) -> Shape:
    """`taken` are names of types that are in use; those of this tool are added."""
    schema = tool.definition.get("inputSchema")
    takes = Types(
        schema if isinstance(schema, Mapping) else {"type": "object"},
        "Args",
        taken=taken,
        comment=comment,
        deepest=deepest,
    )
    args = takes.expression()
    args = ANYTHING if args == "unknown" else args
    mark = "" if required_names(arguments(tool)) else "?"
    promised = tool.definition.get("outputSchema")
    most = MOST_MEMBERS if deepest < DEEPEST else None
    gives = Types(promised, "Result", taken=taken, comment=comment, deepest=deepest, most=most)
    result = gives.expression()
    types = {**takes.definitions, **gives.definitions}
    whole = not takes.outlined and not gives.outlined
    return Shape(types, f"args{mark}: {args}", None if promised is None else result, whole)


def declaration(tool: Described) -> str:
    """Complete TypeScript: the named types, then the function."""
    return declared(tool, DEEPEST)[0]


def outline(tool: Described) -> tuple[str, bool]:
    """The same as deep as there is room for, and whether that is all of it."""
    for deepest in DEPTHS:
        text, whole = declared(tool, deepest)
        if len(text) <= LONGEST_DECLARATION:
            break
    return text, whole


def declared(tool: Described, deepest: int) -> tuple[str, bool]:
    taken: set[str] = set()
    found = shape(tool, taken, deepest=deepest)
    types = [f"type {name} = {body};" for name, body in found.types.items()]
    function = function_name(name_of(tool), taken)
    result = "unknown" if found.result is None else found.result
    text = "\n".join([*types, f"declare function {function}({found.args}): Promise<{result}>;"])
    return text, found.whole


def function_name(name: str, taken: set[str]) -> str:
    function = spelled(name)
    while function in RESERVED or function in taken:
        function += "_"
    return function


def call_line(tool: Described) -> str:
    """A line of code that calls the tool, with something in place of each required argument."""
    types, left = Types(tool.definition.get("inputSchema")), iter(range(MOST_SAMPLES))
    given = [
        f"{key(parameter.name)}: {sample(parameter.schema, types, left)}"
        for parameter in parameters(tool)
        if parameter.required
    ]
    return f"const result = await {access(tool)}({{{', '.join(given)}}});"


def sample(schema: object, types: Types, left: Iterator[int], depth: int = 0) -> str:
    """A value that a schema takes, as code, as far as its first choices and required members say."""
    parts = [part for part in all_of(schema, types) if isinstance(part, Mapping)]
    whole: dict[str, Any] = {word: part[word] for part in reversed(parts) for word in part}
    for given in (whole.get("const"), whole.get("default"), *first(whole.get("enum"))):
        if given is not None and len(written := json.dumps(given)) <= LONGEST_SAMPLE:
            return written
    kind = next(iter(types_of(whole)), None)
    if kind in PLACEHOLDERS:
        return PLACEHOLDERS[kind]
    if next(left, None) is None or depth == DEEPEST_SAMPLE:
        return "[]" if kind == "array" else "{}" if kind == "object" else "null"
    if kind == "array":
        few = isinstance(least := whole.get("minItems"), int) and least > 0
        return f"[{sample(whole.get('items'), types, left, depth + 1)}]" if few else "[]"
    for choice in (*branches(whole, "anyOf"), *branches(whole, "oneOf")) if kind is None else ():
        if (found := sample(choice, types, left, depth + 1)) != "null":
            return found
    return "null" if kind is None else sample_object(parts, types, left, depth)


def sample_object(
    parts: list[Mapping[str, Any]], types: Types, left: Iterator[int], depth: int
) -> str:
    properties: dict[str, Any] = {}
    for part in parts:
        if isinstance(own := part.get("properties"), Mapping):
            properties |= {str(name): one for name, one in own.items()}
    members = [
        f"{key(name)}: {sample(properties.get(name), types, left, depth + 1)}"
        for name in dict.fromkeys(name for part in parts for name in required_names(part))
    ]
    return f"{{{', '.join(members)}}}"


def all_of(schema: object, types: Types) -> list[object]:
    """A schema and those that it is combined with; references are followed."""
    found = types.meant(schema)
    with_it = branches(found, "allOf") if isinstance(found, Mapping) else []
    return [found, *(types.meant(one) for one in with_it)]


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """What it may be, without null where it may be something else."""
    kind = schema.get("type")
    if kind is None and isinstance(schema.get("properties"), Mapping):
        return ["object"]
    kinds = [one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)]
    return [one for one in kinds if one != "null"] or kinds


def first(values: object) -> list[Any]:
    return values[:1] if isinstance(values, list) else []


PLACEHOLDERS: Mapping[str | None, str] = {
    "string": '"…"',
    "number": "1",
    "integer": "1",
    "boolean": "true",
    "null": "null",
}
