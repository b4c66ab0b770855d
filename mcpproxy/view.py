"""The servers behind us, and what can be found out of them, as one caller sees it."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from mcpproxy import gates

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog, Server, Tool
    from mcpproxy.discovery import Discovery
    from mcpproxy.policy import Caller, Views
    from mcpproxy.tokens import Tokens
    from mcpproxy.upstream.fleet import Fleet


class View:
    """What an execution and a direct call go through: nobody else calls a tool of the fleet."""

    def __init__(
        self, caller: Caller, fleet: Fleet, views: Views, discovery: Discovery, tokens: Tokens
    ) -> None:
        self._caller = caller
        self._scope = caller.scope
        self._fleet = fleet
        self._views = views
        self._discovery = discovery
        self._tokens = tokens

    @property
    def catalog(self) -> Catalog:
        return self._views.seen(self._fleet.catalog, self._scope)

    def find(self, server: str, tool: str) -> Tool | None:
        """The tool, or None where that isn't known yet. Raises `CallError`; see `gates.find`."""
        self._check_token()
        return gates.find(self.catalog, self._caller, server, tool)

    def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], **more: Any
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        return self._fleet.call(server, tool, arguments, gate=self._gate, **more)

    def _gate(self, tool: str, server: Server) -> None:
        self._check_token()
        gates.check_tool(self._caller, tool, server)

    def _check_token(self) -> None:
        # Who comes to its end while a script runs calls nothing more.
        if self._caller.rank == "token":
            gates.check_token(self._tokens.hold(self._caller))

    async def known(self, names: list[str] | None = None) -> None:
        """Wait until the tools of these servers, or of all the caller sees, are known or can't be had."""
        await self._fleet.known(list(self.catalog.servers) if names is None else names)

    def search(self, query: object, limit: object, server: object) -> dict[str, Any]:
        return self._discovery.search_tools(query, limit, server, self._caller)

    def describe(self, name: object) -> dict[str, Any]:
        return self._discovery.describe_tool(name, self._caller)
