"""API documents as tools: what is sent for a call, and what comes of the answer."""

from __future__ import annotations

from typing import Any

import pytest
from apis import document, open_document, put
from packs import serving_site
from test_toolpack_http import Site

LIST = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "additionalProperties": {"type": "string"}}


def parameter(place: str, name: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    found = {"in": place, "name": name, "schema": {} if schema is None else schema, **more}
    return {**found, "required": True} if place == "path" else found


@pytest.fixture
async def site():
    async with serving_site(Site) as site:
        yield site


COLORS = ["blue", "black"]
RGB = {"R": "100", "G": "200"}


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("simple", False, "a b/ü", "a%20b%2F%C3%BC"),
        ("simple", False, COLORS, "blue,black"),
        ("simple", False, RGB, "R,100,G,200"),
        ("simple", True, RGB, "R=100,G=200"),
        ("label", False, COLORS, ".blue,black"),
        ("label", True, COLORS, ".blue.black"),
        ("label", True, RGB, ".R=100.G=200"),
        ("matrix", False, "blue", ";v=blue"),
        ("matrix", False, COLORS, ";v=blue,black"),
        ("matrix", True, COLORS, ";v=blue;v=black"),
        ("matrix", True, RGB, ";R=100;G=200"),
        ("form", True, "blue", "?v=blue"),
        ("form", True, 2.0, "?v=2"),
        ("form", True, True, "?v=true"),
        ("form", True, "", "?v="),
        ("form", True, COLORS, "?v=blue&v=black"),
        ("form", False, COLORS, "?v=blue,black"),
        ("form", False, RGB, "?v=R,100,G,200"),
        ("form", True, RGB, "?R=100&G=200"),
        ("spaceDelimited", False, COLORS, "?v=blue%20black"),
        ("pipeDelimited", False, COLORS, "?v=blue%7Cblack"),
        ("deepObject", True, {"a": "1", "b": {"c": ["x", "y"]}}, "?v[a]=1&v[b][c]=x&v[b][c]=y"),
    ],
)
async def test_a_value_is_written_in_the_style_of_its_parameter(
    tmp_path, site, style, explode, value, written
):
    place = "path" if style in ("simple", "label", "matrix") else "query"
    path = "/x{v}" if place == "path" else "/x"
    get = {
        "operationId": "get",
        "parameters": [parameter(place, "v", style=style, explode=explode)],
    }
    file = put(tmp_path, document({path: {"get": get}}, origin=site.origin))
    async with open_document(file) as api:
        assert (await api.call("get", v=value))["target"] == f"/x{written}"
