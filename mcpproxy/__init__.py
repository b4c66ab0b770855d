"""A daemon in front of many MCP servers that lets an AI agent call them from code."""

from __future__ import annotations

__version__ = "0.1.0"
