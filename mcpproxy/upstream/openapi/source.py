"""A document as a server: its operations are tools, and a call is one request.

schema → request → credentials → HTTP → result
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpcore2

from mcpproxy.catalog import running
from mcpproxy.redaction import SECRETS, Secrets
from mcpproxy.upstream import inside
from mcpproxy.upstream.checker import Checker, TooMuch
from mcpproxy.upstream.failure import Failure, failed
from mcpproxy.upstream.fetching import connections, fetch
from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.inside import Announce, Json, Report, Source
from mcpproxy.upstream.openapi import answer, sending
from mcpproxy.upstream.openapi.document import LARGEST
from mcpproxy.upstream.openapi.operation import Operation
from mcpproxy.upstream.openapi.reading import Api, Wanted, load
from mcpproxy.upstream.openapi.security import Client, Credential
from mcpproxy.upstream.openapi.styles import Unwritable
from mcpproxy.upstream.openapi.token import Tokens
from mcpproxy.upstream.references import Unreachable
from mcpproxy.upstream.request import Request

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Between looks at the files of a document."""
LARGEST_ANSWER = 16 * 2**20
"""Bytes of an answer; a script that is given more has no room for it anyway."""
LARGE_ANSWER = 64 * 2**10
"""Bytes of an answer that is read in a thread."""
MOST_HIDDEN = 8
"""Tokens that are hidden in texts; what came before them opens nothing any more."""
ACCEPT = "application/json, application/yaml, text/yaml, */*;q=0.5"


class ApiSource(Source):
    """See the module. Made by `open_api`."""

    def __init__(
        self,
        name: str,
        wanted: Wanted,
        note: Callable[[list[str]], None],
        pool: httpcore2.AsyncConnectionPool,
    ) -> None:
        self._pool = pool
        self._name = name
        self.wanted = wanted
        self._note = note
        self._said: frozenset[str] = frozenset()
        self._checkers: dict[str, Checker | None] = {}
        self._tokens = Tokens(wanted.hosts)
        self._hidden: deque[str] = deque()
        self._secrets = Secrets()
        """What may come back in an answer: our own credentials, and nobody else's."""
        self.api = Api({}, (), (), {}, "", ())

    def become(self, api: Api) -> None:
        """Go by what was read, and say what can't be used and wasn't said before."""
        self.api = api
        self._checkers = {}
        faults = [f"{fault}; it is left out" for fault in api.faults]
        texts = [*faults, *api.notes]
        news = [text for text in texts if text not in self._said]
        self._said = frozenset(texts)
        self.say(news)
        for each in api.credentials.values():
            if isinstance(each, Credential):
                for part in {each.value, each.value.partition(" ")[2]}:
                    self._hide(part, each.name)
        for name, value in self.wanted.headers.items():
            if len(value) >= 16:
                self._hide(value.partition(" ")[2] or value, name)

    def say(self, lines: list[str]) -> None:
        """In the daemon's log, and in the server's own."""
        for line in lines:
            logger.warning("server '%s': %s", self._name, line)
        if lines:
            self._note(lines)

    def _hide(self, value: str, name: str) -> None:
        SECRETS.add(value, f"({name})")
        self._secrets.add(value, f"({name})")

    def tools(self) -> list[Json]:
        return [running(one.definition, self._runs(one)) for one in self.api.operations.values()]

    def _runs(self, operation: Operation) -> Json:
        """Which request a call makes. A base of the settings is part of the entry that was approved."""
        base = "" if self.wanted.base_url is not None else operation.base
        return {"method": operation.method, "url": base + operation.path}

    async def call(self, name: str, arguments: Json, report: Report) -> Json:
        if name not in self.api.operations:
            raise inside.Unfit(f"there is no tool {name[:100]!r}; tools/list has them all")
        try:
            return await self._result(name, arguments)
        except Failure as error:
            return failed(error)

    async def _result(self, name: str, arguments: Json) -> Json:
        """Raises `Failure`."""
        operation = self.api.operations[name]
        if (checker := self._checker(name)) is not None:
            if faults := checker.faults(arguments, "arguments"):
                raise Failure("EINVAL", faults)
        chosen = [self.api.credentials[scheme] for scheme in operation.security]
        keys = [each for each in chosen if isinstance(each, Credential)]
        clients = [each for each in chosen if isinstance(each, Client)]
        keys += [await self._token(client) for client in clients]
        try:
            request = sending.request(operation, arguments, keys, self.wanted.headers)
        except Unwritable as error:
            raise Failure("EINVAL", str(error)) from error
        response = await fetch(request, self.wanted.hosts, LARGEST_ANSWER, pool=self._pool)
        if response.status == 401:
            for client in clients:
                self._tokens.forget(client)  # the next call asks for another
        if len(response.body) > LARGE_ANSWER:
            return await anyio.to_thread.run_sync(answer.result, response, name, self._secrets)
        return answer.result(response, name, self._secrets)

    def _checker(self, name: str) -> Checker | None:
        """What holds arguments against their schema; None where that is left to the API. Raises `Failure`."""
        if name not in self._checkers:
            try:
                self._checkers[name] = Checker(self.api.operations[name].definition["inputSchema"])
            except TooMuch:
                self._checkers[name] = None
            except Bad as error:
                raise Failure("EINTERNAL", str(error)) from error
        return self._checkers[name]

    async def _token(self, client: Client) -> Credential:
        token = await self._tokens.get(client)
        if token not in self._hidden:
            self._hide(token, "token")
            self._hidden.append(token)
        while len(self._hidden) > MOST_HIDDEN:
            old = self._hidden.popleft()
            SECRETS.forget(old)
            self._secrets.forget(old)
        return Credential("header", "Authorization", f"Bearer {token}")


# ── its life ────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def open_api(
    name: str,
    wanted: Wanted,
    refresh: float,
    note: Callable[[list[str]], None],
    announce: Announce,
) -> AsyncIterator[Source]:
    """The API of a document, which is read again when its files change; from a URL, every `refresh` seconds.

    `note` takes lines for the server's log. Raises `Unreachable` where the document can't be used.
    """
    loaded = await _load(wanted)
    async with connections(wanted.hosts) as pool, anyio.create_task_group() as tasks:
        source = ApiSource(name, wanted, note, pool)
        source.become(loaded.api)
        tasks.start_soon(_follow, source, loaded, refresh, announce)
        try:
            yield source
        finally:
            tasks.cancel_scope.cancel()


class _Loaded:
    """What was read, and how to see that it is another now: bytes of a URL, or times and sizes of files."""

    def __init__(self, api: Api, mark: object) -> None:
        self.api = api
        self.mark = mark


async def _load(wanted: Wanted, before: object = None) -> _Loaded:
    """Raises `Unreachable`."""
    try:
        if wanted.file is not None:
            seen = _mark([wanted.file])
            api = await anyio.to_thread.run_sync(load, wanted)
            # what changed meanwhile is read once more
            return _Loaded(api, _mark(api.files) if _mark([wanted.file]) == seen else None)
        fetched = await _fetched(wanted)
        if fetched == before:
            raise _Same
        return _Loaded(await anyio.to_thread.run_sync(load, wanted, fetched), fetched)
    except Bad as error:
        where = f"{error.file or wanted.document}" + (f":{error.line}" if error.line else "")
        raise Unreachable(f"its document {SECRETS.hide(where)} can't be used: {error}") from error


class _Same(Exception):
    """The document is as it was."""


def _mark(files: Iterable[Path]) -> object:
    found = []
    for path in files:
        try:
            stat = path.stat()
            found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            found.append((path, 0, 0, 0))
    return found


async def _fetched(wanted: Wanted) -> bytes:
    """Raises `Unreachable`."""
    url = wanted.document
    headers = [("Accept", ACCEPT)]
    if not wanted.base_url or urlsplit(wanted.base_url)[:2] == urlsplit(url)[:2]:
        headers += wanted.headers.items()
    request = Request("GET", url.partition("#")[0], tuple(headers), None)
    try:
        response = await fetch(request, wanted.hosts, LARGEST)
    except Failure as error:
        raise Unreachable(f"its document can't be fetched: {error.message}") from error
    if response.status != 200:
        raise Unreachable(f"its document can't be fetched: HTTP {response.status}; check its URL")
    return response.body


async def _follow(source: ApiSource, loaded: _Loaded, refresh: float, announce: Announce) -> None:
    """Go by the document as it is now, for ever; while it can't be used, by the last one that could."""
    failed_with = ""
    if source.wanted.file is None and not refresh:
        return
    while True:
        await anyio.sleep(LOOK_SECONDS if source.wanted.file else refresh)
        seen = _mark(source.api.files)
        if source.wanted.file and seen == loaded.mark:
            continue
        try:
            loaded = await _load(source.wanted, loaded.mark)
        except _Same:
            failed_with = ""
        except Unreachable as error:
            if source.wanted.file:
                loaded.mark = seen
            if str(error) != failed_with:
                failed_with = str(error)
                source.say([f"{error}; it stays as it was"])
        else:
            failed_with = ""
            before = source.tools()
            source.become(loaded.api)
            if source.tools() != before:
                announce("tools")
