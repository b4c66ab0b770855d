"""One script from request to reply, through real VMs: what it leaves under way, says and asks, and how it ends."""

from __future__ import annotations

import gc

import anyio
import pytest
from world import Played, open_world

from mcpproxy.errors import Refused
from mcpproxy.execution import ANSWERED_AT_ONCE
from mcpproxy.script import Question


@pytest.fixture(scope="module")
async def opened():
    async with open_world(code_execution_pool_size=3) as world:
        yield world


@pytest.fixture
def world(opened):
    opened.upstreams, opened.progress = Played(), []
    return opened


@pytest.mark.threat("S3")
async def test_a_script_that_reads_no_answers_makes_no_more_calls(world):
    world.upstreams.results["stub", "echo"] = {"content": [{"type": "text", "text": "x" * 2**20}]}
    reply = await world.run(
        "for (let i = 0; i < 60; i++) tools.stub.echo({i}); for (;;) {}",
        options={"timeout_ms": 500},
    )
    assert reply["error"]["code"] == "TIMEOUT"
    made = [entry["outcome"] for entry in reply["calls"]].count("ok")
    assert 16 <= made == len(world.upstreams.calls) <= 16 + 8


@pytest.mark.threat("S3")
async def test_the_questions_of_a_script_are_gone_with_it_though_nobody_collects(world):
    gc.collect()
    gc.disable()
    try:
        await world.run(
            "for (let i = 0; i < 300; i++) { search_tools('q'); tools.stub.hang({a: [i]}) } for (;;) {}",
            options={"timeout_ms": 300},
        )
        left = [each for each in gc.get_objects() if isinstance(each, Question)]
    finally:
        gc.enable()
    assert len(left) <= ANSWERED_AT_ONCE  # those that were being answered when it ended


async def test_a_script_reads_its_answers_while_nobody_takes_what_it_sends(world):
    world.upstreams.results["stub", "echo"] = {"content": [{"type": "text", "text": "x" * 2**20}]}
    code = """
        const a = 'a'.repeat(2 ** 20), all = [];
        for (let i = 0; i < 48; i++) all.push(tools.stub.echo({a}).then(text => text.length));
        return (await Promise.all(all)).every(length => length === a.length);
    """
    assert await world.value(code) is True


async def test_an_argument_that_a_tool_does_not_know_is_told_once(world):
    code = "for (const c of [3, 4]) await tools.stub.add({a: 1, b: 2, c}); return 1"
    (warning,) = (await world.run(code))["warnings"]
    assert warning.startswith('stub:add: "c" is none of its parameters: a, b; ')
    assert "warnings" not in await world.run("await tools.stub.echo({c: 1}); return 1")


async def test_a_program_without_a_value_is_told_that_its_calls_were_made(world):
    error = await world.error(
        "for (const a of [1, 2]) await tools.stub.echo({a}); console.log('made')"
    )
    assert error["message"].endswith(
        ". Its calls were made: don't make again what changes something (stub:echo)"
    )
    for code in ("console.log(1)", "call_tool('stub', 'fail', {}); console.log(1)"):
        assert "Its calls were made" not in (await world.error(code))["message"]


@pytest.mark.req("REQ-TYPED-10")
async def test_calls_nobody_awaited_are_cancelled_and_said(world):
    reply = await world.run("for (let i = 0; i < 30; i++) tools.stub.hang({}); 'left'")
    assert reply["value"] == "left"
    assert "30 call(s)" in reply["warnings"][0]
    assert world.upstreams.in_flight == 0


@pytest.mark.parametrize(
    ("code", "warning"),
    [
        ("tools.stub.fail({}); await sleep(1); await tools.stub.echo({}); 1", "a call failed that nobody awaited: tools.stub.fail(…): TOOL_ERROR: it failed"),
        ("tools.stub.echo(5); tools.stub.echo([]); await 0; 1", "2 calls failed that nobody awaited, the first: tools.stub.echo(…): INVALID_ARGS: "),
        ("const p = tools.stub.fail({}); await tools.stub.echo({}); try { await p } catch {} 1", ""),
        ("tools.stub.fail({}).catch(() => {}); await tools.stub.echo({}); 1", ""),
        ("await Promise.allSettled([tools.stub.fail({})]); 1", ""),
        ("[1].forEach(async () => { await tools.stub.hang({}) }); 1", "write for (const x of list)"),
        ("[1, 2].filter(async () => (await tools.stub.hang({})).a).length - 1", "filter waits for no async function: await Promise.all(list.map(...))"),
        ("tools.stub.echo({}); call_tool('stub', 'echo', {}); call_tool('stub', 'echo', {}); 1", "ended before it had the answers of 1 call(s)"),
        ("sleep(5); search_tools('x'); call_tool('stub', 'echo', {}); 1", ""),
    ],
)  # fmt: skip
async def test_a_failure_that_nobody_saw_is_said(world, code, warning):
    reply = await world.run(code)
    assert reply["value"] == 1
    assert ("warnings" in reply) is bool(warning)
    assert warning in reply.get("warnings", [""])[0]


@pytest.mark.req("REQ-LEDGER-03", "REQ-LEDGER-04", "REQ-LEDGER-08", "REQ-STOP-01")
@pytest.mark.threat("S1")
async def test_a_timeout_cancels_what_is_in_flight_and_says_so(world):
    reply = await world.run(
        "call_tool('stub', 'echo', {}); call_tools([1, 2, 3].map(() => ({server: 'stub', tool: 'hang'})), {max_parallel: 2})",
        options={"timeout_ms": 400},
    )
    assert reply["error"]["code"] == "TIMEOUT"
    assert "unknown outcome" in reply["error"]["message"]
    assert [entry["outcome"] for entry in reply["calls"]] == [
        "ok",
        "unknown",
        "unknown",
        "not_started",
    ]
    assert world.upstreams.cancelled == ["hang", "hang"]


@pytest.mark.req("REQ-STOP-10")
async def test_a_cancelled_execution_cancels_its_calls(world):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.run, "call_tool('stub', 'hang', {}); 1")
        await world.upstreams.reached.wait()
        tasks.cancel_scope.cancel()
    assert world.upstreams.cancelled == ["hang"]
    assert world.pool.busy == 0


@pytest.mark.req("REQ-LEDGER-01", "REQ-LEDGER-02", "REQ-LEDGER-06", "REQ-LEDGER-07")
async def test_the_ledger_comes_with_a_failure_and_on_request(world):
    failed = await world.run(
        "for (let i = 1; i <= 3; i++) { if (i == 3) await tools.stub.fail({}); call_tool('stub', 'echo', {i}) }"
    )
    assert [(entry["n"], entry["outcome"], entry.get("code")) for entry in failed["calls"]] == [
        (1, "ok", None),
        (2, "ok", None),
        (3, "error", "TOOL_ERROR"),
    ]
    assert "calls" not in await world.run("call_tool('stub', 'echo', {}); 1")
    assert (await world.run("call_tool('stub', 'echo', {}); 1", options={"trace": True}))["calls"][
        0
    ]["outcome"] == "ok"


@pytest.mark.req("REQ-PROG-01")
async def test_progress_counts_calls(world):
    await world.run("call_tool('stub', 'echo', {}); call_tool('github', 'add', {a: 1, b: 2}); 1")
    assert world.progress == [(1, "stub:echo"), (2, "github:add")]


@pytest.mark.req("REQ-LOG-01", "REQ-LOG-02", "REQ-LOG-03", "REQ-LOG-07")
async def test_logs_come_in_order_and_bounded(world):
    reply = await world.run(
        "console.log('one', {a: [1]}); console.warn('two'); console.error('three'); 1"
    )
    assert reply["logs"] == [
        {"level": "log", "message": "one {a: [1]}"},
        {"level": "warn", "message": "two"},
        {"level": "error", "message": "three"},
    ]
    reply = await world.run(
        "for (let i = 0; i < 5000; i++) console.log('line ' + i + ' ' + 'x'.repeat(90)); 1"
    )
    assert sum(len(line["message"]) for line in reply["logs"]) <= 65536 + 100
    assert len(reply["logs"]) + reply["logs_dropped"] == 5000


@pytest.mark.req("REQ-LOG-06")
async def test_logs_survive_a_timeout(world):
    reply = await world.run("console.log('seen'); while (true) {}", options={"timeout_ms": 100})
    assert (reply["error"]["code"], reply["logs"]) == (
        "TIMEOUT",
        [{"level": "log", "message": "seen"}],
    )


@pytest.mark.req("REQ-FIND-01", "REQ-FIND-03")
async def test_discovery_inside_a_script(world):
    assert await world.value("await search_tools('wish', {limit: 3})") == {
        "query": "wish",
        "limit": 3,
        "server": None,
    }
    assert (
        "did you mean stub:echo"
        in (await world.error("await describe_tool('stub:ecko')"))["message"]
    )


@pytest.mark.req("REQ-HAS-15", "REQ-HAS-16")
@pytest.mark.threat("S6")
async def test_nothing_survives_from_one_script_to_the_next(world):
    await world.run(
        "globalThis.leak = 1; Array.prototype.mine = 3; Object.freeze(Object.prototype); call_tool = null; 1"
    )
    for _ in range(6):
        assert await world.value(
            "[typeof leak, typeof [].mine, typeof call_tool, Object.isFrozen(Object.prototype)]"
        ) == ["undefined", "undefined", "function", False]


async def test_random_numbers_differ_between_scripts(world):
    assert await world.value("Math.random()") != await world.value("Math.random()")


@pytest.mark.req("REQ-CODE-19", "REQ-POOL-03", "REQ-POOL-04")
async def test_a_waiting_execution_is_not_charged_and_too_many_are_busy(world):
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(world.run, "call_tool('stub', 'hang', {})")
        while world.upstreams.in_flight < 3:
            await anyio.lowlevel.checkpoint()
        world.settings = world.settings.model_copy(update={"code_execution_queue_timeout_ms": 50})
        error = await world.error("1")
        assert error["code"] == "POOL_BUSY"
        tasks.cancel_scope.cancel()
    world.settings = world.settings.model_copy(update={"code_execution_queue_timeout_ms": 30000})
    assert await world.value("1") == 1


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
async def test_an_input_that_is_no_json_is_refused_whoever_parsed_it(world, number):
    with pytest.raises(Refused, match="input holds NaN or an infinity"):
        await world.run("1", input={"rows": [{"n": number}]})
