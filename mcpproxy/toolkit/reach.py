"""How a toolkit reaches its daemon: over a socket, over HTTP, or in this process.

On each of them it is the same interface, that of `/api/v1`; a daemon in this process is asked
without a socket in between.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcpproxy.embedded import Config, Proxy
from mcpproxy.errors import REFUSALS, Refused, Unreachable

if TYPE_CHECKING:
    import httpx2

Json = dict[str, Any]

CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """Which daemon is meant: the one at a URL, or the one of a configuration."""

    config: Config | None = None
    url: str | None = None
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.url is not None and not is_address(self.url):
            raise ValueError(
                f"url must begin with http:// or https://, a host and perhaps a port, not {self.url!r}"
            )
        if self.url is not None and self.config is not None:
            raise ValueError("give config or url, not both")
        if self.url is None and self.key is not None:
            raise ValueError("key goes with url: the daemon of a configuration needs none")
        if self.key is not None and (self.key != self.key.strip() or not self.key.isprintable()):
            raise ValueError("key has a line end, or another character that no key has")


def is_address(url: str) -> bool:
    try:
        found = urlsplit(url)
        return found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:  # of a port or an IPv6 address
        return False


class Line:
    """A daemon that can be asked."""

    def __init__(self, client: httpx2.AsyncClient, where: str) -> None:
        self._client = client
        self._where = where

    async def ask(self, verb: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """Status and JSON of one answer. Raises `Unreachable`, `ValueError` for what is no JSON."""
        import httpx2

        try:
            content = None if body is None else json.dumps(body).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the arguments are no JSON: {error}") from error
        try:
            answer = await self._client.request(verb, path, content=content)
            found = json.loads(answer.content)
        except httpx2.HTTPError as error:
            raise Unreachable(
                f"no daemon answers at {self._where} ({type(error).__name__}); start it with: mcpproxy serve"
            ) from error
        except (ValueError, RecursionError) as error:
            raise Unreachable(f"what answers at {self._where} is no mcpproxy") from error
        if not isinstance(found, dict):
            raise Unreachable(f"what answers at {self._where} is no mcpproxy")
        return answer.status_code, found

    async def get(self, path: str) -> Any:
        """The data of one answer. Raises `Unreachable`, and `Refused` where it was turned away."""
        status, found = await self.ask("GET", path)
        if status == 200 and "data" in found:
            return found["data"]
        raise refused(found, self._where)


def refused(found: Json, where: str) -> Refused | Unreachable:
    match found.get("error"):
        case {"code": str(code), "message": str(message)}:
            return Refused(code if code in REFUSALS else "EXECUTION_FAILED", message)
    return Unreachable(f"what answers at {where} is no mcpproxy")


@asynccontextmanager
async def open_line(target: Target) -> AsyncIterator[Line]:
    """The daemon that is meant, for as long as the block.

    That of a configuration is the one that runs with it, or else one that is opened here. Raises
    `SettingsError`, and whatever the first question to it raises.
    """
    import httpx2

    headers = {b"Content-Type": b"application/json"}
    if target.key:
        headers[b"X-API-Key"] = target.key.encode()
    async with AsyncExitStack() as stack:
        transport, url, where = await found(target, headers, stack)
        client = httpx2.AsyncClient(
            transport=transport,
            base_url=url,
            headers=headers,
            # How long a call may take is the daemon's to say.
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        )
        yield Line(await stack.enter_async_context(client), where)


async def found(
    target: Target, headers: dict[bytes, bytes], stack: AsyncExitStack
) -> tuple[httpx2.AsyncBaseTransport | None, str, str]:
    """The way to the daemon, its URL, and what to call it."""
    import anyio
    import httpx2

    if target.url is not None:
        return None, target.url, target.url
    if not isinstance(target.config, Mapping):
        from mcpproxy.cli import local

        file = None if target.config is None else os.fspath(target.config)
        running = await anyio.to_thread.run_sync(local.find, file)
        if running is not None and running.socket is not None:
            way = httpx2.AsyncHTTPTransport(uds=str(running.socket))
            return way, "http://localhost", running.where
        if running is not None:
            headers[b"X-API-Key"] = running.key.encode()
            return httpx2.AsyncHTTPTransport(), running.where, running.where
    proxy = await stack.enter_async_context(Proxy(target.config))
    from mcpproxy.guard import Guard
    from mcpproxy.rest.api import open_api

    door = Guard(open_api(proxy.daemon), proxy.daemon.settings, local=True)
    return httpx2.ASGITransport(door), "http://localhost", "this process"
