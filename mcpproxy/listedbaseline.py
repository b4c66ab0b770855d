"""What was approved of the prompts and resources of servers: the part of the baseline that is about these.

In memory and in the same file as the rest; `listed.py` decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mcpproxy.approvals import command
from mcpproxy.decisions import ListedKey, ListedRow
from mcpproxy.listed import Kind, Listed, Sorted, sort_out

logger = logging.getLogger(__name__)

Records = dict[tuple[str, Kind], Mapping[str, str]]
"""Approved fingerprints by name, by server and kind; what isn't there has had no first list."""

MOST = 5000
"""Of one kind of one server; beyond it those are forgotten that are not listed."""
NAMED = 10
"""Names in a line of the log."""


class ListedBaseline:
    """See the module. `changed` is called when there is something to write."""

    def __init__(self, known: Records, changed: Callable[[], None]) -> None:
        self.records = known
        self.unwritten: dict[ListedKey, ListedRow | None] = {}
        self._changed = changed
        self._views: dict[tuple[str, Kind], tuple[object, object, bool, Sorted]] = {}
        """What was made of a list, and of what."""

    def sort(
        self, server: str, kind: Kind, found: Mapping[str, Listed], *, trusting: bool
    ) -> Sorted:
        """What of a list is shown; what its first one brings is put on record."""
        known = self.records.get((server, kind))
        view = self._views.get((server, kind))
        if view is not None and view[0] is found and view[1] is known and view[2] == trusting:
            return view[3]
        now = sort_out(found, known, trusting=trusting)
        if now.learnt:
            by = "its first list" if known is None else "auto_approve_tool_changes"
            self._put(server, kind, now.learnt.values(), by)
            self._forget(server, kind, found)
        before = view[3].held if view else {}
        if fresh := [name for name in now.held if name not in before]:
            names = ", ".join(repr(name[:100]) for name in fresh[:NAMED])
            more = f" and {len(fresh) - NAMED} more" if len(fresh) > NAMED else ""
            logger.warning(
                "server '%s' has a new or another %s that waits for approval: %s%s; to see it: %s",
                server, kind, names, more, command("inspect", server),
            )  # fmt: skip
        self._views[server, kind] = found, self.records.get((server, kind)), trusting, now
        return now

    def accept(self, server: str, kind: Kind, found: Iterable[Listed], by: str) -> None:
        """Approve these as they are. What else the server lists of the kind waits from now on."""
        self._put(server, kind, found, by)
        self.unwritten[server, kind, None] = ListedRow(None, (time.time(), by))
        self._views.pop((server, kind), None)

    def waiting(self, server: str) -> int:
        """How many wait for an operator, as far as somebody has asked for the lists."""
        views = self._views.items()
        return sum(len(view[3].held) for (name, _), view in views if name == server)

    def _put(self, server: str, kind: Kind, found: Iterable[Listed], by: str) -> None:
        stamp, made = (time.time(), by), dict(self.records.get((server, kind), {}))
        for one in found:
            made[one.name] = one.fingerprint
            self.unwritten[server, kind, one.name] = ListedRow(one, stamp)
        self.records[server, kind] = made
        self._changed()

    def _forget(self, server: str, kind: Kind, found: Mapping[str, Listed]) -> None:
        known = self.records[server, kind]
        if len(known) > MOST:
            self.unwritten |= {(server, kind, name): None for name in known if name not in found}
            self.records[server, kind] = {name: known[name] for name in known if name in found}
