"""What the benches share: a daemon and a bare server to measure, a client that costs little, a table.

Also what runs in processes of its own: `python common.py echo SOCKET-FD` and `python common.py load`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2] / "tests"
STUB = TESTS / "stub_server.py"
sys.path.insert(0, str(TESTS))

KEY = "bench-key"
HERE = str(Path(__file__))
MCPPROXY = [sys.executable, "-c", "from mcpproxy.cli import main; main()"]


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────


def count(default: int, meaning: str) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=default, help=f"{meaning} (default {default})")
    found = int(parser.parse_args().count)
    # A bench that is told to end stops what it started, as one that is interrupted does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    return found


def p50(values: list[float]) -> float:
    return statistics.median(values)


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


def interleaved(rounds: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Take the sides in turn, A B A B, so that whatever else the machine does meets them all."""
    taken: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for kept, side in zip(taken, sides, strict=True):
            kept.append(side())
    return taken


def timed(act: Callable[[], object]) -> float:
    """Milliseconds that `act` takes."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def table(title: str, head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    lines = [head, *[tuple(cell(each) for each in row) for row in rows]]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    print(f"\n{title}")
    for line in lines:
        first, *rest = (
            text.rjust(width) if n else text.ljust(width)
            for n, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  " + "  ".join([first, *rest]).rstrip())
    sys.stdout.flush()


def cell(value: object) -> str:
    return (
        (f"{value:,.0f}" if value >= 100 else f"{value:.3f}")
        if isinstance(value, float)
        else str(value)
    )


def tokenizer() -> Callable[[str], int]:
    """How many tokens a text has, for a tokenizer that comes without the network: o200k, where
    `bpe-openai` is installed."""
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec("bpe_openai") is not None:
        o200k: Any = import_module("bpe_openai").get_encoding("o200k_base")
        return lambda text: len(o200k.encode(text))
    found = find_spec("wordllama")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("counting tokens needs: pip install '.[semantic]'")
    from tokenizers import Tokenizer

    from mcpproxy.search.semantic import TOKENIZER

    counting = Tokenizer.from_file(str(Path(found.submodule_search_locations[0]) / TOKENIZER))
    counting.no_truncation()
    counting.no_padding()
    return lambda text: len(counting.encode(text, add_special_tokens=False).ids)


# ── servers ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Running:
    port: int
    pid: int
    config: Path
    environ: dict[str, str]


def stub_settings(*flags: str) -> dict[str, Any]:
    return {
        "name": "stub",
        "command": sys.executable,
        "args": ["-I", "-S", str(STUB), *flags],
        "era": "modern",
    }


@contextlib.contextmanager
def daemon(*servers: dict[str, Any], **settings: Any) -> Iterator[Running]:
    """`mcpproxy serve` in a home of its own; up, and its servers connected."""
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        config = Path(home, "config.json")
        config.write_text(
            json.dumps(
                {
                    "listen": f"127.0.0.1:{port}",
                    "data_dir": home,
                    "api_key": KEY,
                    "mcpServers": servers,
                    "logging": {"level": "warn"},
                    **settings,
                }
            ),
            encoding="utf-8",
        )
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": home}
        command = [*MCPPROXY, "serve", "--config", str(config)]
        process = subprocess.Popen(command, env=environ)
        try:
            running = Running(port, process.pid, config, environ)
            wait_for(lambda: joined(port, len(servers)))
            yield running
        finally:
            stop(process)


def joined(port: int, wanted: int) -> bool:
    """Whether the daemon has its servers and has tried its own walls."""
    status = http(port, "GET", "/api/v1/status")["data"]
    walls = status["code_execution"]["confinement"]
    return bool(status["servers"].get("ready", 0) == wanted and "open" in " ".join(walls))


@contextlib.contextmanager
def echo() -> Iterator[int]:
    """A bare ASGI application behind the daemon's own settings of uvicorn; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [sys.executable, HERE, "echo", str(listener.fileno())], pass_fds=[listener.fileno()]
        )
        port = listener.getsockname()[1]
        try:
            wait_for(lambda: http(port, "POST", "/", b"{}") is not None)
            yield port
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(up: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, EOFError):
            if up():
                return
        if time.monotonic() > until:
            raise SystemExit("what is to be measured did not come up")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve_echo(descriptor: int) -> None:
    """Read the body, answer with it; and speak just enough MCP to answer a modern client."""
    import uvloop

    from mcpproxy.connections import Limited
    from mcpproxy.serve import server

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if scope["path"] == "/mcp":
            body = json.dumps(mcp_answer(json.loads(body))).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    uvloop.run(server(app, Limited).serve(sockets=[listener]))


def mcp_answer(message: dict[str, Any]) -> dict[str, Any]:
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "echo", "version": "1"}}
    result: dict[str, Any] = {"resultType": "complete", "_meta": meta}
    if message["method"] == "server/discover":
        result |= {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
        }
    elif message["method"] == "tools/list":
        tool = {"name": "code_execution", "inputSchema": {"type": "object"}}
        result |= {"tools": [tool], "ttlMs": 0, "cacheScope": "private"}
    else:
        result |= {"content": [{"type": "text", "text": '{"ok":true,"value":2}'}]}
    return {"jsonrpc": "2.0", "id": message.get("id"), "result": result}


# ── an HTTP client that costs little ────────────────────────────────────────────────────────────────


def request(port: int, method: str, path: str, body: bytes = b"", extra: str = "") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    )
    return head.encode() + body


def execution(code: str, **more: Any) -> bytes:
    return json.dumps({"code": code, **more}).encode()


class Client:
    """One connection, kept; requests one after another."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = b""
        """Of the last response."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def wait_at_most(self, seconds: float) -> None:
        """For each answer; then `ask` raises `TimeoutError`."""
        self._socket.settimeout(seconds)

    def ask(self, data: bytes) -> bytes:
        self._socket.sendall(data)
        reply = b""
        while (body := whole(reply)) is None:
            piece = self._socket.recv(1 << 18)
            if not piece:
                raise EOFError("the server hung up")
            reply += piece
        self.head = reply.partition(b"\r\n\r\n")[0]
        return body


def whole(reply: bytes) -> bytes | None:
    """The body of a response once all of it is there."""
    head, gap, body = reply.partition(b"\r\n\r\n")
    if not gap:
        return None
    if b"content-length:" not in head.lower():  # in chunks, or nothing
        return body if body.endswith(b"0\r\n\r\n") else None
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return body if len(body) >= length else None


def http(port: int, method: str, path: str, body: bytes = b"") -> Any:
    with Client(port) as client:
        return json.loads(client.ask(request(port, method, path, body)))


def load(port: int, data: bytes, total: int, at_once: int) -> dict[str, float]:
    """Keep `at_once` requests going until `total` are answered; run by `loaded`, in its own process."""
    selector = selectors.DefaultSelector()
    replies: dict[socket.socket, bytes] = {}
    began_at: dict[socket.socket, float] = {}
    took: list[float] = []
    sent, failed = 0, 0
    began = time.perf_counter()
    for _ in range(at_once):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(sock, selectors.EVENT_READ)
        replies[sock], began_at[sock] = b"", time.perf_counter()
        sock.sendall(data)
        sent += 1
    while len(took) < total:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            sock = key.fileobj
            replies[sock] += sock.recv(1 << 18)
            if (body := whole(replies[sock])) is None:
                continue
            took.append((time.perf_counter() - began_at[sock]) * 1000)
            failed += b'"error"' in body
            if sent < total:
                sent += 1
                replies[sock], began_at[sock] = b"", time.perf_counter()
                sock.sendall(data)
            else:
                replies[sock] = b""
                selector.unregister(sock)
    seconds = time.perf_counter() - began
    return {"rate": total / seconds, "p50": p50(took), "p99": p99(took), "failed": failed}


def loaded(port: int, data: bytes, total: int, at_once: int = 16) -> dict[str, float]:
    order = json.dumps([port, data.decode(), max(total, at_once), at_once])
    done = subprocess.run(
        [sys.executable, HERE, "load"], input=order.encode(), stdout=-1, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    if found["failed"]:
        print(f"  {found['failed']} of {total} failed", file=sys.stderr)
    return found


# ── processes ───────────────────────────────────────────────────────────────────────────────────────


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for each in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            text = Path("/proc", each, "stat").read_text(encoding="utf-8")
            parents[int(each)] = int(text.rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_ms(pid: int) -> float:
    """CPU time of a process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) * 1000 / os.sysconf("SC_CLK_TCK")


def cpu_of_all(pid: int) -> float:
    total = 0.0
    for each in family(pid):
        with contextlib.suppress(OSError):
            total += cpu_ms(each)
    return total


def main() -> None:
    if sys.argv[1] == "echo":
        serve_echo(int(sys.argv[2]))
    else:
        port, data, total, at_once = json.load(sys.stdin)
        print(json.dumps(load(port, data.encode(), total, at_once)))


if __name__ == "__main__":
    main()
