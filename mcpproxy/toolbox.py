"""What a `tools/call` does, on every face alike.

Our own tools under their own and their usual other names, and every upstream tool under any of
its spellings. Whatever happens becomes a wire result that a model can read.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from mcpproxy import jsonc, logs, offer, readable, tracing
from mcpproxy.asking import Asker, Desk
from mcpproxy.bulk import MOST_VALUES
from mcpproxy.envelopes import Reply, refusal, to_json
from mcpproxy.errors import CallError, Refused
from mcpproxy.execution import CallCount
from mcpproxy.incoming import params_of
from mcpproxy.locating import acquainted, located
from mcpproxy.names import LONGEST, ToolId
from mcpproxy.paging import Cut, NoPage
from mcpproxy.policy import LOCAL, Caller
from mcpproxy.request import brief
from mcpproxy.upstream.connection import Client, Progress

if TYPE_CHECKING:
    from mcpproxy.daemon import Daemon

logger = logging.getLogger(__name__)

CUT_META = "mcpproxy/cut"
"""Key in `_meta` of a result that was cut: what was given, of how much, and the cursor."""

ARGUMENTS = ("args", "arguments", "args_json")
"""The names under which `call_tool` takes the arguments of the tool."""

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]


# ── results ─────────────────────────────────────────────────────────────────────────────────────


def told(text: str, *, failed: bool) -> Json:
    """A tool result of one text block."""
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def answer(data: object) -> Json:
    return told(to_json(data).decode(), failed=False)


def failure(code: str, message: str, retry_after_ms: int | None = None) -> Json:
    return told(to_json(refusal(code, message, retry_after_ms)).decode(), failed=True)


# ── one call ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Call:
    """One `tools/call`, with all that the protocol says about it."""

    name: str
    arguments: Json
    meta: Json
    caller: Caller
    client: str | None
    """The client's program, as it calls itself."""
    request_id: str
    report: Progress | None
    asker: Asker
    trace: object = None
    """What names the trace that it belongs to, if anything does."""

    @property
    def own(self) -> str:
        """Which of our own tools it calls, if it does."""
        return offer.OTHER_NAMES.get(self.name, self.name)

    @classmethod
    def of(cls, ctx: Context) -> Call:
        """The call that a request asks for. Raises `MCPError` for one that isn't as MCP has it."""
        params = params_of(ctx)
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise MCPError(types.INVALID_PARAMS, "params.name must be a string")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise MCPError(types.INVALID_PARAMS, "params.arguments must be an object")
        meta = params.get("_meta")
        meta = dict(meta) if isinstance(meta, Mapping) else {}
        wanted = meta.pop("progressToken", None) is not None
        caller, request_id = asked_by(ctx)
        return cls(
            name=name,
            arguments=dict(arguments or {}),
            meta=forwarded(meta),
            caller=caller,
            client=client_of(ctx),
            request_id=request_id,
            report=ctx.session.report_progress if wanted else None,
            asker=Asker.of(ctx, caller.name),
            trace=meta if tracing.PARENT in meta or ctx.request is None else ctx.request.headers,
        )


def client_of(ctx: Context) -> str | None:
    params = ctx.session.client_params
    return f"{params.client_info.name} {params.client_info.version}" if params else None


def forwarded(meta: object) -> Json:
    """What a client says beside its request that is for the server, not for us."""
    return {
        key: value
        for key, value in (meta.items() if isinstance(meta, Mapping) else ())
        if key != "progressToken" and not key.startswith("io.modelcontextprotocol/")
    }


def count_calls(report: Progress) -> CallCount:
    """A script's progress in the protocol's terms: calls done, how many is unknown, the last."""

    async def progress(done: int, last: str) -> None:
        await report(done, None, last)

    return progress


def asked_by(ctx: Context) -> tuple[Caller, str]:
    """Who asks and under which id: the guard's word over HTTP, the local user on a pipe."""
    if ctx.request is None:
        return LOCAL, uuid.uuid4().hex
    # Without a guard in front there is no caller, and that must not look like anyone.
    state = ctx.request.scope["state"]
    return state["caller"], state["request_id"]


class Tools:
    """What can be called on every face, whether it lists it or not."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.desk = Desk()
        self.own: dict[str, Callable[[Call], Awaitable[Json]]] = {
            "code_execution": self._execute,
            "search_tools": self._search,
            "get_functions": self._functions,
            "list_servers": self._servers,
            "run_cached_code": self._cached,
            "call_tool": self._call,
            "read_result": self._read_on,
        }

    async def call(self, call: Call) -> Json:
        """The wire result, whatever happens; cancellation and `MCPError` pass."""
        logs.request.set(call.request_id)
        logs.caller.set(call.caller.name)
        logs.client.set(call.client)
        verb = self.own.get(call.own)
        try:
            with tracing.continued(call.trace):
                return await (
                    verb(call) if verb else self._upstream(call.name, call.arguments, call)
                )
        except Refused as refused:
            return failure(refused.code, str(refused), refused.retry_after_ms)
        except CallError as error:
            if error.result is not None:
                return dict(error.result)
            if (said := protocols_own(error, call.asker)) is not None:
                raise said from None
            return told(to_json(error.envelope()).decode(), failed=True)
        except ValueError as error:
            return failure("INVALID_ARGS", str(error))
        except NoPage as error:
            return failure("NOT_FOUND", str(error))
        except LookupError as error:
            return failure("TOOL_NOT_FOUND", str(error.args[0] if error.args else error))
        except MCPError:
            raise  # about the protocol: for the client, not for its model
        except Exception:
            # The protocol's edge: a fault of ours is told without its insides.
            logger.exception("request %s: %s failed", call.request_id, call.name[:LONGEST])
            message = f"the proxy failed; its log says more under request {call.request_id}"
            return failure("INTERNAL_ERROR", message)

    async def _execute(self, call: Call) -> Json:
        return await self._run(partial(self.daemon.execute, call.arguments), call)

    async def _run(self, run: Callable[..., Awaitable[Reply]], call: Call) -> Json:
        progress = count_calls(call.report) if call.report else None
        reply = await run(call.caller, request_id=call.request_id, progress=progress)
        return told(reply.text, failed=not reply.ok)

    async def _search(self, call: Call) -> Json:
        take = call.arguments.get
        discovery = self.daemon.discovery
        return await self._look(
            partial(discovery.search_tools, take("query"), take("limit"), take("server")), call
        )

    async def _functions(self, call: Call) -> Json:
        wanted = functions_in(call.arguments)
        return await self._look(partial(self.daemon.discovery.get_functions, wanted), call)

    async def _servers(self, call: Call) -> Json:
        return await self._look(self.daemon.discovery.list_servers, call)

    async def _look(self, read: Callable[..., Json], call: Call) -> Json:
        await acquainted(self.daemon, call.caller, named_in(call.arguments))
        # In a thread: the first question about a new catalog makes its index.
        return answer(await anyio.to_thread.run_sync(partial(read, caller=call.caller)))

    async def _cached(self, call: Call) -> Json:
        only(call, ("cache_id", "params", "options"))
        cache_id = call.arguments.get("cache_id")
        if not isinstance(cache_id, str) or not cache_id:
            raise ValueError("cache_id must be a string that is not empty")
        params = call.arguments.get("params")
        params = {} if params is None else params
        if not isinstance(params, Mapping):
            raise ValueError("params must be an object")
        run = self.daemon.run_cached
        options = call.arguments.get("options")
        return await self._run(partial(run, cache_id, dict(params), options=options), call)

    async def _read_on(self, call: Call) -> Json:
        cursor = call.arguments.get("cursor")
        if not isinstance(cursor, str):
            raise ValueError("cursor must be a string: the one at the end of the part before")
        limit = self.daemon.settings.tool_response_limit
        text, cut = self.daemon.pages.next(cursor, limit, call.caller.owner)
        return noted({"content": [{"type": "text", "text": text}]}, cut, call)

    async def _call(self, call: Call) -> Json:
        only(call, ("name", *ARGUMENTS, "cursor", "server", "tool"))
        take = call.arguments.get
        if take("cursor") is not None and take("name") is None:
            return await self._read_on(call)
        name, args = take("name"), arguments_in(call.arguments)
        if isinstance(args, str):
            try:
                args = jsonc.strict(args, MOST_VALUES)
            except ValueError as error:
                raise ValueError(f"args must be an object, and as a text JSON: {error}") from error
        server, tool = take("server"), take("tool")
        if name is None and isinstance(server, str) and isinstance(tool, str):
            name = str(ToolId(server, tool))
        if not isinstance(name, str):
            raise ValueError('name must be a string, "server:tool"')
        if args is not None and not isinstance(args, Mapping):
            raise ValueError("args must be an object")
        return await self._upstream(name, dict(args or {}), call)

    async def _upstream(self, name: str, arguments: Json, call: Call) -> Json:
        found = await located(self.daemon, name, call.caller)

        async def send(client: Client | None, report: Progress | None) -> Json:
            return await self.daemon.call(
                found.server,
                found.tool,
                arguments,
                call.caller,
                progress=report,
                meta=call.meta or None,
                client=client,
            )

        result = dict(
            await self.desk.converse(
                call.asker, str(found), send, legacy=self.is_legacy(found.server)
            )
        )
        if result.get("resultType") == "input_required":
            return result
        result = readable.result(result, modern=call.asker.modern)
        limit = self.daemon.settings.tool_response_limit
        return readable.shallow(
            noted(*self.daemon.pages.first(result, limit, call.caller.owner), call)
        )

    def is_legacy(self, server: str) -> bool:
        connection = self.daemon.fleet.connection(server)
        return connection is not None and connection.era == "legacy"


def noted(result: Json, cut: Cut | None, call: Call) -> Json:
    """The result, with a last block that says how to read on where it was cut."""
    if cut is None:
        return result
    reader = "call_tool" if call.own == "call_tool" else "read_result"
    note = {"type": "text", "text": cut.told(reader)}
    meta = result.get("_meta")
    meta = {**(meta if isinstance(meta, Mapping) else {}), CUT_META: cut.shown()}
    return {**result, "content": [*result["content"], note], "_meta": meta}


def only(call: Call, known: Sequence[str]) -> None:
    """Raises `ValueError` for an argument that isn't known to what runs something.

    A question may have more than we look at; a call that misses what was meant for it does something else.
    """
    for name in call.arguments:
        if name not in known and not name.startswith("intent"):  # which other systems want
            said = f"{call.own} takes no '{brief(name)}'; it takes {', '.join(known)}"
            raise ValueError(said)


def arguments_in(arguments: Json) -> object:
    """What `call_tool` shall call the tool with. Raises `ValueError` where there are two such things."""
    given = [name for name in ARGUMENTS if arguments.get(name) not in (None, {}, "")]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are the same thing: give args alone")
    return arguments.get(given[0]) if given else {}


def named_in(arguments: Json) -> list[str] | None:
    """The tools or the server that a question is about; None where it is about all."""
    server = arguments.get("server")
    if isinstance(server, str):
        return [server]
    wanted = functions_in(arguments)
    if not isinstance(wanted, list):
        return None
    keys = ("server_name", "server", "name")
    names = [
        next((one[key] for key in keys if key in one), None) if isinstance(one, Mapping) else one
        for one in wanted
    ]
    return [name for name in names if isinstance(name, str)]


def read_json(text: str) -> object:
    """What a text says as JSON, which some models send where an array is asked for; None where it is none."""
    try:
        return json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        return None


def functions_in(arguments: Json) -> object:
    """What `get_functions` shall describe, by whichever of the usual names it came."""
    for key in ("functions", "tool_ids", "tools", "names", "name", "tool"):
        if key in arguments:
            wanted = arguments[key]
            if not isinstance(wanted, str):
                return wanted
            return read if isinstance(read := read_json(wanted), list) else [wanted]
    return None


def protocols_own(error: CallError, asker: Asker) -> MCPError | None:
    """What a modern server said to the client itself, where it did.

    Which is: what capability the client lacks, or that its answer to the server's question won't do.
    Everything else is for the model, in a result.
    """
    said = error.__cause__
    if not asker.modern or not isinstance(said, MCPError):
        return None
    own = asker.retry or said.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    return said if own else None
