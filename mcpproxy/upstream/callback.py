"""Where a browser comes back to after a login: a listener on this machine, for one login (RFC 8252, 7.3).

It takes what carries the login's `state` and nothing else, so that a page that guesses the port can't end
a login, and what it shows holds nothing of what it was sent.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import h11

from mcpproxy.tasks import open_tasks, serve_each

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PATH = "/callback"
REQUEST_SECONDS = 10.0
LARGEST_REQUEST = 16 * 1024

DONE = "You are logged in, or were refused: mcpproxy says which. You can close this page."
OTHER = "This is not the login that was started last. Begin again with: mcpproxy auth login"
NOTHING = "There is nothing here."


class Callback:
    """See the module. Made by `open_callback`."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self._path = urlsplit(redirect_uri).path or "/"
        self._state: str | None = None
        self._came = anyio.Event()
        self._found: dict[str, str] = {}

    def expect(self, state: str) -> None:
        """What the answer to this login will carry."""
        self._state = state

    async def answer(self) -> dict[str, str]:
        """The parameters with which the browser came back."""
        await self._came.wait()
        return self._found

    def take(self, target: str) -> tuple[int, str]:
        """Status and text of the answer to a request for `target`."""
        try:
            asked = urlsplit(target)
        except ValueError:
            return 404, NOTHING
        if asked.path != self._path:
            return 404, NOTHING
        found = {name: values[0] for name, values in parse_qs(asked.query).items()}
        state = found.get("state", "")
        if self._state is None or not hmac.compare_digest(state.encode(), self._state.encode()):
            return 400, OTHER
        if not self._came.is_set():
            self._found = found
            self._came.set()
        return 200, DONE

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        """One request and its answer."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_REQUEST)
        gone = (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError)
        async with stream:
            with anyio.move_on_after(REQUEST_SECONDS), suppress(*gone):
                while (event := connection.next_event()) is h11.NEED_DATA:
                    try:
                        connection.receive_data(await stream.receive())
                    except anyio.EndOfStream:
                        return
                if isinstance(event, h11.Request):
                    status, text = 405, NOTHING
                    if event.method == b"GET":
                        status, text = self.take(event.target.decode("latin-1"))
                    await stream.send(response(connection, status, text.encode()))


def response(connection: h11.Connection, status: int, body: bytes) -> bytes:
    """The bytes of an answer that no browser keeps or interprets."""
    headers = [
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("connection", "close"),
    ]
    events = (
        h11.Response(status_code=status, headers=headers),
        h11.Data(data=body),
        h11.EndOfMessage(),
    )
    return b"".join(connection.send(event) or b"" for event in events)


def place(redirect_uri: str) -> tuple[str, int, str]:
    """Host, port (0 is any) and path of a redirect to this machine. Raises `ValueError`."""
    parts = urlsplit(redirect_uri)
    if parts.scheme != "http" or parts.hostname not in LOOPBACK:
        raise ValueError(
            f"must be on this machine, such as http://127.0.0.1:8765{PATH}, not {redirect_uri[:200]!r}"
        )
    return parts.hostname, parts.port or 0, parts.path or "/"


@asynccontextmanager
async def open_callback(redirect_uri: str) -> AsyncIterator[Callback]:
    """A listener for as long as the block; port 0 becomes one that is free. Raises `OSError`, `ValueError`."""
    host, port, path = place(redirect_uri)
    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - it is no query
        shown = f"[{host}]" if ":" in host else host
        callback = Callback(f"http://{shown}:{port}{path}")
        async with open_tasks() as tasks:
            tasks.start_soon(serve_each, listener, callback.serve)
            yield callback
