"""What a login left behind for one server: its tokens, in use, renewed ahead of time and kept on disk.

The SDK's provider holds a lock for as long as a request takes, which would send the calls of a server
one after the other. So it is asked for logins and renewals alone, and calls carry a plain bearer token.
A renewal runs once at a time, in a task that no caller's end can cancel: a refresh token may be good for
one use, and its successor is in the answer.
"""

from __future__ import annotations

import json
import logging
import shlex
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from mcpproxy.redaction import SECRETS
from mcpproxy.upstream.credentials import Kept, end_of, provider_of, read, turn, write
from mcpproxy.upstream.tls import trust

logger = logging.getLogger(__name__)

AHEAD_SECONDS, AHEAD_SHARE = 300.0, 0.2
"""How long before its end a token is renewed: this, or this share of its life if that is less."""
LATE_SECONDS = 5.0
"""A token with less left than this isn't sent any more if it can be renewed."""
RENEW_SECONDS = 15.0
SHORTEST_LIFE = 10.0
"""Between two renewals ahead of time, however short a life the server gives its tokens."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Between renewals that fail for want of an answer."""
LEVELS = {"ok": logging.INFO, "error": logging.WARNING}
OVER = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""What an authorization server says (RFC 6749, 5.2) when only a new login helps."""

Note = Callable[[str, str], None]
"""Told with `ok` or `error`, and a sentence, what becomes of the tokens."""


class Grant:
    """See the module. One for each server by name, whether or not anybody ever logged in."""

    def __init__(
        self, name: str, path: Path | None, tasks: anyio.abc.TaskGroup, note: Note
    ) -> None:
        self.name = name
        self._note = note
        self.kept: Kept | None = None
        self.wanted = False
        """Whether the server wants a login, or another one."""
        self.rejected = False
        """Whether that is so although it was sent a token."""
        self.lacking: str | None = None
        """The scope that the server said is missing, until there is another token."""
        self._path = path
        self._tasks = tasks
        self._trouble: str | None = None
        self._renewing: anyio.Event | None = None
        self._changed = anyio.Event()
        self._pause = FIRST_PAUSE
        self._not_before = 0.0
        self._renewed_at = -SHORTEST_LIFE
        self._hidden: deque[str] = deque()
        self._unsaved = False
        self._file = anyio.Lock()
        """Whose turn it is: a file that is read while it is written would bring back what was before."""

    # what it says of itself

    @property
    def access(self) -> str | None:
        tokens = self.kept and self.kept.tokens
        return tokens.access_token if tokens else None

    @property
    def renewable(self) -> bool:
        tokens = self.kept and self.kept.tokens
        return bool(tokens and tokens.refresh_token)

    @property
    def command(self) -> str:
        return f"mcpproxy auth login {shlex.quote(self.name)}"

    @property
    def scopes(self) -> list[str]:
        """What a login has to ask for, where the server said that a scope is missing: that, and all there is."""
        if not self.lacking:
            return []
        tokens = self.kept and self.kept.tokens
        return [*((tokens.scope if tokens else None) or "").split(), *self.lacking.split()]

    def account(self) -> str:
        """What keeps the server from letting us in, and what to do about it; or nothing."""
        if self.wanted:
            return f"it needs a login: run `{self.command}`"
        if self.lacking:
            return f"its token lacks the scope {self.lacking}: run `{self.command}`"
        return self._trouble or ""

    def status(self) -> dict[str, Any] | None:
        """For `auth status`; None where no login was ever asked for."""
        if self.access is None and not self.wanted:
            return None
        state = "login needed" if self.wanted or self.access is None else "logged in"
        end = self.kept and self.kept.expires_at
        tokens = self.kept and self.kept.tokens
        return {
            "state": state,
            "expires_in_seconds": round(end - time.time()) if end else None,
            "renewable": self.renewable,
            "scope": tokens.scope if tokens else None,
            "error": self.account() or None,
        }

    # tokens for calls

    async def token(self, url: str) -> str | None:
        """The token to send to `url`, if there is one for it."""
        if self.kept is None or self.kept.url != url or (access := self.access) is None:
            return None
        end = self.kept.expires_at
        if end is not None and end - time.time() < LATE_SECONDS and self.renewable:
            return await self.renewed(access) or self.access
        return access

    async def renewed(self, stale: str) -> str | None:
        """A token other than `stale`, after at most one renewal for all who wait; None if there is none."""
        if self.access != stale:
            return self.access
        if not self.renewable:
            return None
        if self._renewing is None:
            if anyio.current_time() < self._not_before:
                return None
            self._renewing = anyio.Event()
            self._tasks.start_soon(self._renew, self._renewing)
        await self._renewing.wait()
        return None if self.access == stale else self.access

    def heard(self, response: httpx2.Response, sent: str | None) -> None:
        """Take note of what the server made of a request with this token, or with none."""
        challenge = response.headers.get("www-authenticate", "").lower()
        if response.status_code == 401:
            # A bare 401 with a token of ours is about that token.
            bearer = "bearer" in challenge or (not challenge and sent is not None)
            self.wanted = bearer and self._trouble is None
            if self.wanted and sent is not None:
                self._reject()
        elif response.status_code == 403 and 'error="insufficient_scope"' in challenge:
            self.lacking = extract_field_from_www_auth(response, "scope")
        elif response.status_code < 400 and sent is not None:
            self.wanted = self.rejected = False

    def _reject(self) -> None:
        self.wanted = self.rejected = True
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def keep_fresh(self) -> None:
        """Renew the token ahead of its end, for as long as that works; ends when a login is needed."""
        while not self.rejected:
            with anyio.move_on_after(self._due()):
                await self._changed.wait()
                continue
            if (access := self.access) is not None:
                await self.renewed(access)

    def _due(self) -> float:
        """Seconds until the next renewal."""
        end = self.kept and self.kept.expires_at
        tokens = self.kept and self.kept.tokens
        if not end or not tokens or not self.renewable:
            return float("inf")
        ahead = min(AHEAD_SECONDS, AHEAD_SHARE * (tokens.expires_in or 0))
        pause = max(self._not_before, self._renewed_at + SHORTEST_LIFE) - anyio.current_time()
        return max(end - ahead - time.time(), pause, 0.0)

    # renewal

    async def _renew(self, over: anyio.Event) -> None:
        try:
            with anyio.move_on_after(RENEW_SECONDS, shield=True) as scope:
                async with turn(self._path):
                    await self._ask()
            if scope.cancelled_caught:
                self._fail(f"no answer within {RENEW_SECONDS:g} s")
        except Exception as error:
            logger.exception("server '%s': a renewal failed in an unexpected way", self.name)
            self._fail(type(error).__name__)
        finally:
            self._renewing = None
            over.set()

    async def _ask(self) -> None:
        """One renewal, whatever comes of it."""
        before = self.access
        await self.load()  # another process may have renewed it
        if self.access != before or self.kept is None:
            return
        try:
            async with httpx2.AsyncClient(verify=trust(), timeout=RENEW_SECONDS) as client:
                request = await provider_of(self.kept)._refresh_token()
                response = await client.send(request)
        except (httpx2.HTTPError, OAuthFlowError, OSError) as error:
            self._fail(f"{error or type(error).__name__}")
            return
        if self.access != before:
            return  # somebody logged in or out meanwhile
        if response.status_code == 200:
            await self._take(response, self.kept)
        elif (said := _error_of(response)) in OVER:
            self._say("error", f"it wants a new login: {said}")
            without = self.kept.model_copy(update={"tokens": None, "expires_at": None})
            await self.adopt(None if said == "invalid_client" else without)
            self._reject()
        else:
            self._fail(f"its authorization server answered HTTP {response.status_code} {said}")

    async def _take(self, response: httpx2.Response, kept: Kept) -> None:
        assert kept.tokens is not None
        try:
            tokens = OAuthToken.model_validate_json(response.content)
        except ValidationError as error:
            self._fail(f"the answer has no token: {error.errors(include_url=False)[0]['msg']}")
            return
        # What a renewal leaves out stays as it was (RFC 6749, 6).
        tokens.scope = tokens.scope or kept.tokens.scope
        tokens.refresh_token = tokens.refresh_token or kept.tokens.refresh_token
        self._say("ok", "its token was renewed")
        self._renewed_at = anyio.current_time()
        await self.adopt(kept.model_copy(update={"tokens": tokens, "expires_at": end_of(tokens)}))

    def _fail(self, why: str) -> None:
        """The token stays: the next try may work."""
        self._not_before = anyio.current_time() + self._pause
        self._trouble = f"its token could not be renewed: {why}; trying again in {self._pause:g} s"
        self._say("error", self._trouble)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _say(self, status: str, said: str) -> None:
        logger.log(LEVELS[status], "server '%s': %s", self.name, said)
        self._note(status, said)

    # keeping

    async def adopt(self, kept: Kept | None) -> None:
        """Go by this from now on, and keep it; None forgets all."""
        if self._path is None:
            self._use(kept)
            return
        with anyio.CancelScope(shield=True):
            async with self._file:
                self._use(kept)
                try:
                    await anyio.to_thread.run_sync(write, self._path, kept)
                except OSError as error:
                    self._unsaved = True
                    logger.error("the login to server '%s' can't be kept: %s", self.name, error)
                else:
                    self._unsaved = False

    async def load(self) -> None:
        """Go by what is on disk, if that is another login than ours."""
        if self._path is None:
            return
        async with self._file:
            if self._unsaved:
                return
            found = await anyio.to_thread.run_sync(read, self._path)
            if found != self.kept:
                self._use(found)

    def _use(self, kept: Kept | None) -> None:
        self.kept = kept
        self.wanted = self.rejected = False
        self.lacking = self._trouble = None
        self._pause, self._not_before = FIRST_PAUSE, 0.0
        if kept is not None:
            self._hide(kept)
        self._tell()

    def _hide(self, kept: Kept) -> None:
        """Hide what is used now, and what was until now; what came before that opens nothing."""
        tokens = kept.tokens
        for value in (
            kept.client.client_secret,
            tokens and tokens.access_token,
            tokens and tokens.refresh_token,
        ):
            if value and value not in self._hidden:
                SECRETS.add(value, f"(login of {self.name})")
                self._hidden.append(value)
        while len(self._hidden) > 6:
            SECRETS.forget(self._hidden.popleft())


class Bearer(httpx2.Auth):
    """Sends a server's token, whoever else is sending; a 401 leads to one renewal and one more try.

    That is safe for any call: a server that answers 401 hasn't done it.
    """

    def __init__(self, grant: Grant, url: str) -> None:
        self._grant = grant
        self._url = url

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await self._grant.token(self._url)
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        # Where renewing didn't help, it is not tried again for each request: a login is needed.
        if response.status_code == 401 and token is not None and not self._grant.rejected:
            newer = await self._grant.renewed(token)
            if newer is not None:
                token = newer
                request.headers["Authorization"] = f"Bearer {token}"
                response = yield request
        self._grant.heard(response, token)


def _error_of(response: httpx2.Response) -> str:
    """The `error` of an OAuth answer; empty where it has none."""
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        return ""
    said = found.get("error") if isinstance(found, dict) else None
    return said[:100] if isinstance(said, str) else ""
