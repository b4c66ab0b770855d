"""A whole execution pipeline in one process: real VMs, real gates, and upstreams that a test plays."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from warm import COMPILED

from mcpproxy import gates, request
from mcpproxy.catalog import Catalog, Server, Tool
from mcpproxy.errors import CallError
from mcpproxy.execution import Execution, Limits
from mcpproxy.policy import ADMIN
from mcpproxy.sandbox.pool import Pool, open_pool
from mcpproxy.sandbox.transformer import Transformer, open_transformer
from mcpproxy.scripts import Scripts
from mcpproxy.settings import Settings

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
TOOLS: dict[str, dict[str, Any]] = {
    name: {"name": name, "description": f"A tool called {name}.", "inputSchema": NUMBERS if name == "add" else {"type": "object"}}
    for name in [
        "echo", "json_text", "plain_text", "blocks", "fail", "add", "hang", "wire", "nap", "rpc_error",
        "delete", "constructor", "list.items", "a-b", "a_b", "then", "__proto__", "stub_say",
    ]
}  # fmt: skip


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


class Played:
    """Upstreams that answer as a test says, and remember what reached them."""

    def __init__(self, servers: tuple[str, ...] = ("stub", "my-server", "github")) -> None:
        tools = {
            server: {name: Tool(server, definition) for name, definition in TOOLS.items()}
            for server in servers
        }
        self.catalog = Catalog(
            servers={
                name: Server(
                    name=name, state="ready", instructions=None, tools=tools[name], error=None
                )
                for name in servers
            },
            version=1,
        )
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.cancelled: list[str] = []
        self.reached = anyio.Event()
        self.in_flight = self.high_water = 0
        self.results: dict[tuple[str, str], dict[str, Any]] = {}
        """What a test wants a tool to give."""

    def find(self, server: str, tool: str) -> Tool | None:
        return gates.find(self.catalog, ADMIN, server, tool)

    async def known(self, names: object = None) -> None:
        return

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        started: Callable[[], None] = lambda: None,
        **_: Any,
    ) -> dict[str, Any]:
        started()
        self.calls.append((server, tool, dict(arguments)))
        self.in_flight += 1
        self.high_water = max(self.high_water, self.in_flight)
        self.reached.set()
        try:
            if (result := self.results.get((server, tool))) is not None:
                return result
            return await self._answer(tool, dict(arguments))
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(tool)
            raise
        finally:
            self.in_flight -= 1

    async def _answer(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        await anyio.lowlevel.checkpoint()
        match tool:
            case "nap":
                for _ in range(5000):  # turns of the loop, so that others get into flight
                    if self.in_flight >= 8:
                        break
                    await anyio.lowlevel.checkpoint()
            case "hang":
                await anyio.sleep_forever()
            case "json_text":
                return {"content": [text(json.dumps(args))]}
            case "plain_text":
                return {"content": [text(args.get("text", "just words"))]}
            case "blocks":
                return {
                    "content": [
                        text("a"),
                        {"type": "image", "data": "", "mimeType": "image/png"},
                        text("b"),
                    ]
                }
            case "fail":
                return {
                    "content": [text(args.get("message", "it failed"))],
                    "structuredContent": {"hint": "another"},
                    "isError": True,
                }
            case "add":
                return {"content": [], "structuredContent": {"sum": args["a"] + args["b"]}}
            case "wire":
                return dict(args["result"])
            case "rpc_error":
                raise CallError("UPSTREAM_ERROR", "stub: the upstream says no (4321)")
        return {
            "content": [text(str(args))],
            "structuredContent": {"tool": tool, **args} if tool != "echo" else args,
        }


class Found:
    """Discovery, as far as a script sees it."""

    def search(self, query: object, limit: object, server: object) -> dict[str, Any]:
        if not isinstance(query, str):
            raise ValueError("query must be a string")
        return {"query": query, "limit": limit, "server": server}

    def describe(self, name: object) -> dict[str, Any]:
        raise LookupError(f"there is no tool {name}, did you mean stub:echo?")


class World:
    def __init__(self, pool: Pool, transformer: Transformer, **settings: Any) -> None:
        self.pool = pool
        self.transformer = transformer
        self.settings = Settings(**settings)
        self.upstreams = Played()
        self.scripts = Scripts(Path(tempfile.gettempdir()) / "no-such-scripts")
        self.progress: list[tuple[int, str]] = []

    async def run(self, code: str, **body: Any) -> dict[str, Any]:
        """The reply's envelope for one script."""
        settings = self.settings
        execution = Execution(
            request.read({"code": code, **body}, settings, self.scripts, ADMIN),
            Limits(
                settings.code_execution_memory_mb,
                settings.code_execution_max_result_bytes,
                settings.code_execution_max_parallel,
                settings.code_execution_queue_timeout_ms / 1000,
            ),
            self.pool,
            self.transformer,
            self.upstreams,
            Found(),
            "test",
            self._note,
        )
        with anyio.fail_after(30):
            return (await execution.run()).envelope

    async def _note(self, done: int, last: str) -> None:
        self.progress.append((done, last))

    async def value(self, code: str, **body: Any) -> Any:
        reply = await self.run(code, **body)
        assert reply["ok"], reply
        return reply["value"]

    async def error(self, code: str, **body: Any) -> dict[str, Any]:
        reply = await self.run(code, **body)
        assert not reply["ok"], reply
        return reply["error"]


@asynccontextmanager
async def open_world(**settings: Any) -> AsyncIterator[World]:
    made = Settings(**settings)
    async with (
        open_pool(made.code_execution_pool_size, made.code_execution_memory_mb) as pool,
        open_transformer(COMPILED) as transformer,
    ):
        yield World(pool, transformer, **settings)
