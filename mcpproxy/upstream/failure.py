"""How a tool fails: one of four codes, and a message."""

from __future__ import annotations

import json
from typing import Any, Literal

from mcpproxy.redaction import SECRETS

Code = Literal["EINVAL", "ETIMEOUT", "ECAP", "EINTERNAL"]
CODES: dict[str, Code] = {
    "EINVAL": "EINVAL",
    "ETIMEOUT": "ETIMEOUT",
    "ECAP": "ECAP",
    "EINTERNAL": "EINTERNAL",
}
"""The input is wrong; it took too long; too much went in or came out; anything else."""


UNKNOWN = "whether it took effect is unknown"
"""What is to be said of everything that went out and had no answer: nobody should repeat it blindly."""


class Failure(Exception):
    """A call of a tool failed."""

    def __init__(self, code: Code, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        """What the tool said besides, as JSON."""

    def data(self) -> dict[str, Any]:
        """The canonical shape."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return {"error": error if self.details is None else {**error, "details": self.details}}


def failed(error: Failure) -> dict[str, Any]:
    """A failure as it travels, without secrets."""
    data = SECRETS.hide_all(error.data())
    text = json.dumps(data, ensure_ascii=False)
    content = [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": data, "isError": True}
