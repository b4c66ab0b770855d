"""Whom a change of the lists of direct mode concerns: each client hears of what it sees, and of nothing else.

When a server changed that a token may not know of is something that it may not know either. So what is
compared is the list of each scope that somebody is there with, not the one of all servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpproxy.policy import Caller, Scope
    from mcpproxy.toolbox import Json

TOOLS = "tools"


class Audience:
    """See the module. A holder is a legacy client's connection or a modern client's stream."""

    def __init__(self, listed: Callable[[Caller], list[Json]]) -> None:
        self._listed = listed
        self._present: dict[object, Caller] = {}
        self._shown: dict[Scope, list[Json]] = {}
        """The tools that each scope had when it was last told."""

    def __contains__(self, holder: object) -> bool:
        return holder in self._present

    def join(self, holder: object, caller: Caller) -> None:
        """From now on it is told of what changes for this caller."""
        self._present[holder] = caller
        if caller.scope not in self._shown:
            self._shown[caller.scope] = self._listed(caller)

    def leave(self, holder: object) -> None:
        self._present.pop(holder, None)

    def concerned(self, others: Mapping[str, Iterable[str]]) -> Iterator[tuple[object, str]]:
        """Who is to be told that which list is another: of tools, and of the kinds in `others`.

        Those are "prompts" and "resources", each with the servers whose list changed.
        """
        callers = {caller.scope: caller for caller in self._present.values()}
        before, self._shown = self._shown, {s: self._listed(one) for s, one in callers.items()}
        other_tools = {scope for scope, now in self._shown.items() if now != before.get(scope)}
        for holder, caller in list(self._present.items()):
            for kind, servers in others.items():
                if any(map(caller.reaches, servers)):
                    yield holder, kind
            if caller.scope in other_tools:
                yield holder, TOOLS
