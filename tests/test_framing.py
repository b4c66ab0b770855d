"""JSON-RPC on bytes, whatever stands in them: what is no message is answered as the protocol says, and the next one read."""

from __future__ import annotations

import json
import socket

import anyio
import pytest
from anyio import TypedAttributeProvider
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from mcpproxy import framing
from mcpproxy.bulk import LARGE, MOST_VALUES, TIMES
from mcpproxy.framing import TooLong, dump, lines, open_messages, parse
from mcpproxy.jsonrpc import Malformed


class Chunks(TypedAttributeProvider):
    """A byte stream that gives these chunks and then ends."""

    def __init__(self, *chunks):
        self.chunks = list(chunks)

    async def receive(self, max_bytes=65536):
        if not self.chunks:
            raise anyio.EndOfStream
        return self.chunks.pop(0)


class Sink:
    def __init__(self, fails=False):
        self.fails, self.data = fails, b""

    async def send(self, data):
        if self.fails:
            raise BrokenPipeError
        self.data += data


async def cut(*chunks, longest=100):
    return [line async for line in lines(Chunks(*chunks), longest)]


@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), max_size=9), st.data())
def test_lines_are_the_same_however_they_are_cut(texts, data):
    whole = b"".join(text + b"\n" for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert anyio.run(cut, *chunks) == texts


async def test_a_line_that_is_too_long_is_skipped_and_the_next_one_read():
    first, second = await cut(b"x" * 60, b"x" * 60, b"x" * 60 + b"\nok\n")
    assert isinstance(first, TooLong)
    assert second == b"ok"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"', b'"}}'),
        (b'{"method":"x","params":{"a":"', b'"},"jsonrpc":"2.0","id":7}'),
        (b'{"method":"x","params":{"a":"', b'"}, "id": 7, "jsonrpc": "2.0"}'),
    ],
)
async def test_who_asks_too_much_is_told_so_as_the_answer(start, end):
    pieces = [start, *[b"x" * 50] * 20, end + b"\n"]
    longest = await cut(*pieces)
    for line in (*longest, start + b'","b":1e400,"c":"' + end, start + b'","b":[' + b"[]," * MOST_VALUES + b'0],"c":"' + end):  # fmt: skip
        with pytest.raises(
            Malformed, match=r"16,777,216 bytes|1e400 is too large|250,000 values"
        ) as refused:
            parse(line)
        assert refused.value.id == 7


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "9" * 310])
async def test_no_number_that_json_or_a_double_has_not_gets_in(number):
    with pytest.raises(Malformed) as refused:
        parse(b'{"jsonrpc":"2.0","id":"a","method":"x","params":{"n":%b}}' % number.encode())
    assert refused.value.id == "a"
    said = parse(b'{"jsonrpc":"2.0","id":1,"result":{"text":"%b"}}' % number.encode())
    assert said[0].result == {"text": number}
    with pytest.raises(Malformed) as refused:
        parse(b'{"jsonrpc":"2.0","id":1,"result":{"n":%b}}' % number.encode())
    assert refused.value.id is None, "an answer is no request"


async def test_a_large_line_takes_time_in_proportion():
    chunks = [b"x" * 65536] * 500
    (line,) = await cut(*chunks, b"\n", longest=2**30)
    assert len(line) == 500 * 65536


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nope", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"[" + b"[]," * MOST_VALUES + b"7]", -32700),
        (b'{"jsonrpc":"2.0","id":007,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":"\t","method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (TooLong(), -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ],
)
def test_what_is_no_message_is_an_error(line, code):
    with pytest.raises(Malformed) as refused:
        parse(line)
    assert refused.value.code == code


def test_an_error_has_the_id_of_its_request_where_there_is_one():
    with pytest.raises(Malformed, match="jsonrpc") as refused:
        parse(b'{"id":"a","method":"ping"}')
    assert refused.value.id == "a"


@pytest.mark.parametrize(
    "odd", ["[]", "[7]", f"[{'7,' * 100}7]", '[{"jsonrpc":"2.0","id":1,"method":"initialize"}]']
)
def test_a_batch_is_of_messages_that_may_come_together(odd):
    with pytest.raises(Malformed):
        parse(odd.encode(), batches=True)


def test_lone_surrogates_go_both_ways():
    line = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}'
    (message,) = parse(line)
    assert message.params == {"a": "\ud800"}
    assert json.loads(dump(message)) == json.loads(line)


async def test_garbage_is_answered_and_the_next_message_arrives():
    ping = JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")
    read, write = Chunks(b"nope\n\n  \n", dump(ping)), Sink()
    async with open_messages(read, write) as (incoming, outgoing):
        first = await incoming.receive()
        await outgoing.send(SessionMessage(ping))
    assert first.message == ping
    error, echoed = [json.loads(line) for line in write.data.splitlines()]
    assert error["id"] is None and error["error"]["code"] == -32700
    assert echoed["method"] == "ping"


@pytest.mark.parametrize(("revision", "taken"), [("2025-03-26", 2), ("2025-11-25", 0)])
async def test_batches_are_taken_in_the_revisions_that_have_them(revision, taken):
    ping = JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")
    hello = JSONRPCRequest(
        jsonrpc="2.0", id=0, method="initialize", params={"protocolVersion": revision}
    )
    one = dump(ping).strip()
    read = Chunks(dump(hello), b"[%s,%s]\n" % (one, one), dump(ping))
    async with open_messages(read, Sink()) as (incoming, _):
        found = [(await incoming.receive()).message for _ in range(taken + 2)]
    assert found == [hello, *[ping] * taken, ping]


async def test_what_was_asked_is_answered_after_the_end_of_the_input():
    sink = Sink()
    async with open_messages(Chunks(request(1) + b"\n" + request(2)), sink) as (incoming, outgoing):
        asked = [await incoming.receive(), await incoming.receive()]
        for message in asked:
            await outgoing.send(SessionMessage(answer(message.message.id)))
        with pytest.raises(anyio.EndOfStream):
            await incoming.receive()
    assert [(each["id"], each["result"]) for each in map(json.loads, sink.data.splitlines())] == [(1, {}), (2, {})]  # fmt: skip


async def test_what_is_not_answered_soon_is_answered_that_it_was_stopped_and_once(monkeypatch):
    monkeypatch.setattr(framing, "LAST_SECONDS", 0)
    sink = Sink()
    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}\n'
    listen = request(4, "subscriptions/listen")
    said = [request(1), request(2), request(3), cancelled % b"3", listen, cancelled % b"[]"]
    async with open_messages(Chunks(b"\n".join(said)), sink) as (incoming, outgoing):
        async for message in incoming:
            if getattr(message.message, "id", 0) == 2:
                await outgoing.send(SessionMessage(answer(2)))
        for late in (1, 3):
            await outgoing.send(SessionMessage(answer(late)))
    answers = {each["id"]: each for each in map(json.loads, sink.data.splitlines())}
    assert len(sink.data.splitlines()) == 2 and answers[2]["result"] == {}
    assert "keep it open" in answers[1]["error"]["message"]


async def test_what_memory_a_large_message_takes_is_told():
    told = []
    large = json.dumps({"jsonrpc": "2.0", "method": "x" * (LARGE + 1)}).encode()
    async with open_messages(Chunks(request(1) + b"\n" + large), Sink(), told.append) as (
        incoming,
        _,
    ):
        await incoming.receive()
        await incoming.receive()
        await anyio.wait_all_tasks_blocked()
    assert told == [TIMES * len(large)]


async def test_who_has_closed_both_ways_is_waited_for_no_longer(monkeypatch):
    monkeypatch.setattr(framing, "LAST_SECONDS", 60)
    ours, theirs = socket.socketpair()
    ours.sendall(request(1) + b"\n")
    async with await SocketStream.from_socket(theirs) as stream:
        async with open_messages(stream, stream) as (incoming, _):
            await incoming.receive()
            ours.close()
            with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
                await incoming.receive()


def request(number, method="ping"):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method}).encode()


def answer(number):
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={})


async def test_a_reader_that_is_gone_ends_the_messages():
    class Endless:
        async def receive(self, max_bytes=65536):
            await anyio.sleep_forever()

    async with open_messages(Endless(), Sink(fails=True)) as (incoming, outgoing):
        await outgoing.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")))
        with anyio.fail_after(20), pytest.raises(anyio.EndOfStream):
            await incoming.receive()
