"""The declarations for editors: every tool under each of its names, nothing that breaks out of a comment."""

from __future__ import annotations

import pytest
from fakes import catalog, server
from warm import COMPILED

from mcpproxy.ambient import ambient
from mcpproxy.catalog import Catalog
from mcpproxy.sandbox.typescript import Oxc

FORECAST = {
    "name": "forecast",
    "description": "Weather of the coming days.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "A town"},
            "days": {"type": "integer", "default": 3},
            "from": {"type": "string", "format": "date"},
        },
        "required": ["place"],
    },
    "outputSchema": {
        "type": "object",
        "properties": {"days": {"type": "array", "items": {"$ref": "#/$defs/Error"}}},
        "required": ["days"],
        "$defs": {"Error": {"type": "object", "properties": {"rain": {"type": "number"}}}},
    },
}


def lines(one: Catalog) -> list[str]:
    return [line.strip() for line in ambient(one).splitlines()]


def test_a_tool_is_a_method_with_what_is_known_of_it():
    found = "\n".join(lines(catalog(weather=[FORECAST])))
    assert (
        """\
namespace Weather {
type Error = { rain?: number };
interface Tools {
/** Weather of the coming days. */
forecast(args: { /** A town */ place: string; /** @default 3 */ days?: number; /** date */ from?: string }): Promise<{ days: Error[] }>;
}
}"""
        in found
    )
    assert "weather: Weather.Tools;" in found
    assert "@returns not declared" not in found


def test_what_javascript_cannot_spell_has_both_names_and_what_is_unclear_one():
    found = lines(catalog(**{"my-server": ["list.items", "a-b", "a_b"]}))
    for line in (
        "my_server: MyServer.Tools;",
        '"my-server": Servers["my_server"];',
        "list_items(args?: { [key: string]: unknown }): Promise<any>;",
        '"list.items": Tools["list_items"];',
        '"a-b"(args?: { [key: string]: unknown }): Promise<any>;',
        "a_b(args?: { [key: string]: unknown }): Promise<any>;",
        "* In brackets only: another one would be spelled `a_b`, too.",
    ):
        assert any(line in each for each in found), line
    assert sum('"a-b"' in each for each in found) == 1


def test_it_is_the_same_for_the_same_catalog_and_says_what_is_not_known():
    known = server("demo", [FORECAST], instructions="For\ndemonstration.")
    away = server("away", state="down", error="refused")
    text = ambient(Catalog({"demo": known, "away": away}, 1))
    assert text == ambient(Catalog({"demo": known, "away": away}, 2))
    assert "/** For demonstration. */" in text and "/** Its tools are not known yet. */" in text


@pytest.fixture(scope="module")
def oxc():
    return Oxc(COMPILED)


NAMES = [
    "a-b",
    "a_b",
    "then",
    "constructor",
    "__proto__",
    "delete",
    "2fa",
    "日本",
    "a*/b",
    'q"',
    "",
    "\ud800",
]


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(catalog(), id="nothing"),
        pytest.param(catalog(**{name or "x": NAMES for name in [*NAMES, "Result", "class", "my-s", "my_s"]}), id="names"),
        pytest.param(
            catalog(odd=[
                {"name": "comments", "description": "a */ b\n@param c\n/** d", "inputSchema": {
                    "properties": {"x": {"description": "*/ } x", "default": "*/", "format": "*/"}}}},
                {"name": "none"}, {"name": "broken", "inputSchema": {"properties": [1], "required": "x"}},
                {"name": "truth", "inputSchema": True, "outputSchema": False, "title": "*/"},
            ]),
            id="odd definitions",
        ),
    ],
)  # fmt: skip
@pytest.mark.threat("U4")
def test_whatever_servers_say_it_is_typescript(oxc, one):
    text = ambient(one).encode("utf-8", "replace").decode()
    answer = oxc.answer(text + "\nconst declared: number = 1;")
    assert answer["refusal"] is None
    # Types leave nothing behind: what a description smuggled out of its comment would.
    assert "declared = 1" in answer["text"] and len(answer["text"].split(";")) <= 3, answer["text"]
