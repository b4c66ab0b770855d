"""The toolkit for programs without an event loop, and for threads beside one.

An event loop in a thread of its own has the connections, and the daemon where one is opened here.
Any thread may call, also one that runs a loop itself; it waits for the answer.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from mcpproxy.toolkit.kit import NOT_OPEN, AsyncMCPToolkit, Mode, Offer

if TYPE_CHECKING:
    from typing import Self

    from anyio.from_thread import BlockingPortal

    from mcpproxy.embedded import Config

T = TypeVar("T")


class MCPToolkit(Offer):
    """The tools of MCP servers, as an OpenAI-compatible chat completion needs them.

        with MCPToolkit() as toolkit:
            tools.extend(toolkit.tools)
            ...
            if toolkit.is_mcp_function(call.function.name):
                content = toolkit.call(call.function.name, call.function.arguments)

    Its arguments are those of `AsyncMCPToolkit`. `with` loads it and closes it at the end; without a
    block, `MCPToolkit().load()` is closed by `close`, or else with the program.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        url: str | None = None,
        key: str | None = None,
        servers: Iterable[str] | None = None,
        mode: Mode = "tools",
    ) -> None:
        super().__init__()
        self._kit = AsyncMCPToolkit(config, url=url, key=key, servers=servers, mode=mode)
        self._portal: BlockingPortal | None = None
        self._open = ExitStack()
        self._end = weakref.finalize(self, self._open.close)

    def __enter__(self) -> Self:
        return self.load()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the daemon, and end the thread; one that was opened here ends with all that it started."""
        self._portal = None
        self._open.close()

    def load(self) -> Self:
        """Ask the daemon what there is now, and make the functions anew.

        A server that can't be reached is left out and named in `errors`. Raises `SettingsError`,
        `Unreachable`, and `Refused` for a wrong key.
        """
        if self._portal is None:
            self._start()
        else:
            self._run(self._kit.load)
        self._found = self._kit._found
        return self

    def _start(self) -> None:
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(name="mcpproxy toolkit"))
            # Entered and left in one task, as task groups must be.
            stack.enter_context(portal.wrap_async_context_manager(self._kit))
            self._open.push(stack.pop_all())
            self._portal = portal

    def call(self, function_name: str, arguments: Mapping[str, Any] | str | None = None) -> str:
        """Run a tool call of the model, and give its result as text for the model.

        `arguments` may be the JSON text that a completion has. Whatever fails (the tool, its server, the
        daemon, the arguments) is told in a text that begins with "Error:", so that the model can recover.
        """
        return self._run(self._kit.call, function_name, arguments)

    def _run(self, act: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        if self._portal is None:
            raise RuntimeError(NOT_OPEN)
        future = self._portal.start_task_soon(act, *arguments)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C here ends the call there
            raise
