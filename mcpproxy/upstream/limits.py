"""How many calls may run at once, and who waits for a turn: first come, first served.

A limiter counts even where there is no limit, so a changed setting finds the occupancy as it is.
Whoever gets in must leave, however the call ends.
"""

from __future__ import annotations

from collections import deque

import anyio

from mcpproxy.errors import CallError

QUEUE_TIMEOUT = 30.0
RETRY_AFTER_MS = 1000
"""What a call that found no room is told: long enough for an ordinary call to end."""


class _Waiter:
    __slots__ = ("admitted", "turn")

    def __init__(self) -> None:
        self.turn = anyio.Event()
        self.admitted = False


class Limiter:
    """Room for `limit` calls at once (None or 0: any number) and for `queue_size` that wait."""

    def __init__(
        self,
        who: str,
        limit: int | None = None,
        queue_size: int | None = None,
        queue_timeout: float | None = None,
    ) -> None:
        self.who = who
        """The subject of the sentence that a refused call reads."""
        self.running = 0
        self._line: deque[_Waiter] = deque()
        self.become(limit, queue_size, queue_timeout)

    @property
    def queued(self) -> int:
        return len(self._line)

    def become(
        self, limit: int | None, queue_size: int | None, queue_timeout: float | None
    ) -> None:
        """Change the limits; what runs goes on, and who waits stays in line."""
        self._limit = limit or None
        self._queue_size = queue_size or 0
        self._queue_timeout = QUEUE_TIMEOUT if queue_timeout is None else queue_timeout
        self._admit()

    def try_enter(self) -> bool:
        """Take a place if there is one and nobody is ahead. Never waits."""
        if self._limit is not None and (self._line or self.running >= self._limit):
            return False
        self.running += 1
        return True

    async def enter(self, call: str) -> None:
        """Take a place, waiting in line for one; `call` names it in the refusal.

        Raises `CallError` queue_full or queue_timeout.
        """
        if self.try_enter():
            return
        if len(self._line) >= self._queue_size:
            raise self._refusal("queue_full", call, f"and {self.queued} wait in line, which is all")
        waiter = _Waiter()
        self._line.append(waiter)
        try:
            with anyio.move_on_after(self._queue_timeout):
                await waiter.turn.wait()
        except BaseException:
            if waiter.admitted:
                self.leave()
            else:
                self._line.remove(waiter)
            raise
        if not waiter.admitted:
            self._line.remove(waiter)
            raise self._refusal(
                "queue_timeout",
                call,
                f"and none ended in the {self._queue_timeout:g} s that this one waited",
            )

    def leave(self) -> None:
        """Give the place back; the next in line gets it."""
        self.running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._line and (self._limit is None or self.running < self._limit):
            waiter = self._line.popleft()
            self.running += 1
            waiter.admitted = True
            waiter.turn.set()

    def _refusal(self, code: str, call: str, why: str) -> CallError:
        return CallError(
            code,
            f"{self.who} is busy: {self.running} calls run (max_concurrent_requests: {self._limit}) {why}; "
            f"{call} was not sent, try again later",
            retry_after_ms=RETRY_AFTER_MS,
        )
