"""Writes the reference of all settings as Markdown to stdout, from where each is defined."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BeforeValidator, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mcpproxy.configuration import RESTART
from mcpproxy.settings import (
    Ceilings,
    ClientCredentials,
    Concurrency,
    Logging,
    OAuth,
    Section,
    ServerSettings,
    Settings,
)

HEAD = """\
# Settings

Made by `scripts/reference` from `mcpproxy/settings/sections.py`; changes belong there.

The configuration is one JSON file, `~/.mcpproxy/mcp_config.json` unless `--config` names another.
Comments (`//`, `/* */`) and trailing commas are allowed. Unknown keys are kept and named in a warning.
A duration is milliseconds as a number, or a text such as `"250ms"`, `"30s"`, `"1h30m"`.

What changes in the file holds at once, except where the table says "restart".
[Servers](../servers.md) shows the file at work.
"""
NAMES = {str: "text", bool: "true or false", int: "number", SecretStr: "text"}


def main() -> str:
    parts = [
        HEAD,
        section("The file", Settings),
        section("A server, in `mcpServers`", ServerSettings, own=True),
        section("`oauth`, in a server", OAuth),
        section("An OAuth client in `auth`, in a server", ClientCredentials),
        section("`code_execution_limits`", Ceilings),
        section("`server_concurrency_defaults`", Concurrency),
        section("`logging`", Logging),
    ]
    return "\n".join(parts)


def section(title: str, model: type[Section], *, own: bool = False) -> str:
    restart = RESTART if model is Settings else ()
    head = "| setting | kind | default | |\n|---|---|---|---|\n"
    rows = "".join(row(name, field, name in restart) for name, field in ordered(model, own))
    return f"## {title}\n\n{model.__doc__}\n\n{head}{rows}"


def ordered(model: type[Section], own: bool) -> Iterator[tuple[str, FieldInfo]]:
    """What is a server's own comes before what every place with limits has."""
    fields = model.model_fields
    shared = [name for name in fields if own and name in Concurrency.model_fields]
    for name in [*(n for n in fields if n not in shared), *shared]:
        yield name, fields[name]


def row(name: str, field: FieldInfo, restart: bool) -> str:
    text = (field.description or "").replace("|", "\\|")
    note = " Restart." if restart else ""
    return f"| `{field.alias or name}` | {kind(field)} | {default(field)} | {text}{note} |\n"


def kind(field: FieldInfo) -> str:
    bounds = {type(each): each for each in field.metadata}
    found = named(field.annotation)
    if field.annotation is float and BeforeValidator not in bounds:
        found = "number"
    least, most = bounds.get(annotated_types.Ge), bounds.get(annotated_types.Le)
    if found == "number" and most is not None and least is not None:
        return f"{least.ge} to {most.le}"
    if found == "number" and least is not None and least.ge:
        return f"number from {least.ge}"
    return found


def named(annotation: Any) -> str:
    """A type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is float:
        return "duration"
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(named(each) for each in inner if each is not type(None))
    if origin is list:
        return f"list of {named(inner[0])}s"
    if origin is dict:
        return "object of texts"
    if origin is tuple:
        return "list or object"
    if hasattr(annotation, "__metadata__"):
        return named(inner[0])
    return NAMES.get(annotation, "object")


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is PydanticUndefined or value is None or value in ((), [], {}):
        return ""
    if isinstance(value, SecretStr):
        return "made"
    if kind(field) == "duration":
        return f'`"{value:g}s"`'
    return f"`{json.dumps(value)}`"


if __name__ == "__main__":
    print(main(), end="")
