"""Servers out of the configurations of other clients: Claude Desktop, Claude Code, Cursor, VS Code.

What such a file says is turned into entries of ours, and what can't be is reported with its reason;
nothing is guessed. `${…}` becomes the one form that we have, `${env:NAME}`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode")
PROTOCOLS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
TAKEN = {
    "type", "transport", "command", "args", "env", "url", "serverUrl", "headers", "cwd",
    "disabled", "enabled", "name",
}  # fmt: skip
"""What is read of an entry; anything else that it says is reported as left behind."""
OURS = ("127.0.0.1", "localhost", "[::1]", "::1")
VARIABLE = re.compile(r"\$\{([^{}]*)\}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 128


class Unusable(Exception):
    """An entry can't be taken over; the message says why."""


@dataclass(slots=True)
class Found:
    """What became of a file."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Name and reason."""
    notes: list[str] = field(default_factory=list)
    """What was taken over, but not as it was, or wants something done."""


def places(client: str, home: Path, here: Path) -> list[Path]:
    """Where a client keeps its servers: for the user, then for the project in `here`."""
    if sys.platform == "darwin":
        apps = home / "Library" / "Application Support"
    else:
        apps = home / ".config"
    match client:
        case "claude-desktop":
            return [apps / "Claude" / "claude_desktop_config.json"]
        case "claude-code":
            return [home / ".claude.json", here / ".mcp.json"]
        case "cursor":
            return [home / ".cursor" / "mcp.json", here / ".cursor" / "mcp.json"]
        case "vscode":
            return [apps / "Code" / "User" / "mcp.json", here / ".vscode" / "mcp.json"]
    raise ValueError(f"unknown client {client!r}")


def take(document: Any, here: Path, home: Path, known: Mapping[str, Any], port: int) -> Found:
    """The servers in a client's document. `known` are ours by name; `port` is where we listen."""
    found = Found()
    inputs = _inputs(document)
    ours = dict(known)
    for name, entry in _servers(document, here):
        try:
            made = _entry(name, entry, inputs, home, found.notes)
            if _is_us(made, port):
                raise Unusable("it is mcpproxy itself")
            if made["name"] in ours:
                same = _same(ours[made["name"]], made)
                raise Unusable(
                    "it is there already"
                    if same
                    else f"another server is called '{made['name']}'; rename one of them"
                )
        except Unusable as error:
            found.skipped[name] = str(error)
            continue
        ours[made["name"]] = made
        found.entries.append(made)
    return found


def _servers(document: Any, here: Path) -> Iterator[tuple[str, Any]]:
    """Names and entries: at the top, below `mcp` (VS Code's settings), and in Claude Code's project."""
    if not isinstance(document, dict):
        return
    projects = document.get("projects")
    project = projects.get(str(here)) if isinstance(projects, dict) else None
    for part in (document, document.get("mcp"), project):
        if not isinstance(part, dict):
            continue
        for key in ("mcpServers", "servers"):
            if isinstance(servers := part.get(key), dict):
                yield from servers.items()


def _inputs(document: Any) -> dict[str, str]:
    """VS Code's `inputs`: what each of them asks for."""
    listed: Iterable[Any] = document.get("inputs") or () if isinstance(document, dict) else ()
    return {
        str(each["id"]): str(each.get("description") or each["id"])
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and "id" in each
    }


def _entry(
    name: str, entry: Any, inputs: Mapping[str, str], home: Path, notes: list[str]
) -> dict[str, Any]:
    """Raises `Unusable`."""
    if not isinstance(entry, dict):
        raise Unusable("it is no object")
    wanted: list[str] = []

    def text(value: Any, where: str) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise Unusable(f"{where} is no text")
        return VARIABLE.sub(lambda match: _variable(match[1], where, inputs, home, wanted), value)

    def texts(key: str) -> dict[str, str]:
        values = entry.get(key) or {}
        if not isinstance(values, dict):
            raise Unusable(f"{key} is no object")
        return {str(k): text(v, f"{key}.{k}") for k, v in values.items() if v is not None}

    made: dict[str, Any] = {"name": valid(name)}
    kind = entry.get("type") or entry.get("transport")
    if kind is not None and kind not in PROTOCOLS:
        raise Unusable(f"its type {kind!r} is not supported")
    url = entry.get("url") or entry.get("serverUrl")
    if entry.get("command") and url and kind is None:
        raise Unusable("it has both command and url, and no type that says which one is meant")
    if entry.get("command") and kind not in ("http", "sse"):
        made["command"] = text(entry["command"], "command")
        args = entry.get("args") or []
        if not isinstance(args, list):
            raise Unusable("args is no array")
        if args:
            made["args"] = [text(arg, f"args[{n}]") for n, arg in enumerate(args)]
        if entry.get("cwd"):
            made["working_dir"] = text(entry["cwd"], "cwd")
    elif url:
        if kind is not None:
            made["protocol"] = PROTOCOLS[kind]
        made["url"] = text(url, "url")
    else:
        raise Unusable("it has neither command nor url")
    for key in ("env", "headers"):
        if values := texts(key):
            made[key] = values
    if entry.get("disabled") is True or entry.get("enabled") is False:
        made["enabled"] = False
    if made["name"] != name:
        notes.append(f"{name}: is called '{made['name']}' here")
    notes += [f"{made['name']}: {each}" for each in dict.fromkeys(wanted)]
    if left := sorted(set(entry) - TAKEN):
        notes.append(f"{made['name']}: without {', '.join(left)}, which have no counterpart here")
    return made


def valid(name: str) -> str:
    """The name as one of ours. Raises `Unusable`."""
    found = name.replace(":", "-").strip()[:LONGEST]
    if not found:
        raise Unusable("it has no name")
    return found


def _variable(
    inside: str, where: str, inputs: Mapping[str, str], home: Path, wanted: list[str]
) -> str:
    """What stands for `${inside}` here. Raises `Unusable`."""
    kind, colon, rest = inside.partition(":")
    if kind == "env" and NAME.fullmatch(rest):
        return f"${{env:{rest}}}"
    if kind == "input" and rest:
        variable = re.sub(r"[^A-Za-z0-9]+", "_", rest).strip("_").upper()
        variable = variable if NAME.fullmatch(variable) else f"INPUT_{variable}"
        wanted.append(
            f"set {variable} in the daemon's environment ({inputs.get(rest, 'an input of VS Code')})"
        )
        return f"${{env:{variable}}}"
    if inside == "userHome":
        return str(home)
    if inside in ("pathSeparator", "/"):
        return "/"
    if NAME.fullmatch(kind) and (not colon or rest.startswith("-")) and kind.upper() == kind:
        if colon:  # ${NAME:-default}, as Claude Code has it
            wanted.append(f"{where} has no default here: set {kind} in the daemon's environment")
        return f"${{env:{kind}}}"
    raise Unusable(f"{where} has ${{{inside}}}, which means nothing outside of that client")


def _is_us(entry: Mapping[str, Any], port: int) -> bool:
    words = [entry.get("command", ""), *entry.get("args", [])]
    if any(Path(word).name == "mcpproxy" for word in words[:3]):
        return True
    try:
        parts = urlsplit(entry.get("url", ""))
        return parts.hostname in OURS and parts.port == port
    except ValueError:
        return False


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two entries reach the same server."""
    keys = ("command", "args", "url", "env", "headers")
    return all((one.get(key) or None) == (other.get(key) or None) for key in keys)
