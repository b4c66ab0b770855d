"""What `mcpproxy doctor` finds around the daemon: files, scripts, the port, the journal, its own warnings."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpproxy.journal import reading
from mcpproxy.journal.store import FILE
from mcpproxy.paths import ALLOW, Places, nearly_full
from mcpproxy.scripts import REASONS, Scripts
from mcpproxy.settings import Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `remedy` is there when something is wrong."""

    what: str
    remedy: str = ""


def files(places: Places) -> Iterator[Finding]:
    """What others on this machine may read, or may not be ours."""
    private = [places.config, places.state, *listed(places.state), *listed(places.journal)]
    open_to_others, foreign = [], []
    for path in private:
        try:
            found = path.stat()
        except OSError:
            continue  # not there yet
        if found.st_uid != os.getuid():
            foreign.append(path)
        elif found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) and not stat.S_ISSOCK(found.st_mode):
            open_to_others.append(path)
    for path in foreign:
        yield Finding(f"{path} belongs to another user", f"sudo chown {os.getuid()} {quoted(path)}")
    for path in open_to_others:
        yield Finding(f"others may read {path}", f"chmod go= {quoted(path)}")
    if not (open_to_others or foreign):
        yield Finding("the configuration and the state are this user's alone")


def state(places: Places) -> Iterator[Finding]:
    """Whether there is, or can be, a place for the state."""
    try:
        above = nearest(places.state)
        writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
        why = "" if writable else f"{above} is no directory that can be written to"
    except OSError as error:  # it may not be looked at, or its name is too long
        why = str(error.strerror)
    if why:
        yield Finding(
            f"nothing can be kept in {places.state}: {why}",
            "mend that, or set data_dir in the configuration",
        )


def nearest(path: Path) -> Path:
    """The path, or the folder nearest to it that is there. Raises `OSError` where that can't be seen."""
    for each in (path, *path.parents):
        with suppress(FileNotFoundError, NotADirectoryError):
            each.stat()
            return each
    raise AssertionError("the root is always there")


def listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def scripts(places: Places) -> Iterator[Finding]:
    """Stored scripts that nobody can call."""
    stored = Scripts(places.scripts)
    found = stored.listing()["scripts"]
    for path in stored.misnamed():
        yield Finding(
            f"{path} is no stored script, by its name",
            "call it NAME.js or NAME.ts, with 1-64 characters of A-Za-z0-9_- for NAME",
        )
    for entry in found:
        paths = " and ".join(entry["paths"])
        if entry["status"] == "ambiguous":
            yield Finding(
                f"stored script {entry['name']} is there twice: {paths}", "remove one of them"
            )
        elif entry["status"] == "invalid":
            yield Finding(
                f"stored script {paths} {REASONS[entry['reason']]}", f"mend {entry['paths'][0]}"
            )
    if usable := sum(entry["status"] == "ok" for entry in found):
        yield Finding(f"{usable} stored scripts can be called")


def port(settings: Settings) -> Iterator[Finding]:
    """Whether the address can be had, where no daemon of ours has it."""
    from mcpproxy.serve import InTheWay, tcp_listener

    try:
        with tcp_listener(settings.host, settings.port):
            pass
    except InTheWay as error:
        what, _, remedy = str(error).partition("; ")
        yield Finding(what, remedy)


def journal(places: Places, settings: Settings) -> Iterator[Finding]:
    """Whether the journal can be read, where no daemon says how it is."""
    if not settings.activity_enabled:
        yield Finding("the journal is switched off (activity_enabled)")
        return
    if not (places.journal / FILE).exists():
        return
    try:
        with closing(reading.read(places.journal)) as database:
            reading.page(database, reading.Wanted(), limit=1)
    except (sqlite3.Error, OSError) as error:
        yield broken_journal(places, str(error))
    else:
        yield Finding(f"the journal {places.journal / FILE} can be read")


def broken_journal(places: Places, why: str) -> Finding:
    file = quoted(places.journal / FILE)
    if nearly_full(places.state):
        remedy = f"make room on the disk of {places.state}; then it is on again within a minute"
    elif re.search("malformed|not a database|another version", why) is None:
        remedy = f"{ALLOW}; then it is on again within a minute"
    else:
        remedy = f"mv {file} {file}.broken; a new one is made within a minute, or at the next start"
    return Finding(f"the journal is OFF, so nothing is recorded: {why}", remedy)


def daemon(status: dict[str, Any], places: Places) -> Iterator[Finding]:
    """What a running daemon says of itself."""
    activity = status["activity"]
    if why := activity.get("error"):
        yield broken_journal(places, why)
    elif activity["on"]:
        yield Finding(f"the journal is on, {activity['megabytes']:g} MB")
    else:
        yield Finding("the journal is switched off (activity_enabled)")
    if why := status["config_error"]:
        yield Finding(
            f"the daemon goes on with its old configuration: {why}", f"edit {places.config}"
        )
    if names := status["requires_restart"]:
        yield Finding(
            f"changed, and held only from the next start on: {', '.join(names)}",
            "stop the daemon and start it anew: mcpproxy serve",
        )


def quoted(path: Path) -> str:
    return shlex.quote(str(path))
