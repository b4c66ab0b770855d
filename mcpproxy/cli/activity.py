"""`mcpproxy activity`: what happened, from the running daemon or, without one, from its files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote, urlencode

import click

from mcpproxy.cli.asking import ask
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import (
    FAILED,
    Commands,
    refuse,
    show_exactly,
    show_json,
    show_table,
    visible,
)

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from pathlib import Path

ACTIVITY = "/api/v1/activity"
HEAD = ("TIME", "TYPE", "STATUS", "MS", "CALLER", "ID", "WHAT")
LOOK_SECONDS = 0.5
SILENCE_SECONDS = 60.0
"""The daemon says at least every 15 s that it is there."""

Json = dict[str, Any]


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
    records: list[Json] = []
    cursor: str | None = None
    while len(records) < limit:
        more = {"limit": str(limit - len(records)), "cursor": cursor}
        page = look(config, "listing", "", query_of(chosen) | more)
        records += page["records"]
        cursor = page["next"]
        if cursor is None:
            break
    if output == "json":
        show_json({"records": records, "next": cursor})
        return
    show_table(HEAD, [row(each) for each in reversed(records)], "no records fit")
    if cursor is not None:
        click.echo("there are older ones; -n shows more, --to goes further back", err=True)


@activity.command()
@click.argument("id")
@output_option
@config_option
def show(id: str, output: str, config: str | None) -> None:
    """Show one record with all its details; of an execution also its calls."""
    found = look(config, "one", f"/{quote(id, safe='')}", {})
    if output == "json":
        show_json(found)
        return
    detail, calls = found.pop("detail"), found.pop("calls", [])
    for key, value in {**found, "time": local(found["time"], full=True)}.items():
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
    query = query_of({"since": since, "until": until, "by": by})
    found = look(config, "summary", "/summary", query)
    if output == "json":
        show_json(found)
        return
    click.echo(f"{local(found['since'], full=True)} to {local(found['until'], full=True)}\n")
    for title, groups in (("TYPE", found["types"]), (by.upper(), found["groups"])):
        head = (
            title,
            "COUNT",
            "OK",
            "ERROR",
            "BLOCKED",
            "REJECTED",
            "MEAN MS",
            "MAX MS",
            "SEEN",
            "BACK",
        )
        show_table(head, [sums(each) for each in groups])
        click.echo()


def sums(group: Json) -> tuple[str, ...]:
    keys = ("count", "ok", "error", "blocked", "rejected", "mean_ms", "max_ms")
    figures = ["" if group[key] is None else f"{group[key]:,}" for key in keys]
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
    from mcpproxy.cli import local

    query = query_of(chosen) | {"format": format, "detail": "true" if detail else None}
    daemon = local.find(config)
    if daemon is None:
        with in_files(config) as (queries, directory):
            for piece in queries.export(directory, query, now_ms()):
                output.write(piece)
        return
    try:
        for line in lines_of(daemon, f"{ACTIVITY}/export?{encoded(query)}"):
            output.write(line)
    except local.NoAnswer as error:
        refuse(f"{error}; what was written is not all", FAILED)


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
        for record in coming(config):
            if all(str(record.get(key)) == value for key, value in wanted.items()):
                if output == "json":
                    show_exactly(json.dumps(record, ensure_ascii=False))
                else:
                    click.echo(line_of(row(record)))
                sys.stdout.flush()
    except KeyboardInterrupt:
        return


def coming(config: str | None) -> Iterator[Json]:
    """Records from now on: as the daemon tells of them, else as they appear in the files."""
    from mcpproxy.cli import local

    last: str | None = None
    while True:
        daemon = local.find(config)
        if daemon is None:
            last = yield from appearing(config, last)
        else:
            last = yield from told(daemon, last)
        time.sleep(LOOK_SECONDS)


def told(daemon: Any, last: str | None) -> Generator[Json, None, str | None]:
    """Records as events of the daemon, until it hangs up; gives the place of the last."""
    from mcpproxy.cli.local import NoAnswer

    path = f"/events?{encoded({'after': last})}"
    try:
        for line in lines_of(daemon, path, timeout=SILENCE_SECONDS):
            if line.startswith("data: "):
                record = json.loads(line.removeprefix("data: "))
                if "seq" in record:
                    last = record["seq"]
                    yield record
    except NoAnswer:
        pass  # it is gone; whoever calls looks for another
    return last


def appearing(config: str | None, last: str | None) -> Generator[Json, None, str | None]:
    """Records that stand-alone runs leave, one look at the files; gives the place of the last."""
    with in_files(config) as (queries, directory):
        if last is None:
            newest = queries.listing(directory, {"limit": 1}, 0)["records"]
            return newest[0]["seq"] if newest else f"{0:016x}"
        found = queries.listing(directory, {"cursor": last, "order": "oldest"}, 0)["records"]
        yield from found
        return found[-1]["seq"] if found else last


# ── daemon or files ─────────────────────────────────────────────────────────────────────────────


def query_of(chosen: dict[str, str | None]) -> dict[str, str | None]:
    """The query of a request, from the options of a command."""
    renamed = {"since": "from", "until": "to"}
    return {
        renamed.get(name, name): zoned(value) if name in renamed else value
        for name, value in chosen.items()
    }


def zoned(text: str | None) -> str | None:
    """A time without a zone as one of the clock on the wall, which the times that are shown are of."""
    try:
        moment = datetime.fromisoformat(text or "")
        return text if moment.tzinfo is not None else moment.astimezone().isoformat()
    except (ValueError, OverflowError):
        return text  # how long ago, or no time at all, which is said where it is read


def encoded(query: dict[str, str | None]) -> str:
    return urlencode({key: value for key, value in query.items() if value is not None})


def look(config: str | None, verb: str, path: str, query: dict[str, str | None]) -> Any:
    """What the daemon answers or, without one, its files. Leaves with 2 on a refusal."""

    def alone() -> Any:
        with in_files(config) as (queries, directory):
            if verb == "one":
                found = queries.one(directory, path[1:])
                if found is None:
                    refuse(
                        f"there is no record {path[1:]}; mcpproxy activity list shows those there are"
                    )
                return found
            asked = {**query, "limit": int(query.get("limit") or 50)}
            return getattr(queries, verb)(directory, asked, now_ms())

    return ask(config, "GET", f"{ACTIVITY}{path}?{encoded(query)}", alone)


@contextmanager
def in_files(config: str | None) -> Iterator[tuple[Any, Path]]:
    """What can be asked of the journal's files, and where they are. Leaves with 2 where they can't be read."""
    import sqlite3

    from mcpproxy.cli import local
    from mcpproxy.journal import queries
    from mcpproxy.journal.reading import take_in

    directory = local.places_of(config).journal
    try:
        try:
            take_in(directory)
        except OSError as error:
            refuse(unreadable(directory, error))
        yield queries, directory
    except ValueError as error:
        refuse(str(error))
    except sqlite3.Error as error:
        refuse(unreadable(directory, error))


def unreadable(directory: Path, error: Exception) -> str:
    return f"the journal in {directory} can't be read: {error}; see mcpproxy doctor"


def lines_of(daemon: Any, path: str, timeout: float = 60.0) -> Iterator[str]:
    """Lines of an answer, as they come. Leaves with 2 on a refusal.

    Raises `NoAnswer` when the daemon hangs up before the end.
    """
    from http.client import HTTPException

    from mcpproxy.cli.local import NoAnswer

    with closing(daemon.connect(timeout)) as connection:
        try:
            connection.request("GET", path, headers=daemon.headers)
            response: HTTPResponse = connection.getresponse()
            if response.status != 200:
                refuse(json.loads(response.read())["error"]["message"])
            while line := response.readline():
                yield line.decode()
        except (OSError, HTTPException) as error:
            why = error or type(error).__name__
            raise NoAnswer(f"the daemon hung up before the end: {why}") from error


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def row(record: Json) -> tuple[str, ...]:
    about = record.get("about") or ""
    if record.get("tool"):
        about = f"{record.get('server')}:{record['tool']}"
    elif record.get("server"):
        about = f"{record['server']} {about}"
    return (
        local(record["time"]),
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


def local(stamp: str, *, full: bool = False) -> str:
    """A time as the clock on the wall shows it; of another day with its date."""
    moment = datetime.fromisoformat(stamp).astimezone()
    if full or moment.date() != datetime.now().astimezone().date():
        return moment.strftime("%Y-%m-%d %H:%M:%S")
    return moment.strftime("%H:%M:%S")
