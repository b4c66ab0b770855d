"""The program as its users run it: processes with a home of their own, nothing shared, nothing left."""

from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asgi import Answer
from click.testing import CliRunner, Result
from upstreams import STUB
from warm import Process, share_compiled

from mcpproxy.cli import main
from mcpproxy.cli.local import OverUnix
from mcpproxy.paths import Places, places

PROGRAM = Path(sys.executable).with_name("mcpproxy")
KEY = "key-of-the-tests"
WAIT = 20.0
STUBS = [{"name": "stub", "command": sys.executable, "args": ["-I", "-S", STUB]}]


class Home:
    """A configuration in a folder of its own, and the commands that are run with it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.config = folder / "mcp_config.json"
        self.write({"listen": "127.0.0.1:0", "api_key": KEY, "mcpServers": STUBS, **settings})
        state = folder / "state"
        share_compiled(state)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHON_KEYRING_BACKEND": os.environ["PYTHON_KEYRING_BACKEND"],
            "MCPPROXY_DATA_DIR": str(state),
            "PYTHONWARNDEFAULTENCODING": os.environ.get("PYTHONWARNDEFAULTENCODING", ""),
        }

    def write(self, document: Any) -> None:
        text = document if isinstance(document, str) else json.dumps(document)
        self.config.write_text(text, encoding="utf-8")

    def script(self, name: str, source: str) -> None:
        path = self.folder / "scripts" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(source.encode())

    @property
    def places(self) -> Places:
        return places(self.config, self.folder / "state")

    def start(self, *words: str, **pipes: Any) -> Process:
        return Process(
            [PROGRAM, *words, "--config", self.config], self.environ, self.folder, **pipes
        )

    def run(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = self.start(*words, **pipes)
        out, said = process.communicate(given, timeout=WAIT * 2)
        return subprocess.CompletedProcess(words, process.returncode, out.decode(), said.decode())

    def invoke(self, *words: str) -> Result:
        """The same in this process, for what ends before anything is opened."""
        return CliRunner().invoke(
            main, [*words, "--config", str(self.config)], env=dict(self.environ)
        )

    @contextmanager
    def serving(self, *words: str) -> Iterator[Serving]:
        """A daemon that listens; it is stopped at the end and must have stopped well."""
        process = self.start("serve", *words, stderr=subprocess.PIPE)
        assert process.stderr is not None
        try:
            with Serving(self, process) as serving:
                yield serving
        finally:
            process.kill()
            process.wait(WAIT)
            process.stderr.close()


class Serving:
    """A daemon that runs."""

    def __init__(self, home: Home, process: Process) -> None:
        self.home = home
        self.process = process
        said = self.await_line("listening on http://")
        self.address = said.partition("listening on http://")[2].partition(",")[0]
        self.host, _, port = self.address.rpartition(":")
        self.port = int(port)

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None and self.process.poll() is None:
            self.stop()

    def stop(self, number: int = signal.SIGTERM) -> str:
        """End it with a signal; what it said, once it is gone."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=WAIT)
        assert self.process.returncode == 0, said.decode()
        return said.decode()

    def await_line(self, words: str) -> str:
        """Read what it says until a line has these words in it."""
        assert self.process.stderr is not None
        while line := self.process.stderr.readline().decode():
            if words in line:
                return line
        raise AssertionError(f"it ended without saying {words!r}")

    def connect(self, *, local: bool = False) -> http.client.HTTPConnection:
        if local:
            return OverUnix(self.home.places.socket, WAIT)
        return http.client.HTTPConnection(self.host.strip("[]"), self.port, timeout=WAIT)

    def ask(
        self, verb: str, path: str, body: Any = None, *, local: bool = False, **headers: str
    ) -> Answer:
        connection = self.connect(local=local)
        try:
            raw = None if body is None else json.dumps(body)
            keyed = {} if local else {"X-API-Key": KEY}
            connection.request(
                verb, path, raw, {"Content-Type": "application/json", **keyed, **headers}
            )
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read().decode())
        finally:
            connection.close()

    def execute(self, code: str, **body: Any) -> Any:
        return self.ask("POST", "/api/v1/code/exec", {"code": code, **body}).body


def below(root: int) -> set[int]:
    """Every process below `root`."""
    found: set[int] = set()
    todo = [root]
    while todo:
        try:
            tasks = [*Path(f"/proc/{todo.pop()}/task").iterdir()]
        except OSError:  # it has ended
            continue
        for task in tasks:
            try:
                words = (task / "children").read_text(encoding="ascii").split()
            except OSError:
                continue
            pids = {int(word) for word in words}
            todo += pids - found
            found |= pids
    return found


@contextmanager
def home(**settings: Any) -> Iterator[Home]:
    """A home whose path is short enough for a socket in it."""
    folder = Path(tempfile.mkdtemp(prefix="mp-"))
    try:
        yield Home(folder, **settings)
    finally:
        shutil.rmtree(folder)


def gone(pids: set[int]) -> None:
    """Wait for processes to end."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        ended = poll.poll(WAIT * 1000)
        os.close(descriptor)
        assert ended, f"{pid} is still there"


def taken_port() -> socket.socket:
    """A listener on a free port of this machine."""
    return socket.create_server(("127.0.0.1", 0))
