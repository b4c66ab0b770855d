"""A source of tools in this process is a server like any other to the connection in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from mcpproxy.upstream.connection import Connection, open_connection
from mcpproxy.upstream.dial import Line
from mcpproxy.upstream.inside import Announce, Json, Report, Source, Unfit, open_inside


class Bakery(Source):
    """Tools that wait for one another, report, and fail."""

    instructions = "Bread only."

    def __init__(self, announce: Announce) -> None:
        self.announce = announce
        self.names = ["bake", "wait", "break"]
        self.waiting = anyio.Event()
        self.cancelled = anyio.Event()
        self.baked = anyio.Event()

    def tools(self) -> list[Json]:
        return [{"name": name, "inputSchema": {"type": "object"}, "x": 1} for name in self.names]

    async def call(self, name: str, arguments: Json, report: Report) -> Json:
        if name == "bake":
            await report(1, 2, "dough")
            self.baked.set()
            return {"content": [], "structuredContent": arguments, "x-own": 1}
        if name == "wait":
            self.waiting.set()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                self.cancelled.set()
                raise
        if name == "break":
            raise KeyError("a secret inside")
        raise Unfit(f"there is no tool {name!r}")

    def prompts(self) -> list[Json]:
        return [{"name": "recipe", "arguments": [{"name": "bread", "required": True}]}]

    async def prompt(self, name: str, arguments: Json) -> Json:
        return {"messages": [{"role": "user", "content": {"type": "text", "text": str(arguments)}}]}

    def complete(self, prompt: str, argument: str, begun: str) -> list[str]:
        return [each for each in ("rye", "wheat") if each.startswith(begun)]


@asynccontextmanager
async def open_bakery() -> AsyncIterator[tuple[Bakery, Connection]]:
    made: list[Bakery] = []

    @asynccontextmanager
    async def opener(announce: Announce) -> AsyncIterator[Source]:
        made.append(Bakery(announce))
        yield made[0]

    async with open_inside(opener) as (read, write):
        line = Line("toolpack", read, write, lambda: "")
        async with open_connection(line, "legacy", sure=True) as connection:
            with anyio.fail_after(20):
                yield made[0], connection


async def test_it_is_asked_as_any_other_server():
    async with open_bakery() as (_, connection):
        assert connection.instructions == "Bread only."
        tools, held = await connection.tools()
        assert [tool["name"] for tool in tools] == ["bake", "wait", "break"]
        assert tools[0]["x"] == 1 and held is None
        assert connection.tells_changes == {"tools", "prompts"}
        assert await connection.request("ping", {}) == {}
        (prompt,) = (await connection.request("prompts/list", {}))["prompts"]
        got = await connection.request(
            "prompts/get", {"name": "recipe", "arguments": {"bread": "rye"}}
        )
        assert prompt["name"] == "recipe" and "rye" in got["messages"][0]["content"]["text"]
        asked = {
            "ref": {"type": "ref/prompt", "name": "recipe"},
            "argument": {"name": "bread", "value": "w"},
        }
        found = await connection.request("completion/complete", asked)
        assert found == {"completion": {"values": ["wheat"]}}


async def test_results_are_raw_and_progress_arrives():
    heard = []

    async def progress(*said):
        heard.append(said)

    async with open_bakery() as (_, connection):
        result = await connection.call("bake", {"n": 1}, None, progress)
    assert result == {"content": [], "structuredContent": {"n": 1}, "x-own": 1}
    assert heard == [(1, 2, "dough")]


async def test_calls_run_at_once_and_a_cancelled_one_ends():
    async with open_bakery() as (bakery, connection), anyio.create_task_group() as tasks:
        tasks.start_soon(connection.call, "wait", {}, None, None)
        await bakery.waiting.wait()
        await connection.call("bake", {}, None, None)
        assert not bakery.cancelled.is_set()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await bakery.cancelled.wait()


async def test_a_change_is_announced():
    async with open_bakery() as (bakery, connection):
        bakery.names.append("brew")
        bakery.announce("tools")
        await connection.changed.wait()
        tools, _ = await connection.tools()
        assert tools[-1]["name"] == "brew"


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("tools/call", {"name": "break", "arguments": {}}, r"failed inside \(KeyError\)"),
        ("tools/call", {"name": "none"}, "there is no tool 'none'"),
        ("tools/call", {"name": 1}, "name must be a string"),
        ("tools/call", {"name": "bake", "arguments": [1]}, "arguments an object"),
        ("resources/list", {}, "resources/list is not known here"),
    ],
)  # fmt: skip
async def test_what_fails_is_an_error_that_tells_no_secret(method, params, said):
    async with open_bakery() as (_, connection):
        with pytest.raises(MCPError, match=said) as caught:
            await connection.request(method, params)
    assert "secret" not in str(caught.value)
