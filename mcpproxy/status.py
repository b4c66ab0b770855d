"""How everything is, as one caller may know it."""

from __future__ import annotations

import os
from typing import Any

from mcpproxy import __version__, approvals
from mcpproxy.catalog import Catalog
from mcpproxy.daemon import Daemon
from mcpproxy.policy import Caller

Json = dict[str, Any]


def servers(daemon: Daemon, caller: Caller) -> list[Json]:
    """The state of each server that the caller may know of; to an administrator, of unusable ones too."""
    seen = daemon.catalog_for(caller).servers
    found = [
        {
            **each,
            "tools": len(one.tools),
            "waiting": one.waiting,
            "instructions": one.instructions,
            "offers": daemon.fleet.offers(each["name"]),
        }
        for each in daemon.fleet.status()
        if (one := seen.get(each["name"])) is not None
    ]
    left_out = daemon.server_errors.items() if caller.admin else ()
    return [*found, *(broken(name, reason) for name, reason in left_out)]


def broken(name: str, reason: str) -> Json:
    """The state of a server that can't be used as it is written."""
    return {"name": name, "state": "down", "enabled": False, "tools": 0, "error": reason}


def status(daemon: Daemon, caller: Caller) -> Json:
    """What `GET /api/v1/status` and `mcpproxy status` show: all of it to an administrator alone."""
    states = [server["state"] for server in servers(daemon, caller)]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    enabled = daemon.settings.enable_code_execution
    if not caller.admin:
        return {
            "version": __version__,
            "code_execution": {"enabled": enabled},
            "servers": counts,
        }
    return {
        "version": __version__,
        "pid": os.getpid(),
        "started_at": daemon.started_at.isoformat(timespec="seconds"),
        "config": str(daemon.places.config),
        "state": str(daemon.places.state),
        "logs": str(daemon.places.logs),
        "code_execution": {
            "enabled": enabled,
            "running": daemon.pool.busy,
            "waiting": daemon.pool.waiting,
            "pool_size": daemon.pool.size,
            "confinement": daemon.pool.layers
            | {f"a script can not {act}": held for act, held in daemon.confinement.items()},
        },
        "servers": counts,
        "waiting_for_approval": waiting(daemon.fleet.catalog),
        "activity": daemon.journal.status(),
        "warnings": [*daemon.warnings, *daemon.journal.warnings()],
        "config_error": daemon.configuration.error,
        "requires_restart": daemon.configuration.requires_restart,
    }


def waiting(catalog: Catalog) -> list[Json]:
    """What an operator has to decide about, and the command that shows it."""
    return [
        {
            "server": server.name,
            "tools": server.waiting or None,
            "command": approvals.command("inspect", server.name),
        }
        for server in catalog.servers.values()
        if server.state == "quarantined" or server.waiting
    ]
