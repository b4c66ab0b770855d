"""What a connection has to keep to before it is a request: whose it is, how large its head, how slow.

uvicorn has no such limits with httptools, so this is its protocol with them. A head that is too large
is answered with 431, one that takes too long is hung up on, and so is a body. Responses may take as
long as they like, for a script may run for minutes and a stream of events has no end; but who doesn't
take what is there for them is let go.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import sys
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logger = logging.getLogger(__name__)

MOST_HEAD = 64 * 2**10
"""Bytes of request line and headers."""
HEAD_SECONDS = 15.0
"""From when a connection is made, or a further request begins on it, until its head is there."""
BODY_SECONDS = 120.0
"""From then until the body is there."""

TAKING_SECONDS = 120.0
"""How long a client may leave more than a buffer of an answer where it is."""

TOO_LARGE = "the request line and headers have more than {:,} bytes; send data in the body"
DARWIN_LEVEL, DARWIN_PEERCRED, DARWIN_BYTES = 0, 1, 76
"""SOL_LOCAL, LOCAL_PEERCRED and the size of `struct xucred` in macOS's sys/un.h and sys/ucred.h."""


class HasOptions(Protocol):
    """A socket, or what an event loop gives for one."""

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...


class Limited(HttpToolsProtocol):
    """HTTP from anybody, within limits."""

    _reading = "head"
    """head, body, nothing while a request is being answered, or next between two requests."""
    _head = 0
    """Bytes of the request line and the headers that were read so far."""
    _raw = 0
    """Bytes that came without completing a head."""
    _timer: Any = None
    _taking: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        self._stop_taking()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_taking()
        # Not closed, which would wait until all is sent.
        self._taking = self.loop.call_later(TAKING_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_taking()
        super().resume_writing()

    def _stop_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def data_received(self, data: bytes) -> None:
        if self._reading == "nothing":
            self._reading = "next"  # so that whatever the parser makes of this can be told
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._reading == "next":  # empty lines between two requests
            self._reading = "nothing"
            if self.cycle.response_complete:
                self._wait(HEAD_SECONDS)
        elif self._reading == "head":
            self._raw += len(data)
            if self._too_large:
                self.send_400_response("")
            elif self._timer is None:
                self._wait(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reading, self._head, self._raw = "head", 0, 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._reading = "body"
        self._wait(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._reading = "nothing"
        self._wait(None)
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head += size
        if self._too_large:
            raise ValueError("too large")  # the parser stops, and `send_400_response` says why

    @property
    def _too_large(self) -> bool:
        return max(self._head, self._raw) > MOST_HEAD

    def send_400_response(self, msg: str) -> None:
        if not self._too_large:
            super().send_400_response(msg)
            return
        error = {"code": "REQUEST_TOO_LARGE", "message": TOO_LARGE.format(MOST_HEAD)}
        body = json.dumps({"ok": False, "success": False, "error": error}).encode()
        head = (
            "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _wait(self, seconds: float | None) -> None:
        """Hang up after this time, instead of after what was said before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._hang_up)

    def _hang_up(self) -> None:
        logger.debug("a client was too slow with the %s of its request", self._reading)
        self.transport.close()


class Local(Limited):
    """The same from this user's own processes, on a Unix socket."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not same_user(transport.get_extra_info("socket")):
            transport.abort()


def same_user(line: HasOptions) -> bool:
    """Whether the other end of a Unix socket is this user's. The kernel says so, not the client."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, user, _ = struct.unpack("=iII", raw)
    elif sys.platform == "darwin":
        raw = line.getsockopt(DARWIN_LEVEL, DARWIN_PEERCRED, DARWIN_BYTES)
        _, user = struct.unpack_from("=II", raw)
    else:
        return True  # the file of the socket is this user's alone
    if user != os.getuid():
        logger.warning("user %d tried to use the local socket and was turned away", user)
    return bool(user == os.getuid())
