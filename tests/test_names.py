"""Which tool a name means, however it is spelled, and under which names each is listed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.names import (
    ToolId,
    close,
    direct_name,
    find_tool,
    marked,
    plain,
    sole_tool,
    spelled,
    spellings,
    understood,
)


@dataclass
class FakeServer:
    tools: dict[str, object]


@dataclass
class FakeCatalog:
    servers: dict[str, FakeServer] = field(default_factory=dict)


def catalog(**servers: list[str]) -> FakeCatalog:
    return FakeCatalog({name: FakeServer(dict.fromkeys(tools)) for name, tools in servers.items()})


@pytest.mark.parametrize("text", ["demo:echo", "demo__echo", "demo.echo", "demo/echo"])
def test_a_tool_is_found_under_every_usual_separator(text):
    assert find_tool(text, catalog(demo=["echo"])) == ToolId("demo", "echo")


@pytest.mark.parametrize(
    "text", ["", "demo", "demo:", "demoecho", "demo:ECHO", "demo::echo", "other:echo", "echo"]
)
def test_what_is_not_exactly_a_tool_is_not_found(text):
    assert find_tool(text, catalog(demo=["echo"])) is None


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        (ToolId("Google Drive", "find"), "Google_Drive__find"),
        (ToolId("größe", "get it!"), "gr__e__get_it_"),
        (ToolId("a.b-c", "d_e"), "a.b-c__d_e"),
    ],
)
def test_a_tool_has_a_name_that_every_client_takes(tool, name):
    known = catalog(**{tool.server: [tool.tool], "other": ["find"]})
    assert plain(tool) == name and find_tool(name, known) == tool


def test_a_plain_name_of_two_tools_is_that_of_none_and_an_exact_one_comes_first():
    assert find_tool("a_b__c", catalog(**{"a b": ["c"], "a!b": ["c"]})) is None
    assert find_tool("a_b__c", catalog(**{"a b": ["c"], "a_b": ["c"]})) == ToolId("a_b", "c")


def test_tools_whose_plain_names_are_alike_or_long_have_names_of_their_own():
    servers = {"天气": ["查询天气", "查询股票", "get"], "a b": ["c"], "a_b": ["c", "d" * 200], "s" * 90: ["x", "y"]}  # fmt: skip
    known = catalog(**servers)
    tools = [ToolId(server, tool) for server, tools in servers.items() for tool in tools]
    listed = [direct_name(tool, known) for tool in tools]
    assert [find_tool(name, known) for name in listed] == tools
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in listed), listed
    assert listed[2:5] == ["____get", marked(tools[3]), "a_b__c"]
    assert find_tool(marked(tools[0])[:-1] + "g", known) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("git:log", "git:git_log"), ("getUser", "git:get_user"), ("GIT:getUser", "git:get_user"),
        ("list", None), ("get", None), ("git:show", None), ("", None),
        ("tools.git.git_log", "git:git_log"), ("tools['git'][\"git_log\"]({})", "git:git_log"),
        ("tools.git.show", None), ("tools.git", None), ("tools.hub.list", "hub:list"),
    ],
)  # fmt: skip
def test_a_name_that_only_one_tool_has_need_not_be_exact(text, found):
    known = catalog(git=["git_log", "get_user", "list"], hub=["list"])
    assert str(sole_tool(text, known)) == str(found)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("getUser", "get_user"), ("log", "git_log"), ("a.b", "a.b"), ("aB", "aB"), ("nope", "nope")],
)
def test_what_a_script_means_by_a_name(name, meant):
    assert understood(name, ["get_user", "git_log", "a.b", "a-b"], "git") == meant


def test_the_longest_server_name_wins():
    assert find_tool("a__b__c", catalog(a=["b__c"], a__b=["c"])) == ToolId("a__b", "c")
    assert find_tool("a.b__c", catalog(a=["b__c"], a__b=["c"])) == ToolId("a", "b__c")


def test_a_tool_name_may_hold_separators():
    assert find_tool("my:list.items/all", catalog(my=["list.items/all"])) == ToolId(
        "my", "list.items/all"
    )


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("ecko", ["echo", "add", "tree"], ["echo"]),
        ("listIssues", ["list_issues", "get_issue", "fork"], ["list_issues", "get_issue"]),
        ("GitHub", ["github", "gitlab"], ["github", "gitlab"]),
        ("my_server", ["my-server"], ["my-server"]),
        ("zzz", ["echo"], []),
        ("", ["echo"], []),
        ("x" * 500_000, ["x" * 300], []),
    ],
)
def test_close_names(name, known, expected):
    assert close(name, known) == expected


def test_the_close_one_of_very_many_names_is_found():
    many = [f"list_{n}_items" for n in range(2000)]
    assert close("convrt_time", [*many, "convert_time"]) == ["convert_time"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my-server", "my_server"),
        ("list.items", "list_items"),
        ("2fa", "_2fa"),
        ("echo", "echo"),
        ("$x", "$x"),
        ("größe", "größe"),
        ("delete", "delete"),
        ("__proto__", "__proto__"),
        ("", "_"),
        ("a b\u2028", "a_b_"),
    ],
)
def test_spelled(name, expected):
    assert spelled(name) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["my-server", "github"], {"my_server": "my-server"}),
        (["a-b", "a.b"], {}),
        (["a-b", "a_b"], {}),
        (["2fa"], {"_2fa": "2fa"}),
        (["a-b", "a-b"], {"a_b": "a-b"}),
    ],
)
def test_spellings(names, expected):
    assert spellings(names) == expected


@given(st.lists(st.text(max_size=6), max_size=12))
def test_every_spelling_is_an_identifier_that_nothing_else_claims(names):
    found = spellings(names)
    # Python's identifiers are JavaScript's, but for the dollar sign.
    assert all(identifier.replace("$", "_").isidentifier() for identifier in found)
    assert not set(found) & set(names)
    assert len(set(found.values())) == len(found)
