"""What is true of each log line: which request it belongs to, and that it holds no secret.

The door and the MCP face say the id once; every line written while that request is worked on, in
whatever task, then carries it.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import select
import stat
import sys
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

from mcpproxy.errors import SettingsError
from mcpproxy.paths import ELSEWHERE, private_directory
from mcpproxy.redaction import SECRETS

request: ContextVar[str] = ContextVar("request", default="-")
"""Id of the request at work; "-" for what belongs to none."""
caller: ContextVar[str | None] = ContextVar("caller", default=None)
"""Who asks, by name, for the record alone: what somebody may is never looked up here."""
client: ContextVar[str | None] = ContextVar("client", default=None)
"""The program that asks, as it calls itself."""

LAYOUT = "%(asctime)s %(levelname)s %(name)s [%(request)s]: %(message)s"


def known_request() -> str | None:
    """Id of the request at work, if there is one."""
    found = request.get()
    return None if found == "-" else found


class Stderr(logging.StreamHandler[TextIO]):
    """Standard error. Where that is a pipe which nobody reads, lines are dropped, or everything would wait for a reader.

    A pipe that has room takes `PIPE_BUF` bytes at once (pipe(7)), so that no line is longer.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._dropped = 0
        self._room = select.poll()
        self._pipe = False
        with suppress(OSError, ValueError):  # a stream without a descriptor, as tests have
            kind = os.fstat(stream.fileno()).st_mode
            self._pipe = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
            self._room.register(stream, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        if self._pipe and not self._room.poll(0):
            self._dropped += 1
            return
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if not self._pipe:
            return text
        if self._dropped:
            text, self._dropped = f"({self._dropped} lines were not read in time)\n{text}", 0
        whole = text.encode("utf-8", "backslashreplace")
        return whole[: select.PIPE_BUF - len("\n")].decode("utf-8", "ignore")


class Marked(logging.Filter):
    """Puts the id into each record, where `LAYOUT` shows it."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request = request.get()
        return True


class Discreet(logging.Formatter):
    """Leaves secrets out of a line, its traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        return SECRETS.hide(super().format(record))


# ── where they go ────────────────────────────────────────────────────────────────────────────────

LEVELS = {
    "trace": 5,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


def set_up(level: str, file: Path | None) -> None:
    """Ours at `level`, other packages' from warnings on; to stderr and, rotating, to a file.

    Raises `SettingsError`.
    """
    layout = Discreet(LAYOUT)
    handlers: list[logging.Handler] = [Stderr(sys.stderr)]
    if file is not None:
        try:
            private_directory(file.parent)
            handlers.append(
                logging.handlers.RotatingFileHandler(
                    file,
                    maxBytes=10 * 2**20,
                    backupCount=3,
                    encoding="utf-8",
                    errors="backslashreplace",
                )
            )
        except OSError as error:
            raise SettingsError(f"the log can't be written: {error}{ELSEWHERE}") from error
    for handler in handlers:
        handler.setFormatter(layout)
        handler.addFilter(Marked())
        handler.addFilter(not_cut_off)
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    logging.getLogger("mcpproxy").setLevel(LEVELS[level])


def not_cut_off(record: logging.LogRecord) -> bool:
    """Whether a record is anything but uvicorn's traceback of a request that it cut off as we stopped."""
    error = record.exc_info[1] if record.exc_info else None
    cancelled = error is not None and not isinstance(error, Exception)
    return not (cancelled and record.name == "uvicorn.error")
