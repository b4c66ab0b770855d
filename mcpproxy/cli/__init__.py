"""The command line: quick to start, and thin. Each command imports what it needs when it runs.

Answers go to stdout, everything else to stderr. Exit status: 0 done, 1 ran and failed, 2 nothing
was run (for `serve`: 2 an address is taken, 4 the configuration can't be used).
"""

from __future__ import annotations

import sys

import click

from mcpproxy import __version__
from mcpproxy.cli.activity import activity
from mcpproxy.cli.auth import auth
from mcpproxy.cli.code import code
from mcpproxy.cli.config import configuration
from mcpproxy.cli.importing import import_servers
from mcpproxy.cli.options import always_json, config_option, log_level_option, output_option
from mcpproxy.cli.secrets import secrets
from mcpproxy.cli.serverlog import logs
from mcpproxy.cli.telling import (
    BAD_CONFIG,
    FAILED,
    NO_DAEMON,
    Commands,
    open_streams,
    refuse,
    show_json,
)
from mcpproxy.cli.token import token
from mcpproxy.cli.toolpack import toolpack
from mcpproxy.cli.tools import tools
from mcpproxy.cli.trust import approve, block, inspect
from mcpproxy.cli.upstream import upstream

PORT_TAKEN = 2


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mcpproxy")
def main() -> None:
    """One place for an AI agent to call many MCP servers from code."""
    open_streams()


main.add_command(activity)
main.add_command(code)
main.add_command(tools)
main.add_command(upstream)
for verb in (inspect, approve, block, import_servers, logs):
    upstream.add_command(verb)
main.add_command(configuration)
main.add_command(secrets)
main.add_command(auth)
main.add_command(token)
main.add_command(toolpack)


@main.command()
@config_option
@click.option("--listen", metavar="HOST:PORT", help="Address of the HTTP listener.")
@log_level_option
def serve(config: str | None, listen: str | None, log_level: str | None) -> None:
    """Run the daemon.

    Without --config it uses ~/.mcpproxy/mcp_config.json and makes it, with a key, on the first run.
    """
    import os

    import anyio

    from mcpproxy import paths, settings
    from mcpproxy.errors import SettingsError
    from mcpproxy.logs import set_up
    from mcpproxy.serve import InTheWay
    from mcpproxy.serve import serve as run

    try:
        file = paths.config_file(config)
        flags = {"listen": listen, "logging.level": log_level}
        loaded = settings.load(file, os.environ, flags, create=config is None)
        set_up(loaded.settings.logging.level, loaded.places.logs / "mcpproxy.log")
        anyio.run(run, loaded, os.environ, backend_options={"use_uvloop": True})
    except SettingsError as error:
        refuse(str(error), BAD_CONFIG)
    except InTheWay as error:
        refuse(str(error), PORT_TAKEN)


@main.command()
@config_option
@log_level_option
def stdio(config: str | None, log_level: str | None) -> None:
    """Serve MCP on stdin and stdout, for clients that start a command.

    Uses the running daemon if there is one, else opens everything itself.
    """
    from mcpproxy.cli.local import places_of
    from mcpproxy.cli.stdio import bridge, stand_alone

    places = places_of(config)
    if not bridge(places.pipe):
        stand_alone(config, log_level)


@main.command()
@always_json
@config_option
def status(config: str | None) -> None:
    """Show what the running daemon says of itself, as JSON."""
    from mcpproxy.cli.local import NoAnswer, find, request

    daemon = find(config)
    if daemon is None:
        click.echo(NO_DAEMON, err=True)
        sys.exit(FAILED)
    try:
        _, found = request(daemon, "GET", "/api/v1/status", timeout=10)
    except NoAnswer as error:
        refuse(str(error), FAILED)
    show_json(found["data"])


@main.command()
@output_option
@config_option
def doctor(output: str, config: str | None) -> None:
    """Say what is wrong and what mends it. Exit status 1 when something is."""
    from mcpproxy.cli.doctor import examine, report

    findings = examine(config)
    report(findings, output)
    sys.exit(FAILED if any(each.remedy for each in findings) else 0)
