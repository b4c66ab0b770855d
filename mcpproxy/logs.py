"""Which request a log line belongs to.

The door and the MCP face say it once; every line written while that request is worked on, in whatever
task, then carries its id.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

request: ContextVar[str] = ContextVar("request", default="-")
"""Id of the request at work; "-" for what belongs to none."""

LAYOUT = "%(asctime)s %(levelname)s %(name)s [%(request)s]: %(message)s"


class Marked(logging.Filter):
    """Puts the id into each record, where `LAYOUT` shows it."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request = request.get()
        return True
