"""What a connection may be before it is a request: whose, how large, how slow. No clock runs here."""

from __future__ import annotations

import os
import socket
import struct

import pytest
import uvicorn
from asgi import App
from uvicorn.server import ServerState

from mcpproxy.connections import (
    BODY_SECONDS,
    HEAD_SECONDS,
    MOST_HEAD,
    TAKING_SECONDS,
    Limited,
    Local,
    same_user,
)

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"


class Loop:
    """Keeps what is to happen later, and starts nothing."""

    def __init__(self) -> None:
        self.later: list[Timer] = []

    def call_later(self, seconds, callback, *args):
        timer = Timer(seconds, callback)
        self.later.append(timer)
        return timer

    def create_task(self, coroutine, **_):
        coroutine.close()
        return Task()

    @property
    def waiting(self):
        return [timer for timer in self.later if not timer.cancelled]


class Timer:
    def __init__(self, seconds, callback) -> None:
        self.seconds, self.callback, self.cancelled = seconds, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class Task:
    def add_done_callback(self, callback) -> None: ...


class Line:
    """A transport, and the socket in it."""

    def __init__(self, user: int | None = None) -> None:
        self.user = os.getuid() if user is None else user
        self.sent, self.closed = b"", False

    def get_extra_info(self, name, default=None):
        return self if name == "socket" else default

    def getpeername(self):
        return ("127.0.0.1", 1)

    getsockname = getpeername

    def getsockopt(self, level, name, size):
        return struct.pack("=iII", 1, self.user, self.user)

    def write(self, data) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self):
        return self.closed

    def pause_reading(self) -> None: ...

    resume_reading = pause_reading


async def nothing(scope, receive, send): ...


def connected(kind: type[Limited] = Limited, line: Line | None = None, app: App = nothing):
    loop, line = Loop(), line or Line()
    config = uvicorn.Config(app, http=kind, ws="none", lifespan="off", log_config=None)
    config.load()
    made = kind(config, ServerState(), {}, loop)
    made.connection_made(line)
    return made, line, loop


def hang_up(loop: Loop) -> None:
    (timer,) = loop.waiting
    timer.callback()


@pytest.mark.threat("L4")
@pytest.mark.parametrize("sent", [b"", b"P", HEAD[:-2]])
def test_whoever_is_slow_with_a_head_is_hung_up_on(sent):
    made, line, loop = connected()
    if sent:
        made.data_received(sent)
    assert [timer.seconds for timer in loop.waiting] == [HEAD_SECONDS]
    hang_up(loop)
    assert line.closed


@pytest.mark.threat("L4")
def test_one_byte_at_a_time_wins_no_time():
    made, _, loop = connected()
    first = loop.waiting
    for n in range(len(HEAD) - 2):
        made.data_received(HEAD[n : n + 1])
    assert loop.waiting == first


@pytest.mark.threat("L4")
def test_whoever_is_slow_with_a_body_is_hung_up_on():
    made, line, loop = connected()
    made.data_received(HEAD + b"a")
    (first,) = loop.waiting
    assert first.seconds == BODY_SECONDS
    made.data_received(b"b")
    assert loop.waiting == [first]
    hang_up(loop)
    assert line.closed


def test_a_request_that_is_there_may_be_answered_at_leisure():
    made, line, loop = connected()
    made.data_received(HEAD + b"abc")
    assert (loop.waiting, line.closed) == ([], False)


@pytest.mark.threat("L4")
def test_whoever_does_not_take_an_answer_is_let_go():
    made, line, loop = connected()
    made.data_received(HEAD + b"abc")
    made.pause_writing()
    made.resume_writing()
    assert loop.waiting == []
    made.pause_writing()
    assert [timer.seconds for timer in loop.waiting] == [TAKING_SECONDS]
    hang_up(loop)
    assert line.closed
    made.connection_lost(None)
    assert loop.waiting == []


def test_the_next_request_has_its_time_too():
    made, _, loop = connected()
    made.data_received(HEAD + b"abc" + HEAD[:20])
    assert [timer.seconds for timer in loop.waiting] == [HEAD_SECONDS]
    made.data_received(HEAD[20:] + b"abc")
    assert loop.waiting == []


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (MOST_HEAD // 6)], id="many headers"),
        pytest.param([b"GET / HTTP/1.1\r\na: " + b"b" * MOST_HEAD + b"\r\n"], id="a long one"),
        pytest.param([b"GET /" + b"x" * MOST_HEAD + b" HTTP/1.1\r\n\r\n"], id="a long path"),
        pytest.param([b"GET / HTTP/1.1\r\na: ", *[b"b" * 4096] * 20], id="one without end"),
        pytest.param([b"GET / HTTP/1.1\r\na: " + b"b" * 10**6 + b"\r\n\r\n"], id="whole at once"),
    ],
)
@pytest.mark.threat("L4")
def test_a_head_that_is_too_large_is_refused_before_it_is_whole(pieces):
    made, line, _ = connected()
    for piece in pieces:
        if not line.closed:
            made.data_received(piece)
    assert line.closed
    assert line.sent.startswith(b"HTTP/1.1 431 ")
    assert b'"REQUEST_TOO_LARGE"' in line.sent


def test_a_head_within_the_limit_is_a_request():
    made, line, _ = connected()
    made.data_received(b"GET / HTTP/1.1\r\na: " + b"b" * (MOST_HEAD - 200) + b"\r\n\r\n")
    assert (line.sent, line.closed) == (b"", False)


def test_what_is_no_http_is_refused():
    made, line, _ = connected()
    made.data_received(b"\x16\x03\x01 hello\r\n\r\n")
    assert line.sent.startswith(b"HTTP/1.1 400 ") and line.closed


@pytest.mark.threat("L2")
def test_the_local_socket_is_for_this_user_alone(caplog):
    stranger = Line(os.getuid() + 1)
    connected(Local, stranger)
    assert stranger.closed and "turned away" in caplog.text
    _, friend, _ = connected(Local)
    assert not friend.closed


@pytest.mark.threat("L2")
def test_the_kernel_knows_whose_the_other_end_is():
    here, there = socket.socketpair()
    with here, there:
        assert same_user(here)
