"""What a VM is given to do, as the first frame that it gets.

Most programs are ready to be run as they were sent. They travel as they are, for the engine to take;
only what has to be prepared first is told about in JSON.

    limits, length of the program, seed | program | its input as JSON
    limits, 0, seed                     | what is wanted, as JSON
"""

from __future__ import annotations

import json
import os
import struct
from functools import cached_property
from typing import TypedDict

from mcpproxy.sandbox.source import plain

HEAD = struct.Struct("!QQI4i")
SEED = struct.Struct("4i")
SHORT = 2**16
"""Characters of a source that the daemon looks at; the VM looks at longer ones."""


class Wanted(TypedDict):
    """A script, its source without halves of characters: `compiled` is what its TypeScript became, or `refusal` says why it didn't."""

    source: str
    language: str
    compiled: str | None
    refusal: str | None
    input: str
    """As JSON in ASCII, so that whatever a JSON string may hold arrives."""


def pack(wanted: Wanted, memory_bytes: int, largest_bytes: int) -> bytes:
    """The job, for a script that may use so much memory and give a result of so many bytes."""
    program = b""
    source = wanted["source"]
    if wanted["language"] == "javascript" and len(source) <= SHORT and plain(source):
        program = source.encode()
    rest = (wanted["input"] if program else json.dumps(wanted)).encode()
    seed = SEED.unpack(os.urandom(SEED.size))
    return HEAD.pack(memory_bytes, largest_bytes, len(program), *seed) + program + rest


class Job:
    """A job as the VM gets it."""

    def __init__(self, frame: bytes) -> None:
        self.memory, self.largest, length, *self.seed = HEAD.unpack_from(frame)
        end = HEAD.size + length
        self.ready = frame[HEAD.size : end].decode()
        """A program to be run as it is; "" when there is none."""
        self._rest = frame[end:]

    @cached_property
    def wanted(self) -> Wanted:
        """What the daemon was asked for. Of a program that is ready, nobody needs this before it fails."""
        if not self.ready:
            found: Wanted = json.loads(self._rest)
            return found
        return Wanted(
            source=self.ready,
            language="javascript",
            compiled=None,
            refusal=None,
            input=self._rest.decode(),
        )

    def retype(self, compiled: str) -> None:
        """Be the job of the same source in TypeScript, which became `compiled`."""
        self.wanted = {**self.wanted, "language": "typescript", "compiled": compiled}
        self.ready = ""

    @property
    def input(self) -> str:
        """The script's input, as JSON."""
        return self._rest.decode() if self.ready else self.wanted["input"]
