"""Which servers there are: a member for each that the settings name, kept or replaced as they change.

A member that is let go stays with the calls that run on it until they have ended.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from mcpproxy import approvals
from mcpproxy.approvals import Standing
from mcpproxy.baseline import Baseline
from mcpproxy.catalog import Server
from mcpproxy.errors import CallError
from mcpproxy.listed import Kind, Listed, Sorted
from mcpproxy.switches import Switches
from mcpproxy.upstream.connection import Connection
from mcpproxy.upstream.dial import Means
from mcpproxy.upstream.limits import Limiter
from mcpproxy.upstream.link import Link
from mcpproxy.upstream.logins import Logins
from mcpproxy.upstream.terms import dialled, limits, terms

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings, Settings

Others = Mapping[Kind, Mapping[str, Listed]]
Also = Callable[[Connection], Awaitable[Others]]
"""Asks a server for its prompts and resources."""

RESTING = {
    "disabled": "SERVER_UNAVAILABLE",
    "quarantined": "QUARANTINED",
    "blocked": "QUARANTINED",
}
"""The code of a call to a server that stays unconnected."""


class Member:
    """A link, its limits, and the scope of its task."""

    def __init__(self, link: Link, limiter: Limiter, standing: Standing) -> None:
        self.link = link
        self.standing = standing
        self.limiter = limiter
        self.scope = anyio.CancelScope()
        self.calls = 0
        """Calls that have got their turn."""
        self.idle = anyio.Event()
        """Set when the last of them has ended after the link was let go."""
        self.leaving = False

    def leave(self) -> None:
        """A call has ended."""
        self.calls -= 1
        if self.leaving and not self.calls:
            self.idle.set()

    async def keep(self) -> None:
        """Keep it connected until its scope is cancelled."""
        with self.scope:
            await self.link.keep()

    async def outlive(self) -> None:
        """Close the link after its calls, which have a time limit of their own."""
        with anyio.move_on_after(2 * self.link.terms.call):
            await self.idle.wait()
        self.scope.cancel()

    def status(self, shown: Server) -> dict[str, Any]:
        """How it is; `shown` is what callers get to see of it."""
        link = self.link
        at, pause = link.next_attempt, None
        if at is not None:
            pause = round(max(0.0, at - anyio.current_time()), 1)
        return {
            "name": link.settings.name,
            "protocol": link.settings.protocol,
            "enabled": link.settings.enabled,
            "state": link.seen.state,
            "tools": len(shown.tools),
            "waiting": shown.waiting,
            **_listing(link),
            "error": link.seen.error,
            "login": link.grant.status(),
            "next_attempt_in_seconds": pause,
            "protocol_version": link.version,
            "in_flight": self.limiter.running,
            "queued": self.limiter.queued,
        }


def _listing(link: Link) -> dict[str, Any]:
    """Whether the tools are those of a connection, or those of an earlier one, and how old they are."""
    if link.listed_at is None or not link.seen.tools:
        return {"listing": None, "listing_age_seconds": None}
    return {
        "listing": "live" if link.seen.state == "ready" else "kept",
        "listing_age_seconds": round(max(0.0, time.time() - link.listed_at), 1),
    }


class Members:
    """See the module. `changed` is called when a link has something else to show."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        settings: Settings,
        means: Means,
        listings: Path | None,
        baseline: Baseline | None,
        logins: Logins,
        changed: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.by_name: dict[str, Member] = {}
        """In the order of the configuration."""
        self._switches = Switches()
        self._tasks = tasks
        self._means = means
        self._listings = listings
        self._baseline = baseline
        self._logins = logins
        self._changed = changed

    def awake(self, name: str) -> Member:
        """The one of this name, if it may be called. Raises `CallError`."""
        member = self.by_name.get(name)
        if member is None:
            # Names that are close to it are the gates' to give: they know who asks.
            why = f"there is no server '{name}' any more; list_servers shows those there are"
            raise CallError("SERVER_NOT_FOUND", why)
        seen = member.link.seen
        if (code := RESTING.get(seen.state)) is not None:
            why = f"server '{name}' is not available: {seen.error}"
            raise CallError(code, why, retryable=False)  # but by an operator's act
        return member

    def shown(self, link: Link) -> Server:
        """What callers get to see of a server."""
        entry, seen = link.settings, link.seen
        if self._baseline is not None:
            seen = self._baseline.judge(entry, seen)
        return self._switches.judge(entry, seen)

    def sort_listed(self, server: str, kind: Kind, found: Mapping[str, Listed]) -> Sorted:
        """What callers get to see of a list of prompts or resources."""
        member = self.by_name.get(server)
        if self._baseline is None or member is None:
            return Sorted(found, {}, {})
        return self._baseline.sort_listed(member.link.settings, kind, found)

    def become(self, settings: Settings) -> None:
        """Connect what the settings name, and let go of the rest. What didn't change stays connected."""
        self.settings = settings
        if self._baseline is not None:
            self._baseline.become(settings)
        before, self.by_name = self.by_name, {}
        for server in settings.servers:
            self.by_name[server.name] = self._member(server, before.pop(server.name, None))
        for member in before.values():
            self._let_go(member)

    def renew(self, name: str) -> bool:
        """Put another member in the place of one; whether there was one."""
        if (known := self.by_name.get(name)) is None:
            return False
        self._let_go(known)
        self.by_name[name] = self._fresh(known.link.settings, known)
        return True

    async def look(self, name: str, also: Also) -> Server:
        """What a server lists that is in quarantine: it is connected for that alone. Raises `KeyError`."""
        known = self.by_name[name].link
        entry = known.settings.model_copy(update={"lazy": False})
        link = Link(entry, known.terms, self._means, self._logins.grant(name), lambda: None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.keep)
            await link.settled.wait()
            seen = link.seen
            if (connection := link.connection) is not None:
                seen = replace(seen, others=await also(connection))
            tasks.cancel_scope.cancel()
        return seen

    def _member(self, server: ServerSettings, known: Member | None) -> Member:
        """The member as it is, if it is dialled as before; else another one."""
        if known is not None:
            link = known.link
            known.limiter.become(*limits(server, self.settings))
            same = known.standing == self._standing(server)
            if same and dialled(link.settings) == dialled(server):
                link.settings = server
                link.terms = terms(server, self.settings)
                return known
            self._let_go(known)
        return self._fresh(server, known)

    def _fresh(self, server: ServerSettings, known: Member | None) -> Member:
        """A member with a link of its own, and the occupancy of the one before."""
        now, most = self._standing(server), limits(server, self.settings)
        limiter = known.limiter if known else Limiter(f"server '{server.name}'", *most)
        link = Link(
            server,
            terms(server, self.settings),
            self._means,
            self._logins.grant(server.name),
            self._changed,
            self._listings,
        )
        member = Member(link, limiter, now)
        if not server.enabled:
            again = approvals.command("enable", server.name)
            link.rest("disabled", f"an operator disabled it; to connect it again: {again}")
        elif now != "approved":
            state = "blocked" if now == "blocked" else "quarantined"
            link.rest(state, approvals.why_out(server.name, now))
        else:
            self._tasks.start_soon(member.keep)
        return member

    def _let_go(self, member: Member) -> None:
        """Close a link, once the calls that run on it have ended."""
        member.leaving = True
        if member.calls:
            self._tasks.start_soon(member.outlive)
        else:
            member.scope.cancel()

    def _standing(self, server: ServerSettings) -> Standing:
        if self._baseline is None:
            return "waiting" if server.quarantined else "approved"
        return self._baseline.standing(server)
