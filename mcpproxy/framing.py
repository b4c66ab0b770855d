"""JSON-RPC over a byte stream, one message per line, for the SDK's stream of messages.

The same framing on standard input and output and on the local pipe. Whatever arrives, the
connection lives on: a line that is no message is answered with a JSON-RPC error. The messages of a
batch are answered one by one, each as it is ready.

Who closes the input leaves (MCP, Lifecycle: Shutdown), or has asked all there was to ask, as a shell
does at the end of `printf … | mcpproxy stdio`: what is under way may take a little longer.

    bytes ─> lines ─> SessionMessage ─> Server.run ─> SessionMessage ─> bytes
"""

from __future__ import annotations

import json
import logging
import re
import select
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketAttribute
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mcpproxy import jsonrpc
from mcpproxy.bulk import LARGE, LARGEST, MOST_VALUES, TIMES, values
from mcpproxy.jsonrpc import Malformed

logger = logging.getLogger(__name__)

UNUSUAL = re.compile(rb"[:,\[\s]-?(?:NaN|Infinity|[0-9]++(?:\.[0-9]++)?[eE]\+?[0-9]{3}|[0-9]{309})")
"""What is in a line that may have a number in it which JSON, or a double, has not."""

LAST_SECONDS = 1.0
"""How long what was asked may take after the end of the input."""
STOPPED = (
    "the input ended while this ran, so it was stopped: keep it open until the answer is there"
)
CANCELLED, ENDLESS = "notifications/cancelled", "subscriptions/listen"
"""What ends a request without an answer, and a request that ends with the connection alone."""

GONE = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""How a byte stream says that nobody is at the other end."""

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class Owed:
    """The requests that wait for an answer."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._paid = anyio.Event()
        self._over = False

    def asked(self, message: JSONRPCMessage) -> None:
        """The client said this."""
        if isinstance(message, JSONRPCRequest) and message.method != ENDLESS:
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            number = (message.params or {}).get("requestId")
            if isinstance(number, int | str):
                self._pay(number)

    def answered(self, message: JSONRPCMessage) -> bool:
        """Whether this may still be said: in the end a request has one answer."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return True
        return self._pay(message.id) or not self._over

    def _pay(self, number: RequestId) -> bool:
        owed = number in self._ids
        self._ids.discard(number)
        if not self._ids:
            self._paid.set()
        return owed

    async def settle(self) -> list[JSONRPCError]:
        """Wait until all is answered; gives the answers to what isn't in time."""
        if self._ids:
            self._paid = anyio.Event()
            with anyio.move_on_after(LAST_SECONDS):
                await self._paid.wait()
        self._over = True
        said = ErrorData(code=CONNECTION_CLOSED, message=STOPPED)
        return [JSONRPCError(jsonrpc="2.0", id=number, error=said) for number in self._ids]


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line that was longer than the limit."""

    ends: bytes = b""
    """Its beginning and its end: they tell whose request it is."""


async def lines(
    stream: ByteReceiveStream, longest: int = LARGEST
) -> AsyncIterator[bytes | TooLong]:
    """Lines without their ends; the last one may lack its own, as `printf` writes it.

    What is longer than that is skipped up to its end.
    """
    # Pieces are joined once per line: adding up a buffer would be quadratic in the message.
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = await stream.receive()
        except anyio.EndOfStream:
            if any(pieces):
                yield b"".join(pieces)
            return
        except GONE:
            return
        *complete, rest = chunk.split(b"\n")
        for tail in complete:
            size += len(tail)
            pieces.append(tail)
            yield b"".join(pieces) if size <= longest else TooLong(jsonrpc.ends(pieces))
            pieces, size = [], 0
        size += len(rest)
        pieces.append(rest)
        if size > longest:
            pieces = [jsonrpc.ends(pieces)]


def parse(line: bytes | TooLong, *, batches: bool = False) -> list[JSONRPCMessage]:
    """The message in `line`, or those of a batch where there may be some. Raises `Malformed`."""
    if isinstance(line, TooLong):
        fault = f"a message has at most {LARGEST:,} bytes; store the data where a tool can read it"
        raise Malformed(jsonrpc.INVALID_REQUEST, fault, jsonrpc.asked_as(line.ends))
    if values(line, MOST_VALUES) <= MOST_VALUES and not UNUSUAL.search(line):
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            pass
        else:
            # The quick parser takes a request for a notification when its id is of an odd kind.
            if not isinstance(message, JSONRPCNotification) or b'"id"' not in line:
                return [message]
    # It refuses lone surrogates, which JSON allows and scripts may hold, and takes NaN.
    decoded = jsonrpc.loads(line)
    if isinstance(decoded, list):
        if not batches:
            raise Malformed(jsonrpc.INVALID_REQUEST, jsonrpc.NO_BATCHES)
        return [validated(each) for each in jsonrpc.elements(decoded)]
    jsonrpc.check(decoded)
    return [validated(decoded)]


def validated(decoded: jsonrpc.Json) -> JSONRPCMessage:
    """The message in a decoded text. Raises `Malformed`."""
    try:
        return jsonrpc_message_adapter.validate_python(decoded, by_name=False)
    except ValidationError as error:
        raise Malformed(
            jsonrpc.INVALID_REQUEST, "this is neither a request nor a notification nor a response"
        ) from error


def dump(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        # Lone surrogates again; escaped, they are JSON.
        plain = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


async def receive(
    stream: ByteReceiveStream,
    messages: MemoryObjectSendStream[SessionMessage | Exception],
    replies: Outgoing,
    owed: Owed,
    moved: Callable[[int], None],
) -> None:
    batches = False
    async with messages, replies:
        async for line in lines(stream):
            if isinstance(line, bytes) and not line.strip():
                continue
            try:
                found = parse(line, batches=batches)
            except Malformed as fault:
                logger.warning("mcp pipe: %s", fault)
                said = ErrorData(code=fault.code, message=str(fault))
                refusal = JSONRPCError(jsonrpc="2.0", id=fault.id, error=said)
                await replies.send(SessionMessage(refusal))
                continue
            for message in found:
                if isinstance(message, JSONRPCRequest) and message.method == "initialize":
                    batches = jsonrpc.has_batches((message.params or {}).get("protocolVersion"))
                owed.asked(message)
                await messages.send(SessionMessage(message))
            if isinstance(line, bytes) and len(line) > LARGE:
                moved(TIMES * len(line))
        if not gone(stream):
            for late in await owed.settle():
                await replies.send(SessionMessage(late))


def gone(stream: ByteReceiveStream) -> bool:
    """Whether the other side has closed both ways, and reads nothing any more; a socket can tell."""
    line = stream.extra(SocketAttribute.raw_socket, None)  # noqa: S610 - no database here
    if line is None:
        return False
    look = select.poll()
    look.register(line.fileno(), 0)  # POLLHUP is always told
    return bool(look.poll(0))


async def send(
    stream: ByteSendStream, messages: MemoryObjectReceiveStream[SessionMessage], owed: Owed
) -> None:
    """Write until there is nothing more to write or nobody to read it."""
    async with messages:
        async for message in messages:
            if not owed.answered(message.message):
                continue
            try:
                await stream.send(dump(message.message))
            except GONE:
                return


@asynccontextmanager
async def open_messages(
    read: ByteReceiveStream,
    write: ByteSendStream,
    moved: Callable[[int], None] = lambda size: None,
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """The two streams of messages that `Server.run` wants, over two streams of bytes.

    `moved` is told what memory a large message took. The incoming stream ends when either side of the pipe is gone, or soon after, so that nothing
    keeps running for a client that can't hear the answer.
    """
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, out_of = anyio.create_memory_object_stream[SessionMessage](0)
    replies = outgoing.clone()

    async with anyio.create_task_group() as tasks:
        reading, owed = anyio.CancelScope(), Owed()

        async def read_on() -> None:
            # A broken stream of messages means that the server side has ended first.
            with reading, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await receive(read, into, replies, owed, moved)

        async def write_on() -> None:
            await send(write, out_of, owed)
            reading.cancel()

        tasks.start_soon(read_on)
        tasks.start_soon(write_on)
        try:
            yield incoming, outgoing
        finally:
            outgoing.close()
            incoming.close()
            reading.cancel()
