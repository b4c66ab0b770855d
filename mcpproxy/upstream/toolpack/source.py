"""A pack as a server: its tools and prompts, kept as its files are, and what a call goes through.

size, schema → templates → kept result? → process or HTTP → envelope → schema → result
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from mcpproxy.catalog import running
from mcpproxy.redaction import SECRETS
from mcpproxy.upstream import inside
from mcpproxy.upstream.failure import UNKNOWN, Failure, failed
from mcpproxy.upstream.fetching import fetch
from mcpproxy.upstream.inside import Announce, Report, Source
from mcpproxy.upstream.references import INHERITED
from mcpproxy.upstream.request import Request, wire
from mcpproxy.upstream.toolpack import commands, reading, templating
from mcpproxy.upstream.toolpack.cache import Cache, Shelf, key_of
from mcpproxy.upstream.toolpack.commands import Command
from mcpproxy.upstream.toolpack.endpoints import Endpoint
from mcpproxy.upstream.toolpack.processes import run
from mcpproxy.upstream.toolpack.reading import Pack, Tool
from mcpproxy.upstream.toolpack.results import has_data, of_program, of_response, shown
from mcpproxy.watching import watch

logger = logging.getLogger(__name__)

Json = dict[str, Any]

MOST_ARGUMENTS = 256 * 2**10
"""Bytes of a prompt's arguments."""
PROGRAMS = max(8, 4 * (os.cpu_count() or 1))
"""Programs of a pack that run at once; other calls wait for their turn."""
LARGE_RESULT = 64 * 2**10
"""Bytes of a result that is read in a thread."""
LARGE = 8 * 2**10
"""Bytes of an input for which templates are rendered in a thread: nobody else is to wait for that."""


class PackSource(Source):
    """See the module. Made by `open_pack`."""

    def __init__(
        self,
        name: str,
        pack: Pack,
        environ: Mapping[str, str],
        cache: Cache,
        note: Callable[[list[str]], None],
    ) -> None:
        self._name = name
        self.environ = environ
        self._cache = cache
        self._note = note
        self._said: frozenset[str] = frozenset()
        self._turns = anyio.CapacityLimiter(PROGRAMS)
        self.pack = pack
        self.become(pack)

    def become(self, pack: Pack) -> None:
        """Go by what was read, and say what can't be used and wasn't said before."""
        self.pack = pack
        faults = [str(fault) for fault in pack.faults]
        news = [text for text in faults if text not in self._said]
        self._said = frozenset(faults)
        for text in news:
            logger.warning("server '%s': %s; it is left out until that is mended", self._name, text)
        if news:
            self._note([f"left out: {text}" for text in news])
        for tool in pack.tools.values():
            for variable in tool.file.env:
                if variable not in INHERITED and (value := self.environ.get(variable)):
                    SECRETS.add(value, f"${{env:{variable}}}")

    # lists

    def tools(self) -> list[Json]:
        return [running(tool.definition, tool.runs) for tool in self.pack.tools.values()]

    def prompts(self) -> list[Json]:
        return [running(one.definition(), one.gives()) for one in self.pack.prompts.values()]

    async def prompt(self, name: str, arguments: Json) -> Json:
        found = self.pack.prompts.get(name)
        if found is None:
            raise inside.Unfit(f"there is no prompt {name[:100]!r}; prompts/list has them all")
        if len(wire(arguments)) > MOST_ARGUMENTS:
            raise inside.Unfit(f"the arguments have more than {MOST_ARGUMENTS >> 10} KiB")
        try:
            return await anyio.to_thread.run_sync(found.get, arguments)
        except templating.Unfit as error:
            raise inside.Unfit(str(error)) from error

    def complete(self, prompt: str, argument: str, begun: str) -> list[str]:
        found = self.pack.prompts.get(prompt)
        return found.complete(argument, begun) if found else []

    # calls

    async def call(self, name: str, arguments: Json, report: Report) -> Json:
        tool = self.pack.tools.get(name)
        if tool is None:
            raise inside.Unfit(f"there is no tool {name[:100]!r}; tools/list has them all")
        try:
            return await self._result(tool, arguments)
        except Failure as error:
            return failed(error)

    async def _result(self, tool: Tool, arguments: Json) -> Json:
        """Raises `Failure`."""
        given = wire(arguments)
        if len(given) > (most := tool.file.limits.input):
            reason = f"the input has {len(given)} bytes, and may have {most} (limits.input)"
            raise Failure("ECAP", reason)
        if faults := tool.input.faults(arguments, "input"):
            raise Failure("EINVAL", faults)
        values = {"input": arguments, "request": arguments}
        env = {n: v for n in tool.file.env if (v := self.environ.get(n)) is not None}
        try:
            if len(given) > LARGE:
                planned, key = await anyio.to_thread.run_sync(_rendered, tool, values, env, given)
            else:
                planned, key = _rendered(tool, values, env, given)
        except templating.Unfit as error:
            raise Failure("EINVAL", str(error)) from error
        if not tool.file.deterministic:
            return shown(await self._data(tool, planned, env, given))

        async def make() -> tuple[str, bool]:
            try:
                data = await self._data(tool, planned, env, given)
                return json.dumps(shown(data)), True
            except Failure as error:
                return json.dumps(failed(error)), False

        # what a request sends is part of the key: a key of the author's can't mix up two callers' secrets
        sent = _identity(planned)
        result = await self._cache.get(key_of(tool.file.id, tool.mark, env, sent, key), make)
        return cast(Json, json.loads(result))

    async def _data(
        self, tool: Tool, planned: list[str] | Request, env: Mapping[str, str], given: bytes
    ) -> Any:
        """What the tool gives, checked. Raises `Failure`."""
        if isinstance(planned, Request):
            data = await self._fetched(tool, planned)
        else:
            async with self._turns:  # whoever waits for a turn doesn't pay for it with timeoutMs
                data = await self._ran(tool, planned, env, given)
        if tool.output is not None and (faults := tool.output.faults(data, "output")):
            raise Failure("EINTERNAL", f"the tool's output doesn't fit its schema: {faults}")
        return data

    async def _ran(
        self, tool: Tool, command: list[str], env: Mapping[str, str], given: bytes
    ) -> Any:
        most, environ = tool.file.limits.output, commands.environment(tool.file.env, env)
        with _in_time(tool):
            ended = await run(command, environ, self.pack.root, given, most, self._note)
        whole = tool.output is not None and has_data(tool.output.schema)
        return await _read(len(ended.output), partial(of_program, ended, whole=whole))

    async def _fetched(self, tool: Tool, request: Request) -> Any:
        assert isinstance(tool.work, Endpoint)
        with _in_time(tool):
            response = await fetch(
                request, tool.work.allow_hosts, tool.file.limits.output, "limits.output"
            )
        return await _read(len(response.body), partial(of_response, response))


async def _read(size: int, act: Callable[[], Any]) -> Any:
    """What `act` makes of so many bytes; in a thread where that takes a while."""
    return await anyio.to_thread.run_sync(act) if size > LARGE_RESULT else act()


@contextmanager
def _in_time(tool: Tool) -> Iterator[None]:
    """Raises `Failure` when the block takes longer than the tool may."""
    milliseconds = tool.file.timeout_ms
    with anyio.move_on_after(milliseconds / 1000) as scope:
        yield
    if scope.cancelled_caught:
        raise Failure("ETIMEOUT", f"it took longer than {milliseconds} ms (timeoutMs); {UNKNOWN}")


def _rendered(
    tool: Tool, values: Mapping[str, Any], env: Mapping[str, str], given: bytes
) -> tuple[list[str] | Request, str]:
    """What is to be done for one request, and what stands for its input. Raises `Unfit`."""
    planned: list[str] | Request
    if isinstance(tool.work, Command):
        planned = tool.work.line(values)
    else:
        planned = tool.work.request(values, env, given)
    if tool.cache_key is None:
        return planned, given.decode()
    try:
        return planned, tool.cache_key.render(values)
    except templating.Unfit as error:
        raise templating.Unfit(f"templating.cacheKey: {error}") from error


def _identity(planned: list[str] | Request) -> Any:
    if isinstance(planned, Request):
        body = None if planned.body is None else planned.body.decode("latin-1")
        return [planned.method, planned.url, planned.headers, body]
    return planned


# ── its life ────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def open_pack(
    name: str,
    root: Path,
    environ: Mapping[str, str],
    kept: Path,
    note: Callable[[list[str]], None],
    announce: Announce,
) -> AsyncIterator[Source]:
    """The pack in a directory, which is read again when it changes.

    `kept` is the file for results of deterministic tools; `note` takes what tools say on stderr.
    """
    shelf = Shelf(kept)
    try:
        pack = await anyio.to_thread.run_sync(reading.read, root, environ)
        source = PackSource(name, pack, environ, Cache(shelf), note)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, source, root, announce)
            try:
                yield source
            finally:
                tasks.cancel_scope.cancel()
    finally:
        shelf.close()


async def _watch(source: PackSource, root: Path, announce: Announce) -> None:
    """Read the pack anew whenever its files change, for ever."""
    await watch(partial(_look, source, root, announce), root, recursive=True)


async def _look(source: PackSource, root: Path, announce: Announce) -> None:
    if await anyio.to_thread.run_sync(reading.sign, root) == source.pack.signature:
        return
    tools, prompts = source.tools(), source.prompts()
    source.become(await anyio.to_thread.run_sync(reading.read, root, source.environ))
    if tools != source.tools():
        announce("tools")
    if prompts != source.prompts():
        announce("prompts")
