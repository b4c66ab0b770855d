"""What an agent can find out about tools and servers: in few words, without a false one, and within bounds."""

from __future__ import annotations

import json

import pytest
from fakes import catalog, server

from mcpproxy.catalog import Catalog, Server
from mcpproxy.discovery import Discovery

TREE = {
    "name": "tree",
    "description": "Draws a whole tree. It has branches.",
    "inputSchema": {"type": "object", "properties": {}},
    "outputSchema": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["label"],
            }
        },
    },
    "annotations": {"readOnlyHint": True, "title": "Tree"},
}
ADD = {
    "name": "add",
    "description": "Add two numbers",
    "inputSchema": {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "The first"},
            "b": {"type": "number"},
            "unit": {"type": "string", "enum": ["m", "km"], "default": "m"},
            "at": {"type": "string", "format": "date-time"},
        },
        "required": ["a", "b"],
    },
}


def discovery(one: Catalog) -> Discovery:
    return Discovery(lambda caller: one)


@pytest.fixture
def demo():
    return discovery(catalog(demo=[ADD, TREE, "echo"], github=["list_issues", "list.items"]))


def test_a_search_gives_names_lines_and_signatures(demo):
    answer = demo.search_tools("add two numbers")
    assert answer["tools"][0] == {
        "name": "demo:add",
        "description": "Add two numbers",
        "signature": 'tools.demo.add(args: { a: number; b: number; unit?: "m" | "km"; at?: string })',
    }


def test_who_asks_for_one_tool_alone_reads_more_of_its_words():
    told = "Start of the span, in ISO 8601 such as 2024-01-15T14:30:25, or as one says it, such as 2 weeks ago"
    schema = {"type": "object", "properties": {"since": {"type": "string", "description": told}}}
    known = discovery(catalog(git=[{"name": n, "inputSchema": schema} for n in ("a", "b", "c")]))
    (alone,) = known.get_functions(["git:a"])["functions"]
    assert alone == known.describe_tool("git:a")
    assert alone["parameters"][0]["description"] == told
    for one in known.get_functions(["git:a", "git:b", "git:c"])["functions"]:
        assert len(one["parameters"][0]["description"]) <= 70


def test_beside_others_a_long_declaration_is_an_outline():
    inner = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20)}}
    one = {"$ref": "#/$defs/i"}
    properties = {"must": one, **{f"may{n}": one for n in range(9)}, "how": {"enum": ["a", "b"]}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["must"],
        "$defs": {"i": inner},
    }
    results = {"type": "object", "properties": {f"r{n}": {"type": "string"} for n in range(99)}}
    tool = {"name": "t", "inputSchema": schema, "outputSchema": results}
    known = discovery(catalog(demo=[tool, "echo", "ping"]))
    whole = known.describe_tool("demo:t")
    assert "shortened" not in whole and "r98" in whole["declaration"]
    assert len(whole["parameters"]) == len(properties)
    short = known.get_functions(["demo:t", "demo:echo", "demo:ping"])["functions"][0]
    assert short["shortened"] is True and len(short["declaration"]) <= 600
    assert "may8?: object; how?: " in short["declaration"]
    assert "r9?: string; /* 89 more */ [key: string]: unknown }" in short["declaration"]
    assert [each["name"] for each in short["parameters"]] == ["must"]
    assert short["call"] == whole["call"]


def test_of_annotations_those_are_told_that_do_not_go_without_saying():
    hints = {"title": "T", "readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
    known = discovery(catalog(demo=[{"name": "t", "inputSchema": {}, "annotations": hints}]))
    assert known.describe_tool("demo:t")["annotations"] == {"destructiveHint": True}


@pytest.mark.parametrize(
    ("description", "line"),
    [
        ("Read a whole file as text. DEPRECATED: use read_text.", "Read a whole file as text (deprecated)"),
        ("Read a whole file as text. This tool is deprecated.", "Read a whole file as text (deprecated)"),
        ("Read a whole file as text. Lists deprecated calls.", "Read a whole file as text"),
        ("DEPRECATED: use read_text. It reads a file.", "DEPRECATED: use read_text"),
        (f"{'Read ' * 30}. DEPRECATED", f"{'Read ' * 13}R… (deprecated)"),
    ],
)  # fmt: skip
def test_a_line_says_that_a_tool_is_deprecated(description, line):
    known = catalog(files=[{"name": "read", "description": description, "inputSchema": {}}])
    (found,) = discovery(known).search_tools("read")["tools"]
    assert found["description"] == line and len(line) <= 80


def test_a_search_says_how_many_more_there_are(demo):
    answer = demo.search_tools("list", 1)
    assert len(answer["tools"]) == 1 and answer["more"] == 1
    assert demo.search_tools("list", 2.0)["more"] == 0


def test_an_empty_answer_names_what_is_near_and_who_was_not_asked():
    down = server("slack", state="down", error="refused")
    off = server("old", state="disabled")
    found = discovery(
        Catalog({"demo": server("demo", ["echo"]), "slack": down, "old": off}, 1)
    ).search_tools("qqq")
    assert found["tools"] == [] and found["not_searched"] == ["slack (down)"]
    near = discovery(catalog(demo=["ab_cd"])).search_tools("xab-cdx")
    assert near["tools"] == [] and "demo:ab_cd" in near["hint"]
    empty = discovery(catalog(demo=["ab_cd"])).search_tools(" ")
    assert "query is empty" in empty["hint"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((None,), "query"),
        ((["x"],), "query"),
        (("x", "8"), "limit must be an integer from 1 to 50"),
        (("x", True), "limit"),
        (("x", 0), "limit"),
        (("x", 51), "limit"),
        (("x", 1.5), "limit"),
        (("x", float("inf")), "limit"),
        (("x", float("nan")), "limit"),
        (("x", None, 7), "server must be a string"),
        (("x", None, "githup"), "github"),
    ],
)
def test_a_wrong_question_is_refused_by_name(demo, arguments, part):
    with pytest.raises(ValueError, match=part):
        demo.search_tools(*arguments)


def test_one_server_only(demo):
    assert {tool["name"] for tool in demo.search_tools("list", server="github")["tools"]} == {
        "github:list_issues",
        "github:list.items",
    }
    assert demo.search_tools("list", server="demo")["tools"] == []


def test_a_tool_is_described_whole(demo):
    assert demo.describe_tool("demo:add") == {
        "name": "demo:add",
        "description": "Add two numbers",
        "declaration": "declare function add(args: { a: number; b: number; "
        'unit?: "m" | "km"; at?: string }): Promise<unknown>;',
        "call": "const result = await tools.demo.add({a: 1, b: 1});",
        "parameters": [
            {"name": "a", "type": "number", "required": True, "description": "The first"},
            {"name": "b", "type": "number", "required": True},
            {"name": "unit", "type": '"m" | "km"', "required": False, "default": "m"},
            {"name": "at", "type": "string", "required": False, "description": "date-time"},
        ],
        "returns": "not declared",
    }


TEXT = {"type": "string"}
NODE = {
    "type": "object",
    "required": ["label", "children"],
    "properties": {
        "label": TEXT,
        "children": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}},
    },
}


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (TEXT, '"…"'),
        ({"type": ["null", "integer"]}, "1"),
        ({"type": "null"}, "null"),
        ({"enum": ["m", "km"]}, '"m"'),
        ({"const": 7}, "7"),
        ({"type": "string", "default": "x" * 80}, '"…"'),
        ({"type": "array", "items": TEXT}, "[]"),
        ({"type": "array", "items": TEXT, "minItems": 1}, '["…"]'),
        ({"required": ["a-b", "c"], "properties": {"a-b": TEXT}}, '{"a-b": "…", c: null}'),
        ({"type": "object", "required": ["a-b", "c"], "properties": {"a-b": TEXT}}, '{"a-b": "…", c: null}'),
        ({"anyOf": [{"type": "null"}, {"type": "object", "required": ["x"], "properties": {"x": TEXT}}]}, '{x: "…"}'),
        ({"allOf": [{"$ref": "#/$defs/node"}, {"properties": {"label": {"const": "root"}}}]}, '{label: "root", children: ['),
        ({"$ref": "#/$defs/node"}, '{label: "…", children: [{label: "…", children: [{}]}]}'),
        ({"$ref": "#/nowhere"}, "null"),
        (True, "null"),
    ],
)  # fmt: skip
def test_a_line_that_calls_it_has_what_is_required(schema, written):
    inputs = {
        "type": "object",
        "properties": {"v": schema},
        "required": ["v"],
        "$defs": {"node": NODE},
    }
    found = discovery(catalog(demo=[{"name": "t", "inputSchema": inputs}])).describe_tool("demo:t")
    assert found["call"].startswith(f"const result = await tools.demo.t({{v: {written}")


def test_a_line_that_calls_it_is_no_tree_without_end():
    wide = {
        "type": "object",
        "required": list("abcdefgh"),
        "properties": {name: {"$ref": "#"} for name in "abcdefgh"},
    }
    found = discovery(catalog(demo=[{"name": "t", "inputSchema": wide}])).describe_tool("demo:t")
    assert len(found["call"]) < 5000


def test_a_recursive_result_has_a_name(demo):
    answer = demo.describe_tool("demo.tree")
    assert answer["declaration"].splitlines() == [
        "type Node = { label: string; children?: Node[] };",
        "declare function tree(args?: { [key: string]: unknown }): Promise<Node>;",
    ]
    assert answer["annotations"] == {"readOnlyHint": True}


def test_names_that_javascript_cannot_spell_are_in_brackets(demo):
    answer = demo.describe_tool("github:list.items")
    assert 'tools.github["list.items"]({})' in answer["call"]
    assert "declare function list_items(" in answer["declaration"]


@pytest.mark.parametrize(
    ("name", "near"), [("demo:ecko", "demo:echo"), ("eco", "demo:echo"), ("zzz", "search_tools")]
)
def test_an_unknown_tool_has_close_names(demo, name, near):
    with pytest.raises(LookupError, match=near):
        demo.describe_tool(name)
    with pytest.raises(ValueError):
        demo.describe_tool(7)


def test_functions_are_read_together_in_either_form(demo):
    answer = demo.get_functions(
        ["demo:add", {"server_name": "demo", "function_name": "echo"}, "demo:add", "demo:nope"]
    )
    others = [{"name": "demo:add"}, {"server": "demo", "tool": "echo"}, "tools.demo.add(args)"]
    assert demo.get_functions(others)["functions"] == [*answer["functions"], answer["functions"][0]]
    assert [one["name"] for one in answer["functions"]] == ["demo:add", "demo:echo"]
    assert answer["not_found"][0]["name"] == "demo:nope"


@pytest.mark.parametrize(
    ("functions", "part"),
    [
        (None, "1 to 20"),
        ([], "1 to 20"),
        ("demo:add", "1 to 20"),
        (["a"] * 21, "1 to 20"),
        (["demo:add", 7], "element 1"),
        ([{"server_name": "demo"}], "element 0"),
        ([{"server_name": "demo", "function_name": 7}], "element 0"),
    ],
)
def test_a_wrong_list_of_functions_is_refused(demo, functions, part):
    with pytest.raises(ValueError, match=part):
        demo.get_functions(functions)


def test_servers_are_listed_with_what_they_are_for():
    answer = discovery(
        Catalog(
            {
                "demo": server("demo", [ADD, TREE]),
                "said": server("said", ["x"], instructions="For\nsaying."),
                "slack": server("slack", state="down", error="refused"),
            },
            1,
        )
    ).list_servers()
    assert answer["servers"] == [
        {
            "name": "demo",
            "summary": "Add two numbers; Draws a whole tree",
            "state": "ready",
            "tools": 2,
            "names": ["add", "tree"],
            "listed": "COMPLETE",
        },
        {
            "name": "said",
            "summary": "For saying.",
            "state": "ready",
            "tools": 1,
            "names": ["x"],
            "listed": "COMPLETE",
        },
        {"name": "slack", "summary": "", "state": "down", "tools": 0, "error": "refused"},
    ]


def test_names_are_listed_within_a_budget():
    many = [f"a_tool_with_a_name_{n}" for n in range(1000)]
    first, second = discovery(catalog(big=many, small=["x"])).list_servers()["servers"]
    assert first["tools"] == 1000
    assert first["listed"] == f"PARTIAL: {len(first['names'])} of 1000"
    assert sum(map(len, first["names"])) < 8000
    assert second["name"] == "small"


def test_a_new_catalog_is_seen_at_once():
    shown = [catalog(demo=["echo"])]
    found = Discovery(lambda caller: shown[-1])
    assert found.search_tools("fresh")["tools"] == []
    shown.append(catalog(2, demo=["echo", "fresh"]))
    assert found.search_tools("fresh")["tools"][0]["name"] == "demo:fresh"


def test_only_the_servers_whose_tools_have_changed_are_indexed_again(monkeypatch):
    tools = server("demo", ["echo"]).tools
    shown = [Catalog({"demo": Server("demo", "ready", None, tools, None)}, 1)]
    found = Discovery(lambda caller: shown[-1])
    indexed = []
    monkeypatch.setattr(
        found._index, "replace", lambda name, entries: indexed.append((name, len(list(entries))))
    )
    for one in (
        Catalog({"demo": Server("demo", "down", None, tools, "gone")}, 2),
        Catalog({"demo": Server("demo", "ready", None, tools, None), "b": server("b", ["x"])}, 3),
        Catalog({"b": server("b", ["x", "y"])}, 4),
    ):
        shown.append(one)
        found.search_tools("echo")
    assert indexed == [("demo", 1), ("b", 1), ("demo", 0), ("b", 2)]


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "odd"},
        {"name": "odd", "inputSchema": None, "description": 7, "annotations": []},
        {"name": "odd", "inputSchema": {}, "outputSchema": {}},
        {"name": "odd", "inputSchema": True, "outputSchema": False},
        {"name": "odd", "inputSchema": {"$ref": "#/x"}, "title": ["x"]},
        {"name": "odd", "inputSchema": {"properties": {"a": False, "b": 7}, "required": "a"}},
        {"name": "odd", "inputSchema": {"type": "string"}, "description": "\ud800\0"},
    ],
)
def test_an_odd_tool_is_found_and_described(definition):
    demo = discovery(catalog(demo=[definition]))
    assert demo.search_tools("odd")["tools"][0]["name"] == "demo:odd"
    text = json.dumps(demo.describe_tool("demo:odd"), ensure_ascii=False)
    assert "declare function odd(" in text and text.encode()
    assert demo.list_servers()["servers"][0]["tools"] == 1
