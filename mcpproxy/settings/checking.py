"""A document held against what can be set: what can be used of it, and what is to be said of the rest.

A wrong type is an error that names the path and the value; a key that we don't know is a warning.
One server that can't be used as written is left out, and never keeps the others from running.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from mcpproxy import names
from mcpproxy.errors import SettingsError
from mcpproxy.settings.sections import Section, ServerSettings

SectionT = TypeVar("SectionT", bound=Section)


def checked(
    model: type[SectionT], document: Mapping[str, Any], path: str, warnings: list[str]
) -> SectionT:
    """The section, with unknown keys named in `warnings`. Raises `SettingsError` with path and value."""
    try:
        section = model.model_validate(document)
    except ValidationError as error:
        raise SettingsError("; ".join(_faults(error, path))) from error
    warnings += [
        f"unknown setting '{name}' is kept and has no effect here{meant}"
        for name, meant in _unknown(section, path)
    ]
    return section


def _unknown(section: Section, path: str) -> Iterator[tuple[str, str]]:
    """Each name that is no setting, and the one that it may have been meant as."""
    prefix = f"{path}." if path else ""
    for name in section.model_extra or {}:
        near = names.close(name, type(section).model_fields, 1)
        yield prefix + name, f"; did you mean {near[0]}?" if near else ""
    for name, value in section:
        if isinstance(value, Section):
            yield from _unknown(value, prefix + name)


def _faults(error: ValidationError, path: str) -> Iterator[str]:
    for fault in error.errors(include_url=False)[:5]:
        where = path
        for part in fault["loc"]:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
        secret = any(word in where for word in ("key", "headers", "env", "auth"))
        value = (
            ""
            if secret or fault["type"] == "missing"
            else f" (it is {json.dumps(fault['input'], default=str)[:80]})"
        )
        message = fault["msg"].removeprefix("Value error, ")
        yield f"{where}: {message[:1].lower()}{message[1:]}{value}"


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


def servers(found: object, errors: dict[str, str], warnings: list[str]) -> Iterator[ServerSettings]:
    """The servers that can be used; the others go to `errors`, by name, each with the reason.

    Raises `SettingsError` where `found` is neither an array nor an object.
    """
    if isinstance(found, dict):
        entries = [(f'mcpServers["{name}"]', entry, name) for name, entry in found.items()]
    elif isinstance(found, list):
        entries = [(f"mcpServers[{n}]", entry, None) for n, entry in enumerate(found)]
    else:
        raise SettingsError(
            f"mcpServers must be an array or an object, not {json.dumps(found)[:80]}"
        )
    seen: set[str] = set()
    for path, entry, key in entries:
        if not isinstance(entry, dict):
            errors[key or path] = f"{path} must be an object, not {json.dumps(entry)[:80]}"
            continue
        entry = {"name": key, **entry} if key is not None else entry
        name = entry["name"] if isinstance(entry.get("name"), str) and entry["name"] else path
        try:
            server = checked_server(entry, warnings, path)
        except SettingsError as error:
            errors[name] = str(error)
            continue
        if server.name in seen:
            errors[f"{server.name} ({path})"] = (
                f"{path}: another server is called '{server.name}'; rename one"
            )
            continue
        seen.add(server.name)
        yield server


def checked_server(entry: Mapping[str, Any], warnings: list[str], path: str = "") -> ServerSettings:
    """The settings of one entry. Raises `SettingsError` that names the field below `path`."""
    if not entry.get("type", True):  # some leave it empty
        entry = {key: value for key, value in entry.items() if key != "type"}
    server = checked(ServerSettings, entry, path, warnings)
    for name, fault in _unusable(server):
        where = ".".join(filter(None, (path, name)))
        raise SettingsError(f"{where}{' ' if name else ': '}{fault}" if where else fault)
    return server


CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
WAYS = ("command", "url", "directory", "document")
"""Settings that say how a server is reached; each has one of them."""


def _unusable(server: ServerSettings) -> Iterator[tuple[str, str]]:
    """What is wrong with settings that are each of the right form: the field, if it is one's fault, and why."""
    if ":" in server.name:
        yield "name", f"'{server.name}' must not contain ':'"
    if CONTROL.search(server.name):
        yield "name", f"{server.name!r} must not contain line breaks or other control characters"
    ways = [way for way in WAYS if getattr(server, way) is not None]
    if len(ways) > 1:
        yield (
            "",
            f"server '{server.name}' has both {' and '.join(ways)}; only one of them can say how it is reached, "
            "so remove what isn't meant",
        )
    if server.enabled_tools and server.disabled_tools:
        yield (
            "disabled_tools",
            f"of '{server.name}' stands beside enabled_tools; give one of them, which says it all",
        )
    yield from _unusable_texts(server)
    if server.command is not None and not server.command.strip():
        yield "command", f"of '{server.name}' is empty; give a program, or a url"
    if server.protocol == "toolpack":
        if server.directory is None or not server.directory.startswith(("/", "~/", "${env:")):
            yield (
                "directory",
                f"of '{server.name}' must be the absolute path of its tool files, "
                f"not {json.dumps(server.directory)}",
            )
    elif server.protocol == "openapi":
        yield from _unusable_document(server)
    elif server.command is None and server.url is None:
        yield "", f"server '{server.name}' has neither command nor url; give one"
    elif server.protocol == "stdio" and server.command is None:
        yield "", f"server '{server.name}' has protocol stdio and no command"
    elif server.protocol in ("http", "streamable-http", "sse") and server.url is None:
        yield "", f"server '{server.name}' has protocol {server.protocol} and no url"
    elif server.url is not None and not _is_http(server.url):
        # Without the value: a password may be in it.
        yield "url", f"of '{server.name}' must be a URL that begins with http:// or https://"


def _unusable_texts(server: ServerSettings) -> Iterator[tuple[str, str]]:
    """What the system would take for no text of a program, and no name of a variable."""
    texts = {name: getattr(server, name) or "" for name in (*WAYS, "working_dir")}
    texts |= {f"args[{n}]": text for n, text in enumerate(server.args)}
    texts |= {f"env.{name}": name + text for name, text in server.env.items()}
    for name, text in texts.items():
        if "\0" in text:
            yield name, f"of '{server.name}' has a NUL in it"
    for name in server.env:
        if not name or "=" in name:
            yield (
                "env",
                f"of '{server.name}' has a variable {name!r}: a name isn't empty, and has no '='",
            )


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        fine = "${" in parts.netloc or parts.port != 0
    except ValueError:  # a bracket that isn't closed, a port that is none
        return False
    return fine and parts.scheme in ("http", "https") and bool(parts.hostname)


def _unusable_document(server: ServerSettings) -> Iterator[tuple[str, str]]:
    path = server.document is not None and server.document.startswith(("/", "~/", "${env:"))
    if not path and not _is_http(server.document or ""):
        yield "document", f"of '{server.name}' must be a URL or an absolute path"
    base = server.base_url
    if base is not None and not base.startswith("${env:") and not _is_http(base):
        yield "base_url", f"of '{server.name}' must be a URL that begins with http:// or https://"
