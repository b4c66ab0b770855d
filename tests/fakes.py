"""A daemon that does what a test says, and catalogs by the handful."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from mcpproxy import policy
from mcpproxy.catalog import Catalog, Server, Tool
from mcpproxy.envelopes import Reply
from mcpproxy.errors import Refused
from mcpproxy.journal.store import Retention
from mcpproxy.journal.writer import Journal
from mcpproxy.listings import Listings
from mcpproxy.paging import Pages
from mcpproxy.sandbox.pool import Pool
from mcpproxy.settings import Settings


def catalog(version: int = 1, /, **servers: list[str | dict[str, Any]]) -> Catalog:
    """Servers by name, tools as names or as wire definitions."""
    return Catalog({name: server(name, tools) for name, tools in servers.items()}, version)


def server(
    name: str,
    tools: Sequence[str | dict[str, Any]] = (),
    *,
    state: str = "ready",
    instructions: str | None = None,
    error: str | None = None,
) -> Server:
    definitions = [
        {"name": tool, "inputSchema": {"type": "object"}} if isinstance(tool, str) else tool
        for tool in tools
    ]
    found = {one["name"]: Tool(name, one) for one in definitions}
    return Server(name, state, instructions, found, error)


def no_journal() -> Journal:
    """One that is switched off."""
    return Journal(Path("nowhere"), Retention(1, 1, 1), 0, on=False)


class FakeFleet:
    def __init__(self, first: Catalog) -> None:
        self.catalog = first
        self.callbacks: list[Callable[[Catalog], None]] = []
        self.coming: list[Catalog] = []

    def connections(self) -> dict[str, Any]:
        return {}

    def connection(self, server: str) -> None:
        return None

    async def settled(self, names: object = None) -> None:
        for catalog in self.coming:
            self.show(catalog)
        self.coming = []

    async def known(self, names: object = None) -> None:
        await self.settled()

    def listen(self, callback: Callable[[Catalog], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def show(self, new: Catalog) -> None:
        self.catalog = new
        for callback in self.callbacks:
            callback(new)


@dataclass
class FakeDiscovery:
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def search_tools(self, query, limit=None, server=None, caller=None):
        if not isinstance(query, str):
            raise ValueError("query must be a string")
        self.asked.append(("search_tools", query, limit, server, caller.name))
        return {"tools": [{"name": "demo:echo"}]}

    def get_functions(self, functions, caller):
        self.asked.append(("get_functions", functions, caller.name))
        return {"functions": []}

    def list_servers(self, caller):
        self.asked.append(("list_servers", caller.name))
        return {"servers": []}


class FakeDaemon:
    """Runs the Python functions in `programs` where the real one runs JavaScript."""

    def __init__(self, first: Catalog) -> None:
        self.fleet = FakeFleet(first)
        self.discovery = FakeDiscovery()
        self.settings = Settings()
        self.pages = Pages()
        self.listings = Listings(self.fleet)
        self.journal = no_journal()
        self.pool = Pool(1, 1, forks=True)
        self.executed: list[tuple[dict[str, Any], str, str]] = []
        self.called: list[tuple[str, str, dict[str, Any], Any]] = []
        self.results: dict[str, dict[str, Any] | Exception] = {}
        self.started = anyio.Event()
        self.cancelled = anyio.Event()

    def catalog_for(self, caller) -> Catalog:
        return policy.Views().seen(self.fleet.catalog, caller.scope)

    async def execute(self, body, caller, *, request_id, progress=None) -> Reply:
        self.executed.append((dict(body), caller.name, request_id))
        match body.get("code"):
            case None:
                raise Refused("INVALID_REQUEST", "exactly one of code and script")
            case "wait":
                await self.wait()
            case "report":
                assert progress is not None
                await progress(1, "demo:echo")
                await progress(2, "demo:add")
            case "silent":
                assert progress is None
            case "fail":
                error = {"code": "RUNTIME_ERROR", "message": "Error: x", "stack": ""}
                return Reply(False, {"ok": False, "error": error})
            case "bug":
                raise RuntimeError("a secret inside")
        return Reply(True, {"ok": True, "value": body["code"]})

    async def run_cached(
        self, cache_id, params, caller, *, options=None, request_id, progress=None
    ) -> Reply:
        if cache_id != "kept":
            raise Refused("NOT_FOUND", f"no code is kept under {cache_id}")
        return Reply(True, {"ok": True, "value": params})

    async def wait(self) -> None:
        self.started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise

    async def call(self, server, tool, arguments, caller, *, progress=None, meta=None, client=None):
        self.called.append((server, tool, dict(arguments), meta))
        if tool == "wait":
            await self.wait()
        if progress is not None:
            await progress(1.0, 2.0, "half")
        result = self.results.get(tool)
        if isinstance(result, Exception):
            raise result
        return result or {"content": [{"type": "text", "text": json.dumps(arguments)}], "x-own": 1}
