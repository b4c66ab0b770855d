"""Everything this package raises on purpose.

    ProxyError
    ├── SettingsError     the configuration cannot be used as written
    ├── Refused           a request was turned away before anything ran
    ├── CallError         one tool call failed; becomes an envelope in the script
    ├── ExecutionError    a program was run and failed; for Python programs
    ├── Unreachable       there is no daemon where a Python program expects one
    └── WorkerError       the process that runs a script is not there any more
        └── PoolBusy      ...or was not to be had in time

A `code` is a promise: clients match on it. What it means on a surface (an HTTP
status, an exit code) is that surface's own table; nothing here knows of HTTP.
"""

from __future__ import annotations

from typing import Any

from mcpproxy.redaction import SECRETS


class ProxyError(Exception):
    """Base of all; `code` is stable, the message is for people and models, and holds no secrets."""

    code = "INTERNAL_ERROR"

    def __init__(self, message: str = "") -> None:
        super().__init__(SECRETS.hide(message))


class SettingsError(ProxyError):
    """The configuration cannot be used as written; the message names the path and the value."""

    code = "INVALID_CONFIG"


REFUSALS = frozenset(
    {
        "INVALID_REQUEST",
        "INVALID_OPTIONS",
        "INVALID_LANGUAGE",
        "INVALID_SCRIPT_NAME",
        "SCRIPT_NOT_FOUND",
        "SCRIPT_UNUSABLE",
        "FEATURE_DISABLED",
        "UNAUTHORIZED",
        "FORBIDDEN",
        "NOT_FOUND",
        "METHOD_NOT_ALLOWED",
        "REQUEST_TOO_LARGE",
        "UNSUPPORTED_MEDIA_TYPE",
        "RATE_LIMITED",
        "EXECUTION_FAILED",
    }
)
"""Codes a whole request can be refused with, before any script runs."""


class Refused(ProxyError):
    """A request was turned away before anything ran.

    `code` is one of `REFUSALS`. `retry_after_ms` is how long to wait before it makes sense to ask again.
    """

    def __init__(self, code: str, message: str, *, retry_after_ms: int | None = None) -> None:
        assert code in REFUSALS, code
        super().__init__(message)
        self.code = code
        self.retry_after_ms = retry_after_ms


RETRYABLE = frozenset(
    {"UPSTREAM_TIMEOUT", "SERVER_UNAVAILABLE", "queue_full", "queue_timeout", "CANCELLED"}
)
"""Call codes after which the same call may well succeed later."""

CALL_CODES = RETRYABLE | {
    "INVALID_ARGS",
    "MAX_TOOL_CALLS_EXCEEDED",
    "SERVER_NOT_ALLOWED",
    "ACCESS_DENIED",
    "PERMISSION_DENIED",
    "QUARANTINED",
    "TOOL_NOT_APPROVED",
    "TOOL_DISABLED",
    "SERVER_NOT_FOUND",
    "TOOL_NOT_FOUND",
    "INVALID_TOOL_ARGS",
    "TOOL_ERROR",
    "UPSTREAM_ERROR",
}


class CallError(ProxyError):
    """One tool call failed, or was not let through.

    `code` is one of `CALL_CODES`. `result` is the tool's own wire result where it gave one
    (TOOL_ERROR). `retry_after_ms` is how long to wait before the same call makes sense again.
    `in_doubt` says that nobody knows whether the call took effect: it went out and had no answer.
    `retryable` is what the code says, unless it is given.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after_ms: int | None = None,
        result: dict[str, Any] | None = None,
        in_doubt: bool = False,
        retryable: bool | None = None,
    ) -> None:
        assert code in CALL_CODES, code
        super().__init__(message)
        self.code = code
        self.message = str(self)
        self.in_doubt = in_doubt
        self.retryable = code in RETRYABLE if retryable is None else retryable
        self.retry_after_ms = retry_after_ms
        self.result = result

    def envelope(self) -> dict[str, Any]:
        """The failed envelope that `call_tool` gives a script."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
        }
        if self.retry_after_ms is not None:
            error["retry_after_ms"] = self.retry_after_ms
        if self.result is not None:
            error["result"] = self.result
        return {"ok": False, "error": error}


class ExecutionError(ProxyError):
    """A program was run and failed.

    `code` says how (docs/reference/code-execution.md has them all). `stack` has its lines and columns.
    `calls` are the calls that it made, each with its outcome: one that is `ok` or `unknown` may have
    had its effect. `reply` is the whole envelope.
    """

    def __init__(self, reply: dict[str, Any]) -> None:
        error = reply["error"]
        super().__init__(error["message"])
        self.code = error["code"]
        self.stack: str = error.get("stack") or ""
        self.calls: list[dict[str, Any]] = reply.get("calls", [])
        self.reply = reply


class Unreachable(ProxyError):
    """There is no daemon that answers where one was asked for; the message says what to do."""

    code = "UNREACHABLE"


class WorkerError(ProxyError):
    """The process of a script ended before it had said how the script went."""

    code = "WORKER_CRASHED"


class PoolBusy(WorkerError):
    """No process became free within the queue's time."""

    code = "POOL_BUSY"
