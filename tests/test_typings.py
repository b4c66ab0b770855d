"""A JSON Schema as a TypeScript type: short, true, and an end to it whatever the schema."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy.typings import Types, alias, one_line

S, N = {"type": "string"}, {"type": "number"}


def props(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (S, "string"),
        ({"type": "integer"}, "number"),
        ({"type": "null"}, "null"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"nullable": True}, "unknown"),
        (True, "unknown"),
        (False, "never"),
        ({}, "unknown"),
        (None, "unknown"),
        ("string", "unknown"),
        ([], "unknown"),
        ({"type": "date"}, "unknown"),
        ({"type": 7}, "unknown"),
        ({"type": []}, "unknown"),
        ({"enum": ["a", "b", 1, None, True]}, '"a" | "b" | 1 | null | true'),
        ({"enum": []}, "unknown"),
        ({"enum": "a"}, "unknown"),
        ({"const": {"a": [1]}}, "{ a: [1] }"),
        ({"const": None}, "null"),
        ({"type": "array"}, "unknown[]"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"type": "array", "items": 7}, "unknown[]"),
        ({"items": S}, "string[]"),
        ({"type": "array", "prefixItems": [S, N], "items": False}, "[string, number]"),
        ({"type": "array", "items": [S, N]}, "[string, number, ...unknown[]]"),
        (
            {"type": "array", "items": [S, N], "additionalItems": False, "minItems": 1},
            "[string, (number)?]",
        ),
        ({"type": "object"}, "{ [key: string]: unknown }"),
        ({"type": "object", "additionalProperties": False}, "{}"),
        ({"type": "object", "additionalProperties": S}, "{ [key: string]: string }"),
        ({"patternProperties": {"^x": N}}, "{ [key: string]: number }"),
        (props(a=S, b=N, required=["a"]), "{ a: string; b?: number }"),
        (props(required=["z", "z", 7]), "{ z: unknown }"),
        (
            {"properties": {"a-b": S, "": S, "ü": S}},
            '{ "a-b"?: string; ""?: string; "ü"?: string }',
        ),
        ({"properties": [S]}, "{ [key: string]: unknown }"),
        (
            {"properties": {"a": S}, "additionalProperties": N},
            "{ a?: string; [key: string]: unknown }",
        ),
        ({"anyOf": [S, N]}, "string | number"),
        ({"oneOf": [S, S]}, "string"),
        ({"anyOf": [S, {}]}, "unknown"),
        ({"anyOf": 7}, "unknown"),
        ({"allOf": [props(a=S), props(b=N)]}, "{ a?: string } & { b?: number }"),
        ({"allOf": [{"anyOf": [S, N]}, {"oneOf": [S]}]}, "(string | number) & string"),
        (
            {**props(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "{ a?: string; b?: string }",
        ),
        ({"$ref": "#/nowhere"}, "unknown"),
        ({"$ref": "https://example.org/schema"}, "unknown"),
        ({"$ref": 7}, "unknown"),
        ({"not": S}, "unknown"),
        ({"const": "\ud800"}, '"\\ud800"'),
    ],
)
def test_one_type(schema, expected):
    types = Types(schema)
    assert types.expression() == expected
    assert types.definitions == {}


TREE = {"$ref": "#/$defs/tree-node"}
NODE = props(label=S, children={"type": "array", "items": TREE}, required=["label"])


@pytest.mark.parametrize(
    ("schema", "expected", "definitions"),
    [
        pytest.param(
            {**TREE, "$defs": {"tree-node": NODE}},
            "TreeNode",
            {"TreeNode": "{ label: string; children?: TreeNode[] }"},
            id="a recursive type has a name",
        ),
        pytest.param(
            props(next={"$ref": "#"}),
            "Args",
            {"Args": "{ next?: Args }"},
            id="the whole may recur",
        ),
        pytest.param(
            props(a=S, b={"$ref": "#/properties/a"}),
            "{ a?: string; b?: A }",
            {"A": "string"},
            id="a pointer into properties",
        ),
        pytest.param(
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            },
            "A",
            {"A": "B", "B": "unknown"},
            id="references in a circle",
        ),
        pytest.param(
            {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, S]}}},
            "A",
            {"A": "unknown"},
            id="a union of itself",
        ),
        pytest.param(
            {"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "number"}}},
            "N",
            {"N": "number"},
            id="an anchor",
        ),
        pytest.param(
            {
                "properties": {"p": {"$ref": "#/$defs/a~1b"}, "q": {"$ref": "#/$defs/a b"}},
                "$defs": {"a/b": S, "a b": N},
            },
            "{ p?: A1b; q?: AB }",
            {"A1b": "string", "AB": "number"},
            id="names that TypeScript cannot spell",
        ),
        pytest.param(
            {
                "properties": {"p": {"$ref": "#/$defs/a-b"}, "q": {"$ref": "#/$defs/a_b"}},
                "$defs": {"a-b": S, "a_b": N},
            },
            "{ p?: AB; q?: AB2 }",
            {"AB": "string", "AB2": "number"},
            id="names that collide",
        ),
        pytest.param(
            {"$ref": "#/$defs/n", "nullable": True, "$defs": {"n": S}},
            "N | null",
            {"N": "string"},
            id="a reference that may be null",
        ),
    ],
)
def test_named_types(schema, expected, definitions):
    types = Types(schema)
    assert types.expression() == expected
    assert types.definitions == definitions


def test_the_brief_form_writes_references_out_and_leaves_depths_out():
    schema = {**TREE, "$defs": {"tree-node": NODE}}
    assert Types(schema, brief=True).expression() == "{ label: string; children?: object[] }"
    deep = props(a=props(b=props(c=props(d=S))))
    assert Types(deep, brief=True).expression() == "{ a?: { b?: { c?: { d?: string } } } }"
    assert Types(props(z=deep), brief=True).expression().endswith("c?: object } } } }")


@pytest.mark.parametrize("brief", [True, False])
@pytest.mark.threat("U4")
def test_hostile_schemas_end(brief):
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(3000)}
    bushy = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 4} for i in range(40)}
    deep = S
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    for schema in (
        {"$ref": "#/$defs/d0", "$defs": chain},
        {"$ref": "#/$defs/d0", "$defs": bushy},
        deep,
        {"enum": [deep]},
        {"enum": list(range(20_000))},
        props(**{f"p{i}": S for i in range(10_000)}),
    ):
        assert Types(schema, brief=brief).expression()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYWORDS = st.sampled_from(
    "type properties required items prefixItems additionalProperties anyOf allOf oneOf enum const "
    "$ref $defs nullable minItems patternProperties additionalItems $anchor $id".split()
)
VALUES = st.sampled_from(["string", "object", "array", "#", "#/$defs/a", "#/properties/a", True, 1])
schemas = st.recursive(
    json_values | VALUES,
    lambda inner: st.dictionaries(
        KEYWORDS | st.just("a"), inner | st.lists(inner, max_size=3), max_size=5
    ),
    max_leaves=30,
)


@settings(max_examples=40)
@given(schemas, st.booleans())
def test_anything_at_all_has_a_type(schema, brief):
    types = Types(schema, brief=brief)
    assert types.expression()
    assert isinstance(types.target(), object)
    assert all(types.definitions.values())


@pytest.mark.parametrize(
    ("text", "name"),
    [("tree-node", "TreeNode"), ("2d", "_2d"), ("", "Type"), ("Promise", "Promise_")],
)
def test_alias(text, name):
    assert alias(text) == name


@pytest.mark.threat("U4")
def test_a_line_cannot_end_a_comment_or_be_long():
    assert one_line("a */ b\n\tc \ud800", 100) == "a * / b c ?"
    assert one_line("word " * 1_000_000, 10) == "word word…"
    assert one_line(None, 10) == ""
