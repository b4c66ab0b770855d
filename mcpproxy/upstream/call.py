"""One call to one server, from the moment it may go out, and what went wrong with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcpproxy.errors import CallError
from mcpproxy.upstream.connection import NO_ANSWER, Connection, Json
from mcpproxy.upstream.failure import UNKNOWN
from mcpproxy.upstream.link import Link
from mcpproxy.upstream.patience import Patience
from mcpproxy.upstream.reasons import FAILED, GARBLED

Send = Callable[[Connection, Patience | None], Coroutine[Any, Any, Json]]
"""Makes the request on a connection; whoever it asks meanwhile is asked through the patience, if there is one."""

SESSION_GONE = ("Session not found", "Session terminated")
"""What a server says, with HTTP's 404, that has forgotten us; it has done nothing."""


class Call:
    """One call to one server, from the moment it may go out."""

    __slots__ = ("gate", "link", "raw", "send", "started", "what")

    def __init__(
        self,
        link: Link,
        what: str,
        send: Send,
        started: Callable[[], None],
        gate: Callable[[], object],
        *,
        raw: bool,
    ) -> None:
        self.link = link
        self.what = what
        """The tool, or the method of a raw request."""
        self.send = send
        self.started = started
        self.gate = gate
        """Raises `CallError` where it may not go out any more."""
        self.raw = raw
        """Whether it is any other request than a call of a tool."""

    async def run(self) -> Json:
        """The raw result. A request that the server can't have taken is made once more.

        Raises `CallError`, and `MCPError` where a raw request was refused by the server itself.
        """
        connection = self.link.connection or await connect(self.link)
        self.gate()
        self.started()
        try:
            return await self._send(connection)
        except MCPError as error:
            if not _forgotten(error, connection):
                self._fail(error, connection)
        self.link.drop(connection, "the server has forgotten our session")
        connection = await connect(self.link)
        self.gate()
        try:
            return await self._send(connection)
        except MCPError as error:
            self._fail(error, connection)

    async def _send(self, connection: Connection) -> Json:
        """Raises `MCPError`, and `CallError` when it takes too long."""
        link, seconds = self.link, self.link.terms.call
        link.calls += 1
        try:
            now, until = anyio.current_time(), anyio.current_effective_deadline()
            if until <= now + seconds:  # whoever calls is stopped before that
                if until <= now:
                    await anyio.lowlevel.checkpoint()  # or is already
                return await self.send(connection, None)
            patience = Patience(seconds)
            with patience.scope:
                return await self.send(connection, patience)
        finally:
            link.calls -= 1
            link.used_at = time.monotonic()
        raise CallError(
            "UPSTREAM_TIMEOUT",
            f"{link.settings.name}:{self.what} did not answer within {seconds:g} s (call_tool_timeout); "
            f"it was cancelled, but {UNKNOWN}",
            in_doubt=True,
        )

    def _fail(self, error: MCPError, connection: Connection) -> NoReturn:
        failure = self._failure(error, connection)
        if failure is error:
            raise error  # not from itself: whoever walks the chain of causes would never end
        raise failure from error

    def _failure(self, error: MCPError, connection: Connection) -> Exception:
        where = f"{self.link.settings.name}:{self.what}"
        if error.code == types.CONNECTION_CLOSED:
            return CallError(
                "UPSTREAM_ERROR",
                f"the connection to server '{self.link.settings.name}' ended while {self.what} ran; {UNKNOWN}",
                in_doubt=True,
            )
        account = connection.line.account() if connection.line.way != "stdio" else ""
        if error.message == FAILED and (wait := connection.line.wanted_pause()) is not None:
            return CallError(
                "SERVER_UNAVAILABLE",
                f"{where} was refused: {account}; it asks to be called again in {wait:g} s",
                retry_after_ms=int(wait * 1000) or 1000,
            )
        if error.message == FAILED and self.link.grant.wanted and connection.line.locked():
            why = f"{where} was refused and did nothing: {account}"
            return CallError("SERVER_UNAVAILABLE", why)
        # The server, or what stands before it, may have failed with the work done.
        in_doubt = error.message.startswith(GARBLED) or "(HTTP 5" in account
        doubt = f"; {UNKNOWN}" if in_doubt else ""
        if error.message == FAILED and account:
            return CallError(
                "UPSTREAM_ERROR", f"{where} failed: {account}{doubt}", in_doubt=in_doubt
            )
        if self.raw:
            return error
        said = "; ".join(filter(None, (error.message, account)))
        if error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY:
            said = f"{said}; {NO_ANSWER}"
        said = f"{where} failed: {said} (code {error.code}){doubt}"
        return CallError("UPSTREAM_ERROR", said, in_doubt=in_doubt)


def _forgotten(error: MCPError, connection: Connection) -> bool:
    """Whether a call can't have run, for want of a session. A tool that says the same comes with HTTP's 200."""
    return (
        error.message.startswith(SESSION_GONE)
        and connection.line.way == "streamable-http"
        and "HTTP 404" in connection.line.account()
    )


async def connect(link: Link) -> Connection:
    """The link's connection, if it can be had within the time of a call. Raises `CallError`."""
    found = None
    with anyio.move_on_after(link.terms.call):
        found = await link.connected()
    if found is not None:
        return found
    wait = max(0.0, (link.next_attempt or 0.0) - anyio.current_time())
    when = "it is being connected"
    if wait:
        when = f"the next attempt is in {wait:.1f} s"
    elif link.seen.state == "down" and link.settings.lazy:
        when = "the next call tries again"
    raise CallError(
        "SERVER_UNAVAILABLE",
        f"server '{link.settings.name}' is not available: {link.seen.error or 'no answer yet'}; {when}",
        retry_after_ms=int(wait * 1000) or 1000,
    )
