"""An edit changes the value that is meant, and no other text of the document."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy import jsonc
from mcpproxy.edit import put, remove

DOCUMENT = """\
// ours
{
  "listen": "127.0.0.1:0", // the port
  /* more of
     them below */
  "mcpServers": [
    {"name": "a", "url": "http://a//b", "own": [1, {"x": null}]}, // first
    // commented out
    {
      "name": "b",
      "command": "b", /* why */
    }
  ],
  "unknown": {"kept": true} // till the end
}
// the end
"""


def test_a_value_is_replaced_where_it_stands():
    expected = DOCUMENT.replace('"127.0.0.1:0"', '"[::1]:1"')
    assert put(DOCUMENT, ("listen",), "[::1]:1") == expected


def test_a_member_is_added_in_the_manner_of_its_object():
    found = put(DOCUMENT, ("mcpServers", 0, "enabled"), False)
    assert found == DOCUMENT.replace("null}]}", 'null}], "enabled": false}')
    found = put(DOCUMENT, ("mcpServers", 1, "enabled"), False)
    assert found == DOCUMENT.replace("/* why */", '/* why */\n      "enabled": false,')
    found = put(DOCUMENT, ("new",), 1)
    assert found == DOCUMENT.replace("true} // till the end", 'true}, // till the end\n  "new": 1')
    odd = '{\n  "a": {\n       "b": 1\n  }\n}\n'
    assert put(odd, ("a", "c"), 2) == odd.replace("1\n", '1,\n       "c": 2\n')


def test_an_element_is_added_at_the_end():
    found = put(DOCUMENT, ("mcpServers", 2), {"name": "c", "args": []})
    new = '    },\n    {\n      "name": "c",\n      "args": []\n    }\n  ],'
    assert found == DOCUMENT.replace("    }\n  ],", new)


def test_an_empty_container_gets_lines():
    assert put('{"a": []}', ("a", 0), {"b": 1}) == '{"a": [\n  {\n    "b": 1\n  }\n]}'
    assert put("{}", ("a",), 1) == '{\n  "a": 1\n}'
    found = put('{\n  "a": []\n}', ("a", 0), {"b": 1})
    assert found == '{\n  "a": [\n    {\n      "b": 1\n    }\n  ]\n}'
    assert put("{ // c\n}", ("a",), 1) == '{ // c\n  "a": 1\n}'


def test_removing_takes_the_lines_and_a_comma_along():
    found = remove(DOCUMENT, ("mcpServers", 1))
    assert found.startswith(DOCUMENT[: DOCUMENT.index("}, // first")])
    assert 'null}]} // first\n    // commented out\n  ],\n  "unknown"' in found
    assert remove('{"a": 1, "b": 2, "c": 3}', ("b",)) == '{"a": 1, "c": 3}'
    assert remove('{"a": 1, "b": 2}', ("b",)) == '{"a": 1}'
    assert remove('{"a": 1, "b": 2}', ("a",)) == '{"b": 2}'
    assert remove('{\n  "a": 1,\n  "b": 2\n}\n', ("b",)) == '{\n  "a": 1\n}\n'
    assert remove('{\n  "a": 1,\n  "b": 2\n}\n', ("a",)) == '{\n  "b": 2\n}\n'


def test_a_name_that_comes_twice_is_gone_after_removing():
    assert jsonc.loads(remove('{"a": 1, "b": 2, "\\u0061": 3}', ("a",))) == {"b": 2}
    assert put('{"a": 1, "a": 2}', ("a",), 3) == '{"a": 1, "a": 3}'


def test_windows_lines_and_a_mark_at_the_start_stay():
    text = '\ufeff{\r\n\t"a": [\r\n\t\t1\r\n\t]\r\n}\r\n'
    assert put(text, ("a", 1), {"x": 1}) == text.replace(
        "\t\t1", '\t\t1,\r\n\t\t{\r\n\t\t\t"x": 1\r\n\t\t}'
    )


@pytest.mark.parametrize(
    "path", [("x", "y"), ("listen", "y"), ("mcpServers", "y"), ("mcpServers", 7)]
)
def test_a_path_that_leads_nowhere_is_an_error(path):
    with pytest.raises(LookupError):
        put(DOCUMENT, path, 1)
    with pytest.raises(LookupError):
        remove(DOCUMENT, path)


@pytest.mark.parametrize("text", ["", "{", "[1", '{"a": }', "{} x", '{"a": "\n"}'])
def test_a_document_that_does_not_parse_is_left_alone(text):
    with pytest.raises(ValueError, match=r"line \d"):
        put(text, ("a",), 1)


# ── any document, any edit ──────────────────────────────────────────────────────────────────────

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["//", "/*", "*/", '"', "\\", ",}"])  # fmt: skip
KEYS = st.sampled_from(["a", "b", "name", "//", "ä\n", 'q"', ""])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
GAPS = st.sampled_from(
    [
        "",
        "",
        "",
        " ",
        "\n",
        "\n  ",
        "\r\n\t",
        " // one\n",
        "/* two */",
        "// 3 }, ]\n",
        '/* " // */\n',
    ]
)


@st.composite
def documents(draw, value):
    """A text with gaps and comments wherever they may be, whose value that is."""
    gap = lambda: draw(GAPS)  # noqa: E731

    def write(value):
        match value:
            case dict():
                inner = [
                    f"{gap()}{json.dumps(k)}{gap()}:{gap()}{write(v)}{gap()}"
                    for k, v in value.items()
                ]
                return "{" + ",".join(inner) + closing(value) + "}"
            case list():
                return (
                    "["
                    + ",".join(f"{gap()}{write(v)}{gap()}" for v in value)
                    + closing(value)
                    + "]"
                )
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def closing(value):
        return gap() if not value else draw(st.sampled_from(["", "", ","])) + gap()

    return gap() + write(value) + gap()


def comments(text):
    """Its comments in their order; a line's end is not part of one."""
    found = jsonc.STRING_OR_COMMENT.findall(text)
    return [each.rstrip("\r") for each in found if not each.startswith('"')]


def bones(text):
    """All of it but blanks and commas outside of strings and comments."""
    return [
        t.rstrip("\r")
        for t in re.findall(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|[^\s,]', text, re.DOTALL)
    ]


def paths(value, here=()):
    """Each place in a value, its containers before what is in them."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield (*here, key)
        yield from paths(inner, (*here, key))


def within(value, path):
    for key in path:
        value = value[key]
    return value


def is_subsequence(short, long):
    rest = iter(long)
    return all(each in rest for each in short)


OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(st.data(), OBJECTS, VALUES)
def test_putting_changes_that_value_and_no_comment_around_it(data, value, new):
    text = data.draw(documents(value))
    places = [
        *paths(value),
        ("added",),
        *((*p, "added") for p in paths(value) if isinstance(within(value, p), dict)),
        *((*p, len(found)) for p in paths(value) if isinstance(found := within(value, p), list)),
    ]
    path = data.draw(st.sampled_from(places))
    edited = put(text, path, new)
    try:
        replaced = within(value, path)
        fresh = False
    except (LookupError, TypeError):
        fresh = True
    target = within(value, path[:-1])
    if isinstance(path[-1], int) and fresh:
        target.append(new)
    else:
        target[path[-1]] = new
    assert jsonc.loads(edited) == value
    if fresh:
        assert comments(edited) == comments(text)
        assert is_subsequence(bones(text), bones(edited))
    elif not isinstance(replaced, (dict, list)):
        assert comments(edited) == comments(text)
    else:
        assert is_subsequence(comments(edited), comments(text))


@given(st.data(), OBJECTS.filter(bool))
def test_removing_takes_that_value_and_no_comment_around_it(data, value):
    text = data.draw(documents(value))
    path = data.draw(st.sampled_from(list(paths(value))))
    edited = remove(text, path)
    removed = within(value, path)
    del within(value, path[:-1])[path[-1]]
    assert jsonc.loads(edited) == value
    assert is_subsequence(bones(edited), bones(text))
    assert is_subsequence(comments(edited), comments(text))
    if not isinstance(removed, (dict, list)) and isinstance(path[-1], int):
        assert comments(edited) == comments(text)


@given(st.data(), OBJECTS, VALUES)
def test_what_was_added_can_be_removed_again(data, value, new):
    text = data.draw(documents(value))
    again = remove(put(text, ("added",), new), ("added",))
    assert jsonc.loads(again) == value
    assert (comments(again), bones(again)) == (comments(text), bones(text))
