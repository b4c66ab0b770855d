"""The tools of MCP servers for Python programs that talk to a model themselves.

`MCPToolkit` gives function tools for an OpenAI-compatible chat completion and runs the calls that the
model makes. It is a client of the daemon like any other, whether that runs elsewhere or in this process:

    functions.py   what is offered and what is said, pure
    reach.py       the way to the daemon
    kit.py         the toolkit for event loops
    blocking.py    the same for everybody else
"""

from __future__ import annotations

from mcpproxy.toolkit.blocking import MCPToolkit
from mcpproxy.toolkit.functions import MCPClient, MCPFunction
from mcpproxy.toolkit.kit import AsyncMCPToolkit

__all__ = ["AsyncMCPToolkit", "MCPClient", "MCPFunction", "MCPToolkit"]
