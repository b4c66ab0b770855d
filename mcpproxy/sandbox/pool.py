"""VM processes, ready before they are asked for; as many at once as the pool is large.

A script gets a process of its own and that process is killed when the script is over. Who waits for
one waits in line, on a clock of its own. The fork server behind it is a service: when it dies it is
started again, and only the scripts that ran at that moment are lost.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio

from mcpproxy.errors import PoolBusy, WorkerError
from mcpproxy.sandbox import frames
from mcpproxy.sandbox.probe import ACTS, LANDLOCK_ACT, REFUSED
from mcpproxy.spawning import spawn

logger = logging.getLogger(__name__)

ZYGOTE = "import sys; from mcpproxy.sandbox.zygote import main; main()"
SIGSYS = 31
KERNEL_MEMORY = 3
"""The kernel's limit on a VM, in multiples of what its script may use: a tool's result passes through
it as bytes and as text before it is JavaScript's."""
KERNEL_SPARE_BYTES = 96 * 2**20


class Vm:
    """One VM process, seen from the daemon: a line to it, and how it ended."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.pid: int | None = None
        self.ended = anyio.Event()
        self.status: int | None = None
        """Exit status, negative for a signal. None while it runs, or if the fork server took it along."""
        self._socket = sock
        self._splitter = frames.Splitter()
        self._backlog: deque[memoryview] = deque()
        self._stuck = anyio.Event()

    def post(self, text: bytes) -> None:
        """Send one frame, now or as soon as the VM reads again (`flush`). Never blocks.

        A VM that is gone is noticed by `receive`.
        """
        data = memoryview(frames.pack(text))
        if not self._backlog:
            data = self._put(data)
        if data:
            self._backlog.append(data)
            self._stuck.set()

    def _put(self, data: memoryview) -> memoryview:
        """Send what fits; what is left is returned."""
        try:
            return data[self._socket.send(data) :]
        except BlockingIOError:
            return data
        except OSError:
            return memoryview(b"")

    async def flush(self) -> None:
        """Send what `post` could not, for ever. One task per VM runs this."""
        while True:
            await self._stuck.wait()
            while self._backlog:
                await anyio.wait_writable(self._socket)
                if not (rest := self._put(self._backlog[0])):
                    self._backlog.popleft()
                else:
                    self._backlog[0] = rest
            self._stuck = anyio.Event()

    async def receive(self) -> list[bytes]:
        """The next frames. Raises `WorkerError` at the end, `BadFrame` for what can be no frame."""
        while True:
            try:
                data = self._socket.recv(1 << 18)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                continue
            except OSError as error:
                raise WorkerError(str(error)) from error
            if not data:
                raise WorkerError("the process ended")
            if found := self._splitter.feed(data):
                return found

    def close(self) -> None:
        self._socket.close()


class Pool:
    """At most `size` scripts at once; see `open_pool`."""

    def __init__(self, size: int, memory_mb: int, *, forks: bool) -> None:
        self.size = size
        self._birth = "fork" if forks else "spawn"
        self.layers: dict[str, bool] = {}
        """Which parts of the confinement were set up. `verify` tells which were seen to hold."""
        self.busy = 0
        self._memory_bytes = KERNEL_MEMORY * memory_mb * 2**20 + KERNEL_SPARE_BYTES
        self._spares: deque[Vm] = deque()
        self._vms: dict[int, Vm] = {}
        self._line: deque[anyio.Event] = deque()
        self._control: socket.socket | None = None
        self._ready = anyio.Event()
        self._numbers = 0

    @property
    def waiting(self) -> int:
        return len(self._line)

    @asynccontextmanager
    async def vm(self, queue_seconds: float) -> AsyncIterator[Vm]:
        """A process for one script, killed on the way out.

        Raises `PoolBusy` when none is free within `queue_seconds`, first come, first served.
        """
        with anyio.move_on_after(queue_seconds):
            await self._ready.wait()  # only ever waits while the fork server starts
        await self._enter(queue_seconds)
        try:
            vm = self._take()
            try:
                yield vm
            finally:
                self._kill(vm)
        finally:
            self._leave()

    async def _enter(self, seconds: float) -> None:
        if self.busy < self.size and not self._line:
            self.busy += 1
            return
        turn = anyio.Event()
        self._line.append(turn)
        try:
            with anyio.move_on_after(seconds):
                await turn.wait()
        finally:
            if not turn.is_set():
                self._line.remove(turn)
        if not turn.is_set():
            raise PoolBusy(
                f"all {self.size} processes for scripts were busy for {seconds:g} s; try again later, "
                "or raise code_execution_pool_size"
            )

    def _leave(self) -> None:
        if self._line:
            self._line.popleft().set()  # the place is handed on, `busy` stays
        else:
            self.busy -= 1
        self._refill()

    def _take(self) -> Vm:
        return self._spares.popleft() if self._spares else self._fork()

    def _refill(self) -> None:
        while self._control is not None and len(self._spares) + self.busy < self.size:
            self._spares.append(self._fork())

    def _fork(self, act: str | None = None) -> Vm:
        """Ask for a process. Its socket takes the job at once, even before it is born."""
        if self._control is None:
            raise WorkerError("the process that makes VMs is starting again; try again")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._numbers += 1
        vm = Vm(self._numbers, ours)
        order = f"fork {vm.number}" if act is None else f"probe {vm.number} {act}"
        with theirs:
            try:
                socket.send_fds(self._control, [frames.pack(order.encode())], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise WorkerError(f"no VM could be made: {error}") from error
        self._vms[vm.number] = vm
        return vm

    def _kill(self, vm: Vm) -> None:
        vm.close()
        if not vm.ended.is_set():
            self._order(f"kill {vm.number}")

    def _order(self, order: str) -> None:
        if self._control is not None:
            with suppress(OSError):  # gone, and its children with it
                self._control.sendall(frames.pack(order.encode()))

    async def verify(self) -> dict[str, bool]:
        """Have a VM try each thing it must not be able to do, and say which attempts were stopped."""
        await self._ready.wait()
        found = {}
        for act in [*ACTS, LANDLOCK_ACT]:
            vm = self._fork(act)
            try:
                with anyio.move_on_after(10):
                    await vm.ended.wait()
            finally:
                vm.close()
            wanted = REFUSED if act == LANDLOCK_ACT else -SIGSYS
            found[act] = vm.status == wanted
        return found

    # the fork server

    async def run(self) -> None:
        """Keep the fork server running, for ever."""
        failures = 0
        while True:
            born = anyio.current_time()
            async with self._zygote() as events:
                with suppress(anyio.EndOfStream, anyio.ClosedResourceError, frames.BadFrame):
                    async for event in events:
                        self._note(event)
            failures = 0 if anyio.current_time() - born > 10 else failures + 1
            pause = min(30.0, 0.1 * 2**failures)
            logger.error("the process that makes VMs ended; starting another in %.1f s", pause)
            await anyio.sleep(pause)

    @asynccontextmanager
    async def _zygote(self) -> AsyncIterator[AsyncIterator[dict[str, object]]]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        async with AsyncExitStack() as stack:
            stack.callback(ours.close)
            with theirs:
                process = spawn(
                    [
                        sys.executable,
                        "-I",
                        "-c",
                        ZYGOTE,
                        str(theirs.fileno()),
                        str(self._memory_bytes),
                        self._birth,
                    ],
                    stderr=None,
                    env={},
                    pass_fds=[theirs.fileno()],
                )
            try:
                yield self._events(ours)
            finally:
                self._control = None
                self._forget()
                ours.close()  # tells it to kill its children and end
                # Shielded: a cancelled daemon must still not leave a process behind.
                with anyio.CancelScope(shield=True):
                    with anyio.move_on_after(2):
                        await process.wait()
                    process.kill()
                    await process.wait()

    async def _events(self, control: socket.socket) -> AsyncIterator[dict[str, object]]:
        line = Vm(0, control)
        try:
            while True:
                for frame in await line.receive():
                    event = json.loads(frame)
                    if "ready" in event:
                        self._control = control
                    yield event
        except WorkerError:
            return

    def _note(self, event: dict[str, object]) -> None:
        match event:
            case {"ready": dict(layers)}:
                self.layers = layers
                self._ready.set()
                self._refill()
            case {"id": int(number), "pid": int(pid)}:
                if number in self._vms:
                    self._vms[number].pid = pid
            case {"id": int(number), "status": int(status)}:
                vm = self._vms.pop(number, None)
                if vm is not None:
                    vm.status = status
                    vm.ended.set()
                    if vm in self._spares:
                        self._spares.remove(vm)
                        vm.close()
                        self._refill()

    def _forget(self) -> None:
        for vm in self._spares:
            vm.close()
        self._spares.clear()
        for vm in self._vms.values():
            vm.ended.set()  # those that ran are closed by who used them
        self._vms.clear()
        self._ready = anyio.Event()


@asynccontextmanager
async def open_pool(
    size: int, memory_mb: int, *, forks: bool = hasattr(os, "fork")
) -> AsyncIterator[Pool]:
    """A pool whose processes live no longer than this block.

    `forks` is whether VMs are copies of a fork server, or interpreters started ahead of need.
    """
    pool = Pool(size, memory_mb, forks=forks)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run)
        yield pool
        tasks.cancel_scope.cancel()
