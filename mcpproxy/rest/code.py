"""`/api/v1/code`: running scripts, and which are stored."""

from __future__ import annotations

import math
from typing import Any

from mcpproxy.envelopes import Reply, to_json
from mcpproxy.guard import EXEC
from mcpproxy.rest.routing import NOBODY, Answer, Area, Request, Route, while_there

NO_LISTING = (
    "Agent tokens cannot list stored scripts "
    "(the stored-script listing is available to administrators only)"
)

BODY = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "description": "The program; or `script`."},
        "script": {"type": "string", "description": "The name of a stored script; or `code`."},
        "language": {"enum": ["javascript", "typescript"]},
        "input": {"type": "object", "description": "What the program sees as `input`."},
        "description": {
            "type": "string",
            "description": "What it does; code that runs well is kept.",
        },
        "options": {
            "type": "object",
            "properties": {
                "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600_000},
                "max_tool_calls": {"type": "integer", "minimum": 0},
                "allowed_servers": {"type": "array", "items": {"type": "string"}},
                "trace": {"type": "boolean"},
            },
        },
    },
}
"""For the description of the interface; `request.read` is what decides."""


class Code(Area):
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="POST",
                path=EXEC,
                summary="Run a program, or a stored script",
                handle=self._exec,
                operators=False,
                body=BODY,
                checked=False,
                example={"ok": True, "value": 2, "request_id": "3f2a"},
            ),
            Route(
                method="GET",
                path="/api/v1/code/scripts",
                summary="The stored scripts",
                handle=self._scripts,
                operators=False,  # whom it refuses, it refuses in its own words
                example={
                    "dir": "/home/me/.mcpproxy/scripts",
                    "scripts": [
                        {
                            "name": "daily-report",
                            "paths": ["/home/me/.mcpproxy/scripts/daily-report.js"],
                            "status": "ok",
                        }
                    ],
                },
            ),
        )

    async def _exec(self, request: Request) -> Any:
        async def execute() -> Reply:
            return await self._daemon.execute(
                request.body, request.caller, request_id=request.request_id
            )

        reply = await while_there(request, execute)
        if reply is NOBODY:
            return NOBODY
        text = reply.with_request_id(request.request_id).encode()
        if not reply.ok and reply.envelope["error"]["code"] == "POOL_BUSY":
            after = math.ceil(self._daemon.settings.code_execution_queue_timeout_ms / 1000)
            return Answer(text, 503, headers=[(b"retry-after", b"%d" % after)])
        return Answer(text)

    async def _scripts(self, request: Request) -> Any:
        if not request.caller.admin:
            body = {"success": False, "error": NO_LISTING, "request_id": request.request_id}
            return Answer(to_json(body), 403)
        return self._daemon.scripts.listing()
