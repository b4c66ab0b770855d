"""What an API answered, as the result of a tool: JSON, text, or bytes; or a failure with status and body."""

from __future__ import annotations

import base64
import json
from typing import Any

from mcpproxy import jsonc
from mcpproxy.redaction import Secrets
from mcpproxy.upstream.failure import Failure
from mcpproxy.upstream.fetching import Response
from mcpproxy.upstream.reasons import retry_after

Json = dict[str, Any]

PREVIEW = 2000
"""Characters of a text that a failure shows."""


def result(response: Response, name: str, secrets: Secrets) -> Json:
    """A result that travels; credentials that the API gives back are hidden in it. Raises `Failure`."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    text = _text(response)
    if not 200 <= response.status < 300:
        raise _refusal(response, None if text is None else secrets.hide(text))
    if text is None or (media.startswith(("image/", "audio/")) and media != "image/svg+xml"):
        return {"content": [_bytes(response.body, media, name)]}
    text = secrets.hide(text)
    shown: Json = {"content": [{"type": "text", "text": text}]}
    if media in ("", "text/json", "application/json") or media.endswith("+json"):
        found = _json(text)
        if isinstance(found, dict):
            shown["structuredContent"] = found
    return shown


def _text(response: Response) -> str | None:
    """None for what is no text."""
    try:
        text = response.body.decode(response.charset)
    except (UnicodeDecodeError, LookupError):
        return None
    return None if "\0" in text else text


def _json(text: str) -> Any:
    """None for what isn't, or has what can't be passed on."""
    try:
        found = jsonc.strict(text)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found


def _bytes(body: bytes, media: str, name: str) -> Json:
    data = base64.b64encode(body).decode()
    kind = media.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": media}
    resource = {"uri": f"openapi:{name}", "mimeType": media or "application/octet-stream"}
    return {"type": "resource", "resource": {**resource, "blob": data}}


def _refusal(response: Response, text: str | None) -> Failure:
    body: Any = text and (_json(text) or text[:PREVIEW])
    details: Json = {"status": response.status, "body": body or ""}
    message = f"it answered with HTTP {response.status}"
    wait = retry_after(response.status, response.headers.get("retry-after"))
    if wait is not None:
        details["retry_after_ms"] = int(wait * 1000)
        message += f" and asks to be called again in {wait:g} s"
    if response.status in (401, 403):
        message += "; its auth in the configuration may be missing or wrong"
    return Failure("EINTERNAL", message, details)
