"""`mcpproxy stdio` as a client starts it: a pipe to the daemon, or the daemon itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from running import WAIT, below, gone, home

from mcpproxy.cli.stdio import bridge

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}
ADD = "(await tools.stub.add({a: 2, b: input.b}))"


class Session:
    """A client of one `mcpproxy stdio` process; what it prints is JSON-RPC or a failure."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.number = 0

    def send(self, method: str, params: object = None, **members: object) -> None:
        message = {"jsonrpc": "2.0", "method": method, **members}
        if params is not None:
            message["params"] = params
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: object = None) -> dict:
        self.number += 1
        self.send(method, params, id=self.number)
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self.number:
                return message["result"]
        raise AssertionError("it hung up without an answer")

    def begin(self) -> None:
        assert self.ask("initialize", INITIALIZE)["serverInfo"]["name"] == "mcpproxy"
        self.send("notifications/initialized")

    def execute(self, code: str, **arguments: object) -> dict:
        call = {"name": "code_execution", "arguments": {"code": code, **arguments}}
        return json.loads(self.ask("tools/call", call)["content"][0]["text"])

    def leave(self) -> bytes:
        """Close stdin, as a client does; the rest of what the process says on stderr."""
        out, said = self.process.communicate(timeout=WAIT)
        assert (self.process.returncode, out) == (0, b""), said.decode()
        return said


@contextmanager
def session(place):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = place.start("stdio", **pipes)
    try:
        yield Session(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def serving():
    with home(code_execution_pool_size=1) as place, place.serving() as found:
        yield found


def test_with_a_daemon_it_is_a_pipe_to_it(serving):
    with session(serving.home) as client:
        client.begin()
        assert client.execute(ADD, input={"b": 3}) == {"ok": True, "value": {"sum": 5}}
        assert client.leave() == b""


def test_without_a_daemon_it_is_the_daemon_and_leaves_nothing():
    with home() as place, session(place) as client:
        client.begin()
        assert client.execute(ADD, input={"b": 3}) == {"ok": True, "value": {"sum": 5}}
        children = below(client.process.pid)
        assert b"Traceback" not in client.leave()
        gone(children)


def test_a_large_message_arrives_whole(serving):
    with session(serving.home) as client:
        client.begin()
        text = "ä" * 300_000
        assert client.execute("input.text", input={"text": text})["value"] == text
        client.leave()


def test_what_a_shell_pipes_in_is_answered(serving):
    """As `printf … | mcpproxy stdio` does: all at once, the last line without its end, and no more."""
    code = "await sleep(20); 6 * 7"
    asked = [
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "code_execution", "arguments": {"code": code}}},
    ]  # fmt: skip
    text = "\n".join(json.dumps({"jsonrpc": "2.0", **each}) for each in asked)
    with home() as alone:
        for place in (serving.home, alone):
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            out, said = place.start("stdio", **pipes).communicate(text.encode(), timeout=WAIT)
            last = json.loads(out.splitlines()[-1])
            assert last["id"] == 2, said
            assert json.loads(last["result"]["content"][0]["text"])["value"] == 42


def test_a_client_that_leaves_ends_its_script(serving):
    """There is one place, so that the second script can't run before the first has ended."""
    with session(serving.home) as client:
        client.begin()
        call = {"name": "code_execution", "arguments": {"code": "console.log('it runs'); while (true) {}"}}  # fmt: skip
        client.send("tools/call", call, id=99)
        serving.await_line("it runs")
        client.process.communicate(timeout=WAIT)
        assert client.process.returncode == 0
    assert serving.execute("1 + 1")["value"] == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_alone_a_signal_ends_it_with_all_it_started(number):
    with home() as place, session(place) as client:
        client.begin()
        client.execute(ADD, input={"b": 3})
        children = below(client.process.pid)
        client.process.send_signal(number)
        out, said = client.process.communicate(timeout=WAIT)
        assert (client.process.returncode, out) == (0, b""), said.decode()
        assert b"Traceback" not in said
        gone(children)


def test_when_the_daemon_ends_the_client_sees_the_end():
    with home() as place, place.serving() as serving, session(place) as client:
        client.begin()
        serving.stop()
        out, _ = client.process.communicate(timeout=WAIT)
        assert out == b""


def test_the_pipe_imports_no_part_of_the_daemon(serving):
    code = "import sys; from mcpproxy.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "stdio", "--config", str(serving.home.config)],
        env=serving.home.environ, input="", capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    heavy = {"mcp", "mcp_types", "pydantic", "uvicorn", "starlette", "anyio", "asyncio"}
    assert heavy & set(done.stderr.split()) == set()


def test_where_nobody_listens_there_is_no_bridge(tmp_path):
    assert bridge(tmp_path / "absent.sock") is False
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
        assert bridge(tmp_path / "dead.sock") is False


def test_streams_that_do_not_wait_carry_all_the_same():
    """As they are left by some programs that start others."""
    echo = (
        "import socket, threading\n"
        "from mcpproxy.cli.stdio import pump\n"
        "ours, theirs = socket.socketpair()\n"
        "def echo():\n"
        "    with theirs:\n"
        "        while data := theirs.recv(1 << 16):\n"
        "            theirs.sendall(data)\n"
        "threading.Thread(target=echo).start()\n"
        "pump(ours)\n"
    )
    (given, give), (take, taken) = os.pipe(), os.pipe()
    for end in (given, taken):
        os.set_blocking(end, False)
    process = subprocess.Popen([sys.executable, "-c", echo], stdin=given, stdout=taken)
    os.close(given)
    os.close(taken)
    data = bytes(range(256)) * 4096
    with open(give, "wb") as sink, open(take, "rb") as source:
        writer = threading.Thread(target=lambda: (sink.write(data), sink.close()))
        writer.start()
        assert source.read() == data
        writer.join()
    assert process.wait(WAIT) == 0
