"""Whether something is a JSON-RPC message of MCP, and if not, what its sender is told.

Sources: JSON-RPC 2.0, sections 4 to 6; MCP 2025-11-25, "Messages": an id is a string or an integer
and never null, parameters are an object. The revisions up to 2025-03-26 have batches, too.
"""

from __future__ import annotations

from typing import Any

from mcpproxy import jsonc
from mcpproxy.bulk import MOST_VALUES

Json = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNSUPPORTED_PROTOCOL_VERSION = -32022

WITH_BATCHES = ("2024-11-05", "2025-03-26")
"""The revisions of MCP that have batches."""
MOST = 100
"""Messages of a batch."""
NO_BATCHES = "batches are of MCP up to 2025-03-26; send each message by itself"


class Malformed(ValueError):
    """What came is no message. `code` is JSON-RPC's; `id` is that of the request, where it can be told."""

    def __init__(self, code: int, message: str, id: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = id


def error(code: int, message: str, id: str | int | None = None, data: object = None) -> Json:
    """A response that says what is wrong."""
    said: Json = {"code": code, "message": message}
    if data is not None:
        said["data"] = data
    return {"jsonrpc": "2.0", "id": id, "error": said}


def loads(data: bytes) -> Any:
    """The JSON value in UTF-8 text, of a size that can be read in one go. Raises `Malformed`."""
    try:
        return jsonc.strict(data.decode("utf-8-sig"), MOST_VALUES)
    except UnicodeDecodeError as fault:
        reason = f"not UTF-8: {fault.reason} at byte {fault.start}"
    except ValueError as fault:
        reason = str(fault)
    raise Malformed(PARSE_ERROR, f"Parse error: {reason}")


def check(value: Any) -> None:
    """Raises `Malformed` for what isn't one request, notification or response."""
    if not isinstance(value, dict):
        raise Malformed(INVALID_REQUEST, "a JSON-RPC message is an object")
    id = value.get("id")
    known = id if isinstance(id, (str, int)) and not isinstance(id, bool) else None
    if value.get("jsonrpc") != "2.0":
        raise Malformed(INVALID_REQUEST, 'a message has "jsonrpc": "2.0"', known)
    if "method" in value:
        if not isinstance(value["method"], str):
            raise Malformed(INVALID_REQUEST, "method must be a string", known)
        if "id" in value and known is None:
            raise Malformed(INVALID_REQUEST, "id must be a string or an integer")
        if not isinstance(value.get("params"), dict | None):
            raise Malformed(INVALID_REQUEST, "params must be an object", known)
    elif not ("result" in value or "error" in value):
        raise Malformed(
            INVALID_REQUEST, "a message has a method, or else a result or an error", known
        )


def has_batches(revision: object) -> bool:
    return revision in WITH_BATCHES


def elements(batch: list[Any]) -> list[Json]:
    """The messages of a batch. Raises `Malformed` for one that is empty, too long, or begins a session."""
    if not 1 <= len(batch) <= MOST:
        raise Malformed(INVALID_REQUEST, f"a batch has from 1 to {MOST} messages, not {len(batch)}")
    for message in batch:
        check(message)
        if message.get("method") == "initialize":
            raise Malformed(INVALID_REQUEST, "initialize can't be part of a batch; send it alone")
    return batch
