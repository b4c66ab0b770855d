"""What an HTTP request of a tool consists of, and what may stand in one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

SPELLED = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*\Z")
"""Characters that a path and a query may consist of (RFC 3986), and no "#"."""
LONGEST_URL = 16 * 2**10
LONGEST_HEADER = 16 * 2**10
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*\Z")
OURS = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "proxy-authorization",
     "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Headers that belong to the connection, or say where it leads."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes | None = field(repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


def target_fault(target: str) -> str | None:
    """Why a path and query can't be sent as they are."""
    if not SPELLED.match(target) or len(target) > LONGEST_URL:
        return "what it makes can't stand in a URL, or is too long for one"
    path = target.partition("?")[0]
    # Decoded first: what stands behind a server may take `%2F` or a backslash for one.
    if any(part in (".", "..") for part in re.split(r"[/\\]", unquote(path))):
        return "a path can't have '.' or '..' as a part"
    return None


def header_fault(value: str) -> str | None:
    """Why a text can't be the value of a header."""
    if not VALUE.match(value):
        return "a header can't have line breaks or control characters"
    if len(value) > LONGEST_HEADER:
        return f"a header can't have more than {LONGEST_HEADER >> 10} KiB"
    return None


def wire(value: Any) -> bytes:
    """JSON as it is sent; half a character of JavaScript's stays escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
