"""Which tool a name means that a caller gives, and what to say of one that means nothing.

A name is looked for among what the caller sees. Servers that are on their way get a moment first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from mcpproxy import gates, offer
from mcpproxy.discovery import near_names
from mcpproxy.names import LONGEST, SEPARATORS, ToolId, close, find_tool
from mcpproxy.policy import EVERYTHING, Caller
from mcpproxy.questions import JOINING_SECONDS

if TYPE_CHECKING:
    from mcpproxy.catalog import Catalog
    from mcpproxy.daemon import Daemon


class NoTool(LookupError):
    """A name that names nothing; the message says what to do about it."""


async def located(daemon: Daemon, name: str, caller: Caller) -> ToolId:
    """The tool that a caller names in any of the usual ways. Raises `NoTool`, `CallError`."""
    if (found := find_tool(name, daemon.catalog_for(caller))) is not None:
        return found
    await settled(daemon)
    catalog = daemon.catalog_for(caller)
    if (found := find_tool(name, catalog) or expected(name, catalog)) is None:
        withheld(name, catalog, caller)
        raise NoTool(unknown(name, catalog))
    return found


async def settled(daemon: Daemon) -> None:
    """Servers that are on their way get a moment, as they do for a script."""
    with anyio.move_on_after(JOINING_SECONDS):
        await daemon.fleet.settled()


async def acquainted(daemon: Daemon, caller: Caller, names: Iterable[str] | None = None) -> None:
    """Have it known which tools there are: of the servers that these names begin with, or of all.

    To look for the tools of a lazy server is to use it, while nobody knows them; so it is in a script.
    """
    servers = daemon.catalog_for(caller).servers
    meant = [one for one in servers if names is None or any(name.startswith(one) for name in names)]
    with anyio.move_on_after(JOINING_SECONDS):
        await daemon.fleet.known(meant)


def expected(name: str, catalog: Catalog) -> ToolId | None:
    """A tool that can't be seen now, but whose call says why, or finds out."""
    fitting = [one for one in catalog.servers if name.startswith(one)]
    for server in sorted(fitting, key=len, reverse=True):
        known = catalog.servers[server]
        away = known.state in ("connecting", "down", "lazy", "disabled", "quarantined", "blocked")
        for separator in SEPARATORS:
            tool = name[len(server) :].removeprefix(separator)
            if tool and server + separator + tool == name and (away or tool in known.held):
                return ToolId(server, tool)
    return None


def withheld(name: str, catalog: Catalog, caller: Caller) -> None:
    """Raises `CallError` as a script's call would, where the caller's rights may be why there is no such tool.

    Goes by the name and by what the caller sees: it can't tell what is kept from it from what isn't there.
    """
    for separator in SEPARATORS:
        server, found, tool = name.partition(separator)
        if found and server in catalog.servers and caller.permissions != EVERYTHING:
            gates.check_tool(caller, tool, catalog.servers[server])
    for separator in (":", "__"):
        server, found, _ = name.partition(separator)
        if found and server not in catalog.servers:
            gates.check_server(caller, server)


def unknown(name: str, catalog: Catalog) -> str:
    """What to do about a name that names nothing."""
    near = near_names(name, catalog) or [own for own in close(name, offer.OWN) if own != name]
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    return (
        f'there is no tool "{name[:LONGEST]}"{hint} Find tools with search_tools; '
        "call them in a program with code_execution, or directly as server__tool."
    )
