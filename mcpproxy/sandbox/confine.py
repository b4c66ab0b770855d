"""A process that can compute, talk over the one socket it has, and end. Nothing else.

Layers, each of which holds by itself; what a platform lacks is reported, not assumed:

- resource limits (setrlimit(2)): address space, CPU time, no files, no processes, no core
- not dumpable, dies with its parent (PR_SET_DUMPABLE, PR_SET_PDEATHSIG; prctl(2))
- no_new_privs (Documentation/userspace-api/no_new_privs.rst)
- Landlock without any right (Documentation/userspace-api/landlock.rst)
- a seccomp allow-list that kills the process on anything else
  (Documentation/userspace-api/seccomp_filter.rst)

No maintained Python package does the last two together on x86-64 and aarch64 without a C library to
install beside it; the calls themselves are few. `tests/test_confine.py` breaks every rule once.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
from typing import NamedTuple

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2
RET_KILL_PROCESS, RET_ALLOW = 0x80000000, 0x7FFF0000
LOAD, EQUAL, BITS, RETURN = 0x20, 0x15, 0x45, 0x06
"""BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_JMP|BPF_JSET|BPF_K, BPF_RET|BPF_K."""

NUMBER, ARCH, THIRD_ARGUMENT = 0, 4, 32
"""Offsets in struct seccomp_data; the low half of the third argument, little-endian."""

PROT_EXEC = 4
CREATE_RULESET, RESTRICT_SELF = 444, 446
"""Landlock's system calls have the same numbers on all architectures."""


class Machine(NamedTuple):
    """What the filter must know of an architecture: its audit number and its system calls."""

    audit: int
    allowed: dict[str, int]
    without_exec: dict[str, int]


MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        {
            # the socket
            "read": 0, "write": 1, "poll": 7, "sendto": 44, "recvfrom": 45,
            # memory, for malloc
            "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28,
            # locks and clocks that libc and the interpreter use
            "futex": 202, "sched_yield": 24, "clock_gettime": 228, "gettimeofday": 96,
            # os.urandom, the peak of memory, and the return from a signal handler
            "getrandom": 318, "getrusage": 98, "rt_sigreturn": 15, "rt_sigprocmask": 14,
            # made for it by the kernel, to go on with a poll after it was stopped or the machine slept
            "restart_syscall": 219,
            # the end
            "exit": 60, "exit_group": 231,
        },
        {"mmap": 9, "mprotect": 10},
    ),
    "aarch64": Machine(
        0xC00000B7,
        {
            "read": 63, "write": 64, "ppoll": 73, "sendto": 206, "recvfrom": 207,
            "munmap": 215, "brk": 214, "mremap": 216, "madvise": 233,
            "futex": 98, "sched_yield": 124, "clock_gettime": 113, "gettimeofday": 169,
            "getrandom": 278, "getrusage": 165, "rt_sigreturn": 139, "rt_sigprocmask": 135,
            "restart_syscall": 128,
            "exit": 93, "exit_group": 94,
        },
        {"mmap": 222, "mprotect": 226},
    ),
}  # fmt: skip

LAYERS = ("not dumpable", "no_new_privs", "landlock")
"""The layers that may be in force or not before a VM is born."""

VM_DESCRIPTORS = 4
"""0 to 3, of which a VM has the last."""

MAX_CPU_SECONDS = 660
"""Above the longest timeout a request may ask for: the daemon's clock comes first."""


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("len", ctypes.c_ushort), ("code", ctypes.c_void_p))


def assemble(machine: Machine) -> bytes:
    """The seccomp program: the right architecture, then one of the allowed calls, else death."""
    code = [
        struct.pack("HBBI", LOAD, 0, 0, ARCH),
        struct.pack("HBBI", EQUAL, 1, 0, machine.audit),
        struct.pack("HBBI", RETURN, 0, 0, RET_KILL_PROCESS),
        struct.pack("HBBI", LOAD, 0, 0, NUMBER),
    ]
    for number in machine.without_exec.values():
        code += [
            struct.pack("HBBI", EQUAL, 0, 4, number),
            struct.pack("HBBI", LOAD, 0, 0, THIRD_ARGUMENT),
            struct.pack("HBBI", BITS, 0, 1, PROT_EXEC),
            struct.pack("HBBI", RETURN, 0, 0, RET_KILL_PROCESS),
            struct.pack("HBBI", RETURN, 0, 0, RET_ALLOW),
        ]
    for number in machine.allowed.values():
        code += [
            struct.pack("HBBI", EQUAL, 0, 1, number),
            struct.pack("HBBI", RETURN, 0, 0, RET_ALLOW),
        ]
    code.append(struct.pack("HBBI", RETURN, 0, 0, RET_KILL_PROCESS))
    return b"".join(code)


class Confinement:
    """Prepared before the fork, so that each child pays for a handful of system calls only."""

    def __init__(self) -> None:
        self._linux = sys.platform == "linux"
        machine = MACHINES.get(os.uname().machine) if self._linux else None
        self._libc = ctypes.CDLL(None, use_errno=True) if self._linux else None
        self._filter: object = None
        if machine is not None:
            program = assemble(machine)
            self._program = ctypes.create_string_buffer(program, len(program))
            self._filter = ctypes.byref(Filter(len(program) // 8, ctypes.addressof(self._program)))
        self._own = _limits(
            {"RLIMIT_CPU": MAX_CPU_SECONDS, "RLIMIT_NPROC": 0, "RLIMIT_NOFILE": VM_DESCRIPTORS}
        )
        self.layers = dict.fromkeys(LAYERS, False)
        """Which layers are in force in this process."""

    def enter_jail(self, memory_bytes: int | None) -> None:
        """What a process takes on for itself and all its children once it needs no file any more.

        `memory_bytes` is what it may map beyond what is mapped already; None is any number.
        """
        most = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
        if self._linux and memory_bytes is not None:
            most["RLIMIT_AS"] = mapped_bytes() + memory_bytes
        for kind, pair in _limits(most):
            resource.setrlimit(kind, pair)
        not_dumpable = self._prctl(PR_SET_DUMPABLE, 0) == 0
        no_new_privs = self._prctl(PR_SET_NO_NEW_PRIVS, 1) == 0
        landlock = no_new_privs and self._landlock()
        self.layers = dict(zip(LAYERS, (not_dumpable, no_new_privs, landlock), strict=True))

    def die_with(self, parent: int) -> None:
        """Have the kernel kill this process when its parent ends, whatever ends it."""
        if self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL) == 0 and os.getppid() != parent:
            os._exit(0)  # it ended before the call above

    def limit(self) -> None:
        """The resource limits that only a VM can have."""
        for kind, most in self._own:
            resource.setrlimit(kind, most)

    def rehearse(self, parent: int) -> None:
        """What a child does before it seals itself, to no effect."""
        self.die_with(parent)
        own = self._own
        self._own = [(kind, resource.getrlimit(kind)) for kind, _ in own]
        self.limit()
        self._own = own

    def seal(self) -> None:
        """The last step: from here on any other system call is the end of the process."""
        if self._filter is not None:
            self._prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._filter)

    def _prctl(self, option: int, first: int, second: object = 0) -> int:
        return -1 if self._libc is None else int(self._libc.prctl(option, first, second, 0, 0))

    def _landlock(self) -> bool:
        """Give up every right this kernel's Landlock knows of. False where there is none."""
        assert self._libc is not None
        abi = self._libc.syscall(CREATE_RULESET, None, 0, 1)
        if abi < 1:
            return False
        # struct landlock_ruleset_attr: file rights, network rights (ABI 4), scopes (ABI 6).
        files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1
        rights = struct.pack("QQQ", files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        ruleset = self._libc.syscall(CREATE_RULESET, rights, size, 0)
        if ruleset < 0:
            return False
        try:
            return bool(self._libc.syscall(RESTRICT_SELF, ruleset, 0) == 0)
        finally:
            os.close(ruleset)


def _limits(most: dict[str, int]) -> list[tuple[int, tuple[int, int]]]:
    """Resource limits that can't be raised again; a system that lacks one goes without."""
    return [
        (getattr(resource, name), (value, value))
        for name, value in most.items()
        if hasattr(resource, name)
    ]


_mapped = 0


def note_mapped() -> None:
    """Remember how much is mapped, while /proc can still be read."""
    global _mapped
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _mapped = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        _mapped = 256 * 2**20


def mapped_bytes() -> int:
    """Address space in use when `note_mapped` was called (children of a fork share the figure)."""
    return _mapped
