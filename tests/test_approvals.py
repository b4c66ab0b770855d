"""Whether a server or a tool is approved: every history of changes and decisions keeps the promises."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from mcpproxy import policy
from mcpproxy.approvals import (
    ServerRecord,
    ToolRecord,
    command,
    fingerprint,
    identity,
    sort_out,
    standing,
)
from mcpproxy.catalog import RUNS, Catalog, Held, Server, Tool
from mcpproxy.direct import direct
from mcpproxy.names import find_tool
from mcpproxy.policy import EVERYTHING, Scope
from mcpproxy.settings import ServerSettings

NAMES = ("a", "b", "c")
WORDS = ("one", "two")


def tool(name, text="one", **more):
    return Tool("s", {"name": name, "description": text, "inputSchema": {"type": "object"}, **more})


def seen(*tools, says=None):
    return Server("s", "ready", says, {each.name: each for each in tools}, None)


def entry(**more):
    return ServerSettings(**{"name": "s", "command": "run", **more})


# ── tools ───────────────────────────────────────────────────────────────────────────────────────


class History(RuleBasedStateMachine):
    """A server that lists what it likes, and an operator, against a plain model of what was approved.

    `approved` has each definition that an operator (or the first list) said yes to last.
    """

    @initialize(first=st.sets(st.sampled_from(NAMES), min_size=1))
    def begin(self, first):
        self.record = ServerRecord("approved", "id")
        self.listed = {name: tool(name) for name in first}
        self.approved, self.blocked = dict(self.listed), set()
        self.look()

    def look(self, *, trusting=False):
        self.found = sort_out(seen(*self.listed.values()), self.record, trusting=trusting)
        if self.found.learnt or not self.record.listed:
            self.decide(self.found.learnt.values(), blocked=False)

    def decide(self, tools, *, blocked):
        made = dict(self.record.tools)
        for each in tools:
            made[each.name] = ToolRecord(blocked, fingerprint(each))
        self.record = ServerRecord("approved", "id", True, None, MappingProxyType(made))

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(WORDS))
    def lists(self, name, text):
        self.listed[name] = tool(name, text)
        self.look()

    @rule(name=st.sampled_from(NAMES))
    def lists_no_longer(self, name):
        self.listed.pop(name, None)
        self.look()

    @rule(name=st.sampled_from(NAMES))
    def approves(self, name):
        if name in self.listed:
            self.decide([self.listed[name]], blocked=False)
            self.approved[name] = self.listed[name]
            self.blocked.discard(name)
            self.look()

    @rule(name=st.sampled_from(NAMES))
    def blocks(self, name):
        if name in self.listed:
            self.decide([self.listed[name]], blocked=True)
            self.blocked.add(name)
            self.look()

    @rule()
    def trusts(self):
        self.look(trusting=True)
        self.approved |= {n: each for n, each in self.listed.items() if n not in self.blocked}
        self.look()

    @invariant()
    def exactly_what_was_approved_is_shown(self):
        fine = [
            name
            for name, each in self.listed.items()
            if name not in self.blocked
            and (kept := self.approved.get(name)) is not None
            and kept.definition == each.definition
        ]
        assert list(self.found.tools) == fine
        assert list(self.found.held) == [name for name in self.listed if name not in fine]
        for name, held in self.found.held.items():
            known = "changed" if name in self.record.tools else "new"
            assert held.why == ("blocked" if name in self.blocked else known)


@pytest.mark.threat("A1")
def test_any_history_shows_exactly_what_was_approved():
    few = settings(max_examples=40, stateful_step_count=20, deadline=None)
    run_state_machine_as_test(History, settings=few)


@pytest.mark.parametrize(
    "change",
    [
        {"description": "two"},
        {"title": "A"},
        {"inputSchema": {"type": "object", "properties": {"x": {}}}},
        {"outputSchema": {}},
        {"annotations": {"readOnlyHint": True}},
        {"_meta": {RUNS: {"entry": ["sh"]}}},
    ],
)
@pytest.mark.threat("A1")
def test_each_part_that_a_model_goes_by_makes_another_tool(change):
    assert fingerprint(tool("a")) != fingerprint(tool("a", **change))


def test_order_and_what_no_model_sees_make_no_other_tool():
    turned = Tool("s", dict(reversed(tool("a").definition.items())))
    assert fingerprint(turned) == fingerprint(tool("a"))
    assert fingerprint(tool("a", _meta={"n": 1}, icons=[])) == fingerprint(tool("a"))


def test_nobody_but_an_operator_sees_what_a_tool_runs():
    runs = {"entry": ["sh"]}
    assert tool("a", _meta={RUNS: runs}).public == tool("a").definition
    assert tool("a", _meta={RUNS: runs, "n": 1}).public == tool("a", _meta={"n": 1}).definition
    catalog = Catalog({"s": Server("s", "ready", None, {"a": tool("a", _meta={RUNS: runs})}, None)}, 1)  # fmt: skip
    assert direct(catalog.tool("s", "a"), catalog, cuts=False) == {**tool("a").definition, "name": "s__a"}  # fmt: skip


def test_a_tool_is_listed_in_characters_that_clients_take():
    shape = {"inputSchema": {"type": "object"}}
    tools = {
        name: Tool("my server", {"name": name, **shape}) for name in ("do it", "do!it", "go on")
    }
    catalog = Catalog({"my server": Server("my server", "ready", None, tools, None)}, 1)
    listed = [direct(each, catalog, cuts=False)["name"] for each in catalog.tools()]
    assert listed[2] == "my_server__go_on"
    assert all(re.fullmatch(r"my_server__do_it_[0-9a-f]{6}", name) for name in listed[:2])
    assert [find_tool(name, catalog).tool for name in listed] == list(tools)


@given(st.dictionaries(st.text(), st.text() | st.floats() | st.none() | st.lists(st.text())))
@settings(max_examples=20, deadline=None)
def test_any_definition_has_a_fingerprint(more):
    assert len(fingerprint(Tool("s", {**more, "name": "a"}))) == 64


def test_a_definition_too_deep_to_be_read_is_held_even_where_all_are_trusted():
    deep = []
    for _ in range(100_000):  # Python 3.13 reads some thousands
        deep = [deep]
    odd = tool("a", inputSchema=deep)
    record = ServerRecord("approved", "id", True, None, {"a": ToolRecord(False, fingerprint(odd))})
    for trusting in (False, True):
        assert sort_out(seen(odd), record, trusting=trusting).held["a"].why == "changed"


def test_an_empty_first_list_is_not_the_first_list():
    record = ServerRecord("approved", "id")
    assert not sort_out(seen(), record, trusting=False).learnt
    assert set(sort_out(seen(tool("a")), record, trusting=False).learnt) == {"a"}


@pytest.mark.threat("A1")
def test_instructions_that_change_wait_as_well():
    record = ServerRecord("approved", "id", listed=True, instructions="Be kind.")
    fine = sort_out(seen(says="Be kind."), record, trusting=False)
    assert (fine.instructions, fine.held_instructions) == ("Be kind.", None)
    other = sort_out(seen(says="Obey."), record, trusting=False)
    assert (other.instructions, other.held_instructions) == (None, "Obey.")
    assert sort_out(seen(says="Obey."), record, trusting=True).learns_instructions
    assert not any(each.learns_instructions for each in (fine, other))
    nothing = sort_out(seen(), record, trusting=True)
    assert not nothing.learns_instructions and nothing.held_instructions is None


def test_nothing_held_leaves_the_mapping_as_it_is():
    server = seen(tool("a"))
    record = ServerRecord("approved", "id")
    assert sort_out(server, record, trusting=False).tools is server.tools


# ── servers ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change",
    [
        {"command": "other"},
        {"args": ["-x"]},
        {"working_dir": "/"},
        {"env": {"LD_PRELOAD": "x"}},
        {"url": "http://h/"},
        {"protocol": "stdio"},
    ],
)
def test_what_is_run_or_reached_makes_another_server(change):
    assert identity(entry(**change)) != identity(entry())


def test_limits_and_rotated_keys_make_no_other_server():
    before = entry(env={"KEY": "1"}, headers={"A": "1"})
    after = entry(env={"KEY": "2"}, headers={"A": "2"}, enabled=False, lazy=True, note="x")
    assert identity(before) == identity(after)


KNOWN = ServerRecord("approved", identity(entry()))
CASES = [
    ({}, None, True, True, "approved"),
    ({}, None, False, True, "waiting"),
    ({}, None, False, False, "approved"),
    ({}, KNOWN, False, True, "approved"),
    ({"command": "other"}, KNOWN, False, True, "waiting"),
    ({"command": "other"}, KNOWN, True, True, "waiting"),
    ({"quarantined": True}, KNOWN, True, False, "waiting"),
    ({"quarantined": False}, None, False, True, "approved"),
    ({"quarantined": False, "command": "other"}, KNOWN, False, True, "approved"),
    ({"quarantined": False}, ServerRecord("blocked", "id"), True, False, "blocked"),
    ({}, ServerRecord("waiting", identity(entry())), False, True, "waiting"),
]


@pytest.mark.threat("A2")
@pytest.mark.parametrize(("more", "record", "first", "enabled", "outcome"), CASES)
def test_who_is_let_in(more, record, first, enabled, outcome):
    assert standing(entry(**more), record, first=first, enabled=enabled) == outcome


def test_a_command_can_be_pasted_whatever_a_tool_is_called():
    assert command("approve", "my server", "x; rm -rf ~") == (
        "mcpproxy upstream approve 'my server' --tool 'x; rm -rf ~'"
    )


def test_what_is_held_is_seen_by_who_could_use_it():
    reads = tool("reads", annotations={"readOnlyHint": True})
    held = {
        name: Held(each, "new") for name, each in (("reads", reads), ("writes", tool("writes")))
    }
    catalog = Catalog({"s": replace(seen(), held=held)}, 1)
    view = policy.Views().seen(catalog, Scope(None, frozenset({"read"})))
    assert list(view.servers["s"].held) == ["reads"] and view.servers["s"].waiting == 1
    assert not policy.Views().seen(catalog, Scope(frozenset({"t"}), EVERYTHING)).servers
