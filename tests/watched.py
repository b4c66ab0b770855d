"""A pool that remembers whom it handed out last, and who its processes are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

from mcpproxy.sandbox.pool import Pool
from mcpproxy.sandbox.vm import Vm


class Watched:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.last: Vm | None = None

    @asynccontextmanager
    async def vm(self, queue_seconds: float) -> AsyncIterator[Vm]:
        async with self.pool.vm(queue_seconds) as vm:
            self.last = vm
            yield vm


def children(pid: int) -> list[int]:
    """The processes that a process of one thread has started, as they were born."""
    return [
        int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    ]


async def pids(pool: Pool) -> dict[int, int]:
    """The process ID of each VM by its number, once all are born that were ordered."""
    with anyio.fail_after(10):
        while pool.fork_server is None or len(born := children(pool.fork_server)) != len(pool._vms):
            await checkpoint()
    return dict(zip(sorted(pool._vms), born, strict=True))


async def pid_of(vm: Vm, pool: Pool) -> int:
    return (await pids(pool))[vm.number]


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
