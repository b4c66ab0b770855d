"""Who gets in, who waits, and who is turned away."""

from __future__ import annotations

from collections import deque

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.errors import CallError
from mcpproxy.upstream.limits import Limiter


class Guest:
    """A call that stays until it is told to go."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.inside = False
        self.refused: str | None = None
        self.error: CallError | None = None
        self.scope = anyio.CancelScope()
        self.leave = anyio.Event()

    async def visit(self) -> None:
        with self.scope:
            try:
                await self.limiter.enter("stub:echo")
            except CallError as error:
                self.refused, self.error = error.code, error
                return
            self.inside = True
            try:
                await self.leave.wait()
            finally:
                self.inside = False
                self.limiter.leave()


async def arrive(tasks: anyio.abc.TaskGroup, limiter: Limiter) -> Guest:
    guest = Guest(limiter)
    tasks.start_soon(guest.visit)
    await wait_all_tasks_blocked()
    return guest


async def test_without_a_limit_everyone_gets_in_and_is_counted():
    limiter = Limiter("server 'stub'")
    for _ in range(1000):
        assert limiter.try_enter()
    assert limiter.running == 1000


async def test_without_a_queue_the_next_is_turned_away_at_once():
    limiter = Limiter("server 'stub'", 1)
    await limiter.enter("stub:a")
    with pytest.raises(CallError) as refused:
        await limiter.enter("stub:b")
    assert refused.value.code == "queue_full"
    assert refused.value.retryable and refused.value.retry_after_ms
    assert "server 'stub'" in refused.value.message and "stub:b" in refused.value.message


async def test_who_waits_too_long_is_turned_away_and_leaves_the_line():
    limiter = Limiter("server 'stub'", 1, 1, 0.001)
    await limiter.enter("stub:a")
    with anyio.fail_after(20), pytest.raises(CallError) as refused:
        await limiter.enter("stub:b")
    assert refused.value.code == "queue_timeout"
    assert refused.value.retry_after_ms
    assert (limiter.running, limiter.queued) == (1, 0)


async def test_a_place_goes_to_who_came_first_and_newcomers_do_not_overtake():
    limiter = Limiter("server 'stub'", 1, 5)
    async with anyio.create_task_group() as tasks:
        first, second, third = [await arrive(tasks, limiter) for _ in range(3)]
        first.leave.set()
        assert not limiter.try_enter()  # the first has not even left yet
        await wait_all_tasks_blocked()
        assert second.inside and not third.inside and not limiter.try_enter()
        second.leave.set()
        await wait_all_tasks_blocked()
        assert third.inside
        third.leave.set()


async def test_who_gives_up_waiting_does_not_hold_up_the_line():
    limiter = Limiter("server 'stub'", 1, 5)
    async with anyio.create_task_group() as tasks:
        first, second, third = [await arrive(tasks, limiter) for _ in range(3)]
        second.scope.cancel()
        first.leave.set()
        await wait_all_tasks_blocked()
        assert third.inside and not second.inside
        third.leave.set()
    assert (limiter.running, limiter.queued) == (0, 0)


async def test_who_gives_up_just_as_it_is_admitted_gives_its_place_on():
    limiter = Limiter("server 'stub'", 1, 5)
    async with anyio.create_task_group() as tasks:
        first, second, third = [await arrive(tasks, limiter) for _ in range(3)]
        limiter.leave()  # admits the second, whose task has not run yet
        limiter.running += 1  # the first's own leave comes later
        limiter.running -= 1
        second.scope.cancel()
        await wait_all_tasks_blocked()
        assert third.inside
        limiter.running += 1
        first.leave.set()
        third.leave.set()
    assert (limiter.running, limiter.queued) == (0, 0)


async def test_a_higher_limit_admits_the_oldest_at_once_and_a_lower_one_admits_nobody():
    limiter = Limiter("server 'stub'", 1, 5)
    async with anyio.create_task_group() as tasks:
        guests = [await arrive(tasks, limiter) for _ in range(4)]
        limiter.become(3, 5, None)
        await wait_all_tasks_blocked()
        assert [guest.inside for guest in guests] == [True, True, True, False]
        limiter.become(1, 5, None)
        guests[0].leave.set()
        guests[1].leave.set()
        await wait_all_tasks_blocked()
        assert [guest.inside for guest in guests] == [False, False, True, False]
        limiter.become(None, None, None)
        await wait_all_tasks_blocked()
        assert guests[3].inside
        for guest in guests:
            guest.leave.set()


async def test_a_limit_set_later_counts_the_calls_that_run_already():
    limiter = Limiter("server 'stub'")
    assert limiter.try_enter() and limiter.try_enter()
    limiter.become(2, None, None)
    assert not limiter.try_enter()
    limiter.leave()
    assert limiter.try_enter()


ACTS = st.one_of(
    st.just(("arrive", 0)),
    st.tuples(st.sampled_from(["leave", "give up"]), st.integers(0, 30)),
    st.tuples(st.just("limit"), st.integers(0, 4)),
    st.tuples(st.just("queue"), st.integers(0, 4)),
)


@given(acts=st.lists(ACTS, max_size=40), limit=st.integers(0, 3), queue=st.integers(0, 4))
def test_whatever_happens_the_order_and_the_counts_hold(acts, limit, queue):
    anyio.run(play, acts, limit, queue)


async def play(acts: list[tuple[str, int]], limit: int, queue: int) -> None:
    """The limiter beside a model of it that is too simple to be wrong."""
    limiter = Limiter("server 'stub'", limit, queue)
    inside: list[Guest] = []
    line: deque[Guest] = deque()

    def admit() -> None:
        while line and (not limit or len(inside) < limit):
            inside.append(line.popleft())

    async with anyio.create_task_group() as tasks:
        for act, number in acts:
            match act:
                case "arrive":
                    guest = Guest(limiter)
                    tasks.start_soon(guest.visit)
                    if not limit or (len(inside) < limit and not line):
                        inside.append(guest)
                    elif len(line) < queue:
                        line.append(guest)
                    else:
                        await settle()
                        assert guest.refused == "queue_full"
                case "leave" if inside:
                    inside.pop(number % len(inside)).leave.set()
                case "give up" if line:
                    guest = line[number % len(line)]
                    line.remove(guest)
                    guest.scope.cancel()
                case "limit":
                    limit = number
                    limiter.become(limit, queue, None)
                case "queue":
                    queue = number
                    limiter.become(limit, queue, None)
            admit()
            await settle()
            assert all(guest.inside for guest in inside)
            assert not any(guest.inside or guest.refused for guest in line)
            assert (limiter.running, limiter.queued) == (len(inside), len(line))
        tasks.cancel_scope.cancel()
    assert (limiter.running, limiter.queued) == (0, 0)


async def settle() -> None:
    for _ in range(6):
        await checkpoint()
