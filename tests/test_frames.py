"""Frames survive any way of being cut, and no bytes make the parent do more than refuse."""

from __future__ import annotations

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.bulk import values
from mcpproxy.execution import read_frame
from mcpproxy.sandbox.engine import Line
from mcpproxy.sandbox.frames import MAX_VALUES, BadFrame, Splitter, pack
from mcpproxy.script import Misbehaved


@given(st.lists(st.binary(max_size=50), max_size=10), st.lists(st.integers(1, 20), max_size=60))
def test_frames_come_out_as_they_went_in(texts, cuts):
    data = b"".join(map(pack, texts))
    splitter, found, at = Splitter(), [], 0
    for cut in [*cuts, len(data)]:
        found += splitter.feed(data[at : at + cut])
        at += cut
    assert found == texts


@given(st.lists(st.binary(max_size=9000), min_size=1, max_size=6), st.lists(st.integers(1, 6000)))
def test_a_vm_gets_each_answer_however_they_are_cut(texts, cuts):
    data = b"".join(map(pack, texts))
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        line, found = Line(near.fileno()), []
        for cut in [*cuts, len(data)]:
            far.sendall(data[:cut])
            data = data[cut:]
        for _ in texts:
            found.append(line.receive(0))
        assert found == texts and line.receive(0) is None


def test_a_frame_over_the_limit_is_refused_at_its_header():
    with pytest.raises(BadFrame, match="at most 10"):
        Splitter(limit=10).feed((11).to_bytes(4, "big"))


@pytest.mark.threat("S3", "S11")
@pytest.mark.parametrize("value", ["[]", "{}", '"a"', "0", '{"":[]}'])
def test_a_frame_of_too_many_values_is_not_read(value):
    frame = f'{{"t":"call","args":[{",".join([value] * (MAX_VALUES + 1))}]}}'.encode()
    with pytest.raises(Misbehaved, match="more values"):
        read_frame(frame)


def test_what_stands_in_a_text_is_no_value():
    text = json.dumps(['a,b,[{"\\' * MAX_VALUES, "é,", "\\"]).encode()
    assert values(text, MAX_VALUES) < 10
    assert read_frame(text)


@given(st.lists(st.binary(max_size=40), max_size=8))
@pytest.mark.threat("S11")
def test_any_bytes_are_frames_or_a_refusal(pieces):
    splitter = Splitter(limit=64)
    try:
        frames = [frame for piece in pieces for frame in splitter.feed(piece)]
    except BadFrame:
        return
    for frame in frames:
        try:
            read_frame(frame)
        except Misbehaved:
            pass


TEXT = st.text(st.characters(exclude_categories=[]), max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=9,
)


@given(JSON, st.booleans())
def test_a_frame_is_read_as_what_it_says(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")
    assert repr(read_frame(text)) == repr(json.loads(text))


def test_deeply_nested_json_is_misbehaviour_not_a_crash():
    with pytest.raises(Misbehaved):
        read_frame(b"[" * 100_000)
