"""The logins to all servers: what each has, one that is under way, and how to end one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.abc
import httpx2
from mcp.client.auth import OAuthFlowError

from mcpproxy.upstream.credentials import place, provider_of
from mcpproxy.upstream.dial import address, own_key, ways
from mcpproxy.upstream.grant import Grant
from mcpproxy.upstream.login import Client, Login, LoginError
from mcpproxy.upstream.references import References
from mcpproxy.upstream.tls import trust

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

logger = logging.getLogger(__name__)

REVOKE_SECONDS = 10.0

Note = Callable[[str, str, str], None]
"""Server, `ok` or `error`, and a sentence."""


def _nothing(server: str, status: str, said: str) -> None:
    """The default of `note`."""


class Logins:
    """See the module. `directory` is where they are kept; without one they end with us."""

    def __init__(
        self, tasks: anyio.abc.TaskGroup, references: References, directory: Path | None
    ) -> None:
        self._tasks = tasks
        self._references = references
        self._directory = directory
        self._grants: dict[str, Grant] = {}
        self._running: dict[str, Login] = {}
        self.note: Note = _nothing
        """Told of what becomes of the logins."""

    def grant(self, name: str) -> Grant:
        """What the login to this server left, if there was one."""
        if name not in self._grants:
            path = self._directory and place(self._directory, name)
            self._grants[name] = Grant(name, path, self._tasks, partial(self._heard, name))
        return self._grants[name]

    def _heard(self, name: str, status: str, said: str) -> None:
        self.note(name, status, said)

    def last(self, name: str) -> Login | None:
        """The login that runs, or ran last."""
        return self._running.get(name)

    async def states(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """Of these servers, those that want a login or have one; see `Grant.status`."""
        found = []
        for name in names:
            grant = self.grant(name)
            await grant.load()
            if (status := grant.status()) is not None:
                found.append({"name": name, **status})
        return found

    async def begin(
        self,
        server: ServerSettings,
        scopes: tuple[str, ...],
        seconds: float,
        then: Callable[[], None],
    ) -> Login:
        """A login whose URL is known, or that has failed; `then` is called when it is done.

        One that runs for the same server is given up. Raises `LoginError`, `Unreachable`.
        """
        client = await self._client(server, scopes)
        if (running := self._running.get(server.name)) is not None:
            running.scope.cancel()
            await running.over.wait()
        grant = self.grant(server.name)
        await grant.load()
        login = self._running[server.name] = Login(grant, client, seconds)
        self._tasks.start_soon(self._finish, server.name, login, then)
        await login.known.wait()
        return login

    async def _client(self, server: ServerSettings, scopes: tuple[str, ...]) -> Client:
        from mcpproxy.settings import OAuth

        if ways(server)[0] not in ("streamable-http", "sse"):
            raise LoginError(
                f"server '{server.name}' has no url, and only servers on HTTP take a login from us; "
                "give it what it needs in its env or args"
            )
        if own_key(server):
            raise LoginError(
                f"server '{server.name}' has an Authorization in its headers, which is sent instead; "
                "remove that first"
            )
        await self._references.fetch(server)
        url, headers = address(server, self._references)
        oauth = server.oauth or OAuth.model_validate({})
        found = {
            name: value and self._references.resolve(value, f"oauth.{name}")
            for name, value in (
                ("client_id", oauth.client_id),
                ("client_secret", oauth.client_secret),
            )
        }
        wanted = scopes or dict.fromkeys([*oauth.scopes, *self.grant(server.name).scopes])
        return Client(url, headers, oauth, **found, scopes=tuple(wanted))

    async def end(self, name: str) -> bool:
        """Forget a login, here and (where that is offered) at its server; whether there was one."""
        if (running := self._running.pop(name, None)) is not None:
            running.scope.cancel()
        grant = self.grant(name)
        await grant.load()
        if grant.kept is None:
            return False
        await revoke(grant)
        await grant.adopt(None)
        self.note(name, "ok", "logged out")
        return True

    async def _finish(self, name: str, login: Login, then: Callable[[], None]) -> None:
        await login.run()
        if login.state == "done":
            self.note(name, "ok", "logged in")
            then()
        else:
            self.note(name, "error", login.error or "given up")


async def revoke(grant: Grant) -> None:
    """Tell the authorization server that a login is over (RFC 7009). It works without: the tokens are gone."""
    kept = grant.kept
    if not (kept and kept.tokens and kept.server and kept.server.revocation_endpoint):
        return
    kind = "refresh_token" if kept.tokens.refresh_token else "access_token"
    form = {
        "token": getattr(kept.tokens, kind),
        "token_type_hint": kind,
        "client_id": kept.client.client_id,
    }
    try:
        form, headers = provider_of(kept).context.prepare_token_auth(form, {})
        async with httpx2.AsyncClient(verify=trust(), timeout=REVOKE_SECONDS) as client:
            await client.post(str(kept.server.revocation_endpoint), data=form, headers=headers)
    except (httpx2.HTTPError, OAuthFlowError) as error:
        logger.warning("server '%s' was not told of the logout: %s", grant.name, error)
