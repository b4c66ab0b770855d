"""A result that is cut: what is given is exact, the rest can be read on, and nobody else can."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import blocks, page

from mcpproxy.paging import KEPT_SECONDS, Cut, NoPage, Pages

IMAGE = {"type": "image", "data": "aGk=" * 100, "mimeType": "image/png"}


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def said(result) -> str:
    return "\n".join(block["text"] for block in result["content"] if "text" in block)


def rest(pages, cut, limit):
    """The parts that follow."""
    parts = []
    while cut.cursor is not None:
        part, cut = pages.next(cut.cursor, limit, "bob")
        parts.append(part)
    return parts


@given(st.lists(st.text(max_size=12), max_size=5), st.integers(1, 9))
def test_the_parts_together_are_the_whole(texts, limit):
    pages = Pages()
    result, cut = pages.first({"content": [text(each) for each in texts]}, limit, "bob")
    whole = "\n".join(texts)
    if cut is None:
        assert len(whole) <= limit and said(result) == whole
        return
    assert (cut.start, cut.end, cut.characters) == (0, limit, len(whole))
    parts = rest(pages, cut, limit)
    assert whole[:limit] + "".join(parts) == whole
    # A block that would begin after the cut isn't there, so a line end before it may not be, either.
    assert whole[:limit] in (said(result), said(result) + "\n")
    assert all(0 < len(part) <= limit for part in parts)


def test_a_model_is_told_what_the_page_shows():
    (shown,) = blocks(page("docs/discovery.md"), "text")
    shown = shown.replace("…", "-rest-of-it").rstrip("\n")
    assert Cut(0, 20_000, 61_234, "zX0vQ1-rest-of-it.20000").told("read_result") == shown


def test_no_limit_cuts_nothing():
    result = {"content": [text("x" * 10**6)]}
    assert Pages().first(result, 0, "bob") == (result, None)


def test_images_pass_whole_and_resources_are_cut_inside():
    resource = {"type": "resource", "resource": {"uri": "x:y", "text": "abcdef"}}
    result, cut = Pages().first({"content": [IMAGE, resource, text("more"), IMAGE]}, 3, "bob")
    inside = {"uri": "x:y", "text": "abc"}
    assert result["content"] == [IMAGE, {"type": "resource", "resource": inside}, IMAGE]
    assert cut.characters == len("abcdef\nmore")


ROWS = {"rows": list(range(50))}


@pytest.mark.parametrize(
    ("content", "structured", "whole"),
    [
        pytest.param([text(json.dumps(ROWS, indent=1))], ROWS, json.dumps(ROWS, indent=1), id="said"),
        pytest.param([text("x" * 99)], {"result": "x" * 99}, "x" * 99, id="wrapped text"),
        pytest.param([text(json.dumps([1] * 40))], {"result": [1] * 40}, json.dumps([1] * 40), id="wrapped"),
        pytest.param([], ROWS, json.dumps(ROWS, separators=(",", ":")), id="nothing but data"),
        pytest.param(
            [text("50 rows")], ROWS, "50 rows\n" + json.dumps(ROWS, separators=(",", ":")), id="not said"
        ),
    ],
)  # fmt: skip
def test_half_of_structured_content_is_never_given(content, structured, whole):
    pages = Pages()
    result, cut = pages.first({"content": content, "structuredContent": structured}, 20, "bob")
    assert "structuredContent" not in result
    assert said(result)[:20] == whole[:20]
    assert whole[:20] + "".join(rest(pages, cut, 20)) == whole


def test_data_that_fits_stays():
    result = {"content": [text("7 rows")], "structuredContent": {"rows": 7}, "isError": False}
    assert Pages().first(result, 100, "bob") == (result, None)
    twice = {"content": [text(json.dumps(ROWS))], "structuredContent": ROWS}
    assert Pages().first(twice, len(json.dumps(ROWS)), "bob") == (twice, None)


@pytest.mark.threat("L8")
def test_a_rest_is_for_its_caller_and_for_a_while():
    now = [0.0]
    pages = Pages(lambda: now[0])
    _, cut = pages.first({"content": [text("abcdef")]}, 2, "bob")
    for cursor, caller in (
        (cut.cursor, "eve"),
        ("x.2", "bob"),
        ("", "bob"),
        (cut.cursor + "x", "bob"),
    ):
        with pytest.raises(NoPage, match="nothing to read on"):
            pages.next(cursor, 2, caller)
    now[0] = KEPT_SECONDS - 1
    part, cut = pages.next(cut.cursor, 2, "bob")
    assert (part, cut.start, cut.end) == ("cd", 2, 4)
    now[0] = 2 * KEPT_SECONDS - 2  # reading on keeps it
    assert pages.next(cut.cursor, 2, "bob")[0] == "ef"
    now[0] = 3 * KEPT_SECONDS
    with pytest.raises(NoPage):
        pages.next(cut.cursor, 2, "bob")


@pytest.mark.threat("L8")
def test_memory_is_bounded_for_each_and_for_all():
    pages = Pages(most=40_000, most_each=10_000)

    def keep(caller, size):
        return pages.first({"content": [text("x" * size)]}, 10, caller)[1]

    first, second, third = (keep("bob", 4_000) for _ in range(3))
    with pytest.raises(NoPage):
        pages.next(first.cursor, 10, "bob")
    assert pages.next(second.cursor, 10, "bob")[0] == pages.next(third.cursor, 10, "bob")[0]
    for n in range(10):
        keep(f"other {n}", 9_000)
    assert sum(kept.size for kept in pages._kept.values()) <= 40_000
    with pytest.raises(NoPage):
        pages.next(third.cursor, 10, "bob")


def test_what_is_too_large_to_keep_is_counted():
    pages = Pages(most_each=5_000)
    _, cut = pages.first({"content": [text("x" * 20_000)]}, 1_000, "bob")
    assert cut.characters == 20_000 and cut.lost > 15_000
    while cut.cursor is not None:
        _, cut = pages.next(cut.cursor, 1_000, "bob")
    assert cut.end + cut.lost == 20_000
    assert f"the last {cut.lost:,} were too many to keep" in cut.told("read_result")
    assert cut.shown()["not_kept"] == cut.lost
