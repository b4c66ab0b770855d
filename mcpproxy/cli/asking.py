"""Asking the running daemon or, where none runs, doing the same without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcpproxy.cli.telling import refuse

SECONDS = 60.0
"""How long a daemon may take to answer."""


class Failure(Exception):
    """What was asked for was refused; the message says why."""


def ask(
    config: str | None, verb: str, path: str, alone: Callable[[], Any], body: Any = None
) -> Any:
    """What the daemon answers; what `alone` gives when there is none. Leaves with 2 on a refusal of either."""
    from mcpproxy.cli import local
    from mcpproxy.errors import ProxyError

    daemon = local.find(config)
    try:
        if daemon is None:
            return alone()
        return data(*local.request(daemon, verb, path, body, timeout=SECONDS))
    except (Failure, local.NoAnswer, ProxyError) as error:
        refuse(str(error))


def data(status: int, answer: dict[str, Any]) -> Any:
    """What an answer of REST carries. Raises `Failure` for a refusal."""
    if status != 200:
        said = answer.get("error")
        raise Failure(str(said.get("message") if isinstance(said, dict) else said))
    return answer["data"]
