"""What the settings of a server, and those of all, come to: its times, its limits, what it is dialled by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings, Settings


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings say about time, in seconds."""

    init: float = 30.0
    call: float = 120.0
    ping: float = 30.0
    listing: float = 300.0
    idle: float = 600.0


def dialled(server: ServerSettings) -> dict[str, Any]:
    """What a connection depends on; the rest may change under it."""
    return server.model_dump(
        exclude={
            "max_concurrent_requests", "queue_size", "queue_timeout",
            "call_tool_timeout", "init_timeout", "health_check_interval", "idle_timeout",
            "quarantined", "auto_approve_tool_changes", "enabled_tools", "disabled_tools",
        }
    )  # fmt: skip


def limits(
    server: ServerSettings, settings: Settings
) -> tuple[int | None, int | None, float | None]:
    """How many calls may run, how many may wait, and for how long: its own say, else everybody's."""
    own, default = server, settings.server_concurrency_defaults
    return (
        _first(own.max_concurrent_requests, default.max_concurrent_requests),
        _first(own.queue_size, default.queue_size),
        _first(own.queue_timeout, default.queue_timeout),
    )


def terms(server: ServerSettings, settings: Settings) -> Terms:
    return Terms(
        init=_first(server.init_timeout, settings.init_timeout),
        call=_first(server.call_tool_timeout, settings.call_tool_timeout),
        ping=_first(server.health_check_interval, settings.health_check_interval),
        listing=settings.tool_discovery_interval,
        idle=server.idle_timeout,
    )


def _first(own: Any, default: Any) -> Any:
    return default if own is None else own
