"""Tools that the entry of a server switches off (`enabled_tools`, `disabled_tools`), whatever was approved."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from mcpproxy.catalog import Held, Server, Tool

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

logger = logging.getLogger(__name__)

Tools = Mapping[str, Tool]
Holds = Mapping[str, Held]


class Switches:
    """See the module. What is off is held, so that a call is told why."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[ServerSettings, Tools, Holds, Tools, Holds]] = {}

    def judge(self, entry: ServerSettings, seen: Server) -> Server:
        """The server without them; what it comes to is kept until the entry or the list is another."""
        if not entry.enabled_tools and not entry.disabled_tools:
            return seen
        made = self._made.get(entry.name)
        if made is None or not (
            made[0] is entry and made[1] is seen.tools and made[2] is seen.held
        ):
            tools, held = switched(entry, seen)
            made = self._made[entry.name] = entry, seen.tools, seen.held, tools, held
        return replace(seen, tools=made[3], held=made[4])


def switched_off(entry: ServerSettings, names: Iterable[str]) -> list[str]:
    """Those of the names that the entry switches off."""
    on, off = frozenset(entry.enabled_tools), frozenset(entry.disabled_tools)
    return [name for name in names if name in off or (on and name not in on)]


def switched(entry: ServerSettings, seen: Server) -> tuple[Tools, Holds]:
    """What is left of a server's tools, and what is held."""
    on, off = frozenset(entry.enabled_tools), frozenset(entry.disabled_tools)
    known = {name: held.tool for name, held in seen.held.items()} | dict(seen.tools)
    if known and (unknown := sorted((on | off) - known.keys())):
        which = "enabled_tools" if on else "disabled_tools"
        logger.warning(
            "%s of server '%s' names what it doesn't have: %s", which, entry.name, unknown[:20]
        )
    out = {name: Held(known[name], "disabled") for name in switched_off(entry, known)}
    tools = {name: tool for name, tool in seen.tools.items() if name not in out}
    return MappingProxyType(tools), {**seen.held, **out}
