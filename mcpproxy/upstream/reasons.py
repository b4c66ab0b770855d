"""Why a server can't be reached or refuses: in words for people, with what helps where we know it."""

from __future__ import annotations

import logging
import time
from email.utils import parsedate_to_datetime

import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mcpproxy.upstream.references import Unreachable

logger = logging.getLogger(__name__)

FAILED = "Server returned an error response"
"""The SDK's word, over streamable HTTP, for any status but 404; the account of the line says which."""
GARBLED = (
    "the server sent a ",  # in `pipes.py`: an answer that is none
    "Failed to parse ",
    "Unexpected content type",
    "server answered a request with ",
)
"""How it begins what we, or the SDK over HTTP, say in place of an answer that can't be read."""
STATUS = {
    401: "it wants other credentials (HTTP 401); check its headers",
    403: "it refuses our credentials (HTTP 403); check its headers",
    404: "there is nothing at its URL (HTTP 404); check the path",
    405: "it takes no MCP at its URL (HTTP 405); check the path, and its protocol",
    501: "it takes no MCP at its URL (HTTP 501); check the path, and its protocol",
    429: "it has had too many requests (HTTP 429); it is asked again later",
}

BUSY = (429, 502, 503, 504)
"""Statuses of a server that takes no requests now, whatever is asked."""


def refusal(status: int) -> str:
    """What a status of HTTP says of a server, and what to do about it."""
    if status >= 500:
        return STATUS.get(status, f"it failed (HTTP {status}); its own log may say why")
    return STATUS.get(
        status, f"it refused our request (HTTP {status}); check its url, headers and protocol"
    )


def retry_after(status: int, value: str | None) -> float | None:
    """The seconds that a 429 or 503 asks us to wait, by its Retry-After: a number, or a date (RFC 9110, 10.2.3)."""
    value = (value or "").strip()
    if status not in (429, 503) or not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, round(parsedate_to_datetime(value).timestamp() - time.time(), 1))
    except (ValueError, OverflowError, OSError):
        return None


def leaf(error: BaseException) -> BaseException:
    """The first real error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def sentence(error: BaseException) -> str:
    """What went wrong with a connection, for people."""
    match error:
        case Unreachable() | RuntimeError():
            return str(error)
        case MCPError(code=types.CONNECTION_CLOSED):
            return "the connection ended"
        case MCPError() if error.message == FAILED:
            return ""  # the account of the line says it
        case MCPError():
            return f"it said: {error.message} ({error.code})"
        case httpx2.InvalidURL():
            return f"its url is none: {error}"
        case httpx2.HTTPStatusError():
            return refusal(error.response.status_code)
        case httpx2.ConnectError():
            if "[SSL" in str(error):
                return f"its TLS failed: {error}; check that it is https, and its certificate one that is trusted here"
            return f"nothing answers at its URL: {error}; check the URL, and whether it runs"
        case httpx2.HTTPError() | OSError():
            return f"{error or type(error).__name__}"
        case ValidationError():
            return f"its first answer is not valid MCP: {error.errors(include_url=False)[0]['msg']}"
    logger.error("unexpected failure of a connection", exc_info=error)
    return f"{type(error).__name__}: {error}"
