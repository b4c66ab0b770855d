"""What may stand in a `*.tool.yaml`, checked and with its faults told by line.

The fields are those of the guide that packs are written by; `title`, `description`, `annotations`,
`method` and `allow_hosts` are ours. Keys that begin with `x-` are anybody's.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mcpproxy.effort import path_text
from mcpproxy.names import close
from mcpproxy.upstream.files import Bad, Where
from mcpproxy.upstream.toolpack.document import Document

Kind = Literal["python", "cli", "node", "php", "http"]

NAME = r"^[A-Za-z0-9_.-]{1,128}$"
"""What MCP lets a tool be called (SEP-986)."""
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _words(value: object) -> object:
    return [value] if isinstance(value, str) else value


Words = Annotated[list[str], BeforeValidator(_words), Field(min_length=1, max_length=256)]
"""A list of texts; a lone text is a list of one."""
Bytes = Annotated[int, Field(ge=1, le=16 * 2**20)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Schemas(_Part):
    """JSON Schemas, or a `$ref` to a file with one."""

    input: dict[str, Any] = {}
    output: dict[str, Any] | None = None


class Limits(_Part):
    """Bytes of JSON, in and out."""

    input: Bytes = 2**20
    output: Bytes = 2**20


class Templating(_Part):
    """Of `templating`: what stands for the input where results are kept."""

    cache_key: str | None = Field(None, alias="cacheKey")


class ToolFile(_Part):
    """One `*.tool.yaml`."""

    id: Annotated[str, Field(pattern=NAME)]
    kind: Kind
    entry: Words | None = None
    php: Words | None = None
    php_binary: str | None = Field(None, alias="phpBinary", min_length=1)
    schemas: Schemas = Field(default_factory=Schemas, alias="schema")
    timeout_ms: Annotated[int, Field(ge=1, le=600_000)] = Field(30_000, alias="timeoutMs")
    limits: Limits = Field(default_factory=Limits)
    env: list[Annotated[str, Field(pattern=VARIABLE)]] = []
    headers: dict[str, str] = {}
    templating: Templating = Field(default_factory=lambda: Templating.model_validate({}))
    deterministic: bool = False
    title: str | None = None
    description: str | None = None
    annotations: dict[str, Any] = {}
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    allow_hosts: list[str] = []


ONLY = {
    "php": ("php",),
    "phpBinary": ("php",),
    "headers": ("http",),
    "method": ("http",),
    "allow_hosts": ("http",),
}
"""Keys that mean something for some kinds alone."""


def read(document: Document) -> ToolFile:
    """Raises `Bad` with the line of the first fault."""
    data = document.data
    if not isinstance(data, dict):
        raise Bad("it must be a mapping with id, kind and entry", document.line(()))
    known = {key: value for key, value in data.items() if not key.startswith("x-")}
    try:
        found = ToolFile.model_validate(known)
    except ValidationError as error:
        where, reason = _fault(error)
        raise Bad(reason, document.line(where)) from error
    for key, kinds in ONLY.items():
        if key in known and found.kind not in kinds:
            raise Bad(f"{key} is for kind {kinds[0]}, not {found.kind}", document.line((key,)))
    return found


def _fault(error: ValidationError) -> tuple[Where, str]:
    fault = error.errors(include_url=False)[0]
    where = fault["loc"]
    path = path_text(where).removeprefix(".")
    match fault["type"]:
        case "extra_forbidden":
            model: Any = ToolFile
            names = [each.alias or name for name, each in model.model_fields.items()]
            near = close(str(where[-1]), names) if len(where) == 1 else []
            meant = f"; did you mean {near[0]}?" if near else "; begin it with x- if it is yours"
            return where, f"{path} is no key of a tool file{meant}"
        case "missing":
            return where[:-1], f"{path} is missing"
    said = fault["msg"].removeprefix("Value error, ")
    given = json.dumps(fault["input"], default=str, ensure_ascii=False)[:80]
    return where, f"{path}: {said[:1].lower()}{said[1:]} (it is {given})"
