"""Servers that are `stub_server.py`, a fleet of them for as long as a block, and what tests ask of it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpproxy.errors import CallError
from mcpproxy.settings import ServerSettings, Settings
from mcpproxy.upstream.fleet import Fleet, open_fleet

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
STUB = str(Path(__file__).with_name("stub_server.py"))


def stub(*flags: str, name: str = "stub", **settings: Any) -> ServerSettings:
    """A server that is the stub with these flags."""
    args = ["-I", "-S", STUB, *flags]
    return ServerSettings(name=name, command=sys.executable, args=args, **settings)


def wanted(*servers: ServerSettings, **settings: Any) -> Settings:
    return Settings(mcpServers=servers, **settings)


@asynccontextmanager
async def open_stubs(
    logs: Path,
    *servers: ServerSettings,
    environ: dict[str, str] | None = None,
    state: Path | None = None,
    **settings: Any,
) -> AsyncIterator[Fleet]:
    """A fleet whose servers have each connected or failed once."""
    environ = {"PATH": os.environ["PATH"]} if environ is None else environ
    async with open_fleet(wanted(*servers, **settings), environ, logs, state) as fleet:
        with anyio.fail_after(20):
            await fleet.settled()
        yield fleet


async def until(true: Callable[[], bool | Awaitable[bool]], seconds: float = 20) -> None:
    """Wait for something that nobody announces."""
    with anyio.fail_after(seconds):
        while True:
            found = true()
            if found if isinstance(found, bool) else await found:
                return
            await anyio.lowlevel.checkpoint()


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and waits for its parent doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


@asynccontextmanager
async def fleet_of(tmp_path: Path, *flags: str, **settings: Any) -> AsyncIterator[Fleet]:
    async with open_stubs(tmp_path / "logs", stub(*flags, **settings)) as fleet:
        yield fleet


async def stats(fleet: Fleet, server: str = "stub") -> dict[str, Any]:
    result = await fleet.call(server, "stats", {})
    found: dict[str, Any] = result["structuredContent"]
    return found


async def refused(
    fleet: Fleet,
    tool: str,
    arguments: dict[str, Any] | None = None,
    server: str = "stub",
    **more: Any,
) -> CallError:
    with anyio.fail_after(15), pytest.raises(CallError) as caught:
        await fleet.call(server, tool, arguments or {}, **more)
    return caught.value


async def pid(fleet: Fleet, server: str) -> int:
    found: int = (await fleet.call(server, "whoami", {}))["structuredContent"]["pid"]
    return found
