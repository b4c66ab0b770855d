"""`/api/v1/servers`: what an operator sees of them and does with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mcpproxy.admin import MOST_LINES, Admin
from mcpproxy.rest.config import APPLIED
from mcpproxy.rest.routing import Area, Query, Request, Route
from mcpproxy.status import servers

if TYPE_CHECKING:
    from mcpproxy.daemon import Daemon

ALL, ONE = "/api/v1/servers", "/api/v1/servers/{name}"
STATE = {
    "name": "time",
    "protocol": "stdio",
    "enabled": True,
    "state": "ready",
    "tools": 2,
    "waiting": 0,
    "listing": "live",
    "listing_age_seconds": 12.5,
    "error": None,
    "login": None,
    "next_attempt_in_seconds": None,
    "protocol_version": "2025-11-25",
    "in_flight": 0,
    "queued": 0,
}
LISTED = {**STATE, "instructions": "Times and time zones.", "offers": ["tools"]}
TAIL = Query(
    "tail",
    "how many lines, from the end; 100 unless given",
    {"type": "integer", "minimum": 1, "maximum": MOST_LINES},
)
ENTRY = {
    "type": "object",
    "description": "One entry of `mcpServers`, as it would stand in the configuration.",
    "properties": {
        "name": {"type": "string"},
        "command": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "url": {"type": "string"},
    },
    "required": ["name"],
}


class Servers(Area):
    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        self._admin = Admin(daemon)

    def routes(self) -> tuple[Route, ...]:
        return *self._entries(), *self._acts()

    def _entries(self) -> tuple[Route, ...]:
        """What there is, and changes of it."""
        return (
            Route(
                method="GET",
                path=ALL,
                summary="All servers and their states",
                handle=self._list,
                operators=False,
                example={"servers": [LISTED]},
            ),
            Route(
                method="POST",
                path=ALL,
                summary="Add a server to the configuration and connect it",
                handle=self._add,
                body=ENTRY,
                checked=False,
                example={"server": STATE, **APPLIED},
            ),
            Route(
                method="GET",
                path=ONE,
                summary="A server's state and settings, without its secrets",
                handle=self._show,
                example={**STATE, "settings": {"command": "mcp-server-time"}},
            ),
            Route(
                method="DELETE",
                path=ONE,
                summary="Take a server out of the configuration",
                handle=self._remove,
                example={"name": "time", "removed": True, **APPLIED},
            ),
        )

    def _acts(self) -> tuple[Route, ...]:
        """What is done with one that there is."""
        return (
            *(
                Route(
                    method="POST",
                    path=f"{ONE}/{verb}",
                    summary=f"Switch a server {'on' if on else 'off'}, in the configuration",
                    handle=partial(self._switch, on),
                    example={"server": STATE, **APPLIED},
                )
                for verb, on in (("enable", True), ("disable", False))
            ),
            Route(
                method="POST",
                path=f"{ONE}/restart",
                summary="Connect a server anew; its state once that was tried",
                handle=self._restart,
                example=STATE,
            ),
            Route(
                method="GET",
                path=f"{ONE}/logs",
                summary="The last lines that a server wrote to stderr",
                handle=self._logs,
                query=(TAIL,),
                example={"name": "time", "path": "logs/server-time.log", "lines": ["ready"]},
            ),
        )

    async def _list(self, request: Request) -> Any:
        return {"servers": servers(self._daemon, request.caller)}

    async def _add(self, request: Request) -> Any:
        return await self._admin.add(request.body)

    async def _show(self, request: Request) -> Any:
        return self._admin.show(request.parameters["name"])

    async def _remove(self, request: Request) -> Any:
        return await self._admin.remove(request.parameters["name"])

    async def _switch(self, on: bool, request: Request) -> Any:
        return await self._admin.enable(request.parameters["name"], on)

    async def _restart(self, request: Request) -> Any:
        return await self._admin.restart(request.parameters["name"])

    async def _logs(self, request: Request) -> Any:
        return await self._admin.logs(request.parameters["name"], request.query.get("tail", 100))
