"""What comes out of a block that has tasks."""

from __future__ import annotations

import anyio
import pytest

from mcpproxy.tasks import open_tasks


async def test_an_error_comes_out_as_itself_with_its_cause(anyio_backend):
    cause = OSError("why")
    with pytest.raises(KeyError) as raised:
        async with open_tasks(), anyio.create_task_group(), open_tasks() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            raise KeyError("what") from cause
    assert raised.value.__cause__ is cause


async def test_two_errors_stay_together(anyio_backend):
    async def fail_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise OSError("one")

    with pytest.raises(ExceptionGroup) as raised:
        async with open_tasks() as tasks:
            tasks.start_soon(fail_when_cancelled)
            await anyio.lowlevel.checkpoint()
            raise KeyError("two")
    assert {type(each) for each in raised.value.exceptions} == {OSError, KeyError}


async def test_a_task_that_fails_ends_the_block(anyio_backend):
    async def fail() -> None:
        raise OSError("gone")

    with anyio.fail_after(5), pytest.raises(OSError, match="gone"):
        async with open_tasks() as tasks:
            tasks.start_soon(fail)
            await anyio.sleep_forever()
