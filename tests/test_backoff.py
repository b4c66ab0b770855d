"""When a link tries again, by a clock that jumps over every wait: minutes in no time, and exactly."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the clock is the loop's
import selectors
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from upstreams import stub

from mcpproxy.upstream import link
from mcpproxy.upstream.dial import Means
from mcpproxy.upstream.grant import Grant
from mcpproxy.upstream.link import Link
from mcpproxy.upstream.living import _ping, relist
from mcpproxy.upstream.references import References, Unreachable
from mcpproxy.upstream.terms import Terms
from mcpproxy.upstream.warden import Warden
from mcpproxy.upstream.watched import Bell


class Jumping(selectors.DefaultSelector):
    """Waits for nothing that takes time; the time that it would have waited has passed."""

    passed = 0.0

    def select(self, timeout=None):
        found = super().select(0 if timeout else timeout)
        if timeout and not found:
            self.passed += timeout
        return found


class Hurried(asyncio.SelectorEventLoop):
    def __init__(self):
        self.jumping = Jumping()
        super().__init__(self.jumping)

    def time(self):
        return self.jumping.passed


HURRIED = pytest.mark.parametrize("anyio_backend", [("asyncio", {"loop_factory": Hurried})])


async def attempts(tmp_path, monkeypatch, number):
    """The moments of so many attempts in a row that all fail."""
    at: list[float] = []
    enough = anyio.Event()

    def dial(*_):
        at.append(anyio.current_time())
        if len(at) == number:
            enough.set()
        raise Unreachable("nothing is there")

    monkeypatch.setattr(link, "dial", dial)
    async with anyio.create_task_group() as tasks:
        grant = Grant("stub", None, tasks, lambda *_, **__: None)
        means = Means(References({}), tmp_path, Warden(-1))
        one = Link(stub(), Terms(), means, grant, lambda: None)
        tasks.start_soon(one.keep)
        await enough.wait()
        tasks.cancel_scope.cancel()
    return [after - before for before, after in pairwise(at)]


@HURRIED
async def test_pauses_double_up_to_a_minute_and_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(link, "JITTER", 0.0)
    waits = await attempts(tmp_path, monkeypatch, 11)
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60, 60])


@HURRIED
async def test_no_two_links_wait_alike_and_none_waits_a_fifth_more_or_less(tmp_path, monkeypatch):
    waits = await attempts(tmp_path, monkeypatch, 200)
    ratios = [wait / min(60, 2**n) for n, wait in enumerate(waits)]
    assert 0.8 <= min(ratios) < 0.9 and 1.1 < max(ratios) <= 1.2
    assert len(set(ratios)) > 150


class Restless:
    """A server that says after each listing that its list is another."""

    def __init__(self, number):
        self.changed = Bell()
        self.changed.ring()
        self.at: list[float] = []
        self.enough = anyio.Event()
        self.number = number

    async def tools(self):
        self.at.append(anyio.current_time())
        self.changed.ring()
        if len(self.at) == self.number:
            self.enough.set()
        return [{"name": "a"}], None


@HURRIED
async def test_a_server_that_keeps_changing_its_list_is_asked_less_and_less(tmp_path):
    server = Restless(10)
    async with anyio.create_task_group() as tasks:
        grant = Grant("stub", None, tasks, lambda *_, **__: None)
        means = Means(References({}), tmp_path, Warden(-1))
        one = Link(stub(), Terms(), means, grant, lambda: None)
        tasks.start_soon(relist, one, server, None)
        await server.enough.wait()
        tasks.cancel_scope.cancel()
    rests = [after - before for before, after in pairwise(server.at)]
    assert rests == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5])


class Silent(Restless):
    """A server that answers a list, and nothing else: it may not even read what it is asked."""

    def __init__(self):
        super().__init__(1)
        self.changed = Bell()
        self.era = "legacy"

    async def request(self, *_):
        await anyio.sleep_forever()


class Unreached(Silent):
    """One that nothing can be sent to, though its stream is open."""

    async def request(self, *_):
        raise MCPError(CONNECTION_CLOSED, "Connection closed")


@HURRIED
@pytest.mark.parametrize("kind", [Silent, Unreached])
@pytest.mark.parametrize(("seconds", "lost"), [(0, False), (30, True)])
async def test_an_interval_of_0_is_never(tmp_path, kind, seconds, lost):
    server, reasons = kind(), []
    async with anyio.create_task_group() as tasks:
        grant = Grant("stub", None, tasks, lambda *_, **__: None)
        means = Means(References({}), tmp_path, Warden(-1))
        one = Link(stub(), Terms(ping=seconds, listing=seconds), means, grant, lambda: None)
        one.drop = lambda connection, reason: reasons.append(reason)
        one.keep_listing = anyio.lowlevel.checkpoint  # in a thread, for which no clock waits
        tasks.start_soon(relist, one, server, None)
        tasks.start_soon(_ping, one, server)
        await anyio.sleep(3600)
        tasks.cancel_scope.cancel()
    assert bool(reasons) is bool(server.at) is lost
