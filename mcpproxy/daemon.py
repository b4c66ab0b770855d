"""What exists while we run, in the order in which it opens; and the verbs that the faces use."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio

from mcpproxy import __version__, gates, keptcode, request, tracing
from mcpproxy.baseline import Baseline, open_baseline
from mcpproxy.catalog import Catalog
from mcpproxy.codecache import CodeCache, Kept
from mcpproxy.configuration import Configuration, differences
from mcpproxy.discovery import Discovery
from mcpproxy.envelopes import Reply
from mcpproxy.errors import Refused, SettingsError, WorkerError
from mcpproxy.execution import CallCount, Execution, Limits
from mcpproxy.journal import changes
from mcpproxy.journal.feed import Feed
from mcpproxy.journal.trail import Trail, direct_call, noted
from mcpproxy.journal.writer import Journal, journal_of
from mcpproxy.keptcode import KeptCode
from mcpproxy.listings import Listings
from mcpproxy.paging import Pages
from mcpproxy.policy import Caller, Views
from mcpproxy.rates import Executions
from mcpproxy.request import Request
from mcpproxy.sandbox.pool import Pool, open_pool
from mcpproxy.sandbox.transformer import Transformer, open_transformer
from mcpproxy.scripts import Scripts
from mcpproxy.search import semantic
from mcpproxy.settings import Loaded, Settings
from mcpproxy.tasks import open_tasks
from mcpproxy.tokens import Tokens
from mcpproxy.upstream.connection import Client, Progress
from mcpproxy.upstream.fleet import Fleet, open_fleet
from mcpproxy.vault import Vault
from mcpproxy.view import View

logger = logging.getLogger(__name__)

STOPPING = "mcpproxy is stopping; try again when it is back"


class Daemon:
    """Everything that is up, and what can be asked of it. Made by `open_daemon`."""

    def __init__(
        self,
        loaded: Loaded,
        fleet: Fleet,
        pool: Pool,
        transformer: Transformer,
        vault: Vault,
        journal: Journal,
        baseline: Baseline,
        *,
        lasting: bool = True,
    ) -> None:
        self.settings = loaded.settings
        """Replaced as a whole when the configuration changes."""
        self.configuration = Configuration(loaded, self._apply)
        self.places = loaded.places
        self.warnings = list(loaded.warnings)
        self._said = loaded.warnings
        self.server_errors = loaded.server_errors
        self.fleet = fleet
        self.vault = vault
        self.baseline = baseline
        self.pool = pool
        self.journal = journal
        self.meter = journal.meter
        self.feed = Feed(journal)
        self.scripts = Scripts(loaded.places.scripts)
        self._views = Views()
        self._begun = Executions()
        self.tokens = Tokens(loaded.places.state)
        self.kept_code = KeptCode(
            CodeCache(loaded.places.code_cache), lambda: fleet.catalog, self.catalog_for
        )
        self.discovery = Discovery(self.catalog_for, self.kept_code.search, semantic.meanings)
        self.pages = Pages()
        self.listings = Listings(fleet)
        self.started_at = datetime.now(UTC)
        self.confinement: dict[str, bool] = {}
        """What a VM was seen not to be able to do; empty until that has been tried."""
        self._lasting = lasting
        self._transformer = transformer
        self._executions: set[Execution] = set()
        self._stopping = False

    def _apply(self, loaded: Loaded) -> None:
        """Go by other settings from now on; what runs goes on with those it began with."""
        if changed := differences(self.settings, loaded.settings):
            changes.settings(self.journal, changed, loaded.warnings)
        self.journal.become(loaded.settings)
        said = [text for text in self.warnings if text not in self._said]
        self._said = loaded.warnings
        self.settings = loaded.settings
        self.warnings = [*loaded.warnings, *said]
        self.server_errors = loaded.server_errors
        self.fleet.become(loaded.settings if self._lasting else all_lazy(loaded.settings))

    def catalog_for(self, caller: Caller) -> Catalog:
        """The catalog as this caller sees it: what it may not use isn't in it."""
        return self._views.seen(self.fleet.catalog, caller.scope)

    def view(self, caller: Caller) -> View:
        return View(caller, self.fleet, self._views, self.discovery, self.tokens)

    async def execute(
        self,
        body: Mapping[str, Any],
        caller: Caller,
        *,
        request_id: str,
        progress: CallCount | None = None,
    ) -> Reply:
        """Run the script that `body` asks for ({code | script, language, input, options}).

        Raises `Refused` before anything runs. Cancelling it ends the script at once and cancels its
        calls upstream.
        """
        with noted(self.journal, caller.name, request_id):
            wanted = request.read(body, self.settings, self.scripts, caller)
        return await self._run(wanted, caller, request_id, progress)

    async def run_cached(
        self,
        cache_id: str,
        params: Mapping[str, Any],
        caller: Caller,
        *,
        options: Any = None,
        request_id: str,
        progress: CallCount | None = None,
    ) -> Reply:
        """Run kept code again, with `params` in place of what it ran with then, and the limits of `options`.

        Raises `Refused`: NOT_FOUND for an id that is not kept, INVALID_REQUEST for a param it doesn't know.
        """
        with noted(self.journal, caller.name, request_id):
            request.check_on(self.settings)
            kept = await anyio.to_thread.run_sync(self.kept_code.find, cache_id, caller)
            body = keptcode.run_again(kept, params, options)
            wanted = request.read(body, self.settings, self.scripts, caller)
        changed = self.kept_code.changed(kept, caller)
        return await self._run(
            replace(wanted, warnings=wanted.warnings + changed), caller, request_id, progress, kept
        )

    async def _run(
        self,
        wanted: Request,
        caller: Caller,
        request_id: str,
        progress: CallCount | None,
        kept: Kept | None = None,
    ) -> Reply:
        with noted(self.journal, caller.name, request_id):
            if self._stopping:
                raise Refused("EXECUTION_FAILED", STOPPING)
            self._pace(caller)
        view = self.view(caller)
        trail = Trail(self.journal, caller.name, request_id)
        execution = Execution(
            wanted,
            limits(self.settings),
            self.pool,
            self._transformer,
            view,
            view,
            request_id,
            progress,
            trail,
        )
        self._executions.add(execution)
        reply: Reply | None = None
        try:
            with tracing.span("mcpproxy.execution", {"mcpproxy.request_id": request_id}) as span:
                reply = await self._ran(execution, wanted, caller, kept)
                span.set_attribute("mcpproxy.outcome", reply.code or "ok")
            return reply
        finally:
            self._executions.discard(execution)
            # Before anybody gets the reply: what is known to have happened is on record.
            cached = {} if kept is None else {"cache_id": kept.cache_id}
            trail.ended(wanted.account() | cached, reply, execution.seen)

    async def _ran(
        self, execution: Execution, wanted: Request, caller: Caller, kept: Kept | None
    ) -> Reply:
        began = anyio.current_time()
        reply = await execution.run()
        if not (reply.ok and wanted.description and wanted.script is None):
            return reply
        code = Kept(
            source=wanted.source,
            language=execution.language,
            description=wanted.description,
            input=wanted.input if kept is None else kept.input,
            tools=execution.called if kept is None else {**execution.called, **kept.tools},
            # A run counts for whoever keeps the program, though somebody else asked for it.
            owner=caller.owner if kept is None else kept.owner,
            ms=round((anyio.current_time() - began) * 1000),
        )
        if kept is not None:
            code = replace(code, kept=kept.kept)
        return await self._keep(code, reply)

    async def _keep(self, code: Kept, reply: Reply) -> Reply:
        """The reply with the id under which its code is kept; code that can't be kept ran all the same."""
        try:
            cache_id = await anyio.to_thread.run_sync(self.kept_code.keep, code)
        except Refused as error:
            warnings = [*reply.envelope.get("warnings", ()), f"the code was not kept: {error}"]
            return Reply(reply.ok, {**reply.envelope, "warnings": warnings})
        return Reply(reply.ok, {**reply.envelope, "cache_id": cache_id})

    def _pace(self, caller: Caller) -> None:
        """Raises `Refused` when the caller has begun as many executions as it may in a minute."""
        most = caller.ceilings.executions_per_minute
        if most is None or not (wait := self._begun.begin(caller.name, most)):
            return
        raise Refused(
            "RATE_LIMITED",
            f"this token may begin {most} execution(s) a minute; try again in {math.ceil(wait)} s, or do more in one",
            retry_after_ms=math.ceil(wait * 1000),
        )

    def stop(self) -> None:
        """End what runs and take nothing new; each caller gets a reply that says so."""
        self._stopping = True
        for execution in self._executions:
            execution.stop(STOPPING)
        self.feed.close()

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        caller: Caller,
        *,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> dict[str, Any]:
        """One tool call from outside a script, through the same gates; gives the raw wire result.

        Raises `CallError`.
        """
        view = self.view(caller)
        with direct_call(self.journal, server, tool, arguments, caller.name) as call:
            found = view.find(server, tool)
            if found is not None:
                gates.check_arguments(found, arguments)
            call.result = await view.call(
                server,
                tool,
                arguments,
                started=call.timing.now,
                progress=progress,
                meta=meta,
                client=client,
            )
        return call.result

    async def request(
        self,
        server: str,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        *,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        client: Client | None = None,
    ) -> dict[str, Any]:
        """Any other request of a client to one server: a prompt, a resource, a completion.

        Raises `CallError`, and `MCPError` where the server itself refused.
        """
        gates.check_server(caller, server)
        with direct_call(self.journal, server, method, params, caller.name, "request") as call:
            call.timing.now()
            call.result = await self.fleet.request(
                server, method, params, progress=progress, meta=meta, client=client
            )
        return call.result

    async def verify(self) -> None:
        """Have a VM try what it must not be able to do, and warn of what is not stopped."""
        self.confinement = await self.pool.verify()
        open_doors = [act for act, stopped in self.confinement.items() if not stopped]
        if open_doors:
            text = f"scripts are not fully confined on this machine: a VM was able to {', '.join(open_doors)}"
            self.warnings.append(text)
            logger.warning("%s; see docs/threat-model.md", text)


def limits(settings: Settings) -> Limits:
    """What every execution keeps to, whatever its request says."""
    return Limits(
        memory_mb=settings.code_execution_memory_mb,
        max_result_bytes=settings.code_execution_max_result_bytes,
        max_parallel=settings.code_execution_max_parallel,
        queue_seconds=settings.code_execution_queue_timeout_ms / 1000,
    )


@asynccontextmanager
async def open_daemon(
    loaded: Loaded, environ: Mapping[str, str], *, lasting: bool = True
) -> AsyncIterator[Daemon]:
    """A daemon whose processes and connections live no longer than this block.

    `lasting` is false for one that runs a single script: it prepares nothing ahead of need, and
    connects only the servers that the script asks for.

    Raises `SettingsError` when `code_execution_require_confinement` asks for more than this machine has.
    """
    settings = loaded.settings if lasting else all_lazy(loaded.settings)
    places, vault = loaded.places, Vault(loaded.places.state)
    async with (
        journal_of(loaded, lasting=lasting) as journal,
        open_baseline(places.approvals) as baseline,
        open_fleet(settings, environ, places.logs, places.state, baseline) as fleet,
        open_pool(settings.code_execution_pool_size, settings.code_execution_memory_mb) as pool,
        open_transformer(places.state / "compiled") as transformer,
        open_tasks() as tasks,
    ):
        daemon = Daemon(loaded, fleet, pool, transformer, vault, journal, baseline, lasting=lasting)
        if lasting:
            fleet.listen(changes.Servers(journal))
            fleet.logins.note = changes.logins(journal)
            journal.record("system", "ok", code="STARTED", detail={"version": __version__})
        tasks.start_soon(baseline.keep)
        try:
            if settings.code_execution_require_confinement:
                await _insist(daemon)
            elif lasting:
                tasks.start_soon(_prepare, daemon, transformer)
            yield daemon
        finally:
            daemon.kept_code.cache.close()
            if lasting:
                journal.record("system", "ok", code="STOPPED")


async def _insist(daemon: Daemon) -> None:
    """Raises `SettingsError` where scripts can't be fully confined."""
    try:
        await daemon.verify()
    except WorkerError as error:
        raise SettingsError(
            f"code_execution_require_confinement is true, but could not be tried: {error}"
        ) from error
    if not all(daemon.confinement.values()):
        why = "; ".join(daemon.warnings[-1:])
        raise SettingsError(f"code_execution_require_confinement is true, but {why}")


def all_lazy(settings: Settings) -> Settings:
    """The settings with each server connected at its first use."""
    servers = tuple(server.model_copy(update={"lazy": True}) for server in settings.servers)
    return settings.model_copy(update={"servers": servers})


async def _prepare(daemon: Daemon, transformer: Transformer) -> None:
    """What can be done before somebody asks: nothing waits for it."""
    try:
        await daemon.verify()
    except WorkerError as error:
        logger.warning("whether scripts are confined could not be tried: %s", error)
    try:
        await transformer.warm()
    except WorkerError as error:
        logger.warning("TypeScript is not available: %s", error)
