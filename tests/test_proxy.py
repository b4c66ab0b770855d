"""What the MCP faces list, and what calls on them give, with the SDK's own client in both eras."""

from __future__ import annotations

import json

import anyio
import pytest
from fakes import FakeDaemon, catalog, server
from mcp.shared.exceptions import MCPError
from mcp_face import ERAS, connected, said

from mcpproxy import offer
from mcpproxy.catalog import Catalog
from mcpproxy.errors import CallError
from mcpproxy.settings import Settings

WAYS = [(way, era) for way in ("http", "pipe") for era in ERAS]
FIVE = ["code_execution", "search_tools", "get_functions", "list_servers", "run_cached_code"]


@pytest.fixture
def daemon():
    return FakeDaemon(catalog(demo=["echo", "add", "wait"], github=["list_issues"]))


@pytest.mark.req("REQ-REPLY-05", "REQ-REPLY-07")
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_a_program_runs_on_every_surface_in_both_eras(daemon, tmp_path, way, era):
    async with connected(daemon, tmp_path, way, era) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == FIVE
        result = await client.call_tool("code_execution", {"code": "1", "input": {"a": 2}})
    assert json.loads(said(result)) == {"ok": True, "value": "1"}
    assert not result.is_error
    assert result.structured_content is None
    body, caller, request_id = daemon.executed[0]
    assert body == {"code": "1", "input": {"a": 2}}
    assert caller == ("alice" if way == "http" else "local")
    assert request_id == "r-1" or way == "pipe"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"code": "fail"}, "RUNTIME_ERROR"),
        ({}, "INVALID_REQUEST"),
        ({"code": "bug"}, "INTERNAL_ERROR"),
    ],
)
async def test_what_fails_is_an_error_with_its_envelope(daemon, tmp_path, era, arguments, code):
    async with connected(daemon, tmp_path, "pipe", era) as client:
        result = await client.call_tool("code_execution", arguments)
    envelope = json.loads(said(result))
    assert result.is_error and envelope["ok"] is False and envelope["error"]["code"] == code
    assert "secret" not in said(result)


@pytest.mark.req("REQ-PROG-01", "REQ-PROG-02")
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_progress_reaches_a_client_that_asked_for_it(daemon, tmp_path, way, era):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, total, message))

    async with connected(daemon, tmp_path, way, era) as client:
        await client.call_tool("code_execution", {"code": "report"}, progress_callback=hear)
        await client.call_tool("code_execution", {"code": "silent"})
        await client.call_tool("demo__echo", {}, progress_callback=hear)
    assert heard == [(1, None, "demo:echo"), (2, None, "demo:add"), (1, 2, "half")]


@pytest.mark.req("REQ-STOP-04", "REQ-STOP-05", "REQ-STOP-06")
@pytest.mark.parametrize(("way", "era"), WAYS)
@pytest.mark.parametrize("tool", ["code_execution", "demo__wait"])
async def test_a_client_that_gives_up_stops_the_work(daemon, tmp_path, way, era, tool):
    async with connected(daemon, tmp_path, way, era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, tool, {"code": "wait"})
            with anyio.fail_after(5):
                await daemon.started.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await daemon.cancelled.wait()
        assert (await client.call_tool("code_execution", {"code": "1"})).is_error is False


DIRECT = ["demo__echo", "demo__add", "demo__wait", "github__list_issues"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/mcp", FIVE),
        ("/mcp/call", ["search_tools", "get_functions", "call_tool"]),
        ("/mcp/all", [*DIRECT, "read_result"]),
    ],
)
@pytest.mark.parametrize("era", ERAS)
async def test_each_face_has_its_list(daemon, tmp_path, era, path, names):
    async with connected(daemon, tmp_path, "http", era, path) as client:
        first, second = await client.list_tools(), await client.list_tools()
        assert [tool.name for tool in first.tools] == names
        assert first.model_dump_json() == second.model_dump_json()
        with pytest.raises(MCPError, match="cursor"):
            await client.list_tools(cursor="2")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/call", "/mcp/all"])
@pytest.mark.parametrize("name", ["demo__echo", "demo:echo", "demo.echo", "demo/echo"])
async def test_an_upstream_tool_can_be_called_on_every_face(daemon, tmp_path, path, name):
    async with connected(daemon, tmp_path, "http", "2026-07-28", path) as client:
        result = await client.call_tool(name, {"a": 1}, meta={"traceparent": "t"})
    assert json.loads(said(result)) == {"a": 1}
    assert daemon.called == [("demo", "echo", {"a": 1}, {"traceparent": "t"})]


LONG = {
    "content": [{"type": "text", "text": "x" * 30}, {"type": "text", "text": "y" * 30}],
    "structuredContent": {"a": "x" * 30},
    "isError": True,
    "_meta": {"own": 1},
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("path", "tool", "arguments", "reader"),
    [
        ("/mcp/all", "demo__echo", {}, "read_result"),
        ("/mcp", "demo__echo", {}, "read_result"),
        ("/mcp/call", "call_tool", {"name": "demo:echo"}, "call_tool"),
    ],
)
async def test_a_long_result_is_cut_and_read_on(
    daemon, tmp_path, era, path, tool, arguments, reader
):
    daemon.results["echo"] = LONG
    daemon.settings = Settings(tool_response_limit=40)
    async with connected(daemon, tmp_path, "http", era, path) as client:
        if path != "/mcp":
            assert reader in [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool(tool, arguments)
        first, second, note = [block.text for block in result.content]
        assert (first, second) == ("x" * 30, "y" * 9)
        # The structured content is not what the texts say: it belongs to the whole.
        size = len(
            "x" * 30 + "\n" + "y" * 30 + "\n" + json.dumps({"a": "x" * 30}, separators=(",", ":"))
        )
        assert note.startswith(f"[Cut: characters 1-40 of {size}. The call is done")
        assert (result.is_error, result.structured_content, result.meta["own"]) == (True, None, 1)
        cursor = result.meta["mcpproxy/cut"]["cursor"]
        assert f"{reader}({json.dumps({'cursor': cursor})})" in note
        got = first + "\n" + second
        while cursor:
            part = await client.call_tool(reader, {"cursor": cursor})
            got += part.content[0].text
            cursor = part.meta["mcpproxy/cut"]["cursor"]
        assert "this is the end" in part.content[1].text
        wrong = await client.call_tool(reader, {"cursor": "none.1"})
    assert len(got) == size and json.loads(got[62:]) == LONG["structuredContent"]
    assert wrong.is_error and "nothing to read on" in said(wrong)
    assert len(daemon.called) == 1


@pytest.mark.parametrize("limit", [0, 40])
async def test_a_schema_is_promised_only_for_results_that_are_never_cut(daemon, tmp_path, limit):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = {"name": "echo", "inputSchema": {"type": "object"}, "outputSchema": schema}
    daemon.fleet.show(catalog(demo=[{**tool, "annotations": {"readOnlyHint": True}}]))
    daemon.results["echo"] = {"content": [], "structuredContent": {"a": "x" * 100}}
    daemon.settings = Settings(tool_response_limit=limit)
    async with connected(daemon, tmp_path, "http", "legacy", "/mcp/all") as client:
        (listed, *others) = (await client.list_tools()).tools
        result = await client.call_tool("demo__echo", {})
    assert listed.annotations.read_only_hint
    assert listed.output_schema == (None if limit else schema)
    assert [each.name for each in others] == (["read_result"] if limit else [])
    assert (result.structured_content is None) == bool(limit)


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        ({"name": "demo:echo", "args": {"a": 1}}, {"a": 1}),
        ({"name": "demo__echo", "arguments": {"a": 1}}, {"a": 1}),
        ({"server": "demo", "tool": "echo"}, {}),
        ({"name": "demo:echo", "args_json": '{"a": 1}'}, {"a": 1}),
        ({"name": "demo:echo", "args": '{"a": 1}', "cursor": None}, {"a": 1}),
        (
            {"name": "demo:echo", "args": {}, "args_json": '{"a": 1}', "intent_reason": "x"},
            {"a": 1},
        ),
    ],
)
async def test_call_tool_calls(daemon, tmp_path, arguments, called):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        await client.call_tool("call_tool", arguments)
    assert daemon.called == [("demo", "echo", called, None)]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({}, "name must be"),
        ({"name": 7}, "name must be"),
        ({"name": "demo:echo", "args": []}, "args must be an object"),
        ({"name": "demo:ecko"}, "demo:echo"),
        ({"name": "demo:echo", "args_json": "{"}, "as a text JSON"),
        ({"cursor": 7}, "cursor must be a string"),
        (
            {"name": "demo:echo", "parameters": {"a": 1}},
            "takes no 'parameters'; it takes name, args,",
        ),
        ({"name": "demo:echo", "args": {"a": 1}, "arguments": {"a": 2}}, "give args alone"),
    ],
)
async def test_call_tool_says_what_is_wrong(daemon, tmp_path, arguments, part):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("call_tool", arguments)
    assert result.is_error and part in said(result)
    assert daemon.called == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("no_such_tool", ["search_tools", "code_execution"]),
        ("list_issues", ["github:list_issues"]),
        ("demo:ecko", ["demo:echo"]),
        ("code_exection", ["code_execution"]),
        ("x" * 100_000, ["search_tools"]),
    ],
)
async def test_an_unknown_name_is_told_what_to_do(daemon, tmp_path, name, parts):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool(name, {})
    assert result.is_error and all(part in said(result) for part in parts)
    assert len(said(result)) < 1000


@pytest.mark.parametrize(
    ("name", "arguments", "asked"),
    [
        ("search_tools", {"query": "x", "limit": 3}, ("search_tools", "x", 3, None, "local")),
        ("retrieve_tools", {"query": "x"}, ("search_tools", "x", None, None, "local")),
        ("get_functions", {"functions": ["a:b"]}, ("get_functions", ["a:b"], "local")),
        ("describe_tool", {"name": "a:b"}, ("get_functions", ["a:b"], "local")),
        ("get_functions", {"functions": '["a:b"]'}, ("get_functions", ["a:b"], "local")),
        ("list_tools", {}, ("list_servers", "local")),
    ],
)
async def test_discovery_is_asked_under_its_usual_names(daemon, tmp_path, name, arguments, asked):
    async with connected(daemon, tmp_path, "pipe", "2026-07-28") as client:
        result = await client.call_tool(name, arguments)
    assert daemon.discovery.asked == [asked]
    assert json.loads(said(result)) and not result.is_error


@pytest.mark.parametrize("path", ["/mcp", "/mcp/call", "/mcp/all"])
async def test_our_tools_can_be_called_on_every_face(daemon, tmp_path, path):
    async with connected(daemon, tmp_path, "http", "2026-07-28", path) as client:
        results = [
            await client.call_tool("execute_code", {"code": "1"}),
            await client.call_tool("list_servers", {}),
            await client.call_tool("call_tool", {"name": "demo:echo"}),
            await client.call_tool("run_cached_code", {"cache_id": "kept"}),
        ]
    assert [result.is_error for result in results] == [False] * 4


@pytest.mark.parametrize("name", ["execute_code", "run_code"])
async def test_code_runs_under_its_usual_names_with_a_summary(daemon, tmp_path, name):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        await client.call_tool(name, {"code": "1", "description": "count"})
    assert daemon.executed[0][0] == {"code": "1", "description": "count"}


async def test_a_wrong_type_is_named(daemon, tmp_path):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("search_tools", {"query": 7})
    assert result.is_error and "query must be a string" in said(result)


async def test_a_server_that_is_on_its_way_is_waited_for(daemon, tmp_path):
    daemon.fleet.coming = [catalog(2, late=["tool"])]
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        await client.call_tool("late__tool", {})
    assert daemon.called == [("late", "tool", {}, None)]


async def test_a_call_to_a_server_that_is_down_is_left_to_the_fleet(daemon, tmp_path):
    daemon.fleet.catalog = Catalog({"slack": server("slack", state="down")}, 1)
    daemon.results["post"] = CallError("SERVER_UNAVAILABLE", "slack is down")
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("slack__post", {"a": 1})
    assert json.loads(said(result))["error"]["code"] == "SERVER_UNAVAILABLE"
    assert daemon.called == [("slack", "post", {"a": 1}, None)]


async def test_kept_code_runs_by_its_id(daemon, tmp_path):
    async with connected(daemon, tmp_path, "pipe", "legacy") as client:
        result = await client.call_tool("run_cached_code", {"cache_id": "kept", "params": {"a": 1}})
        missing = await client.call_tool("run_cached_code", {"cache_id": "abc"})
        other = await client.call_tool("run_cached_code", {"cache_id": "kept", "input": {"a": 2}})
    assert json.loads(said(result)) == {"ok": True, "value": {"a": 1}}
    assert missing.is_error
    assert json.loads(said(missing))["error"]["code"] == "NOT_FOUND"
    assert other.is_error and "takes no 'input'; it takes cache_id, params, options" in said(other)


@pytest.mark.parametrize("era", ERAS)
async def test_a_refused_call_shows_its_envelope_and_a_failed_tool_its_result(
    daemon, tmp_path, era
):
    daemon.results["echo"] = CallError("queue_full", "demo is busy", retry_after_ms=250)
    own = {"content": [{"type": "text", "text": "own words"}], "isError": True}
    daemon.results["add"] = CallError("TOOL_ERROR", "own words", result=own)
    async with connected(daemon, tmp_path, "pipe", era) as client:
        busy = await client.call_tool("demo__echo", {})
        failed = await client.call_tool("demo__add", {})
    assert json.loads(said(busy))["error"]["retry_after_ms"] == 250 and busy.is_error
    assert said(failed) == "own words" and failed.is_error


async def test_the_prompt_is_there_and_no_other(daemon, tmp_path):
    async with connected(daemon, tmp_path, "http", "legacy") as client:
        assert [p.name for p in (await client.list_prompts()).prompts] == ["reusable_code_guide"]
        prompt = await client.get_prompt("reusable_code_guide")
        assert prompt.messages[0].content.text == offer.GUIDE
        with pytest.raises(MCPError, match="reusable_code_guide"):
            await client.get_prompt("other")


def test_the_description_is_short_and_says_what_matters():
    text = offer.DESCRIPTION
    assert len(text) < 2000
    for part in ("call_tools", "max_parallel", "tools.github", "search_tools", "script", "return"):
        assert part in text
