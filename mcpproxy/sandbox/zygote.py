"""The fork server: a small process with the engine loaded, of which each VM is a copy.

It stays single-threaded, holds no secret, and can open nothing any more once it is ready. The
daemon tells it over a socket pair to fork (handing over the VM's socket) and to kill; it tells the
daemon how each one ended (`orders.py`). Being the parent, only it can kill without ever hitting a
process that got the number later.

Between two forks little should be touched, as each page of it is copied anew: hence records rather
than JSON, `_socket` rather than `socket`, and no contextlib in between.

Where a system has no fork, it starts a fresh interpreter for each VM instead: slower, and as confined.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import struct
import sys
import time
from _socket import CMSG_LEN, socket  # `socket` brings a megabyte along
from typing import NoReturn

from mcpproxy.sandbox import probe
from mcpproxy.sandbox.confine import LAYERS, Confinement, note_mapped
from mcpproxy.sandbox.engine import Engine, Line, Parser
from mcpproxy.sandbox.memory import give_back
from mcpproxy.sandbox.orders import EVENT, ORDER
from mcpproxy.sandbox.worker import rehearse, work

VM_DESCRIPTOR = 3
"""The one descriptor a VM has."""

DESCRIPTORS = 1024
"""More than the fork server ever has, all its numbers being low."""

QUIET_MS = 100
"""A VM for which no script comes in this time rehearses once more; a busy machine has better things to do."""

INT = struct.Struct("i")
ANCILLARY_BYTES = CMSG_LEN(64 * INT.size)

REHEARSALS = 12
"""The interpreter adapts code that has run eight times or so: better once here than in each VM."""

FORK_PAUSE = 0.1
"""Seconds between attempts when the kernel gives no process."""

NEWBORN = "from mcpproxy.sandbox.zygote import newborn; newborn()"


class Zygote:
    """See the module. `forks` is whether VMs are copies of this process or fresh interpreters."""

    def __init__(self, control: socket, memory_bytes: int, *, forks: bool) -> None:
        self._control = control
        self._memory_bytes = memory_bytes
        self._vm = Newborn() if forks else None
        self._numbers: dict[int, int] = {}  # of the VM that has this process ID
        self._pids: dict[int, int] = {}  # of the VM that has this number
        self._wakeup, woken = os.pipe()
        # Not the number that a VM's socket gets: a signal would be written to it.
        self._woken = os.dup(woken) if woken == VM_DESCRIPTOR else woken

    def run(self) -> NoReturn:
        """Serve until the daemon hangs up; then take all VMs along."""
        confinement = Confinement() if self._vm is None else self._vm.confinement
        confinement.die_with(os.getppid())
        give_way()
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, who tells us
        if self._vm is not None:
            self._vm.enter_jail(self._memory_bytes)
            gc.collect()
            give_back()
            gc.freeze()  # what is here stays shared with the children
        in_force = sum(confinement.layers[name] << n for n, name in enumerate(LAYERS))
        self._tell(0, os.getpid(), in_force)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wakeup:
                    os.read(self._wakeup, 4096)
                    self._reap()
                elif not self._obey():
                    self._end()

    def _tell(self, number: int, pid: int, status: int) -> None:
        try:
            self._control.send(EVENT.pack(number, pid, status))
        except OSError:
            pass  # the daemon is gone; `run` will notice

    def _obey(self) -> bool:
        """Carry out the next order; False when the daemon has hung up."""
        order, sockets = b"", []
        while len(order) < ORDER.size:
            try:
                data, ancillary, _, _ = self._control.recvmsg(
                    ORDER.size - len(order), ANCILLARY_BYTES
                )
            except ConnectionResetError:
                return False
            if not data:
                return False
            order += data
            for _, _, passed in ancillary:  # SCM_RIGHTS is all there is between the two
                whole = len(passed) // INT.size * INT.size
                sockets += [descriptor for (descriptor,) in INT.iter_unpack(passed[:whole])]
        ended, made, act = ORDER.unpack(order)
        if (pid := self._pids.get(ended)) is not None:
            os.kill(pid, signal.SIGKILL)
        if sockets and made and act <= len(probe.ALL):
            self._bear(made, sockets[0], act)
        for descriptor in sockets:
            os.close(descriptor)
        return True

    def _bear(self, number: int, descriptor: int, act: int) -> None:
        try:
            pid = self._spawn(descriptor, act) if self._vm is None else self._fork(descriptor, act)
        except OSError as error:
            # Too many processes, or no memory for one: this VM is over, those that run go on.
            self._tell(number, 0, error.errno or 1)
            time.sleep(FORK_PAUSE)  # the pool asks again at once
        else:
            self._numbers[pid] = number
            self._pids[number] = pid

    def _fork(self, descriptor: int, act: int) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            assert self._vm is not None
            # The handler of SIGCHLD stays: a VM has no children, and changing it copies 90 pages.
            self._vm.live(parent, descriptor, act)
        return pid

    def _spawn(self, descriptor: int, act: int) -> int:
        import subprocess  # only here: it brings threads along, which would cost each fork

        arguments = map(str, (os.getpid(), descriptor, self._memory_bytes, act))
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", NEWBORN, *arguments],
            env=dict(os.environ),
            pass_fds=[descriptor],
        )
        process.returncode = 0  # `_reap` collects it, Popen need not
        return process.pid

    def _reap(self) -> None:
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if (number := self._numbers.pop(pid, None)) is not None:
                del self._pids[number]
                self._tell(number, pid, os.waitstatus_to_exitcode(status))

    def _end(self) -> NoReturn:
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def give_way() -> None:
    """Have scripts, which may compute for minutes, not interrupt the daemon when they wake (sched(7))."""
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Newborn:
    """What becomes a VM: the engine with its prelude, the parser, and the confinement prepared."""

    def __init__(self) -> None:
        self.confinement = Confinement()
        self._engine = Engine()
        self._parser = Parser()
        self._line = Line(VM_DESCRIPTOR)
        self._job = select.poll()
        self._job.register(VM_DESCRIPTOR, select.POLLIN)
        for _ in range(REHEARSALS):
            self._rehearse()

    def _rehearse(self) -> None:
        rehearse(self._engine, self._parser)
        parent, free = os.getppid(), os.dup(0)
        self._shed(parent, free, free, free, free + 1)
        os.close(free)
        self.confinement.rehearse(parent)

    def enter_jail(self, memory_bytes: int) -> None:
        """All that was to be read has been read."""
        note_mapped()
        self.confinement.enter_jail(memory_bytes)

    def live(self, parent: int, descriptor: int, act: int) -> NoReturn:
        """Shed all that is the parent's, confine, wait for a job, do it, and end."""
        try:
            self._shed(parent, descriptor, VM_DESCRIPTOR, 0, DESCRIPTORS)
            if not self._job.poll(QUIET_MS):
                # Nobody waits: touch what every script touches, as pages are copied on the first
                # write to them.
                rehearse(self._engine, self._parser)
            self.confinement.limit()
            if act:
                probe.attempt(probe.ALL[act - 1], self.confinement)
            self.confinement.seal()
            work(self._line, self._engine, self._parser)
        finally:
            os._exit(70)  # only an exception leads here

    def _shed(self, parent: int, descriptor: int, own: int, first: int, last: int) -> None:
        """Die with the parent, and have one descriptor, as number `own`, of those from `first` to `last`."""
        self.confinement.die_with(parent)
        os.dup2(descriptor, own)
        os.closerange(first, own)
        os.closerange(own + 1, last)


def main() -> NoReturn:
    """`python -I -c ... DESCRIPTOR MEMORY_BYTES fork|spawn`: started by `pool.py`, not by people."""
    # Dates are in UTC, whatever the host's zone; and libc must not look for its file later.
    os.environ.clear()
    os.environ["TZ"] = "UTC0"
    given = int(sys.argv[1])
    control = socket(fileno=os.dup(given))  # a low number, that a VM is sure to close
    os.close(given)
    Zygote(control, int(sys.argv[2]), forks=sys.argv[3] == "fork").run()


def newborn() -> NoReturn:
    """`python -I -c ... PARENT DESCRIPTOR MEMORY_BYTES ACT`: a VM in an interpreter of its own."""
    parent, descriptor, memory_bytes, act = map(int, sys.argv[1:])
    vm = Newborn()
    vm.enter_jail(memory_bytes)
    vm.live(parent, descriptor, act)
