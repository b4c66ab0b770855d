"""What a server lists askew costs that entry or less, never the list of a client."""

from __future__ import annotations

import mcp_types as types
import pytest
from fakes import catalog

from mcpproxy import readable
from mcpproxy.direct import direct

FINE = {"name": "fine", "inputSchema": {}, "description": "d", "x-own": [1], "_meta": {"a": 1}}
ASKEW = [
    {},
    {"inputSchema": None},
    {"inputSchema": True},
    *(
        {"inputSchema": {}, member: 5}
        for member in ("description", "annotations", "icons", "_meta")
    ),
    {"inputSchema": {}, "annotations": {"readOnlyHint": "true"}},
]


@pytest.mark.parametrize("askew", ASKEW, ids=str)
def test_a_tool_that_is_not_as_the_protocol_has_it_is_listed_without_what_is_wrong(askew):
    found = catalog(demo=[FINE, {"name": "odd", **askew}])
    listed = [direct(tool, found, cuts=True) for tool in found.tools()]
    assert listed[0] == {**FINE, "name": "demo__fine"}
    read = types.ListToolsResult.model_validate({"tools": listed}, strict=True)
    assert [tool.name for tool in read.tools] == ["demo__fine", "demo__odd"]


def test_prompts_and_resources_are_read_likewise():
    assert readable.prompt({"name": "p", "arguments": [{}], "own": 1}) == {"name": "p", "own": 1}
    assert readable.resource({"uri": "a:b", "size": "1"}) == {"uri": "a:b", "name": "a:b"}
    assert readable.template({"uriTemplate": "a:{b}", "name": "t"})["name"] == "t"
    for read in (readable.prompt, readable.resource, readable.template):
        assert read({"uri": 5, "name": 5}) is None
