"""Which of MCP's two eras a server speaks, found out when it is connected.

The rule is that of the SDK's `mode="auto"` (`mcp.client._probe`): ask `server/discover` first;
whatever isn't positive evidence of a modern server (2026-07-28 and later) leads to the handshake of
the legacy ones. What is ours: the wait for a server that ignores the question is short, and the
answer can be remembered so that it is waited for once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import mcp_types as types
from mcp.client import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from mcpproxy import __version__

Era = Literal["legacy", "modern"]

IDENTITY = types.Implementation(name="mcpproxy", version=__version__)
PROBE_SECONDS = 2.0
"""How long a server of unknown era may think about the first question; legacy ones may ignore it."""


async def negotiate(
    session: ClientSession,
    dispatcher: JSONRPCDispatcher,
    expected: Era | None,
    *,
    sure: bool,
    unwanted: Callable[[], bool] = lambda: False,
) -> Era:
    """Agree on a protocol version. `expected` is asked for first, and alone when we are `sure`.

    After a refusal that makes us `unwanted`, whatever we say, nothing else is tried.
    Raises `MCPError`, or `RuntimeError` where no version is shared.
    """
    if expected == "legacy":
        try:
            await session.initialize()
        except MCPError as error:
            version = _mutual(error)
            if sure or version is None:
                raise
            return await _discover(session, dispatcher, version)
        return "legacy"
    wait = None if expected == "modern" else PROBE_SECONDS
    if sure:
        return await _discover(session, dispatcher, LATEST_MODERN_VERSION)
    try:
        return await _discover(session, dispatcher, LATEST_MODERN_VERSION, wait)
    except MCPError as error:
        version = _mutual(error)
        if version is not None:
            return await _discover(session, dispatcher, version)
        if _only_unknown_modern(error) or unwanted():
            raise
    except (ValidationError, RuntimeError):
        pass  # it answers the question, but not as a modern server would
    return await negotiate(session, dispatcher, "legacy", sure=False)


async def _discover(
    session: ClientSession,
    dispatcher: JSONRPCDispatcher,
    version: str,
    wait: float | None = None,
) -> Era:
    client = IDENTITY.model_dump(by_alias=True, mode="json", exclude_none=True)
    params = {
        "_meta": {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: client,
            CLIENT_CAPABILITIES_META_KEY: {},
        }
    }
    method = "server/discover"
    options: CallOptions = {
        "cancel_on_abandon": False,
        "headers": {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method},
    }
    if wait is not None:
        options["timeout"] = wait
    raw: dict[str, Any] = await dispatcher.send_raw_request(method, params, options)
    if isinstance(ttl := raw.get("ttlMs"), int) and ttl < 0:
        raw["ttlMs"] = 0
    session.adopt(types.DiscoverResult.model_validate(raw))
    return "modern"


def _supported(error: MCPError) -> list[object] | None:
    """The versions that a server names when it refuses ours."""
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return None
    match error.error.data:
        case {"supported": [*versions]}:
            return versions
    return None


def _mutual(error: MCPError) -> str | None:
    """The newest modern version that both sides speak."""
    supported = _supported(error) or ()
    return next((v for v in reversed(MODERN_PROTOCOL_VERSIONS) if v in supported), None)


def _only_unknown_modern(error: MCPError) -> bool:
    supported = _supported(error)
    return supported is not None and not any(v in HANDSHAKE_PROTOCOL_VERSIONS for v in supported)
