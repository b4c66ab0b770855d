"""Everybody who may come to one daemon, what the rules say of each, and the ways in for all of them."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asgi import Answer
from daemon_process import open_process
from running import KEY, Serving
from upstreams import STUB

from mcpproxy.tokens import Tokens

ERA = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": ERA,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SECRET = "hush"
"""The name of a server that some may not know of, a word of its prompts, and part of its addresses."""
SERVERS = ("open", SECRET)
WORDS = {"open": "plain", SECRET: SECRET}
NEEDS = {"add": "read", "ping": "write", "delete": "destructive"}
ARGUMENTS = {"add": {"a": 1, "b": 2}}
ABSENT = ("nope", "deleet")
CALLS = [*itertools.product(SERVERS, (*NEEDS, *ABSENT)), ("nowhere", "add")]

EVERY = ("read", "write", "destructive")
RIGHTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # caller: the servers and permissions that it has
    "admin": ((*SERVERS, "*"), EVERY),
    "socket": ((*SERVERS, "*"), EVERY),
    "anonymous": ((*SERVERS, "*"), EVERY),
    "reader": (("open",), ("read",)),
    "writer": (("open",), ("read", "write")),
    "owner": (("open",), EVERY),
    "reader of all": ((*SERVERS, "*"), ("read",)),
    "all": ((*SERVERS, "*"), EVERY),
    "lost": (("nowhere",), EVERY),
}
TOKENS = [name for name in RIGHTS if name not in ("admin", "socket", "anonymous")]
PROFILED = {
    # caller at /mcp/p/PROFILE: its servers there
    ("anonymous", "public"): ("open",),
    ("admin", "public"): ("open",),
    ("owner", "public"): ("open",),
    ("owner", "private"): (),
    ("all", "private"): (SECRET,),
}
NOBODY = ("wrong key", "revoked", "expired", "no key")


def expected(caller: str, server: str, tool: str, profile: str | None = None) -> str | None:
    """The code of the refusal, None for a call that goes out."""
    servers, permissions = RIGHTS[caller]
    if server not in servers and "*" not in servers:
        return "ACCESS_DENIED"
    if profile is not None and server not in PROFILED[caller, profile]:
        return "SERVER_NOT_ALLOWED"
    if server not in SERVERS:
        return "SERVER_NOT_FOUND"
    if NEEDS.get(tool) in permissions:
        return None
    return "TOOL_NOT_FOUND" if permissions == EVERY else "PERMISSION_DENIED"


def visible(caller: str, profile: str | None = None) -> set[str]:
    return {
        f"{server}:{tool}"
        for server, tool in itertools.product(SERVERS, NEEDS)
        if expected(caller, server, tool, profile) is None
    }


class Doors:
    """One connection to the daemon, and the secrets of everybody who comes to it."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.connection = serving.connect()
        self.local = serving.connect(local=True)
        kept = Tokens(serving.home.places.state)
        self.keys = {"admin": KEY, "wrong key": "wrong"}
        for name in TOKENS:
            servers, permissions = RIGHTS[name]
            self.keys[name] = kept.create(
                {
                    "name": name.replace(" ", "-"),
                    "allowed_servers": ["*"] if "*" in servers else list(servers),
                    "permissions": list(permissions),
                }
            )["token"]
        self.keys["revoked"] = kept.create({"name": "gone", "allowed_servers": ["*"]})["token"]
        kept.revoke("gone")
        past = Tokens(serving.home.places.state, clock=lambda: 1_000_000.0)
        self.keys["expired"] = past.create({"name": "late", "allowed_servers": ["*"]})["token"]

    def ask(self, caller: str, verb: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.local if caller == "socket" else self.connection
        given = {"Content-Type": "application/json", **headers}
        if caller in self.keys:
            given["X-API-Key"] = self.keys[caller]
        connection.request(verb, path, None if body is None else json.dumps(body), given)
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read().decode())

    def mcp(self, caller: str, path: str, method: str, **params: Any) -> Any:
        """The result of a request to an MCP face, or its error."""
        named = params.get("name") or params.get("uri")
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": ERA,
            "Mcp-Method": method,
            **({"Mcp-Name": named} if named else {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        answer = self.ask(caller, "POST", path, body, **headers)
        return answer.body.get("result", answer.body.get("error"))

    def tool(self, caller: str, path: str, name: str, arguments: Any) -> Any:
        """What one of our own tools says, as data."""
        result = self.mcp(caller, path, "tools/call", name=name, arguments=arguments)
        return json.loads(result["content"][0]["text"])

    def run(self, caller: str, code: str, **body: Any) -> Any:
        """What a program gives: over REST, or for who has no key over MCP."""
        if caller == "anonymous":
            return self.tool(caller, "/mcp", "code_execution", {"code": code, **body})
        return self.ask(caller, "POST", "/api/v1/code/exec", {"code": code, **body}).body


@contextmanager
def open_doors() -> Iterator[Doors]:
    stub = {"command": sys.executable, "args": ["-I", "-S", STUB, "--library"]}
    listed = [{"name": name, **stub, "args": [*stub["args"], word]} for name, word in WORDS.items()]
    profiles = {"public": ["open"], "private": [SECRET]}
    with open_process(mcpServers=listed, profiles=profiles, code_execution_pool_size=2) as serving:
        serving.home.script("known.js", "1")
        made = Doors(serving)
        yield made
        made.connection.close()
        made.local.close()


def every_name() -> set[str]:
    return {f"{server}:{tool}" for server, tool in itertools.product(SERVERS, NEEDS)}


LOOKS = {
    "names": "Object.keys(tools).flatMap(s => Object.keys(tools[s]).map(t => `${s}:${t}`))",
    "search": 'const r = await search_tools("add two numbers, ping, delete hush", {limit: 50}); r',
    "describe": 'try { await describe_tool("hush:ad") } catch (e) { return e.message }',
    "typo": "try { tools.hash.add } catch (e) { return e.message }",
    "call": 'call_tool("hash", "add", {}).error.message + call_tool("open", "delet", {}).error.message',
}


def looks(doors: Doors, caller: str) -> Iterator[tuple[str, str]]:
    """Everything that a caller can look at, as text."""
    for what, code in LOOKS.items():
        yield f"script: {what}", json.dumps(doors.run(caller, code))
    for path in ("/mcp", "/mcp/call", "/mcp/all"):
        for name, arguments in (
            ("search_tools", {"query": "add two numbers or delete", "limit": 50}),
            ("search_tools", {"query": "ping", "server": "hash"}),
            ("list_servers", {}),
            ("get_functions", {"functions": ["open:delet", "hush:add", "hash:add", "ad"]}),
            ("call_tool", {"name": "hash:ad"}),
            ("call_tool", {"name": "ad"}),
            ("run_cached_code", {"cache_id": "0" * 64}),
        ):
            found = doors.mcp(caller, path, "tools/call", name=name, arguments=arguments)
            yield f"{path} {name}", json.dumps(found)
        yield f"{path} tools", json.dumps(doors.mcp(caller, path, "tools/list"))
    for method, params in (
        ("prompts/list", {}), ("prompts/get", {"name": "hash__greet"}), ("resources/list", {}),
        ("resources/templates/list", {}), ("resources/read", {"uri": "file:///nothing"}),
    ):  # fmt: skip
        yield method, json.dumps(doors.mcp(caller, "/mcp/all", method, **params))
    if caller != "anonymous":
        for path in (
            "tools", "servers", "status", "tools?server=hash", "tools/search?q=add+numbers+delete",
            "tools/open:delet", "tools/hash:ad", "tools/types.d.ts", "code/cache",
        ):  # fmt: skip
            yield path, doors.ask(caller, "GET", f"/api/v1/{path}").text


def named_by_caller(text: str) -> str:
    """Without what only repeats the question."""
    for asked in ("hush:add", "hush:ad", "delete hush"):
        text = text.replace(f'"{asked}', "").replace(f'\\"{asked}\\', "").replace(asked, "")
    return text


def made(doors: Doors, name: str, **wanted: Any) -> str:
    body = {"name": name, "allowed_servers": ["open"], "permissions": list(EVERY), **wanted}
    doors.keys[name] = doors.ask("admin", "POST", "/api/v1/tokens", body).body["data"]["token"]
    return name
