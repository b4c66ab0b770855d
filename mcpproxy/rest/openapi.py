"""`/api/v1/openapi.json`: the interface, described by the routes themselves.

Source: OpenAPI Specification 3.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from mcpproxy import __version__
from mcpproxy.envelopes import to_json
from mcpproxy.errors import REFUSALS
from mcpproxy.guard import EXEC, OPEN
from mcpproxy.rest.routing import STATUS, Answer, Json, Request, Route

PATH = "/api/v1/openapi.json"
JSON = "application/json"

ABOUT = (
    "Every answer is JSON, unless its route says otherwise: `success` and `data`, or `success: false` "
    "and an `error` with a stable `code` and a message that says what to do. The answer of "
    f"`{EXEC}` is the envelope of an execution instead, with `ok`. Each has a `request_id`, also in the "
    "header `X-Request-Id`."
)
ERROR: Json = {
    "type": "object",
    "required": ["error", "request_id"],
    "properties": {
        "success": {"const": False},
        "ok": {"const": False},
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "retry_after_ms": {"type": "integer"},
            },
        },
        "request_id": {"type": "string"},
    },
}
REFUSED: Json = {"$ref": "#/components/responses/Refused"}
DATA: Json = {
    "type": "object",
    "required": ["success", "data", "request_id"],
    "properties": {"success": {"const": True}, "data": {}, "request_id": {"type": "string"}},
}
ENVELOPE: Json = {
    "type": "object",
    "required": ["ok", "request_id"],
    "properties": {
        "ok": {"type": "boolean"},
        "value": {"description": "The program's result, if `ok`."},
        "error": ERROR["properties"]["error"],
        "logs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"level": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "logs_dropped": {"type": "integer"},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "calls": {"type": "array", "items": {"type": "object"}},
        "calls_omitted": {"type": "integer"},
        "cache_id": {"type": "string"},
        "request_id": {"type": "string"},
    },
}


class Description:
    """The document over all routes, its own included."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = routes
        self.route = Route(
            method="GET",
            path=PATH,
            summary="This description",
            handle=self._give,
            operators=False,
            example={"openapi": "3.1.1"},
        )

    async def _give(self, request: Request) -> Any:
        return Answer(self._text)

    @cached_property
    def _text(self) -> bytes:
        return to_json(document([*self._routes, self.route]))


def document(routes: Iterable[Route]) -> Json:
    """The OpenAPI document of these routes."""
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route)
    return {
        "openapi": "3.1.1",
        "info": {"title": "mcpproxy", "version": __version__, "description": ABOUT},
        "paths": paths,
        "security": [{"key": []}, {"bearer": []}],
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {"Error": ERROR, "Data": DATA, "Envelope": ENVELOPE},
            "responses": {
                "Refused": {
                    "description": "Turned away, or failed. " + statuses(),
                    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
            },
        },
    }


def statuses() -> str:
    """The codes of each status that a request can be turned away with."""
    found: dict[int, list[str]] = {}
    for code in sorted(REFUSALS):
        found.setdefault(STATUS[code], []).append(code)
    return "; ".join(f"{status}: {', '.join(codes)}" for status, codes in sorted(found.items()))


def operation(route: Route) -> Json:
    """One route as an operation of OpenAPI."""
    who = "Administrators only." if route.operators else "Whoever has a key."
    found: Json = {
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": "Needs no key." if route.path in OPEN else who,
        "tags": [tag(route.path)],
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
              for name in re.findall(r"\{(\w+)\}", route.path)),
            *({"name": each.name, "in": "query", "description": each.description, "schema": each.schema}
              for each in route.query),
        ],
        "responses": {"200": answer(route), **dict.fromkeys(("4XX", "5XX"), REFUSED)},
    }  # fmt: skip
    if route.path in OPEN:
        found["security"] = []
    if route.body is not None:
        found["requestBody"] = {
            "required": route.body_required,
            "content": {JSON: {"schema": route.body}},
        }
    return found


def answer(route: Route) -> Json:
    """What comes when all is well."""
    if route.content_type != JSON or route.path in OPEN or route.path == PATH:
        content: Json = {"schema": {}, "example": route.example}
    elif route.path == EXEC:
        content = {"schema": {"$ref": "#/components/schemas/Envelope"}, "example": route.example}
    else:
        example = {"success": True, "data": route.example, "request_id": "3f2a"}
        content = {"schema": {"$ref": "#/components/schemas/Data"}, "example": example}
    return {
        "description": route.summary,
        "content": {route.content_type.partition(";")[0]: content},
    }


def operation_id(route: Route) -> str:
    """Such as `get_servers_name_logs`."""
    words = re.findall(r"\w+", route.path.removeprefix("/api/v1"))
    return "_".join([route.method.lower(), *words])


def tag(path: str) -> str:
    """The area of a route."""
    return path.removeprefix("/api/v1/").strip("/").partition("/")[0]
