"""Options that several commands share."""

from __future__ import annotations

import click

config_option = click.option(
    "--config",
    "-c",
    metavar="FILE",
    help="Configuration file; it also decides which scripts/ directory is used.  [default: ~/.mcpproxy/mcp_config.json]",
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(["trace", "debug", "info", "warn", "error"]),
    help="The least severe line that is written to stderr.",
)
