"""Calls to real servers: what goes out, what comes back, and what a broken answer costs."""

from __future__ import annotations

import anyio
import pytest
from upstreams import ERAS, fleet_of, open_stubs, refused, stats, stub, until


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory):
    """One server of each era, by its name, and `stub`, which speaks both."""
    servers = stub("--era", "legacy", name="legacy"), stub("--era", "modern", name="modern"), stub()
    async with open_stubs(tmp_path_factory.mktemp("logs"), *servers) as fleet:
        yield fleet


@ERAS
async def test_a_result_is_what_the_server_sent_without_the_envelope_of_its_era(fleet, era):
    assert await fleet.call(era, "add", {"a": 1, "b": 2}) == {
        "content": [{"type": "text", "text": '{"sum": 3}'}],
        "structuredContent": {"sum": 3},
    }


@ERAS
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": "no list"},
        {"content": [{"type": "unheard-of", "x": [1]}], "structuredContent": [1, 2], "isError": None},
        {"content": [], "_meta": {"own/key": 1}, "extra": {"deep": {"resultType": "mine"}}},
    ],
)  # fmt: skip
async def test_an_odd_result_comes_through_as_it_is(fleet, era, result):
    assert await fleet.call(era, "odd", {"result": result}) == result


async def test_a_tool_that_fails_is_a_result_and_a_protocol_error_is_not(fleet):
    assert (await fleet.call("stub", "fail", {"message": "no"}))["isError"] is True
    error = await refused(fleet, "rpc_error", {"code": 4321, "message": "out of order"})
    assert error.code == "UPSTREAM_ERROR"
    assert all(part in error.message for part in ("stub", "out of order", "4321"))


@ERAS
async def test_started_is_told_once_before_the_server_hears_of_it(fleet, era):
    told = []
    await fleet.call(era, "ping", {}, started=lambda: told.append(waiting(fleet, era)))
    assert told == [1]


def waiting(fleet, server):
    (found,) = [each for each in fleet.status() if each["name"] == server]
    return found["in_flight"]


@ERAS
async def test_progress_reaches_the_caller(fleet, era):
    seen: list[tuple[float, float | None, str | None]] = []
    all_seen = anyio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))
        if done == total:
            all_seen.set()

    await fleet.call(era, "progress", {"steps": 2}, progress=progress)
    with anyio.fail_after(20):
        await all_seen.wait()
    assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_what_a_caller_adds_as_meta_reaches_the_server(fleet):
    result = await fleet.call("stub", "whoami", {}, meta={"traceparent": "00-1-2-3"})
    assert result["structuredContent"]["meta"]["traceparent"] == "00-1-2-3"


@ERAS
async def test_many_calls_are_in_flight_at_once_and_a_cancelled_one_is_cancelled_at_the_server(
    fleet, era
):
    scopes = []

    async def hang() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await fleet.call(era, "hang", {})

    async def there(n) -> bool:
        return bool((await stats(fleet, era))["in_flight"] == n)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(hang)
        await until(lambda: there(20))
        for scope in scopes:
            scope.cancel()
    await until(lambda: there(0))
    assert (await stats(fleet, era))["cancelled"] == ["hang"] * 20
    assert waiting(fleet, era) == 0


@ERAS
async def test_who_is_cancelled_beforehand_calls_nothing(fleet, era):
    before = (await stats(fleet, era))["total"]
    with anyio.CancelScope() as scope:
        scope.cancel()
        await fleet.call(era, "ping", {})
    assert scope.cancelled_caught
    assert (await stats(fleet, era))["total"] == before + 1  # to ask this


@pytest.mark.threat("U3")
async def test_a_call_that_takes_too_long_is_given_up_and_says_that_its_outcome_is_unknown(
    tmp_path,
):
    async with fleet_of(tmp_path, call_tool_timeout=50) as fleet:
        error = await refused(fleet, "hang")
        assert error.code == "UPSTREAM_TIMEOUT" and error.retryable and error.in_doubt
        assert "stub:hang" in error.message and "unknown" in error.message

        async def cancelled() -> bool:
            return "hang" in (await stats(fleet))["cancelled"]

        await until(cancelled)


async def test_a_result_of_10_megabytes_comes_through(fleet):
    with anyio.fail_after(10):
        result = await fleet.call("stub", "big", {"bytes": 10_000_000})
    assert len(result["content"][0]["text"]) == 10_000_000


async def test_arguments_of_10_megabytes_go_through(fleet):
    with anyio.fail_after(20):
        result = await fleet.call("stub", "plain_text", {"text": "ä" * 5_000_000})
    assert len(result["content"][0]["text"]) == 5_000_000


async def test_half_a_surrogate_pair_goes_out_and_comes_back_readable(fleet):
    result = await fleet.call("stub", "plain_text", {"text": "cut \ud83d"})
    result["content"][0]["text"].encode()
    assert result["content"][0]["text"].startswith("cut ")


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":%ID%,"result":[1]}',
        '{"jsonrpc":"2.0","id":%ID%,"result":null}',
        '{"jsonrpc":"2.0","id":%ID%,"error":"text"}',
        '{"jsonrpc":"2.0","id":%ID%}',
    ],
)
@pytest.mark.threat("U1")
async def test_a_response_that_breaks_the_protocol_fails_its_call_at_once(fleet, line):
    before = (await stats(fleet))["total"]
    error = await refused(fleet, "line", {"line": line})
    assert error.code == "UPSTREAM_ERROR" and "stub" in error.message and error.in_doubt
    assert (await stats(fleet))["total"] == before + 2, "it is another process"


@pytest.mark.threat("U1")
async def test_a_second_answer_to_a_call_is_nobodys(fleet):
    answer = '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[],"n":'
    line = f"{answer}1}}}}\n{answer}2}}}}"
    assert (await fleet.call("stub", "line", {"line": line}))["n"] == 1
    for n in range(3):
        assert (await fleet.call("stub", "echo", {"n": n}))["structuredContent"] == {"n": n}


async def test_lines_that_are_no_messages_do_no_harm(tmp_path):
    async with fleet_of(tmp_path, "--noise") as fleet:
        assert (await fleet.call("stub", "noise", {}))["content"][0]["text"] == "after the noise"
