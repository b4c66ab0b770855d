"""What clients can read: one entry that a schema refuses costs many of them the whole list.

Source: the schemas of the protocol, as the SDK has them. Members that they don't know stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from pydantic import BaseModel, ValidationError

Json = dict[str, Any]

ANY_ARGUMENTS = {"type": "object"}


def tool(definition: Mapping[str, Any]) -> Json | None:
    return readable(definition, types.Tool, {"inputSchema": ANY_ARGUMENTS})


def prompt(entry: Mapping[str, Any]) -> Json | None:
    return readable(entry, types.Prompt, {})


def resource(entry: Mapping[str, Any]) -> Json | None:
    return readable(entry, types.Resource, {"name": entry.get("uri")})


def template(entry: Mapping[str, Any]) -> Json | None:
    return readable(entry, types.ResourceTemplate, {"name": entry.get("uriTemplate")})


def readable(entry: Mapping[str, Any], kind: type[BaseModel], instead: Json) -> Json | None:
    """The entry without members that aren't as the protocol has them; None where one is needed.

    `instead` has what stands in for members that are needed and can be made up.
    """
    found = dict(entry)
    try:
        kind.model_validate(found, strict=True)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            member = str(fault["loc"][0])
            found.pop(member, None)
            if member in instead:
                found[member] = instead[member]
        try:
            kind.model_validate(found, strict=True)
        except ValidationError:
            return None
    return found
