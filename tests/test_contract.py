"""Promises that no other test is about, each in one sentence."""

from __future__ import annotations

import os
import re
import signal
import time

import anyio
import pytest
from fakes import FakeDaemon, catalog
from watched import Watched, pid_of
from world import Played, open_world

from mcpproxy import request
from mcpproxy.catalog import Tool
from mcpproxy.cli.code import scripts as scripts_command
from mcpproxy.errors import CallError, Refused
from mcpproxy.gates import check_allowed, check_arguments
from mcpproxy.policy import ADMIN
from mcpproxy.rest.api import open_api
from mcpproxy.settings import Settings
from mcpproxy.upstream.limits import Limiter

BATCH = "call_tools([...Array(input.n)].map(() => ({server: 'stub', tool: 'nap'})), input.options)"


@pytest.fixture(scope="module")
async def opened():
    async with open_world(code_execution_pool_size=2) as world:
        yield world


@pytest.fixture
def world(opened):
    opened.upstreams, opened.settings = Played(), Settings()
    return opened


@pytest.mark.req("REQ-BATCH-02")
async def test_a_hundred_elements_are_taken(world):
    given = {"n": 100, "options": {}}
    assert await world.value(f"{BATCH}.filter(s => s.ok).length", input=given) == 100


@pytest.mark.req("REQ-BATCH-10", "REQ-BATCH-20", "REQ-BATCH-21", "REQ-BATCH-22", "REQ-GATE-09")
@pytest.mark.parametrize(
    ("configured", "options", "cap"),
    [
        pytest.param(None, {}, 8, id="eight when nobody says otherwise"),
        pytest.param(3, {}, 3, id="as configured"),
        pytest.param(3, {"max_parallel": 5}, 5, id="as the batch asks"),
        pytest.param(8, {"max_parallel": 1}, 1, id="one at a time"),
        pytest.param(8, {"max_parallel": 32}, 32, id="the most"),
    ],
)
async def test_no_more_calls_of_a_batch_run_at_once_than_they_may(world, configured, options, cap):
    if configured is not None:
        world.settings = Settings(code_execution_max_parallel=configured)
    await world.value(f"{BATCH}.length", input={"n": cap + 8, "options": options})
    assert world.upstreams.high_water == cap


@pytest.mark.req("REQ-CODE-18", "REQ-LEDGER-11")
async def test_a_vm_that_dies_costs_its_own_script_and_its_ledger_stays_true(world):
    pool, world.pool = world.pool, Watched(world.pool)
    replies = []

    async def run():
        code = "call_tool('stub', 'echo', {}); call_tool('stub', 'hang', {})"
        replies.append(await world.run(code))

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while "hang" not in [tool for _, tool, _ in world.upstreams.calls]:
                await anyio.lowlevel.checkpoint()
            vm = world.pool.last
            assert await world.value("1 + 1") == 2
            os.kill(await pid_of(vm, world.pool.pool), signal.SIGKILL)
    finally:
        world.pool = pool
    (reply,) = replies
    assert reply["error"]["code"] == "WORKER_CRASHED"
    outcomes = [(entry["tool"], entry["outcome"]) for entry in reply["calls"]]
    assert outcomes == [("echo", "ok"), ("hang", "unknown")]
    assert world.upstreams.cancelled == ["hang"]


@pytest.mark.req("REQ-STOP-02")
async def test_nothing_is_dispatched_after_the_deadline(world):
    code = "for (const _ of Array(50)) tools.stub.hang({}); while (true) {}"
    reply = await world.run(code, options={"timeout_ms": 100})
    assert reply["error"]["code"] == "TIMEOUT"
    sent = len(world.upstreams.calls)
    assert sent == 8
    await world.value("1")
    assert len(world.upstreams.calls) == sent


@pytest.mark.req("REQ-GATE-03", "REQ-GATE-04")
async def test_a_refused_call_is_never_sent_and_a_missing_tool_comes_first(world):
    code = "['ecko', 'add'].map(t => call_tool('stub', t, {a: 'one'}).error.code)"
    assert await world.value(code) == ["TOOL_NOT_FOUND", "INVALID_TOOL_ARGS"]
    assert world.upstreams.calls == []


DRAFT_07 = {"$schema": "http://json-schema.org/draft-07/schema#"}
PAIR = {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}
NEW_PAIR = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}


@pytest.mark.req("REQ-GATE-08", "REQ-CODE-14")
@pytest.mark.parametrize(
    ("schema", "refused"),
    [
        pytest.param({**DRAFT_07, "properties": {"p": PAIR}}, True, id="draft-07"),
        pytest.param({"properties": {"p": NEW_PAIR}}, True, id="2020-12"),
        pytest.param({"properties": {"p": {"type": "nonsense"}}}, False, id="a broken one"),
        pytest.param({"$ref": "https://example.com/schema"}, False, id="one that is elsewhere"),
        pytest.param({}, False, id="an empty one"),
    ],
)
def test_arguments_are_checked_by_the_draft_of_their_schema(schema, refused):
    tool = Tool("s", {"name": "t", "inputSchema": schema})
    try:
        check_arguments(tool, {"p": ["x", "not a number"]})
    except CallError as error:
        assert refused
        assert error.code == "INVALID_TOOL_ARGS"
        assert "args.p[1]" in str(error)
    else:
        assert not refused


def referring(twice, levels=40):
    """Definitions that each refer to the next as `twice` says."""
    found = {f"d{n}": twice({"$ref": f"#/$defs/d{n + 1}"}) for n in range(levels)}
    return {"$defs": {**found, f"d{levels}": {"type": "null"}}, "$ref": "#/$defs/d0"}


@pytest.mark.threat("U4")
@pytest.mark.parametrize(
    "schema",
    [
        referring(lambda ref: {"allOf": [ref, ref]}),
        referring(lambda ref: {"anyOf": [ref, {"not": ref}]}),
        {"allOf": [{"properties": {"p": {"$ref": "#"}}}, {"properties": {"p": {"$ref": "#"}}}]},
        {"properties": {"p": {"$ref": "#"}}, "patternProperties": {"^p": {"$ref": "#"}}},
        {
            "$defs": {"again": {"properties": {"p": {"$ref": "#"}}}},
            "anyOf": [{"$ref": "#/$defs/again"}, {"not": {"$ref": "#/$defs/again"}}],
        },
        {
            "$defs": {
                **{
                    f"d{n}": {"$anchor": f"d{n}", "anyOf": [{"$ref": f"#d{n + 1}"}] * 2}
                    for n in range(40)
                },
                "d40": {"$anchor": "d40", "type": "null"},
            },
            "$ref": "#d0",
        },
    ],
)
def test_a_small_schema_that_takes_for_ever_is_left_to_its_server(schema):
    arguments = {}
    for _ in range(40):
        arguments = {"p": arguments}
    began = time.process_time()
    check_arguments(Tool("s", {"name": "t", "inputSchema": schema}), arguments)
    assert time.process_time() - began < 1


def test_a_refusal_names_some_of_the_servers_that_may_be_called():
    with pytest.raises(CallError, match=r"\(a, b\)"):
        check_allowed("x", frozenset("ab"))
    with pytest.raises(CallError, match="and 980 more"):
        check_allowed("x", frozenset(map(str, range(1000))))


@pytest.mark.threat("S3")
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"p": {"items": {"type": "string"}}}},
        {"properties": {"p": {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}},
        {"properties": {"p": {"type": "string"}}},
        {"propertyNames": {"maxLength": 1}},
    ],
)
def test_a_hundred_thousand_faults_are_told_by_the_first(schema):
    arguments = {"p": list(range(50_000))} | {f"k{n}": n for n in range(50_000)}
    began = time.process_time()
    with pytest.raises(CallError) as refused:
        check_arguments(Tool("s", {"name": "t", "inputSchema": schema}), arguments)
    assert time.process_time() - began < 1
    assert len(str(refused.value)) < 1000


@pytest.mark.req("REQ-GATE-08")
@pytest.mark.parametrize("levels", [1, 8, 60])
def test_arguments_are_checked_by_a_schema_that_leads_back_into_itself(levels):
    again = {"$ref": "#/$defs/item"}
    item = {"type": "object", "properties": {"p": again, "q": again, "n": {"type": "null"}}}
    arguments = {"n": 1}
    for _ in range(levels):
        arguments = {"p": arguments}
    schema = {"$defs": {"item": item}, "$ref": "#/$defs/item"}
    with pytest.raises(CallError, match=r"\.n: "):
        check_arguments(Tool("s", {"name": "t", "inputSchema": schema}), arguments)


@pytest.mark.req("REQ-CODE-14")
@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"enum": [*"abcdefghijk"]}, "z", ['"k"']),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, ["string", "null"]),
        (
            {"oneOf": [{"properties": {"k": {"const": 1}}}, {"type": "null"}]},
            {"k": 2},
            [".k 1 was"],
        ),
    ],
)
def test_a_refusal_of_arguments_says_all_that_may_stand_there(schema, value, said):
    tool = Tool("s", {"name": "t", "inputSchema": {"properties": {"p": schema}}})
    with pytest.raises(CallError, match=r"args\.p: ") as refused:
        check_arguments(tool, {"p": value})
    assert all(each in str(refused.value) for each in said)


@pytest.mark.req("REQ-CODE-15")
async def test_a_call_that_waits_too_long_for_its_turn_may_be_tried_again():
    limiter = Limiter("server 'stub'", 1, 1, 0.001)
    await limiter.enter("stub:a")
    with anyio.fail_after(20), pytest.raises(CallError) as refused:
        await limiter.enter("stub:b")
    error = refused.value.envelope()["error"]
    assert (error["code"], error["retryable"]) == ("queue_timeout", True)
    assert error["retry_after_ms"] > 0


@pytest.mark.req("REQ-OPT-13", "REQ-OPT-14", "REQ-CONF-07", "REQ-CONF-08", "REQ-CONF-09", "REQ-CONF-11")  # fmt: skip
def test_the_defaults_are_those_of_the_reference():
    settings = Settings()
    asked = request.read({"code": "1"}, settings, None, ADMIN)
    assert (asked.timeout_ms, asked.max_tool_calls, asked.allowed_servers) == (120_000, 0, None)
    assert settings.code_execution_queue_timeout_ms == 30_000
    assert settings.code_execution_memory_mb == 128
    assert settings.code_execution_max_result_bytes == 2**20
    assert settings.call_tool_timeout == 120


@pytest.mark.req("REQ-OPT-12")
def test_a_request_beats_the_configuration():
    settings = Settings(code_execution_timeout_ms=5, code_execution_max_tool_calls=6)
    configured = request.read({"code": "1"}, settings, None, ADMIN)
    assert (configured.timeout_ms, configured.max_tool_calls) == (5, 6)
    options = {"timeout_ms": 7, "max_tool_calls": 8}
    asked = request.read({"code": "1", "options": options}, settings, None, ADMIN)
    assert (asked.timeout_ms, asked.max_tool_calls) == (7, 8)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"x" * 10**6: 1}, "INVALID_REQUEST"),
        ({"options": {"x" * 10**6: 1}}, "INVALID_OPTIONS"),
        ({"options": {"timeout_ms": 10**4000}}, "INVALID_OPTIONS"),
        ({"options": {"max_tool_calls": -(10**4000)}}, "INVALID_OPTIONS"),
        ({"options": {"max_tool_calls": 10**4000}}, "INVALID_OPTIONS"),
        ({"options": {"allowed_servers": ["x" * 10**6]}}, "INVALID_OPTIONS"),
        ({"options": {"allowed_servers": ["x"] * 10**5}}, "INVALID_OPTIONS"),
    ],
)
def test_a_refusal_repeats_little_of_what_was_wrong(body, code):
    with pytest.raises(Refused) as refused:
        request.read({"code": "1", **body}, Settings(), None, ADMIN)
    assert refused.value.code == code
    assert len(str(refused.value)) < 500


@pytest.mark.req("REQ-STORE-25")
def test_nothing_writes_a_stored_script():
    routes = open_api(FakeDaemon(catalog())).all
    methods = [each.method for each in routes if each.path == "/api/v1/code/scripts"]
    assert methods == ["GET"]
    assert set(scripts_command.commands) == {"list"}


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ({"timeout": 5}, "options.timeout_ms"),
        ({"allowedServers": []}, "options.allowed_servers"),
        ({"options": {"timeout": 5}}, "options.timeout_ms"),
        ({"options": {"inputs": {}}}, "input"),
    ],
)
def test_a_field_that_is_not_there_is_answered_with_the_one_that_was_meant(body, meant):
    with pytest.raises(Refused, match=rf"; did you mean {re.escape(meant)}\?$"):
        request.read({"code": "1", **body}, Settings(), None, ADMIN)
