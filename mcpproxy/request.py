"""What a caller may ask of `code_execution`, read strictly: a wrong type is refused, never guessed at.

All surfaces pass their body through here, so what is refused on one is refused on all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcpproxy import names
from mcpproxy.errors import Refused
from mcpproxy.policy import Caller
from mcpproxy.sandbox.source import TYPESCRIPT, fence_tag
from mcpproxy.scripts import Scripts
from mcpproxy.settings import Settings

FIELDS = ("code", "script", "language", "input", "options", "description")
OPTIONS = ("timeout_ms", "max_tool_calls", "allowed_servers", "trace")
LANGUAGES = ("javascript", "typescript")
MAX_SOURCE_BYTES = 2**20
MAX_INPUT_DEPTH = 100
MAX_TIMEOUT_MS = 600_000
MAX_INTEGER = 2**53 - 1
MAX_SERVERS, LONGEST_NAME = 1000, 256
SHOWN = 80
"""Characters of what was wrong that a refusal repeats."""
LONGEST_DESCRIPTION = 500

EXACTLY_ONE = (
    "Provide exactly one of 'code' (inline source) or 'script' (the name of a stored script)"
)
EXACTLY_ONE_IN_FULL = (
    "Provide exactly one of 'code' (inline source) or 'script' (the name of a script stored in the "
    "'scripts' directory next to mcpproxy's config file) — not both, not neither."
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that may run: source in hand, every limit decided."""

    source: str
    language: str
    input: dict[str, Any]
    input_text: str
    """The same as JSON in ASCII."""
    timeout_ms: int
    max_tool_calls: int
    """0 means any number."""
    allowed_servers: frozenset[str] | None
    """None means all."""
    trace: bool
    script: str | None = None
    description: str = ""
    """What the program does, in a sentence: with one, code that runs well is kept."""
    warnings: list[str] = field(default_factory=list)

    def account(self) -> dict[str, Any]:
        """All of it that was asked for, as it is recorded: without what is empty, off, or 0 for no limit."""
        allowed = self.allowed_servers
        found = {
            "source": self.source,
            "language": self.language,
            "script": self.script,
            "description": self.description,
            "input": self.input,
            "timeout_ms": self.timeout_ms,
            "max_tool_calls": self.max_tool_calls,
            "allowed_servers": None if allowed is None else sorted(allowed),
            "trace": self.trace,
        }
        return {key: value for key, value in found.items() if value not in (None, "", False)}


def read(body: Mapping[str, Any], settings: Settings, scripts: Scripts, caller: Caller) -> Request:
    """The request in `body`. Raises `Refused` with a code and a sentence that names the field.

    The order matters: a switched-off feature is said before any script file is touched.
    """
    check_on(settings)
    _only(body, FIELDS, "INVALID_REQUEST", "the request")
    body = _given(body)
    source, script = _text(body, "code"), _text(body, "script")
    if bool(source) == bool(script):
        raise Refused("INVALID_REQUEST", f"{EXACTLY_ONE}. {EXACTLY_ONE_IN_FULL}")
    language = _language(body)
    description = _description(body)
    given, input_text = _input(body)
    options, warnings = _options(body), list[str]()
    timeout_ms = _timeout(options, settings, caller, warnings)
    max_tool_calls = _tool_calls(options, settings, caller, warnings)
    trace, allowed = _trace(options), _servers(options)
    if script:
        stored = scripts.read(script, language, caller)
        source, language = stored.source, stored.language
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > MAX_SOURCE_BYTES:
        raise Refused(
            "INVALID_REQUEST",
            f"code has {size:,} bytes, at most {MAX_SOURCE_BYTES:,} are taken; pass data as input",
        )
    return Request(
        source=source,
        language=language or fenced_language(source),
        input=given,
        input_text=input_text,
        timeout_ms=timeout_ms,
        max_tool_calls=max_tool_calls,
        allowed_servers=allowed,
        trace=trace,
        script=script or None,
        description=description,
        warnings=warnings,
    )


def check_on(settings: Settings) -> None:
    """Raises `Refused` where code execution is switched off."""
    if not settings.enable_code_execution:
        raise Refused(
            "FEATURE_DISABLED",
            "code execution is switched off: set enable_code_execution to true in the configuration",
        )


def _only(found: Mapping[str, Any], known: tuple[str, ...], code: str, where: str) -> None:
    for name in found:
        if name not in known:
            places = {each: each for each in FIELDS} | {each: f"options.{each}" for each in OPTIONS}
            near = names.close(name, places, 1)
            meant = f"; did you mean {places[near[0]]}?" if near else ""
            listed = ", ".join(known)
            raise Refused(
                code, f"unknown field '{brief(name)}' in {where}; known are {listed}{meant}"
            )


def _given(found: Mapping[str, Any], never_null: str = "") -> dict[str, Any]:
    """What has a value: null is how some clients leave a member out."""
    return {name: value for name, value in found.items() if value is not None or name == never_null}


def brief(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def kind(value: object) -> str:
    """How JSON calls the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise Refused(
            "INVALID_REQUEST", f"{name} must be a string, not {kind(value)}; {EXACTLY_ONE}"
        )
    return value


def _description(body: Mapping[str, Any]) -> str:
    value = body.get("description", "")
    if not isinstance(value, str):
        raise Refused("INVALID_REQUEST", f"description must be a string, not {kind(value)}")
    if len(value) > LONGEST_DESCRIPTION:
        raise Refused(
            "INVALID_REQUEST",
            f"description has {len(value)} characters, at most {LONGEST_DESCRIPTION} are taken",
        )
    return value.strip().encode(errors="replace").decode()  # it is for people, and for search


def _language(body: Mapping[str, Any]) -> str | None:
    if "language" not in body:
        return None
    language = body["language"]
    if language not in LANGUAGES:
        shown = repr(language[:50]) if isinstance(language, str) else kind(language)
        raise Refused(
            "INVALID_LANGUAGE", f"language must be 'javascript' or 'typescript', not {shown}"
        )
    return str(language)


def fenced_language(source: str) -> str:
    """The language of a source about which nothing was said but in its Markdown fence."""
    return "typescript" if fence_tag(source) in TYPESCRIPT else "javascript"


def _input(body: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    given = body.get("input", {})
    if not isinstance(given, dict):
        raise Refused("INVALID_REQUEST", f"input must be an object, not {kind(given)}")
    if deeper(given, MAX_INPUT_DEPTH):
        raise Refused("INVALID_REQUEST", f"input is nested deeper than {MAX_INPUT_DEPTH} levels")
    try:
        return given, json.dumps(given, allow_nan=False)
    except ValueError:
        raise Refused(
            "INVALID_REQUEST", "input holds NaN or an infinity, which JSON has not"
        ) from None


NESTING = frozenset((dict, list))


def parts_of(value: Any) -> Collection[Any]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def deeper(value: object, levels: int) -> bool:
    """Whether objects and arrays are nested more than `levels` deep."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            if not NESTING.isdisjoint(map(type, parts := parts_of(outer)))
            for inner in parts
            if type(inner) in NESTING
        ]
        if not layer:
            return False
    return True


def _options(body: Mapping[str, Any]) -> dict[str, Any]:
    options = body.get("options", {})
    if not isinstance(options, dict):
        raise Refused("INVALID_OPTIONS", f"options must be an object, not {kind(options)}")
    _only(options, OPTIONS, "INVALID_OPTIONS", "options")
    return _given(options, "allowed_servers")  # which is never widened by what may be a mistake


def _timeout(
    options: Mapping[str, Any], settings: Settings, caller: Caller, warnings: list[str]
) -> int:
    asked = _number(options, "timeout_ms")
    if asked is not None and not 1 <= asked <= MAX_TIMEOUT_MS:
        raise Refused(
            "INVALID_OPTIONS",
            f"timeout_ms must be between 1 and {MAX_TIMEOUT_MS} milliseconds, not {brief(str(asked))}",
        )
    longest = _least(settings.code_execution_limits.max_timeout_ms, caller.ceilings.timeout_ms)
    usual = settings.code_execution_timeout_ms
    return _clamped("timeout_ms", asked, usual, longest, warnings)


def _tool_calls(
    options: Mapping[str, Any], settings: Settings, caller: Caller, warnings: list[str]
) -> int:
    asked = _number(options, "max_tool_calls")
    if asked is not None and asked < 0:
        raise Refused(
            "INVALID_OPTIONS",
            f"max_tool_calls cannot be negative ({brief(str(asked))}); 0 means no limit",
        )
    if asked is not None and asked > MAX_INTEGER:
        raise Refused(
            "INVALID_OPTIONS", f"max_tool_calls can be at most {MAX_INTEGER}; 0 means no limit"
        )
    most = _least(settings.code_execution_limits.max_tool_calls, caller.ceilings.tool_calls)
    usual = settings.code_execution_max_tool_calls
    return _clamped("max_tool_calls", asked, usual, most, warnings)


def _trace(options: Mapping[str, Any]) -> bool:
    trace = options.get("trace", False)
    if not isinstance(trace, bool):
        raise Refused("INVALID_OPTIONS", f"trace must be true or false, not {kind(trace)}")
    return trace


def _number(options: Mapping[str, Any], name: str) -> int | None:
    if name not in options:
        return None
    value = options[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        shown = value if isinstance(value, float) else kind(value)
        raise Refused("INVALID_OPTIONS", f"{name} must be an integer, not {shown}")
    return value


def _servers(options: Mapping[str, Any]) -> frozenset[str] | None:
    servers = options.get("allowed_servers", [])
    if not isinstance(servers, list) or not all(isinstance(name, str) for name in servers):
        raise Refused(
            "INVALID_OPTIONS",
            "allowed_servers must be an array of strings (server names); leave it out to allow all",
        )
    if len(servers) > MAX_SERVERS or any(len(name) > LONGEST_NAME for name in servers):
        raise Refused(
            "INVALID_OPTIONS",
            f"allowed_servers has at most {MAX_SERVERS} names of {LONGEST_NAME} characters each",
        )
    return frozenset(servers) or None


def _least(*ceilings: int | None) -> int | None:
    return min((each for each in ceilings if each is not None), default=None)


def _clamped(
    name: str, asked: int | None, configured: int, ceiling: int | None, warnings: list[str]
) -> int:
    """The value in force. 0 is "no limit" for calls, so it stands above every ceiling."""
    value = configured if asked is None else asked
    if not ceiling or 0 < value <= ceiling:
        return value
    if asked is not None:
        shown = asked or "0 (no limit)"
        warnings.append(f"{name} {shown} is above what the operator allows; {ceiling} was used")
    return ceiling
