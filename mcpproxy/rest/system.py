"""The daemon itself: how it is, and whether it is up."""

from __future__ import annotations

from typing import Any

from mcpproxy.rest.routing import Answer, Area, Request, Route
from mcpproxy.status import status


class System(Area):
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/api/v1/status",
                summary="What runs, and what is wrong",
                handle=self._status,
                operators=False,
                example={"version": "0.1.0", "servers": {"ready": 2}, "warnings": []},
            ),
            *(
                Route(
                    method="GET",
                    path=path,
                    summary="Whether the daemon is up; needs no key",
                    handle=self._live,
                    operators=False,
                    example={"status": "ok"},
                )
                for path in ("/livez", "/healthz", "/health")
            ),
            *(
                Route(
                    method="GET",
                    path=path,
                    summary="Whether requests are taken; needs no key",
                    handle=self._ready,
                    operators=False,
                    example={"ready": True},
                )
                for path in ("/readyz", "/ready")
            ),
        )

    async def _status(self, request: Request) -> Any:
        return status(self._daemon, request.caller)

    async def _live(self, request: Request) -> Any:
        return Answer(b'{"status":"ok"}')

    async def _ready(self, request: Request) -> Any:
        return Answer(b'{"ready":true}')
