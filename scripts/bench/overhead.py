"""What an execution costs, and what a call from a script costs, beside the least that could be.

    python scripts/bench/overhead.py [--count N]

N sequential requests per side (default 300); the other rows take their share of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio
import common
from common import Client, cpu_of_all, execution, interleaved, p50, p99, request, timed
from mcp import Client as McpClient
from world import Played, open_world

TRIVIAL = execution("1 + 1")
LOOP = 200
PAUSE = 0.01
CALL_TOOL = """
const t = Date.now();
for (let n = 0; n < %d; n++) call_tool('stub', 'echo', {n});
(Date.now() - t) / %d
"""
TYPED = """
const t = Date.now();
for (let n = 0; n < %d; n++) await tools.stub.echo({n});
return (Date.now() - t) / %d;
"""
PARALLEL = """
const t = Date.now();
await Promise.all(Array.from({length: 100}, (_, n) => tools.stub.sleep({ms: 50, n})));
return Date.now() - t;
"""


def main() -> None:
    n = common.count(300, "sequential requests per side")
    settings: dict[str, Any] = {
        "code_execution_pool_size": 16,
        "code_execution_max_parallel": 32,
    }
    with common.echo() as bare, common.daemon(common.stub_settings(), **settings) as daemon:
        one_by_one(n, bare, daemon.port)
        at_once(n, bare, daemon)
        anyio.run(over_mcp, n, bare, daemon.port, backend_options={"use_uvloop": True})
        calls_to_stub(n, daemon.port)
    anyio.run(in_process, n, backend_options={"use_uvloop": True})


# ── a trivial execution ─────────────────────────────────────────────────────────────────────────────


def one_by_one(n: int, bare: int, port: int) -> None:
    with Client(bare) as plain, Client(port) as ours:
        echoed = request(bare, "POST", "/", TRIVIAL)
        refused = request(port, "POST", "/api/v1/code/exec", b'{"code": 1}')
        run = request(port, "POST", "/api/v1/code/exec", TRIVIAL)
        for _ in range(20):
            ours.ask(run)
        sides = interleaved(
            n,
            lambda: timed(lambda: plain.ask(echoed)),
            lambda: timed(lambda: ours.ask(refused)),
            lambda: timed(lambda: ours.ask(run)),
        )
        paced = interleaved(
            max(3, n // 3),
            lambda: after_a_pause(lambda: plain.ask(echoed)),
            lambda: after_a_pause(lambda: ours.ask(refused)),
            lambda: after_a_pause(lambda: ours.ask(run)),
        )
    names = ("bare ASGI echo", "refused by us", "1 + 1 by us")
    common.table("One after another over REST, ms", HEAD, against_first(names, sides))
    title = f"The same with {PAUSE * 1000:.0f} ms in between, so that a spare is ready, ms"
    common.table(title, HEAD, against_first(names, paced))


def after_a_pause(act: Callable[[], object]) -> float:
    time.sleep(PAUSE)
    return timed(act)


HEAD = ("", "p50", "p99", "p50 more", "p50 ratio")


def against_first(names: tuple[str, ...], sides: list[list[float]]) -> list[tuple[object, ...]]:
    base = p50(sides[0])
    return [
        (name, p50(side), p99(side), p50(side) - base, p50(side) / base)
        for name, side in zip(names, sides, strict=True)
    ]


def at_once(n: int, bare: int, daemon: common.Running) -> None:
    echoed = request(bare, "POST", "/", TRIVIAL)
    run = request(daemon.port, "POST", "/api/v1/code/exec", TRIVIAL)
    plain, ours, cpu = [], [], []
    for _ in range(3):
        plain.append(common.loaded(bare, echoed, n))
        before = cpu_of_all(daemon.pid)
        ours.append(common.loaded(daemon.port, run, 2 * n))
        cpu.append((cpu_of_all(daemon.pid) - before) / (2 * n))
    rows: list[tuple[object, ...]] = [
        (name, *(p50([each[key] for each in found]) for key in ("rate", "p50", "p99")), spent)
        for name, found, spent in (("bare ASGI echo", plain, "-"), ("1 + 1 by us", ours, p50(cpu)))
    ]
    common.table(
        "16 at once over REST, load from another process",
        ("", "per second", "p50 ms", "p99 ms", "CPU ms each"),
        rows,
    )


async def over_mcp(n: int, bare: int, port: int) -> None:
    sides: list[list[float]] = [[], []]
    options: dict[str, Any] = {"mode": "2026-07-28", "cache": None}
    async with (
        McpClient(f"http://127.0.0.1:{bare}/mcp", **options) as plain,
        McpClient(f"http://127.0.0.1:{port}/mcp", **options) as ours,
    ):
        for _ in range(max(3, n // 3)):
            for kept, client in zip(sides, (plain, ours), strict=True):
                began = time.perf_counter()
                await client.call_tool("code_execution", {"code": "1 + 1"})
                kept.append((time.perf_counter() - began) * 1000)
    names = ("SDK client, bare ASGI echo", "SDK client, 1 + 1 by us")
    common.table("One after another over MCP 2026-07-28, ms", HEAD, against_first(names, sides))


# ── a call from a script ────────────────────────────────────────────────────────────────────────────


class Bare:
    """The least that is an MCP client: a line out, a line in."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(common.STUB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.number = 0

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        assert self.process.stdin and self.process.stdout
        self.number += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": name, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["result"]

    def loop(self, times: int) -> float:
        return timed(lambda: [self.call("echo", {"n": n}) for n in range(times)]) / times

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def calls_to_stub(n: int, port: int) -> None:
    times = min(LOOP, n)
    bare = Bare()
    with Client(port) as client:

        def value(code: str) -> float:
            reply = json.loads(
                client.ask(request(port, "POST", "/api/v1/code/exec", execution(code)))
            )
            return float(reply["value"])

        sides = interleaved(
            max(1, n // 60),
            lambda: bare.loop(times),
            lambda: value(CALL_TOOL % (times, times)),
            lambda: value(TYPED % (times, times)),
        )
        parallel = [value(PARALLEL) for _ in range(max(1, n // 60))]
    bare.close()
    names = ("bare line-based client", "call_tool in a script", "await tools.stub.echo")
    title = f"One call to a server over stdio, {times} in a loop, ms"
    common.table(title, HEAD, against_first(names, sides))
    ideal("100 typed calls of 50 ms, 32 at once, to a server over stdio", parallel)


def ideal(title: str, taken: list[float]) -> None:
    rows: list[tuple[object, ...]] = [
        ("ideal", 200.0, 1.0),
        ("in a script, median", p50(taken), p50(taken) / 200),
        ("in a script, best", min(taken), min(taken) / 200),
    ]
    common.table(title + ", ms", ("", "ms", "ratio"), rows)


class Napping(Played):  # type: ignore[misc] # the tests have no types
    """Upstreams in this process, one of which takes its time."""

    async def _answer(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        if tool == "nap":
            await anyio.sleep(0.05)
            return {"content": [], "structuredContent": {"slept": 50}}
        answer: dict[str, Any] = await super()._answer(tool, args)
        return answer


async def in_process(n: int) -> None:
    times = min(LOOP, n)
    async with open_world(code_execution_max_parallel=32) as world:
        world.upstreams = Napping()
        await world.value("1")
        sides: list[list[float]] = [[], []]
        naps = []
        for _ in range(max(1, n // 30)):
            sides[0].append(await world.value(CALL_TOOL % (times, times)))
            sides[1].append(await world.value(TYPED % (times, times)))
            naps.append(await world.value(PARALLEL.replace("stub.sleep", "stub.nap")))
    names = ("call_tool", "await tools.stub.echo")
    title = f"One call to a tool in the daemon's process, {times} in a loop, ms"
    common.table(title, HEAD, against_first(names, sides))
    ideal("100 typed calls of 50 ms, 32 at once, to a tool in the daemon's process", naps)


if __name__ == "__main__":
    main()
