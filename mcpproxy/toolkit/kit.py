"""The toolkit for programs that run an event loop."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from mcpproxy.errors import ProxyError
from mcpproxy.toolkit import functions
from mcpproxy.toolkit.functions import PROXY, Functions, FunctionTool, Json, MCPClient, MCPFunction
from mcpproxy.toolkit.reach import Line, Target, open_line

if TYPE_CHECKING:
    from typing import Self

    from mcpproxy.embedded import Config

Mode = Literal["tools", "code"]
MOST_CURSORS = 1000
LISTING_SECONDS = 5.0
STARTING_SECONDS = 30.0
"""How long servers may take to start; as long as the daemon gives them, unless it is told otherwise."""
NOT_OPEN = "the toolkit is not open: use it within its `with` block, or call load() first"


class Offer:
    """What the last load found, and what can be asked of it without a daemon."""

    def __init__(self) -> None:
        self._found = Functions()

    @property
    def tools(self) -> list[FunctionTool]:
        """The function tools, as `tools` of a chat completion takes them."""
        return self._found.tools

    @property
    def functions(self) -> dict[str, MCPFunction]:
        """What each of them calls, by its name."""
        return self._found.functions

    @property
    def instructions(self) -> dict[str, str]:
        """What the servers say of themselves, by server."""
        return self._found.instructions

    @property
    def errors(self) -> dict[str, str]:
        """The servers that have nothing to offer now, and why."""
        return self._found.errors

    @property
    def connected(self) -> list[MCPClient]:
        """The servers whose tools are offered."""
        return self._found.connected

    def is_mcp_function(self, function_name: str) -> bool:
        """Whether a function is one of this toolkit's."""
        return function_name in self._found.functions

    def mcpclient_for(self, function_name: str) -> MCPClient | None:
        """The server that a function belongs to; None for a function that isn't one of these."""
        function = self._found.functions.get(function_name)
        return None if function is None else function.mcpclient

    def function_name(self, mcpclient: MCPClient, name: str) -> str:
        """The name under which a server's tool is, or would be, offered: mcp<id>_<name>.

        Characters that function names can't have become underscores. A name of more than 64
        characters, or one that is taken, ends with a short hash of the tool's name.
        """
        return self._found.function_name(mcpclient, name)

    def add_function(self, function: MCPFunction, description: str, parameters: Json) -> None:
        """Offer one more function, until the next load, and remember what it calls."""
        self._found.add_function(function, description, parameters)

    def system_prompt(self) -> str | None:
        """The servers' instructions, for the system prompt; None if no server has any."""
        return self._found.system_prompt()


class AsyncMCPToolkit(Offer):
    """The tools of MCP servers, as an OpenAI-compatible chat completion needs them.

    `config` is the path of a configuration file or its content; the default file unless given. Where
    a daemon runs with that file it is asked, else one is opened in this process until `aclose`. With
    `url` and `key` (the API key or a token) it is the daemon there. `servers` names those that are
    meant, in their order; all unless given. `mode="code"` offers the daemon's five tools instead of each
    server's: search, read types, and run one program that calls many tools.

    Use it within `async with`, which loads it, or call `load` and at the end `aclose`, both in one task.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        url: str | None = None,
        key: str | None = None,
        servers: Iterable[str] | None = None,
        mode: Mode = "tools",
    ) -> None:
        super().__init__()
        if mode not in ("tools", "code"):
            raise ValueError(f'mode must be "tools" or "code", not {mode!r}')
        if servers is not None and mode == "code":
            raise ValueError('servers goes with mode="tools": limit a program with a token instead')
        if isinstance(servers, str):
            raise ValueError("servers must be a list of names")
        self._target = Target(config, url, key)
        self._wanted = None if servers is None else tuple(servers)
        self._mode = mode
        self._stack = AsyncExitStack()
        self._line: Line | None = None
        self._cursors: dict[str, str] = {}
        """Where results that were cut go on, and of which function each is."""

    async def __aenter__(self) -> Self:
        return await self.load()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line = None
        await self._stack.__aexit__(kind, error, trace)

    async def aclose(self) -> None:
        """Let go of the daemon; one that was opened here ends with all that it started."""
        self._line = None
        await self._stack.aclose()

    async def load(self) -> Self:
        """Ask the daemon what there is now, and make the functions anew.

        A server that can't be reached is left out and named in `errors`. Raises `SettingsError`,
        `Unreachable`, and `Refused` for a wrong key.
        """
        if self._line is not None:
            return await self._load(self._line)
        async with AsyncExitStack() as stack:
            line = await stack.enter_async_context(open_line(self._target))
            await self._load(line)
            self._stack, self._line = stack.pop_all(), line
        return self

    async def _load(self, line: Line) -> Self:
        listed, servers = await self._there(line)
        found = Functions()
        for name in self._wanted or ():
            if name not in {each["name"] for each in servers}:
                found.errors[name] = "there is no such server"
        for client, server in functions.clients(servers, self._wanted):
            why = functions.why_away(client.name, server, listed=self._mode == "tools")
            if why is None:
                found.connected.append(client)
            else:
                found.errors[client.name] = why
        if self._mode == "code":
            add_five(found)
        else:
            offers = {each["name"]: each.get("offers", []) for each in servers}
            shelves = await resources(line, found, offers)
            for client in found.connected:
                found.add_server(client, listed, shelves.get(client.name, {}))
        self._found = found
        return self

    async def _there(self, line: Line) -> tuple[list[Json], list[Json]]:
        """The tools and the servers, as soon as no server is on its way."""
        import anyio

        if self._mode == "code":
            return [], (await line.get("/api/v1/servers"))["servers"]
        until = anyio.current_time() + STARTING_SECONDS
        while True:
            # This waits a while for servers to come: how they are is asked after it.
            listed = (await line.get("/api/v1/tools?lazy=true"))["tools"]
            servers = (await line.get("/api/v1/servers"))["servers"]
            coming = any(each["state"] == "connecting" for each in servers)
            if not coming or anyio.current_time() >= until:
                return listed, servers

    async def call(
        self, function_name: str, arguments: Mapping[str, Any] | str | None = None
    ) -> str:
        """Run a tool call of the model, and give its result as text for the model.

        `arguments` may be the JSON text that a completion has. Whatever fails (the tool, its server, the
        daemon, the arguments) is told in a text that begins with "Error:", so that the model can recover.
        Raises `RuntimeError` when nothing is open.
        """
        if self._line is None:
            raise RuntimeError(NOT_OPEN)
        function = self._found.functions.get(function_name)
        if function is None:
            known = ", ".join(list(self._found.functions)[:20]) or "none"
            return functions.error(f"there is no function {function_name}; there are: {known}")
        try:
            return await self._called(self._line, function, read(arguments))
        except (ProxyError, ValueError) as error:
            return functions.error(str(error))

    async def _called(self, line: Line, function: MCPFunction, arguments: Json) -> str:
        if function.kind == "resource":
            status, found = await line.ask("POST", f"{place(function.mcpclient)}/read", arguments)
            return (
                functions.contents_text(found["data"]["contents"])
                if status == 200
                else functions.error(said(found))
            )
        cursor = arguments.get("cursor")
        if len(arguments) == 1 and self._cursors.get(str(cursor)) == function.name:
            body: Json = {"cursor": cursor}
        else:
            own = function.kind == "own"
            name = function.tool_name if own else f"{function.mcpclient.name}:{function.tool_name}"
            body = {"tool_name": name, "arguments": arguments}
        status, found = await line.ask("POST", "/api/v1/tools/call", body)
        if status != 200:
            return functions.error(said(found))
        result = found["data"]
        text = functions.result_text(result) + self._rest(function, result.get("cut"))
        return functions.error(text) if result.get("isError") else text

    def _rest(self, function: MCPFunction, cut: Json | None) -> str:
        """What to say below a result that was cut."""
        if cut is None:
            return ""
        part = f"characters {cut['start'] + 1:,}-{cut['end']:,} of {cut['characters']:,}"
        if (cursor := cut["cursor"]) is None:
            return f"\n[{part}; this is the end]"
        self._cursors = dict([*self._cursors.items(), (cursor, function.name)][-MOST_CURSORS:])
        return f"\n[Cut: {part}. The call is done. To read on, call {function.name} with {json.dumps({'cursor': cursor})} alone]"


async def resources(
    line: Line, found: Functions, offers: Mapping[str, list[str]]
) -> dict[str, Json]:
    """What the servers that have resources list, as far as they say so in time."""
    import anyio

    shelves: dict[str, Json] = {}

    async def look(client: MCPClient) -> None:
        found.errors[client.name] = f"its resources weren't listed within {LISTING_SECONDS:g} s"
        with anyio.move_on_after(LISTING_SECONDS):
            try:
                shelves[client.name] = await line.get(place(client))
                del found.errors[client.name]
            except ProxyError as error:  # here, where no task group can wrap it
                found.errors[client.name] = f"its resources can't be listed: {error}"

    async with anyio.create_task_group() as tasks:
        for client in found.connected:
            if "resources" in offers[client.name]:
                tasks.start_soon(look, client)
    return shelves


def add_five(found: Functions) -> None:
    """The daemon's own tools, under their own names: their descriptions speak of each other."""
    from mcpproxy import offer

    for tool in offer.FIVE:
        function = MCPFunction(tool["name"], PROXY, "own", tool["name"])
        found.add_function(function, tool["description"], tool["inputSchema"])
    found.instructions[PROXY.name] = offer.INSTRUCTIONS


def place(client: MCPClient) -> str:
    return f"/api/v1/servers/{quote(client.name, safe='')}/resources"


def said(answer: Json) -> str:
    """What a refusal or a failed call says."""
    match answer.get("error"):
        case {"message": str(message)}:
            return message
    return "the daemon refused without saying why"


def read(arguments: Mapping[str, Any] | str | None) -> Json:
    """The arguments as an object. Raises `ValueError`."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the arguments are not JSON: {error}") from error
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ValueError('the arguments must be a JSON object such as {"name": "value"}')
    return dict(arguments)
