"""Requests that go past the SDK's dispatcher: each gets its own answer, and nobody waits for none."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import anyio
import mcp_types as types
import pytest
from anyio import wait_all_tasks_blocked
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from mcpproxy.readiness import Readable
from mcpproxy.upstream.connection import MOST_ASKED, MOST_TOLD, Client, Connection, open_connection
from mcpproxy.upstream.dial import Line
from mcpproxy.upstream.era import Era
from mcpproxy.upstream.inflight import FIRST_ID, InFlight
from mcpproxy.upstream.pipes import Lines, Pen, read


class Server:
    """The other end of both pipes, and what the dispatcher got to hear."""

    def __init__(self, requests: int, answers: int) -> None:
        self._pipe = Readable(requests)
        self._answers = answers
        self.left: list = []

    async def reads(self) -> bytes:
        return await read(self._pipe)

    async def asked(self) -> list[dict]:
        return [json.loads(line) for line in (await self.reads()).splitlines()]

    def says(self, **message: object) -> None:
        self.writes({"jsonrpc": "2.0", **message})

    def writes(self, *messages: object) -> None:
        lines = [json.dumps(message) + "\n" for message in messages]
        os.write(self._answers, "".join(lines).encode())

    def hangs_up(self) -> None:
        os.close(self._answers)


@asynccontextmanager
async def pipes() -> AsyncIterator[tuple[InFlight, Server]]:
    """Both ends; nobody listens yet."""
    requests, ours = os.pipe()
    theirs, answers = os.pipe()
    for end in (requests, ours, theirs):
        os.set_blocking(end, False)
    server, pen = Server(requests, answers), Pen(ours)
    try:
        with anyio.fail_after(10), closing(server._pipe):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pen.flush)
                yield InFlight(Lines("stub", theirs), pen), server
                tasks.cancel_scope.cancel()
    finally:
        pen.close()
        for end in (requests, theirs):
            os.close(end)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[InFlight, Server]]:
    async with pipes() as (inflight, server), anyio.create_task_group() as tasks:

        async def listen() -> None:
            async with inflight:
                async for item in inflight:
                    server.left.append(item.message)

        tasks.start_soon(listen)
        yield inflight, server
        tasks.cancel_scope.cancel()


async def ask(inflight: InFlight, word: str, found: dict[str, object]) -> None:
    try:
        found[word] = await inflight.request("tools/call", {"name": word})
    except MCPError as error:
        found[word] = error.error


async def test_answers_reach_who_asked_in_any_order_and_under_either_spelling_of_an_id():
    found: dict[str, object] = {}
    async with connected() as (inflight, server):
        async with anyio.create_task_group() as tasks:
            for word in ("one", "two", "three"):
                tasks.start_soon(ask, inflight, word, found)
            await wait_all_tasks_blocked()
            asked = await server.asked()
            assert [each["params"]["name"] for each in asked] == ["one", "two", "three"]
            one, two, three = (each["id"] for each in asked)
            assert min(one, two, three) >= FIRST_ID and len({one, two, three}) == 3
            server.says(id=str(three), result={"n": 3})
            server.says(id=one, result={"n": 1})
            server.says(id=one, result={"n": "again"})
            server.says(id=two, error={"code": -32602, "message": "no", "data": [2]})
        assert found == {
            "one": {"n": 1},
            "two": types.ErrorData(code=-32602, message="no", data=[2]),
            "three": {"n": 3},
        }
        server.hangs_up()


async def test_what_answers_nobody_is_left_to_the_dispatcher():
    async with connected() as (_, server):
        server.says(id=1, result={})
        server.says(id=FIRST_ID, result={"late": True})
        server.says(method="notifications/progress", params={})
        server.says(id=FIRST_ID, method="ping")
        while len(server.left) < 4:
            await anyio.lowlevel.checkpoint()
        kinds = [type(each).__name__ for each in server.left]
        server.hangs_up()
    assert kinds == [
        "JSONRPCResponse",
        "JSONRPCResponse",
        "JSONRPCNotification",
        "JSONRPCRequest",
    ]


async def test_the_server_is_told_when_nobody_waits_any_more_and_its_answer_is_nobody_s():
    async with connected() as (inflight, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inflight.request, "tools/call", {})
            await wait_all_tasks_blocked()
            (asked,) = await server.asked()
            tasks.cancel_scope.cancel()
        (told,) = await server.asked()
        assert told["method"] == "notifications/cancelled"
        assert told["params"]["requestId"] == asked["id"]
        server.says(id=asked["id"], result={})
        while not server.left:
            await anyio.lowlevel.checkpoint()
        server.hangs_up()


@pytest.mark.threat("U1")
async def test_a_server_that_does_not_read_is_sent_one_request_and_no_cancellation_of_the_others():
    large = "x" * 200_000
    async with connected() as (inflight, server):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(inflight.request, "tools/call", {"n": number, "large": large})
            await wait_all_tasks_blocked()
            assert len(inflight._pen._backlog) == 1
            tasks.cancel_scope.cancel()
        read = b""
        while read.count(b"\n") < 2:
            read += await server.reads()
        asked, told = map(json.loads, read.splitlines())
        assert asked["params"]["n"] == 0
        assert told["params"]["requestId"] == asked["id"]
        server.hangs_up()


async def test_at_the_end_everybody_who_waits_is_told_and_nobody_asks_again():
    found: dict[str, object] = {}
    async with connected() as (inflight, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, inflight, "one", found)
            await wait_all_tasks_blocked()
            server.hangs_up()
        with pytest.raises(MCPError) as late:
            await inflight.request("tools/call", {})
    assert found["one"].code == late.value.code == types.CONNECTION_CLOSED


async def test_what_a_server_says_before_its_answer_is_heard_before_it():
    heard: list = []
    async with connected() as (inflight, server):
        server.left = heard

        async def call() -> None:
            await inflight.request("tools/call", {})
            heard.append("answer")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            (asked,) = await server.asked()
            note = {"jsonrpc": "2.0", "method": "notifications/message"}
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
            server.writes(note, answer)
        while len(heard) < 2:
            await anyio.lowlevel.checkpoint()
        server.hangs_up()
    assert heard[1] == "answer"


HELLOS = {
    "legacy": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "stub", "version": "1"}},
    "modern": {
        "resultType": "complete",
        "supportedVersions": [LATEST_MODERN_VERSION],
        "ttlMs": 0,
        "cacheScope": "private",
    },
}


@asynccontextmanager
async def agreed(era: Era = "legacy") -> AsyncIterator[tuple[Connection, Server]]:
    """A whole connection; the server has said hello."""
    hello = {**HELLOS[era], "capabilities": {}}
    async with pipes() as (inflight, server), anyio.create_task_group() as tasks:

        async def greet() -> None:
            (asked,) = await server.asked()
            server.says(id=asked["id"], result=hello)

        tasks.start_soon(greet)
        line = Line("stdio", inflight, inflight._pen, lambda: "", inflight=inflight)
        async with open_connection(line, era, sure=True) as connection:
            yield connection, server


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("tools/call", ["tools/call", "notifications/cancelled"]),
        ("server/discover", ["server/discover"]),
    ],
)
async def test_a_question_that_may_not_be_cancelled_is_only_waited_for_no_more(method, told):
    async with agreed("modern") as (connection, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.request, method, {})
            await wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert [each["method"] for each in await server.asked()] == told
        server.hangs_up()


@pytest.mark.threat("U1")
@pytest.mark.parametrize("kind", ["progress", "message"])
async def test_a_client_that_is_slow_to_hear_of_its_call_is_told_less(kind):
    hearing = 0

    async def hear(*_: object) -> None:
        nonlocal hearing
        hearing += 1
        await anyio.sleep_forever()

    client = Client({}, {}, None, "debug", hear)
    async with agreed() as (connection, server), anyio.create_task_group() as tasks:
        tasks.start_soon(connection.call, "x", {}, None, hear, client)
        await wait_all_tasks_blocked()
        asked = (await server.asked())[-1]
        params = {"progressToken": asked["id"], "progress": 1, "level": "info"}
        note = {"jsonrpc": "2.0", "method": f"notifications/{kind}", "params": params}
        server.writes(*[note] * 2 * MOST_TOLD, {"jsonrpc": "2.0", "id": "last", "method": "ping"})
        while b"last" not in await server.reads():
            pass
        assert hearing == MOST_TOLD
        server.says(id=asked["id"], result={})


@pytest.mark.threat("U1")
async def test_a_server_that_asks_without_end_is_refused():
    asked: list[str] = []

    async def ask(method: str, params: object) -> dict:
        asked.append(method)
        await anyio.sleep_forever()
        return {}

    client = Client({}, {}, ask)
    async with agreed() as (connection, server), anyio.create_task_group() as tasks:
        tasks.start_soon(connection.call, "x", {}, None, None, client)
        await wait_all_tasks_blocked()
        call = (await server.asked())[-1]
        for number in range(MOST_ASKED + 1):
            server.says(id=number, method="elicitation/create", params={})
        (refused,) = await server.asked()
        assert refused["id"] == MOST_ASKED and "questions wait" in refused["error"]["message"]
        assert asked == ["elicitation/create"] * MOST_ASKED
        server.says(id=call["id"], result={})
