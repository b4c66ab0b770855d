"""Prompts, resources and questions of real servers, through the faces, in both eras on both sides."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitResult,
    PromptReference,
    ResourceTemplateReference,
)
from shelves import SERVER_ERAS, library, reader, shelf
from test_proxy import ERAS, said
from upstreams import open_stubs, stub

from mcpproxy import asking
from mcpproxy.asking import Asker, Desk
from mcpproxy.errors import CallError
from mcpproxy.library import unwrap, wrap
from mcpproxy.listings import HOLD_SECONDS, PROMPTS, fetch
from mcpproxy.upstream.listing import holds


@pytest.fixture(scope="module")
async def shelves(tmp_path_factory):
    """By the era of the servers: two with prompts and resources and one without, for all to read."""
    async with AsyncExitStack() as stack:
        fleets = {}
        for era in ("legacy", "modern", "both"):
            servers = [*(shelf(word, era=era) for word in ("red", "blue")), stub()]
            logs = tmp_path_factory.mktemp(era)
            fleets[era] = await stack.enter_async_context(open_stubs(logs, *servers))
        yield fleets


@pytest.mark.parametrize("server_era", SERVER_ERAS)
@pytest.mark.parametrize("era", ERAS)
async def test_prompts_of_all_servers_are_listed_and_read(shelves, era, server_era):
    async with reader(shelves[server_era], era=era) as client:
        assert client.server_capabilities.prompts.list_changed
        listed = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == ["red__greet", "blue__greet"]
        assert listed[0].arguments[0].name == "who" and listed[0].arguments[0].required
        for name in ("blue__greet", "blue:greet"):
            got = await client.get_prompt(name, {"who": "Ada"})
            assert got.messages[0].content.text == "blue greets Ada"
        with pytest.raises(MCPError, match="no prompt other"):
            await client.get_prompt("red__other")
        with pytest.raises(MCPError, match="did you mean red__greet"):
            await client.get_prompt("redgreet")


@pytest.mark.parametrize("server_era", SERVER_ERAS)
@pytest.mark.parametrize("era", ERAS)
async def test_resources_keep_their_address_where_it_is_unique(shelves, era, server_era):
    async with reader(shelves[server_era], era=era) as client:
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        assert listed == [
            "mcpproxy://resources/red/file:///shared",
            "file:///red/one",
            "mcpproxy://resources/blue/file:///shared",
            "file:///blue/one",
        ]
        for uri in listed:
            (content,) = (await client.read_resource(uri)).contents
            word = "red" if "/red" in uri else "blue"
            assert str(content.uri) == uri
            assert content.text.startswith(f"{word} has file:///")
        with pytest.raises(MCPError, match="mcpproxy://resources/red/file:///shared or"):
            await client.read_resource("file:///shared")


@pytest.mark.parametrize("era", ERAS)
async def test_templates_say_whose_a_resource_is(shelves, era):
    async with reader(shelves["both"], era=era) as client:
        listed = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in listed] == [
            "red://{id}",
            "mcpproxy://resources/red/any://{id}",
            "blue://{id}",
            "mcpproxy://resources/blue/any://{id}",
        ]
        (content,) = (await client.read_resource("blue://7")).contents
        assert content.text == "blue has blue://7"
        with pytest.raises(MCPError) as caught:
            await client.read_resource("mcpproxy://resources/red/any://nothing")
        assert caught.value.code == (-32002 if era == "legacy" else -32602)


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_are_completed_by_the_server_that_has_them(shelves, era):
    async with reader(shelves["both"], era=era) as client:
        argument = {"name": "who", "value": "A"}
        for ref, word in (
            (PromptReference(name="blue__greet"), "blue:greet:A"),
            (ResourceTemplateReference(uri="red://{id}"), "red:red://{id}:A"),
            (ResourceTemplateReference(uri=wrap("red", "any://{id}")), "red:any://{id}:A"),
        ):
            assert (await client.complete(ref, argument)).completion.values == [word]


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_does_not_list_costs_its_own_entries(tmp_path, era):
    servers = shelf("red", "--broken-library"), shelf("blue")
    async with library(tmp_path, *servers, era=era) as client:
        assert [each.name for each in (await client.list_prompts()).prompts] == ["blue__greet"]
        uris = [str(each.uri) for each in (await client.list_resources()).resources]
        assert uris == ["file:///shared", "file:///blue/one"]


async def test_a_long_list_has_pages(shelves, monkeypatch):
    monkeypatch.setattr("mcpproxy.library.PAGE", 3)
    async with reader(shelves["both"]) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        assert [len(first.resources), len(second.resources)] == [3, 1]
        assert second.next_cursor is None
        assert first.ttl_ms > 0 and first.cache_scope == "private"
        for cursor in ("3", "x", "3.0", "-1." + first.next_cursor.split(".")[1]):
            with pytest.raises(MCPError, match="cursor"):
                await client.list_resources(cursor=cursor)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_came_before_the_servers_is_told_what_they_may_have(tmp_path, era):
    async with library(tmp_path, stub(), era=era) as client:
        offers = client.server_capabilities
        assert offers.prompts.list_changed and offers.completions is not None
        assert offers.resources.list_changed and offers.resources.subscribe
        assert offers.logging is not None
        assert (await client.list_prompts()).prompts == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_name_that_one_server_alone_has_is_enough(tmp_path, era):
    async with library(tmp_path, shelf("red"), stub(), era=era) as client:
        assert (
            "red greets Ada" in (await client.get_prompt("greet", {"who": "Ada"})).model_dump_json()
        )
        told = await client.call_tool("touch", {"uri": "any://1"})
        assert json.loads(said(told)) == {"followed": {}, "level": ""}
        ambiguous = await client.call_tool("echo", {})
        assert ambiguous.is_error and "red:echo" in said(ambiguous)


@pytest.mark.parametrize("era", ERAS)
async def test_the_small_face_keeps_to_its_own_prompt(shelves, era):
    async with reader(shelves["both"], era=era, path="/mcp") as client:
        assert client.server_capabilities.logging is None
        assert client.server_capabilities.resources is None
        listed = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == ["reusable_code_guide"]


# ── questions ───────────────────────────────────────────────────────────────────────────────────


async def answer(context, params):
    assert params.message == "Which word?"
    return ElicitResult(action="accept", content={"word": "yes"})


@pytest.mark.parametrize("server_era", SERVER_ERAS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_question_reaches_the_client_that_made_the_call(shelves, era, server_era):
    way = reader(shelves[server_era], era=era, elicitation_callback=answer)
    async with way as client:
        with anyio.fail_after(20):
            result = await client.call_tool("red__ask", {})
    told = json.loads(said(result))
    assert told["content"] == {"word": "yes"} and told["action"] == "accept"
    assert told.get("state") == ("s:1" if server_era == "modern" else None)


@pytest.mark.parametrize("era", ERAS)
async def test_the_time_of_a_call_stands_still_while_somebody_thinks(tmp_path, era):
    async def think(context, params):
        await anyio.sleep(0.4)
        return await answer(context, params)

    server = shelf("red", era="legacy", call_tool_timeout=200)
    async with library(tmp_path, server, era=era, elicitation_callback=think) as client:
        assert json.loads(said(await client.call_tool("red__ask", {})))["action"] == "accept"
        late = await client.call_tool("red__sleep", {"ms": 5000})
        assert "call_tool_timeout" in said(late)


async def test_a_modern_question_passes_through_as_it_is(shelves):
    async with reader(shelves["both"], elicitation_callback=answer) as client:
        asked = await client.session.call_tool("red__ask", {}, allow_input_required=True)
        assert asked.request_state == "s:1" and list(asked.input_requests) == ["w"]


@pytest.mark.parametrize("server_era", SERVER_ERAS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_and_a_resource_may_ask_as_well(shelves, era, server_era):
    way = reader(shelves[server_era], era=era, elicitation_callback=answer)
    async with way as client:
        with anyio.fail_after(20):
            got = await client.get_prompt("red__ask")
            (content,) = (await client.read_resource("red://ask")).contents
    for told in (got.messages[0].content.text, content.text):
        assert json.loads(told)["content"] == {"word": "yes"}


@pytest.mark.parametrize(
    ("era", "server_era", "part"),
    [
        ("legacy", "modern", "has not declared that it answers elicitation"),
        ("legacy", "legacy", "has not declared that it answers elicitation"),
        ("2026-07-28", "legacy", "does not answer elicitation/create"),
    ],
)
async def test_a_client_that_answers_nothing_is_not_asked(shelves, era, server_era, part):
    async with reader(shelves[server_era], era=era) as client:
        with anyio.fail_after(20):
            result = await client.call_tool("red__ask", {})
    assert part in said(result)


@pytest.mark.parametrize("server_era", SERVER_ERAS)
async def test_a_script_is_not_asked(shelves, server_era):
    with anyio.fail_after(20):
        try:
            told = json.dumps(await shelves[server_era].call("red", "ask", {}))
        except CallError as error:
            told = f"{error.code} {error}"
    assert "a script can't answer questions" in told
    assert server_era == "legacy" or told.startswith("UPSTREAM_ERROR")


async def test_a_question_while_several_calls_run_is_refused(tmp_path):
    way = library(tmp_path, shelf("red", era="legacy"), elicitation_callback=answer)
    async with way as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "red__hang", {})
        with anyio.fail_after(20):
            while json.loads(said(await client.call_tool("red__stats", {})))["in_flight"] == 0:
                await anyio.lowlevel.checkpoint()
            result = await client.call_tool("red__ask", {})
        tasks.cancel_scope.cancel()
    assert "whom to ask is unknown" in said(result)


async def test_an_answer_that_comes_too_late_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "KEPT_SECONDS", 0)
    way = library(tmp_path, shelf("red", era="legacy"), elicitation_callback=answer)
    async with way as client:
        asked = await client.session.call_tool("red__ask", {}, allow_input_required=True)
        assert asked.request_state.startswith(asking.TOKEN)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(MCPError, match="is gone"):
            await client.session.call_tool(
                "red__ask", {}, input_responses={}, request_state=asked.request_state
            )
        assert json.loads(said(await client.call_tool("red__stats", {})))["in_flight"] >= 0


async def test_a_question_is_answered_only_by_who_was_asked(shelves):
    way = reader(shelves["legacy"], elicitation_callback=answer)
    async with way as client:
        asked = await client.session.call_tool("red__ask", {}, allow_input_required=True)
        state = asked.request_state
        with pytest.raises(MCPError, match="is gone"):
            await client.session.call_tool("red__echo", {}, input_responses={}, request_state=state)
        own = await client.session.call_tool(
            "red__ask", {}, input_responses={}, request_state=state
        )
        assert "the client gave no answer" in said(own)


@pytest.mark.parametrize("question", ["which?", {"method": 1}, {"method": "x", "params": []}, None])
async def test_a_question_that_is_none_is_its_server_s_fault(question):
    async def send(client, report):
        return {"resultType": "input_required", "inputRequests": {"q": question}}

    with pytest.raises(CallError, match="red:ask asks for more input in a way that is not MCP's"):
        await Desk().converse(Asker.nobody("somebody"), "red:ask", send, legacy=False)


@pytest.mark.parametrize("server", ["a", "my server", "a/b", "Ä"])
@pytest.mark.parametrize(
    "uri", ["file:///a/b?c=d#e", "x://{id}/{+more}", "mcpproxy://resources/a/b:c"]
)
def test_wrapping_is_reversible(server, uri):
    assert unwrap(wrap(server, uri)) == (server, uri)


async def test_a_list_may_hold_for_longer_than_a_float_can_say():
    async def ask(method, params):
        return {"prompts": [{"name": "p"}], "ttlMs": 10**400}

    found, held = await fetch("stub", ask, PROMPTS)
    assert list(found) == ["p"] and held == HOLD_SECONDS
    said = [10**400, float("inf"), 1500, 0.5, 0, -1, True, "9", None]
    assert [holds({"ttlMs": each}) for each in said] == [86_400, 86_400, 1.5, 0.0005, *[None] * 5]
