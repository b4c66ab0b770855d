"""Questions that a server asks while it works on a call, put to the client that made the call.

Servers of the older revisions push a question and wait; those of 2026-07-28 answer the call with
the question and are called again with the answer. Clients differ in the same way, so that there are
four cases:

    client    server    what happens
    modern    modern    question and answer pass through as they are
    legacy    modern    the client is asked on its back-channel, and the call made again
    legacy    legacy    the question goes to the back-channel
    modern    legacy    the call is kept running; the client gets the question and comes back to it
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpproxy.errors import CallError
from mcpproxy.upstream.connection import Client, Progress

Json = dict[str, Any]
Ask = Callable[[str, Json], Awaitable[Json]]
Send = Callable[[Client | None, Progress | None], Awaitable[Json]]

CAPABILITIES = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must have declared to be asked."""

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LOG_LEVEL = "log level"
"""Where the SDK's state of a legacy connection has the level that its client set."""

MOST_ROUNDS = 20
KEPT_SECONDS = 300.0
"""How long a question waits for its client's answer; the call's own time stands still meanwhile."""
MOST_KEPT = 1000
TOKEN = "mcpproxy-question:"  # noqa: S105 - a beginning that everybody knows
"""How the `requestState` of our own questions begins."""
KEY = "question"


@dataclass(frozen=True)
class Asker:
    """The client of one request, as far as it can be asked."""

    owner: str
    modern: bool
    capabilities: Json
    retry: Json
    channel: Ask | None
    report: Progress | None
    log_level: str | None
    notify: Callable[[str, Json], Awaitable[None]]

    @classmethod
    def of(cls, ctx: ServerRequestContext[Any, Any], owner: str) -> Asker:
        """The client of a request, and what it can be asked."""
        params = ctx.params or {}
        meta = params.get("_meta")
        meta = meta if isinstance(meta, Mapping) else {}
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        channel: Ask | None = None
        # `_request_outbound` has no public accessor in this SDK: what is raw goes out there.
        outbound = ctx.session._request_outbound
        if modern:
            declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY)
            level = meta.get(types.LOG_LEVEL_META_KEY)
        else:
            level = ctx.session._connection.state.get(LOG_LEVEL)
            typed = ctx.session.client_capabilities
            declared = typed.model_dump(by_alias=True, exclude_none=True) if typed else None
            if ctx.session.can_send_request:

                async def channel(method: str, params: Json) -> Json:
                    within: CallOptions = {"timeout": KEPT_SECONDS}
                    return await outbound.send_raw_request(method, params, within)

        declared = declared if isinstance(declared, Mapping) and (modern or channel) else {}
        return cls(
            owner=owner,
            modern=modern,
            capabilities={k: v for k, v in declared.items() if k in CAPABILITIES.values()},
            retry={k: params[k] for k in ("inputResponses", "requestState") if k in params},
            channel=channel,
            report=ctx.session.report_progress if meta.get("progressToken") is not None else None,
            log_level=level if level in LEVELS else None,
            notify=outbound.notify,
        )

    @classmethod
    def nobody(cls, owner: str) -> Asker:
        """A client that can't be asked anything and hears of nothing."""

        async def unheard(method: str, params: Json) -> None:
            return None

        return cls(owner, False, {}, {}, None, None, None, unheard)

    async def log(self, params: Json) -> None:
        """Pass on a server's log message, if it is grave enough."""
        if self.log_level is None or params.get("level") not in LEVELS:
            return
        if LEVELS.index(params["level"]) >= LEVELS.index(self.log_level):
            await self.notify("notifications/message", params)

    def check(self, method: str, params: Json) -> None:
        """Raises `MCPError` where the client didn't say that it answers such questions."""
        needed = CAPABILITIES.get(method, "")
        declared = self.capabilities.get(needed)
        if declared is None:
            message = f"the client has not declared that it answers {needed or method}"
            raise MCPError(types.INVALID_REQUEST, message)
        if params.get("mode") == "url" and "url" not in declared:
            message = "the client has not declared that it opens URLs (elicitation.url)"
            raise MCPError(types.INVALID_REQUEST, message)

    async def ask(self, method: str, params: Json) -> Json:
        """Ask on the back-channel. Raises `MCPError`."""
        self.check(method, params)
        assert self.channel is not None
        return await self.channel(method, params)


class Kept:
    """A call that goes on while its client comes and goes."""

    def __init__(self, asker: Asker, what: str) -> None:
        self.asker = asker
        self.what = what
        self.scope = anyio.CancelScope()
        self.news = anyio.Event()
        self.answered = anyio.Event()
        self.question: Json | None = None
        self.answer: object = None
        self.result: Json | None = None
        self.error: Exception | None = None
        self.over = False
        self._one = anyio.Lock()

    async def ask(self, method: str, params: Json) -> Json:
        """A server's question; returns when the client has come back with the answer. Raises `MCPError`."""
        async with self._one:
            self.asker.check(method, params)
            self.question = {"method": method, "params": params}
            self.answered, self.answer = anyio.Event(), None
            self.news.set()
            try:
                await self.answered.wait()
            finally:
                self.question = None
            if not isinstance(self.answer, Mapping):
                raise MCPError(types.INVALID_REQUEST, "the client gave no answer")
            return dict(self.answer)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        if self.asker.report is not None:
            await self.asker.report(progress, total, message)

    async def log(self, params: Json) -> None:
        await self.asker.log(params)

    async def run(self, send: Send) -> None:
        """Make the call; what comes of it is `result` or `error`."""
        client = Client(
            self.asker.capabilities, self.asker.retry, self.ask, self.asker.log_level, self.log
        )
        try:
            with self.scope:
                self.result = await send(client, self.report)
        except Exception as error:
            self.error = error
        finally:
            self.over = True
            self.news.set()


class Desk:
    """Where calls wait for their clients' answers."""

    def __init__(self) -> None:
        self.tasks: anyio.abc.TaskGroup | None = None
        """Where kept calls run; without it, none is kept."""
        self._kept: dict[str, Kept] = {}

    async def converse(self, asker: Asker, what: str, send: Send, *, legacy: bool) -> Json:
        """Do what `send` does, and have its questions answered. `legacy`: what the server is.

        Raises what `send` raises, `CallError`, and `MCPError` for an answer to nothing.
        """
        state = asker.retry.get("requestState")
        if isinstance(state, str) and state.startswith(TOKEN):
            return await self._resume(state, asker, what)
        if legacy and asker.modern and asker.capabilities and self.tasks is not None:
            kept = Kept(asker, what)
            self.tasks.start_soon(kept.run, send)
            return await self._wait(kept)
        ask = asker.ask if asker.channel is not None else None
        client = Client(asker.capabilities, asker.retry, ask, asker.log_level, asker.log)
        for _ in range(MOST_ROUNDS):
            result = await send(client, asker.report)
            if asker.modern or result.get("resultType") != "input_required":
                return result
            client = replace(client, retry=await _answers(asker, what, result))
        message = f"{what} still asks for more input after {MOST_ROUNDS} answers"
        raise CallError("UPSTREAM_ERROR", message)

    async def _resume(self, state: str, asker: Asker, what: str) -> Json:
        kept = self._kept.get(state)
        if kept is None or (kept.asker.owner, kept.what) != (asker.owner, what):
            message = (
                f"the question of {what} that this answers is gone (it waits {KEPT_SECONDS:g} s); "
                "whether the call took effect is unknown"
            )
            raise MCPError(types.INVALID_PARAMS, message)
        del self._kept[state]
        answers = asker.retry.get("inputResponses")
        kept.asker = asker
        kept.answer = answers.get(KEY) if isinstance(answers, Mapping) else None
        kept.answered.set()
        return await self._wait(kept)

    async def _wait(self, kept: Kept) -> Json:
        """The result of a call, or its question."""
        while not kept.over:
            try:
                await kept.news.wait()
            except BaseException:
                kept.scope.cancel()
                raise
            kept.news = anyio.Event()
            if kept.question is not None and not kept.over:
                return self._keep(kept, kept.question)
        if kept.error is not None:
            raise kept.error
        if kept.result is None:
            raise CallError("CANCELLED", f"{kept.what} was cancelled")
        return kept.result

    def _keep(self, kept: Kept, question: Json) -> Json:
        if len(self._kept) >= MOST_KEPT:
            kept.scope.cancel()
            raise CallError("UPSTREAM_ERROR", "too many calls wait for answers of their clients")
        token = TOKEN + secrets.token_urlsafe(24)
        self._kept[token] = kept
        assert self.tasks is not None
        self.tasks.start_soon(self._expire, token, kept, kept.answered)
        return {
            "resultType": "input_required",
            "inputRequests": {KEY: question},
            "requestState": token,
        }

    async def _expire(self, token: str, kept: Kept, answered: anyio.Event) -> None:
        with anyio.move_on_after(KEPT_SECONDS):
            await answered.wait()
        if self._kept.pop(token, None) is not None:
            kept.scope.cancel()


async def _answers(asker: Asker, what: str, result: Json) -> Json:
    """What a modern server is told when it is called again for a legacy client."""
    answers: Json = {}
    asked = result.get("inputRequests")
    for key, question in asked.items() if isinstance(asked, Mapping) else ():
        match question:
            case {"method": str(method)} if isinstance(question.get("params"), Mapping | None):
                params = dict(question.get("params") or {})
            case _:
                message = f"{what} asks for more input in a way that is not MCP's"
                raise CallError("UPSTREAM_ERROR", message)
        try:
            answers[key] = await asker.ask(method, params)
        except MCPError as error:
            message = f"{what} asks for more input, which did not come: {error.message}"
            raise CallError("UPSTREAM_ERROR", message) from error
    state = {"requestState": result["requestState"]} if "requestState" in result else {}
    return {"inputResponses": answers, **state}
