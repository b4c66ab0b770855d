"""`mcpproxy upstream logs`: what a server says on stderr."""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from mcpproxy.cli.options import config_option
from mcpproxy.cli.telling import refuse, visible_lines

LOOK_SECONDS = 0.3


@click.command()
@click.argument("name")
@click.option(
    "--tail", "count", type=click.IntRange(1, 10_000), default=100, help="Lines to show.  [100]"
)
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@config_option
def logs(name: str, count: int, follow: bool, config: str | None) -> None:
    """Show what a server says on stderr."""
    from mcpproxy import entries, tail
    from mcpproxy.cli import local
    from mcpproxy.paths import server_log

    known = [each for _, each, _ in entries.listed(local.document(config))]
    if name not in known:
        refuse(entries.no_server(name, known))
    path = server_log(local.places_of(config).logs, name)
    size = path.stat().st_size if path.exists() else 0
    shown = visible_lines if sys.stdout.isatty() else str
    for line in tail.tail(path, count, size):
        click.echo(shown(line))
    if follow:
        with suppress(KeyboardInterrupt):
            for text in following(path, size):
                click.echo(shown(text), nl=False)
    elif not path.exists():
        click.echo(f"{name} has said nothing yet ({path})", err=True)


def following(path: Path, position: int) -> Iterator[str]:
    """What a log has after a position, and gets; though the log is moved away and begun anew."""
    inode = path.stat().st_ino if path.exists() else None
    # What was written last may end within a character.
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    while True:
        with suppress(FileNotFoundError), path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != inode or found.st_size < position:
                position, inode = 0, found.st_ino
            file.seek(position)
            data = file.read()
            position += len(data)
            if text := decode(data):
                yield text
        time.sleep(LOOK_SECONDS)
