"""A descriptor that stays known to the event loop: whoever waits is told, and nobody else is bothered."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the loops are its
import os
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mcpproxy.readiness import Readable, once


class Forgetful(asyncio.SelectorEventLoop):
    """A loop that has no readers, as on Windows."""

    def add_reader(self, *about):
        raise NotImplementedError

    def remove_reader(self, fd):
        raise NotImplementedError


LOOPS = pytest.mark.parametrize(
    "anyio_backend",
    [
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"loop_factory": Forgetful}), id="without readers"),
    ],
)


class Counted(Readable):
    told = 0

    def _tell(self) -> None:
        self.told += 1
        super()._tell()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


@LOOPS
async def test_who_waits_is_told_each_time_and_of_the_end(pipe, anyio_backend):
    ours, theirs = pipe
    heard = []

    async def listen() -> None:
        while heard[-1:] != [b""]:
            await readable.wait()
            with suppress(BlockingIOError):
                heard.append(os.read(ours, 9))

    readable = Readable(ours)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            for word in (b"one", b"two", b"three"):
                os.write(theirs, word)
                while heard[-1:] != [word]:
                    await anyio.lowlevel.checkpoint()
            os.dup2(ours, theirs)  # nobody can write any more
    readable.close()
    assert heard == [b"one", b"two", b"three", b""]


@LOOPS
async def test_what_nobody_takes_is_told_once_more_at_most_until_somebody_waits(
    pipe, anyio_backend
):
    readable = Counted(pipe[0])
    with anyio.fail_after(10):
        os.write(pipe[1], b"word")
        await readable.wait()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert readable.told <= 2
        await readable.wait()
    readable.close()


@LOOPS
async def test_closing_tells_who_waits_and_leaves_the_descriptor_to_others(pipe, anyio_backend):
    first = Readable(pipe[0])

    async def listen() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await first.wait()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await wait_all_tasks_blocked()
            first.close()
        second = Readable(pipe[0])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.wait)
            await wait_all_tasks_blocked()
            first.close()
            os.write(pipe[1], b"word")
        with pytest.raises(anyio.ClosedResourceError):
            await first.wait()
    second.close()


@LOOPS
async def test_who_gives_up_leaves_it_to_the_next(pipe, anyio_backend):
    readable = Readable(pipe[0])
    with anyio.move_on_after(0):
        await readable.wait()
    os.write(pipe[1], b"word")
    with anyio.fail_after(10):
        await readable.wait()
    readable.close()


@LOOPS
async def test_what_happens_once_is_heard_by_who_waits_and_by_who_comes_later(anyio_backend):
    make = once()
    awaited, over, left = make(), make(), make()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(awaited.wait)
        await wait_all_tasks_blocked()
        assert not awaited.is_set()
        awaited.set()
        awaited.set()
    over.set()
    await over.wait()
    with anyio.move_on_after(0) as scope:
        await left.wait()
    left.set()
    assert scope.cancelled_caught and awaited.is_set() and over.is_set()
