"""Many servers: how soon they are connected, what they cost in memory, what a call to one costs.

    python scripts/bench/fleet.py [--count N]

N servers over stdio (default 50) with 20 tools each. Connecting stands beside the same servers
started at once without a proxy; the CPU of a call is the daemon's alone. Linux only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import common
from common import cpu_ms, interleaved, p50

from mcpproxy.settings import Settings
from mcpproxy.upstream.fleet import open_fleet

LIGHT = Path(__file__).with_name("light.py")
TOOLS = 20
ROUNDS = 5
HELLO = [
    {"jsonrpc": "2.0", "id": n, "method": method, "params": {}}
    for n, method in enumerate(("server/discover", "tools/list"))
]
CALLS = 40
"""Calls for each server, of each kind."""


def server(number: int, tools: int = TOOLS) -> dict[str, Any]:
    args = ["-I", "-S", str(LIGHT), str(tools)]
    name = f"light_{number}"
    return {"name": name, "command": sys.executable, "args": args, "era": "modern"}


def main(servers: int) -> None:
    rounds = ROUNDS if servers > 10 else 1
    wanted = [server(n) for n in range(servers)]
    sides = interleaved(
        rounds,
        lambda: bare(wanted[:1])[-1],
        lambda: bare(wanted)[-1],
        lambda: anyio.run(connected, wanted, backend_options={"use_uvloop": True}),
    )
    base = p50(sides[1])
    names = ("one alone", "the slowest of all, started at once", "all by the fleet")
    rows = [(name, p50(each), p50(each) / base) for name, each in zip(names, sides, strict=True)]
    title = f"{servers} servers, from their start to their lists of {TOOLS} tools, ms"
    common.table(title, ("", "p50", "ratio"), rows)
    # Servers that are added later would wait for an operator.
    with common.daemon(code_execution_pool_size=1, quarantine_enabled=False) as daemon:
        memory(daemon, wanted)
        calls(daemon, CALLS * servers)


def bare(servers: list[dict[str, Any]]) -> list[float]:
    """Milliseconds until each server has listed its tools, begun at once and asked by hand."""
    ask = "".join(json.dumps(each) + "\n" for each in HELLO).encode()
    began = time.perf_counter()
    started = [
        subprocess.Popen(
            [each["command"], *each["args"]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env={},
        )
        for each in servers
    ]  # fmt: skip
    for process in started:
        assert process.stdin is not None
        process.stdin.write(ask)
    took = []
    for process in started:
        assert process.stdout is not None
        reader = os.fdopen(os.dup(process.stdout.fileno()), "rb")
        for _ in HELLO:
            json.loads(reader.readline())
        took.append((time.perf_counter() - began) * 1000)
        reader.close()
    for process in started:
        process.kill()
        process.communicate()
    return took


async def connected(servers: list[dict[str, Any]]) -> float:
    """Milliseconds until the fleet has all of them ready."""
    settings = Settings.model_validate({"mcpServers": servers})
    with tempfile.TemporaryDirectory() as logs:
        began = time.perf_counter()
        async with open_fleet(settings, {"PATH": os.environ["PATH"]}, Path(logs)) as fleet:
            await fleet.settled()
            took = (time.perf_counter() - began) * 1000
            assert all(each["state"] == "ready" for each in fleet.status())
    return took


def memory(daemon: common.Running, servers: list[dict[str, Any]]) -> None:
    """What the servers and their tools add to the daemon's own process."""
    taken = [("without servers", settled(daemon.pid))]
    document = json.loads(daemon.config.read_text(encoding="utf-8"))
    daemon.config.write_text(json.dumps(document | {"mcpServers": servers}), encoding="utf-8")
    common.http(daemon.port, "POST", "/api/v1/config/apply")
    common.wait_for(lambda: common.joined(daemon.port, len(servers)))
    taken.append(("connected", settled(daemon.pid)))
    ask(daemon.port, "tools/list", {})
    common.http(daemon.port, "GET", "/api/v1/tools?query=items&limit=5")
    ask(daemon.port, "tools/call", {"name": "search_tools", "arguments": {"query": "items"}})
    taken.append(("and listed and searched", settled(daemon.pid)))
    first = taken[0][1]
    rows: list[tuple[object, ...]] = [(name, size, size - first) for name, size in taken]
    title = (
        f"Memory of the daemon with {len(servers)} servers and {len(servers) * TOOLS:,} tools, MB"
    )
    common.table(title, ("", "PSS", "more"), rows)


def pss(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return int(re.findall(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)[0]) / 1024


def settled(pid: int) -> float:
    before, now = 0.0, pss(pid)
    while abs(now - before) > 0.1:
        time.sleep(0.5)
        before, now = now, pss(pid)
    return now


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────


ACCEPT = "Accept: application/json, text/event-stream\r\n"
TOOL = "light_0__tool_0"


def body(method: str, params: dict[str, Any]) -> bytes:
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(message).encode()


def order(port: int, method: str, params: dict[str, Any]) -> bytes:
    """A request to direct mode, of a client of 2026-07-28."""
    named = f"Mcp-Name: {params['name']}\r\n" if "name" in params else ""
    extra = f"{ACCEPT}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{named}"
    return common.request(port, "POST", "/mcp/all", body(method, params), extra)


def legacy(port: int, params: dict[str, Any]) -> bytes:
    """A call in direct mode, of a client of 2025-11-25 that has shaken hands."""

    def message(method: str, params: dict[str, Any], extra: str, **more: object) -> bytes:
        document = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        return common.request(port, "POST", "/mcp/all", json.dumps(document).encode(), extra)

    who = {"name": "bench", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}
    with common.Client(port) as client:
        client.ask(message("initialize", hello, ACCEPT, id=1))
        session = client.head.lower().partition(b"mcp-session-id: ")[2].partition(b"\r")[0]
        extra = (
            f"{ACCEPT}MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session.decode()}\r\n"
        )
        client.ask(message("notifications/initialized", {}, extra))
    return message("tools/call", params, extra, id=2)


def ask(port: int, method: str, params: dict[str, Any]) -> Any:
    with common.Client(port) as client:
        return json.loads(client.ask(order(port, method, params)))["result"]


def calls(daemon: common.Running, total: int) -> None:
    params = {"name": TOOL, "arguments": {"n": 1}}
    modern, old = order(daemon.port, "tools/call", params), legacy(daemon.port, params)
    rows: list[tuple[object, ...]] = []
    for name, data, at_once in (
        ("2026-07-28, one after another", modern, 1),
        ("2026-07-28, 16 at once", modern, 16),
        ("2025-11-25, one after another", old, 1),  # in a session no two may have one number
    ):
        common.loaded(daemon.port, data, total // 2, at_once)
        found, spent = [], []
        for _ in range(3):
            before = cpu_ms(daemon.pid)
            found.append(common.loaded(daemon.port, data, total, at_once))
            spent.append((cpu_ms(daemon.pid) - before) / total)
        rates = [p50([each[key] for each in found]) for key in ("rate", "p50", "p99")]
        rows.append((name, *rates, p50(spent)))
    common.table(
        "A call in direct mode, HTTP in and stdio out",
        ("", "per second", "p50 ms", "p99 ms", "daemon's CPU ms each"),
        rows,
    )


if __name__ == "__main__":
    main(common.count(50, "servers"))
