"""What an operator does with the servers while the daemon runs; REST and the command line share it.

Each verb changes the file and then goes by it, so that nothing is true that the file doesn't say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from mcpproxy import discreet, entries
from mcpproxy.configuration import Applied
from mcpproxy.daemon import Daemon
from mcpproxy.errors import CallError, Refused, SettingsError
from mcpproxy.paths import server_log
from mcpproxy.redaction import SECRETS
from mcpproxy.status import broken
from mcpproxy.tail import tail

MOST_LINES = 10_000
RESTART_SECONDS = 45.0
"""How long whoever restarts a server waits for what comes of it; the attempt has its `init_timeout`."""

Json = dict[str, Any]


class Admin:
    """Verbs over the daemon. All raise `Refused`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    async def apply(self) -> Json:
        """Read the configuration anew."""
        try:
            return (await self._daemon.configuration.reload()).data()
        except SettingsError as error:
            raise Refused("INVALID_REQUEST", f"nothing was changed: {error}") from error

    def configuration(self) -> Json:
        """What is in force, and where it comes from."""
        now = self._daemon.configuration
        found = discreet.configuration(now.loaded)
        return {**found, "requires_restart": now.requires_restart, "error": now.error}

    async def add(self, entry: Json) -> Json:
        applied = await self._change(lambda text: entries.add(text, entry))
        return self._outcome(entry["name"], applied)

    async def remove(self, name: str) -> Json:
        applied = await self._change(lambda text: entries.remove(text, name))
        return {"name": name, "removed": True, **applied.data()}

    async def enable(self, name: str, on: bool) -> Json:
        applied = await self._change(lambda text: entries.enable(text, name, on))
        return self._outcome(name, applied)

    async def restart(self, name: str) -> Json:
        """Connect a server anew; its state after that was tried, or after `RESTART_SECONDS` of trying."""
        self._known(name)
        if (why := self._daemon.server_errors.get(name)) is not None:
            message = f"server {name!r} can't be used as it is written: {why}"
            raise Refused("INVALID_REQUEST", message)
        try:
            with anyio.move_on_after(RESTART_SECONDS) as scope:
                await self._daemon.fleet.restart(name)
        except CallError as error:
            raise Refused("INVALID_REQUEST", error.message) from error
        state = self._state(name)
        if scope.cancelled_caught and state["state"] != "ready":
            state["error"] = f"it is not there after {RESTART_SECONDS:g} s, and is still waited for"
        return state

    def show(self, name: str) -> Json:
        """A server's state and settings. Values that may be secret stay in the file."""
        self._known(name)
        return {**self._state(name), "settings": self._settings(name)}

    async def logs(self, name: str, count: int) -> Json:
        """The last lines that a server wrote to stderr."""
        self._known(name)
        path = server_log(self._daemon.places.logs, name)
        lines = await anyio.to_thread.run_sync(tail, path, count)
        return {"name": name, "path": str(path), "lines": [SECRETS.hide(line) for line in lines]}

    async def _change(self, alter: Callable[[str], str]) -> Applied:
        try:
            return await self._daemon.configuration.change(alter)
        except entries.NoServer as error:
            raise Refused("NOT_FOUND", str(error)) from error
        except SettingsError as error:
            raise Refused("INVALID_REQUEST", str(error)) from error

    def _outcome(self, name: str, applied: Applied) -> Json:
        return {"server": self._state(name), **applied.data()}

    def _names(self) -> list[str]:
        found = [server.name for server in self._daemon.settings.servers]
        return [*found, *self._daemon.server_errors]

    def _known(self, name: str) -> None:
        if name not in self._names():
            raise Refused("NOT_FOUND", entries.no_server(name, self._names()))

    def _state(self, name: str) -> Json:
        for found in self._daemon.fleet.status():
            if found["name"] == name:
                return found
        return broken(name, self._daemon.server_errors.get(name, "it is not in use"))

    def _settings(self, name: str) -> Json | None:
        for server in self._daemon.settings.servers:
            if server.name == name:
                return discreet.shown(server)
        return None
