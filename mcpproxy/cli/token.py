"""`mcpproxy token`: agents' tokens, in a running daemon or, without one, in its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import click

from mcpproxy.cli.asking import ask
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import Commands, refuse, show_json, show_table

if TYPE_CHECKING:
    from mcpproxy.tokens import Tokens

Change = Literal["made", "revoked", "renewed"]

TOKENS = "/api/v1/tokens"
expires_option = click.option(
    "--expires", metavar="TIME", help="For how long: 30d, 12h, 90m, 4w; at most 365d."
)

NONE = "no tokens yet; make one with: mcpproxy token create NAME --servers A,B"


@click.group(cls=Commands)
def token() -> None:
    """Make, show and revoke the tokens that agents come with."""


@token.command()
@click.argument("name", required=False)
@click.option("--name", "named", metavar="NAME", help="The same as NAME.")
@click.option("--servers", required=True, metavar="A,B", help="Servers it may use; '*' is all.")
@click.option("--permissions", metavar="LIST", help="Of read,write,destructive.  [default: read]")
@expires_option
@click.option("--max-timeout", type=int, metavar="MS", help="Longest timeout of an execution.")
@click.option("--max-tool-calls", type=int, metavar="N", help="Most tool calls of an execution.")
@click.option("--max-executions", type=int, metavar="N", help="Most executions a minute.")
@output_option
@config_option
def create(
    name: str | None,
    named: str | None,
    servers: str,
    permissions: str | None,
    expires: str | None,
    max_timeout: int | None,
    max_tool_calls: int | None,
    max_executions: int | None,
    output: str,
    config: str | None,
) -> None:
    """Make a token and print its secret, which is shown this once.

    It lasts 30 days unless --expires says otherwise.
    """
    if (name is None) == (named is None):
        refuse("give the token a name, once: mcpproxy token create NAME --servers A,B")
    wanted: dict[str, Any] = {
        "name": name or named,
        "allowed_servers": listed(servers),
        "permissions": None if permissions is None else listed(permissions),
        "expires_in": expires,
        "max_timeout_ms": max_timeout,
        "max_tool_calls": max_tool_calls,
        "max_executions_per_minute": max_executions,
    }
    wanted = {key: value for key, value in wanted.items() if value is not None}
    alone = without_daemon(config, lambda t: t.create(wanted), "made")
    told(ask(config, "POST", TOKENS, alone, wanted), output)


@token.command("list")
@output_option
@config_option
def list_tokens(output: str, config: str | None) -> None:
    """List the tokens. Their secrets are nowhere to be had."""
    found = ask(config, "GET", TOKENS, without_daemon(config, lambda t: {"tokens": t.listing()}))[
        "tokens"
    ]
    if output == "json":
        show_json(found)
        return
    rows = [
        (
            each["name"],
            ",".join(each["permissions"]),
            ",".join(each["allowed_servers"]),
            each["expires_at"] + (" (expired)" if each["expired"] else ""),
        )
        for each in found
    ]
    show_table(("NAME", "PERMISSIONS", "SERVERS", "EXPIRES"), rows, NONE)


@token.command()
@click.argument("name")
@output_option
@config_option
def show(name: str, output: str, config: str | None) -> None:
    """Show what a token may do, and until when."""
    found = ask(config, "GET", path_of(name), without_daemon(config, lambda t: t.show(name)))
    if output == "json":
        show_json(found)
        return
    for key, value in found.items():
        said = ", ".join(value) if isinstance(value, list) else value
        if said is not None:
            click.echo(
                f"{key.replace('_', ' ')}: {str(said).lower() if key == 'expired' else said}"
            )


@token.command()
@click.argument("name")
@output_option
@config_option
def revoke(name: str, output: str, config: str | None) -> None:
    """Revoke a token: it lets nobody in from now on."""
    alone = without_daemon(config, lambda t: t.revoke(name), "revoked")
    found = ask(config, "DELETE", path_of(name), alone)
    if output == "json":
        show_json(found)
        return
    click.echo(f"revoked {name}")


@token.command()
@click.argument("name")
@expires_option
@output_option
@config_option
def regenerate(name: str, expires: str | None, output: str, config: str | None) -> None:
    """Give a token another secret and print it; the one before lets nobody in any more.

    It lasts as long as it was made for, unless --expires says otherwise.
    """
    wanted = {"expires_in": expires} if expires is not None else {}
    alone = without_daemon(config, lambda t: t.regenerate(name, wanted), "renewed")
    told(ask(config, "POST", f"{path_of(name)}/regenerate", alone, wanted), output)


def path_of(name: str) -> str:
    return f"{TOKENS}/{quote(name, safe='')}"


def listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def without_daemon(
    config: str | None, verb: Callable[[Tokens], Any], change: Change | None = None
) -> Callable[[], Any]:
    """The verb on the files themselves, as the daemon would do it; a change is put on record."""

    def alone() -> Any:
        from mcpproxy.cli.local import places_of
        from mcpproxy.tokens import Tokens

        found = verb(Tokens(places_of(config).state))
        if change is not None:
            put_on_record(config, change, found)
        return found

    return alone


def put_on_record(config: str | None, change: Change, found: dict[str, Any]) -> None:
    """In the journal, where the next daemon finds it; a change is made though that can't be written."""
    import os

    from mcpproxy import paths, settings
    from mcpproxy.errors import SettingsError
    from mcpproxy.journal import changes
    from mcpproxy.journal.writer import brief_journal
    from mcpproxy.policy import LOCAL

    try:
        loaded = settings.load(paths.config_file(config), os.environ, create=config is None)
    except SettingsError as error:
        click.echo(f"this was done, but is not on record: {error}", err=True)
        return
    with brief_journal(loaded) as journal:
        changes.token(journal, change, found, LOCAL.name)
    for text in journal.warnings():
        click.echo(f"this was done, but is not on record: {text}", err=True)


def told(found: dict[str, Any], output: str) -> None:
    """The secret alone on stdout, so that a shell can take it."""
    if output == "json":
        show_json(found)
        return
    click.echo(found["token"])
    click.echo(
        f"{found['name']}: {', '.join(found['permissions'])} on {', '.join(found['allowed_servers'])} until "
        f"{found['expires_at']}; keep it now, it is shown this once",
        err=True,
    )
    for text in found.get("warnings", ()):
        click.echo(f"warning: {text}", err=True)
