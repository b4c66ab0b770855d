"""What a tool gave, from bytes to the result that travels: JSON in an envelope, or a failure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcpproxy import jsonc
from mcpproxy.upstream.failure import CODES, Failure
from mcpproxy.upstream.fetching import Response
from mcpproxy.upstream.toolpack.processes import Ended

Json = dict[str, Any]

PREVIEW = 500
"""Characters of an answer that can't be used which a message shows."""


def of_program(ended: Ended, *, whole: bool) -> Any:
    """The data that a program gave: its JSON, or `data` in it unless it is the `whole`. Raises `Failure`."""
    try:
        found = _json(ended.output)
    except ValueError as error:
        if ended.code:
            raise Failure("EINTERNAL", ended.account()) from error
        text = ended.output.decode("utf-8", "replace")
        what = (
            f"it gave no JSON on stdout: {text[:PREVIEW]!r}" if text.strip() else "it gave nothing"
        )
        raise Failure("EINTERNAL", f"{what}; {ended.account()}") from error
    match found:
        case {"error": {"code": str(code), "message": str(message), **more}}:
            known = CODES.get(code, "EINTERNAL")
            raise Failure(known, message if known == code else f"{code}: {message}", more or None)
    if ended.code:
        raise Failure("EINTERNAL", ended.account())
    match found:
        case {"data": data} if len(found) == 1 and not whole:
            return data
    return found


def of_response(response: Response) -> Any:
    """The data of an HTTP answer: JSON, or else text. Raises `Failure`."""
    try:
        found = _json(response.body)
    except ValueError:
        try:
            found = response.body.decode(response.charset)
        except (UnicodeDecodeError, LookupError) as error:
            reason = f"the answer is neither JSON nor text (HTTP {response.status})"
            raise Failure("EINTERNAL", reason) from error
    if not 200 <= response.status < 300:
        said = found[:PREVIEW] if isinstance(found, str) else found
        details = {"status": response.status, "body": said}
        raise Failure("EINTERNAL", f"it answered with HTTP {response.status}", details)
    return found


def has_data(schema: Mapping[str, Any]) -> bool:
    """Whether an output schema is of the envelope itself."""
    properties = schema.get("properties")
    return isinstance(properties, dict) and "data" in properties


def _json(raw: bytes) -> Any:
    """Raises `ValueError`."""
    try:
        found = jsonc.strict(raw)
        text = json.dumps(found, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character of JavaScript's
        return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return found


def shown(data: Any) -> Json:
    """A good result as it travels."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    result: Json = {"content": [{"type": "text", "text": text}]}
    return {**result, "structuredContent": data} if isinstance(data, dict) else result
