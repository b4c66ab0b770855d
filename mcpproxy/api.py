"""REST under `/api/v1`: verbs of the daemon, and what errors are called in HTTP."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, unquote

import anyio
from starlette.types import Receive, Scope, Send

from mcpproxy import jsonc
from mcpproxy.admin import Admin, broken, count_of
from mcpproxy.daemon import Daemon
from mcpproxy.errors import Refused
from mcpproxy.execution import Reply, refusal, to_json
from mcpproxy.guard import respond

logger = logging.getLogger(__name__)

EXEC = "/api/v1/code/exec"
SERVER = "/api/v1/servers/"
MAX_BODY_BYTES = 4 * 2**20

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
    "EXECUTION_FAILED": 500,
}
"""HTTP status of each code in `errors.REFUSALS`."""

NO_LISTING = (
    "Agent tokens cannot list stored scripts "
    "(the stored-script listing is available to administrators only)"
)

FAILED = "this failed inside mcpproxy; its log says more under this request_id"

Headers = list[tuple[bytes, bytes]]
Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]


class Api:
    """An ASGI application; `guard.Guard` belongs in front of it."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._admin = Admin(daemon)
        self.routes: dict[str, dict[str, Endpoint]] = {
            EXEC: {"POST": self._exec},
            "/api/v1/code/scripts": {"GET": self._scripts},
            "/api/v1/config/apply": {"POST": operators(lambda *_: self._admin.apply())},
            "/api/v1/servers": {"GET": self._servers, "POST": operators(self._add)},
            "/api/v1/tools": {"GET": self._tools},
            "/api/v1/status": {"GET": self._status},
            "/livez": {"GET": self._live},
            "/healthz": {"GET": self._live},
            "/readyz": {"GET": self._ready},
            "/ready": {"GET": self._ready},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        verbs = self.routes.get(scope["path"]) or self._server_routes(scope)
        # The server leaves the body of an answer to HEAD out.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        headers: Headers = []
        try:
            if not verbs:
                raise Refused("NOT_FOUND", f"there is nothing at {scope['path'][:200]}")
            if method not in verbs:
                allowed = ", ".join(verbs)
                headers = [(b"allow", allowed.encode())]
                message = f"{scope['path']} takes {allowed}, not {method[:20]}"
                raise Refused("METHOD_NOT_ALLOWED", message)
            await verbs[method](scope, receive, send)
        except Refused as error:
            await refuse(scope, send, error.code, str(error), headers)
        except Exception:
            logger.exception("%s: %s failed", scope["state"]["request_id"], scope["path"])
            await refuse(scope, send, "EXECUTION_FAILED", FAILED)

    # code execution

    async def _exec(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = parsed(scope, await read_body(scope, receive))
        reply = await self._execute(body, scope, receive)
        if reply is None:
            return  # nobody is there to read an answer
        text = reply.with_request_id(scope["state"]["request_id"]).encode()
        if not reply.ok and reply.envelope["error"]["code"] == "POOL_BUSY":
            after = math.ceil(self._daemon.settings.code_execution_queue_timeout_ms / 1000)
            await respond(send, 503, text, [(b"retry-after", b"%d" % after)])
        else:
            await respond(send, 200, text)

    async def _execute(self, body: dict[str, Any], scope: Scope, receive: Receive) -> Reply | None:
        """The reply, or None when the client hung up, which ends the script."""
        state = scope["state"]
        reply: Reply | None = None
        failure: Exception | None = None

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                reply = await self._daemon.execute(
                    body, state["caller"], request_id=state["request_id"]
                )
            except Exception as error:
                failure = error  # raised below, where no task group can wrap it
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return reply

    async def _scripts(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["state"]["caller"].admin:
            await answer(scope, send, 403, {"success": False, "error": NO_LISTING})
            return
        await data(scope, send, self._daemon.scripts.listing())

    # what there is

    async def _servers(self, scope: Scope, receive: Receive, send: Send) -> None:
        left_out = [broken(name, why) for name, why in self._daemon.server_errors.items()]
        await data(scope, send, {"servers": [*self._daemon.fleet.status(), *left_out]})

    async def _tools(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = parse_qs(scope["query_string"].decode("latin-1")).get("server", [None])[0]
        catalog = self._daemon.fleet.catalog
        if wanted is not None and wanted not in catalog.servers:
            raise Refused("NOT_FOUND", f"there is no server {wanted[:100]!r}")
        tools = [
            {"server": tool.server, **tool.definition}
            for tool in catalog.tools()
            if wanted in (None, tool.server)
        ]
        missing = [
            name
            for name, server in catalog.servers.items()
            if wanted in (None, name)
            and (
                server.state in ("connecting", "down")
                or (server.state == "lazy" and not server.tools)
            )
        ]
        await data(
            scope, send, {"tools": tools, "partial": bool(missing), "missing_servers": missing}
        )

    async def _status(self, scope: Scope, receive: Receive, send: Send) -> None:
        await data(scope, send, self._daemon.status())

    # servers

    async def _add(self, scope: Scope, receive: Receive) -> Any:
        return await self._admin.add(parsed(scope, await read_body(scope, receive)))

    def _server_routes(self, scope: Scope) -> dict[str, Endpoint]:
        """What there is at `/api/v1/servers/NAME` and below it; a name may have any character in it."""
        path = scope.get("raw_path", b"").decode("latin-1") or scope["path"]
        quoted, _, verb = path.removeprefix(SERVER).partition("/")
        if not path.startswith(SERVER) or not quoted:
            return {}
        admin, name = self._admin, unquote(quoted)

        async def show(scope: Scope, receive: Receive) -> Any:
            return admin.show(name)

        async def logs(scope: Scope, receive: Receive) -> Any:
            query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            return await admin.logs(name, count_of(query.get("tail", ["100"])[0]))

        routes: dict[str, dict[str, Endpoint]] = {
            "": {"GET": operators(show), "DELETE": operators(lambda *_: admin.remove(name))},
            "enable": {"POST": operators(lambda *_: admin.enable(name, True))},
            "disable": {"POST": operators(lambda *_: admin.enable(name, False))},
            "restart": {"POST": operators(lambda *_: admin.restart(name))},
            "logs": {"GET": operators(logs)},
        }
        return routes.get(verb, {})

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b'{"status":"ok"}')

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b'{"ready":true}')


def operators(verb: Callable[[Scope, Receive], Awaitable[Any]]) -> Endpoint:
    """The endpoint of a verb that is an administrator's alone."""

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["state"]["caller"].admin:
            raise Refused("FORBIDDEN", "this is for administrators: use the API key")
        await data(scope, send, await verb(scope, receive))

    return endpoint


async def data(scope: Scope, send: Send, found: Any) -> None:
    await answer(scope, send, 200, {"success": True, "data": found})


async def refuse(
    scope: Scope, send: Send, code: str, message: str, headers: Headers | None = None
) -> None:
    body = refusal(code, message)
    if scope["path"] != EXEC:
        body = {"success": False, **body}
    await answer(scope, send, STATUS[code], body, headers)


async def answer(
    scope: Scope, send: Send, status: int, body: dict[str, Any], headers: Headers | None = None
) -> None:
    found = {**body, "request_id": scope["state"]["request_id"]}
    await respond(send, status, to_json(found), headers)


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises `Refused` for one that is too large, before all of it is read."""
    too_large = Refused(
        "REQUEST_TOO_LARGE",
        f"the body has more than {MAX_BODY_BYTES:,} bytes; store the data where a tool can read it",
    )
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise too_large
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("INVALID_REQUEST", "the body ended early")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY_BYTES:
            raise too_large
        if not message.get("more_body", False):
            return b"".join(pieces)


def parsed(scope: Scope, body: bytes) -> dict[str, Any]:
    """The JSON object in a body. Of a name that comes twice the last value counts, as in JavaScript."""
    kind = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Refused("UNSUPPORTED_MEDIA_TYPE", "send Content-Type: application/json")
    try:
        found = jsonc.strict(body)
    except ValueError as error:
        raise Refused("INVALID_REQUEST", f"the body is not usable JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused("INVALID_REQUEST", 'the body must be a JSON object such as {"code": "1 + 1"}')
    return found
