"""Tasks beside a script: a few are made, and used again."""

from __future__ import annotations

import anyio
import pytest

from mcpproxy.sandbox.work import MOST_IDLE, Work


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
