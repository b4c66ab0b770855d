"""What comes out of a block that has tasks."""

from __future__ import annotations

import os
import resource
import socket
import sys

import anyio
import pytest
from upstreams import until

from mcpproxy import tasks as tasks_module
from mcpproxy.tasks import open_tasks, serve_each


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


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
async def test_a_client_that_can_t_be_let_in_costs_nobody_else(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tasks_module, "PAUSE", 0.001)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def greet(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"hello")

    async with await anyio.create_unix_listener(tmp_path / "s") as listener, open_tasks() as tasks:
        tasks.start_soon(serve_each, listener, greet)
        with socket.socket(socket.AF_UNIX) as client:
            os.close(free := os.dup(client.fileno()))
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
            try:
                client.connect(str(tmp_path / "s"))
                await until(lambda: "Too many open files" in caplog.text)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            client.setblocking(False)
            with anyio.fail_after(10):
                await anyio.wait_readable(client)
            assert client.recv(9) == b"hello"
