"""Any history of requests, answers, cancellations and ends over real pipes: each request ends once, with its own answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress

import anyio
import mcp_types as types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from mcpproxy.upstream.inflight import FIRST_ID, InFlight
from mcpproxy.upstream.pipes import Lines, Pen

LARGE = 100_000
"""More than a pipe takes at once."""

# What an answer says, and what is to come of it, by the request's number.
ANSWERS: list[Callable[[int, int], tuple[dict, object]]] = [
    lambda n, number: ({"id": number, "result": {"n": n}}, {"n": n}),
    lambda n, number: ({"id": str(number), "result": {"n": n}}, {"n": n}),
    lambda n, number: ({"result": {"n": n, "id": 7}, "id": number}, {"n": n, "id": 7}),
    lambda n, number: ({"id": number, "result": {"n": n, "x": "x" * LARGE}}, {"n": n, "x": "x" * LARGE}),
    lambda n, number: ({"id": number, "error": {"code": n, "message": "no"}}, n),
    lambda n, number: ({"id": number, "result": None}, types.INTERNAL_ERROR),
    lambda n, number: ({"id": number}, types.INTERNAL_ERROR),
]  # fmt: skip
OTHERS = [
    {"method": "notifications/progress"},
    {"method": "notifications/message"},
    {"method": "ping", "id": FIRST_ID},
    {"id": 1, "result": {}},
    {"id": str(FIRST_ID - 1), "result": {}},
    {"id": "word", "error": {"code": 1, "message": "no"}},
    {"id": FIRST_ID + 1000, "result": {}},
]
"""What is the dispatcher's."""
NOISE = [b"\n", b"noise\n", b"[1]\n", b'{"id":true,"result":{}}\n', b'{"jsonrpc":"2.0"}\n']
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.booleans()),
    st.tuples(st.just("ask"), st.just(False)),
    st.tuples(st.just("answer"), st.integers(0, 9), st.sampled_from(ANSWERS), st.booleans()),
    st.tuples(st.just("answer"), st.integers(0, 9), st.sampled_from(ANSWERS), st.booleans()),
    st.tuples(st.just("say"), st.sampled_from(OTHERS)),
    st.tuples(st.just("noise"), st.sampled_from(NOISE)),
    st.tuples(st.just("send")),
    st.tuples(st.just("write"), st.integers(1, 60)),
    st.tuples(st.just("read")),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("turn")),
)
ENDS = st.sampled_from(["hangs up", "hangs up in a line", "closes its stdin", "is let go"])


async def turns() -> None:
    """Of the loop, so that what is there is read, and whoever it is for wakes."""
    for _ in range(8):
        await anyio.lowlevel.checkpoint()


class History:
    """Both ends, and what has to come of what they did."""

    def __init__(self) -> None:
        self._requests, ours = os.pipe()
        theirs, self._answers = os.pipe()
        self._open = {self._requests, theirs, self._answers}
        for end in (*self._open, ours):
            os.set_blocking(end, False)
        self.pen = Pen(ours)
        self.inflight = InFlight(Lines("stub", theirs), self.pen)
        self.scopes: list[anyio.CancelScope] = []
        self.outcomes: dict[int, list[object]] = {}
        self.answered: dict[int, object] = {}
        """What the first answer to each says."""
        self.cancelled: set[int] = set()
        self.numbers: dict[int, int] = {}
        """The ids that the server has read, by the number of the request."""
        self.told: list[int] = []
        """The ids whose requests it was told to cancel."""
        self.others: list[dict] = []
        self.left: list[dict] = []
        self._unsent = b""
        self._unread = b""

    # the daemon

    async def listen(self) -> None:
        async with self.pen, self.inflight:
            async for item in self.inflight:
                assert isinstance(item, SessionMessage)
                self.left.append(item.message.model_dump(by_alias=True, exclude_none=True))

    async def request(self, n: int, large: bool) -> None:
        found = self.outcomes.setdefault(n, [])
        with self.scopes[n]:
            try:
                padding = "x" * LARGE if large else ""
                found.append(await self.inflight.request("tools/call", {"n": n, "x": padding}))
            except MCPError as error:
                found.append(error.error.code)
        if self.scopes[n].cancelled_caught:
            found.append("cancelled")

    # the server

    def answers(self, n: int, form: Callable[[int, int], tuple[dict, object]]) -> None:
        message, outcome = form(n, self.numbers[n])
        self.answered.setdefault(n, outcome)
        self._unsent += json.dumps(message).encode() + b"\n"

    def says(self, message: dict) -> None:
        message = {"jsonrpc": "2.0", **message}
        if "method" in message:
            message["params"] = {"nth": len(self.others)}
        self.others.append(message)
        self._unsent += json.dumps(message).encode() + b"\n"

    async def sends(self, most: int | None = None) -> None:
        part, self._unsent = self._unsent[:most], self._unsent[most:] if most else b""
        while part:
            with suppress(BlockingIOError):
                part = part[os.write(self._answers, part) :]
            await anyio.lowlevel.checkpoint()

    async def reads(self) -> None:
        await turns()
        with suppress(BlockingIOError):
            while data := os.read(self._requests, 1 << 20):
                self._unread += data
                await turns()
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "id" in message:
                self.numbers[message["params"]["n"]] = message["id"]
            else:
                self.told.append(message["params"]["requestId"])

    def close(self, *ends: int) -> None:
        for end in ends or tuple(self._open):
            self._open.discard(end)
            os.close(end)

    # what happens

    async def step(self, tasks: anyio.abc.TaskGroup, kind: str, *about: object) -> None:
        if kind == "answer":
            await self.reads()
        asked = sorted(self.numbers)
        match kind, *about:
            case "ask", large:
                tasks.start_soon(self.request, len(self.scopes), bool(large))
                self.scopes.append(anyio.CancelScope())
            case "answer", at, form, at_once if asked:
                self.answers(asked[at % len(asked)], form)
                if at_once:
                    await self.sends()
            case "say", message:
                self.says(message)
            case "noise", line:
                self._unsent += line
            case ("send",):
                await self.sends()
            case "write", most:
                await self.sends(most)
            case ("read",):
                await self.reads()
            case "cancel", at if self.scopes:
                self.cancelled.add(at % len(self.scopes))
                self.scopes[at % len(self.scopes)].cancel()
            case ("turn",):
                await anyio.lowlevel.checkpoint()

    async def end(self, how: str, scope: anyio.CancelScope) -> None:
        if how != "is let go":
            await self.sends()
            await self.reads()
        match how:
            case "hangs up":
                self.close(self._answers)
            case "hangs up in a line":
                os.write(self._answers, b'{"jsonrpc":"2.0","id":1')
                self.close(self._answers)
            case "closes its stdin":
                self.close(self._requests)
                await turns()
                self.close(self._answers)
            case _:
                scope.cancel()


async def play(steps: list[tuple], how: str) -> History:
    history = History()
    try:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as beside:
                beside.start_soon(history.pen.flush)
                async with anyio.create_task_group() as tasks:
                    scope = anyio.CancelScope()

                    async def listen() -> None:
                        with scope:
                            await history.listen()

                    tasks.start_soon(listen)
                    await turns()
                    for step in steps:
                        await history.step(tasks, *step)
                    await history.end(how, scope)
                beside.cancel_scope.cancel()
    finally:
        history.close()
        history.pen.close()
    return history


def int_of(number: int | str) -> int | str:
    return int(number) if str(number).isdigit() else number


@given(st.lists(STEPS, min_size=5, max_size=30), ENDS, st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_each_request_ends_once_with_its_own_answer_and_all_else_is_the_dispatcher_s_in_order(
    steps, how, uvloop
):
    history = anyio.run(play, steps, how, backend_options={"use_uvloop": uvloop})
    assert sorted(history.outcomes) == list(range(len(history.scopes)))
    for n, outcome in history.outcomes.items():
        allowed = [history.answered.get(n, types.CONNECTION_CLOSED)]
        allowed += [types.CONNECTION_CLOSED] * (how == "is let go")
        allowed += ["cancelled"] * (n in history.cancelled)
        assert len(outcome) == 1 and outcome[0] in allowed
    assert not history.inflight._waiting
    ids = set(history.numbers.values())
    left = [each for each in history.left if "method" in each or int_of(each["id"]) not in ids]
    expected = history.others
    if how == "is let go":
        expected = expected[: len(left)]
    assert left == expected
    unheard = {history.numbers[n] for n in history.cancelled if n in history.numbers}
    assert len(set(history.told)) == len(history.told) and set(history.told) <= unheard
