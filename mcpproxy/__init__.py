"""A daemon in front of many MCP servers that lets an AI agent call them from code.

For Python programs: `Proxy` embeds the daemon, `MCPToolkit` and `AsyncMCPToolkit` offer its tools to a
chat completion. Each is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpproxy.embedded import Execution, Proxy
    from mcpproxy.errors import (
        CallError,
        ExecutionError,
        ProxyError,
        Refused,
        SettingsError,
        Unreachable,
    )
    from mcpproxy.toolkit import AsyncMCPToolkit, MCPClient, MCPFunction, MCPToolkit

__version__ = "0.1.0"

__all__ = [
    "AsyncMCPToolkit",
    "CallError",
    "Execution",
    "ExecutionError",
    "MCPClient",
    "MCPFunction",
    "MCPToolkit",
    "Proxy",
    "ProxyError",
    "Refused",
    "SettingsError",
    "Unreachable",
]

_TOOLKIT = {"AsyncMCPToolkit", "MCPClient", "MCPFunction", "MCPToolkit"}
_EMBEDDED = {"Execution", "Proxy"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'mcpproxy' has no attribute {name!r}")
    home = "toolkit" if name in _TOOLKIT else "embedded" if name in _EMBEDDED else "errors"
    found = globals()[name] = getattr(import_module(f"mcpproxy.{home}"), name)
    return found
