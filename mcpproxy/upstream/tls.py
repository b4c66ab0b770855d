"""Whom we trust over TLS."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def trust() -> ssl.SSLContext:
    """One for all: making it takes 28 ms and most of a megabyte."""
    return ssl.create_default_context()
