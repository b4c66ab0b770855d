"""Asking the running daemon or, where none runs, doing the same without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from mcpproxy.cli.telling import refuse

SECONDS = 60.0
"""How long a daemon may take to answer."""
SILENT_SECONDS = 3.0
"""How long one waits for that without being told so."""


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
        with sign_of_life():
            return data(*local.request(daemon, verb, path, body, timeout=SECONDS))
    except (Failure, local.NoAnswer, ProxyError) as error:
        refuse(str(error))


@contextmanager
def sign_of_life() -> Iterator[None]:
    """Say that we wait, when it takes long."""
    import threading

    said = f"the daemon is still at it; it has {SECONDS:g} s"
    timer = threading.Timer(SILENT_SECONDS, click.echo, [said], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def data(status: int, answer: dict[str, Any]) -> Any:
    """What an answer of REST carries. Raises `Failure` for a refusal."""
    if status != 200:
        said = answer.get("error")
        raise Failure(str(said.get("message") if isinstance(said, dict) else said))
    return answer["data"]
