"""A tool is what its server said, and the snapshot of all of them has a stable order."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.catalog import EMPTY, Catalog, Server, Tool
from mcpproxy.upstream.listing import merged

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip
NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)


def server(name: str, *tools: str) -> Server:
    known = {tool: Tool(name, {"name": tool}) for tool in tools}
    return Server(name, "ready", None, MappingProxyType(known), None)


def listed(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


@given(JSON, JSON, JSON)
@pytest.mark.threat("U4")
def test_a_definition_of_any_shape_can_be_read(description, schema, annotations):
    definition = {
        "name": "odd",
        "description": description,
        "inputSchema": schema,
        "annotations": annotations,
    }
    tool = Tool("stub", definition)
    assert tool.name == "odd"
    assert isinstance(tool.description, str)
    assert tool.input_schema == schema
    assert isinstance(tool.annotations, dict)


def test_a_definition_without_anything_but_a_name_is_a_tool():
    tool = Tool("stub", {"name": "bare"})
    assert (tool.title, tool.description, tool.input_schema, tool.output_schema) == (
        None, "", None, None,
    )  # fmt: skip


def test_the_fingerprint_knows_no_order_and_sees_every_change():
    first = Tool("stub", {"name": "a", "x-own": {"p": 1, "q": [2]}})
    same = Tool("stub", {"x-own": {"q": [2], "p": 1}, "name": "a"})
    other = Tool("stub", {"name": "a", "x-own": {"p": 1, "q": [3]}})
    assert first.fingerprint == same.fingerprint != other.fingerprint


def test_a_lone_surrogate_in_a_definition_has_a_fingerprint():
    assert len(Tool("stub", {"name": "a", "description": "\ud83d"}).fingerprint) == 64


def test_a_snapshot_finds_tools_and_keeps_their_order():
    catalog = Catalog({"b": server("b", "z", "a"), "a": server("a", "m")}, 1)
    assert [(tool.server, tool.name) for tool in catalog.tools()] == [
        ("b", "z"), ("b", "a"), ("a", "m"),
    ]  # fmt: skip
    assert catalog.tool("b", "a") is catalog.servers["b"].tools["a"]
    assert catalog.tool("b", "m") is None and catalog.tool("nowhere", "m") is None


def test_a_snapshot_is_not_edited():
    with pytest.raises(FrozenInstanceError):
        EMPTY.version = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        EMPTY.servers["a"] = server("a")  # type: ignore[index]


@given(NAMES, NAMES)
def test_a_new_list_keeps_the_order_that_was_and_appends_what_is_new(before, after):
    known = merged("stub", {}, listed(*before))
    tools = list(merged("stub", known, listed(*after)))
    kept = [name for name in before if name in after]
    assert tools[: len(kept)] == kept
    assert tools[len(kept) :] == [name for name in after if name not in before]


def test_what_did_not_change_stays_the_same_object_and_what_did_is_another():
    known = merged("stub", {}, listed("a", "b"))
    again = merged("stub", known, [{"name": "a"}, {"name": "b", "description": "new"}])
    assert again["a"] is known["a"]
    assert again["b"] is not known["b"] and again["b"].description == "new"


def test_of_two_tools_with_one_name_the_first_counts():
    tools = merged("stub", {}, [{"name": "a", "title": "one"}, {"name": "a", "title": "two"}])
    assert [tool.title for tool in tools.values()] == ["one"]
