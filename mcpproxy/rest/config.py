"""The configuration: what is in force of it, and reading it anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpproxy.admin import Admin
from mcpproxy.rest.routing import Area, Request, Route

if TYPE_CHECKING:
    from mcpproxy.daemon import Daemon

APPLIED = {
    "applied": True,
    "changed": ["mcpServers.time"],
    "requires_restart": [],
    "warnings": [],
}
CONFIGURATION: dict[str, Any] = {
    "config": "~/.mcpproxy/mcp_config.json",
    "state": "~/.local/state/mcpproxy",
    "logs": "~/.local/state/mcpproxy/log",
    "settings": {
        "listen": {"value": "127.0.0.1:8080", "from": "file"},
        "call_tool_timeout": {"value": "120s", "from": "default"},
    },
    "mcpServers": {"time": {"name": "time", "command": "mcp-server-time"}},
    "left_out": {},
    "requires_restart": [],
    "error": None,
}


class Config(Area):
    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        self._admin = Admin(daemon)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/api/v1/config",
                summary="The settings in force and where each comes from, without secrets",
                handle=self._configuration,
                example=CONFIGURATION,
            ),
            Route(
                method="POST",
                path="/api/v1/config/apply",
                summary="Read the configuration anew",
                handle=self._apply,
                example=APPLIED,
            ),
        )

    async def _configuration(self, request: Request) -> Any:
        return self._admin.configuration()

    async def _apply(self, request: Request) -> Any:
        return await self._admin.apply()
