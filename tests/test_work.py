"""Tasks beside a script: a few are made, and used again."""

from __future__ import annotations

import anyio
import pytest

from mcpproxy.sandbox.work import MOST_IDLE, UNREAD_BYTES, Work


class Silent:
    """A VM that takes all it is sent."""

    def post(self, text: bytes) -> bool:
        return False


async def turns() -> None:
    """Let whoever can go on do so."""
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


async def test_calls_one_after_the_other_are_made_by_one_task_and_together_by_as_many():
    makers = []

    async def call(number: int) -> None:
        makers.append(anyio.get_current_task().id)
        await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        work = Work(Silent(), tasks)
        for number in range(10):
            work.start(call, number)
            await turns()
        assert len(makers) == 10 and len(set(makers)) == 1
        for number in range(10):
            work.start(call, number)
        await turns()
        assert len(set(makers)) == 10
        work.end()


async def test_few_tasks_are_kept_of_many():
    async with anyio.create_task_group() as tasks:
        work = Work(Silent(), tasks)
        for _ in range(3 * MOST_IDLE):
            work.start(anyio.lowlevel.checkpoint)
        await turns()
        assert len(work._idle) == MOST_IDLE
        work.end()


async def test_an_error_of_one_ends_all():
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as found:
        async with anyio.create_task_group() as tasks:
            work = Work(Silent(), tasks)
            work.start(anyio.lowlevel.checkpoint)
            await turns()
            work.start(fail)
    assert found.group_contains(ZeroDivisionError)


class Slow:
    """A VM that reads when it is let."""

    def __init__(self) -> None:
        self.unread = 0
        self.reads = anyio.Event()

    def post(self, text: bytes) -> bool:
        self.unread += len(text)
        return True

    async def flush(self) -> None:
        await self.reads.wait()
        self.unread = 0


async def test_all_who_wait_for_a_vm_to_read_go_on_when_it_has_each_time():
    went_on = []
    vm = Slow()

    async def wait() -> None:
        await work.read()
        went_on.append(vm.unread)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            work = Work(vm, tasks)
            for n in (1, 2):
                vm.reads = anyio.Event()
                work.post(bytes(UNREAD_BYTES + 1))
                for _ in range(3):
                    work.start(wait)
                await turns()
                assert len(went_on) == 3 * (n - 1)
                vm.reads.set()
                await turns()
                assert went_on == [0] * 3 * n
            work.end()
