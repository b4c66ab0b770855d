"""`/api/v1/activity`: what happened. For operators: a record tells what others asked and were given."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

import anyio

from mcpproxy.errors import Refused
from mcpproxy.journal import queries
from mcpproxy.journal.reading import GROUPS, LIMIT, MOST
from mcpproxy.journal.records import STATUSES, TYPES
from mcpproxy.rest.routing import Answer, Area, Query, Request, Route

T = TypeVar("T")

ACTIVITY = "/api/v1/activity"
TIME = "a time in ISO 8601, or how long ago: 90m, 24h, 7d"
CONDITIONS = (
    Query("type", "only records of this type", {"type": "string", "enum": list(TYPES)}),
    Query("server", "only what is about this server"),
    Query("tool", "only calls of this tool"),
    Query("status", "only what went like this", {"type": "string", "enum": list(STATUSES)}),
    Query("caller", "only what this caller asked for"),
    Query("request_id", "only what belongs to this request"),
    Query("parent", "only calls of the execution with this id"),
    Query("from", f"only from then on: {TIME}"),
    Query("to", f"only before then: {TIME}"),
)
DETAIL = Query("detail", "with source, arguments, results and the like", {"type": "boolean"})
PAGE = (
    Query(
        "limit",
        f"records of a page, which may have fewer; {LIMIT} unless given",
        {"type": "integer", "minimum": 1, "maximum": MOST},
    ),
    Query("cursor", "`next` of the page before"),
    Query("order", "which come first", {"type": "string", "enum": ["newest", "oldest"]}),
)
SUMMED = (
    Query("from", f"only from then on: {TIME}; {queries.PERIOD} unless given"),
    Query("to", f"only before then: {TIME}"),
    Query("by", "what sums are made by", {"type": "string", "enum": list(GROUPS)}),
)
FORMAT = Query("format", "of the answer", {"type": "string", "enum": list(queries.FORMATS)})
RECORD = {
    "id": "1a22b8429c600000",
    "time": "2026-11-30T08:13:31.462Z",
    "type": "tool_call",
    "status": "ok",
    "server": "time",
    "tool": "get_current_time",
    "caller": "admin",
    "client": "claude-code 2.1",
    "request_id": "5b1da94be92b4778ba2106ae3503d2e8",
    "parent": "1a22b8429c5fffff",
    "ms": 12,
    "seen": 180,
    "about": "",
}
SUMS = {"name": "time:get_current_time", "count": 40, "ok": 39, "error": 1, "mean_ms": 11.5}


class Activity(Area):
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path=ACTIVITY,
                summary="What happened, the newest first, page by page",
                handle=self._list,
                query=(*CONDITIONS, DETAIL, *PAGE),
                example={"records": [RECORD], "next": "1a22b8429c600000"},
            ),
            Route(
                method="GET",
                path=f"{ACTIVITY}/summary",
                summary="How many calls and executions there were, how they went and how long they took",
                handle=self._summary,
                query=SUMMED,
                example={"since": "2026-11-29T08:13:31.462Z", "by": "tool", "groups": [SUMS]},
            ),
            Route(
                method="GET",
                path=f"{ACTIVITY}/export",
                summary="All records that fit, the oldest first",
                handle=self._export,
                query=(*CONDITIONS, DETAIL, FORMAT),
                content_type=queries.FORMATS["jsonl"],
                example=RECORD,
            ),
            Route(
                method="GET",
                path=f"{ACTIVITY}/{{id}}",
                summary="One record with all its details; of an execution also its calls",
                handle=self._show,
                example={**RECORD, "detail": {"arguments": {"timezone": "UTC"}, "queue_ms": 0}},
            ),
        )

    async def _list(self, request: Request) -> Any:
        return await self._read(
            lambda: queries.listing(self._daemon.journal.directory, request.query, now_ms())
        )

    async def _summary(self, request: Request) -> Any:
        return await self._read(
            lambda: queries.summary(self._daemon.journal.directory, request.query, now_ms())
        )

    async def _show(self, request: Request) -> Any:
        id = request.parameters["id"]
        found = await self._read(lambda: queries.one(self._daemon.journal.directory, id))
        if found is None:
            raise Refused("NOT_FOUND", f"there is no record {id}; it may have been too old to keep")
        return found

    async def _export(self, request: Request) -> Any:
        pieces = await self._read(
            lambda: queries.export(self._daemon.journal.directory, request.query, now_ms())
        )

        async def body() -> AsyncGenerator[bytes, None]:
            while (piece := await anyio.to_thread.run_sync(next, pieces, None)) is not None:
                yield piece.encode()

        return Answer(body(), content_type=queries.FORMATS[request.query.get("format", "jsonl")])

    async def _read(self, act: Callable[[], T]) -> T:
        """What `act` gives in a thread, all that was recorded so far included. Raises `Refused`."""
        await self._daemon.journal.flush()
        try:
            return await anyio.to_thread.run_sync(act)
        except ValueError as error:
            raise Refused("INVALID_REQUEST", str(error)) from error
        except (sqlite3.Error, OSError) as error:
            raise Refused(
                "EXECUTION_FAILED", f"the journal can't be read: {error}; see mcpproxy doctor"
            ) from error


def now_ms() -> int:
    return time.time_ns() // 1_000_000
