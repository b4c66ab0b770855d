"""One request to an ASGI application, without a server or a socket."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import anyio

App = Callable[..., Awaitable[None]]
HOST = {"Host": "127.0.0.1:8080"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)


def http(
    method: str, path: str, headers: dict[str, str | bytes] | None = None
) -> MutableMapping[str, Any]:
    """The scope of a request; `path` may have a query."""
    target, _, query = path.partition("?")
    return {
        "type": "http",
        "method": method,
        "path": target,
        "query_string": query.encode(),
        "headers": [
            (name.lower().encode(), value.encode() if isinstance(value, str) else value)
            for name, value in {**HOST, **(headers or {})}.items()
        ],
    }


class Client:
    """The other side of one request: gives the body in pieces, then waits, and hears the answer."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces or [b""])
        self.read = 0
        self.gone = anyio.Event()
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> MutableMapping[str, Any]:
        if self.read < len(self.pieces):
            self.read += 1
            more = self.read < len(self.pieces)
            return {"type": "http.request", "body": self.pieces[self.read - 1], "more_body": more}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    @property
    def answer(self) -> Answer:
        start, *rest = self.sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], headers, b"".join(each["body"] for each in rest).decode())


async def ask(
    app: App,
    method: str,
    path: str,
    *pieces: bytes,
    headers: dict[str, str | bytes] | None = None,
) -> Answer:
    client = Client(*pieces)
    with anyio.fail_after(10):
        await app(http(method, path, headers), client.receive, client.send)
    return client.answer
