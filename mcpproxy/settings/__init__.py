"""The configuration: what can be set (`sections`), and how it comes from the file (`loading`)."""

from __future__ import annotations

from mcpproxy.settings.checking import checked_server
from mcpproxy.settings.inforce import in_force
from mcpproxy.settings.loading import Loaded, changing, check, load, of_text, read, write
from mcpproxy.settings.sections import (
    Ceilings,
    ClientCredentials,
    Concurrency,
    Logging,
    OAuth,
    Section,
    ServerSettings,
    Settings,
    split_listen,
)

__all__ = [
    "Ceilings",
    "ClientCredentials",
    "Concurrency",
    "Loaded",
    "Logging",
    "OAuth",
    "Section",
    "ServerSettings",
    "Settings",
    "changing",
    "check",
    "checked_server",
    "in_force",
    "load",
    "of_text",
    "read",
    "split_listen",
    "write",
]
