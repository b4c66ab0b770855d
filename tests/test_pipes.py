"""Messages in pipes: of any length, between any noise, at a cost that grows with the bytes alone."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import anyio
import mcp_types as types
import pytest
from anyio import wait_all_tasks_blocked
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from mcpproxy.bulk import LARGE
from mcpproxy.readiness import Readable
from mcpproxy.upstream import pipes
from mcpproxy.upstream.pipes import Lines, Pen, encode, parse

RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}\n'
TEXT = st.text(st.characters(exclude_categories=[]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe; ours doesn't block."""
    ends = os.pipe()
    ours = os.fstat(ends[0])
    for end in ends:
        os.set_blocking(end, False)
    try:
        yield ends
    finally:
        for end in ends:  # the pen has closed its own, whose number may be somebody else's by now
            with suppress(OSError):
                if os.path.samestat(os.fstat(end), ours):
                    os.close(end)


def request(number: int, **params: object) -> SessionMessage:
    return SessionMessage(
        types.JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call", params=params)
    )


def silent(what: str, line: bytes) -> None:
    raise AssertionError(f"{what}: {line!r}")


# reading


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_noise(line):
    noise: list[bytes] = []
    message = parse(line, lambda _, odd: noise.append(odd))
    assert (message is None) == bool(noise) or not line.strip()


@given(JSON)
def test_a_result_arrives_as_it_was_sent(value):
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"value": value}}).encode()
    message = parse(line, silent)
    assert isinstance(message, types.JSONRPCResponse)
    text = json.dumps(value, ensure_ascii=False)
    if text.isascii() or text.encode("utf-8", "replace") == text.encode("utf-8", "surrogatepass"):
        assert message.result == {"value": value}


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 1},
        {"id": 1, "result": None},
        {"id": 1, "result": [1]},
        {"id": 1, "error": "no"},
        {"id": 1, "error": {"code": "x", "message": 1}},
        {"id": 1, "error": {}},
        {"id": 1, "error": {}, "method": None},
    ],
)
def test_an_answer_that_breaks_the_protocol_is_an_error_for_its_call(answer):
    message = parse(json.dumps(answer).encode(), silent)
    assert isinstance(message, types.JSONRPCError)
    assert message.id == 1 and message.error.message


@pytest.mark.parametrize("number", [None, True, 1.5, [1], {}])
def test_an_answer_to_no_request_is_noise(number):
    noise = []
    line = json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()
    assert parse(line, lambda what, _: noise.append(what)) is None
    assert len(noise) == 1


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"a":%s}}' % DEEP,
        b'{"result":{"id":1,"a":%s},"jsonrpc":"2.0","id":7}' % DEEP,
        b'{"jsonrpc": "2.0", "id": 7, "result": {"a": nope}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"method":"GET","a":%s}}' % DEEP,
        b'{"jsonrpc":"2.0","id":7,"method":null,"result":{"a":%s}}' % DEEP,
    ],
)
def test_a_call_does_not_wait_for_an_answer_that_could_not_be_read(line):
    message = parse(line, lambda what, line: None)
    assert isinstance(message, types.JSONRPCError)
    assert message.id == 7 and "can't be read" in message.error.message


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":%s}}' % DEEP,
        b'{"id":7,"jsonrpc":"2.0","method":"x","params":{"result":%s}}' % DEEP,
        b'{"jsonrpc":"2.0","id":007,"result":{}}',
        b'{"jsonrpc":"2.0","id":%s,"result":{}}' % (b"7" * 5000),
        b'{"jsonrpc":"2.0","id":"a\tb","result":{}}',
        b'{"jsonrpc":"2.0","id":"\xff","result":nope}',
    ],
)
def test_what_could_not_be_read_and_is_no_answer_is_noise(line):
    said = []
    assert parse(line, lambda *odd: said.append(odd)) is None
    assert len(said) == 1


@pytest.mark.parametrize("method", [None, ""])
def test_an_answer_may_name_every_member_that_a_message_can_have(method):
    taken = []

    def takes(*answer: object) -> bool:
        taken.append(answer)
        return True

    answer = {"id": 1, "method": method, "params": None, "result": {"a": 1}, "error": None}
    assert parse(json.dumps(answer).encode(), silent, takes) is None
    assert taken == [(1, answer)]


def test_numbers_that_json_does_not_have_are_null():
    message = parse(b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN,"b":[-Infinity]}}', silent)
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {"a": None, "b": [None]}


@given(st.lists(st.sampled_from([RESULT, b"noise\n", b"\n", b"[1]\n"]), max_size=12), st.data())
def test_however_the_bytes_are_cut_the_messages_are_the_same(lines, data):
    stream = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert anyio.run(count, [part for part in parts if part]) == lines.count(RESULT)


async def count(parts: list[bytes]) -> int:
    with pipe() as (ours, theirs):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, theirs, parts)
            return len([item async for item in Lines("stub", ours)])


async def write(fd: int, parts: list[bytes]) -> None:
    for part in parts:
        os.write(fd, part)
        for _ in range(4):  # turns of the loop, so that the part is read before the next
            await anyio.lowlevel.checkpoint()
    os.close(fd)


@pytest.mark.threat("U1")
async def test_a_message_that_is_too_long_ends_the_stream_and_says_so(monkeypatch):
    monkeypatch.setattr(pipes, "LONGEST_MESSAGE", 1 << 18)
    monkeypatch.setattr(pipes, "ENDLESS_MESSAGE", 1 << 20)
    with pipe() as (ours, theirs):
        lines = Lines("stub", ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(babble, theirs)
            with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
                await lines.receive()
            tasks.cancel_scope.cancel()
        assert lines.fault == "it sent a message of more than 1 MiB"


@pytest.mark.threat("U1")
@pytest.mark.parametrize(
    "shape", ['{"jsonrpc":"2.0","id":7,"result":{"a":"%s"}}', '{"result":{"a":"%s"},"id":7}']
)
async def test_an_answer_that_is_too_long_is_an_error_of_its_call_alone(monkeypatch, shape):
    monkeypatch.setattr(pipes, "LONGEST_MESSAGE", 1 << 20)
    long, short = shape % ("x" * 3 * 2**20), shape % "x"
    with pipe() as (ours, theirs):
        lines = Lines("stub", ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_all, theirs, f"{long}\n{short}\n".encode())
            with anyio.fail_after(20):
                first, second = await lines.receive(), await lines.receive()
        assert first.message.id == second.message.id == 7
        assert "more than 1 MiB" in first.message.error.message
        assert second.message.result == {"a": "x"}


async def write_all(fd: int, data: bytes) -> None:
    while data:
        await anyio.wait_writable(fd)
        data = data[os.write(fd, data[:65536]) :]


def test_the_collector_looks_at_a_large_message_once(monkeypatch):
    """Not again and again while it is being read; and afterwards it works as before."""
    seen = []
    monkeypatch.setattr(pipes, "_load", lambda line: seen.append(gc.isenabled()) or {"id": 1, "result": {}})  # fmt: skip
    for line in (b"{", b"{".ljust(LARGE + 1), b"{"):
        assert parse(line, pytest.fail) is not None
    assert seen == [True, False, True] and gc.isenabled()


async def babble(fd: int) -> None:
    while True:
        await anyio.wait_writable(fd)
        os.write(fd, b"x" * 65536)


async def test_closing_wakes_who_waits_for_a_message():
    with pipe() as (ours, _):
        lines = Lines("stub", ours)
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await lines.receive()

            tasks.start_soon(wait)
            await wait_all_tasks_blocked()
            with anyio.fail_after(20):
                await lines.aclose()


@pytest.mark.threat("U1")
async def test_noise_without_end_leaves_others_their_turn_and_is_not_all_logged(caplog):
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    caplog.set_level("INFO", "mcpproxy.upstream.pipes")
    with pipe() as (ours, theirs):
        lines = Lines("stub", ours)
        os.write(theirs, b"noise\n" * 8000 + RESULT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            await lines.receive()
            tasks.cancel_scope.cancel()
    assert turns >= 8000 // pipes.TURN
    assert len(caplog.records) == pipes.NOTED + 1


# writing


@given(JSON)
def test_whatever_is_sent_is_one_line_of_valid_json(value):
    line = encode(request(1, name="x", arguments={"value": value}).message)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line)["params"]["arguments"] == {"value": value}


async def test_a_server_that_does_not_read_gets_whole_lines_once_it_does():
    with pipe() as (theirs, ours):
        pen = Pen(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pen.flush)
            cancelled = anyio.CancelScope()

            async def send() -> None:
                with cancelled:
                    await pen.send(request(1, text="x" * 500_000))

            tasks.start_soon(send)
            await wait_all_tasks_blocked()
            cancelled.cancel()  # it has begun to go out, so it goes out
            cancel = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled")
            with anyio.fail_after(20):
                await pen.send(SessionMessage(cancel))  # doesn't wait for who hangs
                first, second = await lines_of(theirs, 2)
            tasks.cancel_scope.cancel()
        pen.close()
    assert len(json.loads(first)["params"]["text"]) == 500_000
    assert json.loads(second)["method"] == "notifications/cancelled"


@pytest.mark.threat("U1")
async def test_a_server_that_asks_on_and_reads_nothing_gets_no_more_answers():
    answer = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "x" * 100_000})
    sent = 0
    with pipe() as (_, ours):
        pen = Pen(ours)
        with pytest.raises(anyio.BrokenResourceError):
            for sent in range(1000):  # noqa: B007 - how far it came
                await pen.send(SessionMessage(answer))
        pen.close()
    assert sent * 100_000 < 2 * pipes.UNREAD_BYTES


async def lines_of(fd: int, number: int) -> list[bytes]:
    data = b""
    with closing(Readable(fd)) as pipe:
        while data.count(b"\n") < number:
            data += await pipes.read(pipe)
    return data.splitlines()


async def test_a_server_that_is_gone_fails_the_next_message_and_those_that_wait():
    with pipe() as (theirs, ours):
        pen = Pen(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pen.flush)

            async def wait() -> None:
                with pytest.raises(anyio.BrokenResourceError):
                    await pen.send(request(1, text="x" * 500_000))

            tasks.start_soon(wait)
            await wait_all_tasks_blocked()
            os.close(theirs)
            with anyio.fail_after(20):
                while pen._fd is not None:
                    await anyio.lowlevel.checkpoint()
            with pytest.raises(anyio.ClosedResourceError):
                await pen.send(request(2))
            tasks.cancel_scope.cancel()


async def test_one_that_is_closed_just_as_it_is_read_ends_quietly():
    for turns in range(4):
        theirs, ours = os.pipe()
        for end in (theirs, ours):
            os.set_blocking(end, False)
        pen = Pen(ours)
        pen.post(b"x" * 500_000)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pen.flush)
            await wait_all_tasks_blocked()
            os.read(theirs, 1 << 20)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            pen.close()
            os.close(theirs)
            await wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
