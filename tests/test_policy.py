"""What a caller sees is what it may call, and nothing tells what is hidden from what isn't there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import catalog
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mcpproxy
from mcpproxy import gates
from mcpproxy.catalog import Catalog, Held
from mcpproxy.discovery import Discovery
from mcpproxy.errors import CallError
from mcpproxy.policy import (
    ADMIN,
    ANONYMOUS,
    EVERYTHING,
    LOCAL,
    PERMISSIONS,
    Caller,
    Profile,
    Views,
    may_use,
    needed,
)

READ, WRITE, DESTROY = {"readOnlyHint": True}, {"destructiveHint": False}, {"destructiveHint": True}
SERVERS = ("github", "gitlab", "jira", "secret")
TOOLS = ("list_issues", "list_secrets", "delete_repo", "create_issue")


@pytest.mark.parametrize(
    ("annotations", "permission"),
    [
        ({}, "write"),
        ({"title": "Lists issues"}, "write"),
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": True, "destructiveHint": False}, "read"),
        ({"readOnlyHint": True, "destructiveHint": True}, "destructive"),
        ({"readOnlyHint": False}, "destructive"),
        ({"readOnlyHint": False, "destructiveHint": False}, "write"),
        ({"destructiveHint": False}, "write"),
        ({"destructiveHint": True}, "destructive"),
        ({"openWorldHint": False}, "destructive"),
        ({"idempotentHint": True, "destructiveHint": False}, "write"),
        ({"readOnlyHint": "true"}, "destructive"),
        ({"readOnlyHint": 1}, "destructive"),
        ({"destructiveHint": 0}, "destructive"),
        ({"destructiveHint": None}, "destructive"),
    ],
)
def test_a_hint_that_is_missing_or_no_boolean_never_makes_a_tool_milder(annotations, permission):
    assert needed(annotations) == permission


WORDS = "issue issues list secret secrets salary payroll repository delete send team".split()
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
tools = st.fixed_dictionaries(
    {"name": st.sampled_from(TOOLS), "inputSchema": st.just({"type": "object"})},
    optional={
        "annotations": st.sampled_from([READ, WRITE, DESTROY, {}, "none"]),
        "description": texts,
    },
)


def made(
    servers: dict[str, list[dict[str, Any]]], held: set[tuple[str, str]], down: set[str]
) -> Catalog:
    """Servers of these tools, of which some wait for approval, and of which some are down."""
    found = {}
    for name, one in catalog(**servers).servers.items():
        waits = {t: Held(tool, "new") for t, tool in one.tools.items() if (name, t) in held}
        listed = {t: tool for t, tool in one.tools.items() if t not in waits}
        state = "down" if name in down else "ready"
        found[name] = replace(one, tools=listed, held=waits, state=state)
    return Catalog(found, 1)


servers = st.dictionaries(st.sampled_from(SERVERS), st.lists(tools, max_size=4))
some = st.sets(st.tuples(st.sampled_from(SERVERS), st.sampled_from(TOOLS)), max_size=3)
ready = st.builds(made, servers, some, st.just(set()))
catalogs = st.builds(made, servers, some, st.sets(st.sampled_from(SERVERS), max_size=2))
names = st.frozensets(st.sampled_from((*SERVERS, "not-there")))
callers = st.builds(
    Caller,
    name=st.just("ci"),
    rank=st.just("token"),
    servers=st.none() | names,
    permissions=st.frozensets(st.sampled_from(PERMISSIONS)),
    profile=st.none() | st.builds(Profile, st.just("team"), names),
)
every = [(server, tool) for server in (*SERVERS, "not-there") for tool in (*TOOLS, "nothing")]


def answer(one: Catalog, caller: Caller, server: str, tool: str) -> tuple[str, str] | None:
    """None when the call may go out, else the code and the sentence of the refusal."""
    try:
        return gates.find(Views().seen(one, caller.scope), caller, server, tool) and None
    except CallError as error:
        return error.code, error.message


@given(ready, callers)
@settings(max_examples=30)
@pytest.mark.threat("L5")
def test_a_caller_can_call_what_it_sees_and_nothing_else(one, caller):
    visible = {(tool.server, tool.name) for tool in Views().seen(one, caller.scope).tools()}
    assert visible == {(tool.server, tool.name) for tool in one.tools() if may_use(caller, tool)}
    callable = {(s, t) for s, t in every if answer(one, caller, s, t) is None}
    assert callable == visible


def without(one: Catalog, caller: Caller) -> Catalog:
    """The world in which what the caller may not use doesn't exist."""
    left = {
        name: replace(
            server,
            tools={t: tool for t, tool in server.tools.items() if may_use(caller, tool)},
            held={t: each for t, each in server.held.items() if may_use(caller, each.tool)},
        )
        for name, server in one.servers.items()
        if caller.reaches(name)
    }
    return Catalog(left, 1)


misspelt = st.builds(
    lambda word, at, letter: word[: at % len(word)] + letter + word[at % len(word) + 1 :],
    st.sampled_from(WORDS), st.integers(0, 9), st.sampled_from("aesx"),
)  # fmt: skip
queries = st.lists(misspelt | st.sampled_from([*WORDS, *TOOLS, "secret:"]), min_size=1, max_size=3)


# A hidden word with the stem of a seen one, and nearer to what was asked.
@example(
    catalog(gitlab=["list_issues"], secret=["list_secrets", "create_issue"]),
    Caller("ci", "token", servers=frozenset({"secret"})),
    "list_isues",
)
@given(catalogs, callers, queries.map(" ".join))
@settings(max_examples=30)
@pytest.mark.threat("L5")
def test_what_is_hidden_and_what_is_not_there_get_the_same_answers(one, caller, query):
    other = without(one, caller)
    assert [answer(one, caller, s, t) for s, t in every] == [
        answer(other, caller, s, t) for s, t in every
    ]
    views = Views()
    here = Discovery(lambda who: views.seen(one, who.scope))
    there = Discovery(lambda who: other)
    for look in (
        lambda found: found.search_tools(query, caller=caller),
        lambda found: found.list_servers(caller),
        lambda found: found.get_functions([f"{s}:{t}" for s, t in every[:20]], caller),
    ):
        assert json.dumps(look(here)) == json.dumps(look(there))


@pytest.mark.parametrize("caller", [ADMIN, LOCAL, ANONYMOUS])
def test_whoever_has_no_token_sees_the_catalog_itself(caller):
    one = catalog(github=["a"])
    assert Views().seen(one, caller.scope) is one


@pytest.mark.threat("L7")
def test_only_an_administrator_is_one():
    assert (ADMIN.admin, LOCAL.admin, ANONYMOUS.admin) == (True, True, False)
    assert not Caller("admin", "token").admin


def test_a_profile_narrows_a_token_and_never_widens_it():
    token = Caller("ci", "token", servers=frozenset({"github", "jira"}))
    assert token.within(Profile("p", frozenset({"jira", "secret"}))).scope.servers == {"jira"}
    assert token.within(Profile("p", frozenset())).scope.servers == frozenset()
    assert ADMIN.within(Profile("p", frozenset({"jira"}))).scope.servers == {"jira"}


def test_a_view_is_kept_until_the_catalog_is_another():
    reader = Caller("ci", "token", permissions=frozenset({"read"}))
    one, two = (catalog(n, github=[{"name": "a", "annotations": READ}, "b"]) for n in (1, 2))
    views = Views()
    first = views.seen(one, reader.scope)
    assert views.seen(one, reader.scope) is first
    assert list(first.servers["github"].tools) == ["a"]
    assert views.seen(two, reader.scope) is not first


def test_the_tools_of_a_view_stay_the_same_object_while_the_server_s_do():
    # An index of a view is made anew only when its tools are others.
    reader = Caller("ci", "token", permissions=frozenset({"read"}))
    one = catalog(github=[{"name": "a", "annotations": READ}])
    two = Catalog(dict(one.servers), 2)
    views = Views()
    first, second = (views.seen(each, reader.scope).servers["github"].tools for each in (one, two))
    assert first is second


def test_a_tool_is_looked_at_again_when_its_call_goes_out():
    reader = Caller("ci", "token", permissions=frozenset({"read"}))
    before = catalog(github=[{"name": "a", "annotations": READ}]).servers["github"]
    after = catalog(github=[{"name": "a", "annotations": DESTROY}]).servers["github"]
    assert gates.check_tool(reader, "a", before).name == "a"
    with pytest.raises(CallError) as refused:
        gates.check_tool(reader, "a", after)
    assert refused.value.code == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("caller", "server", "tool", "code"),
    [
        (Caller("ci", "token", servers=frozenset({"github"})), "secret", "x", "ACCESS_DENIED"),
        (Caller("ci", "token", servers=frozenset({"nope"})), "nope", "x", "SERVER_NOT_FOUND"),
        (Caller("ci", "token", permissions=frozenset({"read"})), "github", "wipe", "PERMISSION_DENIED"),
        (Caller("ci", "token", permissions=frozenset({"read"})), "github", "nope", "PERMISSION_DENIED"),
        (Caller("ci", "token", permissions=EVERYTHING), "github", "nope", "TOOL_NOT_FOUND"),
        (ANONYMOUS.within(Profile("p", frozenset({"jira"}))), "github", "wipe", "SERVER_NOT_ALLOWED"),
    ],
)  # fmt: skip
def test_each_refusal_has_its_code(caller, server, tool, code):
    one = catalog(github=[{"name": "wipe", "annotations": DESTROY}], secret=["x"])
    found = answer(one, caller, server, tool)
    assert found is not None and found[0] == code


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ([], "no servers are configured"),
        (["a", "b"], "; there are a, b"),
        ([f"s{n}" for n in range(30)], "; list_servers shows all 30"),
        (["github", "b"], "did you mean 'github'?"),
    ],
)
def test_a_server_that_is_not_there_is_answered_with_those_that_are(servers, said):
    one = catalog(**{name: [] for name in servers})
    code, message = answer(one, LOCAL, "gitbub", "x")
    assert code == "SERVER_NOT_FOUND" and said in message


def test_who_lacks_a_permission_is_told_which_it_has():
    one = catalog(github=[{"name": "wipe", "annotations": DESTROY}])
    caller = Caller("ci", "token", permissions=frozenset({"write", "read"}))
    _, message = answer(one, caller, "github", "wipe")
    assert "no permission beyond read and write" in message


OPERATORS = {
    "daemon.py",
    "admin.py",
    "status.py",
    "trust.py",
    "rest/logins.py",
    "rest/metrics.py",
    "embedded.py",
}
"""Modules that look at all servers, for an operator or to keep them; whatever a caller sees goes by its view."""


@pytest.mark.threat("L5")
def test_nobody_looks_past_the_view():
    package = Path(mcpproxy.__file__).parent
    past = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"fleet\.(catalog|status|call)\b", path.read_text(encoding="utf-8"))
        and path.parent.name != "upstream"
    }
    # `library.py` leaves out what the caller doesn't reach; the tests of access try it.
    assert past - OPERATORS == {"view.py", "library.py"}
