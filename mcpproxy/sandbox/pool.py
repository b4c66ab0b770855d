"""VM processes, ready before they are asked for; as many at once as the pool is large.

A script gets a process of its own and that process is killed when the script is over. Who waits for
one waits in line, on a clock of its own. The fork server behind it is a service: when it dies it is
started again, and only the scripts that ran at that moment are lost.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress

import anyio

from mcpproxy.errors import PoolBusy, WorkerError
from mcpproxy.readiness import Readable
from mcpproxy.sandbox import probe
from mcpproxy.sandbox.confine import LAYERS
from mcpproxy.sandbox.memory import give_back
from mcpproxy.sandbox.orders import EVENT, ORDER
from mcpproxy.sandbox.vm import Vm
from mcpproxy.spawning import spawn

logger = logging.getLogger(__name__)

ZYGOTE = "import sys; from mcpproxy.sandbox.zygote import main; main()"
ENVIRONMENT = {"LD_BIND_NOW": "1"}
"""Nothing of the daemon's. The linker resolves all names before the first fork, not after each."""

FIRST_PAUSE = 0.1
"""Seconds until a fork server is started again; doubled with each that ends soon."""
CALM_SECONDS = 0.01
"""Between the end of a script and the making of a spare, which takes the CPU that its reply needs."""

MUCH_BYTES = 16 * 2**20
"""Having passed on more than this for scripts, the daemon gives memory back."""
TIDY_SECONDS = 0.3
"""From then on, in which what they left is let go of."""

KERNEL_MEMORY = 3
"""The kernel's limit on a VM, in multiples of what its script may use: a tool's result passes through
it as bytes and as text before it is JavaScript's."""
KERNEL_SPARE_BYTES = 96 * 2**20


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
        self._over: deque[Vm] = deque()
        """To be killed with the next orders."""
        self._missing = anyio.Event()
        self._used = anyio.Event()
        self._moved = 0
        self._line: deque[anyio.Event] = deque()
        self._handed = 0
        """Places, of the busy ones, whose new owner has yet to wake and take a VM."""
        self._control: socket.socket | None = None
        self._ready = anyio.Event()
        self._numbers = 0
        self.fork_server: int | None = None
        """The process ID of the fork server, while there is one."""

    @property
    def waiting(self) -> int:
        return len(self._line)

    @asynccontextmanager
    async def vm(self, queue_seconds: float) -> AsyncIterator[Vm]:
        """A process for one script, killed on the way out.

        Raises `PoolBusy` when none is free within `queue_seconds`, first come, first served.
        """
        if not self._ready.is_set():  # while the fork server starts
            with anyio.move_on_after(queue_seconds):
                await self._ready.wait()
        await self._enter(queue_seconds)
        try:
            vm = self._take()
            try:
                yield vm
            finally:
                self._over.append(vm)
                self.moved(vm.moved)
                if not vm.finished:
                    vm.close()
                    self._refill()
        finally:
            self._leave()

    def moved(self, size: int) -> None:
        """So many bytes more went through this process for scripts: after many of them memory is given back."""
        self._moved += size
        if self._moved > MUCH_BYTES:
            self._used.set()

    def _take(self) -> Vm:
        while self._spares:
            vm = self._spares.popleft()
            if vm.there:
                return vm
            vm.close()  # it was killed, and we have yet to be told
        return self._fork()

    async def _enter(self, seconds: float) -> None:
        if self.busy < self.size and not self._line:
            self.busy += 1
            return
        turn = anyio.Event()
        self._line.append(turn)
        try:
            with anyio.move_on_after(seconds):
                await turn.wait()
        except BaseException:
            if turn.is_set():
                self._handed -= 1
                self._leave()
            raise
        finally:
            if not turn.is_set():
                self._line.remove(turn)
        if not turn.is_set():
            raise PoolBusy(
                f"all {self.size} processes for scripts were busy for {seconds:g} s; try again later, "
                "or raise code_execution_pool_size"
            )
        self._handed -= 1

    def _leave(self) -> None:
        if self._line:
            self._line.popleft().set()  # the place is handed on, `busy` stays
            self._handed += 1
            self._refill()
        else:
            self.busy -= 1
            self._missing.set()

    async def keep_up(self) -> None:
        """Make spares for those that were taken, once the reply is on its way. For ever."""
        while True:
            await self._missing.wait()
            await anyio.sleep(CALM_SECONDS)
            self._missing = anyio.Event()
            self._refill()

    async def tidy(self) -> None:
        """Give memory back that was used for what scripts sent and got, once they are over. For ever."""
        while True:
            await self._used.wait()
            await anyio.sleep(TIDY_SECONDS)
            self._used, self._moved = anyio.Event(), 0
            gc.collect()  # what was cancelled is in cycles, and holds what it was about
            await anyio.to_thread.run_sync(give_back)

    def _refill(self) -> None:
        """Have killed what is over, and made what is missing: no more at any time than the pool is large."""
        with suppress(WorkerError):  # who needs a VM then asks again, and is told
            while len(self._spares) + self.busy - self._handed < self.size:
                self._spares.append(self._fork())
        with suppress(WorkerError):  # the next order carries it
            while self._over:
                self._order()

    def _fork(self, act: str | None = None) -> Vm:
        """Ask for a process. Its socket takes the job at once, even before it is born."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise WorkerError(f"no VM could be made: {error}") from error
        ours.setblocking(False)
        theirs.setblocking(False)
        self._numbers += 1
        vm = Vm(self._numbers, ours)
        with theirs:
            try:
                self._order(vm.number, [theirs.fileno()], act)
            except WorkerError:
                ours.close()
                raise
        self._vms[vm.number] = vm
        return vm

    def _order(self, made: int = 0, line: Sequence[int] = (), act: str | None = None) -> None:
        """Have VM `made` made, whose descriptor `line` is, and the first that is over killed.

        Raises `WorkerError` when the fork server takes no orders.
        """
        if self._control is None:
            raise WorkerError("the process that makes VMs is starting again; try again")
        over = 0
        if self._over:
            self._over[0].close()
            over = self._over[0].number
        order = ORDER.pack(over, made, 0 if act is None else probe.ALL.index(act) + 1)
        try:
            socket.send_fds(self._control, [order], line)
        except OSError as error:
            raise WorkerError(f"no VM could be made: {error}") from error
        if over:
            self._over.popleft()

    async def verify(self) -> dict[str, bool]:
        """Have a VM try each thing it must not be able to do, and say which attempts were stopped.

        Raises `WorkerError` where that can't be tried.
        """
        await self._ready.wait()
        found = {}
        for act in probe.ALL:
            vm = self._fork(act)
            try:
                with anyio.move_on_after(10):
                    await vm.ended.wait()
            finally:
                vm.close()
            if vm.ended.is_set() and vm.status is None:
                raise WorkerError("the process that makes VMs ended before a VM had tried it")
            wanted = probe.REFUSED if act == probe.LANDLOCK_ACT else -signal.SIGSYS
            found[act] = vm.status == wanted
        return found

    # the fork server

    async def run(self) -> None:
        """Keep the fork server running, for ever. Raises `OSError` where not even the first can be started."""
        failures = 0
        while True:
            born, why = anyio.current_time(), "ended"
            try:
                async with self._zygote() as control:
                    await self._follow(control)
            except OSError as error:
                if not self._numbers:  # it never was there: nothing will run here
                    raise
                why = f"can't be started: {error}"
            failures = 0 if anyio.current_time() - born > 10 else failures + 1
            pause = min(30.0, FIRST_PAUSE * 2**failures)
            logger.error("the process that makes VMs %s; starting another in %.1f s", why, pause)
            await anyio.sleep(pause)

    @asynccontextmanager
    async def _zygote(self) -> AsyncIterator[socket.socket]:
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
                    env=ENVIRONMENT,
                    pass_fds=[theirs.fileno()],
                )
            try:
                yield ours
            finally:
                self._control = self.fork_server = None
                self._forget()
                ours.close()  # tells it to kill its children and end
                await process.end(2.0)

    async def _follow(self, control: socket.socket) -> None:
        """Note what the fork server tells, until it ends."""
        rest = b""
        with closing(Readable(control.fileno())) as readable:
            while True:
                try:
                    data = control.recv(1 << 16)
                except BlockingIOError:
                    await readable.wait()
                    continue
                except OSError:
                    return
                if not data:
                    return
                data = rest + data
                whole = len(data) // EVENT.size * EVENT.size
                rest = data[whole:]
                for number, pid, status in EVENT.iter_unpack(data[:whole]):
                    if number:
                        self._note_end(number, pid, status)
                    else:
                        self._note_ready(control, pid, status)

    def _note_ready(self, control: socket.socket, pid: int, in_force: int) -> None:
        self._control = control
        self.fork_server = pid
        if self._birth == "fork":
            self.layers = {name: bool(in_force >> n & 1) for n, name in enumerate(LAYERS)}
        self._ready.set()
        self._refill()

    def _note_end(self, number: int, pid: int, status: int) -> None:
        vm = self._vms.pop(number, None)
        if vm is None:
            return
        vm.pid, vm.status = pid, status
        vm.end()
        if vm in self._spares:
            self._spares.remove(vm)
            vm.close()
            self._refill()

    def _forget(self) -> None:
        for vm in self._spares:
            vm.close()
        self._spares.clear()
        for vm in self._vms.values():
            vm.end()  # those that ran are closed by who used them
        for vm in self._over:
            vm.close()
        self._over.clear()
        self._vms.clear()
        if self._ready.is_set():  # else somebody waits for this one
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
        tasks.start_soon(pool.keep_up)
        tasks.start_soon(pool.tidy)
        yield pool
        tasks.cancel_scope.cancel()
