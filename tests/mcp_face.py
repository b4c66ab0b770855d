"""The MCP faces of a daemon over real HTTP on a Unix socket and over a pipe, and the SDK's own client of both."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import httpx2
from anyio.streams.stapled import StapledByteStream
from listening import listening
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from mcpproxy.policy import Caller
from mcpproxy.proxy import open_mcp

ERAS = ("legacy", "2026-07-28")
ALICE = Caller("alice", "token")
WHO = {"name": "test", "version": "1"}


class Door:
    """Stands where the guard stands, and lets everyone in as the same caller."""

    def __init__(self, face, caller):
        self.caller = caller
        self.apps = {path: face.app(path) for path in ("/mcp", "/mcp/call", "/mcp/all")}

    async def __call__(self, scope, receive, send):
        scope["state"] = {"caller": self.caller, "request_id": "r-1"}
        await self.apps[scope["path"]](scope, receive, send)


@asynccontextmanager
async def served(face, tmp_path, caller=ALICE):
    """The faces over real HTTP."""
    socket = tmp_path / "mcp.sock"
    async with listening(Door(face, caller), uds=str(socket), lifespan="off"):
        try:
            yield socket
        finally:
            face.close()


@asynccontextmanager
async def http_client(socket, era, path="/mcp", **options):
    transport = httpx2.AsyncHTTPTransport(uds=str(socket))
    async with httpx2.AsyncClient(transport=transport, timeout=5) as http:
        streams = streamable_http_client(f"http://localhost{path}", http_client=http)
        async with Client(streams, mode=era, cache=None, **options) as client:
            yield client


class Wire(anyio.TypedAttributeProvider):
    """Two byte streams that end where the other side begins."""

    def __init__(self):
        self.sends, self.receives = anyio.create_memory_object_stream[bytes](1000)

    async def receive(self, max_bytes=65536):
        return await self.receives.receive()

    async def send(self, data):
        await self.sends.send(data)

    async def send_eof(self):
        self.sends.close()

    async def aclose(self):
        self.sends.close()
        self.receives.close()


@asynccontextmanager
async def pipe(face):
    """A client's end of a served pipe: bytes to send, bytes to read."""
    there, back = Wire(), Wire()

    async def serve():
        await face.serve_pipe(there, back)
        await back.send_eof()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield StapledByteStream(there, back)
        finally:
            await there.send_eof()
            tasks.cancel_scope.cancel()
            for wire in (there, back):
                await wire.aclose()


@asynccontextmanager
async def as_messages(stream):
    """The SDK's client transport over a byte stream."""
    into, incoming = anyio.create_memory_object_stream(0)
    outgoing, out_of = anyio.create_memory_object_stream(0)

    async def read():
        rest = b""
        async with into:
            async for chunk in stream:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await into.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

    async def write():
        async with out_of:
            async for message in out_of:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.send(text.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()
            incoming.close()
            outgoing.close()


@asynccontextmanager
async def connected(daemon, tmp_path, way, era, path="/mcp", **options):
    async with open_mcp(daemon) as face:
        if way == "http":
            async with served(face, tmp_path) as socket:
                async with http_client(socket, era, path, **options) as client:
                    yield client
        else:
            async with (
                pipe(face) as stream,
                Client(as_messages(stream), mode=era, cache=None, **options) as client,
            ):
                yield client


def said(result) -> str:
    assert [block.type for block in result.content] == ["text"]
    return result.content[0].text


def conversation(era, tool, arguments):
    """The lines of a client that calls one tool."""
    params = {"name": tool, "arguments": arguments}
    if era == "legacy":
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": WHO}
        yield {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    else:
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {f"{prefix}protocolVersion": era, f"{prefix}clientCapabilities": {}}
    yield {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


async def read_lines(stream, count):
    text = b""
    with anyio.fail_after(5):
        while text.count(b"\n") < count:
            text += await stream.receive()
    return [json.loads(line) for line in text.splitlines()]
