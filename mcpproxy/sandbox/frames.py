"""The line between the daemon and a VM process: JSON objects, each behind its length.

A frame is four bytes of length (big-endian) and that many bytes of UTF-8 JSON. Frames from a VM are
capped, since a VM is not trusted; frames to it may be as long as a tool's result is.

Import-light: the VM process uses this too.
"""

from __future__ import annotations

import struct

from mcpproxy.bulk import values

HEADER = struct.Struct("!I")
MAX_FROM_VM = 8 * 2**20
"""Bytes of one frame from a VM, its arguments or its value included."""
MAX_VALUES = 100_000
"""JSON values in what a VM asks for at once. Each is an object of the daemon's, which reads a frame in one go."""

OUT_OF_MEMORY = 86
"""Exit status of a VM that could not even say that its memory was used up."""


class BadFrame(ValueError):
    """Bytes that are no frame a VM may send."""


def pack(text: bytes) -> bytes:
    """One frame around a JSON text."""
    return HEADER.pack(len(text)) + text


def too_many(text: bytes) -> bool:
    """Whether a frame has more values than a VM may send in one, its result apart."""
    return len(text) > MAX_VALUES and values(text, MAX_VALUES) > MAX_VALUES


class Splitter:
    """Cuts a stream of bytes into frames, whatever the pieces it arrives in."""

    def __init__(self, limit: int = MAX_FROM_VM) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes. Raises `BadFrame` when one would be too long."""
        buffer = self._buffer
        start = HEADER.size
        if not buffer and int.from_bytes(data[:start], "big") + start == len(data) <= self._limit:
            return [data[start:]]  # one and no more, as nearly always
        buffer += data
        frames, at = [], 0
        while len(buffer) - at >= HEADER.size:
            (length,) = HEADER.unpack_from(buffer, at)
            if length > self._limit:
                raise BadFrame(f"a frame of {length} bytes, at most {self._limit} are taken")
            end = at + HEADER.size + length
            if len(buffer) < end:
                break
            frames.append(bytes(memoryview(buffer)[at + HEADER.size : end]))
            at = end
        del buffer[:at]
        return frames
