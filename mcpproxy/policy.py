"""Who asks, and what that lets them do.

So far there are two ranks: an administrator (the key, the local socket, stdio, the command line
on its own) and the anonymous MCP client on loopback. Tokens, permissions and approvals join here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request comes from. Passed along as an argument, never looked up from a global."""

    name: str
    admin: bool


ADMIN = Caller("admin", admin=True)
"""Holder of the API key."""

LOCAL = Caller("local", admin=True)
"""The same user on this machine: the socket, a stdio client, the command line."""

ANONYMOUS = Caller("anonymous", admin=True)
"""An MCP client on loopback that showed no key, while `require_mcp_auth` is off."""
