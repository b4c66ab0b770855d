"""What has changed from one snapshot of the servers to the next, as records say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from mcpproxy.catalog import EMPTY, Catalog, Server
from mcpproxy.journal.records import text
from mcpproxy.journal.writer import Journal
from mcpproxy.tokens import SHOWN

MOST_NAMES = 100


class Servers:
    """Records what becomes of the servers; call it with each snapshot."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._before = EMPTY

    def __call__(self, catalog: Catalog) -> None:
        for found in changes(self._before, catalog):
            self._journal.record(**found)
        self._before = catalog


def settings(journal: Journal, changed: Sequence[str], warnings: Sequence[str]) -> None:
    """Record which settings and servers are others from now on."""
    said = [text(each, 500) for each in warnings[:MOST_NAMES]]
    detail = {"changed": [text(each, 256) for each in changed[:MOST_NAMES]], "warnings": said}
    journal.record("config_change", "ok", detail=detail)


def logins(journal: Journal) -> Callable[[str, str, str], None]:
    """Records what becomes of the logins to servers."""

    def note(server: str, status: str, said: str) -> None:
        journal.record("login", status, server=server, detail={"message": text(said, 2000)})

    return note


def token(
    journal: Journal,
    change: Literal["made", "revoked", "renewed"],
    found: Mapping[str, Any],
    caller: str,
    request_id: str | None = None,
) -> None:
    """Record what became of an agent's token, without its secret."""
    shown = {key: value for key, value in found.items() if key in SHOWN}
    detail = {"change": change, **shown}
    journal.record("token", "ok", caller=caller, request_id=request_id, detail=detail)


def changes(before: Catalog, after: Catalog) -> Iterator[dict[str, Any]]:
    """The records that follow from a new snapshot."""
    for name in before.servers:
        if name not in after.servers:
            yield state(name, "removed", before.servers[name].state)
    for name, server in after.servers.items():
        old = before.servers.get(name)
        if server.state not in ("connecting", old.state if old else None):
            yield state(name, server.state, old.state if old else None, server)
        known = old is not None and (old.tools or old.held) and (server.tools or server.held)
        if old is not None and known and (old.tools, old.held) != (server.tools, server.held):
            yield from tools(old, server)


def state(name: str, now: str, before: str | None, server: Server | None = None) -> dict[str, Any]:
    detail: dict[str, Any] = {"state": now, "before": before}
    if server is not None:
        detail["tools"] = len(server.tools)
        if server.error:
            detail["error"] = text(server.error, 2000)
    status = "error" if now == "down" else "ok"
    return {"type": "server_state", "status": status, "server": name, "detail": detail}


def tools(old: Server, new: Server) -> Iterator[dict[str, Any]]:
    """Which tools came, went, are held back, or say something else of themselves now."""
    named = {
        "added": [name for name in new.tools if name not in old.tools],
        "removed": [name for name in old.tools if name not in new.tools and name not in new.held],
        "held": [name for name in new.held if name not in old.held],
        "changed": [
            name
            for name, tool in new.tools.items()
            if name in old.tools and old.tools[name].fingerprint != tool.fingerprint
        ],
    }
    if not any(named.values()):
        return
    detail = {
        **{key: [text(name, 256) for name in names[:MOST_NAMES]] for key, names in named.items()},
        "counts": {key: len(names) for key, names in named.items()},
    }
    yield {"type": "catalog_change", "status": "ok", "server": new.name, "detail": detail}
