"""`mcpproxy toolpack`: see whether the files of a tool pack are right, and begin a new tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcpproxy.cli.options import output_option
from mcpproxy.cli.telling import Commands, refuse, show_json

if TYPE_CHECKING:
    from mcpproxy.upstream.toolpack.reading import Pack
    from mcpproxy.upstream.toolpack.toolfile import Kind

KINDS = ("python", "cli", "node", "php", "http")


@click.group(cls=Commands)
def toolpack() -> None:
    """Tools from files: check a directory of them, or begin a new one."""


@toolpack.command()
@click.argument("directory", metavar="DIR")
@output_option
def check(directory: str, output: str) -> None:
    """Read DIR as the daemon would, and say what can't be used and why. Exit status 1 if something can't."""
    import os

    from mcpproxy.upstream.toolpack.reading import read

    pack = read(Path(directory).expanduser(), os.environ)
    if output == "json":
        show_json(shown(pack))
    else:
        for tool in pack.tools.values():
            click.echo(f"ok  {tool.file.id} ({tool.file.kind})")
        for name in pack.prompts:
            click.echo(f"ok  {name} (prompt)")
        for fault in pack.faults:
            click.echo(f"!!  {fault}")
        if not pack.tools and not pack.prompts and not pack.faults:
            click.echo(f"there is no *.tool.yaml in {directory}", err=True)
    sys.exit(1 if pack.faults else 0)


def shown(pack: Pack) -> dict[str, object]:
    return {
        "tools": [tool.definition for tool in pack.tools.values()],
        "prompts": [prompt.definition() for prompt in pack.prompts.values()],
        "faults": [
            {"file": each.file, "line": each.line, "reason": each.reason} for each in pack.faults
        ],
    }


@toolpack.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What the tool is.")
@click.option("--dir", "directory", metavar="DIR", default=".", help="Where to write it.  [.]")
def new(name: str, kind: Kind, directory: str) -> None:
    """Write the files of a tool NAME that works as it is."""
    import re

    from mcpproxy.upstream.toolpack.starting import start
    from mcpproxy.upstream.toolpack.toolfile import NAME

    if not re.match(NAME, name) or not name[0].isalnum():
        refuse(f"NAME may have letters, digits and _ . -, such as send_mail; not {name[:80]!r}")
    folder = Path(directory).expanduser()
    files = start(name, kind)
    if there := [each for each in files if (folder / each).exists()]:
        refuse(f"{folder / there[0]} is there already; choose another NAME, or remove it first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each, text in files.items():
            (folder / each).write_text(text, encoding="utf-8")
            click.echo(f"wrote {folder / each}")
    except OSError as error:
        refuse(f"{folder} can't be written: {error}")
    click.echo(f"check it with: mcpproxy toolpack check {folder}", err=True)
