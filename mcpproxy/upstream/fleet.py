"""All upstream servers, connected at the same time, behind one verb: `call`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from mcpproxy import gates
from mcpproxy.baseline import Baseline
from mcpproxy.catalog import EMPTY, Catalog, Server
from mcpproxy.errors import CallError
from mcpproxy.listed import Kind, Listed, Sorted
from mcpproxy.policy import LOCAL
from mcpproxy.tasks import open_tasks
from mcpproxy.upstream.call import Call, Send, connect
from mcpproxy.upstream.connection import Client, Connection, Json, Progress
from mcpproxy.upstream.dial import Means
from mcpproxy.upstream.limits import Limiter
from mcpproxy.upstream.link import Link
from mcpproxy.upstream.login import Login
from mcpproxy.upstream.logins import Logins
from mcpproxy.upstream.members import Also, Members, Others
from mcpproxy.upstream.patience import Patience
from mcpproxy.upstream.references import References, named
from mcpproxy.upstream.warden import open_warden
from mcpproxy.vault import Vault

if TYPE_CHECKING:
    from mcpproxy.settings import Settings

logger = logging.getLogger(__name__)

Listener = Callable[[Catalog], None]

LOOK_SECONDS = 5.0
"""Between looks at what other processes have decided. A call looks as well."""

Gate = Callable[[str, Server], object]
"""Asked about a tool of a server as it is when the call goes out; raises `CallError` to stop it."""


there: Gate = partial(gates.check_tool, LOCAL)
"""The default: that the server has the tool."""


def _nothing() -> None:
    """The default of `started`."""


async def nothing_else(connection: Connection) -> Others:
    """The default of `look`: its tools alone."""
    return {}


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
        self.logins = Logins(tasks, means.references, state and state / "logins")
        self._baseline = baseline
        listings = state and state / "listings"
        self._members = Members(
            tasks, settings, means, listings, baseline, self.logins, self._publish
        )
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
        members = self._members.by_name.items()
        servers = {name: self._members.shown(member.link) for name, member in members}
        if servers == dict(self._catalog.servers) and list(servers) == list(self._catalog.servers):
            return
        self._catalog = Catalog(MappingProxyType(servers), self._catalog.version + 1)
        for callback in list(self._listeners.values()):
            try:
                callback(self._catalog)
            except Exception:
                logger.exception("somebody failed who was told of new tools")

    # what the settings ask for

    def become(self, settings: Settings) -> None:
        """Connect what the settings name, and let go of the rest. What didn't change stays connected."""
        self._everyone.become(
            settings.max_concurrent_requests, settings.queue_size, settings.queue_timeout
        )
        self._members.become(settings)
        self._publish()

    def reconsider(self) -> None:
        """Go by what an operator has decided in the meantime."""
        self.become(self._members.settings)

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
        return self._members.by_name[name].link.seen

    async def look(self, name: str, also: Also = nothing_else) -> Server:
        """What a server lists that is in quarantine: it is connected for that alone. Raises `KeyError`."""
        return await self._members.look(name, also)

    def sort_listed(self, server: str, kind: Kind, found: Mapping[str, Listed]) -> Sorted:
        """What callers get to see of a server's list of prompts or resources."""
        made, seen = (
            self._members.sort_listed(server, kind, found),
            self._catalog.servers.get(server),
        )
        if made.held or (seen is not None and seen.held_besides):
            self._publish()  # how much waits is part of a snapshot
        return made

    # what others ask for

    async def settled(self, names: Iterable[str] | None = None) -> None:
        """Wait until each of these (or all) has connected or failed once."""
        for name in list(self._members.by_name) if names is None else names:
            if (member := self._members.by_name.get(name)) is not None:
                await member.link.settled.wait()

    async def known(self, names: Iterable[str] | None = None) -> None:
        """Wait until the tools of each of these (or all) are known, or can't be had now.

        A lazy server is connected for that, unless an earlier listing of it was kept.
        """
        await self.settled(names)
        async with anyio.create_task_group() as tasks:
            for name in list(self._members.by_name) if names is None else names:
                member = self._members.by_name.get(name)
                if member is not None and member.link.seen.unknown:
                    tasks.start_soon(member.link.connected)

    def reconnect(self, name: str) -> None:
        """Have a server dialled anew now; calls that run on the old connection may finish."""
        if self._members.renew(name):
            self._publish()

    def refer_to(self, secret: str) -> list[str]:
        """The servers whose settings refer to this secret of the vault."""
        members = self._members.by_name.items()
        return [name for name, member in members if secret in named(member.link.settings)]

    async def log_in(self, name: str, scopes: tuple[str, ...], seconds: float) -> Login:
        """See `Logins.begin`; the server is connected anew when it is done.

        Raises `CallError`, `LoginError`, `Unreachable`.
        """
        if (member := self._members.by_name.get(name)) is None:
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
        await self._members.awake(name).link.restart()

    def status(self) -> list[Json]:
        """How each server is, in the order of the configuration."""
        shown = self._catalog.servers
        return [member.status(shown[name]) for name, member in self._members.by_name.items()]

    def call(
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
    ) -> Coroutine[Any, Any, Json]:
        """One tool call; its raw result, whether that says `isError` or not, or asks the client.

        `gate` is asked, and then `started` called, right before the request goes out: until then the
        call has no effect. Cancelling this cancels the call upstream. Raises `CallError`.
        """

        def send(connection: Connection, patience: Patience | None) -> Coroutine[Any, Any, Json]:
            asked = patience.around(client) if patience else client
            return connection.call(tool, arguments, meta, progress, asked)

        return self._take(server, tool, send, started, gate)

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

        def send(connection: Connection, patience: Patience | None) -> Coroutine[Any, Any, Json]:
            asked = patience.around(client) if patience else client
            return connection.exchange(method, dict(params), meta, progress, asked)

        return await self._take(server, method, send, _nothing, None)

    def connection(self, server: str) -> Connection | None:
        """That of one server, if it is open now."""
        member = self._members.by_name.get(server)
        return None if member is None else member.link.connection

    def connections(self) -> dict[str, Connection]:
        """Those that are open now, by server, in the order of the configuration."""
        open_now = (
            (name, member.link.connection) for name, member in self._members.by_name.items()
        )
        return {name: connection for name, connection in open_now if connection is not None}

    def offers(self, server: str) -> list[str]:
        """Which of tools, prompts and resources a server that is connected has."""
        member = self._members.by_name.get(server)
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
        if self._baseline is not None and self._baseline.touched:
            await self.catch_up()
        member = self._members.awake(server)
        if member.link.connection is None:
            await connect(member.link)
        limiter, everyone = member.limiter, self._everyone
        if not limiter.try_enter():
            await limiter.enter(f"the call to {server}:{what}")
        try:
            if not everyone.try_enter():
                await everyone.enter(f"the call to {server}:{what}")
            try:
                member = self._members.awake(server)  # it may have changed while we waited
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

    def _ask(self, gate: Gate | None, tool: str, link: Link) -> None:
        """Whether a call may go out on a link that it may have waited for. Raises `CallError`."""
        self._members.awake(link.settings.name)  # it may have been blocked or removed meanwhile
        if gate is not None:
            gate(tool, self._members.shown(link))


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
    async with open_warden() as warden, open_tasks() as tasks:
        references = References(environ, Vault(state) if state else None)
        fleet = Fleet(tasks, settings, Means(references, logs, warden), state, baseline)
        fleet.become(settings)
        tasks.start_soon(fleet.keep_up)
        yield fleet
