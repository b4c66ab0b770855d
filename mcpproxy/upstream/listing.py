"""The list of tools of each server: put together, and kept on disk for when it isn't connected.

One file per server, this user's alone. Its time of change is when the list was last seen to hold.
A file that is for other settings, or can't be read, is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mcpproxy.catalog import Tool
from mcpproxy.paths import file_name, private_directory, replace_file

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings
    from mcpproxy.upstream.era import Era

logger = logging.getLogger(__name__)

LONGEST_HOLD = 86_400
"""Seconds; a server may say any number, also one that no float can hold."""


def merged(
    server: str, known: Mapping[str, Tool], definitions: Iterable[Mapping[str, Any]]
) -> Mapping[str, Tool]:
    """The tools of a list: those known before in the order they had, new ones after them."""
    listed: dict[str, Tool] = {}
    for definition in definitions:
        name = definition["name"]
        before = known.get(name)
        same = before is not None and before.definition == definition
        listed.setdefault(name, before if before and same else Tool(server, definition))
    old = {name: listed[name] for name in known if name in listed}
    return MappingProxyType(old | listed)


def holds(page: Mapping[str, Any]) -> float | None:
    """Seconds for which a server says that a list holds (`ttlMs`), a day at most; None if it doesn't say."""
    found = page.get("ttlMs")
    if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
        return None
    return min(found, LONGEST_HOLD * 1000) / 1000


@dataclass(frozen=True, slots=True)
class Found:
    """The era that a server was found to speak, and when (seconds since 1970)."""

    era: Era
    at: float


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server listed, raw, and when (seconds since 1970)."""

    tools: tuple[Mapping[str, Any], ...]
    instructions: str | None
    at: float
    era: Found | None = None


class Shelf:
    """A server's place in the directory of listings; without a directory nothing is kept."""

    def __init__(self, directory: Path | None, settings: ServerSettings) -> None:
        self._path = directory and directory / f"{file_name(settings.name)}.json"
        self._name = settings.name
        self._of = _identity(settings)
        self._last: object = None

    def load(self) -> Listing | None:
        """The listing that was kept, if there is one for these settings."""
        if self._path is None:
            return None
        try:
            text = self._path.read_bytes()
            at = self._path.stat().st_mtime
        except OSError:
            return None
        try:
            kept = json.loads(text)
            match kept:
                case {"of": self._of, "tools": [*tools], "instructions": str() | None as said}:
                    named = [one for one in tools if isinstance(one, dict)]
                    named = [one for one in named if isinstance(one.get("name"), str)]
                    return Listing(tuple(named), said, at, _found(kept.get("era")))
        except (ValueError, RecursionError):
            logger.warning("the kept list of tools of server '%s' can't be read", self._name)
        return None

    def save(
        self,
        tools: Iterable[Mapping[str, Any]],
        instructions: str | None,
        era: Found | None = None,
    ) -> None:
        """Keep a listing. What can't be written is a warning: the server works without."""
        if self._path is None:
            return
        kept = (list(tools), instructions, era)
        try:
            if kept == self._last and self._path.exists():
                now = time.time()
                os.utime(self._path, (now, now))
                return
            document: dict[str, Any] = {
                "of": self._of,
                "instructions": instructions,
                "tools": kept[0],
            }
            if era is not None:
                document["era"] = [era.era, era.at]
            private_directory(self._path.parent)
            text = json.dumps(document, separators=(",", ":"))
            replace_file(self._path, text.encode(), lasting=False)
            self._last = kept
        except (OSError, ValueError, RecursionError) as error:
            logger.warning("the tools of server '%s' can't be kept: %s", self._name, error)


def _found(kept: object) -> Found | None:
    match kept:
        case ["legacy" | "modern" as era, int() | float() as at]:
            return Found(era, at)
    return None


def _identity(settings: ServerSettings) -> str:
    """Changes with what makes it another server; a hash, as arguments may hold secrets."""
    parts = [
        settings.name, settings.protocol, settings.url,
        settings.command, settings.args, settings.working_dir, settings.directory,
        settings.document, settings.base_url, settings.include, settings.exclude,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
