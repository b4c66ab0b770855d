"""What a route is, and how a request finds one: everything that all endpoints share.

A route says all about itself (who may, what it takes, what it gives), so that reading a request
strictly, turning people away and describing the whole in OpenAPI are done once, here and in one way.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, unquote

import anyio
from starlette.types import Receive, Scope, Send

from mcpproxy import gates, jsonc
from mcpproxy.bulk import LARGEST, MOST_VALUES
from mcpproxy.effort import compiled, violations
from mcpproxy.envelopes import refusal, to_json
from mcpproxy.errors import Refused
from mcpproxy.guard import respond
from mcpproxy.policy import Caller

if TYPE_CHECKING:
    from mcpproxy.daemon import Daemon

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Headers = list[tuple[bytes, bytes]]

INTEGER = re.compile("-?[0-9]{1,16}")
STATUS = {
    "INVALID_REQUEST": 400,
    "INVALID_OPTIONS": 400,
    "INVALID_LANGUAGE": 400,
    "INVALID_SCRIPT_NAME": 400,
    "SCRIPT_UNUSABLE": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "FEATURE_DISABLED": 403,
    "NOT_FOUND": 404,
    "SCRIPT_NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "REQUEST_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "RATE_LIMITED": 429,
    "EXECUTION_FAILED": 500,
}
"""HTTP status of each code in `errors.REFUSALS`."""

FAILED = "this failed inside mcpproxy; its log says more under this request_id"
OPERATORS_ONLY = "this is for administrators: use the API key"


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter in the query of a URL. `schema` is JSON Schema: a string, an integer or a boolean."""

    name: str
    description: str
    schema: Json = field(default_factory=lambda: {"type": "string"})

    def read(self, text: str) -> Any:
        """The value. Raises `Refused` that names the parameter and what it takes."""
        value: Any = text
        match self.schema.get("type"):
            case "integer" if INTEGER.fullmatch(text):
                value = int(text)
            case "boolean" if text in ("true", "false"):
                value = text == "true"
        for error in violations(compiled(self.schema), value):
            raise Refused("INVALID_REQUEST", gates.fault(error, self.name))
        return value


@dataclass(frozen=True)
class Request:
    """One request at its route. What it says has been checked against the route before."""

    scope: Scope
    receive: Receive
    parameters: Mapping[str, str]
    """What stood in the path's places, unquoted."""
    query: Mapping[str, Any]
    """Parameters that came, by name."""
    body: Json
    """The object that was sent; empty where the route takes none."""

    @cached_property
    def caller(self) -> Caller:
        found: Caller = self.scope["state"]["caller"]
        return found

    @cached_property
    def request_id(self) -> str:
        return str(self.scope["state"]["request_id"])


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that isn't `{"success": true, "data": ...}`."""

    body: bytes | AsyncGenerator[bytes, None]
    """A generator is sent piece by piece, until the client is gone."""
    status: int = 200
    content_type: str = "application/json"
    headers: Headers = field(default_factory=list)


NOBODY = object()
"""What a handler gives when the client is gone."""


async def hung_up(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_there(request: Request, act: Callable[[], Awaitable[Any]]) -> Any:
    """What `act` gives, or `NOBODY` when the client hung up first, which cancels it."""
    found: Any = NOBODY
    failure: Exception | None = None
    receive = request.receive  # the task's end leaves a cycle, which had better not hold the body

    async def watch() -> None:
        await hung_up(receive)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            found = await act()
        except Exception as error:
            failure = error  # raised below, where no task group can wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame, and with it the request
    return found


Handler = Callable[[Request], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method at one path.

    `path` has places such as `{name}`. The handler gives the `data` of the answer, an `Answer`, or
    `NOBODY`, and raises `Refused`.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    summary: str
    handle: Handler
    operators: bool = True
    """Whether only administrators may; else everybody whom the door lets in."""
    query: tuple[Query, ...] = ()
    body: Json | None = None
    """JSON Schema of the body; None where there is none."""
    body_required: bool = True
    """Whether there must be one; without it the handler gets an empty object."""
    checked: bool = True
    """Whether the body is checked against that schema here; else the handler does."""
    example: Any = None
    """Of `data`, or of the whole body where the handler gives an `Answer`."""
    content_type: str = "application/json"

    @property
    def segments(self) -> list[str]:
        return self.path.split("/")


class Area:
    """A part of the interface: routes over verbs of the daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def routes(self) -> tuple[Route, ...]:
        """All that can be asked of it, in the order in which the description has it."""
        raise NotImplementedError


class Routes:
    """An ASGI application over a table of routes; `guard.Guard` belongs in front of it."""

    def __init__(
        self,
        routes: Iterable[Route],
        bare: Iterable[str] = (),
        forbidden: Callable[[str], None] = lambda path: None,
    ) -> None:
        """`bare` are paths whose refusals have no `success` in their envelope.

        `forbidden` is told where somebody came who is no operator and had to be one.
        """
        self.all = tuple(routes)
        self._forbidden = forbidden
        self._bare = frozenset(bare)
        self._fixed: dict[str, dict[str, Route]] = {}
        self._placed: dict[int, list[Route]] = {}
        for route in self.all:
            if "{" in route.path:
                self._placed.setdefault(len(route.segments), []).append(route)
            else:
                self._fixed.setdefault(route.path, {})[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = []
        try:
            route, parameters = self._find(scope, headers)
            if route.operators and not scope["state"]["caller"].admin:
                self._forbidden(scope["path"])
                raise Refused("FORBIDDEN", OPERATORS_ONLY)
            query = read_query(route, scope)
            body = await read_json(route, scope, receive) if route.body is not None else {}
            found = await route.handle(Request(scope, receive, parameters, query, body))
        except Refused as error:
            if (wait := error.retry_after_ms) is not None:
                headers.append((b"retry-after", b"%d" % math.ceil(wait / 1000)))
            await self._refuse(scope, send, error, headers)
        except Exception:
            logger.exception("%s: %s failed", scope["state"]["request_id"], scope["path"])
            await self._refuse(scope, send, Refused("EXECUTION_FAILED", FAILED), [])
        else:
            await give(scope, receive, send, found)

    def _find(self, scope: Scope, headers: Headers) -> tuple[Route, dict[str, str]]:
        # The server leaves the body of an answer to HEAD out.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        fixed = self._fixed.get(scope["path"], {})
        verbs: dict[str, tuple[Route, dict[str, str]]]
        verbs = {name: (route, {}) for name, route in fixed.items()} or self._at_places(scope)
        if not verbs:
            raise Refused(
                "NOT_FOUND",
                f"there is nothing at {scope['path'][:200]}; MCP is at /mcp, and "
                "/api/v1/openapi.json describes what else there is",
            )
        if method not in verbs:
            allowed = ", ".join(verbs)
            headers.append((b"allow", allowed.encode()))
            raise Refused(
                "METHOD_NOT_ALLOWED", f"{scope['path'][:200]} takes {allowed}, not {method[:20]}"
            )
        return verbs[method]

    def _at_places(self, scope: Scope) -> dict[str, tuple[Route, dict[str, str]]]:
        """By method; a value in a path may have any character in it, if quoted."""
        path = scope.get("raw_path", b"").decode("latin-1") or scope["path"]
        given = path.split("/")
        found: dict[str, tuple[Route, dict[str, str]]] = {}
        for route in self._placed.get(len(given), ()):
            values = {}
            for place, value in zip(route.segments, given, strict=True):
                if place[:1] == "{" and value:
                    values[place[1:-1]] = unquote(value)
                elif place != value:
                    break
            else:
                found[route.method] = route, values
        return found

    async def _refuse(self, scope: Scope, send: Send, error: Refused, headers: Headers) -> None:
        body = refusal(error.code, str(error), error.retry_after_ms)
        if scope["path"] not in self._bare:
            body = {"success": False, **body}
        body["request_id"] = scope["state"]["request_id"]
        await respond(send, STATUS[error.code], to_json(body), headers)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def read_query(route: Route, scope: Scope) -> dict[str, Any]:
    """The route's parameters in the query; of one that comes twice the last counts. Raises `Refused`."""
    if not scope["query_string"]:
        return {}
    known = {each.name: each for each in route.query}
    found = {}
    # Some programs send what isn't ASCII as it is.
    query = scope["query_string"].decode("utf-8", "replace")
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise Refused("INVALID_REQUEST", f"{name} is given more than once; give it one value")
        if name in known:
            found[name] = known[name].read(text)
        else:
            takes = ", ".join(known) or "none"
            raise Refused(
                "INVALID_REQUEST",
                f"{name[:100]!r} is no parameter of {route.path}; it takes {takes}",
            )
    return found


async def read_json(route: Route, scope: Scope, receive: Receive) -> Json:
    """The JSON object in the body. Of a name that comes twice the last value counts, as in JavaScript.

    Raises `Refused`.
    """
    body = await read_body(scope, receive)
    if not body and not route.body_required:
        return {}
    kind = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        what = "a body is missing: " if not body else ""
        raise Refused(
            "UNSUPPORTED_MEDIA_TYPE", f"{what}send JSON with Content-Type: application/json"
        )
    try:
        found = jsonc.strict(body, MOST_VALUES)
    except ValueError as error:
        raise Refused("INVALID_REQUEST", f"the body is not usable JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused("INVALID_REQUEST", f"the body must be a JSON object{members(route)}")
    if route.checked and route.body is not None:
        for fault in violations(compiled(route.body), found):
            more = members(route) if fault.kind.name in ("additionalProperties", "required") else ""
            raise Refused("INVALID_REQUEST", gates.fault(fault, "body") + more)
    return found


def members(route: Route) -> str:
    """What a body may have in it, as the end of a sentence."""
    known = (route.body or {}).get("properties", {})
    return f"; it may have {', '.join(known)}" if known else ""


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises `Refused` for one that is too large, before all of it is read."""
    too_large = Refused(
        "REQUEST_TOO_LARGE",
        f"the body has more than {LARGEST:,} bytes; store the data where a tool can read it",
    )
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > LARGEST:
        raise too_large
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("INVALID_REQUEST", "the body ended early")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > LARGEST:
            raise too_large
        if not message.get("more_body", False):
            return b"".join(pieces)


# ── answering ───────────────────────────────────────────────────────────────────────────────────


async def give(scope: Scope, receive: Receive, send: Send, found: Any) -> None:
    """Send what a handler gave."""
    if found is NOBODY:
        return
    if not isinstance(found, Answer):
        data = {"success": True, "data": found, "request_id": scope["state"]["request_id"]}
        await respond(send, 200, to_json(data))
    elif isinstance(found.body, bytes):
        await respond(send, found.status, found.body, found.headers, found.content_type)
    else:
        await stream(scope, receive, send, found)


async def stream(scope: Scope, receive: Receive, send: Send, answer: Answer) -> None:
    """Send an answer piece by piece; its generator is closed as soon as the client is gone."""
    assert not isinstance(answer.body, bytes)
    headers = [(b"content-type", answer.content_type.encode()), *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})

    async def watch() -> None:
        await hung_up(receive)
        tasks.cancel_scope.cancel()

    async with aclosing(answer.body) as pieces:
        if scope["method"] != "HEAD":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                tasks.cancel_scope.cancel()
    await send({"type": "http.response.body", "body": b""})
