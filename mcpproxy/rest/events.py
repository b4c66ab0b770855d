"""`/events`: server-sent events of what happens, for operators.

Every event is a record of the journal, and its id the record's place. A client that comes back with
`Last-Event-ID` first gets what was recorded since then, so it misses nothing though it was away, or we
were. Source: HTML Standard, 9.2 Server-sent events.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from typing import Any

import anyio

from mcpproxy.envelopes import to_json
from mcpproxy.errors import Refused
from mcpproxy.journal import queries
from mcpproxy.journal.feed import KINDS, kind
from mcpproxy.journal.reading import shown
from mcpproxy.journal.records import number, spelled
from mcpproxy.rest.routing import Answer, Area, Json, Query, Request, Route

EVENTS = "/events"
KEEP_ALIVE_SECONDS = 15.0
"""Between signs of life, so that nobody in between takes the connection for dead."""
RETRY_MS = 2000
"""How long a client waits before it comes back."""
ALL = ("activity", *sorted(set(KINDS.values())))
STREAM = "text/event-stream"

SLOW = "you read too slowly: what came was dropped. Come back with Last-Event-ID to get it"


class Events(Area):
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path=EVENTS,
                summary="What happens, as server-sent events; Last-Event-ID resumes",
                handle=self._listen,
                query=(
                    Query("kinds", f"only these, with commas between: {', '.join(ALL)}"),
                    Query("after", "the same as the header Last-Event-ID"),
                ),
                content_type=STREAM,
                example="id: 1a22b8429c600000\nevent: activity\ndata: {}\n\n",
            ),
        )

    async def _listen(self, request: Request) -> Any:
        kinds = frozenset(filter(None, request.query.get("kinds", "").split(","))) or frozenset(ALL)
        if unknown := kinds - set(ALL):
            raise Refused(
                "INVALID_REQUEST", f"kinds: {min(unknown)[:40]!r} is none of {', '.join(ALL)}"
            )
        headers = dict(request.scope["headers"])
        last = headers.get(b"last-event-id", b"").decode("latin-1") or request.query.get("after")
        try:
            since = None if last is None else number(last)
        except ValueError as error:
            raise Refused("INVALID_REQUEST", f"Last-Event-ID: {error}") from error
        fixed = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        return Answer(self._stream(since, kinds), content_type=STREAM, headers=fixed)

    async def _stream(
        self, since: int | None, kinds: frozenset[str]
    ) -> AsyncGenerator[bytes, None]:
        seen = since or 0
        with self._daemon.feed.listening() as listener:  # nothing is missed from here on
            yield f"retry: {RETRY_MS}\n\n".encode()
            cursor = None if since is None else spelled(since)
            while cursor is not None:
                try:
                    missed = await self._page(cursor)
                except (sqlite3.Error, OSError) as error:
                    yield notice("gap", f"what you missed can't be read: {error}")
                    break
                for record in missed["records"]:
                    seen = number(record["seq"])
                    if kind(record["type"]) in kinds:
                        yield event(record)
                cursor = missed["next"]
            while not listener.over:
                records = await listener.fetch(KEEP_ALIVE_SECONDS)
                for each in records:
                    if each.seq > seen and kind(each.type) in kinds:
                        yield event(shown(each.row(), False))
                if listener.slow:
                    yield notice("slow", SLOW)
                    return
                if not records:
                    yield b": still here\n\n"

    async def _page(self, cursor: str) -> Json:
        """What is in the journal after a place, the oldest first."""
        journal = self._daemon.journal
        await journal.flush()
        asked = {"cursor": cursor, "order": "oldest", "limit": 500}
        return await anyio.to_thread.run_sync(queries.listing, journal.directory, asked, 0)


def event(record: Json) -> bytes:
    """One event; its data has no line end in it, as JSON has none."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        record["seq"].encode(),
        kind(record["type"]).encode(),
        to_json(record),
    )


def notice(name: str, message: str) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), to_json({"message": message}))
