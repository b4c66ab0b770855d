"""One list of tools at one address, in every revision of the protocol.

A raw middleware answers `tools/list` and `tools/call` from plain dicts, so that nothing of an
upstream's tools or results is lost or refused on the way through typed models. What a tool does is
`toolbox.py`'s business; here are only the protocol's shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ServerEvent,
)
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from mcpproxy import __version__, offer
from mcpproxy.bulk import LARGEST
from mcpproxy.incoming import Incoming
from mcpproxy.names import find_tool
from mcpproxy.policy import LOCAL, Caller
from mcpproxy.toolbox import Call, Context, Json, Tools, asked_by

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog

FIXED_TTL_MS = 3_600_000
"""A list that only a new version of this program changes."""

asking: ContextVar[Caller] = ContextVar("asking", default=LOCAL)
"""Who asks over HTTP, for the place where the SDK doesn't say for whom."""

MOST_FAULTS = 5
UNEXPLAINED = "Invalid request parameters"
"""What the SDK says to a client that asks for something before the handshake."""
NOT_BEGUN = "send initialize before this; or, in 2026-07-28, the protocol version in params._meta"

stream: ContextVar[object] = ContextVar("stream", default=None)
"""Whose stream is being opened, where that is somebody who can be told things alone."""


class StreamBus(InMemorySubscriptionBus):
    """Tells all open streams of an event, or one of them."""

    def __init__(self) -> None:
        super().__init__()
        self._own: dict[object, Callable[[ServerEvent], None]] = {}

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        leave, holder = super().subscribe(listener), stream.get()
        if holder is not None:
            self._own[holder] = listener

        def end() -> None:
            self._own.pop(holder, None)
            leave()

        return end

    def tell(self, holder: object, event: ServerEvent) -> None:
        if (listener := self._own.get(holder)) is not None:
            listener(event)


class FaceServer(Server[Any]):
    """A server that tells legacy clients, too, that its lists may change."""

    whole = False
    """Whether it has all that servers behind us may have, though none is there yet."""

    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        found = super().get_capabilities(*args, **options)
        if self.whole:
            found.logging = types.LoggingCapability()
        if found.resources is not None:
            found.resources.subscribe = self.whole
        return found

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        # The HTTP manager calls this without arguments.
        options = notification_options or NotificationOptions(
            tools_changed=True, prompts_changed=self.whole, resources_changed=self.whole
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class Face:
    """One list of tools at one address, in every revision of the protocol."""

    ttl_ms = FIXED_TTL_MS
    scope = "public"

    def __init__(
        self,
        tools: Tools,
        listed: tuple[Json, ...],
        instructions: str,
        *,
        handlers: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.tools = tools
        self._listed = listed
        self.bus = StreamBus()
        self.listeners = ListenHandler(self.bus)
        self.server = FaceServer(
            "mcpproxy",
            version=__version__,
            instructions=instructions,
            on_list_tools=answered_before,
            on_call_tool=answered_before,
            on_subscriptions_listen=self.listen,
            **handlers,
            get_tool_input_schema=self.input_schema,
        )
        self.server.middleware[:] = [self._answer]
        self.manager = StreamableHTTPSessionManager(
            self.server,
            # The guard in front has checked Host and Origin against the settings.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=LARGEST,
        )
        self._incoming = Incoming(self.manager.handle_request, LARGEST)

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await self.listeners(ctx, params)

    def named(self, name: str, catalog: Catalog) -> str:
        """The name of the tool that a client means, who sees this catalog."""
        return name

    def listed(self, caller: Caller = LOCAL) -> list[Json]:
        return list(self._listed)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request of a caller whom the guard has let in."""
        caller: Caller = scope["state"]["caller"]
        asking.set(caller)
        if caller.rank != "anonymous":
            # Has the SDK keep a session for the one who opened it.
            owner = AccessToken(token="", client_id=caller.name, scopes=[])
            scope = {**scope, "user": AuthenticatedUser(owner)}
        await self._incoming(scope, receive, send)

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """For the SDK's check of `Mcp-Param-*` headers, which else lists all tools every time."""
        if own := offer.OWN.get(offer.OTHER_NAMES.get(name, name)):
            schema: Json = own["inputSchema"]
            return schema
        catalog = self.tools.daemon.catalog_for(asking.get())
        found = find_tool(self.named(name, catalog), catalog)
        tool = found and catalog.tool(found.server, found.tool)
        return tool.input_schema if tool and isinstance(tool.input_schema, Mapping) else None

    def meet(self, connection: Connection, caller: Caller) -> None:
        """A legacy client is there, and can be told things from now on."""

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        try:
            return await self._dispatch(ctx, call_next)
        except ValidationError as error:
            raise MCPError(types.INVALID_PARAMS, faults(error)) from error
        except MCPError as error:
            if error.message == UNEXPLAINED and not ctx.session._connection.initialize_accepted:
                raise MCPError(error.code, NOT_BEGUN) from error
            raise

    async def _dispatch(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        # `_connection` has no public accessor in this SDK.
        connection: Connection = ctx.session._connection
        if ctx.method == "notifications/initialized":
            result = await call_next(ctx)
            self.meet(connection, asked_by(ctx)[0])
            return result
        # A middleware that answers by itself goes around the SDK's own gate.
        if connection.initialize_accepted and ctx.method == "tools/list":
            return self._stamped(ctx, self._page(ctx))
        if connection.initialize_accepted and ctx.method == "tools/call":
            call = Call.of(ctx)
            name = self.named(call.name, self.tools.daemon.catalog_for(call.caller))
            return self._stamped(ctx, await self.tools.call(replace(call, name=name)))
        return await self._other(ctx, call_next, connection)

    async def _other(
        self, ctx: Context, call_next: CallNext, connection: Connection
    ) -> HandlerResult:
        """What isn't about tools."""
        return await call_next(ctx)

    def _page(self, ctx: Context) -> Json:
        if (ctx.params or {}).get("cursor"):
            raise MCPError(types.INVALID_PARAMS, "there is no such cursor: the list has one page")
        return {
            "tools": self.listed(asked_by(ctx)[0]),
            "ttlMs": self.ttl_ms,
            "cacheScope": self.scope,
        }

    def _stamped(self, ctx: Context, result: Json) -> Json:
        """The result in the envelope of the client's revision."""
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            meta = {
                **(result.get("_meta") or {}),
                types.SERVER_INFO_META_KEY: self.server.server_info_stamp,
            }
            return {"resultType": "complete", **result, "_meta": meta}
        modern_only = ("resultType", "ttlMs", "cacheScope")
        return {key: value for key, value in result.items() if key not in modern_only}


def faults(error: ValidationError) -> str:
    """What is wrong with the parameters of a request, in a sentence for each."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg'][:1].lower()}{each['msg'][1:]}"
        for each in error.errors(include_url=False, include_input=False)[:MOST_FAULTS]
    )


async def answered_before(ctx: Context, params: object) -> Any:
    """Registered so that the capability shows; the middleware answers an accepted client."""
    raise AssertionError(f"{ctx.method} passed the middleware")
