"""What clients can read: one entry that a schema refuses costs many of them the whole list.

Source: the schema of 2025-11-25 as the SDK has it, whose clients are the strictest. Members that it doesn't
know stay, and so does all that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import methods
from pydantic import BaseModel, ValidationError

from mcpproxy.envelopes import to_json
from mcpproxy.errors import CallError
from mcpproxy.request import deeper

Json = dict[str, Any]

VERSION = "2025-11-25"
DEEPEST = 200
"""Levels of objects and arrays in one another. Some 250 are more than the SDK can write, and many can read."""
NEEDED: Mapping[str, Mapping[str, type]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "resource": {"resource": dict},
    "resource_link": {"uri": str, "name": str},
}
"""The kinds of blocks, and what each has to have."""
TRIES = 3
"""What stands in for a faulty member may be at fault itself."""


def tool(definition: Mapping[str, Any]) -> Json | None:
    return readable(definition, "tools/list", "tools")


def prompt(entry: Mapping[str, Any]) -> Json | None:
    return readable(entry, "prompts/list", "prompts")


def resource(entry: Mapping[str, Any]) -> Json | None:
    return readable(entry, "resources/list", "resources", name=entry.get("uri"))


def template(entry: Mapping[str, Any]) -> Json | None:
    named = entry.get("uriTemplate")
    return readable(entry, "resources/templates/list", "resourceTemplates", name=named)


def readable(entry: Mapping[str, Any], method: str, member: str, **instead: Any) -> Json | None:
    """The entry without members that aren't as the protocol has them; None where one is needed.

    `instead` has what stands in for members that are needed and can be made up.
    """
    page = methods.SERVER_RESULTS[method, VERSION]
    assert isinstance(page, type) and issubclass(page, BaseModel)
    found = dict(entry)
    for name, value in entry.items():
        if deeper(value, DEEPEST):
            found = without(found, (name,), instead)
    for _ in range(TRIES):
        try:
            page.model_validate({member: [found]}, strict=True)
            return found
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False):
                found = without(found, fault["loc"][2:], instead)
    return None


def result(found: Json, *, modern: bool) -> Json:
    """The result of a call, with what clients can't read in it as text: they would refuse all of it.

    Before 2026-07-28, which `modern` ones speak, structured content is an object.
    """
    content, structured = found.get("content"), found.get("structuredContent")
    content = [] if content is None else content if isinstance(content, list) else [content]
    made = {**found, "content": [block(each) for each in content]}
    if structured is None or not (modern or isinstance(structured, dict)):
        made.pop("structuredContent", None)
        if structured is not None and not content:
            made["content"] = [block(structured)]
    if not isinstance(made.get("isError", False), bool):
        made["isError"] = bool(made["isError"])
    return made


def block(found: Any) -> Json:
    """A block of content as it is, or as text where it is of no kind that clients know."""
    if isinstance(found, dict):
        kind = found.get("type")
        needed = NEEDED.get(kind) if isinstance(kind, str) else None
        if needed and all(isinstance(found.get(name), type) for name, type in needed.items()):
            return found
    text = found if isinstance(found, str) else to_json(found).decode()
    return {"type": "text", "text": text}


def shallow(result: Json) -> Json:
    """The result of a call, if clients can read it. Raises `CallError`."""
    if deeper(result, DEEPEST):
        raise CallError(
            "UPSTREAM_ERROR",
            f"the result is nested more than {DEEPEST} levels deep, which no client could read; have a "
            "program (code_execution) return the part of it that you need",
        )
    return result


def without(entry: Json, at: tuple[int | str, ...], instead: Json) -> Json:
    """The entry without the member at a place in it, or with what stands in for that."""
    match at:
        case ("inputSchema", *inner):
            schema = entry.get("inputSchema")
            kept = schema.items() if isinstance(schema, Mapping) and inner else ()
            known = {key: value for key, value in kept if key != inner[0]}
            return {**entry, "inputSchema": {"type": "object", **known}}
        case (name, *_) if name in instead:
            return {**entry, str(name): instead[str(name)]}
        case (name, *_):
            return {key: value for key, value in entry.items() if key != name}
    return entry
