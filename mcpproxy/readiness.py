"""A descriptor of which we want to know again and again whether there is something to read.

`anyio.wait_readable` makes it known to the event loop for one wait and takes it out again, which
takes longer than reading a short message. Here it stays known for as long as somebody waits in turn.
"""

from __future__ import annotations

from typing import Any

import anyio
from anyio.lowlevel import current_token


class Readable:
    """One per descriptor and one waiter at a time. To be closed before the descriptor is."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._loop: Any = None
        """The event loop, while it knows the descriptor."""
        self._waiter: anyio.Event | None = None
        self._closed = False

    async def wait(self) -> None:
        """Until there is something to read, or an end; at times for nothing.

        Raises `ClosedResourceError` once it is closed.
        """
        if not self._closed:
            self._waiter = waiter = anyio.Event()
            if self._loop is not None or self._begin():
                await waiter.wait()
            else:
                await anyio.wait_readable(self.fd)
        if self._closed:
            raise anyio.ClosedResourceError

    def close(self) -> None:
        """Whoever waits is told."""
        if self._closed:
            return
        self._closed = True
        if self._loop is not None:
            self._end()
        else:
            anyio.notify_closing(self.fd)
        if self._waiter is not None:
            self._waiter.set()

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
        if self._waiter is None or self._waiter.is_set():
            # Nobody takes what is there: the loop would come here again and again.
            self._end()
        else:
            self._waiter.set()

    def _end(self) -> None:
        self._loop.remove_reader(self.fd)
        self._loop = None
