"""The fork server under any order, and an execution under any frame: nothing but what was agreed happens."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its loop says what went wrong outside of tasks
import fcntl
import json
import math
import os
import resource
import select
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watched import children, status
from world import Found, Played

from mcpproxy import request
from mcpproxy.errors import WorkerError
from mcpproxy.execution import Execution, Limits
from mcpproxy.policy import ADMIN
from mcpproxy.sandbox import probe, work
from mcpproxy.sandbox.frames import MAX_FROM_VM, BadFrame, Splitter, pack
from mcpproxy.sandbox.orders import EVENT, ORDER
from mcpproxy.sandbox.pool import ZYGOTE
from mcpproxy.sandbox.vm import Vm
from mcpproxy.scripts import Scripts
from mcpproxy.settings import Settings

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
numbers = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
orders = st.builds(ORDER.pack, numbers, numbers, st.integers(0, 255))


class Server:
    """A fork server of our own, and the daemon's end of its line."""

    def __init__(self, control: socket.socket, process: subprocess.Popen) -> None:
        self.control, self.process = control, process
        self._heard = b""
        self._number = 1000

    def send(self, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        socket.send_fds(self.control, [data], descriptors)

    def event(self) -> tuple[int, int, int]:
        """Number, process ID and status."""
        while len(self._heard) < EVENT.size:
            ready, _, _ = select.select([self.control], [], [], 10)
            assert ready, "the fork server says nothing"
            data = self.control.recv(65536)
            assert data, "the fork server ended"
            self._heard += data
        event, self._heard = self._heard[: EVENT.size], self._heard[EVENT.size :]
        return EVENT.unpack(event)

    def answers(self) -> list[tuple[int, int, int]]:
        """Whatever it says until it has borne and buried one more VM of ours: it does its work."""
        self._number += 1
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self.send(ORDER.pack(0, self._number, 0), (theirs.fileno(),))
            self.send(ORDER.pack(self._number, 0, 0))
            said = [self.event()]
            while said[-1][0] != self._number:
                said.append(self.event())
        assert said.pop()[2] == -9
        return said


@contextmanager
def a_server(number: int | None = None, before: tuple[str, ...] = ()):
    """`number` is that of its line's descriptor; `before` stands before its command."""
    ours, theirs = socket.socketpair()
    if number is not None:
        theirs = socket.socket(fileno=fcntl.fcntl(theirs.detach(), fcntl.F_DUPFD, number))
    with ours:
        with theirs:
            process = subprocess.Popen(
                [
                    *before,
                    sys.executable,
                    "-I",
                    "-c",
                    ZYGOTE,
                    str(theirs.fileno()),
                    str(2**28),
                    "fork",
                ],
                pass_fds=[theirs.fileno()],
                env={},
                stdin=subprocess.DEVNULL,
            )
        with process:
            try:
                server = Server(ours, process)
                assert server.event() == (0, process.pid, 7)
                yield server
            finally:
                ours.close()
                process.wait(10)
                process.kill()


@pytest.fixture(scope="module")
def server():
    with a_server() as server:
        yield server


@pytest.mark.threat("S12")
@given(st.lists(orders, min_size=1, max_size=6), st.data())
@settings(max_examples=30)
def test_anything_without_a_socket_makes_the_fork_server_do_nothing(server, sent, data):
    """Also where the records come in pieces."""
    stream = b"".join(sent)
    cut = data.draw(st.integers(1, len(stream)))
    server.send(stream[:cut])
    if stream[cut:]:
        server.send(stream[cut:])
    assert server.answers() == []


@pytest.mark.threat("S12")
@given(orders, st.integers(1, 3))
@settings(max_examples=25)
def test_a_socket_with_an_odd_order_is_closed_and_not_given_to_the_next_vm(server, order, many):
    over, made, act = ORDER.unpack(order)
    if made and act <= len(probe.ALL):
        order = ORDER.pack(over, 0, act)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            server.send(order, (theirs.fileno(),) * many)
        assert server.answers() == []
        ours.settimeout(10)
        assert ours.recv(1) == b""


@pytest.mark.threat("S12")
def test_half_an_order_and_the_end_of_the_line_end_the_fork_server():
    with a_server() as server:
        server.send(ORDER.pack(1, 2, 3)[:-1])
        server.control.shutdown(socket.SHUT_WR)
        assert server.process.wait(10) == 0


@pytest.mark.threat("S12")
def test_a_vm_has_no_line_of_the_fork_server_whatever_its_number():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("no process may have so many descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    try:
        with a_server(number=1500) as server:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                server.send(ORDER.pack(0, 1, 0), (theirs.fileno(),))
                server.answers()
                (vm,) = children(server.process.pid)
                try:
                    while status(vm).get("Seccomp") != "2":
                        pass  # it has shed what isn't its own by then
                    assert os.listdir(f"/proc/{vm}/fd") == ["3"]
                except PermissionError:
                    pytest.skip("only root may look into a process that is not dumpable")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.threat("S12")
def test_no_signal_is_written_to_a_vm_s_line_where_stderr_is_closed():
    with a_server(before=("/bin/sh", "-c", 'exec "$@" 2>&-', "sh")) as server:
        assert server.answers() == []


# an execution whose VM says what it likes


class Line:
    """A VM that says these bytes and no more, whatever it is told."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._splitter = Splitter()
        self.ended = anyio.Event()
        self.ended.set()
        self.status = None
        self.unread = 0

    def post(self, text: bytes) -> bool:
        return False

    async def receive(self) -> list[bytes]:
        await anyio.lowlevel.checkpoint()
        while self._pieces:
            if found := self._splitter.feed(self._pieces.pop(0)):
                return found
        raise WorkerError("the process ended")


class One:
    """A pool of one such VM."""

    def __init__(self, vm: Line | Vm) -> None:
        self._vm = vm

    @asynccontextmanager
    async def vm(self, queue_seconds: float):
        yield self._vm


async def reply_to(vm: Line | Vm) -> tuple[dict, Played]:
    made, upstreams = Settings(), Played()
    asked = request.read(
        {"code": "1", "options": {"max_tool_calls": 5}}, made, Scripts(None), ADMIN
    )  # type: ignore[arg-type]
    execution = Execution(
        asked, Limits(64, 2**20, 8, math.inf), One(vm), SimpleNamespace(), upstreams, Found(), "t"
    )  # fmt: skip
    with anyio.fail_after(10):
        return (await execution.run()).envelope, upstreams


def heard(pieces: list[bytes]) -> tuple[dict, Played]:
    return anyio.run(reply_to, Line(pieces), backend_options={"use_uvloop": True})


frames_of_a_vm = st.fixed_dictionaries(
    {"t": st.sampled_from(["call", "batch", "ask", "log", "large", "failed", "DONE", "x"])},
    optional={
        "id": st.integers(-1, 3) | json_values,
        "server": st.sampled_from(["stub", "nowhere"]) | json_values,
        "tool": st.sampled_from(["echo", "constructor"]) | json_values,
        "args": st.dictionaries(st.text(max_size=3), json_values, max_size=2) | json_values,
        "calls": json_values,
        "what": st.sampled_from(["servers", "tools", "search", "describe", "close_server"]) | json_values,
        "query": json_values,
        "name": json_values,
        "max_parallel": json_values,
        "level": json_values,
        "text": json_values,
    },
)  # fmt: skip


@pytest.mark.threat("S3")
@pytest.mark.parametrize("most", [1, 1000], ids=["one by one", "all at once"])
async def test_a_vm_that_asks_on_and_reads_no_answers_is_not_heard(monkeypatch, most):
    monkeypatch.setattr(work, "UNREAD_BYTES", 2**16)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    vm, idle = Vm(1, ours), 0
    vm.ended.set()
    frame = pack(b'{"t":"call","id":1,"server":"nowhere","tool":"x","args":{}}')
    left = memoryview(20_000 * frame)
    theirs.send(pack(b'{"t":"call","id":1,"server":"stub","tool":"echo","args":{}}'))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reply_to, vm)
            while left and idle < 100:
                try:
                    left = left[theirs.send(left[: most * len(frame)]) :]
                    idle = 0
                except BlockingIOError:
                    idle += 1
                await anyio.lowlevel.checkpoint()
            unread = vm.unread
            theirs.close()
    vm.close()
    assert left and 2**16 < unread < 2**18


@pytest.mark.parametrize("frame", [b'{"t":"call",', b'{"t":"call","id":[],"server":"stub"}'])
async def test_what_begins_as_a_call_and_is_none_crashes_its_vm_alone(frame):
    """Though it is the loop that reads it, while a task waits for calls."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    vm = Vm(1, ours)
    vm.ended.set()
    asyncio.get_running_loop().set_exception_handler(lambda _, about: pytest.fail(str(about)))

    async def ask() -> None:
        envelope, upstreams = await reply_to(vm)
        assert envelope["error"]["code"] == "WORKER_CRASHED" and len(upstreams.calls) == 1

    with theirs, anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            theirs.send(pack(b'{"t":"call","id":1,"server":"stub","tool":"echo","args":{}}'))
            await wait_all_tasks_blocked()
            theirs.send(pack(frame))
    vm.close()


@pytest.mark.threat("S11")
@given(st.lists(st.binary(max_size=50), max_size=6))
def test_a_vm_that_says_any_bytes_has_crashed_and_no_more(pieces):
    envelope, upstreams = heard(pieces)
    assert envelope["ok"] is False
    assert envelope["error"]["code"] == "WORKER_CRASHED"
    assert upstreams.calls == []


@pytest.mark.threat("S11")
@given(st.lists(json_values | frames_of_a_vm, max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_a_vm_that_says_any_json_has_crashed_and_kept_its_budget(sent):
    envelope, upstreams = heard([pack(json.dumps(each).encode()) for each in sent])
    assert envelope["error"]["code"] == "WORKER_CRASHED"
    assert len(upstreams.calls) <= 5
    assert {server for server, _, _ in upstreams.calls} <= {"stub"}
    assert upstreams.in_flight == 0
    json.dumps(envelope)


@pytest.mark.threat("S11")
@pytest.mark.parametrize(
    "piece",
    [
        (MAX_FROM_VM + 1).to_bytes(4, "big"),
        pack(b"[" * 100_000),
        pack(b"9" * 10_000),
        pack(b'{"t":"failed","kind":"refused","code":"SERVER_NOT_ALLOWED","message":"m","stack":"","dropped":0}'),
        pack(b'{"t":"failed","kind":"TIMEOUT","message":"m","stack":"","dropped":0}'),
        pack(b'{"t":"done","dropped":"0","value":1}'),
        pack(b'{"t":"done","dropped":0}'),
    ],
    ids=["too long", "a tower", "a number", "a refusal never given", "a code", "no number", "no value"],
)  # fmt: skip
def test_a_vm_that_breaks_the_protocol_has_crashed(piece):
    envelope, _ = heard([piece])
    assert envelope["error"]["code"] == "WORKER_CRASHED"


def test_a_frame_too_long_is_seen_at_its_header():
    with pytest.raises(BadFrame):
        Splitter().feed((MAX_FROM_VM + 1).to_bytes(4, "big"))
