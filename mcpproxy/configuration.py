"""The configuration while the daemon runs: read anew when its file changes, and changed on request.

Settings are immutable and replaced in one go, by one task at a time. A file that can't be read or
isn't valid replaces nothing: `error` says so until a good one was read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

import anyio

from mcpproxy import entries, settings
from mcpproxy.errors import SettingsError
from mcpproxy.paths import signature
from mcpproxy.settings import Loaded, Settings
from mcpproxy.watching import watch

logger = logging.getLogger(__name__)

RESTART = (
    "listen", "data_dir", "api_key", "require_mcp_auth", "trusted_hosts", "enable_socket",
    "code_execution_pool_size", "code_execution_memory_mb", "code_execution_require_confinement",
    "activity_enabled", "logging",
)  # fmt: skip
"""Settings that what is open already was made with."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of reading the configuration anew."""

    changed: list[str]
    """Settings and servers (`mcpServers.NAME`) that are different from now on."""
    requires_restart: list[str]
    """Settings whose new value holds from the next start on."""
    warnings: list[str]

    def data(self) -> dict[str, Any]:
        return {"applied": True, **asdict(self)}


class Configuration:
    """See the module. `apply` is told of new settings; it must not fail and must not wait."""

    def __init__(self, loaded: Loaded, apply: Callable[[Loaded], None]) -> None:
        self.loaded = loaded
        self.error: str | None = None
        self.requires_restart: list[str] = []
        self._apply = apply
        self._path = loaded.places.config
        self._turn = anyio.Lock()
        self._seen: object = None

    async def reload(self) -> Applied:
        """Read the file anew and go by it. Raises `SettingsError`; then nothing has changed."""
        async with self._turn:
            self._seen = signature(self._path)
            return self._take(await anyio.to_thread.run_sync(self._read))

    async def change(self, alter: entries.Alter) -> Applied:
        """Change the file's text, and go by what it says then.

        Raises `SettingsError`; then neither has changed.
        """

        def write() -> Loaded:
            return entries.change(self._path, alter, self.loaded.environ, self.loaded.overrides)

        async with self._turn:
            # `watch` reads it once more: somebody else may have written right after us.
            return self._take(await anyio.to_thread.run_sync(write))

    def _read(self) -> Loaded:
        try:
            text = settings.read(self._path)
            return settings.of_text(self._path, text, self.loaded.environ, self.loaded.overrides)
        except SettingsError as error:
            self.error = str(error)
            raise

    def _take(self, loaded: Loaded) -> Applied:
        before, wanted = self.loaded.settings, loaded.settings
        self.requires_restart = [
            name
            for name in RESTART
            if getattr(wanted, name) != getattr(before, name)
            and not (name == "api_key" and not wanted.api_key.get_secret_value())
        ]
        running = wanted.model_copy(update={name: getattr(before, name) for name in RESTART})
        applied = Applied(differences(before, running), self.requires_restart, loaded.warnings)
        origins = {
            name: (self.loaded if name.partition(".")[0] in RESTART else loaded).origins.get(name)
            for name in {**self.loaded.origins, **loaded.origins}
        }
        self.loaded = replace(
            loaded,
            settings=running,
            places=self.loaded.places,
            origins={name: origin for name, origin in origins.items() if origin is not None},
        )
        self.error = None
        self._apply(self.loaded)
        return applied

    async def watch(self) -> None:
        """Read the file anew whenever it changes, for ever."""
        await watch(self._look, *{self._path.parent, self._path.resolve().parent})

    async def _look(self) -> None:
        if signature(self._path) == self._seen:
            return
        failed, said = self.error, self.loaded.warnings
        try:
            applied = await self.reload()
        except SettingsError as error:
            logger.error("the configuration stays as it was: %s", error)
            return
        if failed is not None:
            logger.info("the configuration can be used again")
        report(applied, said)


def report(applied: Applied, said: Collection[str]) -> None:
    """Log what came of it; the warnings in `said` were given before."""
    if applied.changed:
        logger.info("the configuration was read anew; changed: %s", ", ".join(applied.changed))
    for text in applied.warnings:
        if text not in said:
            logger.warning("%s", text)
    if applied.requires_restart:
        logger.warning(
            "these settings hold from the next start on: %s", ", ".join(applied.requires_restart)
        )


def differences(before: Settings, after: Settings) -> list[str]:
    """Names of the settings, and of the servers, that differ."""
    found = [
        name
        for name in Settings.model_fields
        if name != "servers" and getattr(before, name) != getattr(after, name)
    ]
    old = {server.name: server for server in before.servers}
    new = {server.name: server for server in after.servers}
    return found + [
        f"mcpServers.{name}" for name in {**old, **new} if old.get(name) != new.get(name)
    ]
