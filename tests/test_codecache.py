"""Kept code: found by its description, run again with other values, and never more than there is room for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy import settings
from mcpproxy.codecache import CodeCache, Kept
from mcpproxy.daemon import open_daemon
from mcpproxy.errors import Refused
from mcpproxy.policy import LOCAL


def program(n: int = 0, *, used: float = 0.0, **changes: object) -> Kept:
    given = {
        "source": f"return {n}",
        "language": "javascript",
        "description": f"number {n}",
        "input": {"a": 1},
        "tools": {},
        "ms": 1,
    }
    return Kept(**{**given, "used": used, **changes})


def test_what_was_kept_is_found_after_a_restart(tmp_path):
    cache = CodeCache(tmp_path / "state" / "c.sqlite3")
    cache_id = cache.keep(program(1, tools={"s:t": "f"}))
    cache.close()
    again = CodeCache(tmp_path / "state" / "c.sqlite3")
    found = again.find(cache_id)
    assert found is not None
    assert (found.source, found.input, found.tools) == ("return 1", {"a": 1}, {"s:t": "f"})
    again.close()


def test_line_ends_and_space_around_make_no_other_program():
    assert (
        program(source="a\nb").cache_id
        == program(source="\n a\r\nb \n".replace(" a", "a").replace("b ", "b")).cache_id
    )
    assert program(source="`a  `").cache_id != program(source="`a `").cache_id


def test_another_run_counts_and_takes_the_new_description(tmp_path):
    cache = CodeCache(tmp_path / "c.sqlite3")
    cache.keep(program())
    cache.keep(program(description="a better name"))
    (only,) = cache.listing()
    assert (only.runs, only.description) == (2, "a better name")
    assert cache.search("number") == []
    cache.close()


def test_it_is_found_by_words_of_its_description(tmp_path):
    cache = CodeCache(tmp_path / "c.sqlite3")
    cache.keep(program(1, description="Count open issues of a repository"))
    cache.keep(program(2, description="Weather in a city"))
    assert [each.source for each in cache.search("how many issues are open")] == ["return 1"]
    for hostile in ('"', "a OR", "NEAR(", "*", "\0", ""):
        cache.search(hostile)
    cache.close()


def test_removing(tmp_path):
    cache = CodeCache(tmp_path / "c.sqlite3")
    cache_id = cache.keep(program())
    assert (cache.remove(cache_id), cache.remove(cache_id), cache.find(cache_id)) == (
        True,
        False,
        None,
    )
    cache.close()


@given(st.lists(st.integers(0, 8), max_size=30))
def test_the_oldest_use_goes_first(uses):
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"cache-{os.getpid()}.sqlite3"
    path.unlink(missing_ok=True)
    cache = CodeCache(path, most=3)
    for moment, n in enumerate(uses):
        cache.keep(program(n, used=float(moment)))
    latest = list(dict.fromkeys(reversed(uses)))[:3]
    assert [each.source for each in cache.listing()] == [f"return {n}" for n in latest]
    cache.close()
    path.unlink(missing_ok=True)


@pytest.fixture
async def daemon(tmp_path):
    stub = Path(__file__).with_name("stub_server.py")
    server = {"name": "stub", "command": sys.executable, "args": ["-I", "-S", str(stub)]}
    (tmp_path / "c.json").write_text(json.dumps({"mcpServers": [server]}), encoding="utf-8")
    loaded = settings.load(tmp_path / "c.json", {"MCPPROXY_DATA_DIR": str(tmp_path / "state")})
    async with open_daemon(loaded, os.environ, lasting=False) as daemon:
        with anyio.fail_after(20):
            await daemon.fleet.known()
            yield daemon


CODE = "const r = await tools.stub.add({a: input.a, b: input.b}); return r.sum"


async def test_code_with_a_description_is_kept_and_runs_again_with_other_values(daemon):
    body = {"code": CODE, "input": {"a": 1, "b": 2}, "description": "Add two numbers"}
    first = await daemon.execute(body, LOCAL, request_id="1")
    cache_id = first.envelope["cache_id"]
    again = await daemon.run_cached(cache_id, {"b": 40}, LOCAL, request_id="2")
    assert (first.envelope["value"], again.envelope["value"]) == (3, 41)
    assert "warnings" not in again.envelope
    found = daemon.discovery.search_tools("add numbers")
    assert found["kept_code"] == [
        {"cache_id": cache_id, "description": "Add two numbers", "params": ["a", "b"]}
    ]


async def test_only_code_that_ran_well_and_was_described_is_kept(daemon):
    for body in ({"code": "1"}, {"code": "throw 1", "description": "fails"}):
        reply = await daemon.execute(body, LOCAL, request_id="1")
        assert "cache_id" not in reply.envelope
    assert daemon.code_cache.listing() == []


async def test_unknown_ids_and_params_say_what_is_known(daemon):
    reply = await daemon.execute(
        {"code": "input.a", "input": {"a": 1}, "description": "d"}, LOCAL, request_id="1"
    )
    with pytest.raises(Refused, match=r"params\.b is not known to this code; known are a"):
        await daemon.run_cached(reply.envelope["cache_id"], {"b": 1}, LOCAL, request_id="2")
    with pytest.raises(Refused, match="no code is kept"):
        await daemon.run_cached("nope", {}, LOCAL, request_id="3")


async def test_a_changed_tool_is_a_warning(daemon):
    kept = Kept(
        "1", "javascript", "d", {}, {"stub:add": "another fingerprint", "stub:gone": "x"}, 1
    )
    reply = await daemon.run_cached(daemon.code_cache.keep(kept), {}, LOCAL, request_id="1")
    assert reply.envelope["value"] == 1
    assert [
        "stub:add has changed" in reply.envelope["warnings"][0],
        "stub:gone is not there" in reply.envelope["warnings"][1],
    ] == [True, True]
