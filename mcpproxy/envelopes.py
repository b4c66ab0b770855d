"""How a result is put: the envelope of a call, the reply of an execution, and both as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pydantic_core

from mcpproxy.errors import CallError


@dataclass(frozen=True)
class Reply:
    """The envelope, the same on every surface."""

    ok: bool
    envelope: dict[str, Any]

    @cached_property
    def written(self) -> bytes:
        """The envelope as compact JSON that is valid UTF-8."""
        return to_json(self.envelope)

    @property
    def code(self) -> str | None:
        """Of its error; None for a success."""
        return None if self.ok else self.envelope["error"]["code"]

    @property
    def text(self) -> str:
        return self.written.decode()

    def with_request_id(self, request_id: str) -> str:
        return f'{self.text[:-1]},"request_id":{json.dumps(request_id)}}}'


def to_json(value: Any) -> bytes:
    """JSON as UTF-8; a lone surrogate, which UTF-8 can't hold, is written as an escape."""
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null")
    except (pydantic_core.PydanticSerializationError, UnicodeError):
        return json.dumps(value, separators=(",", ":")).encode()


class Told(dict[str, Any]):
    """The envelope of a call, which is written once: for the script and for the journal."""

    __slots__ = ("written",)

    def __init__(self, envelope: dict[str, Any]) -> None:
        super().__init__(envelope)
        self.written = answer_text(envelope)


def answer_text(body: Any) -> bytes:
    """An answer to the VM; a result that is nested too deeply to be written is an error of its server."""
    if isinstance(body, Told):
        return body.written
    if isinstance(body, list):
        return b"[" + b",".join(answer_text(each) for each in body) + b"]"
    try:
        return to_json(body)
    except RecursionError:
        error = CallError("UPSTREAM_ERROR", "the result is nested too deeply to be passed on")
        return to_json(error.envelope())


def refusal(code: str, message: str, retry_after_ms: int | None = None) -> dict[str, Any]:
    """The envelope of a request that was turned away."""
    error: dict[str, Any] = {"code": code, "message": message}
    if retry_after_ms is not None:
        error["retry_after_ms"] = retry_after_ms
    return {"ok": False, "error": error}


def toolcall_envelope(result: dict[str, Any]) -> dict[str, Any]:
    """What `call_tool` gives for a wire result: a tool's own report of an error is an error, too."""
    if not result.get("isError"):
        return {"ok": True, "result": result}
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    said = "\n".join(
        block["text"]
        for block in blocks
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    )
    message = said or "the tool reported an error without a text"
    return CallError("TOOL_ERROR", message, result=result).envelope()
