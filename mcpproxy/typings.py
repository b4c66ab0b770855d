"""JSON Schema to TypeScript, for reading and for compiling.

Schemas come from strangers: references may be recursive, missing or circular, keywords of the
wrong type, whole schemas absent. Only the bad part becomes `unknown`; nothing here raises or
loops. Validation keywords that TypeScript can't say (`not`, `if`, ranges) are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from mcpproxy.names import spelled

ANYTHING = "{ [key: string]: unknown }"
DEEPEST = 16
DEEPEST_BRIEF = 3
LONGEST_OUTLINE = 60
"""Characters of a choice of values that stands where there is no room for what lies deep."""

LARGEST = 4000
"""Schemas within one schema that are still looked at; the rest becomes `unknown`."""

SIMPLE = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
OBJECT_WORDS = ("properties", "required", "additionalProperties", "patternProperties")
ARRAY_WORDS = ("items", "prefixItems")

RESERVED = frozenset(
    "any as async await boolean break case catch class const continue debugger declare default "
    "delete do else enum export extends false finally for function if implements import in "
    "instanceof interface let never new null number object package private protected public "
    "return static string super switch symbol this throw true try type typeof undefined unknown "
    "var void while with yield bigint Promise".split()
)


def one_line(text: object, longest: int) -> str:
    """Text as it fits into a line or a comment."""
    if not isinstance(text, str):
        return ""
    # Cut first: nobody's megabyte is split into words for the sake of a line.
    words = text[: longest * 8].encode("utf-8", "replace").decode().replace("*/", "* /").split()
    line = " ".join(words)
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def literal(value: object, depth: int = 0) -> str:
    """A JSON value as a literal type."""
    if isinstance(value, float) and not math.isfinite(value):
        return "number"
    if isinstance(value, Mapping | list) and depth > DEEPEST:
        return "unknown"
    if isinstance(value, Mapping):
        members = "; ".join(f"{key(str(k))}: {literal(v, depth + 1)}" for k, v in value.items())
        return f"{{ {members} }}" if members else "{}"
    if isinstance(value, list):
        return f"[{', '.join(literal(item, depth + 1) for item in value)}]"
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value)


def quoted(text: str) -> str:
    try:
        return json.dumps(text, ensure_ascii=False).encode().decode()
    except UnicodeEncodeError:
        return json.dumps(text)


def key(name: str) -> str:
    """A property's name, quoted where it has to be."""
    return name if name and name.isascii() and spelled(name) == name else quoted(name)


def alias(text: str) -> str:
    """A name for a type."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in text).split()
    name = spelled("".join(word[0].upper() + word[1:] for word in words) or "Type")
    return f"{name}_" if name in RESERVED else name


def either(members: Iterable[str]) -> str:
    """A union without repetitions. `unknown` takes in everything, `never` adds nothing."""
    found = list(dict.fromkeys(members))
    if "unknown" in found:
        return "unknown"
    found = [member for member in found if member != "never"] or found
    return " | ".join(found) if found else "never"


def both(parts: Iterable[str]) -> str:
    """An intersection. `unknown` adds nothing."""
    found = [part for part in dict.fromkeys(parts) if part != "unknown"]
    if "never" in found:
        return "never"
    if len(found) > 1:
        found = [f"({part})" if " | " in part else part for part in found]
    return " & ".join(found) if found else "unknown"


def many(element: str) -> str:
    return f"({element})[]" if " | " in element or " & " in element else f"{element}[]"


@dataclass
class Types:
    """The types of one schema: an expression, and the definitions that it refers to.

    `brief` is for one line to read: references are written out, depths are left out. Where `deepest` is
    less than usual, what lies deeper has its kind only, and what is optional counts as one level deeper.
    """

    root: Any
    name: str = "Args"
    brief: bool = False
    deepest: int = DEEPEST
    most: int | None = None
    """Members of one object that are written out."""
    taken: set[str] = field(default_factory=set)
    comment: Callable[[Mapping[str, Any]], str] = lambda schema: ""
    definitions: dict[str, str] = field(default_factory=dict, init=False)
    _names: dict[str, str] = field(default_factory=dict, init=False)
    _edges: dict[str, set[str]] = field(default_factory=dict, init=False)
    _waiting: list[tuple[str, object, int]] = field(default_factory=list, init=False)
    _open: list[str] = field(default_factory=list, init=False)
    _seen: int = field(default=0, init=False)
    outlined: bool = field(default=False, init=False)
    """Whether something lay too deep."""

    def __post_init__(self) -> None:
        if self.brief:
            self.deepest = DEEPEST_BRIEF

    @property
    def _most(self) -> int:
        return LARGEST // 10 if self.brief else LARGEST

    def expression(self) -> str:
        """The type of the whole; afterwards `definitions` holds the bodies of the named types."""
        body = self._type(self.root, "", 0)
        # Not where they are met: a chain of a thousand references must not be a deep recursion.
        while self._waiting:
            name, target, depth = self._waiting.pop()
            self.definitions[name] = self._type(target, name, depth)
        return self._names.get("#", body)

    def of(self, schema: object) -> str:
        """The type of one schema inside the whole."""
        self._seen = 0
        return self._type(schema, "", 1)

    def target(self) -> object:
        """The whole, or what it stands for if it is nothing but a reference."""
        return self.meant(self.root)

    def meant(self, found: object) -> object:
        """A schema inside the whole, or what it stands for if it is nothing but a reference."""
        seen = set[str]()
        while isinstance(found, Mapping) and isinstance(reference := found.get("$ref"), str):
            if reference in seen or "properties" in found:
                return found
            seen.add(reference)
            found = self._resolve(unquote(reference))[1]
        return found

    # `owner` is the named type whose body is being written, as long as TypeScript would resolve
    # what follows at once: members of unions and intersections, not what is inside an object or
    # an array. A name that leads back to itself along such edges does not compile.

    def _type(self, schema: object, owner: str | None, depth: int) -> str:
        self._seen += 1
        if schema is False:
            return "never"
        if not isinstance(schema, Mapping) or depth > DEEPEST or self._seen > self._most:
            return "unknown"
        if depth > self.deepest:
            return self._outline(schema)
        whole = both(self._parts(schema, owner, depth))
        # OpenAPI's word, which travels with schemas made from such documents.
        if schema.get("nullable") is True and whole != "unknown":
            return either([whole, "null"])
        return whole

    def _outline(self, schema: Mapping[str, Any]) -> str:
        target = self.meant(schema)
        target = target if isinstance(target, Mapping) else {}
        kinds = kind if isinstance(kind := target.get("type"), list) else [kind]
        plain = all(isinstance(one, str) and one in SIMPLE for one in kinds)
        if plain or isinstance(target.get("const"), str):
            written = self._shape(target, DEEPEST)
            if len(written) <= LONGEST_OUTLINE:
                return written
        self.outlined = True
        outlines = {**SIMPLE, "object": "object", "array": "unknown[]"}
        return either(outlines.get(str(one), "unknown") for one in kinds)

    def _parts(self, schema: Mapping[str, Any], owner: str | None, depth: int) -> Iterator[str]:
        inner = partial(self._type, owner=owner, depth=depth + 1)
        if isinstance(reference := schema.get("$ref"), str):
            yield self._reference(reference, owner, depth)
        for branch in branches(schema, "allOf"):
            yield inner(branch)
        yield self._shape(schema, depth)
        for word in ("anyOf", "oneOf"):
            if choices := branches(schema, word):
                yield either(inner(choice) for choice in choices)

    def _shape(self, schema: Mapping[str, Any], depth: int) -> str:
        """What the schema says by itself, without the schemas it is combined with."""
        if "const" in schema:
            return literal(schema["const"])
        if isinstance(values := schema.get("enum"), list) and values:
            return self._enum(values, schema)
        kind = schema.get("type")
        if isinstance(kind, list):
            return either(self._kind(one, schema, depth) for one in kind) if kind else "unknown"
        if kind is None:
            # Alternatives of `required` alone say nothing that a type could.
            if any(word in schema for word in OBJECT_WORDS if word != "required"):
                kind = "object"
            elif any(word in schema for word in ARRAY_WORDS):
                kind = "array"
        return self._kind(kind, schema, depth)

    def _enum(self, values: list[Any], schema: Mapping[str, Any]) -> str:
        written = either(literal(value) for value in values)
        if len(written) > (80 if self.brief else 4000):
            return either({bool: "boolean", str: "string"}.get(type(v), "number") for v in values)
        return written

    def _kind(self, kind: object, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        return SIMPLE.get(kind, "unknown") if isinstance(kind, str) else "unknown"

    def _array(self, schema: Mapping[str, Any], depth: int) -> str:
        inner = partial(self._type, owner=None, depth=depth + 1)
        first, rest = schema.get("prefixItems"), schema.get("items", True)
        if not isinstance(first, list):
            if not isinstance(rest, list):
                return many(inner(rest))
            first, rest = rest, schema.get("additionalItems", True)
        least = schema.get("minItems")
        # Without minItems any prefix is valid JSON Schema; people mean the whole tuple.
        least = least if isinstance(least, int) and 0 <= least else len(first)
        elements = [
            inner(item) if i < least else f"({inner(item)})?" for i, item in enumerate(first)
        ]
        if rest is not False:
            elements.append(f"...{many(inner(rest))}")
        return f"[{', '.join(elements)}]"

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = required_names(schema)
        members = [
            self._member(str(name), value, str(name) in required, depth)
            for name, value in properties.items()
        ]
        members += [f"{key(name)}: unknown" for name in required if name not in properties]
        more = schema.get("additionalProperties")
        if not members and more is not False:
            patterns = schema.get("patternProperties")
            values = list(patterns.values()) if isinstance(patterns, Mapping) else []
            if isinstance(more, Mapping) or not values:
                values.append(more if isinstance(more, Mapping) else True)
            inner = either(self._type(value, None, depth + 1) for value in values)
            return f"{{ [key: string]: {inner} }}"
        if members and (more is True or isinstance(more, Mapping)) and not self.brief:
            # A narrower index type would have to fit every named property, too.
            members.append("[key: string]: unknown")
        if self.most is not None and len(members) > self.most:
            self.outlined = True
            omitted = f"/* {len(members) - self.most} more */"
            members = [*members[: self.most], f"{omitted} [key: string]: unknown"]
        if not members:
            return "{}"
        return f"{{ {'; '.join(members)} }}"

    def _member(self, name: str, schema: object, required: bool, depth: int) -> str:
        further = 1 if required or self.brief or self.deepest == DEEPEST else 2
        written = self._type(schema, None, depth + further)
        note = self.comment(schema) if isinstance(schema, Mapping) else ""
        return f"{note}{key(name)}{'' if required else '?'}: {written}"

    def _reference(self, reference: str, owner: str | None, depth: int) -> str:
        reference = unquote(reference)
        found, target = self._resolve(reference)
        if not found:
            return "unknown"
        if self.brief:
            if reference in self._open:
                return "object"
            self._open.append(reference)
            written = self._type(target, owner, depth + 1)
            self._open.pop()
            return written
        name = self._named(reference, target, 0 if self.deepest == DEEPEST else depth)
        if owner is not None:
            if self._leads_to(name, owner):
                return "unknown"
            self._edges.setdefault(owner, set()).add(name)
        return name

    def _named(self, reference: str, target: object, depth: int) -> str:
        if name := self._names.get(reference):
            return name
        base = self.name if reference == "#" else alias(reference.rsplit("/", 1)[-1])
        name, n = base, 2
        while name in self.taken:
            name, n = f"{base}{n}", n + 1
        self.taken.add(name)
        self._names[reference] = name
        self.definitions[name] = "unknown"  # its place in the order
        self._waiting.append((name, target, depth))
        return name

    def _leads_to(self, start: str, goal: str) -> bool:
        seen, ahead = set(), [start]
        while ahead:
            name = ahead.pop()
            if name == goal:
                return True
            if name not in seen:
                seen.add(name)
                ahead += self._edges.get(name, ())
        return False

    def _resolve(self, reference: str) -> tuple[bool, object]:
        """What a local pointer points at. Nothing is ever fetched."""
        if not reference.startswith("#"):
            return False, None
        here: Any = self.root
        pointer = reference[1:]
        if pointer and not pointer.startswith("/"):
            return self._anchored(pointer)
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, Mapping) and step in here:
                here = here[step]
            elif isinstance(here, list) and step.isdecimal() and int(step[:9]) < len(here):
                here = here[int(step[:9])]
            else:
                return False, None
        return True, here

    def _anchored(self, anchor: str) -> tuple[bool, object]:
        for word in ("$defs", "definitions"):
            group = self.root.get(word) if isinstance(self.root, Mapping) else None
            for schema in group.values() if isinstance(group, Mapping) else ():
                if isinstance(schema, Mapping) and anchor in (
                    schema.get("$anchor"),
                    schema.get("$dynamicAnchor"),
                    str(schema.get("$id", "")).removeprefix("#"),
                ):
                    return True, schema
        return False, None


def branches(schema: Mapping[str, Any], word: str) -> list[Any]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


def required_names(schema: Mapping[str, Any]) -> list[str]:
    found = schema.get("required")
    found = found if isinstance(found, list) else []
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))
