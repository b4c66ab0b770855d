"""From the file to settings: read, checked, and where something is missing made.

The file is shared with other tools, so whatever we don't know in it is kept.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcpproxy import edit, jsonc, names
from mcpproxy.errors import SettingsError
from mcpproxy.paths import Places, places, private_directory, reason, replace_file, sole_writer
from mcpproxy.redaction import SECRETS
from mcpproxy.settings.checking import checked, servers
from mcpproxy.settings.sections import Settings, split_listen

Origin = Literal["file", "environment", "flag"]
VARIABLES = {
    "listen": "MCPPROXY_LISTEN",
    "api_key": "MCPPROXY_API_KEY",
    "data_dir": "MCPPROXY_DATA_DIR",
}
"""Settings that the environment may have, and the variable of each."""
PREFIX = "MCPPROXY_"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and what was to be said about their source."""

    settings: Settings
    places: Places
    warnings: list[str] = field(default_factory=list)
    server_errors: dict[str, str] = field(default_factory=dict)
    """Servers that were left out, by name (or by place in the file), and why."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    overrides: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What beats the file, when it is read anew, too; members of a section by both names (`logging.level`)."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Where settings come from that aren't at their default; named as in `overrides`."""


def load(
    path: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
    *,
    create: bool = False,
) -> Loaded:
    """The settings of a file; flags (`overrides`) beat the environment beats the file.

    With `create`, a file that isn't there is made, with a key. Raises `SettingsError`.
    """
    if create and not path.exists():
        _create(path)
    text = read(path)
    if not _has_key(parse(path, text)) and not environ.get(VARIABLES["api_key"]):
        text = _with_key(path)
    return of_text(path, text, environ, overrides)


def of_text(
    path: Path,
    text: str,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings of what is, or will be, in a file. Raises `SettingsError`."""
    doubled: list[str] = []
    loaded = check(path, parse(path, text, doubled), environ, overrides)
    loaded.warnings.extend(
        f"'{name}' is there twice in one object, and only the last of them counts; take the others out"
        for name in dict.fromkeys(doubled)
    )
    return loaded


def check(
    path: Path,
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings of a document. Raises `SettingsError`."""
    document = dict(document)
    warnings: list[str] = []
    errors: dict[str, str] = {}
    document["mcpServers"] = list(servers(document.get("mcpServers", []), errors, warnings))
    document.pop("servers", None)
    origins: dict[str, Origin] = dict(_named(document))
    for name, variable in VARIABLES.items():
        if value := environ.get(variable):
            document[name], origins[name] = value, "environment"
    warnings += _meant(environ)
    for name, value in (overrides or {}).items():
        if value is not None:
            document, origins[name] = _with(document, name, value), "flag"
    try:
        settings = checked(Settings, document, "", warnings)
        split_listen(settings.listen)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    except ValueError as error:
        other = {"environment": VARIABLES["listen"], "flag": "--listen"}
        given = other.get(origins.get("listen", ""), f"{path}: listen")
        raise SettingsError(f"{given} {error}") from error
    SECRETS.add(settings.api_key.get_secret_value(), "(api_key)")
    warnings += [f"server '{name}' is left out: {reason}" for name, reason in errors.items()]
    known = {server.name for server in settings.servers} | errors.keys()
    warnings += [
        f"profile '{name}' names the server '{each}', which is not configured"
        for name, members in settings.profiles.items()
        for each in members
        if each not in known
    ]
    there = places(path, Path(settings.data_dir) if settings.data_dir else None)
    return Loaded(settings, there, warnings, errors, environ, overrides or {}, origins)


def _meant(environ: Mapping[str, str]) -> Iterator[str]:
    """What to say of variables that look as if they were to set something, and don't."""
    known = [variable.removeprefix(PREFIX) for variable in VARIABLES.values()]
    for variable in sorted(environ.keys() - set(VARIABLES.values())):
        rest = variable.removeprefix(PREFIX)
        if rest != variable and rest.lower() in Settings.model_fields:
            yield f"the variable {variable} has no effect; set {rest.lower()} in the configuration"
        elif rest != variable and (near := names.close(rest, known, 1)):
            yield f"the variable {variable} has no effect; did you mean {PREFIX}{near[0]}?"


def _named(document: Mapping[str, Any]) -> Iterator[tuple[str, Origin]]:
    """What a document sets, members of sections as well."""
    for name, value in document.items():
        yield name, "file"
        if isinstance(value, dict):
            yield from ((f"{name}.{member}", "file") for member in value)


def _with(document: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The document with another value for a setting, or for a member of a section."""
    section, dot, member = name.partition(".")
    if not dot:
        return {**document, name: value}
    there = document.get(section, {})
    return {**document, section: {**there, member: value} if isinstance(there, dict) else there}


def read(path: Path) -> str:
    """The text of a file, its line ends as they are. Raises `SettingsError`."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError as error:
        raise SettingsError(
            f"there is no configuration at {path}: give another with --config"
        ) from error
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path} can't be read: it is not UTF-8, as byte {error.start} shows"
        ) from error


def parse(path: Path, text: str, doubled: list[str] | None = None) -> dict[str, Any]:
    """The document in a file's text; `doubled` is that of `jsonc.loads`. Raises `SettingsError`."""
    try:
        document = jsonc.loads(text, doubled)
    except ValueError as error:
        raise SettingsError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise SettingsError(f'{path} must hold a JSON object, such as {{"mcpServers": []}}')
    return document


def write(path: Path, text: str) -> None:
    """Replace a file at once, readable by this user alone; where it is a link, what that leads to.

    Raises `SettingsError`.
    """
    try:
        replace_file(path.resolve(), text.encode())
    except OSError as error:
        raise SettingsError(f"{path} can't be written: {reason(error)}") from error


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Keep other processes of ours from changing a file meanwhile. Raises `SettingsError`."""
    with ExitStack() as held:
        try:
            held.enter_context(sole_writer(path.resolve().parent))
        except OSError as error:
            raise SettingsError(f"{path} can't be written: {reason(error)}") from error
        yield


def _create(path: Path) -> None:
    try:
        private_directory(path.parent)
    except OSError as error:
        raise SettingsError(f"{path} can't be written: {reason(error)}") from error
    with changing(path):
        if not path.exists():  # nobody was quicker
            text = json.dumps({"listen": "127.0.0.1:8080", "mcpServers": []}, indent=2)
            write(path, text + "\n")


def _has_key(document: Mapping[str, Any]) -> bool:
    return bool(document.get("api_key", "") != "")


def _with_key(path: Path) -> str:
    """The text, once a key is in the file: ours, or that of whoever was quicker."""
    with changing(path):
        text = read(path)
        if not _has_key(parse(path, text)):
            write(path, edit.put(text, ("api_key",), secrets.token_hex(32)))
        return read(path)
