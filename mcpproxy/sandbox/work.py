"""What goes on beside listening to a VM: calls, answers, and sending what it was slow to read.

Most scripts need no task for that, and have none to be ended. A task whose work is done waits for
more: to make one for each call takes longer than the call's way through the gates.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import anyio.abc

from mcpproxy.readiness import Once, once
from mcpproxy.sandbox.vm import Vm

Task = Callable[[], Coroutine[Any, Any, None]]

UNREAD_BYTES = 16 * 2**20
"""Of answers; a script that doesn't read what it asked for makes no more calls for a while, and isn't heard."""

MOST_IDLE = 32
"""Tasks that wait for more. All of them are to be ended with the script, before its reply."""


class Hand:
    """A task that has nothing to do now."""

    def __init__(self, given: Once | anyio.Event) -> None:
        self._given = given

    def take(self, work: Task) -> None:
        self._work = work
        self._given.set()

    async def given(self) -> Task:
        await self._given.wait()
        return self._work


class Work:
    """See the module. The tasks are those of a group that ends with the script."""

    def __init__(self, vm: Vm, tasks: anyio.abc.TaskGroup) -> None:
        self._vm = vm
        self._tasks = tasks
        self._begun = False
        self._once = once()
        self._idle: list[Hand] = []
        self._read = anyio.Event()

    @property
    def idle(self) -> bool:
        """Whether `start` would start no task: then it may be called from the loop itself."""
        return bool(self._idle)

    @property
    def unread(self) -> bool:
        """Whether the VM has much to read."""
        return self._vm.unread > UNREAD_BYTES

    def start(self, act: Callable[..., Coroutine[Any, Any, None]], *about: Any) -> None:
        work = partial(act, *about)
        if self._idle:
            self._idle.pop().take(work)
        else:
            self._begun = True
            self._tasks.start_soon(self._go_on, work)

    async def _go_on(self, work: Task) -> None:
        await work()
        while len(self._idle) < MOST_IDLE:
            self._idle.append(hand := Hand(self._once()))
            work = await hand.given()
            await work()

    def post(self, text: bytes) -> None:
        """Send a frame to the VM."""
        if self._vm.post(text):
            self.start(self._flush)

    async def _flush(self) -> None:
        await self._vm.flush()
        self._read.set()

    async def read(self) -> None:
        """Wait while the VM has much to read. It reads on when it has anything to say that we don't take."""
        while self.unread:
            if self._read.is_set():
                self._read = anyio.Event()
            await self._read.wait()

    def end(self) -> None:
        """Cancel all of it."""
        if self._begun:
            self._tasks.cancel_scope.cancel()
