"""Prompts and resources of all servers, as if they were one server's.

Names and addresses are looked up among what exists; only where that says nothing, a name's beginning
says whose it is.

    a prompt        server__name
    a resource      its own URI, or mcpproxy://resources/server/URI where two servers have that one
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcpproxy.listings import KEYS, PROMPTS, RESOURCES, TEMPLATES, Listings, offered
from mcpproxy.names import LONGEST, SEPARATORS, close
from mcpproxy.policy import LOCAL, Caller

if TYPE_CHECKING:
    from mcpproxy.upstream.connection import Connection
    from mcpproxy.upstream.fleet import Fleet

Json = dict[str, Any]
Send = Callable[[str, str, Json], Awaitable[Json]]
"""Server, method and parameters to the server's raw result."""

WRAPPED = "mcpproxy://resources/"
PAGE = 500


@dataclass(frozen=True)
class Entry:
    """Something that a server lists, under the name that we show."""

    server: str
    own: str
    shown: str
    definition: Mapping[str, Any]


def wrap(server: str, uri: str) -> str:
    """A URI or a template of URIs that says whose it is."""
    return f"{WRAPPED}{quote(server, safe='')}/{uri}"


def unwrap(uri: str) -> tuple[str, str] | None:
    """Server and URI, where `wrap` made this."""
    server, slash, own = uri.removeprefix(WRAPPED).partition("/")
    return (unquote(server), own) if uri.startswith(WRAPPED) and slash and own else None


class Library:
    """See the module."""

    def __init__(self, fleet: Fleet, listings: Listings) -> None:
        self._fleet = fleet
        self._listings = listings

    # what there is

    def sources(self, kind: str, caller: Caller = LOCAL) -> dict[str, Connection]:
        """The open connections that have prompts, or resources, as far as the caller may know of them."""
        return {
            server: connection
            for server, connection in self._fleet.connections().items()
            if kind in connection.offers and caller.reaches(server)
        }

    def _servers(self, caller: Caller) -> list[str]:
        return [name for name in self._fleet.catalog.servers if caller.reaches(name)]

    async def entries(self, method: str, caller: Caller) -> list[Entry]:
        """Everything of one kind that the caller may know of, under names that are unique."""
        sources = self.sources(offered(method), caller)
        await self._listings.refresh(sources, method)
        listed = [
            (server, entry)
            for server, connection in sources.items()
            for entry in self._listings.shown(server, connection, method)
        ]
        key = KEYS[method][1]
        return list(_named(listed, key) if method == PROMPTS else _addressed(listed, key))

    async def page(self, method: str, cursor: object, caller: Caller) -> Json:
        """One page of a list, as the wire has it. Raises `MCPError` for a cursor of another list."""
        member, key = KEYS[method]
        entries = await self.entries(method, caller)
        mark = hashlib.sha256("\0".join(each.shown for each in entries).encode()).hexdigest()[:16]
        start = 0
        if cursor is not None:
            number, _, edition = str(cursor).partition(".")
            if edition != mark or not number.isascii() or not number.isdigit():
                message = "there is no such cursor: the list is another now; begin anew"
                raise MCPError(types.INVALID_PARAMS, message)
            start = int(number[:9])
        shown = [{**each.definition, key: each.shown} for each in entries[start : start + PAGE]]
        more = {"nextCursor": f"{start + PAGE}.{mark}"} if start + PAGE < len(entries) else {}
        return {member: shown, **more}

    # whose something is

    async def find_prompt(self, name: str, caller: Caller) -> tuple[str, str]:
        """Server and own name of a prompt. Raises `MCPError`."""
        fitting = [
            (server, name[len(server) + len(separator) :])
            for server in sorted(self._servers(caller), key=len, reverse=True)
            for separator in SEPARATORS
            if name.startswith(server + separator) and len(name) > len(server + separator)
        ]
        if len(fitting) == 1:
            return fitting[0]
        entries = await self.entries(PROMPTS, caller)
        for entry in entries:
            if entry.shown == name:
                return entry.server, entry.own
        if fitting:
            return fitting[0]
        owners = [entry.server for entry in entries if entry.own == name]
        if len(owners) == 1:
            return owners[0], name
        near = close(name, [entry.shown for entry in entries])
        hint = f"; did you mean {' or '.join(near)}?" if near else ": prompts/list has them all"
        raise MCPError(types.INVALID_PARAMS, f'there is no prompt "{name[:LONGEST]}"{hint}')

    async def find_resource(self, uri: str, caller: Caller) -> tuple[str, str]:
        """Server and own URI of a resource. Raises `MCPError`."""
        if (wrapped := unwrap(uri)) is not None and wrapped[0] in self._servers(caller):
            return wrapped
        listed = await self.entries(RESOURCES, caller)
        owners = [entry.server for entry in listed if entry.own == uri]
        if not owners:
            owners = _of_templates(uri, await self.entries(TEMPLATES, caller))
        if not owners and wrapped is None:
            owners = list(self.sources("resources", caller))
        if len(owners) == 1:
            return owners[0], uri
        ways = " or ".join(wrap(server, uri[:LONGEST]) for server in owners[:3])
        message = f"which server's resource this is isn't clear: ask for {ways}"
        if not owners:
            message = "there is no such resource, on no server that is connected"
        raise MCPError(types.INVALID_PARAMS, message, {"uri": uri[:LONGEST]})

    # requests

    async def get_prompt(self, params: Json, send: Send, caller: Caller) -> Json:
        server, name = await self.find_prompt(_text(params, "name"), caller)
        await self._listings.check(server, PROMPTS, name)
        return await send(server, "prompts/get", {**params, "name": name})

    async def read(self, params: Json, send: Send, caller: Caller) -> Json:
        uri = _text(params, "uri")
        server, own = await self.find_resource(uri, caller)
        await self._listings.check(server, RESOURCES, own)
        result = await send(server, "resources/read", {**params, "uri": own})
        contents = result.get("contents")
        if own != uri and isinstance(contents, list):
            result = {**result, "contents": [_rewrapped(server, each) for each in contents]}
        return result

    async def complete(self, params: Json, send: Send, caller: Caller) -> Json:
        """Suggestions for an argument of a prompt or of a resource template. Raises `MCPError`."""
        ref = params.get("ref")
        kind = ref.get("type") if isinstance(ref, Mapping) else None
        if not isinstance(ref, Mapping) or kind not in ("ref/prompt", "ref/resource"):
            raise MCPError(types.INVALID_PARAMS, "ref.type must be ref/prompt or ref/resource")
        if kind == "ref/prompt":
            server, own = await self.find_prompt(_text(ref, "name"), caller)
            await self._listings.check(server, PROMPTS, own)
            named = {**ref, "name": own}
        else:
            server, own = await self._find_template(_text(ref, "uri"), caller)
            named = {**ref, "uri": own}
        connection = self._fleet.connection(server)
        if connection is not None and "completions" not in connection.offers:
            return {"completion": {"values": []}}
        return await send(server, "completion/complete", {**params, "ref": named})

    async def _find_template(self, uri: str, caller: Caller) -> tuple[str, str]:
        for entry in await self.entries(TEMPLATES, caller):
            if entry.shown == uri:
                return entry.server, entry.own
        return await self.find_resource(uri, caller)


def _text(params: Mapping[str, Any], key: str) -> str:
    value = params.get(key)
    if not isinstance(value, str):
        raise MCPError(types.INVALID_PARAMS, f"{key} must be a string")
    return value


def _rewrapped(server: str, content: Any) -> Any:
    if isinstance(content, dict) and isinstance(content.get("uri"), str):
        return {**content, "uri": wrap(server, content["uri"])}
    return content


def _named(listed: list[tuple[str, Json]], key: str) -> Iterator[Entry]:
    taken: set[str] = set()
    for server, entry in listed:
        own = entry[key]
        spelled = (f"{server}{separator}{own}" for separator in ("__", ".", "/", ":"))
        shown = next((name for name in spelled if name not in taken), None)
        if shown is not None:
            taken.add(shown)
            yield Entry(server, own, shown, entry)


def _addressed(listed: list[tuple[str, Json]], key: str) -> Iterator[Entry]:
    count: dict[str, int] = {}
    for _, entry in listed:
        count[entry[key]] = count.get(entry[key], 0) + 1
    for server, entry in listed:
        own = entry[key]
        unique = count[own] == 1 and not own.startswith(WRAPPED)
        yield Entry(server, own, own if unique else wrap(server, own), entry)


def _of_templates(uri: str, templates: list[Entry]) -> list[str]:
    """The servers whose templates fit best: by what stands before and after the variables.

    Not by regular expressions: whoever writes a template could make one that takes for ever.
    """
    best, owners = -1, dict[str, None]()
    for entry in templates:
        head, brace, _ = entry.own.partition("{")
        tail = entry.own.rpartition("}")[2] if brace else ""
        fits = uri.startswith(head) and uri.endswith(tail) and len(head) + len(tail) <= len(uri)
        if not fits or (not brace and uri != head):
            continue
        if len(head) > best:
            best, owners = len(head), {}
        if len(head) == best:
            owners[entry.server] = None
    return list(owners)
