"""`mcpproxy code cache`: the programs that were kept, in a running daemon or, without one, in the file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mcpproxy.cli.asking import ask
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import (
    Commands,
    refuse,
    show_exactly,
    show_json,
    show_table,
    visible,
    visible_lines,
)

if TYPE_CHECKING:
    from mcpproxy.keptcode import KeptCode

CACHE = "/api/v1/code/cache"
SHOWN = 12
"""Characters of an id in a table; they are enough to name a program."""

NONE = "no code is kept yet; a program that succeeds is, when it has a --description"

id_argument = click.argument("cache_id", metavar="ID")


@click.group(cls=Commands)
def cache() -> None:
    """Programs that ran well and were given a description, kept to be run again.

    ID is a cache_id, or the first characters of one, at least 8.
    """


@cache.command("list")
@output_option
@config_option
def list_cache(output: str, config: str | None) -> None:
    """List the kept programs, the last used first."""
    found = ask(
        config,
        "GET",
        CACHE,
        without_daemon(
            config, lambda kept, me: {"code": [each.shown() for each in kept.listing(me)]}
        ),
    )["code"]
    if output == "json":
        show_json(found)
        return
    rows = [
        (
            each["cache_id"][:SHOWN], str(each["runs"]), each["used_at"], each["owner"] or "",
            ", ".join(each["params"]), each["description"],
        )
        for each in found
    ]  # fmt: skip
    show_table(("ID", "RUNS", "LAST USED", "OWNER", "PARAMS", "DESCRIPTION"), rows, NONE)


@cache.command()
@id_argument
@output_option
@config_option
def show(cache_id: str, output: str, config: str | None) -> None:
    """Show a kept program: what is known of it, and its source."""
    found = fetch(config, cache_id)
    if output == "json":
        show_json(found)
        return
    for name in ("cache_id", "description", "language", "kept_at", "used_at", "runs", "last_ms"):
        click.echo(f"{name + ':':<13}{visible(str(found[name]))}")
    click.echo(f"tools:       {visible(', '.join(found['tools'])) or 'none'}")
    if found["owner"]:
        click.echo(f"owner:       {found['owner']}")
    click.echo("input:")
    show_json(found["input"])
    click.echo("source:")
    source = found["source"]
    if sys.stdout.isatty():  # which a program must not control
        source = visible_lines(source)
    show_exactly(source)


@cache.command()
@id_argument
@output_option
@config_option
def remove(cache_id: str, output: str, config: str | None) -> None:
    """Remove a kept program."""

    def act(kept: KeptCode, me: Any) -> Any:
        return {"cache_id": kept.remove(cache_id, me).cache_id, "removed": True}

    found = ask(config, "DELETE", path_of(cache_id), without_daemon(config, act))
    if output == "json":
        show_json(found)
    else:
        click.echo(f"removed {found['cache_id'][:SHOWN]}")


@cache.command()
@id_argument
@click.argument("name")
@click.option("--replace", is_flag=True, help="Overwrite a stored script of this name.")
@output_option
@config_option
def save(cache_id: str, name: str, replace: bool, output: str, config: str | None) -> None:
    """Save a kept program as the stored script NAME, which every caller may run.

    Only this command does that: it is for a person to decide.
    """
    from mcpproxy import scripts
    from mcpproxy.cli.local import places_of
    from mcpproxy.errors import Refused

    found = fetch(config, cache_id)
    try:
        path = scripts.store(
            places_of(config).scripts, name, found["source"], found["language"], replace=replace
        )
    except Refused as error:
        refuse(str(error))
    if output == "json":
        show_json({"name": name, "path": str(path), "params": found["params"]})
        return
    click.echo(f"saved as {path}")
    takes = ", ".join(found["params"])
    given = f"; it takes {takes}, with --input" if takes else ""
    click.echo(f"run it with: mcpproxy code exec --script {name}{given}")


def fetch(config: str | None, cache_id: str) -> Any:
    alone = without_daemon(config, lambda kept, me: kept.find(cache_id, me).whole())
    return ask(config, "GET", path_of(cache_id), alone)


def path_of(cache_id: str) -> str:
    from urllib.parse import quote

    return f"{CACHE}/{quote(cache_id, safe='')}"


def without_daemon(config: str | None, act: Callable[[KeptCode, Any], Any]) -> Callable[[], Any]:
    """Doing it to the file itself."""

    def alone() -> Any:
        from mcpproxy.catalog import EMPTY
        from mcpproxy.cli.local import places_of
        from mcpproxy.codecache import CodeCache
        from mcpproxy.keptcode import KeptCode
        from mcpproxy.policy import LOCAL

        click.echo("no daemon answers for this configuration: using the file itself", err=True)
        stored = CodeCache(places_of(config).code_cache)
        try:
            return act(KeptCode(stored, lambda: EMPTY, lambda caller: EMPTY), LOCAL)
        finally:
            stored.close()

    return alone
