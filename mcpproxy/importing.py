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
    "type", "transport", "command", "args", "env", "url", "serverUrl", "httpUrl", "headers", "cwd",
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
    """Where a client keeps its servers: for the user, then for the project in `here`.

    Raises `ValueError` for one that isn't in `CLIENTS`.
    """
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
            made = _Entry(entry, inputs, home).made(name, found.notes)
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


class _Entry:
    """One entry of another client, being turned into one of ours. Raises `Unusable`."""

    def __init__(self, entry: Any, inputs: Mapping[str, str], home: Path) -> None:
        if not isinstance(entry, dict):
            raise Unusable("it is no object")
        self._entry = entry
        self._inputs = inputs
        self._home = home
        self._wanted: list[str] = []
        """What somebody has to do for it."""

    def made(self, name: str, notes: list[str]) -> dict[str, Any]:
        """Our entry; what is to be said of it goes to `notes`."""
        entry, ours = self._entry, valid(name)
        made = {"name": ours, **self._reached()}
        for key in ("env", "headers"):
            if values := self._texts(key):
                made[key] = values
        if entry.get("disabled") is True or entry.get("enabled") is False:
            made["enabled"] = False
        if ours != name:
            notes.append(f"{name}: is called '{ours}' here")
        notes += [f"{ours}: {each}" for each in dict.fromkeys(self._wanted)]
        if left := sorted(set(entry) - TAKEN):
            notes.append(f"{ours}: without {', '.join(left)}, which have no counterpart here")
        return made

    def _reached(self) -> dict[str, Any]:
        """The part that says how the server is reached."""
        entry = self._entry
        kind = entry.get("type") or entry.get("transport")
        if kind is not None and (not isinstance(kind, str) or kind not in PROTOCOLS):
            raise Unusable(f"its type {kind!r} is not supported")
        url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
        if entry.get("command") and url and kind is None:
            raise Unusable("it has both command and url, and no type that says which one is meant")
        if entry.get("command") and (kind is None or PROTOCOLS[kind] == "stdio"):
            return self._command()
        if not url:
            raise Unusable("it has neither command nor url")
        protocol = {} if kind is None else {"protocol": PROTOCOLS[kind]}
        return {**protocol, "url": self._text(url, "url")}

    def _command(self) -> dict[str, Any]:
        entry = self._entry
        made: dict[str, Any] = {"command": self._text(entry["command"], "command")}
        args = entry.get("args") or []
        if not isinstance(args, list):
            raise Unusable("args is no array")
        if args:
            made["args"] = [self._text(arg, f"args[{n}]") for n, arg in enumerate(args)]
        if entry.get("cwd"):
            made["working_dir"] = self._text(entry["cwd"], "cwd")
        for key, path in made.items():
            place = key == "working_dir" or (key == "command" and "/" in path)
            if place and not path.startswith(("/", "~", "${")):
                self._wanted.append(f"write the whole path of its {key}, {path}")
        return made

    def _texts(self, key: str) -> dict[str, str]:
        values = self._entry.get(key) or {}
        if not isinstance(values, dict):
            raise Unusable(f"{key} is no object")
        return {str(k): self._text(v, f"{key}.{k}") for k, v in values.items() if v is not None}

    def _text(self, value: Any, where: str) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise Unusable(f"{where} is no text")
        return VARIABLE.sub(lambda match: self._variable(match[1], where), value)

    def _variable(self, inside: str, where: str) -> str:
        """What stands for `${inside}` here."""
        kind, colon, rest = inside.partition(":")
        if kind == "env" and NAME.fullmatch(rest):
            return f"${{env:{rest}}}"
        if kind == "input" and rest:
            variable = re.sub(r"[^A-Za-z0-9]+", "_", rest).strip("_").upper()
            variable = variable if NAME.fullmatch(variable) else f"INPUT_{variable}"
            about = self._inputs.get(rest, "an input of VS Code")
            self._wanted.append(f"set {variable} in the daemon's environment ({about})")
            return f"${{env:{variable}}}"
        if inside == "userHome":
            return str(self._home)
        if inside in ("pathSeparator", "/"):
            return "/"
        if NAME.fullmatch(kind) and (not colon or rest.startswith("-")) and kind.upper() == kind:
            if colon:  # ${NAME:-default}, as Claude Code has it
                said = f"{where} has no default here: set {kind} in the daemon's environment"
                self._wanted.append(said)
            return f"${{env:{kind}}}"
        raise Unusable(
            f"{where} has ${{{inside}}}, which means nothing outside of that client; "
            "put what it stands for in its place, and import again"
        )


def valid(name: str) -> str:
    """The name as one of ours. Raises `Unusable`."""
    found = name.replace(":", "-").strip()[:LONGEST]
    if not found:
        raise Unusable("it has no name")
    return found


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
