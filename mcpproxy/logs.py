"""What is true of each log line: which request it belongs to, and that it holds no secret.

The door and the MCP face say the id once; every line written while that request is worked on, in
whatever task, then carries it.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

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


class Marked(logging.Filter):
    """Puts the id into each record, where `LAYOUT` shows it."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request = request.get()
        return True


class Discreet(logging.Formatter):
    """Leaves secrets out of a line, its traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        return SECRETS.hide(super().format(record))
