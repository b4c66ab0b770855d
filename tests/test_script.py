"""The state machine under generated histories: what goes out, what it costs, what the ledger says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.errors import CallError
from mcpproxy.gates import Budget, check_allowed
from mcpproxy.script import Answer, Dispatch, Misbehaved, Note, Question, Script

OK = {"ok": True, "result": {}}


def script(*, calls: int = 0, allowed: frozenset[str] | None = None, parallel: int = 8) -> Script:
    budget = Budget(calls)

    def check(server: str, tool: str, args: dict[str, Any]) -> None:
        budget.charge()
        check_allowed(server, allowed)

    return Script(check=check, parallel=parallel, now=lambda: 0.0)


def call(number: int, server: str = "s", *, typed: bool = False) -> dict[str, Any]:
    return {"t": "call", "id": number, "typed": typed, "server": server, "tool": "t", "args": {}}


def batch(number: int, servers: list[str], parallel: int | None = None) -> dict[str, Any]:
    calls = [{"server": server, "tool": "t", "args": {}} for server in servers]
    return {"t": "batch", "id": number, "calls": calls, "max_parallel": parallel}


def dispatched(commands: list[Any]) -> list[Any]:
    return [command.call for command in commands if isinstance(command, Dispatch)]


def test_a_call_goes_out_and_its_envelope_comes_back():
    machine = script()
    (command,) = machine.heard(call(1))
    machine.started(command.call)
    assert machine.finished(command.call, OK) == [Answer(1, OK)]


@pytest.mark.req("REQ-GATE-04")
def test_a_refused_call_is_answered_and_never_sent():
    machine = script(allowed=frozenset({"other"}))
    (answer,) = machine.heard(call(1))
    assert answer.body["error"]["code"] == "SERVER_NOT_ALLOWED"
    assert machine.ledger()[0] == [
        {
            "n": 1,
            "server": "s",
            "tool": "t",
            "outcome": "error",
            "code": "SERVER_NOT_ALLOWED",
            "ms": 0,
        }
    ]


@pytest.mark.req("REQ-BATCH-17")
def test_the_budget_of_a_batch_is_charged_in_input_order_before_anything_goes_out():
    machine = script(calls=2)
    commands = machine.heard(batch(1, ["s"] * 5))
    assert [each.slot for each in dispatched(commands)] == [0, 1]
    for each in dispatched(commands):
        commands = machine.finished(each, OK)
    (answer,) = commands
    assert [slot.get("error", {}).get("code") for slot in answer.body] == [None, None] + [
        "MAX_TOOL_CALLS_EXCEEDED"
    ] * 3


@pytest.mark.req("REQ-GATE-01")
def test_budget_comes_before_allowed_servers():
    machine = script(calls=1, allowed=frozenset({"s"}))
    machine.heard(call(1))
    (answer,) = machine.heard(call(2, "elsewhere"))
    assert answer.body["error"]["code"] == "MAX_TOOL_CALLS_EXCEEDED"


@pytest.mark.req("REQ-BATCH-01")
def test_slots_keep_their_order_whichever_ends_first():
    machine = script()
    first, second = dispatched(machine.heard(batch(1, ["a", "b"])))
    assert machine.finished(second, {"ok": True, "result": "b"}) == []
    (answer,) = machine.finished(first, {"ok": True, "result": "a"})
    assert [slot["result"] for slot in answer.body] == ["a", "b"]


def test_a_batch_runs_as_many_at_once_as_it_asks_for():
    machine = script()
    running = dispatched(machine.heard(batch(1, ["s"] * 10, parallel=3)))
    assert len(running) == 3
    assert len(dispatched(machine.finished(running[0], OK))) == 1


def test_typed_calls_share_one_cap_and_keep_their_turn():
    machine = script(parallel=2)
    sent = [each for n in range(1, 6) for each in dispatched(machine.heard(call(n, typed=True)))]
    assert [each.n for each in sent] == [1, 2]
    assert [each.n for each in dispatched(machine.finished(sent[0], OK))] == [3]


def test_in_flight_is_unknown_and_waiting_is_not_started():
    machine = script(parallel=1)
    (running,) = dispatched(machine.heard(batch(1, ["s"] * 3)))
    machine.started(running)
    assert [entry["outcome"] for entry in machine.ledger()[0]] == [
        "unknown",
        "not_started",
        "not_started",
    ]


def test_a_call_that_waits_for_a_concurrency_limit_has_not_started():
    machine = script()
    machine.heard(call(1))
    assert machine.unknown == []


@pytest.mark.req("REQ-LEDGER-05", "REQ-LEDGER-10")
def test_the_ledger_shows_a_hundred_and_always_those_that_are_unknown():
    machine, lost = script(), CallError("UPSTREAM_TIMEOUT", "x", in_doubt=True).envelope()
    for n in range(1, 131):
        (last,) = dispatched(machine.heard(call(n)))
        last.in_doubt = n in (7, 120)
        if n < 130:
            machine.finished(last, lost if last.in_doubt else OK)
    machine.started(last)
    entries, omitted = machine.ledger()
    assert (len(entries), omitted) == (100, 30)
    unknown = [entry["n"] for entry in entries if entry["outcome"] == "unknown"]
    assert unknown == [7, 120, 130]
    assert entries[-1] == {"n": 130, "server": "s", "tool": "t", "outcome": "unknown", "ms": 0}


def test_a_call_that_failed_without_an_answer_is_unknown_and_not_open():
    machine = script()
    (sent,) = dispatched(machine.heard(call(1)))
    sent.in_doubt = True
    machine.finished(sent, CallError("UPSTREAM_TIMEOUT", "x", in_doubt=True).envelope())
    ((entry,), _) = machine.ledger()
    assert (entry["outcome"], entry["code"]) == ("unknown", "UPSTREAM_TIMEOUT")
    assert machine.unknown == []


@pytest.mark.threat("S3")
def test_the_ledger_keeps_neither_arguments_nor_names_without_end():
    s = script(calls=2)
    large = {"a": "x" * 10_000}
    (open_call,) = dispatched(s.heard({**call(1, "n" * 5000), "args": large}))
    assert open_call.arguments == large
    s.finished(open_call, OK)
    s.heard({**call(2, "m" * 5000), "tool": "t" * 5000, "args": large})
    s.heard({**call(3, "m" * 5000), "tool": "t" * 5000, "args": large})
    entries, _ = s.ledger()
    assert len(str(entries)) < 2000
    assert open_call.arguments == {}


@pytest.mark.threat("S9")
def test_a_final_refusal_counts_only_when_it_was_ours():
    claimed = {
        "t": "failed",
        "dropped": 0,
        "kind": "refused",
        "code": "SERVER_NOT_ALLOWED",
        "message": "m",
        "stack": "",
    }
    with pytest.raises(Misbehaved):
        script().heard(claimed)
    machine = script(allowed=frozenset({"other"}))
    machine.heard(call(1))
    machine.heard(claimed)
    assert machine.outcome is not None
    assert machine.outcome.code == "SERVER_NOT_ALLOWED"


@pytest.mark.threat("S9")
def test_no_syntax_error_after_the_first_call():
    machine = script()
    machine.heard(call(1))
    machine.heard(
        {"t": "failed", "dropped": 0, "kind": "syntax", "message": "SyntaxError: x", "stack": ""}
    )
    assert machine.outcome is not None
    assert machine.outcome.code == "RUNTIME_ERROR"


def test_nothing_follows_from_what_comes_after_the_end():
    machine = script()
    (running,) = dispatched(machine.heard(call(1)))
    machine.heard({"t": "done", "dropped": 0, "value": 1})
    assert machine.heard(call(2)) == []
    assert machine.finished(running, OK) == []


@pytest.mark.threat("S3")
def test_many_waiting_calls_or_large_ones_are_a_crowd():
    machine = script(parallel=1)
    assert not machine.crowded
    for n in range(1, 5):
        machine.heard(call(n, typed=True), size=4 * 2**20)
    assert machine.crowded


@pytest.mark.threat("S3")
def test_questions_that_wait_are_a_crowd_too():
    machine = script()
    asked = [
        machine.heard({"t": "ask", "id": n, "what": "search"}, size=2**20)[0] for n in range(16)
    ]
    assert machine.crowded
    machine.answered(asked[0])
    assert not machine.crowded
    for n in range(1000):
        machine.heard({"t": "ask", "id": n, "what": "search"}, size=1)
    assert machine.crowded


@pytest.mark.threat("S3", "S11")
def test_more_lines_than_the_prelude_sends_are_misbehaviour():
    machine = script()
    line = {"t": "log", "level": "log", "text": "x"}
    with pytest.raises(Misbehaved, match="console"):
        for _ in range(100):
            machine.heard(line, size=2**16)
    assert len(machine.logs) < 10


@pytest.mark.parametrize(
    "frame",
    [
        *({**call(1), name: None} for name in ("id", "server", "tool", "args")),
        {**call(1), "id": "1"},
        {**call(1), "args": []},
        *({**batch(1, ["s"]), "max_parallel": cap} for cap in (0, 33, -1, 1.0, True, "4")),
        batch(1, []),
        batch(1, ["s"] * 101),
        {**batch(1, ["s"]), "calls": [{"server": "s", "tool": "t", "args": None}]},
        {"t": "log", "level": "loud", "text": "x"},
    ],
)
@pytest.mark.threat("S11")
def test_a_frame_that_the_prelude_never_sends_is_misbehaviour(frame):
    machine = script()
    with pytest.raises(Misbehaved):
        machine.heard(frame)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
frames = st.fixed_dictionaries(
    {"t": st.sampled_from(["call", "batch", "ask", "log", "done", "failed", "large", "x"])},
    optional={
        "id": st.integers(0, 5) | json_values,
        "server": st.sampled_from(["s", "other"]) | json_values,
        "tool": st.just("t") | json_values,
        "args": st.just({}) | json_values,
        "calls": st.lists(
            st.fixed_dictionaries(
                {"server": st.just("s"), "tool": st.just("t"), "args": st.just({})}
            ),
            max_size=4,
        )
        | json_values,
        "max_parallel": st.none() | st.integers(-1, 40) | json_values,
        "what": st.text(max_size=3),
        "level": st.sampled_from(["log", "loud"]),
        "text": st.text(max_size=3),
        "dropped": st.integers(0, 3) | json_values,
        "kind": st.sampled_from(["syntax", "error", "memory", "serialization", "refused", "x"]),
        "code": st.sampled_from(["INVALID_ARGS", "TIMEOUT", "SERVER_NOT_ALLOWED"]),
        "message": st.text(max_size=3),
        "stack": st.text(max_size=3),
        "value": json_values,
        "size": st.integers(),
        "preview": st.text(max_size=3),
    },
)


@given(st.lists(frames | json_values, max_size=30))
@pytest.mark.threat("S11")
def test_any_json_is_a_command_or_misbehaviour(history):
    machine = script()
    for frame in history:
        try:
            commands = machine.heard(frame)
        except Misbehaved:
            return
        assert all(isinstance(each, (Dispatch, Answer, Question, Note)) for each in commands)


steps = st.one_of(
    st.tuples(st.just("call"), st.sampled_from(["a", "b"]), st.booleans()),
    st.tuples(
        st.just("batch"),
        st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=6),
        st.none() | st.integers(1, 4),
    ),
    st.tuples(st.just("end"), st.integers(0, 30), st.booleans()),
)


@given(st.lists(steps, max_size=40), st.integers(0, 6), st.integers(1, 4))
@pytest.mark.threat("S8")
def test_whatever_happens_only_allowed_servers_are_called_within_budget_and_cap(
    history, budget, cap
):
    machine = script(calls=budget, allowed=frozenset({"a"}), parallel=cap)
    running, sent, asked, answered = [], [], [], []
    number = 0

    def follow(commands):
        for command in commands:
            if isinstance(command, Dispatch):
                machine.started(command.call)
                running.append(command.call)
                sent.append(command.call)
            elif isinstance(command, Answer):
                answered.append(command.number)

    for kind, what, more in history:
        if kind == "call":
            number += 1
            asked.append(number)
            follow(machine.heard(call(number, what, typed=more)))
        elif kind == "batch":
            number += 1
            asked.append(number)
            follow(machine.heard(batch(number, what, more)))
        elif running:
            each = running.pop(what % len(running))
            follow(
                machine.finished(each, OK if more else CallError("UPSTREAM_ERROR", "x").envelope())
            )
        typed_running = [each for each in running if each.batch is None]
        assert len(typed_running) <= cap + len(asked)
    while running:
        follow(machine.finished(running.pop(), OK))
    assert {each.server for each in sent} <= {"a"}
    assert not budget or len(sent) <= budget
    assert sorted(answered) == sorted(asked)
    assert machine.unknown == []
    entries, omitted = machine.ledger()
    assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))
    assert omitted == 0 or len(entries) == 100
