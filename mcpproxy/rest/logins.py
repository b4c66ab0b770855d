"""`/api/v1/servers/{name}/login`: sending an operator's browser to log in to a server, and what came of it."""

from __future__ import annotations

from typing import Any

import anyio

from mcpproxy.entries import no_server
from mcpproxy.errors import CallError, Refused
from mcpproxy.rest.routing import Area, Query, Request, Route
from mcpproxy.upstream.login import LOGIN_SECONDS, LoginError
from mcpproxy.upstream.references import Unreachable

LONGEST_LOGIN, LONGEST_WAIT = 3600, 30
BODY = {
    "type": "object",
    "properties": {
        "scopes": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "description": "What to ask for, instead of what the settings or the server say.",
        },
        "seconds": {"type": "integer", "minimum": 1, "maximum": LONGEST_LOGIN},
    },
    "additionalProperties": False,
}
WAIT = Query(
    "wait",
    "for how many seconds to wait until it is over; 0 unless given",
    {"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT},
)
URL = "https://auth.example/authorize?client_id=mcpproxy"


class Logins(Area):
    def routes(self) -> tuple[Route, ...]:
        one = "/api/v1/servers/{name}"
        login = {
            "name": "wiki",
            "state": "logged in",
            "expires_in_seconds": 3412,
            "renewable": True,
        }
        return (
            Route(
                method="GET",
                path="/api/v1/logins",
                summary="The servers that want a login or have one",
                handle=self._list,
                example={"logins": [{**login, "scope": "read", "error": None}]},
            ),
            Route(
                method="POST",
                path=f"{one}/login",
                summary="Begin a login; open `url` in a browser on the daemon's machine",
                handle=self._begin,
                body=BODY,
                body_required=False,
                example={"name": "wiki", "state": "waiting", "url": URL, "seconds": 300},
            ),
            Route(
                method="GET",
                path=f"{one}/login",
                summary="How the last login that was begun stands: waiting, done or failed",
                handle=self._last,
                query=(WAIT,),
                example={"name": "wiki", "state": "done", "error": None},
            ),
            Route(
                method="POST",
                path=f"{one}/logout",
                summary="Forget a login, here and at its authorization server",
                handle=self._log_out,
                example={"name": "wiki", "logged_out": True},
            ),
        )

    async def _list(self, request: Request) -> Any:
        fleet = self._daemon.fleet
        return {"logins": await fleet.logins.states(list(fleet.catalog.servers))}

    async def _begin(self, request: Request) -> Any:
        name, body = self._known(request), request.body
        seconds = body.get("seconds", LOGIN_SECONDS)
        try:
            login = await self._daemon.fleet.log_in(name, tuple(body.get("scopes", ())), seconds)
        except (CallError, LoginError, Unreachable) as error:
            raise Refused("INVALID_REQUEST", str(error)) from error
        if login.error is not None:
            raise Refused("INVALID_REQUEST", f"no login to {name}: {login.error}")
        return {"name": name, "state": login.state, "url": login.url, "seconds": seconds}

    async def _last(self, request: Request) -> Any:
        name = self._known(request)
        login = self._daemon.fleet.logins.last(name)
        if login is None:
            raise Refused(
                "NOT_FOUND",
                f"no login to {name} was begun since the daemon started; POST here begins one",
            )
        with anyio.move_on_after(request.query.get("wait", 0)):
            await login.over.wait()
        if login.state == "done":
            await self._daemon.fleet.known([name])  # it is being connected with it
        return {"name": name, "state": login.state, "error": login.error}

    async def _log_out(self, request: Request) -> Any:
        name = request.parameters["name"]  # a server that was removed may have left a login
        if not await self._daemon.fleet.log_out(name):
            self._known(request)
            raise Refused(
                "NOT_FOUND",
                f"there is no login to {name[:100]!r}; those there are: mcpproxy auth status",
            )
        return {"name": name, "logged_out": True}

    def _known(self, request: Request) -> str:
        name = request.parameters["name"]
        if name not in (known := self._daemon.fleet.catalog.servers):
            raise Refused("NOT_FOUND", no_server(name, list(known)))
        return name
