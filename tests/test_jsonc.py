"""JSON as people write it in configuration files."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy import jsonc


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2, // two\n]", [1, 2]),
        ('/* a */ {"a" /* b */ : /* "c" */ 1}', {"a": 1}),
        ('{"url": "http://x/*y*/,}"}', {"url": "http://x/*y*/,}"}),
        (r'{"quote": "a\" // b", "back": "\\"} // "', {"quote": 'a" // b', "back": "\\"}),
        ('\ufeff{"a": [1,],}', {"a": [1]}),
        ("[1, /* over\n two lines */ ]", [1]),
    ],
)
def test_comments_and_trailing_commas_are_left_out_but_not_from_strings(text, value):
    assert jsonc.loads(text) == value


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"a": 1\n "b": 2}', "line 2, column 2"),
        ('{ // a comment\n  "a": x\n}', "line 2, column 8"),
        ("/* one\ntwo */ nope", "line 2, column 8"),
        ('{"a": 1', "line 1, column 8"),
        ("", "line 1, column 1"),
        (
            r'{"a": "\\ud83d",' "\n" r' "b": "\ud83d\ude00 \uDC00"}',
            r"line 2, column 21: \uDC00 is half",
        ),
    ],
)
def test_an_error_in_json_is_placed_where_the_file_has_it(text, where):
    with pytest.raises(ValueError, match=f"^{re.escape(where)}"):
        jsonc.loads(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_plain_json_is_read_as_it_is(value):
    assert jsonc.loads(json.dumps(value)) == value
    assert jsonc.loads(json.dumps(value, ensure_ascii=False, indent=2)) == value
