"""Whether something is a JSON-RPC message of MCP, and if not, what its sender is told.

Sources: JSON-RPC 2.0, sections 4 to 6; MCP 2025-11-25, "Messages": an id is a string or an integer
and never null, parameters are an object. The revisions up to 2025-03-26 have batches, too.
"""

from __future__ import annotations

import json
import re
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


HEAD = 300
"""Bytes at either end of a message in which its id stands."""
CUT = b"\0 cut \0"
"""Stands for the middle of a message: nothing that JSON has."""
ID = rb'"id"\s*:\s*((?:0|[1-9]\d{0,18})|"[ !#-[\]-~]*")\s*'
BEGUN = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
FIRST = re.compile(BEGUN + ID + b",")
LAST = re.compile(b",\\s*" + ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
"""Where libraries put it."""
KIND = re.compile(rb'"(?:(method)"\s*:\s*"|(?:result|error)"\s*:)')
"""What comes first of those that tell a request from an answer, whose result may have a method of its own."""
REQUEST = re.compile(BEGUN + rb"(?:" + ID + rb',\s*)?"method"')


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


def ends(parts: list[bytes]) -> bytes:
    """What is kept of the parts of a message that is too long."""
    return b"".join(parts[:3])[:HEAD] + CUT + b"".join(parts[-3:])[-HEAD:]


def answer_to(text: bytes) -> str | int | None:
    """The id in an answer that can't be read; None for what isn't one."""
    if (kind := KIND.search(text[:HEAD])) is not None and kind[1]:
        return None
    found = FIRST.match(text) or LAST.search(text[-HEAD:])
    return None if found is None else json.loads(found[1])


def asked_as(text: bytes) -> str | int | None:
    """The id of a request that can't be read, so that its sender needn't wait for ever; None for all else."""
    if (found := REQUEST.match(text[:HEAD])) is None:
        return None
    given = found[1] or ((last := LAST.search(text[-HEAD:])) and last[1])
    return json.loads(given) if given else None


def loads(data: bytes) -> Any:
    """The JSON value in UTF-8 text, of a size that can be read in one go. Raises `Malformed`."""
    try:
        return jsonc.strict(data.decode("utf-8-sig"), MOST_VALUES)
    except UnicodeDecodeError as fault:
        reason = f"not UTF-8: {fault.reason} at byte {fault.start}"
    except ValueError as fault:
        reason = str(fault)
    raise Malformed(PARSE_ERROR, f"Parse error: {reason}", asked_as(data))


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
