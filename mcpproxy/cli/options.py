"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from mcpproxy import paths
from mcpproxy.cli.telling import BAD_CONFIG, NOT_RUN

F = TypeVar("F", bound=Callable[..., object])

always_json = click.option("--json", is_flag=True, expose_value=False, help="It is JSON anyway.")
json_option = click.option("--json", "output", flag_value="json", help="The same as --output json.")


def output_option(command: F) -> F:
    """Both spellings on each command that has an answer for programs; it gets `output`."""
    command = json_option(command)
    return click.option(
        "--output", "-o", type=click.Choice(["table", "json"]), default="table",
        help="Form of the answer.",
    )(command)  # fmt: skip


def there(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """A file that was named must be there: an empty answer would look like an empty configuration."""
    if value is not None and not paths.config_file(value).exists():
        click.echo(
            f"mcpproxy: there is no configuration at {value}: give another with --config", err=True
        )
        context.exit(BAD_CONFIG if context.command.name in ("serve", "stdio") else NOT_RUN)
    return value


config_option = click.option(
    "--config",
    "-c",
    metavar="FILE",
    callback=there,
    help="Configuration file; it also decides which scripts/ directory is used.  [default: ~/.mcpproxy/mcp_config.json]",
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(["trace", "debug", "info", "warn", "error"]),
    help="The least severe line that is written to stderr.",
)
