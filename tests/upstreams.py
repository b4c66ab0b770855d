"""Settings of servers that are `stub_server.py`, and a fleet of them for as long as a block."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcpproxy.settings import ServerSettings, Settings
from mcpproxy.upstream.fleet import Fleet, open_fleet

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
