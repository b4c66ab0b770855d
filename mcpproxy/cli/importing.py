"""`mcpproxy upstream import`: the servers that other clients have in their configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import refuse, show_json
from mcpproxy.cli.upstream import add_entry, look_at, trusted_option

if TYPE_CHECKING:
    from mcpproxy.importing import Found


@click.command("import")
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
    taken: dict[str, Any] = {}
    # All are read before one is added: a file that can't be read leaves nothing half done.
    read = [(str(each), read_client(each, config, taken)) for each in files]
    report = [
        {
            "file": name,
            "added": [entry["name"] for entry in found.entries],
            "skipped": found.skipped,
            "notes": found.notes + ([] if dry_run else add_all(config, found.entries, trusted)),
        }
        for name, found in read
    ]
    if output == "json":
        show_json(report)
        return
    for part in report:
        show(part, "would add" if dry_run else "added")


def add_all(config: str | None, found: list[dict[str, Any]], trusted: bool) -> list[str]:
    """Add entries; what is to be said of them."""
    notes = []
    for entry in found:
        answer = add_entry(config, entry | ({"quarantined": False} if trusted else {}))
        if answer.get("server", {}).get("state") == "quarantined":
            notes.append(f"{entry['name']} waits for approval: {look_at(entry['name'])}")
    return notes


def show(part: dict[str, Any], added: str) -> None:
    """What came of one file; `added` is the word for its servers."""
    click.echo(f"{part['file']}:")
    for name in part["added"]:
        click.echo(f"  {added} {name}")
    for name, reason in part["skipped"].items():
        click.echo(f"  skipped {name}: {reason}")
    for note in part["notes"]:
        click.echo(f"  note: {note}")
    if not part["added"] and not part["skipped"]:
        click.echo("  no servers in it: they stand under mcpServers, or under servers")


def usual(client: str | None) -> list[Path]:
    from mcpproxy.importing import CLIENTS, places

    chosen = [client] if client else CLIENTS
    found = [path for each in chosen for path in places(each, Path.home(), Path.cwd())]
    return list(dict.fromkeys(path for path in found if path.is_file()))


def read_client(file: Path, config: str | None, taken: dict[str, Any]) -> Found:
    """What can be taken of a file's servers; they are `taken` for the next file. Leaves for one that can't be read."""
    from mcpproxy import entries, importing, jsonc, settings
    from mcpproxy.cli import local
    from mcpproxy.errors import SettingsError

    try:
        document = jsonc.loads(file.read_bytes().decode())
    except OSError as error:
        refuse(f"{file}: {error.strerror}")
    except ValueError as error:
        refuse(f"{file} is not valid JSON: {error}")
    ours = local.document(config)
    known = {name: dict(entry) for _, name, entry in entries.listed(ours)} | taken
    port = str(ours.get("listen", ":8080")).rpartition(":")[2]
    here = int(port) if port.isdecimal() and len(port) < 6 else 8080
    found = importing.take(document, Path.cwd(), Path.home(), known, here)
    for entry in list(found.entries):
        try:
            settings.checked_server(entry, [])
        except SettingsError as error:
            found.entries.remove(entry)
            found.skipped[entry["name"]] = str(error)
    taken |= {entry["name"]: entry for entry in found.entries}
    return found
