"""What a script asks about the catalog while it runs. It costs no budget.

The answers hold nothing of the execution: an idle thread keeps what it did last, and that should be small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import anyio
from anyio.lowlevel import RunVar

from mcpproxy import gates, hints, names
from mcpproxy.catalog import Catalog
from mcpproxy.script import Misbehaved, Question

THREADS = 2
_threads: RunVar[anyio.CapacityLimiter] = RunVar("threads")
JOINING_SECONDS = 5.0
"""How long a look at the catalog waits for servers that are being connected for the first time."""


class Known(Protocol):
    """What the answers need of the fleet."""

    @property
    def catalog(self) -> Catalog: ...

    async def known(self, names: list[str] | None = None) -> None: ...


class Answers(Protocol):
    """What they need of discovery; both give plain JSON data."""

    def search(self, query: object, limit: object, server: object) -> dict[str, Any]: ...

    def describe(self, name: object) -> dict[str, Any]: ...


class Questions:
    """Answers the questions of one script."""

    def __init__(self, upstreams: Known, answers: Answers) -> None:
        self._upstreams = upstreams
        self._answers = answers

    def takes_time(self, question: Question) -> bool:
        return question.what in ("search", "describe") or self._joining(question)

    async def answer(self, question: Question) -> dict[str, Any]:
        """The answer to one that takes time."""
        server = question.about.get("server")
        only = [server] if question.what == "tools" and isinstance(server, str) else None
        if self._joining(question):
            with anyio.move_on_after(JOINING_SECONDS):
                await self._upstreams.known(only)
        # In a thread: a search may have to index tools, a wrong name is compared with all of them.
        return await anyio.to_thread.run_sync(self.answer_now, question, limiter=threads())

    def answer_now(self, question: Question) -> dict[str, Any]:
        """Raises `Misbehaved` for a question that no script of ours asks."""
        servers, about = self._upstreams.catalog.servers, question.about
        match question.what, about:
            case "servers", _:
                return spelled_names(servers)
            case "tools", {"server": str(server)}:
                return spelled_names(servers[server].tools if server in servers else ())
            case "close_server", {"server": str(server)}:
                catalog = self._upstreams.catalog
                return {
                    "message": hints.instead(server, catalog) or gates.no_server(server, catalog)
                }
            case "search", {"query": query, "limit": limit, "server": server}:
                return attempt(partial(self._answers.search, query, limit, server))
            case "describe", {"name": name}:
                return attempt(partial(self._answers.describe, name))
        raise Misbehaved(f"a question about {question.what}")

    def _joining(self, question: Question) -> bool:
        """Whether a server that the answer depends on is still being connected for the first time."""
        servers = self._upstreams.catalog.servers
        match question.what, question.about.get("server"):
            case "tools", str(name):
                return name in servers and servers[name].unknown
            case "search", _:
                return any(server.unknown for server in servers.values())
            case "describe", _:
                name = str(question.about.get("name"))
                return any(
                    name.startswith(each) and server.unknown for each, server in servers.items()
                )
        return False


def threads() -> anyio.CapacityLimiter:
    """Few for all scripts: they take the interpreter's lock in turn, and the more of them, the longer others wait."""
    try:
        return _threads.get()
    except LookupError:
        _threads.set(limiter := anyio.CapacityLimiter(THREADS))
        return limiter


def attempt(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"ok": True, "value": ask()}
    except (ValueError, LookupError) as error:
        return {"ok": False, "message": str(error.args[0] if error.args else error)}


def spelled_names(known: Any) -> dict[str, Any]:
    """Names as they are, and the identifiers under which scripts can write the others."""
    return {"names": list(known), "spellings": names.spellings(known)}
