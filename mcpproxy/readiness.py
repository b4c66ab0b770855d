"""What is waited for again and again, at little cost: a descriptor to be read, and what happens once.

`anyio.wait_readable` makes a descriptor known to the event loop for one wait and takes it out again,
which takes longer than reading a short message. Here it stays known for as long as somebody waits in
turn. An `anyio.Event` is made for any number who wait; where it is one, a future of the loop does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio.lowlevel import current_token


class Once:
    """An `anyio.Event` for which one task waits. Once that was cancelled, it counts as set."""

    __slots__ = ("_future",)

    def __init__(self, future: Any) -> None:
        self._future = future

    def set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def is_set(self) -> bool:
        return bool(self._future.done())

    async def wait(self) -> None:
        await self._future


def once() -> Callable[[], Once | anyio.Event]:
    """What makes them for the loop that runs now, wherever it is called; events, on a loop without futures."""
    create = getattr(current_token().native_token, "create_future", None)
    return anyio.Event if create is None else lambda: Once(create())


class Readable:
    """One per descriptor and one waiter at a time. To be closed before the descriptor is."""

    def __init__(self, fd: int, look: Callable[[], bool] = lambda: True) -> None:
        """`look` is called when there is something to read, and says whether that needs the waiter.

        Not on every loop: the waiter must be able to do the same. It is called by the loop, in no
        task, so it can't wait, start tasks, or make what tasks wait for.
        """
        self.fd = fd
        self._look = look
        self._loop: Any = None
        """The event loop, while it knows the descriptor."""
        self._waiter: Any = None
        """A future of that loop."""
        self._closed = False

    async def wait(self) -> None:
        """Until there is something to read, or an end; at times for nothing.

        To be called when nothing is left to be read, or else the end of a socket whose peer left
        something unread may not be told: uvloop tells it once, together with what came before it, and
        takes the socket for unknown. Raises `ClosedResourceError` once it is closed.
        """
        if not self._closed:
            if self._loop is not None or self._begin():
                self._waiter = self._loop.create_future()
                await self._waiter
            else:
                await anyio.wait_readable(self.fd)
        if self._closed:
            raise anyio.ClosedResourceError

    def wake(self) -> None:
        """Have whoever waits see for himself, where the end is known otherwise."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Whoever waits is told."""
        if self._closed:
            return
        self._closed = True
        if self._loop is not None:
            self._tell()
            self._end()
        else:
            anyio.notify_closing(self.fd)

    def _begin(self) -> bool:
        """Make it known to the event loop, where that is one that remembers (asyncio's, but no proactor)."""
        loop: Any = current_token().native_token
        try:
            loop.add_reader(self.fd, self._tell)
        except (AttributeError, NotImplementedError):
            return False
        self._loop = loop
        return True

    def _tell(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            # Nobody takes what is there: the loop would come here again and again.
            self._end()
            return
        try:
            if self._closed or self._look():
                waiter.set_result(None)
        except Exception as error:
            waiter.set_exception(error)

    def _end(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self.fd)
            self._loop = None
