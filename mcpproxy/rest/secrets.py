"""`/api/v1/secrets`: the named secrets, by name. A value goes in and never comes out."""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from mcpproxy.errors import Refused
from mcpproxy.rest.routing import Area, Request, Route
from mcpproxy.vault import LONGEST, VaultError

VALUE = {
    "type": "object",
    "properties": {"value": {"type": "string", "minLength": 1, "maxLength": LONGEST}},
    "required": ["value"],
    "additionalProperties": False,
}


class Secrets(Area):
    def routes(self) -> tuple[Route, ...]:
        one = "/api/v1/secrets/{name}"
        secret = {"name": "GITHUB_TOKEN", "store": "keyring", "servers": ["github"]}
        return (
            Route(
                method="GET",
                path="/api/v1/secrets",
                summary="The names of the secrets, where each is kept, and the servers that use it",
                handle=self._list,
                example={"secrets": [secret]},
            ),
            Route(
                method="PUT",
                path=one,
                summary="Keep a secret, and connect the servers that refer to it anew",
                handle=self._set,
                body=VALUE,
                example=secret,
            ),
            Route(
                method="DELETE",
                path=one,
                summary="Forget a secret, and name the servers that still refer to it",
                handle=self._delete,
                example={"name": "GITHUB_TOKEN", "removed": True, "servers": ["github"]},
            ),
        )

    async def _list(self, request: Request) -> Any:
        try:
            found = await anyio.to_thread.run_sync(self._daemon.vault.names)
        except VaultError as error:
            raise Refused("INVALID_REQUEST", str(error)) from error
        return {"secrets": [self._shown(name, store) for name, store in found.items()]}

    async def _set(self, request: Request) -> Any:
        name, value = request.parameters["name"], request.body["value"]
        try:
            store = await anyio.to_thread.run_sync(self._daemon.vault.set, name, value)
        except VaultError as error:
            raise Refused("INVALID_REQUEST", str(error)) from error
        found = self._shown(name, store)
        for server in found["servers"]:
            self._daemon.fleet.reconnect(server)
        return found

    async def _delete(self, request: Request) -> Any:
        name = request.parameters["name"]
        try:
            removed = await anyio.to_thread.run_sync(self._daemon.vault.delete, name)
        except VaultError as error:
            raise Refused("INVALID_REQUEST", str(error)) from error
        if not removed:
            raise Refused(
                "NOT_FOUND",
                f"there is no secret {name[:100]!r}; those there are: mcpproxy secrets list",
            )
        return {"name": name, "removed": True, "servers": self._daemon.fleet.refer_to(name)}

    def _shown(self, name: str, store: str) -> dict[str, Any]:
        servers = self._daemon.fleet.refer_to(name)
        return {"name": name, "store": store, "servers": servers}
