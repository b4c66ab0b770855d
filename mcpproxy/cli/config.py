"""`mcpproxy config`: the settings as they are in force, in a running daemon or, without one, in the file."""

from __future__ import annotations

import json
from typing import Any

import click

from mcpproxy.cli.asking import ask
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import Commands, show_json, show_table


@click.group("config", cls=Commands)
def configuration() -> None:
    """Look at the configuration."""


@configuration.command()
@output_option
@config_option
def show(output: str, config: str | None) -> None:
    """Show what is in force, and whether that is the default or from the file, the environment or a flag.

    Secrets are left out.
    """
    found = ask(config, "GET", "/api/v1/config", lambda: in_file(config))
    if output == "json":
        show_json(found)
        return
    rows = [(name, one["from"], spelled(one["value"])) for name, one in found["settings"].items()]
    servers = {
        name: {key: value for key, value in entry.items() if key != "name"}
        for name, entry in found["mcpServers"].items()
    }
    rows += [(f"mcpServers.{name}", "file", spelled(entry)) for name, entry in servers.items()]
    show_table(("NAME", "FROM", "VALUE"), rows)
    click.echo(f"the file is {found['config']}; state is kept in {found['state']}", err=True)
    for name, why in found["left_out"].items():
        click.echo(f"server {name} is left out: {why}", err=True)
    if waiting := found["requires_restart"]:
        click.echo(f"the file has others, from the next start on: {', '.join(waiting)}", err=True)
    if found["error"]:
        click.echo(f"the file can't be used as it is now: {found['error']}", err=True)


def spelled(value: Any) -> str:
    """As it would stand in the file, without the quotes of a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def in_file(config: str | None) -> dict[str, Any]:
    """What a daemon would go by that is started now."""
    import os

    from mcpproxy import discreet, paths, settings

    click.echo("no daemon answers for this configuration: reading the file itself", err=True)
    loaded = settings.load(paths.config_file(config), os.environ, create=config is None)
    return {**discreet.configuration(loaded), "requires_restart": [], "error": None}
