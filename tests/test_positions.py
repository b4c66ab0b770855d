"""Positions come back from wherever text was put in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sandbox.positions import Positions, code_points, offset_at, position

texts = st.text(alphabet="ab\n é😀", max_size=30)


def engines(text, offset):
    """A position as the engine counts: its columns are bytes."""
    line, _ = position(text, offset)
    return line, len(text[:offset].rpartition("\n")[2].encode()) + 1


@given(texts, st.integers(0, 30))
def test_a_position_and_its_offset_are_the_same_place(text, offset):
    offset = min(offset, len(text))
    assert offset_at(text, *engines(text, offset)) == offset


@given(
    texts,
    st.lists(
        st.tuples(st.integers(0, 30), st.text(alphabet="xy\n", min_size=1, max_size=4)), max_size=5
    ),
)
def test_every_character_of_the_source_is_found_again(source, insertions):
    ordered = sorted(
        ((min(at, len(source)), text) for at, text in insertions), key=lambda each: each[0]
    )
    positions = Positions(source)
    positions.insert(ordered)
    for offset in range(len(source)):
        moved = offset + sum(len(text) for at, text in ordered if at <= offset)
        assert positions.program[moved] == source[offset]
        assert positions.locate(*engines(positions.program, moved)) == position(source, offset)


@given(st.text(alphabet="aé😀", max_size=20))
def test_javascripts_units_are_counted_as_code_points(text):
    for n in range(len(text) + 1):
        units = len(text[:n].encode("utf-16-le")) // 2
        assert code_points(text, units) == n


def test_tokens_lead_back_to_typescript():
    source, compiled = "const a: number = 1;\nboom(a as any)", "const a = 1;\nboom(a);\n"
    positions = Positions(source)
    positions.compiled(compiled)
    assert not positions.aligned
    before = [
        ("const", 0),
        ("a", 6),
        (":", 7),
        ("number", 9),
        ("=", 16),
        ("1", 18),
        (";", 19),
        ("boom", 21),
        ("(", 25),
        ("a", 26),
    ]
    after = [
        ("const", 0),
        ("a", 6),
        ("=", 8),
        ("1", 10),
        (";", 11),
        ("boom", 13),
        ("(", 17),
        ("a", 18),
    ]
    positions.align(before, after)
    assert positions.locate(2, 1) == (2, 1)
    assert positions.locate(2, 6) == (2, 6)
    assert positions.locate(1, 11) == (1, 19)
