"""`mcpproxy activity`: what happened, from the running daemon or, without one, from its files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import TextIO

import click

from mcpproxy.cli import records
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.records import Json, query_of
from mcpproxy.cli.telling import (
    Commands,
    refuse,
    show_exactly,
    show_json,
    show_table,
    visible,
)

HEAD = ("TIME", "TYPE", "STATUS", "MS", "CALLER", "ID", "WHAT")
COUNTED = ("count", "ok", "error", "blocked", "rejected", "mean_ms", "max_ms")


def conditions(command: Callable[..., None]) -> Callable[..., None]:
    """The options that choose records."""
    for option in (
        click.option("--to", "until", metavar="TIME", help="Only before then."),
        click.option(
            "--from", "since", metavar="TIME", help="Only from then on: 24h, 7d, 2026-11-30T08:00."
        ),
        click.option("--parent", metavar="ID", help="Only calls of this execution."),
        click.option("--request-id", metavar="ID", help="Only what belongs to this request."),
        click.option("--caller", metavar="NAME", help="Only what this caller asked for."),
        click.option(
            "--status",
            metavar="STATUS",
            help="ok, error, blocked, rejected, unknown or not_started.",
        ),
        click.option("--tool", metavar="NAME", help="Only calls of this tool."),
        click.option("--server", metavar="NAME", help="Only what is about this server."),
        click.option(
            "--type",
            metavar="TYPE",
            help="execution, tool_call, request, refusal, server_state, catalog_change, "
            "config_change, approval, token, login or system.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Commands)
def activity() -> None:
    """Show what was run and called, by whom, and how it went."""


@activity.command("list")
@conditions
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=50, help="How many.  [50]")
@output_option
@config_option
def list_records(limit: int, output: str, config: str | None, **chosen: str | None) -> None:
    """List the newest records, the newest last."""
    found: list[Json] = []
    cursor: str | None = None
    while len(found) < limit:
        more = {"limit": str(limit - len(found)), "cursor": cursor}
        page = records.listing(config, query_of(chosen) | more)
        found += page["records"]
        cursor = page["next"]
        if cursor is None:
            break
    if output == "json":
        show_json({"records": found, "next": cursor})
        return
    show_table(HEAD, [row(each) for each in reversed(found)], "no records fit")
    if cursor is not None:
        click.echo("there are older ones; -n shows more, --to goes further back", err=True)


@activity.command()
@click.argument("id")
@output_option
@config_option
def show(id: str, output: str, config: str | None) -> None:
    """Show one record with all its details; of an execution also its calls."""
    found = records.one(config, id)
    if output == "json":
        show_json(found)
        return
    detail, calls = found.pop("detail"), found.pop("calls", [])
    for key, value in {**found, "time": clock(found["time"], full=True)}.items():
        if key not in ("seq", "about"):
            click.echo(f"{key.replace('_', ' ')}: {visible(str(value))}")
    for key, value in detail.items():
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines = [visible(line) for line in said.splitlines()] or [""]
        if len(lines) > 1 or key == "source":
            click.echo(f"{key.replace('_', ' ')}:")
            click.echo("\n".join(f"  {line}" for line in lines))
        else:
            click.echo(f"{key.replace('_', ' ')}: {lines[0]}")
    if calls:
        click.echo()
        show_table(HEAD, [row(each) for each in calls])


@activity.command()
@click.option("--from", "since", metavar="TIME", default="24h", help="From then on.  [24h]")
@click.option("--to", "until", metavar="TIME", help="Before then.")
@click.option(
    "--by",
    type=click.Choice(["tool", "server", "caller", "client", "script", "code", "type"]),
    default="tool",
    help="What sums are made by.  [tool]",
)
@output_option
@config_option
def summary(since: str, until: str | None, by: str, output: str, config: str | None) -> None:
    """Show how much there was, how it went, how long it took and how much it moved."""
    found = records.summary(config, query_of({"since": since, "until": until, "by": by}))
    if output == "json":
        show_json(found)
        return
    click.echo(f"{clock(found['since'], full=True)} to {clock(found['until'], full=True)}\n")
    for title, groups in (("TYPE", found["types"]), (by.upper(), found["groups"])):
        heads = [key.replace("_", " ").upper() for key in (*COUNTED, "seen", "back")]
        show_table((title, *heads), [sums(each) for each in groups])
        click.echo()


def sums(group: Json) -> tuple[str, ...]:
    figures = ["" if group[key] is None else f"{group[key]:,}" for key in COUNTED]
    return (str(group["name"]), *figures, size(group["seen"]), size(group["back"]))


def size(count: int | None) -> str:
    if not count:
        return ""
    for unit in ("B", "KB", "MB"):
        if count < 10_000:
            return f"{count:,} {unit}"
        count //= 1000
    return f"{count:,} GB"


@activity.command()
@conditions
@click.option(
    "--format",
    type=click.Choice(["jsonl", "csv"]),
    default="jsonl",
    help="Form of the records.  [jsonl]",
)
@click.option("--detail", is_flag=True, help="With source, arguments, results and the like.")
@click.option(
    "--output",
    "-o",
    type=click.File("w", encoding="utf-8", lazy=False),
    default="-",
    metavar="FILE",
    help="Write them there; - is stdout.  [-]",
)
@config_option
def export(
    format: str, detail: bool, output: TextIO, config: str | None, **chosen: str | None
) -> None:
    """Write all records that fit, the oldest first, as JSON Lines or CSV."""
    query = query_of(chosen) | {"format": format, "detail": "true" if detail else None}
    for piece in records.export(config, query):
        output.write(piece)


@activity.command()
@conditions
@output_option
@config_option
def watch(output: str, config: str | None, **chosen: str | None) -> None:
    """Show records as they come, until Ctrl-C."""
    wanted = {key: value for key, value in query_of(chosen).items() if value is not None}
    if {"from", "to"} & wanted.keys():
        refuse("watch shows what comes: list and export take --from and --to")
    if output != "json":
        click.echo(line_of(HEAD))
    try:
        for record in records.coming(config):
            if all(str(record.get(key)) == value for key, value in wanted.items()):
                if output == "json":
                    show_exactly(json.dumps(record, ensure_ascii=False))
                else:
                    click.echo(line_of(row(record)))
                sys.stdout.flush()
    except KeyboardInterrupt:
        return


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def row(record: Json) -> tuple[str, ...]:
    about = record.get("about") or ""
    if record.get("tool"):
        about = f"{record.get('server')}:{record['tool']}"
    elif record.get("server"):
        about = f"{record['server']} {about}"
    return (
        clock(record["time"]),
        record["type"],
        record.get("code") or record["status"],
        str(record.get("ms", "")),
        record.get("caller", ""),
        record["id"],
        about,
    )


def line_of(cells: tuple[str, ...]) -> str:
    """A line of a table that has no end, so that no width is known."""
    widths = (8, 13, 18, 6, 10, 16, 0)
    padded = [visible(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()


def clock(stamp: str, *, full: bool = False) -> str:
    """A time as the clock on the wall shows it; of another day with its date."""
    moment = datetime.fromisoformat(stamp).astimezone()
    if full or moment.date() != datetime.now().astimezone().date():
        return moment.strftime("%Y-%m-%d %H:%M:%S")
    return moment.strftime("%H:%M:%S")
