"""Kept code: found by its description, run again with other values, and never more than there is room for."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from asgi import Client, http
from fakes import catalog
from hypothesis import given
from hypothesis import strategies as st
from running import STUBS, Home
from warm import share_compiled

from mcpproxy import settings
from mcpproxy.catalog import Catalog
from mcpproxy.codecache import CodeCache, Kept
from mcpproxy.daemon import open_daemon
from mcpproxy.errors import Refused
from mcpproxy.keptcode import KeptCode
from mcpproxy.policy import LOCAL, Caller
from mcpproxy.rest.api import open_api


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
    (found,) = again.find(cache_id, "")
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
    (only,) = cache.listing(None)
    assert (only.runs, only.description) == (2, "a better name")
    assert cache.search("number", None) == []
    cache.close()


def test_it_is_found_by_words_of_its_description(tmp_path):
    cache = CodeCache(tmp_path / "c.sqlite3")
    cache.keep(program(1, description="Count open issues of a repository"))
    cache.keep(program(2, description="Weather in a city"))
    assert [each.source for each in cache.search("how many issues are open", None)] == ["return 1"]
    for hostile in ('"', "a OR", "NEAR(", "*", "\0", ""):
        cache.search(hostile, None)
    cache.close()


def test_removing(tmp_path):
    cache = CodeCache(tmp_path / "c.sqlite3")
    cache_id = cache.keep(program())
    assert (cache.remove(cache_id, ""), cache.remove(cache_id, "")) == (True, False)
    assert cache.find(cache_id, None) == cache.search("number", None) == []
    cache.close()


@given(st.lists(st.integers(0, 8), max_size=30))
def test_the_oldest_use_goes_first(uses):
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"cache-{os.getpid()}.sqlite3"
    path.unlink(missing_ok=True)
    cache = CodeCache(path, most=3)
    for moment, n in enumerate(uses):
        cache.keep(program(n, used=float(moment)))
    latest = list(dict.fromkeys(reversed(uses)))[:3]
    assert [each.source for each in cache.listing(None)] == [f"return {n}" for n in latest]
    cache.close()
    path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
async def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    config = {"mcpServers": STUBS, "code_execution_pool_size": 2}
    (folder / "c.json").write_text(json.dumps(config), encoding="utf-8")
    share_compiled(folder / "state")
    loaded = settings.load(folder / "c.json", {"MCPPROXY_DATA_DIR": str(folder / "state")})
    async with open_daemon(loaded, os.environ, lasting=False) as daemon:
        with anyio.fail_after(20):
            await daemon.fleet.known()
        yield daemon


@pytest.fixture
def daemon(running, tmp_path, monkeypatch):
    """The one of all tests, with a file of its own for each."""
    cache = CodeCache(tmp_path / "state" / "c.sqlite3")
    monkeypatch.setattr(running.kept_code, "cache", cache)
    yield running
    cache.close()


CODE = "const r = await tools.stub.add({a: input.a, b: input.b}); return r.sum"


async def test_code_with_a_description_is_kept_and_runs_again_with_other_values(daemon):
    body = {"code": CODE, "input": {"a": 1, "b": 2}, "description": "Add two numbers"}
    first = await daemon.execute(body, LOCAL, request_id="1")
    cache_id = first.envelope["cache_id"]
    again = await daemon.run_cached(cache_id, {"b": 40}, LOCAL, request_id="2")
    assert (first.envelope["value"], again.envelope["value"]) == (3, 41)
    assert "warnings" not in again.envelope
    found = daemon.discovery.search_tools("add numbers")
    description = "Add two numbers"
    assert found["kept_code"] == [
        {"kind": "code", "cache_id": cache_id, "description": description, "params": ["a", "b"]}
    ]


async def test_kept_code_runs_within_the_limits_that_it_is_given(daemon, monkeypatch):
    body = {"code": CODE, "input": {"a": 1, "b": 2}, "description": "Add two numbers"}
    cache_id = (await daemon.execute(body, LOCAL, request_id="1")).envelope["cache_id"]
    ceilings = daemon.settings.code_execution_limits.model_copy(update={"max_timeout_ms": 9000})
    lowered = daemon.settings.model_copy(update={"code_execution_limits": ceilings})
    monkeypatch.setattr(daemon, "settings", lowered)

    async def again(**options):
        reply = await daemon.run_cached(cache_id, {}, LOCAL, options=options, request_id="2")
        return reply.envelope

    assert "SERVER_NOT_ALLOWED" in (await again(allowed_servers=["other"]))["error"]["message"]
    assert "9000 was used" in (await again(timeout_ms=10_000))["warnings"][0]
    with pytest.raises(Refused, match="unknown field 'timeout'"):
        await again(timeout=1)


async def test_nothing_is_looked_for_while_code_execution_is_off(daemon, monkeypatch):
    off = daemon.settings.model_copy(update={"enable_code_execution": False})
    monkeypatch.setattr(daemon, "settings", off)
    with pytest.raises(Refused, match="switched off"):
        await daemon.run_cached("nothing-like-it", {}, LOCAL, request_id="1")


async def test_only_code_that_ran_well_and_was_described_is_kept(daemon):
    for body in ({"code": "1"}, {"code": "throw 1", "description": "fails"}):
        reply = await daemon.execute(body, LOCAL, request_id="1")
        assert "cache_id" not in reply.envelope
    assert daemon.kept_code.listing(LOCAL) == []


async def test_code_that_can_not_be_kept_ran_all_the_same(daemon):
    daemon.kept_code.cache.path.mkdir(parents=True)
    reply = await daemon.execute({"code": "1", "description": "d"}, LOCAL, request_id="1")
    assert (reply.ok, "cache_id" in reply.envelope) == (True, False)
    assert "the code was not kept" in reply.envelope["warnings"][0]
    assert "kept_code" not in daemon.discovery.search_tools("d")


async def test_a_large_input_is_not_kept(daemon):
    body = {"code": "1", "description": "d", "input": {"rows": "x" * 70_000}}
    reply = await daemon.execute(body, LOCAL, request_id="1")
    assert reply.ok and "have it get its data from a tool" in reply.envelope["warnings"][0]


async def test_a_run_counts_for_whoever_keeps_the_program(daemon):
    cache_id = daemon.kept_code.keep(program(source="input.a", owner="bob"))
    reply = await daemon.run_cached(cache_id, {"a": 2}, LOCAL, request_id="1")
    assert reply.envelope["value"] == 2
    (only,) = daemon.kept_code.listing(LOCAL)
    assert (only.owner, only.runs, only.input) == ("bob", 2, {"a": 1})
    assert stat.S_IMODE(daemon.kept_code.cache.path.stat().st_mode) == 0o600


async def test_unknown_ids_and_params_say_what_is_known(daemon):
    reply = await daemon.execute(
        {"code": "input.a", "input": {"a": 1}, "description": "d"}, LOCAL, request_id="1"
    )
    with pytest.raises(Refused, match=r"params\.b is not known to this code; known are a"):
        await daemon.run_cached(reply.envelope["cache_id"], {"b": 1}, LOCAL, request_id="2")
    with pytest.raises(Refused, match="no code is kept"):
        await daemon.run_cached("nope", {}, LOCAL, request_id="3")


async def test_a_changed_tool_is_a_warning(daemon):
    kept = program(tools={"stub:add": "another hash", "stub:gone": "x"}, source="1")
    cache_id = daemon.kept_code.keep(kept)
    reply = await daemon.run_cached(cache_id[:8], {}, LOCAL, request_id="1")
    assert reply.envelope["value"] == 1
    assert [
        "stub:add has changed" in reply.envelope["warnings"][0],
        "stub:gone is not there" in reply.envelope["warnings"][1],
    ] == [True, True]


# ── whose it is ─────────────────────────────────────────────────────────────────────────────────

BOB, EVE = Caller("bob", "token"), Caller("eve", "token")
SECRET = program(1, description="list issues", tools={"github:list_issues": "h"})


class Seen:
    """Kept code over a catalog of which each caller sees what a test says."""

    def __init__(self, path: Path) -> None:
        self.whole = catalog(github=["list_issues"], demo=["echo"])
        self.seen: dict[str, Catalog] = {}
        self.kept = KeptCode(
            CodeCache(path),
            lambda: self.whole,
            lambda caller: self.seen.get(caller.name, self.whole),
        )

    def sees(self, caller: Caller) -> tuple[int, int]:
        return len(self.kept.listing(caller)), len(self.kept.search("issues", caller))


@pytest.fixture
def seen(tmp_path):
    found = Seen(tmp_path / "c.sqlite3")
    yield found
    found.kept.cache.close()


def test_code_that_no_file_can_hold_is_not_kept_and_that_is_said(seen):
    with pytest.raises(Refused, match="surrogate"):
        seen.kept.keep(replace(SECRET, source="'\ud800'"))
    assert len(seen.kept.keep(replace(SECRET, input={"\ud800": "\ud800"}))) == 64


@pytest.mark.threat("L8")
def test_code_is_its_owners_and_administrators_see_all(seen):
    cache_id = seen.kept.keep(replace(SECRET, owner="bob"))
    assert (seen.sees(BOB), seen.sees(LOCAL), seen.sees(EVE)) == ((1, 1), (1, 1), (0, 0))
    for verb in (seen.kept.find, seen.kept.remove):
        with pytest.raises(Refused) as refused:
            verb(cache_id, EVE)
        with pytest.raises(Refused) as unknown:
            verb("0" * 64, EVE)
        assert str(refused.value).replace(cache_id, "0" * 64) == str(unknown.value)
    seen.kept.keep(replace(SECRET, input={"a": "eve's"}, owner="eve"))
    assert (seen.kept.find(cache_id, BOB).input, seen.sees(LOCAL)) == ({"a": 1}, (2, 2))
    seen.kept.keep(replace(SECRET, input={"a": "ours"}, owner=""))
    assert seen.kept.find(cache_id, LOCAL).input == {"a": "ours"}
    assert seen.kept.remove(cache_id, LOCAL).owner == ""
    assert seen.kept.remove(cache_id, EVE).owner == "eve"
    assert (seen.sees(BOB), seen.sees(EVE)) == ((1, 1), (0, 0))


@pytest.mark.threat("L8")
def test_code_that_calls_what_its_owner_may_no_longer_see_is_not_there(seen):
    cache_id = seen.kept.keep(replace(SECRET, owner="bob"))
    seen.seen["bob"] = catalog(demo=["echo"])
    assert seen.sees(BOB) == (0, 0)
    with pytest.raises(Refused, match="no code is kept"):
        seen.kept.find(cache_id, BOB)
    # A tool that is gone for everyone is no secret: the code runs, with a warning.
    seen.whole = catalog(demo=["echo"])
    assert seen.sees(BOB) == (1, 1)
    assert seen.kept.changed(SECRET, BOB) == ["github:list_issues is not there now"]


@pytest.mark.threat("L8")
def test_a_new_token_of_an_old_name_finds_nothing_of_the_one_before(seen):
    cache_id = seen.kept.keep(replace(SECRET, owner="bob", kept=100.0))
    later = replace(BOB, since=200.0)
    assert seen.kept.find(cache_id, BOB) and not seen.kept.listing(later)
    with pytest.raises(Refused, match="no code is kept"):
        seen.kept.find(cache_id, later)
    assert not seen.kept.search(SECRET.description, later)
    seen.kept.keep(replace(SECRET, owner="bob", kept=300.0, input={"a": "his own"}))
    assert seen.kept.find(cache_id, later).input == {"a": "his own"}


def test_one_owners_code_does_not_push_out_anothers(tmp_path):
    cache = CodeCache(tmp_path / "c.sqlite3", most=2)
    for n in range(4):
        cache.keep(program(n, owner="bob", used=9.0 + n))
    cache.keep(program(9, owner="eve", used=1.0))
    assert [each.source for each in cache.listing(None)] == ["return 3", "return 2", "return 9"]
    cache.close()


def test_a_change_of_words_alone_is_no_warning(seen):
    tool = seen.whole.tool("demo", "echo")
    kept = program(tools={"demo:echo": tool.schemas})
    seen.whole = catalog(demo=[{**tool.definition, "description": "Says it again"}])
    assert seen.kept.changed(kept, LOCAL) == []
    schema = {"type": "object", "properties": {"a": {}}}
    seen.whole = catalog(demo=[{**tool.definition, "inputSchema": schema}])
    assert "demo:echo has changed" in seen.kept.changed(kept, LOCAL)[0]


def test_the_start_of_an_id_is_enough_where_it_fits_one(seen):
    cache_id = seen.kept.keep(program(1, owner="bob"))
    assert seen.kept.find(cache_id[:8], BOB).cache_id == cache_id
    for part in (cache_id[:7], "", "*" * 8, "%" * 8, cache_id + "0"):
        with pytest.raises(Refused, match="no code is kept"):
            seen.kept.find(part, BOB)


class Twins(CodeCache):
    """Two programs whose ids begin alike."""

    def find(self, start, owner, most=2):
        return [program(1), program(2)]


def test_the_start_of_two_ids_is_too_little(tmp_path, seen):
    seen.kept.cache = Twins(tmp_path / "none")
    with pytest.raises(Refused, match="give more of it"):
        seen.kept.find("12345678", BOB)


# ── the command line and REST ───────────────────────────────────────────────────────────────────


@pytest.fixture
def place(tmp_path):
    return Home(tmp_path)


def test_the_commands_work_on_the_file_when_no_daemon_runs(place):
    cache = CodeCache(place.places.code_cache)
    source = "return input.name"
    cache_id = cache.keep(program(source=source, input={"name": "x"}, description="Say a name"))
    cache.close()

    def run(*words):
        done = place.invoke("code", "cache", *words)
        assert "using the file itself" in done.stderr
        return done

    assert run("list").stdout.splitlines()[1].split()[:2] == [cache_id[:12], "1"]
    assert json.loads(run("list", "--output=json").stdout)[0]["params"] == ["name"]
    assert run("show", cache_id[:8]).stdout.endswith(f"source:\n{source}\n")
    saved = place.folder / "scripts" / "say.js"
    assert f"saved as {saved}" in run("save", cache_id[:8], "say").stdout
    assert saved.read_text(encoding="utf-8") == source
    again = run("save", cache_id[:8], "say")
    assert (again.exit_code, "--replace" in again.stderr) == (2, True)
    assert run("save", cache_id[:8], "say", "--replace").exit_code == 0
    assert run("save", cache_id[:8], "../say").exit_code == 2
    assert f"removed {cache_id[:12]}" in run("remove", cache_id).stdout
    gone = run("show", cache_id)
    assert (gone.exit_code, "no code is kept" in gone.stderr) == (2, True)


async def test_rest_lists_shows_and_removes(daemon):
    api = open_api(daemon)

    async def asked(verb, path, caller=LOCAL):
        scope = http(verb, path) | {"state": {"caller": caller, "request_id": "r"}}
        client = Client()
        await api(scope, client.receive, client.send)
        return client.answer

    reply = await daemon.execute({"code": "1", "description": "one"}, LOCAL, request_id="1")
    cache_id = reply.envelope["cache_id"]
    at = f"/api/v1/code/cache/{cache_id[:10]}"
    (listed,) = (await asked("GET", "/api/v1/code/cache")).body["data"]["code"]
    assert (listed["cache_id"], listed["runs"], "source" in listed) == (cache_id, 1, False)
    assert (await asked("GET", at)).body["data"]["source"] == "1"
    assert (await asked("GET", "/api/v1/code/cache", BOB)).body["data"] == {"code": []}
    assert [(await asked(verb, at, BOB)).status for verb in ("GET", "DELETE")] == [404, 404]
    assert (await asked("DELETE", at)).body["data"] == {"cache_id": cache_id, "removed": True}
    assert (await asked("DELETE", at)).status == 404
