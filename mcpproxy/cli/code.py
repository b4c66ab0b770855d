"""`mcpproxy code`: run a program, list the stored ones."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from mcpproxy import jsonc
from mcpproxy.cli.codecache import cache
from mcpproxy.cli.options import always_json, config_option, json_option, log_level_option
from mcpproxy.cli.telling import FAILED, INTERRUPTED, Commands, refuse, show_json

SPARE_SECONDS = 10.0
MAX_TIMEOUT_MS = 600_000
TYPESCRIPT = (".ts", ".mts", ".cts")


@click.group(cls=Commands)
def code() -> None:
    """Run programs against the upstream servers."""


code.add_command(cache)


@code.command("exec")
@click.option("--code", "source", metavar="TEXT", help="JavaScript or TypeScript to run.")
@click.option("--file", metavar="FILE", help="File to run, - is stdin; .ts is TypeScript.")
@click.option("--script", metavar="NAME", help="Name of a stored script.")
@click.option(
    "--language",
    type=click.Choice(["javascript", "typescript"]),
    help="Language of --code or --file.",
)
@click.option("--input", "given", metavar="JSON", help="Input data, a JSON object.")
@click.option("--input-file", metavar="FILE", help="File that holds the input data; - is stdin.")
@click.option(
    "--timeout",
    type=click.IntRange(1, MAX_TIMEOUT_MS),
    metavar="MS",
    help="Execution timeout in milliseconds (1-600000).",
)
@click.option(
    "--max-tool-calls",
    type=click.IntRange(0),
    metavar="N",
    help="Most tool calls; 0 is any number.",
)
@click.option(
    "--allowed-servers",
    multiple=True,
    metavar="A,B",
    help="Servers that may be called; all when not given.",
)
@click.option(
    "--description",
    metavar="TEXT",
    help="What the program does; with it, a program that succeeds is kept (see: mcpproxy code cache).",
)
@always_json
@log_level_option
@config_option
def execute(
    source: str | None,
    file: str | None,
    script: str | None,
    language: str | None,
    given: str | None,
    input_file: str | None,
    timeout: int | None,
    max_tool_calls: int | None,
    allowed_servers: tuple[str, ...],
    description: str | None,
    log_level: str | None,
    config: str | None,
) -> None:
    """Run a program and print its result as JSON.

    Exit status: 0 it succeeded, 1 it ran and failed, 2 nothing was run.
    """
    if sum(option is not None for option in (source, file, script)) != 1:
        refuse("give exactly one of --code, --file and --script")
    if given is not None and input_file is not None:
        refuse("give --input or --input-file, not both")
    if file == input_file == "-":
        refuse("only one of --file and --input-file can be stdin")
    if file is not None:
        source = text_of(file, "--file")
        if not source:
            refuse(f"there is nothing to run: --file {file} is empty")
        language = language or ("typescript" if Path(file).suffix in TYPESCRIPT else None)
    data: dict[str, Any] | None = None
    if given is not None:
        data = json_object(given, "--input")
    elif input_file is not None:
        data = json_object(text_of(input_file, "--input-file"), "--input-file")
    options = {
        "timeout_ms": timeout,
        "max_tool_calls": max_tool_calls,
        "allowed_servers": names(",".join(allowed_servers)) if allowed_servers else None,
    }
    body = {
        "code": source,
        "script": script,
        "language": language,
        "input": data,
        "description": description,
        "options": there(options) or None,
    }
    run(there(body), config, log_level)


def there(members: dict[str, Any]) -> dict[str, Any]:
    """Those that are given."""
    return {name: value for name, value in members.items() if value is not None}


def names(text: str) -> list[str]:
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        refuse(
            "--allowed-servers is a list of names such as github,gitlab; leave it out to allow all"
        )
    return found


def text_of(file: str, option: str) -> str:
    """The text of a file, or of stdin, with its line ends as they are. Leaves where there is none."""
    try:
        found = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return found.decode()
    except OSError as error:
        refuse(f"{option} {file}: {error.strerror}")
    except UnicodeDecodeError:
        refuse(f"{option} {file} is not UTF-8")


def json_object(text: str, option: str) -> dict[str, Any]:
    try:
        found = jsonc.strict(text.removeprefix("\ufeff"))
    except ValueError as error:
        refuse(f"{option} is not JSON: {error}")
    if not isinstance(found, dict):
        refuse(f'{option} must be a JSON object such as {{"name": "value"}}')
    return found


def run(body: dict[str, Any], config: str | None, log_level: str | None) -> NoReturn:
    """Run it where a daemon is, else here; print the envelope and leave."""
    from mcpproxy.cli import local

    # A terminated command must let go of what it waits for, as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        daemon = local.find(config)
        if daemon is None:
            click.echo("running alone: no daemon answers for this configuration", err=True)
            envelope, refused = without_daemon(body, config, log_level)
        else:
            click.echo(f"running on the daemon at {daemon.where}", err=True)
            status, envelope = local.request(
                daemon, "POST", "/api/v1/code/exec", body, timeout=patience(body, config)
            )
            refused = 400 <= status < 500
    except local.NoAnswer as error:
        refuse(str(error), FAILED)
    except KeyboardInterrupt:
        click.echo("interrupted; the script was told to stop", err=True)
        sys.exit(INTERRUPTED)
    show(envelope)
    if refused:
        refuse(envelope["error"]["message"])
    sys.exit(0 if envelope["ok"] else FAILED)


def show(envelope: dict[str, Any]) -> None:
    """Print it without what only HTTP adds."""
    shown = {
        name: value for name, value in envelope.items() if name not in ("request_id", "success")
    }
    show_json(shown)


def patience(body: dict[str, Any], config: str | None) -> float:
    """How long the daemon may take: the script's time, its wait for a process, and some to spare."""
    from mcpproxy.cli import local

    document = local.document(config)

    def milliseconds(name: str, default: int) -> int:
        value = document.get(name)
        return value if isinstance(value, int) else default

    asked = body.get("options", {}).get("timeout_ms")
    script = asked or milliseconds("code_execution_timeout_ms", 120_000)
    return float(
        (script + milliseconds("code_execution_queue_timeout_ms", 30_000)) / 1000 + SPARE_SECONDS
    )


def without_daemon(
    body: dict[str, Any], config: str | None, log_level: str | None
) -> tuple[dict[str, Any], bool]:
    """The envelope from a daemon that lives for this one script, and whether it was refused."""
    import uuid

    from mcpproxy.cli.alone import with_daemon
    from mcpproxy.daemon import Daemon
    from mcpproxy.envelopes import refusal
    from mcpproxy.errors import Refused, SettingsError
    from mcpproxy.policy import LOCAL

    async def execute(daemon: Daemon) -> dict[str, Any]:
        reply = await daemon.execute(body, LOCAL, request_id=uuid.uuid4().hex)
        return reply.envelope

    try:
        return with_daemon(config, log_level, execute), False
    except Refused as error:
        return refusal(error.code, str(error)), True
    except SettingsError as error:
        refuse(str(error))


@code.group()
def scripts() -> None:
    """The programs stored in the scripts/ directory next to the configuration."""


@scripts.command("list")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="Form of the list.",
)
@json_option
@config_option
def list_scripts(output: str, config: str | None) -> None:
    """List the stored scripts that can be run by name."""
    from mcpproxy.cli import local
    from mcpproxy.scripts import Scripts

    daemon = local.find(config)
    if daemon is None:
        click.echo(
            "no daemon answers for this configuration: reading the directory itself", err=True
        )
        found = Scripts(local.places_of(config).scripts).listing()
    else:
        try:
            status, answer = local.request(daemon, "GET", "/api/v1/code/scripts", timeout=30)
        except local.NoAnswer as error:
            refuse(str(error))
        if status != 200:
            refuse(f"the daemon refused the listing: {answer.get('error')}")
        found = answer["data"]
    if output == "json":
        show_json(found)
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True), nl=False)
    else:
        table(found)


def table(found: dict[str, Any]) -> None:
    click.echo(f"Stored scripts in {found['dir']} ({len(found['scripts'])}):")
    for entry in found["scripts"]:
        status = entry["status"] + (f": {entry['reason']}" if "reason" in entry else "")
        click.echo(f"  {entry['name']:<32} {status:<20} {', '.join(entry['paths'])}")
    click.echo("")
    click.echo("Run one with: mcpproxy code exec --script <name>")
