"""Schema Objects of OpenAPI as JSON Schema 2020-12, with all that they refer to in `$defs`.

OpenAPI 3.1 is 2020-12. 3.0 and Swagger 2.0 have dialects of their own: `nullable`, boolean bounds, keywords
beside a `$ref` that don't count. What is only read isn't asked for, and what is only written isn't promised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs

from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.openapi.document import Documents, texts

Json = dict[str, Any]
Direction = Literal["in", "out"]

MOST_PARTS = 20_000
"""Parts of the schemas of one operation, in one direction."""
DEEPEST = 100

ONE = frozenset(
    {"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames",
     "then", "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip
MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
VALUES = frozenset(
    {"const", "contentEncoding", "contentMediaType", "default", "dependentRequired", "deprecated",
     "description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains",
     "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength",
     "minProperties", "minimum", "multipleOf", "pattern", "readOnly", "required", "title", "type",
     "uniqueItems", "writeOnly"}
)  # fmt: skip
"""Other keywords that are kept. `discriminator`, `xml`, `externalDocs` and extensions say nothing of values."""


@dataclass(slots=True)
class Taken:
    """What came along with a schema while it was taken over."""

    refs: set[str] = field(default_factory=set)
    """Definitions that it refers to."""
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """A schema that others refer to, and what came along with it, as in `Taken`."""

    schema: Any
    refs: frozenset[str]
    parts: int


class Schemas:
    """The schemas of a document in one direction. What is referred to is taken over once, for all operations."""

    def __init__(self, documents: Documents, direction: Direction, *, modern: bool) -> None:
        self._documents = documents
        self._omitted = "readOnly" if direction == "in" else "writeOnly"
        self._modern = modern
        """Whether it is OpenAPI 3.1."""
        self._names: dict[tuple[Path | None, str], str] = {}
        self._places: dict[str, tuple[Path | None, str]] = {}
        self._definitions: dict[str, Definition] = {}

    def taken(self, part: Any, file: Path | None, along: Taken, depth: int = 0) -> Any:
        """A schema of a file, whose references lead into `$defs`. Raises `Bad`."""
        along.parts += 1
        if along.parts > MOST_PARTS:
            raise Bad(f"its schema has more than {MOST_PARTS} parts")
        if depth > DEEPEST:
            raise Bad("its schema is nested too deep")
        if isinstance(part, bool):
            return part
        if not isinstance(part, dict):
            raise Bad(f"a schema must be an object, not {str(part)[:60]!r}")
        ref = part.get("$ref")
        if isinstance(ref, str):
            name = self._name(ref, file)
            along.refs.add(name)
            found: Json = {"$ref": f"#/$defs/{name}"}
            if self._modern:
                beside = {key: value for key, value in part.items() if key != "$ref"}
                found |= self._members(beside, file, along, depth)
            return found
        return self._members(part if self._modern else _modernized(part), file, along, depth)

    def _members(self, part: Json, file: Path | None, along: Taken, depth: int) -> Json:
        def one(value: Any) -> Any:
            return self.taken(value, file, along, depth + 1)

        found: Json = {}
        for key, value in part.items():
            if key in ONE:
                found[key] = one(value)
            elif key in MANY and isinstance(value, list):
                found[key] = [one(each) for each in value]
            elif key in NAMED and isinstance(value, dict):
                kept = self._kept(value, file) if key == "properties" else value
                found[key] = {name: one(each) for name, each in kept.items()}
            elif key in VALUES and not (key == "pattern" and not _expression(value)):
                found[key] = value
        required = found.get("required")
        if not isinstance(required, list):
            found.pop("required", None)  # `required: true` of a property, as of an older draft
        elif isinstance(properties := part.get("properties"), dict):
            dropped = properties.keys() - found["properties"].keys()
            found["required"] = [name for name in texts(required) if name not in dropped]
        return found

    def _kept(self, properties: Json, file: Path | None) -> Json:
        """The properties that go in this direction."""
        return {
            name: each
            for name, each in properties.items()
            if not (isinstance(each, dict) and self._goes_elsewhere(each, file))
        }

    def _goes_elsewhere(self, part: Json, file: Path | None) -> bool:
        if part.get(self._omitted) is True:
            return True
        whole = self._documents.whole(part, file)[0] if "$ref" in part else None
        return isinstance(whole, dict) and whole.get(self._omitted) is True

    def _name(self, ref: str, file: Path | None) -> str:
        path, pointer = key = self._documents.target(ref, file)
        if key not in self._names:
            stem = re.sub(r"[^A-Za-z0-9_]+", "_", pointer.rpartition("/")[2]).strip("_")
            stem = stem or (path.stem if path else "Schema")
            names = chain([stem], (f"{stem}{n}" for n in count(2)))
            name = self._names[key] = next(each for each in names if each not in self._places)
            self._places[name] = key
        return self._names[key]

    def definition(self, name: str) -> Definition:
        """Raises `Bad`."""
        if name not in self._definitions:
            path, pointer = self._places[name]
            along = Taken()
            schema = self.taken(self._documents.at(path, pointer), path, along)
            check(schema)
            self._definitions[name] = Definition(schema, frozenset(along.refs), along.parts)
        return self._definitions[name]


class Bundle:
    """The schemas of one operation, in one direction."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._along = Taken()

    def taken(self, part: Any, file: Path | None) -> Any:
        """Raises `Bad`."""
        return self._schemas.taken(part, file, self._along)

    def definitions(self, most: int = MOST_PARTS) -> dict[str, Definition]:
        """All that what was taken refers to. Raises `Bad`, when it has more parts than `most`, too."""
        found: dict[str, Definition] = {}
        todo, parts = sorted(self._along.refs), self._along.parts
        while todo:
            name = todo.pop(0)
            if name in found:
                continue
            found[name] = self._schemas.definition(name)
            parts += found[name].parts
            if parts > most:
                raise Bad(f"its schema has more than {most} parts")
            todo += sorted(found[name].refs)
        return found

    def whole(self, schema: Any, most: int = MOST_PARTS) -> Any:
        """A taken part with the definitions that it needs; one that only refers to one is that. Raises `Bad`."""
        found = self.definitions(most)
        check(schema)
        if isinstance(schema, dict) and schema.keys() == {"$ref"}:
            name = schema["$ref"].removeprefix("#/$defs/")
            if isinstance(found[name].schema, dict):
                schema = found[name].schema
                if not any(name in each.refs for each in found.values()):
                    del found[name]
        if not found or not isinstance(schema, dict):
            return schema
        own = schema.get("$defs", {})
        return {**schema, "$defs": {**own, **{name: each.schema for name, each in found.items()}}}


def check(schema: Any) -> None:
    """Raises `Bad` for what is no JSON Schema."""
    try:
        jsonschema_rs.meta.validate(schema)
    except (ValueError, TypeError, jsonschema_rs.ReferencingError) as error:
        raise Bad(f"it is no valid JSON Schema: {str(error).splitlines()[0][:300]}") from error


def _modernized(part: Json) -> Json:
    """A schema of 3.0 or 2.0 as 2020-12 says the same; its members are as they were."""
    found = dict(part)
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        exclusive = found.get(bound)
        if isinstance(exclusive, bool):
            del found[bound]
            if exclusive and limit in found:
                found[bound] = found.pop(limit)
    if found.get("type") == "file":  # Swagger 2.0
        found |= {"type": "string", "format": "binary"}
    if "example" in found:
        found.setdefault("examples", [found["example"]])
    if (found.get("nullable") or found.get("x-nullable")) is True:
        if isinstance(found.get("type"), str):
            found["type"] = [found["type"], "null"]
            if isinstance(found.get("enum"), list) and None not in found["enum"]:
                found["enum"] = [*found["enum"], None]
        elif "allOf" in found or "anyOf" in found or "oneOf" in found:
            rest = {k: v for k, v in part.items() if k not in ("nullable", "x-nullable")}
            return {"anyOf": [rest, {"type": "null"}]}
    return found


@lru_cache(maxsize=1024)
def _compiles(pattern: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern})
    except (ValueError, TypeError):
        return False
    return True


def _expression(pattern: Any) -> bool:
    """Whether it is a regular expression that can be checked here: APIs have those of other languages, too."""
    return isinstance(pattern, str) and _compiles(pattern)
