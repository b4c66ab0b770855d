"""What a server lists askew costs that entry or less, never the list of a client."""

from __future__ import annotations

import pytest
from fakes import catalog
from mcp_types import methods

from mcpproxy import readable
from mcpproxy.direct import direct
from mcpproxy.envelopes import toolcall_envelope

FINE = {
    "name": "fine",
    "inputSchema": {"type": "object", "x-own": {}},
    "description": "d",
    "x-own": [1],
    "_meta": {"a": 1},
}
OBJECT = {"type": "object"}
ASKEW = [
    {},
    {"inputSchema": {}},
    {"inputSchema": {"$ref": "#/$defs/a"}},
    {"inputSchema": {"type": "array"}},
    {"inputSchema": {**OBJECT, "properties": [1], "required": "x"}},
    {"inputSchema": None},
    {"inputSchema": True},
    *(
        {"inputSchema": OBJECT, member: 5}
        for member in ("description", "annotations", "icons", "_meta")
    ),
    {"inputSchema": OBJECT, "annotations": {"readOnlyHint": "true"}},
]


@pytest.mark.parametrize("askew", ASKEW, ids=str)
def test_a_tool_that_is_not_as_the_protocol_has_it_is_listed_without_what_is_wrong(askew):
    found = catalog(demo=[FINE, {"name": "odd", **askew}])
    listed = [direct(tool, found, cuts=True) for tool in found.tools()]
    assert listed[0] == {**FINE, "name": "demo__fine"}
    assert [tool["name"] for tool in listed] == ["demo__fine", "demo__odd"]
    for version in ("2024-11-05", "2025-11-25", "2026-07-28"):
        page = {"tools": listed, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        methods.validate_server_result("tools/list", version, page)


def test_of_a_schema_only_what_is_wrong_is_left_out():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": 5}
    found = readable.tool({"name": "t", "inputSchema": schema})
    assert found["inputSchema"] == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert readable.tool({"name": "t", "inputSchema": {"$ref": "#"}})["inputSchema"]["$ref"] == "#"


def test_prompts_and_resources_are_read_likewise():
    assert readable.prompt({"name": "p", "arguments": [{}], "own": 1}) == {"name": "p", "own": 1}
    assert readable.resource({"uri": "a:b", "size": "1"}) == {"uri": "a:b", "name": "a:b"}
    assert readable.template({"uriTemplate": "a:{b}", "name": "t"})["name"] == "t"
    for read in (readable.prompt, readable.resource, readable.template):
        assert read({"uri": 5, "name": 5}) is None


FAIR = [
    {"type": "text", "text": "a", "x-own": 1},
    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "a:b", "text": "c"}},
    {"type": "resource_link", "uri": "a:b", "name": "n"},
]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"content": FAIR, "x-own": 1}, {"content": FAIR, "x-own": 1}),
        ({}, {"content": []}),
        ({"content": None, "structuredContent": None}, {"content": []}),
        ({"content": "words"}, {"content": [{"type": "text", "text": "words"}]}),
        (
            {"content": [{"type": "video"}, {"type": "text"}, 7]},
            {"content": [{"type": "text", "text": text} for text in ('{"type":"video"}', '{"type":"text"}', "7")]},
        ),
        ({"structuredContent": [1]}, {"content": [{"type": "text", "text": "[1]"}]}),
        ({"content": FAIR, "structuredContent": [1]}, {"content": FAIR}),
        ({"content": [], "isError": 1}, {"content": [], "isError": True}),
    ],
)  # fmt: skip
def test_a_result_that_clients_would_refuse_is_told_as_text(given, shown):
    found = readable.result(given, modern=False)
    assert found == shown
    methods.SERVER_RESULTS["tools/call", readable.VERSION].model_validate(found, strict=True)
    assert toolcall_envelope(given)["ok"] is not found.get("isError", False)
    if given.get("structuredContent"):
        assert readable.result(given, modern=True)["structuredContent"] == [1]
