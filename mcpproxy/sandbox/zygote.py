"""The fork server: a small process with the engine loaded, of which each VM is a copy.

It stays single-threaded, holds no secret, and can open nothing any more once it is ready. The
daemon tells it over a socket pair to fork (handing over the VM's socket) and to kill; it tells the
daemon who was born and how each one ended. Being the parent, only it can kill without ever hitting
a process that got the number later.

    daemon ── "fork 7" + socket, "probe 7 ACT" + socket, "kill 7" ──► zygote
    daemon ◄── {"ready": layers}, {"id", "pid"}, {"id", "status"} ─── zygote

Between two forks little should be touched, as each page of it is copied anew: hence orders in plain
words, and neither a JSON encoder nor contextlib in between.

Where a system has no fork, it starts a fresh interpreter for each VM instead: slower, and as confined.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import NoReturn

from mcpproxy.sandbox import frames, probe
from mcpproxy.sandbox.confine import Confinement, note_mapped
from mcpproxy.sandbox.worker import Engine, Line, Parser, rehearse, work

VM_DESCRIPTOR = 3
"""The one descriptor a VM has."""

QUIET_MS = 20
"""A VM for which no script comes in this time rehearses; a busy machine has better things to do."""

INT = struct.Struct("i")
ANCILLARY_BYTES = socket.CMSG_LEN(64 * INT.size)
MOST_DIGITS = 18

FORK_PAUSE = 0.1
"""Seconds between attempts when the kernel gives no process."""

NEWBORN = "from mcpproxy.sandbox.zygote import newborn; newborn()"


class Zygote:
    """See the module. `forks` is whether VMs are copies of this process or fresh interpreters."""

    def __init__(self, control: socket.socket, memory_bytes: int, *, forks: bool) -> None:
        self._control = control
        self._memory_bytes = memory_bytes
        self._vm = Newborn() if forks else None
        self._pids: dict[int, int] = {}  # pid -> id
        self._splitter = frames.Splitter()
        self._sockets: list[int] = []
        self._wakeup, self._woken = os.pipe()

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
            gc.freeze()  # what is here stays shared with the children
        self._tell(json.dumps({"ready": confinement.layers}).encode())
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

    def _tell(self, event: bytes) -> None:
        try:
            self._control.sendall(frames.pack(event))
        except OSError:
            pass  # the daemon is gone; `run` will notice

    def _obey(self) -> bool:
        """Carry out what has arrived; False when the daemon has hung up."""
        try:
            data, ancillary, _, _ = self._control.recvmsg(65536, ANCILLARY_BYTES)
            found = self._splitter.feed(data)
        except (ConnectionResetError, frames.BadFrame):
            return False
        sockets = [
            descriptor
            for _, _, passed in ancillary  # SCM_RIGHTS is all there is between the two
            for (descriptor,) in INT.iter_unpack(passed[: len(passed) // INT.size * INT.size])
        ]
        # One read ends with the message that a socket came with (unix(7)), so a socket belongs to
        # the last frame, or to the one whose rest is still to come.
        for n, frame in enumerate(found, 1):
            if n == len(found) and self._splitter.empty:
                self._sockets += sockets
                sockets = []
            self._carry_out(frame)
            while self._sockets:
                os.close(self._sockets.pop())
        self._sockets += sockets
        return bool(data)

    def _carry_out(self, order: bytes) -> None:
        """What is no order does nothing."""
        verb, _, rest = order.partition(b" ")
        told, _, act = rest.partition(b" ")
        if not (told.isdigit() and len(told) < MOST_DIGITS):
            return
        number = int(told)
        if verb == b"kill":
            for pid, found in self._pids.items():
                if found == number:
                    os.kill(pid, signal.SIGKILL)
        elif self._sockets and (verb == b"fork" or verb == b"probe"):
            self._bear(
                number,
                self._sockets.pop(0),
                act.decode(errors="replace") if verb == b"probe" else None,
            )

    def _bear(self, number: int, descriptor: int, act: str | None) -> None:
        try:
            pid = self._spawn(descriptor, act) if self._vm is None else self._fork(descriptor, act)
        except OSError as error:
            # Too many processes, or no memory for one: this VM is over, those that run go on.
            self._tell(b'{"id":%d,"status":%d}' % (number, error.errno or 1))
            time.sleep(FORK_PAUSE)  # the pool asks again at once
            return
        finally:
            os.close(descriptor)
        self._pids[pid] = number
        self._tell(b'{"id":%d,"pid":%d}' % (number, pid))

    def _fork(self, descriptor: int, act: str | None) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            assert self._vm is not None
            # The handler of SIGCHLD stays: a VM has no children, and changing it copies 90 pages.
            signal.set_wakeup_fd(-1)
            self._vm.live(parent, descriptor, act)
        return pid

    def _spawn(self, descriptor: int, act: str | None) -> int:
        import subprocess  # only here: it brings threads along, which would cost each fork

        arguments = [str(os.getpid()), str(descriptor), str(self._memory_bytes), act or ""]
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", NEWBORN, *arguments],
            env=dict(os.environ),
            pass_fds=[descriptor],
        )
        process.returncode = 0  # `_reap` collects it, Popen need not
        return process.pid

    def _reap(self) -> None:
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if (number := self._pids.pop(pid, None)) is not None:
                code = os.waitstatus_to_exitcode(status)
                self._tell(b'{"id":%d,"status":%d}' % (number, code))

    def _end(self) -> NoReturn:
        for pid in self._pids:
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
        rehearse(self._engine, self._parser)

    def enter_jail(self, memory_bytes: int) -> None:
        """All that was to be read has been read."""
        note_mapped()
        self.confinement.enter_jail(memory_bytes)

    def live(self, parent: int, descriptor: int, act: str | None) -> NoReturn:
        """Shed all that is the parent's, confine, wait for a job, do it, and end."""
        try:
            self.confinement.die_with(parent)
            os.dup2(descriptor, VM_DESCRIPTOR)
            for standard in range(VM_DESCRIPTOR):
                os.close(standard)
            os.closerange(VM_DESCRIPTOR + 1, 1024)
            sys.stdin = sys.stdout = sys.stderr = None
            if not self._job.poll(QUIET_MS):
                # Nobody waits: touch what every script touches, as pages are copied on the first
                # write to them.
                rehearse(self._engine, self._parser)
            self.confinement.limit()
            if act is not None:
                probe.attempt(act, self.confinement)
            self.confinement.seal()
            work(self._line, self._engine, self._parser)
        finally:
            os._exit(70)  # only an exception leads here


def main() -> NoReturn:
    """`python -I -c ... DESCRIPTOR MEMORY_BYTES fork|spawn`: started by `pool.py`, not by people."""
    # Dates are in UTC, whatever the host's zone; and libc must not look for its file later.
    os.environ.clear()
    os.environ["TZ"] = "UTC0"
    control = socket.socket(fileno=int(sys.argv[1]))
    Zygote(control, int(sys.argv[2]), forks=sys.argv[3] == "fork").run()


def newborn() -> NoReturn:
    """`python -I -c ... PARENT DESCRIPTOR MEMORY_BYTES [ACT]`: a VM in an interpreter of its own."""
    parent, descriptor, memory_bytes, act = sys.argv[1:]
    vm = Newborn()
    vm.enter_jail(int(memory_bytes))
    vm.live(int(parent), int(descriptor), act or None)
