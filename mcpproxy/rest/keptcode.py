"""`/api/v1/code/cache`: kept code, as far as it is the caller's own; an administrator sees all of it."""

from __future__ import annotations

from typing import Any

import anyio

from mcpproxy.rest.routing import Area, Request, Route

PROGRAM = {
    "cache_id": "9f2c4a…",
    "description": "Count the open issues of some repositories",
    "language": "javascript",
    "params": ["owner", "repos"],
    "tools": ["github:list_issues"],
    "owner": None,
    "runs": 3,
    "last_ms": 412,
    "kept_at": "2026-11-30T08:00:00Z",
    "used_at": "2026-11-30T09:30:00Z",
}


class KeptPrograms(Area):
    def routes(self) -> tuple[Route, ...]:
        one = "/api/v1/code/cache/{cache_id}"
        return (
            Route(
                method="GET",
                path="/api/v1/code/cache",
                summary="The programs that are kept, the last used first",
                handle=self._list,
                operators=False,
                example={"code": [PROGRAM]},
            ),
            Route(
                method="GET",
                path=one,
                summary="A kept program with its source and input; the start of an id is enough",
                handle=self._show,
                operators=False,
                example={**PROGRAM, "source": "return input.owner", "input": {"owner": "acme"}},
            ),
            Route(
                method="DELETE",
                path=one,
                summary="Remove a kept program",
                handle=self._remove,
                operators=False,
                example={"cache_id": "9f2c4a…", "removed": True},
            ),
        )

    async def _list(self, request: Request) -> Any:
        kept = self._daemon.kept_code
        found = await anyio.to_thread.run_sync(kept.listing, request.caller)
        return {"code": [each.shown() for each in found]}

    async def _show(self, request: Request) -> Any:
        kept, cache_id = self._daemon.kept_code, request.parameters["cache_id"]
        return (await anyio.to_thread.run_sync(kept.find, cache_id, request.caller)).whole()

    async def _remove(self, request: Request) -> Any:
        kept, cache_id = self._daemon.kept_code, request.parameters["cache_id"]
        found = await anyio.to_thread.run_sync(kept.remove, cache_id, request.caller)
        return {"cache_id": found.cache_id, "removed": True}
