"""Direct mode over real HTTP: prompts, resources, questions and what clients follow, in both eras."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from daemon_process import ENOUGH, ERAS, open_process
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import PromptReference, ResourceUpdatedNotification
from running import KEY, STUBS
from shelves import until
from test_library import answer
from test_proxy import said

ONE = "file:///red/one"
BOTH = pytest.mark.parametrize("era", sorted(ERAS.values()))


@pytest.fixture(scope="module")
def serving():
    args = [*STUBS[0]["args"], "--library", "red", "--era"]
    servers = [{**STUBS[0], "name": era, "args": [*args, era]} for era in ("legacy", "modern")]
    with open_process(mcpServers=servers, code_execution_pool_size=1) as found:
        yield found


@asynccontextmanager
async def direct(serving, era, key=KEY, **options):
    async with httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=ENOUGH) as http:
        streams = streamable_http_client(f"http://{serving.address}/mcp/all", http_client=http)
        async with Client(streams, mode=era, cache=None, **options) as client:
            yield client


@BOTH
async def test_prompts_and_resources_are_listed_read_and_completed(serving, era):
    async with direct(serving, era) as client:
        listed = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert listed == ["legacy__greet", "modern__greet"]
        got = await client.get_prompt("modern__greet", {"who": "Ada"})
        assert got.messages[0].content.text == "red greets Ada"
        argument = {"name": "who", "value": "A"}
        found = await client.complete(PromptReference(name="legacy__greet"), argument)
        assert found.completion.values == ["red:greet:A"]
        uris = [str(each.uri) for each in (await client.list_resources()).resources]
        assert f"mcpproxy://resources/legacy/{ONE}" in uris and len(uris) == 4
        for uri in uris:
            (content,) = (await client.read_resource(uri)).contents
            assert str(content.uri) == uri and content.text.startswith("red has file:///")


@BOTH
async def test_a_question_reaches_the_client_that_made_the_call(serving, era):
    async with direct(serving, era, elicitation_callback=answer) as client:
        for server in ("legacy", "modern"):
            with anyio.fail_after(ENOUGH):
                result = await client.call_tool(f"{server}__ask", {})
                got = await client.get_prompt(f"{server}__ask")
            for told in (said(result), got.messages[0].content.text):
                assert json.loads(told)["content"] == {"word": "yes"}


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@BOTH
async def test_a_client_hears_of_resources_it_follows(serving, era):
    heard = []

    async def hear(message):
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async def listen(client, uri):
        async with client.listen(resource_subscriptions=[uri]) as events:
            async for event in events:
                heard.append(event.uri)

    for server in ("legacy", "modern"):
        uri = f"mcpproxy://resources/{server}/{ONE}"
        async with (
            direct(serving, era, message_handler=hear) as client,
            anyio.create_task_group() as tasks,
        ):
            if era == "legacy":
                await client.subscribe_resource(uri)
            else:
                tasks.start_soon(listen, client, uri)
            touch = client.call_tool
            await until(lambda: touch(f"{server}__touch", {"uri": ONE}), lambda _: uri in heard)  # noqa: B023
            tasks.cancel_scope.cancel()
    assert set(heard) == {f"mcpproxy://resources/{each}/{ONE}" for each in ("legacy", "modern")}


async def test_a_token_hears_of_its_own_servers_alone(serving):
    wanted = {"name": "reader", "allowed_servers": ["modern"], "permissions": ["read", "write"]}
    made = serving.ask("POST", "/api/v1/tokens", wanted).body["data"]["token"]
    other = f"mcpproxy://resources/legacy/{ONE}"
    async with (
        direct(serving, "2026-07-28") as admin,
        direct(serving, "2026-07-28", key=made) as client,
    ):
        async with (
            admin.listen(resource_subscriptions=[other]) as all_events,
            client.listen(resource_subscriptions=[other, ONE]) as events,
        ):
            assert events.honored.resource_subscriptions == [ONE]
            # The address that the token knows for the one server is the other's own, too.
            await until(
                lambda: admin.call_tool("legacy__touch", {"uri": ONE}),
                lambda told: "2" not in said(told) and ONE in said(told),
            )
            assert (await anext(aiter(all_events))).uri == other
            await admin.call_tool("modern__touch", {"uri": ONE})
            with anyio.fail_after(ENOUGH):
                assert (await anext(aiter(events))).uri == ONE
