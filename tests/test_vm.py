"""The line to a VM: whatever it says last, its end is heard, on every loop."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mcpproxy.errors import WorkerError
from mcpproxy.sandbox import frames
from mcpproxy.sandbox.orders import EVENT
from mcpproxy.sandbox.pool import Pool
from mcpproxy.sandbox.vm import Vm

LOOPS = pytest.mark.parametrize(
    "anyio_backend",
    [
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    ],
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@LOOPS
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("number", [1, 3])
async def test_its_end_is_heard_though_it_comes_with_frames_and_answers_are_unread(
    ends, anyio_backend, taken, number
):
    ours, theirs = ends
    vm = Vm(1, ours)
    heard: list[bytes] = []

    def take(frame: bytes) -> bool:
        heard.append(frame)
        return True

    async def listen() -> None:
        with pytest.raises(WorkerError):
            while True:
                heard.extend(await vm.receive())

    if taken:
        vm.takes = take
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await wait_all_tasks_blocked()
            vm.post(b"an answer")
            theirs.sendall(number * frames.pack(b"a call"))
            theirs.close()
            await wait_all_tasks_blocked()
            vm.end()
    assert heard == number * [b"a call"]
    vm.close()


@LOOPS
async def test_the_end_of_the_fork_server_is_heard_though_orders_are_unread(ends, anyio_backend):
    ours, theirs = ends
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Pool(1, 64, forks=True)._follow, ours)
            await wait_all_tasks_blocked()
            ours.send(b"an order")
            theirs.sendall(EVENT.pack(7, 7, 0))
            theirs.close()


@LOOPS
async def test_one_that_writes_without_a_pause_leaves_others_their_turn(ends, anyio_backend):
    ours, theirs = ends
    vm = Vm(1, ours)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            for _ in range(20):
                theirs.sendall(frames.pack(b"a call"))
                await vm.receive()
            tasks.cancel_scope.cancel()
    vm.close()
    assert turns >= 20
