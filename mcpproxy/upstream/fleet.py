"""All upstream servers, connected at the same time, behind one verb: `call`."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from mcpproxy import approvals, gates
from mcpproxy.approvals import Standing
from mcpproxy.baseline import Baseline
from mcpproxy.catalog import EMPTY, Catalog, Server
from mcpproxy.errors import CallError
from mcpproxy.policy import LOCAL
from mcpproxy.upstream.call import Call, Send, connect
from mcpproxy.upstream.connection import Client, Connection, Json, Progress
from mcpproxy.upstream.dial import Means
from mcpproxy.upstream.limits import Limiter
from mcpproxy.upstream.link import Link
from mcpproxy.upstream.login import Login
from mcpproxy.upstream.logins import Logins
from mcpproxy.upstream.patience import Patience
from mcpproxy.upstream.references import References, named
from mcpproxy.upstream.terms import dialled, limits, terms
from mcpproxy.upstream.warden import open_warden
from mcpproxy.vault import Vault

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings, Settings

logger = logging.getLogger(__name__)

Listener = Callable[[Catalog], None]

LOOK_SECONDS = 5.0
"""Between looks at what other processes have decided. A call looks as well."""

RESTING = {
    "disabled": "SERVER_UNAVAILABLE",
    "quarantined": "QUARANTINED",
    "blocked": "QUARANTINED",
}
"""The code of a call to a server that stays unconnected."""


Gate = Callable[[str, Server], object]
"""Asked about a tool of a server as it is when the call goes out; raises `CallError` to stop it."""


there: Gate = partial(gates.check_tool, LOCAL)
"""The default: that the server has the tool."""


def _nothing() -> None:
    """The default of `started`."""


class _Member:
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
        self.calls -= 1
        if self.leaving and not self.calls:
            self.idle.set()


class Fleet:
    """See the module. Made by `open_fleet`."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        settings: Settings,
        means: Means,
        state: Path | None,
        baseline: Baseline | None,
    ) -> None:
        self._tasks = tasks
        self._settings = settings
        self._means = means
        self._baseline = baseline
        self._listings = state and state / "listings"
        self.logins = Logins(tasks, means.references, state and state / "logins")
        self._members: dict[str, _Member] = {}
        self._everyone = Limiter("the proxy (all servers together)")
        self._catalog = EMPTY
        self._listeners: dict[object, Listener] = {}

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Have `callback` called with each new snapshot; the result ends that."""
        key = object()
        self._listeners[key] = callback
        return lambda: self._listeners.pop(key, None) and None

    def _publish(self) -> None:
        servers = {name: self._shown(member.link) for name, member in self._members.items()}
        if servers == dict(self._catalog.servers) and list(servers) == list(self._catalog.servers):
            return
        self._catalog = Catalog(MappingProxyType(servers), self._catalog.version + 1)
        for callback in list(self._listeners.values()):
            try:
                callback(self._catalog)
            except Exception:
                logger.exception("somebody failed who was told of new tools")

    def _shown(self, link: Link) -> Server:
        if self._baseline is None:
            return link.seen
        return self._baseline.judge(link.settings, link.seen)

    # what the settings ask for

    def become(self, settings: Settings) -> None:
        """Connect what the settings name, and let go of the rest. What didn't change stays connected."""
        self._settings = settings
        self._everyone.become(
            settings.max_concurrent_requests, settings.queue_size, settings.queue_timeout
        )
        if self._baseline is not None:
            self._baseline.become(settings)
        before, self._members = self._members, {}
        for server in settings.servers:
            self._members[server.name] = self._member(
                server, settings, before.pop(server.name, None)
            )
        for member in before.values():
            self._let_go(member)
        self._publish()

    def _let_go(self, member: _Member) -> None:
        """Close a link, once the calls that run on it have ended."""
        member.leaving = True
        if member.calls:
            self._tasks.start_soon(_outlive, member)
        else:
            member.scope.cancel()

    def _member(self, server: ServerSettings, settings: Settings, known: _Member | None) -> _Member:
        if known is not None:
            known.limiter.become(*limits(server, settings))
            if known.standing == self._standing(server) and dialled(known.link.settings) == dialled(
                server
            ):
                known.link.settings = server
                known.link.terms = terms(server, settings)
                return known
            self._let_go(known)
        return self._fresh(server, settings, known)

    def _fresh(self, server: ServerSettings, settings: Settings, known: _Member | None) -> _Member:
        """A member with a link of its own, and the occupancy of the one before."""
        now, most = self._standing(server), limits(server, settings)
        limiter = known.limiter if known else Limiter(f"server '{server.name}'", *most)
        link = Link(
            server,
            terms(server, settings),
            self._means,
            self.logins.grant(server.name),
            self._publish,
            self._listings,
        )
        member = _Member(link, limiter, now)
        if not server.enabled:
            again = approvals.command("enable", server.name)
            link.rest("disabled", f"an operator disabled it; to connect it again: {again}")
        elif now != "approved":
            state = "blocked" if now == "blocked" else "quarantined"
            link.rest(state, approvals.why_out(server.name, now))
        else:
            self._tasks.start_soon(_keep, member)
        return member

    def _standing(self, server: ServerSettings) -> Standing:
        if self._baseline is None:
            return "waiting" if server.quarantined else "approved"
        return self._baseline.standing(server)

    def reconsider(self) -> None:
        """Go by what an operator has decided in the meantime."""
        self.become(self._settings)

    async def catch_up(self) -> None:
        """Go by what another process has decided in the meantime."""
        if self._baseline is not None and await self._baseline.refresh():
            logger.info("another process has decided about servers or tools; going by that")
            self.reconsider()

    async def keep_up(self) -> None:
        """Do so before anybody calls, for ever."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            await self.catch_up()

    def seen(self, name: str) -> Server:
        """A server as it is, held back or not: for operators alone. Raises `KeyError`."""
        return self._members[name].link.seen

    async def look(self, name: str) -> Server:
        """What a server lists that is in quarantine: it is connected for that alone. Raises `KeyError`."""
        known = self._members[name].link
        entry = known.settings.model_copy(update={"lazy": False})
        link = Link(entry, known.terms, self._means, self.logins.grant(name), lambda: None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.keep)
            await link.settled.wait()
            seen = link.seen
            tasks.cancel_scope.cancel()
        return seen

    # what others ask for

    async def settled(self, names: Iterable[str] | None = None) -> None:
        """Wait until each of these (or all) has connected or failed once."""
        for name in list(self._members) if names is None else names:
            if (member := self._members.get(name)) is not None:
                await member.link.settled.wait()

    async def known(self, names: Iterable[str] | None = None) -> None:
        """Wait until the tools of each of these (or all) are known, or can't be had now.

        A lazy server is connected for that, unless an earlier listing of it was kept.
        """
        await self.settled(names)
        async with anyio.create_task_group() as tasks:
            for name in list(self._members) if names is None else names:
                member = self._members.get(name)
                if member is not None and member.link.seen.unknown:
                    tasks.start_soon(member.link.connected)

    def reconnect(self, name: str) -> None:
        """Have a server dialled anew now; calls that run on the old connection may finish."""
        if (known := self._members.get(name)) is not None:
            self._let_go(known)
            self._members[name] = self._fresh(known.link.settings, self._settings, known)
            self._publish()

    def refer_to(self, secret: str) -> list[str]:
        """The servers whose settings refer to this secret of the vault."""
        members = self._members.items()
        return [name for name, member in members if secret in named(member.link.settings)]

    async def log_in(self, name: str, scopes: tuple[str, ...], seconds: float) -> Login:
        """See `Logins.begin`; the server is connected anew when it is done.

        Raises `CallError`, `LoginError`, `Unreachable`.
        """
        if (member := self._members.get(name)) is None:
            raise CallError("SERVER_NOT_FOUND", gates.no_server(name, self._catalog))
        server = member.link.settings
        return await self.logins.begin(server, scopes, seconds, partial(self.reconnect, name))

    async def log_out(self, name: str) -> bool:
        """Whether there was a login. The server is connected anew, as nobody."""
        ended = await self.logins.end(name)
        if ended:
            self.reconnect(name)
        return ended

    async def restart(self, name: str) -> None:
        """Connect a server anew. Raises `CallError`."""
        await self._awake(name).link.restart()

    def status(self) -> list[Json]:
        now = anyio.current_time()
        return [
            {
                "name": name,
                "protocol": member.link.settings.protocol,
                "enabled": member.link.settings.enabled,
                "state": member.link.seen.state,
                "tools": len(self._catalog.servers[name].tools),
                "waiting": self._catalog.servers[name].waiting,
                **_listing(member.link),
                "error": member.link.seen.error,
                "login": member.link.grant.status(),
                "next_attempt_in_seconds": None
                if (at := member.link.next_attempt) is None
                else round(max(0.0, at - now), 1),
                "protocol_version": member.link.version,
                "in_flight": member.limiter.running,
                "queued": member.limiter.queued,
            }
            for name, member in self._members.items()
        ]

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        gate: Gate = there,
        started: Callable[[], None] = _nothing,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> Json:
        """One tool call; its raw result, whether that says `isError` or not, or asks the client.

        `gate` is asked, and then `started` called, right before the request goes out: until then the
        call has no effect. Cancelling this cancels the call upstream. Raises `CallError`.
        """

        async def send(connection: Connection, patience: Patience) -> Json:
            asked = patience.around(client)
            return await connection.call(tool, arguments, meta, progress, asked)

        return await self._take(server, tool, send, started, gate)

    async def request(
        self,
        server: str,
        method: str,
        params: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> Json:
        """Any other request, within the same limits.

        Raises `CallError`, and `MCPError` where the server itself refused.
        """

        async def send(connection: Connection, patience: Patience) -> Json:
            asked = patience.around(client)
            return await connection.exchange(method, dict(params), meta, progress, asked)

        return await self._take(server, method, send, _nothing, None)

    def connection(self, server: str) -> Connection | None:
        """That of one server, if it is open now."""
        member = self._members.get(server)
        return None if member is None else member.link.connection

    def connections(self) -> dict[str, Connection]:
        """Those that are open now, by server, in the order of the configuration."""
        open_now = ((name, member.link.connection) for name, member in self._members.items())
        return {name: connection for name, connection in open_now if connection is not None}

    def offers(self, server: str) -> list[str]:
        """Which of tools, prompts and resources a server that is connected has."""
        member = self._members.get(server)
        connection = None if member is None else member.link.connection
        said = {} if connection is None else connection.offers
        return [kind for kind in ("tools", "prompts", "resources") if kind in said]

    async def _take(
        self,
        server: str,
        what: str,
        send: Send,
        started: Callable[[], None],
        gate: Gate | None,
    ) -> Json:
        await self.catch_up()
        member = self._awake(server)
        if member.link.connection is None:
            await connect(member.link)
        limiter, everyone, name = member.limiter, self._everyone, f"the call to {server}:{what}"
        if not limiter.try_enter():
            await limiter.enter(name)
        try:
            if not everyone.try_enter():
                await everyone.enter(name)
            try:
                member = self._awake(server)  # it may have changed while we waited
                member.calls += 1
                try:
                    asked = partial(self._ask, gate, what, member.link)
                    raw = gate is None
                    return await Call(member.link, what, send, started, asked, raw=raw).run()
                finally:
                    member.leave()
            finally:
                everyone.leave()
        finally:
            limiter.leave()

    def _awake(self, name: str) -> _Member:
        member = self._members.get(name)
        if member is None:
            # Names that are close to it are the gates' to give: they know who asks.
            raise CallError("SERVER_NOT_FOUND", f"there is no server '{name}' any more")
        seen = member.link.seen
        if (code := RESTING.get(seen.state)) is not None:
            raise CallError(code, f"server '{name}' is not available: {seen.error}")
        return member

    def _ask(self, gate: Gate | None, tool: str, link: Link) -> None:
        """Whether a call may go out on a link that it may have waited for. Raises `CallError`."""
        self._awake(link.settings.name)  # it may have been blocked or removed meanwhile
        if gate is not None:
            gate(tool, self._shown(link))


async def _outlive(member: _Member) -> None:
    """Close a link after its calls, which have a time limit of their own."""
    with anyio.move_on_after(2 * member.link.terms.call):
        await member.idle.wait()
    member.scope.cancel()


async def _keep(member: _Member) -> None:
    with member.scope:
        await member.link.keep()


def _listing(link: Link) -> Json:
    """Whether the tools are those of a connection, or those of an earlier one, and how old they are."""
    if link.listed_at is None or not link.seen.tools:
        return {"listing": None, "listing_age_seconds": None}
    return {
        "listing": "live" if link.seen.state == "ready" else "kept",
        "listing_age_seconds": round(max(0.0, time.time() - link.listed_at), 1),
    }


@asynccontextmanager
async def open_fleet(
    settings: Settings,
    environ: Mapping[str, str],
    logs: Path,
    state: Path | None = None,
    baseline: Baseline | None = None,
) -> AsyncIterator[Fleet]:
    """The servers of the settings, being connected; none of their processes outlives the block.

    `state` is where it is kept what each server listed last, how to log in to it, and secrets.
    Without a `baseline` all tools of all servers are shown that no entry quarantines.
    """
    try:
        async with open_warden() as warden, anyio.create_task_group() as tasks:
            references = References(environ, Vault(state) if state else None)
            fleet = Fleet(tasks, settings, Means(references, logs, warden), state, baseline)
            fleet.become(settings)
            tasks.start_soon(fleet.keep_up)
            try:
                yield fleet
            finally:
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None  # that we have tasks is no concern of the block's
