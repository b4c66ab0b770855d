"""All routes in one application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpproxy.guard import EXEC
from mcpproxy.journal.records import LONGEST_NAME, text
from mcpproxy.rest.activity import Activity
from mcpproxy.rest.code import Code
from mcpproxy.rest.config import Config
from mcpproxy.rest.events import Events
from mcpproxy.rest.keptcode import KeptPrograms
from mcpproxy.rest.logins import Logins
from mcpproxy.rest.metrics import Metrics
from mcpproxy.rest.openapi import Description
from mcpproxy.rest.resources import Resources
from mcpproxy.rest.routing import OPERATORS_ONLY, Routes
from mcpproxy.rest.secrets import Secrets
from mcpproxy.rest.servers import Servers
from mcpproxy.rest.system import System
from mcpproxy.rest.tokens import Tokens
from mcpproxy.rest.tools import Tools
from mcpproxy.rest.trust import Trust

if TYPE_CHECKING:
    from mcpproxy.daemon import Daemon

AREAS = (
    Code,
    KeptPrograms,
    Tools,
    Servers,
    Config,
    Resources,
    Trust,
    Logins,
    Secrets,
    System,
    Tokens,
    Activity,
    Events,
    Metrics,
)
"""Each is made with the daemon and has `routes`."""


def open_api(daemon: Daemon) -> Routes:
    """The ASGI application of REST; `guard.Guard` belongs in front of it."""

    def forbidden(path: str) -> None:
        daemon.journal.refused("FORBIDDEN", OPERATORS_ONLY, path=text(path, LONGEST_NAME))

    routes = [route for area in AREAS for route in area(daemon).routes()]
    return Routes([*routes, Description(routes).route], [EXEC], forbidden)
