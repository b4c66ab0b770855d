"""What an operator decides about servers and their tools; REST and the command line share it.

None of this is to be had over MCP, whoever asks there. To inspect a server in quarantine is to run
its command, or to call its URL, for as long as that takes: it happens only because an operator asks.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import anyio.to_thread

from mcpproxy import approvals, entries, gates, inspection
from mcpproxy.approvals import ServerRecord
from mcpproxy.baseline import Baseline
from mcpproxy.catalog import Server, Tool
from mcpproxy.daemon import Daemon
from mcpproxy.database import mend
from mcpproxy.errors import Refused, SettingsError
from mcpproxy.journal.changes import MOST_NAMES
from mcpproxy.journal.records import text
from mcpproxy.listed import Kind, Listed
from mcpproxy.listings import all_of
from mcpproxy.settings import ServerSettings
from mcpproxy.stamps import stamp
from mcpproxy.switches import switched_off

logger = logging.getLogger(__name__)

Json = dict[str, Any]


class Trust:
    """Verbs over the daemon. All raise `Refused`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def _baseline(self) -> Baseline:
        return self._daemon.baseline

    async def inspect(self, name: str) -> Json:
        """A server's tools, each with what changed since it was approved and what looks odd."""
        entry = self._entry(name)
        seen = await self._seen(entry)
        if not seen.tools and seen.state == "down":
            raise Refused("INVALID_REQUEST", f"server {name!r} can't be inspected: {seen.error}")
        self._baseline.show(entry, seen)
        await self._flush()
        at, by = self._baseline.stamp(name) or (None, None)
        record, listed = self._baseline.record(name), self._baseline.listed.records
        others = inspection.elsewhere(seen, self._daemon.fleet.catalog)
        report = partial(self._report, seen, record, listed, others)
        return {
            "name": name,
            "standing": self._baseline.standing(entry),
            "decided_at": None if at is None else stamp(at),
            "decided_by": by,
            "instructions": inspection.instructions_report(seen, record),
            **await anyio.to_thread.run_sync(report),
            "switched_off": sorted(switched_off(entry, seen.tools)),
            "approve": approvals.command("approve", name),
        }

    async def approve(self, name: str, tools: Sequence[str] | None, by: str) -> Json:
        """Let a server in with these tools as they are, or with all that it lists and isn't blocked.

        What changed since an operator was shown it is left waiting, and named in the answer.
        """
        entry = self._entry(name)
        waits = self._baseline.standing(entry) != "approved"
        shown = self._baseline.shown(entry)
        seen = shown if waits and shown is not None else await self._seen(entry)
        if tools is None:
            blocked = self._blocked(name)
            chosen = [tool for tool in seen.tools.values() if tool.name not in blocked]
        else:
            chosen = [self._tool(seen, tool) for tool in tools]
        stale = [] if shown is None else [tool.name for tool in chosen if not _same(tool, shown)]
        fit = [tool for tool in chosen if tool.name not in stale]
        says = seen.instructions if tools is None else None
        if says and shown is not None and shown.instructions != says:
            says, stale = None, [*stale, "its instructions"]
        besides, other = _as_shown(seen, shown)
        if tools is None:
            stale += other
        if waits:
            self._baseline.approve(entry, by)
        for kind, fitting in besides.items():
            if tools is None or waits:  # with some of its tools alone, the rest waits
                self._baseline.listed.accept(name, kind, fitting if tools is None else (), by)
        if seen.tools or says or seen.state == "ready":
            self._baseline.accept(seen, fit, says, by)
        await self._release(entry)  # it connects from here on, to what is on record by now
        count = sum(map(len, besides.values())) if tools is None else 0
        found = await self._done("approved", name, fit, by, stale, count)
        record = self._baseline.record(name)
        if seen.error and record is not None and not record.listed:
            found["note"] = (
                f"its tools could not be seen ({seen.error}); those that it lists first are approved with it"
            )
        return found

    async def block(self, name: str, tools: Sequence[str] | None, by: str) -> Json:
        """Keep a server, or these tools of it, out until they are approved again."""
        entry = self._entry(name)
        if tools is None:
            self._baseline.block(entry, by)
            return await self._done("blocked", name, [], by)
        seen = await self._seen(entry)
        chosen = [self._tool(seen, tool) for tool in tools]
        self._baseline.block_tools(entry, chosen, by)
        return await self._done("blocked", name, chosen, by)

    # below them

    def _report(
        self,
        seen: Server,
        record: ServerRecord | None,
        listed: Mapping[tuple[str, Kind], Mapping[str, str]],
        others: Mapping[str, str],
    ) -> Json:
        """What a server lists against what is on record of it. For a thread: it reads the file."""
        name = seen.name
        decided, kept = self._baseline.details(name), self._baseline.listed_details(name)
        return {
            "tools": [
                inspection.tool_report(tool, record, decided.get(tool.name), others)
                for tool in seen.tools.values()
            ],
            "prompts_and_resources": [
                inspection.listed_report(
                    one, listed.get((name, one.kind)), kept.get((one.kind, one.name)), others
                )
                for each in seen.others.values()
                for one in each.values()
            ],
            "not_listed": [tool for tool in decided if tool not in seen.tools],
        }

    def _entry(self, name: str) -> ServerSettings:
        known = self._daemon.settings.servers
        for entry in known:
            if entry.name == name:
                return entry
        if (why := self._daemon.server_errors.get(name)) is not None:
            raise Refused(
                "INVALID_REQUEST", f"server {name!r} can't be used as it is written: {why}"
            )
        raise Refused("NOT_FOUND", entries.no_server(name, [entry.name for entry in known]))

    async def _seen(self, entry: ServerSettings) -> Server:
        """What the server lists now, held back or not."""
        if not entry.enabled:
            raise Refused(
                "INVALID_REQUEST",
                f"server {entry.name!r} is disabled, so its tools can't be seen; "
                f"mcpproxy upstream enable {entry.name}",
            )
        fleet = self._daemon.fleet
        also = partial(all_of, entry.name)
        if self._baseline.standing(entry) != "approved":
            return await fleet.look(entry.name, also)
        await fleet.known([entry.name])
        seen, connection = fleet.seen(entry.name), fleet.connection(entry.name)
        if connection is None:
            return seen
        others = await also(connection)
        for kind, found in others.items():
            # A first list is approved, whoever asks for it.
            fleet.sort_listed(entry.name, kind, found)
        return replace(seen, others=others)

    def _tool(self, seen: Server, name: str) -> Tool:
        if (found := seen.tools.get(name)) is None:
            if not seen.tools and seen.error:
                raise Refused(
                    "NOT_FOUND", f"the tools of {seen.name!r} are not known: {seen.error}"
                )
            raise Refused(
                "NOT_FOUND",
                f"server {seen.name!r} lists no tool {name!r}{gates.meant(name, seen.tools)} "
                f"{approvals.command('inspect', seen.name)} shows all",
            )
        return found

    async def _release(self, entry: ServerSettings) -> None:
        """Have the file no longer say that the server is in quarantine, if it does."""
        if not entry.quarantined:
            return
        try:
            await self._daemon.configuration.change(lambda text: entries.release(text, entry.name))
        except SettingsError as error:
            raise Refused("INVALID_REQUEST", str(error)) from error

    async def _flush(self) -> None:
        try:
            await self._baseline.flush()
        except (sqlite3.Error, OSError, ValueError) as error:
            raise Refused(
                "EXECUTION_FAILED",
                f"this holds until the daemon ends, but can't be written to the state directory: {error}; "
                + mend(error, self._baseline.path, "see mcpproxy doctor"),
            ) from error

    async def _done(
        self,
        verb: Literal["approved", "blocked"],
        name: str,
        tools: Sequence[Tool],
        by: str,
        stale: Sequence[str] = (),
        besides: int = 0,
    ) -> Json:
        fleet = self._daemon.fleet
        fleet.reconsider()
        listed = [tool.name for tool in tools]
        logger.info("server '%s': %s by %s: %d tools", name, verb, by, len(listed))
        self._daemon.journal.record(
            "approval",
            "ok",
            code=verb.upper(),
            server=name,
            caller=by,
            detail={
                "tools": [text(tool, 256) for tool in listed[:MOST_NAMES]],
                "count": len(listed),
                "prompts_and_resources": besides,
            },
        )
        await self._flush()
        seen = fleet.catalog.servers[name]
        return {
            "name": name,
            "state": seen.state,
            "approved": listed if verb == "approved" else [],
            "prompts_and_resources": besides,
            "waiting": [one for one, held in seen.held.items() if held.waits],
            "blocked": self._blocked(name),
            "changed_since_inspected": list(stale),
        }

    def _blocked(self, name: str) -> list[str]:
        record = self._baseline.record(name)
        return [tool for tool, known in record.tools.items() if known.blocked] if record else []


def _as_shown(seen: Server, shown: Server | None) -> tuple[dict[Kind, list[Listed]], list[str]]:
    """The prompts and resources that are as an operator was shown them, and names of the others."""
    fitting: dict[Kind, list[Listed]] = {}
    other: list[str] = []
    for kind, found in seen.others.items():
        before = found if shown is None else shown.others.get(kind, {})
        fitting[kind] = []
        for name, one in found.items():
            if (known := before.get(name)) is not None and known.fingerprint == one.fingerprint:
                fitting[kind].append(one)
            else:
                other.append(f"{kind} {name}")
    return fitting, other


def _same(tool: Tool, shown: Server) -> bool:
    before = shown.tools.get(tool.name)
    return before is not None and approvals.fingerprint(before) == approvals.fingerprint(tool)
