"""The entries under `mcpServers`, as they stand in the file: found, added, removed, switched.

Each verb takes the document's text and gives the changed one; `change` does that to a file. An
entry that can't be used is still an entry here: it can be removed, and it is in the way of another
with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mcpproxy import edit, jsonc, names, settings
from mcpproxy.errors import SettingsError

TRIES = 5
"""How often we begin anew because somebody else wrote the file in the meantime."""

Alter = Callable[[str], str]


class NoServer(SettingsError):
    """No entry has that name; the message gives the ones that are close to it."""


def listed(document: Any) -> Iterator[tuple[str | int, str, Mapping[str, Any]]]:
    """Place, name and entry of each server, whichever way they are written."""
    found = document.get("mcpServers", []) if isinstance(document, dict) else []
    items = found.items() if isinstance(found, dict) else enumerate(found or [])
    for place, entry in items:
        if isinstance(entry, dict):
            name = entry.get("name")
            yield place, name if isinstance(name, str) and name else str(place), entry


def place(text: str, name: str) -> str | int:
    """Where an entry stands in `mcpServers`. Raises `NoServer`."""
    document = jsonc.loads(text)
    for where, found, _ in listed(document):
        if found == name:
            return where
    raise NoServer(no_server(name, [found for _, found, _ in listed(document)]))


def no_server(name: str, known: list[str]) -> str:
    close = names.close(name, known)
    meant = f"did you mean {' or '.join(map(repr, close))}?" if close else ""
    there = f"there are {', '.join(sorted(known)[:20])}" if known else "there are none"
    return f"there is no server {name[:128]!r} in the configuration; {meant or there}"


def add(text: str, entry: Mapping[str, Any]) -> str:
    """Raises `SettingsError` when its name is taken, or it can't be used; that names the entry's own field."""
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise SettingsError("name: the server needs a name, such as github")
    settings.checked_server(entry, [])
    document = jsonc.loads(text)
    if any(name == found for _, found, _ in listed(document)):
        raise SettingsError(
            f"name: there is a server {name!r} already; choose another name, or remove that one first"
        )
    there = document.get("mcpServers")
    if isinstance(there, dict):
        rest = {key: value for key, value in entry.items() if key != "name"}
        return edit.put(text, ("mcpServers", name), rest)
    if isinstance(there, list):
        return edit.put(text, ("mcpServers", len(there)), dict(entry))
    return edit.put(text, ("mcpServers",), [dict(entry)])


def remove(text: str, name: str) -> str:
    """Raises `NoServer`."""
    return edit.remove(text, ("mcpServers", place(text, name)))


def enable(text: str, name: str, on: bool) -> str:
    """Raises `NoServer`."""
    where = place(text, name)
    entry = jsonc.loads(text)["mcpServers"][where]
    if entry.get("enabled", True) is on:
        return text
    return edit.put(text, ("mcpServers", where, "enabled"), on)


def release(text: str, name: str) -> str:
    """Take `"quarantined": true` out of an entry. Raises `NoServer`."""
    where = place(text, name)
    if jsonc.loads(text)["mcpServers"][where].get("quarantined") is not True:
        return text
    return edit.remove(text, ("mcpServers", where, "quarantined"))


def change(
    path: Path,
    alter: Alter,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> settings.Loaded:
    """Change a file, all or nothing; what comes of it was checked before it is written.

    Raises `SettingsError`, also for a change that would leave out a server which wasn't.
    """

    def read(text: str) -> settings.Loaded:
        return settings.of_text(path, text, environ, overrides)

    for _ in range(TRIES):
        with settings.changing(path):
            text = settings.read(path)
            before, changed = read(text).server_errors, alter(text)
            after = read(changed)
            if broken := [why for name, why in after.server_errors.items() if name not in before]:
                raise SettingsError(broken[0])
            if settings.read(path) != text:
                continue  # an editor takes no turns with us
            if changed != text:
                settings.write(path, changed)
            return after
    raise SettingsError(f"{path} is being written by somebody else; try again")
