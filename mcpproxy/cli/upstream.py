"""`mcpproxy upstream`: the servers behind the proxy, in a running daemon or, without one, in the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import click

from mcpproxy.cli.asking import ask
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import FAILED, NO_DAEMON, Commands, refuse, show_json, show_table, visible

SERVERS = "/api/v1/servers"
trusted_option = click.option(
    "--no-quarantine", "trusted", is_flag=True, help="Trust it, and let agents see its tools at once."
)  # fmt: skip


@click.group(cls=Commands)
def upstream() -> None:
    """List, add, remove, switch, inspect, approve and import the servers behind the proxy.

    With a daemon running, changes hold at once; else they are made in the configuration file.
    """


@upstream.command("list")
@output_option
@config_option
def list_servers(output: str, config: str | None) -> None:
    """List the servers and how they are."""
    found = ask(config, "GET", SERVERS, lambda: {"servers": in_file(config)})["servers"]
    if output == "json":
        show_json(found)
        return
    rows = [(each["name"], each["state"], str(each.get("tools", "")), why(each)) for each in found]
    none = "no servers yet; add one with: mcpproxy upstream add NAME -- COMMAND, or NAME --url URL"
    show_table(("NAME", "STATE", "TOOLS", "WHY"), rows, none)


def why(server: dict[str, Any]) -> str:
    """Why a server isn't wholly there, and the command that goes on from it."""
    if count := server.get("waiting"):
        return f"{count} of its tools and prompts wait for approval: {look_at(server['name'])}"
    return server.get("error") or ""


@upstream.command("add")
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="Address of an HTTP server.")
@click.option("--directory", metavar="DIR", help="Folder with the files of a tool pack.")
@click.option("--document", metavar="FILE|URL", help="OpenAPI document of an API.")
@click.option(
    "--base-url", metavar="URL", help="Where that API is, if not where its document says."
)
@click.option("--env", multiple=True, metavar="K=V", help="Environment variable of a command.")
@click.option("--header", multiple=True, metavar="K=V", help="Header for an HTTP server.")
@click.option(
    "--protocol",
    type=click.Choice(["stdio", "http", "streamable-http", "sse", "auto"]),
    help="How to reach it, where that can't be told.",
)
@click.option("--working-dir", metavar="DIR", help="Folder that a command runs in.")
@click.option("--disabled", is_flag=True, help="Don't connect it yet.")
@trusted_option
@output_option
@config_option
def add(
    name: str,
    command: tuple[str, ...],
    url: str | None,
    directory: str | None,
    document: str | None,
    base_url: str | None,
    env: tuple[str, ...],
    header: tuple[str, ...],
    protocol: str | None,
    working_dir: str | None,
    disabled: bool,
    trusted: bool,
    output: str,
    config: str | None,
) -> None:
    """Add a server: NAME --url URL, NAME -- COMMAND ARGS…, NAME --directory DIR, or NAME --document FILE

    ${env:VARIABLE} in a value stands for a variable of the daemon. A server that is added after the
    first start waits in quarantine: see `inspect` and `approve`.
    """
    given = [url is not None, directory is not None, document is not None, bool(command)]
    if given.count(True) != 1:
        refuse("give --url URL, --directory DIR, --document FILE or -- COMMAND ARGS…, one of them")
    if base_url is not None and document is None:
        refuse("--base-url is for an API: give its --document as well")
    if header and (command or directory):
        refuse("--header is for a server or an API on HTTP")
    if (env or working_dir) and not command:
        refuse(f"{'--env' if env else '--working-dir'} is for a command: NAME -- COMMAND ARGS…")
    entry = {"name": name, **reached(command, working_dir, url, directory, document)}
    chosen = {
        "base_url": base_url,
        "env": dict(pair(each, "--env") for each in env),
        "headers": dict(pair(each, "--header") for each in header),
        "protocol": protocol,
        "working_dir": working_dir and whole(working_dir),
    }
    entry |= {key: value for key, value in chosen.items() if value}
    entry |= {"enabled": False} if disabled else {}
    entry |= {"quarantined": False} if trusted else {}
    done(add_entry(config, entry), f"added {name}", output)


def whole(path: str) -> str:
    """A path that holds wherever the daemon was started; a home or a reference stays as it is."""
    return path if path.startswith(("~", "${")) else os.path.abspath(path)


def reached(
    command: tuple[str, ...],
    working_dir: str | None,
    url: str | None,
    directory: str | None,
    document: str | None,
) -> dict[str, Any]:
    """The part of an entry that says how a server is reached; one of these is given."""
    if directory is not None:
        return {"protocol": "toolpack", "directory": str(Path(directory).expanduser().resolve())}
    if document is not None:
        remote = document.startswith(("http://", "https://", "${"))
        place = document if remote else str(Path(document).expanduser().resolve())
        return {"protocol": "openapi", "document": place}
    if url is not None:
        return {"url": url}
    program, *args = command
    if os.sep in program and not working_dir:  # else it may be meant from there
        program = whole(program)
    return {"command": program, "args": args} if args else {"command": program}


def pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        refuse(f"{option} is NAME=VALUE, not {name!r}")
    return name, value


@upstream.command()
@click.argument("name")
@output_option
@config_option
def remove(name: str, output: str, config: str | None) -> None:
    """Remove a server from the configuration."""
    from mcpproxy import entries

    alone = altering(config, lambda text: entries.remove(text, name))
    done(ask(config, "DELETE", path_of(name), alone), f"removed {name}", output)


@upstream.command()
@click.argument("name")
@output_option
@config_option
def enable(name: str, output: str, config: str | None) -> None:
    """Connect a server that was disabled."""
    switch(name, True, output, config)


@upstream.command()
@click.argument("name")
@output_option
@config_option
def disable(name: str, output: str, config: str | None) -> None:
    """Let go of a server, and keep its entry."""
    switch(name, False, output, config)


def switch(name: str, on: bool, output: str, config: str | None) -> None:
    from mcpproxy import entries

    verb = "enable" if on else "disable"
    alone = altering(config, lambda text: entries.enable(text, name, on))
    done(ask(config, "POST", path_of(name, verb), alone), f"{verb}d {name}", output)


@upstream.command()
@click.argument("name")
@output_option
@config_option
def restart(name: str, output: str, config: str | None) -> None:
    """Connect a server anew, and say what came of it. Exit status 1 when it isn't there then."""

    def alone() -> NoReturn:
        refuse(NO_DAEMON)

    found = ask(config, "POST", path_of(name, "restart"), alone)
    if found["state"] in ("ready", "lazy"):
        done(found, f"restarted {name}, which is {found['state']}", output)
        return
    if output == "json":
        show_json(found)
    refuse(visible(f"{name} was restarted, and is {found['state']}: {found['error']}"), FAILED)


# ── daemon or file ──────────────────────────────────────────────────────────────────────────────


def path_of(name: str, verb: str = "") -> str:
    return f"{SERVERS}/{quote(name, safe='')}" + (f"/{verb}" if verb else "")


def add_entry(config: str | None, entry: dict[str, Any]) -> Any:
    from mcpproxy import entries

    alone = altering(config, lambda text: entries.add(text, entry))
    found = ask(config, "POST", SERVERS, alone, entry)
    if "server" not in found and waits_later(config, entry):
        click.echo(f"{entry['name']} will wait for approval: {look_at(entry['name'])}", err=True)
    return found


def waits_later(config: str | None, entry: dict[str, Any]) -> bool:
    """Whether a server that is added now will be in quarantine when a daemon starts."""
    from mcpproxy.cli import local

    return "quarantined" not in entry and local.places_of(config).approvals.exists()


def look_at(name: str) -> str:
    from mcpproxy.approvals import command

    return command("inspect", name)


def altering(config: str | None, alter: Callable[[str], str]) -> Callable[[], Any]:
    """Changing the file itself, as the daemon would."""

    def alone() -> dict[str, Any]:
        from mcpproxy import entries, paths, settings

        file = paths.config_file(config)
        click.echo(f"no daemon answers for this configuration: changing {file} itself", err=True)
        if config is None:
            settings.load(file, os.environ, create=True)
        loaded = entries.change(file, alter, os.environ)
        return {"applied": False, "warnings": loaded.warnings}

    return alone


def in_file(config: str | None) -> list[dict[str, Any]]:
    """The servers as the file has them, and what a daemon would say of those that can't be used."""
    from mcpproxy import paths, settings

    click.echo("no daemon answers for this configuration: reading the file itself", err=True)
    loaded = settings.load(paths.config_file(config), os.environ, create=config is None)
    usable = [
        {"name": each.name, "state": "not running" if each.enabled else "disabled"}
        for each in loaded.settings.servers
    ]
    broken = loaded.server_errors.items()
    return [*usable, *({"name": name, "state": "down", "error": why} for name, why in broken)]


# ── telling ─────────────────────────────────────────────────────────────────────────────────────


def done(found: Any, sentence: str, output: str) -> None:
    if output == "json":
        show_json(found)
        return
    click.echo(sentence)
    if server := found.get("server"):
        why = f": {server['error']}" if server.get("error") else ""
        click.echo(f"it is {server['state']}{why}")
        if server["state"] == "connecting":
            click.echo("to see what comes of it: mcpproxy upstream list")
