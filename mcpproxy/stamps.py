"""A time as programs read it: ISO 8601, in UTC, to the second."""

from __future__ import annotations

import time


def stamp(seconds: float) -> str:
    """Of seconds since 1970."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
