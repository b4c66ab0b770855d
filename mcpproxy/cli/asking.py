"""Asking the running daemon or, where none runs, doing the same without it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from mcpproxy.cli.telling import refuse

SECONDS = 60.0
"""How long a daemon may take to answer."""
SILENT_SECONDS = 3.0
"""How long one waits for that without being told so."""

INSTEAD: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r'describe_tool\("([^"]+)"\)'),
        lambda name: f"mcpproxy tools show {shlex.quote(name[1])}",
    ),
    (
        re.compile(r"[Ff]ind tools with search_tools(; call them .*)?"),
        "mcpproxy tools search finds tools",
    ),
    (
        re.compile("search_tools finds kept code by its description, and code_execution .*"),
        "mcpproxy code cache list shows what is kept",
    ),
    (re.compile("search_tools finds"), "mcpproxy tools search finds"),
    (re.compile("or list_servers to see what"), "or mcpproxy tools list to see what"),
)
"""What a model is told to do, and the command by which a person does it."""


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
        refuse(for_people(str(error)))


def for_people(said: str) -> str:
    """A message with the commands that do what it tells a model to do."""
    for words, command in INSTEAD:
        said = words.sub(command, said)
    return said


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
