"""The daemon within a Python program, without a listener: `async with Proxy(config) as proxy: ...`.

What runs is what `mcpproxy serve` runs, for the caller "local". Servers are connected when the block
begins, and nothing is left when it ends: no process, no thread, no connection.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from mcpproxy.errors import CallError, ExecutionError, Refused, SettingsError

if TYPE_CHECKING:
    from typing import Self

    from mcpproxy.catalog import Tool
    from mcpproxy.daemon import Daemon
    from mcpproxy.settings import Loaded

Json = dict[str, Any]
Config = str | os.PathLike[str] | Mapping[str, Any]

CLOSED = "the proxy is not open: use it within `async with Proxy(config) as proxy:`"


@dataclass(frozen=True, slots=True)
class Execution:
    """How a program went that ran to its end."""

    value: Any
    """What it gave: JSON data."""
    logs: list[Json] = field(default_factory=list)
    """What it wrote to the console: level and message each."""
    warnings: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    """The calls that it made, where `trace` asked for them."""
    cache_id: str | None = None
    """Under which it is kept, where a `description` was given."""


class Proxy:
    """A daemon for as long as its block.

    `config` is the path of a configuration file, or its content; without it, the default file is
    used. The state of a file's daemon (approvals, journal, kept code) lies where `mcpproxy serve` keeps it. With a
    content it lies in the `data_dir` that this names, or else in a directory that is removed at the end.
    `environ` is what the configuration's `${env:NAME}` refer to: this process's environment unless given.

    Entering the block raises `SettingsError` for a configuration that can't be used.
    """

    def __init__(
        self, config: Config | None = None, *, environ: Mapping[str, str] | None = None
    ) -> None:
        self._config = config
        self._environ = os.environ if environ is None else environ
        self._stack: AsyncExitStack | None = None
        self._daemon: Daemon | None = None

    async def __aenter__(self) -> Self:
        from mcpproxy.daemon import open_daemon

        async with AsyncExitStack() as stack:
            loaded = load(self._config, self._environ, stack)
            daemon = await stack.enter_async_context(open_daemon(loaded, self._environ))
            stack.callback(daemon.stop)
            self._stack, self._daemon = stack.pop_all(), daemon
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack, self._stack, self._daemon = self._stack, None, None
        assert stack is not None
        await stack.__aexit__(kind, error, trace)

    @property
    def daemon(self) -> Daemon:
        """What is open, for what this class has no verb for. Not part of the stable interface.

        Raises `RuntimeError` outside of the block.
        """
        if self._daemon is None:
            raise RuntimeError(CLOSED)
        return self._daemon

    async def execute(
        self,
        code: str | None = None,
        input: Mapping[str, Any] | None = None,
        *,
        script: str | None = None,
        language: Literal["javascript", "typescript"] | None = None,
        description: str | None = None,
        timeout_ms: int | None = None,
        max_tool_calls: int | None = None,
        allowed_servers: Sequence[str] | None = None,
        trace: bool = False,
    ) -> Execution:
        """Run a program, or the stored script of a name, with `input` as its `input`.

        What is left out is as configured. Raises `Refused` before anything ran, and `ExecutionError`
        for a program that failed. Cancelling it ends the program and its calls.
        """
        options = {
            "timeout_ms": timeout_ms,
            "max_tool_calls": max_tool_calls,
            "allowed_servers": listed(allowed_servers),
            "trace": trace or None,
        }
        body = given(
            code=code,
            script=script,
            language=language,
            description=description,
            input=dict(input) if isinstance(input, Mapping) else input,
            options=given(**options) or None,
        )
        for name, value in body.items():
            try:
                body[name] = as_json({name: value})[name]
            except ValueError as error:
                raise Refused("INVALID_REQUEST", f"{name} must be JSON data: {error}") from error
        from mcpproxy.policy import LOCAL

        reply = await self.daemon.execute(body, LOCAL, request_id=uuid.uuid4().hex)
        if not reply.ok:
            raise ExecutionError(reply.envelope)
        found = {**reply.envelope}
        del found["ok"]
        return Execution(**{name: found[name] for name in Execution.__slots__ if name in found})

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call one tool, "server:tool", through the same gates; gives its data.

        That is its structured content, or else the JSON in its one text block, or that text, or
        else its content blocks. Raises `CallError`: TOOL_ERROR where the tool itself reports one.
        """
        from mcpproxy.envelopes import toolcall_envelope
        from mcpproxy.locating import NoTool, located
        from mcpproxy.policy import LOCAL

        arguments = {} if arguments is None else arguments
        if not isinstance(arguments, Mapping):
            raise CallError("INVALID_ARGS", f"arguments must be a mapping, not {arguments!r:.80}")
        try:
            sent = as_json(arguments)
            found = await located(self.daemon, tool, LOCAL)
        except ValueError as error:
            raise CallError("INVALID_ARGS", f"arguments must be JSON data: {error}") from error
        except NoTool as error:
            raise CallError("TOOL_NOT_FOUND", str(error.args[0])) from None
        result = await self.daemon.call(found.server, found.tool, sent, LOCAL)
        envelope = toolcall_envelope(result)
        if not envelope["ok"]:
            raise CallError("TOOL_ERROR", envelope["error"]["message"], result=result)
        return data_of(result)

    async def tools(self) -> list[Tool]:
        """All tools, once each server has connected or failed: `server`, `name`, `input_schema`, ..."""
        await self.daemon.fleet.known()
        return list(self.daemon.fleet.catalog.tools())

    async def search(self, query: str, limit: int | None = None) -> list[Json]:
        """The tools that fit some words, the best first: name, description and signature of each.

        Raises `ValueError` for a limit that is none.
        """
        import anyio

        await self.daemon.fleet.settled()
        search = self.daemon.discovery.search_tools
        found = await anyio.to_thread.run_sync(search, query, limit)
        return list(found["tools"])


def load(config: Config | None, environ: Mapping[str, str], stack: AsyncExitStack) -> Loaded:
    """The settings, and a home for the state of a configuration that isn't a file.

    Raises `SettingsError`.
    """
    from mcpproxy import paths, settings

    if not isinstance(config, Mapping):
        file = paths.config_file(None if config is None else os.fspath(config))
        return settings.load(file, environ, create=config is None)
    home = Path(tempfile.mkdtemp(prefix="mcpproxy-"))
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    try:
        document = as_json(config)
    except ValueError as error:
        raise SettingsError(f"the configuration must be JSON data: {error}") from error
    document.setdefault("data_dir", str(home / "state"))
    return settings.check(home / "mcp_config.json", document, environ)


def listed(names: Sequence[str] | None) -> object:
    """The names as an array. One name alone is no list of its letters: whoever reads it refuses it."""
    return list(names) if isinstance(names, Collection) and not isinstance(names, str) else names


def as_json(value: Mapping[str, Any]) -> Json:
    """A copy as it would have come over the wire. Raises `ValueError` for what is no JSON."""
    try:
        found: Json = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return found


def given(**members: Any) -> Json:
    """The members that aren't None."""
    return {name: value for name, value in members.items() if value is not None}


def data_of(result: Mapping[str, Any]) -> Any:
    """What a tool's result says, as a program's typed call is given it."""
    if "structuredContent" in result:
        return result["structuredContent"]
    match content := result.get("content"):
        case [{"type": "text", "text": str(text)}]:
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return text
    return content
