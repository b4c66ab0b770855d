"""`/api/v1/tokens`: agents' tokens. An operator's alone."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import anyio

from mcpproxy.journal import changes
from mcpproxy.policy import PERMISSIONS
from mcpproxy.rest.routing import Area, Json, Request, Route
from mcpproxy.tokens import ALL, CEILINGS, DEFAULT_LIFETIME

EXPIRES = {
    "type": "string",
    "pattern": "^[1-9][0-9]{0,5}[mhdw]$",
    "description": f"For how long, such as 30d or 12h; at most 365d. {DEFAULT_LIFETIME} unless given.",
}
WANTED = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"},
        "allowed_servers": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": 'The servers it may use; ["*"] for all.',
        },
        "permissions": {
            "type": "array",
            "items": {"enum": list(PERMISSIONS)},
            "description": "What its tools may do; read alone unless given.",
        },
        "expires_in": EXPIRES,
        **{name: {"type": "integer", "minimum": 1, "maximum": most} for name, most in CEILINGS.items()},
    },
    "required": ["name", "allowed_servers"],
    "additionalProperties": False,
}  # fmt: skip
RENEWED = {
    "type": "object",
    "properties": {"expires_in": EXPIRES},
    "additionalProperties": False,
}
TOKEN = {
    "name": "ci",
    "allowed_servers": ["github"],
    "permissions": ["read"],
    "created_at": "2026-11-30T08:00:00Z",
    "expires_at": "2026-12-30T08:00:00Z",
    "expired": False,
    **dict.fromkeys(CEILINGS),
}
SECRET = {**TOKEN, "token": "mcp_agt_…"}
MADE = {**SECRET, "warnings": []}


class Tokens(Area):
    def routes(self) -> tuple[Route, ...]:
        one = "/api/v1/tokens/{name}"
        return (
            Route(
                method="GET",
                path="/api/v1/tokens",
                summary="All tokens, without their secrets",
                handle=self._list,
                example={"tokens": [TOKEN]},
            ),
            Route(
                method="POST",
                path="/api/v1/tokens",
                summary="Make a token; its secret is shown this once",
                handle=self._create,
                body=WANTED,
                checked=False,
                example=MADE,
            ),
            Route(
                method="GET",
                path=one,
                summary="What a token may do, and until when",
                handle=self._show,
                example=TOKEN,
            ),
            Route(
                method="DELETE",
                path=one,
                summary="Revoke a token; it lets nobody in from now on",
                handle=self._revoke,
                example={"name": "ci", "revoked": True},
            ),
            Route(
                method="POST",
                path=f"{one}/regenerate",
                summary="Give a token another secret, which is shown this once",
                handle=self._regenerate,
                body=RENEWED,
                body_required=False,
                checked=False,
                example=SECRET,
            ),
        )

    async def _list(self, request: Request) -> Any:
        return {"tokens": await in_thread(self._daemon.tokens.listing)}

    async def _create(self, request: Request) -> Any:
        made = await in_thread(self._daemon.tokens.create, request.body)
        known = {ALL, *self._daemon.catalog_for(request.caller).servers}
        missing = [name for name in made["allowed_servers"] if name not in known]
        self._note(request, "made", made)
        return {**made, "warnings": [f"there is no server {name!r} now" for name in missing]}

    async def _show(self, request: Request) -> Any:
        return await in_thread(self._daemon.tokens.show, request.parameters["name"])

    async def _revoke(self, request: Request) -> Any:
        revoked = await in_thread(self._daemon.tokens.revoke, request.parameters["name"])
        self._note(request, "revoked", revoked)
        return revoked

    async def _regenerate(self, request: Request) -> Any:
        name = request.parameters["name"]
        renewed = await in_thread(self._daemon.tokens.regenerate, name, request.body)
        self._note(request, "renewed", renewed)
        return renewed

    def _note(
        self, request: Request, change: Literal["made", "revoked", "renewed"], found: Json
    ) -> None:
        """Put it on record, without the secret."""
        changes.token(self._daemon.journal, change, found, request.caller.name, request.request_id)


async def in_thread(verb: Any, *args: Any) -> Any:
    """The files wait for whoever writes them."""
    return await anyio.to_thread.run_sync(partial(verb, *args))
