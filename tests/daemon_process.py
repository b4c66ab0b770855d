"""One daemon process and a client on each of its surfaces, all asked alike: a body in, an envelope out."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
import click.testing
import httpx2
from asgi import Answer
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from running import KEY, PROGRAM, STUBS, Home, Serving, below, gone, home

from mcpproxy.cli import main

EXEC = "/api/v1/code/exec"
WAYS = ("rest", "mcp legacy", "mcp modern", "stdio", "cli")
ERAS = {"mcp legacy": "legacy", "mcp modern": "2026-07-28"}
ENOUGH = 20.0

Body = dict[str, Any]
Ask = Callable[[Body], Awaitable[Body]]


def stubs(*names: str, **limits: Any) -> list[Body]:
    return [{**STUBS[0], "name": name, **limits} for name in names]


@contextmanager
def open_process(**settings: Any) -> Iterator[Serving]:
    """A daemon that is ready; when it has been stopped, nothing that it started is there."""
    with home(**settings) as place:
        with place.serving() as serving:
            assert serving.ask("GET", "/readyz").status == 200
            yield serving
            children = below(serving.process.pid)
        gone(children)


class Surfaces:
    """The clients of one daemon."""

    def __init__(self, serving: Serving, clients: dict[str, Client]) -> None:
        self.serving = serving
        self.clients = clients

    @property
    def home(self) -> Home:
        return self.serving.home

    async def ask(self, way: str, body: Body) -> Body | None:
        """The envelope, without what only its surface adds; None where the surface can't say it."""
        match way:
            case "rest":
                return bare(await anyio.to_thread.run_sync(self.post, body))
            case "cli":
                words = cli_words(body)
                return None if words is None else printed(self.invoke(*words))
        return await through(self.clients[way], body)

    def post(self, body: Body, **headers: str) -> Answer:
        return self.serving.ask("POST", EXEC, body, **headers)

    def invoke(self, *words: str) -> click.testing.Result:
        """`mcpproxy code exec` in this process, whose signals it must leave alone, against the daemon."""
        runner = click.testing.CliRunner(env=self.home.environ)
        handles, signal.signal = signal.signal, lambda *_: None
        try:
            return runner.invoke(main, ["code", "exec", *words, "--config", str(self.home.config)])
        finally:
            signal.signal = handles

    async def value(self, code: str, **body: Any) -> Any:
        envelope = await self.ask("rest", {"code": code, **body})
        assert envelope is not None and envelope["ok"], envelope
        return envelope["value"]

    async def until(self, condition: str, server: str = "stub") -> Any:
        """The stub's `stats` as soon as they fulfil a condition, a JavaScript expression over `s`."""
        code = (
            "for (;;) { const s = await tools[input.server].stats({});"
            f" if ({condition}) return s; await sleep(5) }}"
        )
        return await self.value(code, input={"server": server}, options={"timeout_ms": 10_000})

    async def reset(self, server: str = "stub") -> None:
        await self.value("await tools[input.server].stats({reset: true})", input={"server": server})


async def everywhere(surfaces: Surfaces, body: Body) -> Body:
    """The one envelope that all surfaces give."""
    found: dict[str, Body | None] = {}
    with anyio.fail_after(ENOUGH):
        for way in WAYS:
            found[way] = await surfaces.ask(way, body)
    said = {way: envelope for way, envelope in found.items() if envelope is not None}
    assert len(said) >= 4
    for way, envelope in said.items():
        assert json.dumps(envelope) == json.dumps(said["rest"]), way
    return said["rest"]


def bare(answer: Answer) -> Body:
    body = answer.body
    assert body.pop("request_id") == answer.headers["x-request-id"]
    return timeless(body)


def printed(done: click.testing.Result) -> Body:
    found = json.loads(done.stdout)
    ran = found["ok"] or "stack" in found["error"]
    assert done.exit_code == (0 if found["ok"] else 1 if ran else 2), done.output
    return timeless(found)


async def through(client: Client, body: Body, **options: Any) -> Body:
    result = await client.call_tool("code_execution", body, **options)
    (block,) = result.content
    found = json.loads(block.text)
    assert result.is_error is not found["ok"]
    assert result.structured_content is None
    return timeless(found)


def timeless(envelope: Body) -> Body:
    """The envelope without durations, which are never the same twice."""
    for call in envelope.get("calls", []):
        assert isinstance(call.pop("ms"), int)
    return envelope


def cli_words(body: Body) -> list[str] | None:
    """The options of `code exec` that send this body; None when there are none."""
    options = body.get("options", {})
    if body.keys() - {"code", "script", "language", "input", "options"}:
        return None
    if not isinstance(options, dict) or options.keys() - FLAGS.keys():
        return None
    kinds = {"code": str, "script": str, "language": str, "input": dict}
    if any(not isinstance(body[name], kinds[name]) for name in kinds.keys() & body.keys()):
        return None
    if sum(name in body for name in ("code", "script")) != 1:
        return None
    if body.get("language", "javascript") not in ("javascript", "typescript"):
        return None
    words = [f"--{name}={body[name]}" for name in ("code", "script", "language") if name in body]
    if "input" in body:
        words.append(f"--input={json.dumps(body['input'])}")
    for name, value in options.items():
        if not FLAGS[name][1](value):
            return None
        shown = ",".join(value) if isinstance(value, list) else str(value)
        words.append(f"{FLAGS[name][0]}={shown}")
    return words


def whole(least: int, most: float) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


FLAGS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "timeout_ms": ("--timeout", whole(1, 600_000)),
    "max_tool_calls": ("--max-tool-calls", whole(0, 10**9)),
    "allowed_servers": (
        "--allowed-servers",
        lambda value: (
            isinstance(value, list)
            and bool(value)
            and all(isinstance(name, str) and name for name in value)
        ),
    ),
}


@asynccontextmanager
async def over_http(serving: Serving, era: str, path: str = "/mcp") -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"X-API-Key": KEY}, timeout=ENOUGH) as http:
        streams = streamable_http_client(f"http://{serving.address}{path}", http_client=http)
        async with Client(streams, mode=era, cache=None) as client:
            yield client


@asynccontextmanager
async def over_stdio(place: Home, errors: Any) -> AsyncIterator[Client]:
    """A client of a `mcpproxy stdio` process."""
    words = ["stdio", "--config", str(place.config)]
    program = StdioServerParameters(command=str(PROGRAM), args=words, env=place.environ)
    async with Client(stdio_client(program, errors), mode="legacy", cache=None) as client:
        yield client


@asynccontextmanager
async def open_surfaces(serving: Serving, errors: Any) -> AsyncIterator[Surfaces]:
    async with AsyncExitStack() as stack:
        clients = {
            way: await stack.enter_async_context(over_http(serving, era))
            for way, era in ERAS.items()
        }
        clients["stdio"] = await stack.enter_async_context(over_stdio(serving.home, errors))
        yield Surfaces(serving, clients)
