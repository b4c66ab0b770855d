"""`mcpproxy upstream inspect`, `approve` and `block`: an operator looks at servers, and decides.

With a daemon it is asked. Without one the same verbs run here, on the same records.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from mcpproxy.cli.asking import ask
from mcpproxy.cli.options import config_option, output_option
from mcpproxy.cli.telling import show_json
from mcpproxy.cli.upstream import path_of

if TYPE_CHECKING:
    from mcpproxy.trust import Trust

Json = dict[str, Any]
MARKS = {"changed": "CHANGED", "new": "new", "blocked": "blocked", "approved": "ok"}
"""How a tool of each state is marked; the states in the order in which they are shown."""

tool_option = click.option(
    "--tool", "tools", multiple=True, metavar="TOOL", help="This tool alone; may be given again."
)


@click.command()
@click.argument("name")
@output_option
@config_option
def inspect(name: str, output: str, config: str | None) -> None:
    """Show a server's tools, what changed in them, and what in their words looks odd.

    A server in quarantine is started for that, and stopped again.
    """
    alone = without_daemon(config, lambda trust: trust.inspect(name))
    found = ask(config, "GET", path_of(name, "inspect"), alone)
    if output == "json":
        show_json(found)
        return
    for line in report(found):
        click.echo(line)


@click.command()
@click.argument("name")
@tool_option
@output_option
@config_option
def approve(name: str, tools: tuple[str, ...], output: str, config: str | None) -> None:
    """Let a server in with its tools as they are now, or with the given tools alone.

    What has changed since you last inspected it is left waiting, and the status is 1.
    """
    chosen = list(tools) or None
    alone = without_daemon(config, lambda trust: trust.approve(name, chosen, "local"))
    found = ask(
        config, "POST", path_of(name, "approve"), alone, {"tools": chosen} if chosen else {}
    )
    decided(f"approved {name}", found, output)


@click.command()
@click.argument("name")
@tool_option
@output_option
@config_option
def block(name: str, tools: tuple[str, ...], output: str, config: str | None) -> None:
    """Keep a server, or the given tools of it, out until they are approved."""
    chosen = list(tools) or None
    alone = without_daemon(config, lambda trust: trust.block(name, chosen, "local"))
    found = ask(config, "POST", path_of(name, "block"), alone, {"tools": chosen} if chosen else {})
    decided(f"blocked {', '.join(tools) or name}", found, output)


def decided(sentence: str, found: Json, output: str) -> None:
    """Say what came of it; status 1 when some of it was not done."""
    if output == "json":
        show_json(found)
    else:
        tell(sentence, found)
    if found["changed_since_inspected"]:
        sys.exit(1)


def tell(sentence: str, found: Json) -> None:
    from mcpproxy.suspicion import visible

    further = ", to see what comes of it: mcpproxy upstream list"
    click.echo(
        f"{sentence}; it is {found['state']}{further if found['state'] == 'connecting' else ''}"
    )
    if note := found.get("note"):
        click.echo(f"  {note}")
    if count := found["prompts_and_resources"]:
        click.echo(f"  approved: {count} prompts and resources")
    for title, key in (
        ("approved", "approved"),
        ("waiting", "waiting"),
        ("blocked", "blocked"),
        ("changed since you inspected it, inspect it again", "changed_since_inspected"),
    ):
        if found[key]:
            click.echo(f"  {title}: {', '.join(visible(one) for one in found[key])}")


def without_daemon(
    config: str | None, verb: Callable[[Trust], Awaitable[Json]]
) -> Callable[[], Json]:
    """The verb on the records themselves, where no daemon runs."""

    def alone() -> Json:
        from mcpproxy.cli.alone import with_daemon
        from mcpproxy.trust import Trust

        click.echo("no daemon answers for this configuration: doing it here", err=True)
        return with_daemon(config, "error", lambda daemon: verb(Trust(daemon)))

    return alone


# ── telling ─────────────────────────────────────────────────────────────────────────────────────


def report(found: Json) -> Iterator[str]:
    """An inspection for people. What is hidden in a server's words is shown by its number."""
    from mcpproxy.suspicion import visible

    yield f"{found['name']}: {found['standing']}{since(found)}"
    if (says := found["instructions"]) is not None:
        yield f"\n  {MARKS[says['state']]:<8} its instructions"
        if says["state"] != "approved":
            yield from changed("instructions", says["before"], says["text"])
        yield from odd(says["findings"])
    besides = [one for one in found["prompts_and_resources"] if telling(one)]
    states = list(MARKS)
    for one in sorted([*found["tools"], *besides], key=lambda one: states.index(one["state"])):
        yield from account(one)
    if found["not_listed"]:
        yield f"\n  not listed now: {', '.join(visible(one) for one in found['not_listed'])}"
    if found["switched_off"]:
        names = ", ".join(visible(one) for one in found["switched_off"])
        yield f"\n  switched off in the configuration, whatever is approved: {names}"
    yield from sum_up(found)


def since(found: Json) -> str:
    """When, and by whom, it was decided; or since when it waits."""
    at = found["decided_at"]
    if at and found["standing"] == "waiting":
        return f" since {at}"
    return f", decided {at} by {found['decided_by']}" if at else ""


def telling(one: Json) -> bool:
    """Whether it is shown: a server may have thousands of resources, and those that are fine are counted."""
    return one["state"] != "approved" or bool(one["findings"]) or one["kind"] != "resource"


def account(one: Json) -> Iterator[str]:
    """One tool, prompt or resource: what is new in it, and what looks odd."""
    from mcpproxy.suspicion import visible

    kind = f"{one['kind']} " if "kind" in one else ""
    yield f"\n  {MARKS[one['state']]:<8} {kind}{visible(one['name'])}"
    if one["state"] == "new":
        said = one["definition"].get("description")
        yield from indented(visible(str(said or "no description")))
    for each in one.get("differences", ()):
        yield from changed(each["field"], each.get("before"), each.get("after"))
    yield from odd(one["findings"])


def sum_up(found: Json) -> Iterator[str]:
    """How much there is, and the command that approves it."""
    tools, besides = found["tools"], found["prompts_and_resources"]
    every = [*tools, *besides]
    waits = sum(one["state"] in ("new", "changed") for one in every)
    strange = sum(len(one["findings"]) for one in every)
    more = f", {len(besides)} prompts and resources" if besides else ""
    yield f"\n{len(tools)} tools{more}, {waits} not approved, {strange} things to look at"
    if waits or found["standing"] != "approved":
        yield f"to approve all of it: {found['approve']}   (some of it: --tool NAME)"


def changed(field: str, before: Any, after: Any) -> Iterator[str]:
    """One difference, line by line."""
    from mcpproxy.inspection import lines

    yield f"           {field}:"
    for line in lines(*(shown(one) for one in (before, after))):
        yield f"             {line[:1]} {line[1:]}"


def odd(findings: list[Json]) -> Iterator[str]:
    for each in findings:
        yield f"        !! {each['where']}: {each['why']}"
        yield f"             {each['excerpt']}"


def indented(text: str) -> Iterator[str]:
    for line in text.splitlines()[:12]:
        yield f"           {line}"


def shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
