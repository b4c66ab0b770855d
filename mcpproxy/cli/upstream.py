"""`mcpproxy upstream`: the servers behind the proxy, in a running daemon or, without one, in the file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import click

from mcpproxy.cli.options import config_option, output_option

if TYPE_CHECKING:
    from mcpproxy.importing import Found

SERVERS = "/api/v1/servers"
SECONDS = 60.0
LOOK_SECONDS = 0.3
trusted_option = click.option(
    "--no-quarantine", "trusted", is_flag=True, help="Trust it, and let agents see its tools at once."
)  # fmt: skip


@click.group()
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
        return f"{count} of its tools wait for approval: {look_at(server['name'])}"
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
    entry: dict[str, Any] = {"name": name}
    if directory is not None:
        entry |= {"protocol": "toolpack", "directory": str(Path(directory).expanduser().resolve())}
    elif document is not None:
        remote = document.startswith(("http://", "https://", "${"))
        place = document if remote else str(Path(document).expanduser().resolve())
        entry |= {"protocol": "openapi", "document": place}
        entry |= {"base_url": base_url} if base_url else {}
    elif url is not None:
        entry["url"] = url
    else:
        entry["command"], *args = command
        entry |= {"args": args} if args else {}
    for key, pairs in (("env", env), ("headers", header)):
        if pairs:
            entry[key] = dict(pair(each, key) for each in pairs)
    entry |= {"protocol": protocol} if protocol else {}
    entry |= {"working_dir": working_dir} if working_dir else {}
    entry |= {"enabled": False} if disabled else {}
    entry |= {"quarantined": False} if trusted else {}
    done(add_entry(config, entry), f"added {name}", output)


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
    """Connect a server anew."""

    def alone() -> NoReturn:
        refuse("no daemon is running for this configuration; start one with: mcpproxy serve")

    found = ask(config, "POST", path_of(name, "restart"), alone)
    why = f": {found['error']}" if found.get("error") else ""
    done(found, f"restarted {name}, which is {found['state']}{why}", output)


@upstream.command()
@click.argument("name")
@click.option("--tail", "count", type=click.IntRange(1, 10_000), default=100, help="Lines to show.")
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
        for text in following(path, size):
            click.echo(shown(text), nl=False)
    elif not path.exists():
        click.echo(f"{name} has said nothing yet ({path})", err=True)


def following(path: Path, position: int) -> Iterator[str]:
    """What a log has after a position, and gets; though the log is moved away and begun anew."""
    inode = path.stat().st_ino if path.exists() else None
    while True:
        if path.exists():
            found = path.stat()
            if found.st_ino != inode or found.st_size < position:
                position, inode = 0, found.st_ino
            if found.st_size > position:
                with path.open("rb") as file:
                    file.seek(position)
                    data = file.read()
                position += len(data)
                yield data.decode("utf-8", "replace")
        time.sleep(LOOK_SECONDS)


@upstream.command("import")
@click.option(
    "--from",
    "client",
    type=click.Choice(["claude-desktop", "claude-code", "cursor", "vscode"]),
    help="Whose configuration to read; all that are found when not given.",
)
@click.option(
    "--file", metavar="FILE", help="The configuration, where it isn't in its usual place."
)
@click.option("--dry-run", is_flag=True, help="Say what would be added, and change nothing.")
@trusted_option
@output_option
@config_option
def import_servers(
    client: str | None,
    file: str | None,
    dry_run: bool,
    trusted: bool,
    output: str,
    config: str | None,
) -> None:
    """Add the servers of Claude Desktop, Claude Code, Cursor or VS Code."""
    files = [Path(file)] if file else usual(client)
    if not files:
        refuse(
            f"no configuration of {client or 'a known client'} was found; give it with --file FILE"
        )
    report: list[dict[str, Any]] = []
    taken: dict[str, Any] = {}
    for each in files:
        found = read_client(each, config, taken)
        for entry in found.entries:
            taken[entry["name"]] = entry
            if dry_run:
                continue
            answer = add_entry(config, entry | ({"quarantined": False} if trusted else {}))
            if answer.get("server", {}).get("state") == "quarantined":
                found.notes.append(f"{entry['name']} waits for approval: {look_at(entry['name'])}")
        added = [entry["name"] for entry in found.entries]
        report.append(
            {"file": str(each), "added": added, "skipped": found.skipped, "notes": found.notes}
        )
    if output == "json":
        show_json(report)
        return
    for part in report:
        click.echo(f"{part['file']}:")
        for name in part["added"]:
            click.echo(f"  {'would add' if dry_run else 'added'} {name}")
        for name, reason in part["skipped"].items():
            click.echo(f"  skipped {name}: {reason}")
        for note in part["notes"]:
            click.echo(f"  note: {note}")
        if not part["added"] and not part["skipped"]:
            click.echo("  no servers in it: they stand under mcpServers, or under servers")


def usual(client: str | None) -> list[Path]:
    from mcpproxy.importing import CLIENTS, places

    chosen = [client] if client else CLIENTS
    return [
        path for each in chosen for path in places(each, Path.home(), Path.cwd()) if path.is_file()
    ]


def read_client(file: Path, config: str | None, taken: dict[str, Any]) -> Found:
    from mcpproxy import entries, importing, jsonc
    from mcpproxy.cli import local

    try:
        document = jsonc.loads(file.read_bytes().decode())
    except OSError as error:
        refuse(f"{file}: {error.strerror}")
    except ValueError as error:
        refuse(f"{file} is not valid JSON: {error}")
    ours = local.document(config)
    known = {name: dict(entry) for _, name, entry in entries.listed(ours)} | taken
    port = str(ours.get("listen", ":8080")).rpartition(":")[2]
    return importing.take(
        document, Path.cwd(), Path.home(), known, int(port) if port.isdecimal() else 8080
    )


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


def ask(
    config: str | None, verb: str, path: str, alone: Callable[[], Any], body: Any = None
) -> Any:
    """What the daemon answers; what `alone` gives when there is none. Leaves with 2 on a refusal."""
    from mcpproxy.cli import local

    daemon = local.find(config)
    if daemon is None:
        return alone()
    try:
        status, answer = local.request(daemon, verb, path, body, timeout=SECONDS)
    except local.NoAnswer as error:
        refuse(str(error))
    if status != 200:
        said = answer.get("error")
        refuse(str(said.get("message") if isinstance(said, dict) else said))
    return answer["data"]


def altering(config: str | None, alter: Callable[[str], str]) -> Callable[[], Any]:
    """Changing the file itself, as the daemon would."""

    def alone() -> dict[str, Any]:
        import os

        from mcpproxy import entries, paths, settings
        from mcpproxy.errors import SettingsError

        file = paths.config_file(config)
        click.echo(f"no daemon answers for this configuration: changing {file} itself", err=True)
        try:
            if config is None:
                settings.load(file, os.environ, create=True)
            loaded = entries.change(file, alter, os.environ)
        except SettingsError as error:
            refuse(str(error))
        return {"applied": False, "warnings": loaded.warnings}

    return alone


def in_file(config: str | None) -> list[dict[str, Any]]:
    """The servers as the file has them, and what a daemon would say of those that can't be used."""
    import os

    from mcpproxy import paths, settings
    from mcpproxy.errors import SettingsError

    click.echo("no daemon answers for this configuration: reading the file itself", err=True)
    try:
        loaded = settings.load(paths.config_file(config), os.environ, create=config is None)
    except SettingsError as error:
        refuse(str(error))
    usable = [
        {"name": each.name, "state": "not running" if each.enabled else "disabled"}
        for each in loaded.settings.servers
    ]
    broken = loaded.server_errors.items()
    return [*usable, *({"name": name, "state": "down", "error": why} for name, why in broken)]


# ── telling ─────────────────────────────────────────────────────────────────────────────────────


def pair(text: str, key: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        refuse(f"--{'header' if key == 'headers' else key} is NAME=VALUE, not {name!r}")
    return name, value


def refuse(message: str) -> NoReturn:
    click.echo(f"mcpproxy: {message}", err=True)
    sys.exit(2)


def done(found: Any, sentence: str, output: str) -> None:
    if output == "json":
        show_json(found)
        return
    click.echo(sentence)
    if server := found.get("server"):
        why = f": {server['error']}" if server.get("error") else ""
        click.echo(f"it is {server['state']}{why}")


def show_json(found: Any) -> None:
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def visible(text: str) -> str:
    """A line for a terminal, which what servers say of themselves must not control."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def visible_lines(text: str) -> str:
    """The same for several lines."""
    return "\n".join(map(visible, text.expandtabs().split("\n")))


def show_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], none: str = "") -> None:
    """Columns as wide as they must be; the last may be any width. `none` says why there are no rows."""
    if none and not rows:
        click.echo(none, err=True)
        return
    rows = [tuple(visible(cell) for cell in row) for row in rows]
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head) - 1)]
    for row in (head, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
