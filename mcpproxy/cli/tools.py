"""`mcpproxy tools`: what can be called, by the running daemon or, without one, by one made for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import click

from mcpproxy.cli.asking import for_people
from mcpproxy.cli.code import json_object, text_of
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import (
    FAILED,
    INTERRUPTED,
    NOT_RUN,
    Commands,
    refuse,
    show_exactly,
    show_json,
    show_table,
    visible,
)

TOOLS = "/api/v1/tools"
LOOKING_SECONDS = 60.0
CALLING_SECONDS = 630.0
REACHED = frozenset({500, 502, 504})
"""Statuses after which a call may have had its effect; all others refuse it before."""

server_option = click.option("--server", metavar="NAME", help="This server's tools only.")


@click.group(cls=Commands)
def tools() -> None:
    """List, find, show and call the tools of the servers.

    Uses the running daemon if there is one, else connects what it needs by itself.
    """


@tools.command("list")
@server_option
@output_option
@config_option
def list_tools(server: str | None, output: str, config: str | None) -> None:
    """List the tools, in the order of the servers."""
    found = look(config, TOOLS, server=server, lazy="true")
    if output == "json":
        show_json(found)
    else:
        rows = [(f"{each['server']}:{each['name']}", summary(each)) for each in found["tools"]]
        show_table(
            ("TOOL", "WHAT IT DOES"), rows, "no tools; mcpproxy upstream list shows the servers"
        )
    if found["missing_servers"]:
        click.echo(f"not known now: the tools of {', '.join(found['missing_servers'])}", err=True)


def summary(tool: dict[str, Any]) -> str:
    from mcpproxy import declarations
    from mcpproxy.catalog import Tool

    return declarations.summary(Tool(tool["server"], tool), 100)


@tools.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 50), default=8, help="How many at most.  [8]")
@server_option
@output_option
@config_option
def search(
    words: tuple[str, ...], limit: int, server: str | None, output: str, config: str | None
) -> None:
    """Find tools by what they do, by name or by parameter."""
    found = look(config, f"{TOOLS}/search", q=" ".join(words), limit=str(limit), server=server)
    if output == "json":
        show_json(found)
        return
    if found["tools"]:
        rows = [(each["name"], each["description"]) for each in found["tools"]]
        show_table(("TOOL", "WHAT IT DOES"), rows)
    if found["more"]:
        click.echo(f"{found['more']} more; --limit shows them", err=True)
    for each in found.get("kept_code", ()):
        click.echo(visible(f"kept code {each['cache_id'][:12]}: {each['description']}"))
    if hint := found.get("hint"):
        click.echo(for_people(hint), err=True)
    if away := found.get("not_searched"):
        click.echo(f"not searched: {', '.join(away)}", err=True)


@tools.command()
@click.argument("tool")
@output_option
@config_option
def show(tool: str, output: str, config: str | None) -> None:
    """Show what TOOL (SERVER:TOOL) takes and gives, as TypeScript."""
    found = look(config, f"{TOOLS}/{quote(tool, safe='')}", about=tool)
    if output == "json":
        show_json(found)
        return
    lines = [found["name"], *filter(None, [found["description"]])]
    lines += ["", *found["declaration"].split("\n"), "", found["call"]]
    for parameter in found["parameters"]:
        if note := parameter.get("description"):
            lines.append(f"  {parameter['name']}: {note}")
    for name, value in found.get("annotations", {}).items():
        lines.append(f"{name}: {json.dumps(value)}")
    for line in lines:
        click.echo(visible(line))


@tools.command()
@server_option
@click.option(
    "--output", "-o", metavar="FILE", help="Write it there, if it is another than before."
)
@config_option
def types(server: str | None, output: str | None, config: str | None) -> None:
    """Print what a script can use as TypeScript declarations, for editors.

    Put it beside your scripts: mcpproxy tools types -o ~/.mcpproxy/scripts/mcpproxy.d.ts
    """
    path = f"{TOOLS}/types.d.ts" + (f"?{urlencode({'server': server})}" if server else "")
    status, text = reach(config, "GET", path, about=server)
    if status != 200:
        fail(json.loads(text), status)
    if output is None:
        click.echo(text, nl=False)
        return
    file = Path(output)
    try:
        if file.exists() and file.read_bytes() == text:
            click.echo(f"{file} is up to date", err=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
            click.echo(f"wrote {file}", err=True)
    except OSError as error:
        refuse(f"{file}: {error.strerror}")


@tools.command()
@click.argument("tool", required=False)
@click.option("--args", "given", metavar="JSON", help="The arguments: JSON, @FILE, or - for stdin.")
@click.option("--cursor", help="Instead of a call: where to read on in a result that was cut.")
@output_option
@config_option
def call(
    tool: str | None, given: str | None, cursor: str | None, output: str, config: str | None
) -> None:
    """Call TOOL (SERVER:TOOL) and print its result.

    A running daemon cuts what is longer than its tool_response_limit. Exit status: 0 it succeeded,
    1 it was called and failed, 2 it was not called.
    """
    if (tool is None) == (cursor is None):
        refuse("give SERVER:TOOL, or --cursor to read on, one of them")
    if cursor is not None:
        body: dict[str, Any] = {"cursor": cursor}
    else:
        body = {"tool_name": tool, "arguments": arguments(given)}
    status, text = reach(config, "POST", f"{TOOLS}/call", body, about=tool)
    answer = json.loads(text)
    if status != 200:
        fail(answer, status)
    result = answer["data"]
    if output == "json":
        show_json(result)
    else:
        show_result(result)
    if (cut := result.get("cut")) is not None and cut["cursor"] is not None:
        part = f"characters {cut['start'] + 1:,}-{cut['end']:,} of {cut['characters']:,}"
        click.echo(f"{part}; read on with: mcpproxy tools call --cursor={cut['cursor']}", err=True)
    sys.exit(FAILED if result.get("isError") else 0)


def arguments(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    if given == "-" or given.startswith("@"):
        given = text_of(given.removeprefix("@"), "--args")
    return json_object(given, "--args")


def show_result(result: dict[str, Any]) -> None:
    """Its texts as they are, and of everything else what it is; its data where there is no text."""
    blocks = [block for block in result["content"] if isinstance(block, dict)]
    if not blocks and "structuredContent" in result:
        show_json(result["structuredContent"])
    for block in blocks:
        inside = block.get("resource")
        text = block.get("text", inside.get("text") if isinstance(inside, dict) else None)
        if not isinstance(text, str):
            kind = block.get("mimeType") or block.get("uri") or ""
            text = f"[{block.get('type')} {kind}] (--json prints it whole)"
        show_exactly(text)


# ── daemon or alone ─────────────────────────────────────────────────────────────────────────────


def look(config: str | None, path: str, *, about: str | None = None, **query: str | None) -> Any:
    """The data of an answer. Leaves with 2 on a refusal."""
    asked = {name: value for name, value in query.items() if value is not None}
    if asked:
        path = f"{path}?{urlencode(asked)}"
    status, text = reach(config, "GET", path, about=about or asked.get("server"))
    answer = json.loads(text)
    if status != 200:
        fail(answer, status)
    return answer["data"]


def reach(
    config: str | None, verb: str, path: str, body: Any = None, *, about: str | None = None
) -> tuple[int, bytes]:
    """The answer of the daemon, or of one that is made for it; `about` names the one server it is about."""
    from mcpproxy.cli import local

    daemon = local.find(config)
    try:
        if daemon is None:
            click.echo("running alone: no daemon answers for this configuration", err=True)
            return without_daemon(config, verb, path, body, about)
        seconds = LOOKING_SECONDS if body is None else CALLING_SECONDS
        return local.fetch(daemon, verb, path, body, timeout=seconds)
    except local.NoAnswer as error:
        refuse(str(error), FAILED)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)


def without_daemon(
    config: str | None, verb: str, path: str, body: Any, about: str | None
) -> tuple[int, bytes]:
    from mcpproxy.cli.alone import ask, with_daemon
    from mcpproxy.daemon import Daemon
    from mcpproxy.errors import SettingsError

    async def act(daemon: Daemon) -> tuple[int, bytes]:
        names = [server.name for server in daemon.settings.servers]
        meant = [name for name in names if about is not None and about.startswith(name)]
        await daemon.fleet.known(meant or None)
        # Nobody would be there to read on from.
        daemon.settings = daemon.settings.model_copy(update={"tool_response_limit": 0})
        return await ask(daemon, verb, path, body)

    try:
        return with_daemon(config, None, act)
    except SettingsError as error:
        refuse(str(error))


def fail(answer: dict[str, Any], status: int) -> NoReturn:
    error = answer.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    refuse(for_people(str(said)), FAILED if status in REACHED else NOT_RUN)
