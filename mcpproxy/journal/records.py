"""What one record says, and how it is written: values and text, no files.

    execution       one script, from request to reply
    tool_call       one call of a tool: from a script (then `parent` is its execution) or direct
    request         any other request of a client to one server: a prompt, a resource
    refusal         a request that was turned away before anything ran
    server_state    a server came up, went down, was switched off
    catalog_change  a server's tools are others than before
    config_change   settings that hold from now on
    approval        an operator approved or blocked a server or a tool
    token           an agent's token was made, renewed or revoked
    login           an operator signed in at a server, or a sign-in was renewed or lost
    system          the daemon began or ended, or the journal itself has a gap

Every text in a record has been through `redaction` and is cut to a size before it is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mcpproxy.redaction import SECRETS

TYPES = (
    "execution", "tool_call", "request", "refusal", "server_state", "catalog_change", "config_change",
    "approval", "token", "login", "system",
)  # fmt: skip
STATUSES = ("ok", "error", "blocked", "rejected", "unknown", "not_started")
"""`blocked` by policy, `rejected` by a limit of concurrency, `unknown`: in flight when its script ended."""

BLOCKED = frozenset(
    {
        "MAX_TOOL_CALLS_EXCEEDED", "SERVER_NOT_ALLOWED", "ACCESS_DENIED", "PERMISSION_DENIED",
        "QUARANTINED", "TOOL_NOT_APPROVED", "TOOL_DISABLED",
    }
)  # fmt: skip
REJECTED = frozenset({"queue_full", "queue_timeout"})

LONGEST_NAME = 256
BEYOND = 2048
"""Characters past the cut in which a secret is still looked for, so that none is cut in half."""
ABOUT = 160
"""Characters of the line that says what a record is about."""
DEEPEST = 20
"""Levels of an argument that are kept."""

SHIFT = 20
"""A number is milliseconds since 1970, then ten bits for the writer and ten to count within one."""
WRITERS = 1024

encode = json.JSONEncoder(separators=(",", ":")).encode
"""ASCII, so that a lone surrogate or anything else a JSON string may hold arrives."""


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened. All but `detail` are columns, to filter by or to add up."""

    seq: int
    """Its place: records are in the order in which they were written."""
    id: int
    """What others refer to it by; of an execution it is known before the end, else it is `seq`."""
    parent: int | None
    """`id` of the execution that a call belongs to."""
    at: int
    """Milliseconds since 1970 when it was written, which is at its end."""
    type: str
    status: str
    code: str | None = None
    server: str | None = None
    tool: str | None = None
    caller: str | None = None
    client: str | None = None
    """The program that asked, as it calls itself."""
    request_id: str | None = None
    ms: int | None = None
    """How long it took, without the time in a queue."""
    seen: int | None = None
    """Bytes that came from tools: a result, or all that a script was given."""
    back: int | None = None
    """Bytes that went back to who asked."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """The rest: texts and numbers only."""

    def row(self) -> list[Any]:
        return [getattr(self, name) for name in COLUMNS]


COLUMNS = tuple(Record.__dataclass_fields__)
LINE_END = b",\n"


class Numbers:
    """Numbers that grow with time and that no other living writer gives."""

    def __init__(self, writer: int, last: int = 0) -> None:
        self._mark = writer << 10
        self._last = last

    def next(self, now_ms: int) -> int:
        """Greater than all before, though the clock be set back."""
        self._last = max((now_ms << SHIFT) | self._mark, self._last + 1)
        return self._last

    def past(self, last: int) -> None:
        """Give none that isn't greater than this one."""
        self._last = max(self._last, last)


def spelled(number: int) -> str:
    """A number as the API shows it: JSON's readers would round it."""
    return f"{number:016x}"


def number(text: str) -> int:
    """The same back. Raises `ValueError`."""
    if len(text) != 16 or not all(each in "0123456789abcdef" for each in text):
        raise ValueError(f"{text[:40]!r} is no id of a record: those have 16 hexadecimal digits")
    if (found := int(text, 16)) >= 2**63 - 1:  # SQLite's largest
        raise ValueError(f"{text!r} is no id of a record: it is too large for one")
    return found


def moment(at_ms: int) -> str:
    """A time as it is shown, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def status_of(code: str | None) -> str:
    """How a call went that ended with this code, or with none."""
    if code is None:
        return "ok"
    return "blocked" if code in BLOCKED else "rejected" if code in REJECTED else "error"


def about(type: str, detail: Mapping[str, Any]) -> str:
    """A line that says what it is about, beside server and tool."""
    match type:
        case "execution":
            said = detail.get("script") or detail.get("description") or detail.get("source")
        case "server_state":
            why = detail.get("error")
            said = f"{detail.get('state')}: {why}" if why else detail.get("state")
        case "config_change":
            said = detail.get("changed")
        case "approval":
            said = detail.get("tools")
        case "token":
            said = f"{detail.get('change')} {detail.get('name')}"
        case "catalog_change":
            said = detail.get("counts")
        case _:
            said = detail.get("message")
    if not isinstance(said, str | None):
        said = encode(said)
    return " ".join((said or "").split())[:ABOUT]


# ── texts ───────────────────────────────────────────────────────────────────────────────────────


def name(text: str | None) -> str | None:
    """A name, as it fits into a column: short, and valid Unicode."""
    if text is None or (text.isascii() and len(text) <= LONGEST_NAME):
        return text
    return text[:LONGEST_NAME].encode("utf-8", "replace").decode()


def text(whole: str, most: int) -> str:
    """The beginning of a text, without secrets."""
    return SECRETS.hide(whole[: most + BEYOND])[:most]


def json_text(value: Any, most: int) -> tuple[str, bool]:
    """The beginning of a value's JSON, and whether that is all of it; takes time by `most` alone."""
    clipped, left = clip(value, most + BEYOND, DEEPEST)
    try:
        whole = encode(clipped)
    except (TypeError, ValueError) as error:  # no JSON at all: whoever gave it hears that elsewhere
        return f"(not JSON: {error})"[:most], False
    shown = SECRETS.hide(whole)[:most]
    return shown, left >= 0 and len(whole) <= most


def clip(value: Any, room: int, depth: int) -> tuple[Any, int]:
    """A copy of JSON data with at most about `room` characters, and the room left; below 0 if cut."""
    match value:
        case str():
            return value[: max(room, 0)], room - len(value)
        case dict() | list() | tuple() if depth == 0:
            return "…", -1
        case dict():
            copy: dict[str, Any] = {}
            for key, each in value.items():
                if room <= 0:
                    return copy, -1
                copy[key[:room]], room = clip(each, room - len(key), depth - 1)
            return copy, room
        case list() | tuple():
            items: list[Any] = []
            for each in value:
                if room <= 0:
                    return items, -1
                item, room = clip(each, room - 1, depth - 1)
                items.append(item)
            return items, room
    return value, room - 8
