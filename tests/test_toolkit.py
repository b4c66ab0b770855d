"""The toolkit: function tools for a chat completion, and the calls that a model makes of them."""

from __future__ import annotations

import json
import os
import re
import threading
from functools import partial

import anyio
import anyio.abc
import pytest
from daemon_process import open_process
from hypothesis import given, settings
from hypothesis import strategies as st
from running import KEY, STUBS, below, gone, taken_port

from mcpproxy import AsyncMCPToolkit, MCPClient, MCPFunction, MCPToolkit, Refused, Unreachable
from mcpproxy.cli import local
from mcpproxy.toolkit.functions import Functions, result_text

NAME = re.compile(r"mcp\d+_[A-Za-z0-9_-]+")
SERVERS = [
    {**STUBS[0], "name": "stub", "args": [*STUBS[0]["args"], "--library", "word"]},
    {"name": "missing", "command": "/nowhere/server"},
    {
        **STUBS[0],
        "name": "late",
        "lazy": True,
        "args": [*STUBS[0]["args"], "--library", "word", "--broken-library"],
    },
    {**STUBS[0], "name": "off", "enabled": False},
]


@pytest.fixture(scope="module")
def serving():
    with open_process(mcpServers=SERVERS, code_execution_pool_size=1) as found:
        yield found


@pytest.fixture(scope="module")
def toolkit(serving):
    """Of the daemon that runs with a configuration: over its socket."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPPROXY_DATA_DIR", serving.home.environ["MCPPROXY_DATA_DIR"])
        with MCPToolkit(serving.home.config) as found:
            yield found


def test_each_tool_is_a_function_with_a_name_that_may_be(toolkit):
    names = [tool["function"]["name"] for tool in toolkit.tools]
    assert names == list(toolkit.functions)
    assert all(NAME.fullmatch(name) and len(name) <= 64 for name in names)
    assert {"mcp1_add", "mcp3_add", "mcp1_list_items", "mcp1_a-b", "mcp1_a_b"} <= set(names)
    add = toolkit.tools[names.index("mcp1_add")]
    assert add["type"] == "function"
    assert add["function"]["description"] == "Add two numbers."
    assert add["function"]["parameters"]["required"] == ["a", "b"]
    assert toolkit.tools[names.index("mcp1_echo")]["function"]["parameters"] == {
        "type": "object",
        "properties": {},
    }


def test_it_knows_whose_each_function_is(toolkit):
    client = toolkit.mcpclient_for("mcp1_add")
    assert client == MCPClient(1, "stub", "Stub instructions.")
    assert toolkit.function_name(client, "add") == "mcp1_add"
    assert toolkit.functions["mcp1_add"] == MCPFunction("mcp1_add", client, "tool", "add")
    assert toolkit.is_mcp_function("mcp1_add") and not toolkit.is_mcp_function("add")
    assert toolkit.mcpclient_for("add") is None
    assert [each.name for each in toolkit.connected] == ["stub", "late"]
    assert toolkit.errors.keys() == {"missing", "late"}
    assert "/nowhere" in toolkit.errors["missing"]
    assert toolkit.errors["late"].startswith("its resources can't be listed: ")
    assert toolkit.instructions["stub"] == "Stub instructions."
    assert "Stub instructions." in toolkit.system_prompt()


def test_results_come_as_text_and_failures_as_text_too(toolkit):
    assert json.loads(toolkit.call("mcp1_add", {"a": 1, "b": 2})) == {"sum": 3}
    assert json.loads(toolkit.call("mcp3_add", '{"a": 1, "b": 2}')) == {"sum": 3}
    assert toolkit.call("mcp1_ping").count("Error") == 0
    for name, arguments, said in [
        ("mcp1_fail", {"message": "no luck"}, "no luck"),
        ("mcp1_add", {"a": 1}, '"b" is a required property'),
        ("mcp1_add", "{", "not JSON"),
        ("mcp1_add", "[]", "JSON object"),
        ("mcp1_add", {"a": {1}}, "no JSON"),
        ("mcp1_crash", {"status": 3}, "unknown"),
        ("nothing", {}, "no function nothing; there are: mcp1_echo"),
    ]:
        text = toolkit.call(name, arguments)
        assert text.startswith("Error: ") and said in text, text


def test_resources_are_read_by_a_function(toolkit):
    (function,) = (one for one in toolkit.functions.values() if one.kind == "resource")
    assert function.name == "mcp1_read_resource"
    (shown,) = (
        tool["function"]["description"]
        for tool in toolkit.tools
        if tool["function"]["name"] == function.name
    )
    assert "file:///shared" in shown and "word://{id}" in shown
    assert toolkit.call(function.name, {"uri": "file:///shared"}) == "word has file:///shared"
    assert toolkit.call(function.name, {}).startswith("Error: body: ")


def test_a_result_that_was_cut_is_read_on_by_the_same_function(toolkit):
    text = toolkit.call("mcp1_big", {"bytes": 30_000})
    cursor = re.search(r'\{"cursor": .*?\}', text)[0]
    rest = toolkit.call("mcp1_big", cursor)
    assert [len(part.partition("\n")[0]) for part in (text, rest)] == [20_000, 10_000]
    assert rest.endswith("this is the end]")
    # A tool's own cursor is the tool's.
    assert json.loads(toolkit.call("mcp1_echo", {"cursor": "mine"})) == {"cursor": "mine"}


@pytest.mark.threat("L5")
async def test_a_token_sees_its_own_servers(serving):
    made = serving.ask(
        "POST", "/api/v1/tokens",
        {"name": "agent", "allowed_servers": ["late"], "permissions": ["read"]},
    ).body["data"]  # fmt: skip
    url = f"http://{serving.address}"
    async with AsyncMCPToolkit(url=url, key=made["token"]) as toolkit:
        assert {"mcp1_add", "mcp1_get_user"} == set(toolkit.functions)
        assert [each.name for each in toolkit.connected] == ["late"]
        assert json.loads(await toolkit.call("mcp1_add", {"a": 1, "b": 2})) == {"sum": 3}
    hidden, absent = (
        re.sub("stub|nix", "", json.dumps(answer.body["error"]))
        for name in ("stub", "nix")
        for answer in [
            serving.ask(
                "POST",
                f"/api/v1/servers/{name}/resources/read",
                {"uri": "file:///shared"},
                **{"X-API-Key": made["token"]},
            )
        ]
    )
    assert hidden == absent and "ACCESS_DENIED" in hidden
    async with AsyncMCPToolkit(url=url, key=KEY, servers=["late", "nix"]) as toolkit:
        assert [each.name for each in toolkit.connected] == ["late"]
        assert toolkit.errors["nix"] == "there is no such server"
        assert {one.mcpclient.id for one in toolkit.functions.values()} == {3}
    with pytest.raises(RuntimeError, match="not open"):
        await toolkit.call("mcp3_add", {})
    with pytest.raises(Refused) as refused:
        await AsyncMCPToolkit(url=url, key="another").load()
    assert refused.value.code == "UNAUTHORIZED"


async def test_where_no_daemon_is_it_says_so():
    with taken_port() as free:
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match="mcpproxy serve"):
        await AsyncMCPToolkit(url=f"http://127.0.0.1:{port}").load()


async def test_a_key_of_any_letters_arrives_as_the_bytes_that_the_daemon_compares():
    got = []

    async def answer(stream):
        async with stream:
            got.append(await stream.receive())
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        daemon = local.Running("there", host="127.0.0.1", port=port, key="schlüssel €")
        await anyio.to_thread.run_sync(partial(local.request, daemon, "GET", "/", timeout=5))
        with pytest.raises(Unreachable, match="no mcpproxy"):
            await AsyncMCPToolkit(url=f"http://127.0.0.1:{port}", key=daemon.key).load()
        tasks.cancel_scope.cancel()
    assert [b"X-API-Key: schl\xc3\xbcssel \xe2\x82\xac\r\n" in each for each in got] == [True] * 2


def test_what_can_not_be_meant_is_refused():
    for arguments, said in [
        ({"mode": "all"}, "mode must be"),
        ({"mode": "code", "servers": ["a"]}, "token"),
        ({"servers": "a"}, "list of names"),
        ({"config": "a", "url": "http://b"}, "not both"),
        ({"url": "localhost:8080"}, "url must begin with"),
        ({"key": "a"}, "key goes with url"),
        ({"url": "http://b", "key": "a\n"}, "a line end"),
        ({"url": "http://b:port"}, "perhaps a port, not 'http://b:port'"),
        ({"url": "http://[b"}, "perhaps a port"),
    ]:
        with pytest.raises(ValueError, match=said):
            MCPToolkit(**arguments)


async def test_without_a_daemon_it_opens_one_and_leaves_nothing(serving, tmp_path):
    """The blocking toolkit, from within a running loop, and from several threads at once."""
    before, threads = below(os.getpid()), set(threading.enumerate())
    config = {"mcpServers": SERVERS[:1], "data_dir": str(tmp_path), "code_execution_pool_size": 1}
    with MCPToolkit(config, mode="code") as toolkit:
        assert list(toolkit.functions) == [
            "code_execution", "search_tools", "get_functions", "list_servers", "run_cached_code",
        ]  # fmt: skip
        assert toolkit.mcpclient_for("code_execution") == MCPClient(0, "mcpproxy")
        assert "code_execution" in toolkit.system_prompt()
        texts = []

        def add() -> None:
            code = "return await tools.stub.add({ a: 1, b: 2 })"
            texts.append(toolkit.call("code_execution", {"code": code}))

        users = [threading.Thread(target=add) for _ in range(2)]
        for user in users:
            user.start()
        failed = toolkit.call("code_execution", {"code": "nix()"})
        assert failed.startswith("Error: ") and "ReferenceError" in failed
        for user in users:
            user.join()
        assert [json.loads(text) for text in texts] == [{"ok": True, "value": {"sum": 3}}] * 2
        found = json.loads(toolkit.call("search_tools", {"query": "add two numbers"}))
        assert found["tools"][0]["name"] == "stub:add"
        # The daemon of the other tests starts a server anew that crashed in one of them.
        children = below(os.getpid()) - before - below(serving.process.pid)
        assert children
    gone(children)
    for thread in set(threading.enumerate()) - threads:
        thread.join(10)
        assert not thread.is_alive(), thread
    with pytest.raises(RuntimeError, match="not open"):
        toolkit.call("code_execution", {})


class Starting:
    """A daemon whose one server takes three looks to come."""

    def __init__(self) -> None:
        self.looks = 0

    async def get(self, path: str) -> dict[str, list[dict[str, object]]]:
        if path.startswith("/api/v1/tools"):
            self.looks += 1
            return {"tools": [{"name": "add", "server": "slow"}] if self.looks == 3 else []}
        state = "ready" if self.looks == 3 else "connecting"
        return {"servers": [{"name": "slow", "state": state, "tools": 0, "offers": ["tools"]}]}


async def test_it_waits_for_servers_that_are_on_their_way():
    toolkit = AsyncMCPToolkit()
    await toolkit._load(Starting())
    assert (list(toolkit.functions), toolkit.errors) == (["mcp1_add"], {})


# ── names and texts ─────────────────────────────────────────────────────────────────────────────


@settings(max_examples=15)
@given(st.lists(st.text("ab_.é", min_size=50, max_size=70), unique=True, max_size=5))
def test_names_are_unique_and_may_be(names):
    found, client = Functions(), MCPClient(12, "x")
    for name in names:
        found.add_tool(client, {"name": name})
    assert len(found.functions) == len(names)
    assert all(NAME.fullmatch(name) and len(name) <= 64 for name in found.functions)
    assert [found.function_name(client, name) for name in names] == list(found.functions)


def test_a_tool_that_reads_resources_itself_keeps_its_name():
    found, client = Functions(), MCPClient(1, "x")
    found.add_tool(client, {"name": "read_resource"})
    found.add_resources(client, {"resources": [{"uri": "a:b"}]})
    first, second = found.functions.values()
    assert (first.name, first.kind, second.kind) == ("mcp1_read_resource", "tool", "resource")
    assert re.fullmatch(r"mcp1_read_resource_[0-9a-f]{8}", second.name)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [], "structuredContent": {"é": 1}}, '{"é": 1}'),
        ({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}, "[image image/png, 3 bytes, not shown]"),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "t"}}]}, "t"),
        ({"content": [{"type": "resource_link", "uri": "a:b"}]}, "[resource a:b]"),
        ({}, ""),
    ],
)  # fmt: skip
def test_a_result_as_text(result, text):
    assert result_text(result) == text
