"""`mcpproxy doctor`: what is wrong here, and the command or setting that mends it.

It looks at the configuration, at files and stored scripts, at a running daemon, its journal and its
servers, and has a VM try what a script must not be able to do.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import click

from mcpproxy import paths, settings
from mcpproxy.approvals import command
from mcpproxy.cli import checkup, local
from mcpproxy.cli.checkup import Finding
from mcpproxy.cli.telling import show_json
from mcpproxy.errors import SettingsError, WorkerError
from mcpproxy.sandbox.pool import open_pool
from mcpproxy.sandbox.transformer import open_transformer

REMEDY = re.compile(r"mcpproxy (auth login|secrets set) ('[^']*'|[\w@%+:,./-]+)")
"""A command of ours that an error names itself; nothing else that a server may have put there."""


def examine(config: str | None) -> list[Finding]:
    """Everything there is to say, in the order in which it should be mended."""
    file = paths.config_file(config)
    try:
        loaded = settings.load(file, os.environ, create=config is None)
    except SettingsError as error:
        return [Finding(f"configuration: {error}", "mend that, then: mcpproxy doctor")]
    findings = [Finding(f"configuration {file} is valid")]
    findings += [
        Finding(f"configuration: {text}", f"mend that in {file}, or in the environment")
        for text in loaded.warnings
    ]
    findings += packs(loaded.settings)
    findings += documents(loaded.settings)
    findings += checkup.state(loaded.places)
    findings += checkup.files(loaded.places)
    findings += checkup.scripts(loaded.places)
    findings += anyio.run(sandbox, loaded.settings)
    daemon = local.find(config)
    if daemon is None:
        findings += checkup.port(loaded.settings)
        findings += checkup.journal(loaded.places, loaded.settings)
        return [*findings, Finding("no daemon runs for this configuration", "mcpproxy serve")]
    findings.append(
        Finding(f"the daemon answers at {daemon.where}, and its log is in {loaded.places.logs}")
    )
    return [*findings, *of_daemon(daemon, loaded.places)]


def packs(found: settings.Settings) -> Iterator[Finding]:
    """The tool packs among the servers, and each file of theirs that can't be used."""
    for server in found.servers:
        if server.protocol != "toolpack" or not server.enabled or not server.directory:
            continue
        from mcpproxy.upstream.toolpack.reading import read

        directory = os.path.expanduser(os.path.expandvars(server.directory.replace("${env:", "${")))
        pack = read(Path(directory), os.environ)
        yield Finding(f"tool pack {server.name} has {len(pack.tools)} tools in {directory}")
        for fault in pack.faults:
            what = f"tool pack {server.name}: {fault}"
            yield Finding(what, f"mend it, then: mcpproxy toolpack check {directory}")


def documents(found: settings.Settings) -> Iterator[Finding]:
    """The API documents among the servers that are files, and each operation that is left out."""
    for server in found.servers:
        if server.protocol != "openapi" or not server.enabled or not server.document:
            continue
        if server.document.startswith(("http://", "https://")):
            continue  # the daemon says what is wrong with it: it isn't fetched twice
        from mcpproxy.upstream.openapi.reading import Wanted, load

        file = os.path.expanduser(os.path.expandvars(server.document.replace("${env:", "${")))
        include, exclude = tuple(server.include), tuple(server.exclude)
        try:
            api = load(Wanted(file, server.base_url, include, exclude))
        except ValueError as error:
            yield Finding(f"document of {server.name} can't be used: {error}", f"mend {file}")
            continue
        none = "" if api.operations else f"mend {file}, or include and exclude of '{server.name}'"
        what = f"document of {server.name} has {len(api.operations)} operations in {file}"
        yield Finding(what, none)
        for fault in api.faults:
            yield Finding(f"document of {server.name}: {fault}", f"mend {file}, or set exclude")


async def sandbox(found: settings.Settings) -> list[Finding]:
    """What a VM was seen not to be able to do, and whether TypeScript works."""
    async with open_pool(1, found.code_execution_memory_mb) as pool:
        held = await pool.verify()
        layers = pool.layers
    findings = [
        Finding(f"a script can not {act}")
        if stopped
        else Finding(f"a script CAN {act}", "see docs/threat-model.md for what this platform lacks")
        for act, stopped in held.items()
    ]
    findings += [
        Finding(
            f"not in force here: {layer}",
            "a newer kernel has it; docs/threat-model.md says what remains",
        )
        for layer, there in layers.items()
        if not there
    ]
    async with open_transformer() as transformer:
        try:
            await transformer.warm()
        except WorkerError as error:
            return [
                *findings,
                Finding(f"TypeScript: {error}", "reinstall mcpproxy; JavaScript works without it"),
            ]
    return [*findings, Finding("TypeScript works")]


def of_daemon(daemon: local.Running, places: paths.Places) -> Iterator[Finding]:
    """What it says of itself, and of its servers."""
    try:
        _, status = local.request(daemon, "GET", "/api/v1/status", timeout=10)
        _, found = local.request(daemon, "GET", "/api/v1/servers", timeout=10)
    except local.NoAnswer as error:
        yield Finding(str(error), "look into its log, then start it anew: mcpproxy serve")
        return
    yield from checkup.daemon(status["data"], places)
    for server in found["data"]["servers"]:
        if server["enabled"] or server["state"] != "down":
            yield about(server)  # else it can't be used as written, which was said above


def about(server: dict[str, Any]) -> Finding:
    """How a server is, and what mends it where somebody has to do something."""
    name, state = server["name"], server["state"]
    if state == "quarantined":
        return Finding(
            f"server {name} waits for approval",
            f"{command('inspect', name)}, then approve or remove it",
        )
    if state == "blocked":
        return Finding(f"server {name} is blocked")
    if server.get("waiting"):
        return Finding(
            f"server {name} has {server['waiting']} tools and prompts that wait for approval",
            command("inspect", name),
        )
    if state == "ready" and (said := (server.get("login") or {}).get("error")):
        return Finding(
            f"server {name} is ready, but {said}", f"mcpproxy auth login {shlex.quote(name)}"
        )
    if state == "ready":
        return Finding(f"server {name} is ready with {server['tools']} tools")
    if state == "disabled":
        return Finding(f"server {name} is disabled")
    if state == "lazy":
        return Finding(f"server {name} is lazy: it is connected when it is used")
    if state == "connecting":
        return Finding(f"server {name} is being connected")
    why = server.get("error") or "no reason known yet"
    told = REMEDY.search(why)
    log = f"mcpproxy upstream logs {shlex.quote(name)}"
    mend = f"mend its entry '{name}' in the configuration, or look into its log: {log}"
    return Finding(f"server {name} is {state}: {why}", told[0] if told else mend)


def report(findings: list[Finding], output: str) -> None:
    """Print them, as lines or as JSON."""
    if output == "json":
        show_json(
            [{"ok": not each.remedy, "what": each.what, "remedy": each.remedy} for each in findings]
        )
        return
    for finding in findings:
        click.echo(f"{'!!' if finding.remedy else 'ok'}  {finding.what}")
        if finding.remedy:
            click.echo(f"      {finding.remedy}")
