"""Schema Objects of OpenAPI as JSON Schema 2020-12, with all that they refer to in `$defs`.

OpenAPI 3.1 is 2020-12. 3.0 and Swagger 2.0 have dialects of their own: `nullable`, boolean bounds, keywords
beside a `$ref` that don't count. What is only read isn't asked for, and what is only written isn't promised.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs

from mcpproxy.upstream.openapi.document import Documents
from mcpproxy.upstream.toolpack.document import Bad

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


class Bundle:
    """One self-contained schema for the parts of an operation; `definitions` grows while parts are taken."""

    def __init__(self, documents: Documents, direction: Direction, *, modern: bool) -> None:
        self._documents = documents
        self._omitted = "readOnly" if direction == "in" else "writeOnly"
        self._modern = modern
        """Whether it is OpenAPI 3.1."""
        self._names: dict[tuple[Path | None, str], str] = {}
        self.definitions: Json = {}
        self._left = MOST_PARTS

    def taken(self, part: Any, file: Path | None, depth: int = 0) -> Any:
        """A schema of a file, as it stands in the bundle. Raises `Bad`."""
        self._left -= 1
        if self._left < 0:
            raise Bad(f"its schema has more than {MOST_PARTS} parts")
        if depth > DEEPEST:
            raise Bad("its schema is nested too deep")
        if isinstance(part, bool):
            return part
        if not isinstance(part, dict):
            raise Bad(f"a schema must be an object, not {str(part)[:60]!r}")
        ref = part.get("$ref")
        if isinstance(ref, str):
            found: Json = {"$ref": f"#/$defs/{self._name(ref, file)}"}
            if self._modern:
                found |= self._members({k: v for k, v in part.items() if k != "$ref"}, file, depth)
            return found
        return self._members(part if self._modern else _modernized(part), file, depth)

    def _members(self, part: Json, file: Path | None, depth: int) -> Json:
        found: Json = {}
        for key, value in part.items():
            if key in ONE:
                found[key] = self.taken(value, file, depth + 1)
            elif key in MANY and isinstance(value, list):
                found[key] = [self.taken(each, file, depth + 1) for each in value]
            elif key in NAMED and isinstance(value, dict):
                kept = self._kept(value, file) if key == "properties" else value
                found[key] = {
                    name: self.taken(each, file, depth + 1) for name, each in kept.items()
                }
            elif key in VALUES and not (key == "pattern" and not _expression(value)):
                found[key] = value
        required = found.get("required")
        if not isinstance(required, list):
            found.pop("required", None)  # `required: true` of a property, as of an older draft
        elif isinstance(properties := part.get("properties"), dict):
            dropped = properties.keys() - found.get("properties", {}).keys()
            found["required"] = [name for name in required if name not in dropped]
        return found

    def _kept(self, properties: Json, file: Path | None) -> Json:
        """The properties that go in this direction."""
        return {
            name: each
            for name, each in properties.items()
            if not (
                isinstance(each, dict)
                and (each.get(self._omitted) is True or self._target_omitted(each, file))
            )
        }

    def _target_omitted(self, part: Json, file: Path | None) -> bool:
        whole, _ = self._documents.whole(part, file)
        return isinstance(whole, dict) and whole.get(self._omitted) is True

    def _name(self, ref: str, file: Path | None) -> str:
        path, pointer = key = self._documents.target(ref, file)
        if key not in self._names:
            stem = re.sub(r"[^A-Za-z0-9_]+", "_", pointer.rpartition("/")[2]).strip("_")
            stem = stem or (path.stem if path else "Schema")
            taken = self._names.values()
            names = chain([stem], (f"{stem}{n}" for n in count(2)))
            name = self._names[key] = next(each for each in names if each not in taken)
            self.definitions[name] = {}  # it may refer to itself
            self.definitions[name] = self.taken(self._documents.at(path, pointer), path)
        return self._names[key]

    def whole(self, schema: Any) -> Any:
        """A taken part with the definitions that it needs; one that only refers to one is that."""
        definitions = self.definitions
        if isinstance(schema, dict) and schema.keys() == {"$ref"}:
            name = schema["$ref"].removeprefix("#/$defs/")
            target = definitions[name]
            if isinstance(target, dict):
                schema = target
                if not _mentions(definitions, f"#/$defs/{name}"):
                    definitions = {key: value for key, value in definitions.items() if key != name}
        if not definitions or not isinstance(schema, dict):
            return schema
        return {**schema, "$defs": {**schema.get("$defs", {}), **definitions}}


def _mentions(part: Any, ref: str) -> bool:
    if isinstance(part, dict):
        return part.get("$ref") == ref or any(_mentions(each, ref) for each in part.values())
    return isinstance(part, list) and any(_mentions(each, ref) for each in part)


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
