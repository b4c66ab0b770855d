"""A command without a daemon: one that lives for it, asked as the running one would be."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import anyio

from mcpproxy import logs, paths, settings
from mcpproxy.daemon import Daemon, open_daemon
from mcpproxy.policy import LOCAL
from mcpproxy.serve import endings
from mcpproxy.tasks import open_tasks

if TYPE_CHECKING:
    from starlette.types import Message

T = TypeVar("T")


def with_daemon(
    config: str | None, log_level: str | None, act: Callable[[Daemon], Awaitable[T]]
) -> T:
    """What `act` gives. Servers are connected when they are needed.

    Raises `SettingsError`, what `act` raises, and `KeyboardInterrupt` when a signal came first.
    """

    async def within(loaded: settings.Loaded) -> T:
        async with open_daemon(loaded, os.environ, lasting=False) as daemon:
            return await act(daemon)

    async def until_signal(loaded: settings.Loaded) -> T | None:
        # A handler that raises would do so in the middle of anything; this one waits its turn.
        with anyio.open_signal_receiver(*endings()) as signals:

            async def watch() -> None:
                async for _ in signals:
                    tasks.cancel_scope.cancel()

            async with open_tasks() as tasks:
                tasks.start_soon(watch)
                return await within(loaded)
        return None

    loaded = settings.load(paths.config_file(config), os.environ, create=config is None)
    logs.set_up(log_level or "warn", None)
    found = anyio.run(until_signal, loaded, backend_options={"use_uvloop": True})
    if found is None:
        raise KeyboardInterrupt
    return found


async def ask(daemon: Daemon, verb: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """Status and body of one answer of the REST face, asked as the local user."""
    from mcpproxy.rest.api import open_api

    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": verb,
        "path": unquote(target),
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "headers": [(b"content-type", b"application/json")],
        "state": {"caller": LOCAL, "request_id": uuid.uuid4().hex},
    }
    status, pieces = 0, list[bytes]()
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await anyio.sleep_forever()  # this client never hangs up
        sent = True
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        pieces.append(message.get("body", b""))

    await open_api(daemon)(scope, receive, send)
    return status, b"".join(pieces)
