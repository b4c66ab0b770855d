"""`mcpproxy secrets`: values for `${keyring:NAME}`, kept by a running daemon or, without one, here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from mcpproxy.cli.asking import ask
from mcpproxy.cli.code import text_of
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import Commands, refuse, show_json, show_table

if TYPE_CHECKING:
    from mcpproxy.vault import Vault

SECRETS = "/api/v1/secrets"
WHERE = {"keyring": "the system's keyring", "file": "a file of yours alone"}


@click.group(cls=Commands)
def secrets() -> None:
    """Keep secrets that the configuration refers to as ${keyring:NAME}.

    They are in the system's keyring or, where there is none, in a file that only you can read.
    """


@secrets.command("set")
@click.argument("name")
@output_option
@config_option
def set_secret(name: str, output: str, config: str | None) -> None:
    """Keep a secret. Its value is asked for, or read from a pipe; never give it as an argument."""
    value = given(name)

    def act(vault: Vault) -> dict[str, Any]:
        return {"name": name, "store": vault.set(name, value), "servers": []}

    path = f"{SECRETS}/{quote(name, safe='')}"
    found = ask(config, "PUT", path, without_daemon(config, act), {"value": value})
    if output == "json":
        show_json(found)
        return
    click.echo(f"{name} is kept in {WHERE[found['store']]}; refer to it as ${{keyring:{name}}}")
    if found["servers"]:
        click.echo(f"connecting anew: {', '.join(found['servers'])}")
    from mcpproxy.redaction import SHORTEST

    if len(value) < SHORTEST:
        click.echo(
            f"note: it has fewer than {SHORTEST} characters, so it can't be told from ordinary words and "
            "isn't taken out of logs",
            err=True,
        )


def given(name: str) -> str:
    """The value, from a prompt that doesn't show it or from a pipe; without the last end of line."""
    if sys.stdin.isatty():
        return str(click.prompt(f"value of {name}", hide_input=True, err=True))
    value = text_of("-", "the value").removesuffix("\n").removesuffix("\r")
    if not value:
        refuse(f"the value is empty; give it on stdin: mcpproxy secrets set {name} < FILE")
    return value


@secrets.command("list")
@output_option
@config_option
def list_secrets(output: str, config: str | None) -> None:
    """List the names of the secrets, never their values."""

    def act(vault: Vault) -> dict[str, Any]:
        return {
            "secrets": [
                {"name": each, "store": store, "servers": users(config, each)}
                for each, store in vault.names().items()
            ]
        }

    found = ask(config, "GET", SECRETS, without_daemon(config, act))["secrets"]
    if output == "json":
        show_json(found)
        return
    rows = [(each["name"], each["store"], ", ".join(each["servers"])) for each in found]
    show_table(
        ("NAME", "KEPT IN", "USED BY"),
        rows,
        "no secrets are kept; keep one with: mcpproxy secrets set NAME",
    )


def users(config: str | None, name: str) -> list[str]:
    """The servers whose entries in the file refer to a secret."""
    from mcpproxy import entries
    from mcpproxy.cli.local import document

    reference = f"${{keyring:{name}}}"
    found = entries.listed(document(config))
    return [server for _, server, entry in found if reference in json.dumps(entry)]


@secrets.command("delete")
@click.argument("name")
@output_option
@config_option
def delete_secret(name: str, output: str, config: str | None) -> None:
    """Forget a secret, and name the servers that still refer to it."""

    def act(vault: Vault) -> dict[str, Any]:
        if not vault.delete(name):
            refuse(f"there is no secret {name!r}; mcpproxy secrets list shows those there are")
        return {"name": name, "removed": True, "servers": users(config, name)}

    path = f"{SECRETS}/{quote(name, safe='')}"
    found = ask(config, "DELETE", path, without_daemon(config, act))
    if output == "json":
        show_json(found)
        return
    click.echo(f"{name} is gone")
    if found["servers"]:
        click.echo(
            f"warning: still referred to as ${{keyring:{name}}} by {', '.join(found['servers'])}, and needed there "
            f"at the next connection: keep another with: mcpproxy secrets set {name}, or take the reference "
            "out of the configuration",
            err=True,
        )


def without_daemon(config: str | None, verb: Callable[[Vault], Any]) -> Callable[[], Any]:
    """What to do when no daemon runs."""

    def alone() -> Any:
        from mcpproxy.cli.local import places_of
        from mcpproxy.vault import Vault

        return verb(Vault(places_of(config).state))

    return alone
