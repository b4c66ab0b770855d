"""What is recorded, that it outlives a kill, how much of it is kept, and what happens when it can't be written."""

from __future__ import annotations

import json
import logging
import os
import resource
import sqlite3
from contextlib import ExitStack, closing, contextmanager

import anyio
import pytest
from fakes import catalog
from hypothesis import given, settings
from hypothesis import strategies as st
from upstreams import until

from mcpproxy.errors import CallError
from mcpproxy.journal import pending, writer
from mcpproxy.journal.changes import changes
from mcpproxy.journal.pending import Pending, left_behind, read_lines
from mcpproxy.journal.reading import Wanted, page, pages, read, take_in
from mcpproxy.journal.records import Numbers, Record, json_text, number, spelled
from mcpproxy.journal.store import Retention, Store
from mcpproxy.journal.trail import REFUSALS, Door, Trail, direct_call
from mcpproxy.journal.writer import Journal, line, open_journal
from mcpproxy.redaction import SECRETS

KEEP = Retention(days=90, records=100_000, megabytes=256)


def a_line(seq, **members):
    """A record as the journal writes it."""
    record = Record(
        **{
            "seq": seq,
            "id": seq,
            "parent": None,
            "at": seq >> 20,
            "type": "system",
            "status": "ok",
            **members,
        }
    )
    return line(record.row())


def filled(directory, count, **members):
    """A store with records of which each is a second later than the one before."""
    store = Store(directory)
    store.insert([b"".join(a_line((n * 1000) << 20, **members) for n in range(1, count + 1))])
    return store


def kept(directory, **wanted):
    with closing(read(directory)) as database:
        return [each for found in pages(database, Wanted(**wanted)) for each in found]


@contextmanager
def most_bytes_of_a_file(count):
    """No file of this process may grow beyond that: what a full disk does to a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# ── what a script leaves ────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def journal(tmp_path):
    async with open_journal(tmp_path, KEEP, 100, on=True, lasting=True) as found:
        yield found


async def found_in(journal, **wanted):
    await journal.flush()
    return kept(journal.directory, **wanted)


async def test_of_calls_that_policy_turned_away_the_first_are_recorded_and_the_rest_counted(
    journal,
):
    trail = Trail(journal, "me", "request-1")
    for _ in range(REFUSALS + 5):
        trail.refused("stub", "erase", {"all": True}, "SERVER_NOT_ALLOWED")
    trail.ended({"source": "x", "input": {}}, None, 0)
    records = await found_in(journal, parent=trail.id)
    assert len(records) == REFUSALS
    assert {(each["status"], each["code"]) for each in records} == {
        ("blocked", "SERVER_NOT_ALLOWED")
    }
    (execution,) = await found_in(journal, type="execution")
    assert execution["code"] == "CANCELLED"
    assert execution["detail"]["calls"] == REFUSALS + 5
    assert execution["detail"]["calls_not_recorded"] == 5


async def test_a_direct_call_is_recorded_however_it_ends(journal):
    with direct_call(journal, "stub", "echo", {"a": 1}, "me") as call:
        call.timing.now()
        call.result = {"content": [{"type": "text", "text": "x" * 500}]}
    with pytest.raises(CallError), direct_call(journal, "stub", "echo", {}, "me"):
        raise CallError("queue_full", "no room")
    with anyio.CancelScope() as scope, direct_call(journal, "stub", "echo", {}, "me") as call:
        call.timing.now()
        scope.cancel()
        await anyio.sleep_forever()
    fine, refused, cancelled = await found_in(journal, type="tool_call")
    assert fine["status"] == "ok" and fine["seen"] == 504 and fine["detail"]["result_cut"]
    assert (refused["status"], refused["code"]) == ("rejected", "queue_full")
    assert cancelled["status"] == "unknown"
    assert "parent" not in fine


@pytest.mark.threat("J2")
async def test_who_is_turned_away_at_the_door_can_not_push_out_the_record_of_others(journal):
    now = 0.0
    door = Door(journal, lambda: now)
    for _ in range(500):
        door("UNAUTHORIZED", "the key is wrong", "192.0.2.1", "/mcp")
    now = 61.0
    door("UNAUTHORIZED", "the key is wrong", "192.0.2.1", "/mcp")
    records = await found_in(journal, type="refusal")
    assert len(records) == Door.MOST + 1
    assert records[-1]["detail"]["others_before"] == 500 - Door.MOST
    assert records[-1]["caller"] == "nobody"


@pytest.mark.threat("L3")
async def test_a_secret_is_nowhere_in_the_journal_not_even_half_of_it(journal, tmp_path):
    secret = "a-fake-secret-of-the-tests"
    SECRETS.add(secret, "${env:FAKE}")
    try:
        for before in ("", "x" * (journal.most - 20)):  # so that the cut goes through it
            with direct_call(journal, "stub", secret, {"a": before + secret}, "me") as call:
                call.result = {"content": [{"type": "text", "text": f"{before}{secret}"}]}
        journal.refused("INVALID_REQUEST", f"no {secret}")
        trail = Trail(journal, "me", "request-1")
        asked = {"source": f"'{secret}'", "input": {"k": secret}, "description": secret}
        trail.ended(asked, None, 0)
    finally:
        SECRETS.forget(secret)
    waiting = (tmp_path / "activity.0.a").read_bytes() + (tmp_path / "activity.0.b").read_bytes()
    records = await found_in(journal)
    assert "${env:FAKE}" in records[0]["detail"]["arguments"]["a"]
    assert "a-fake" not in waiting.decode() + json.dumps(records)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    ),
    st.integers(0, 40),
)
@settings(max_examples=30)
def test_any_value_is_shown_whole_or_cut(value, most):
    shown, whole = json_text(value, most)
    assert len(shown) <= most
    if whole:
        assert json.loads(shown) == value


def test_changes_of_servers_are_told_once():
    tool = {"name": "b", "inputSchema": {"type": "object"}}
    before = catalog(old=["x"], same=["a", "b"])
    after = catalog(2, same=[{**tool, "description": "another"}, "c"], new=["x"])
    assert list(changes(after, after)) == []
    found = {(each["type"], each["server"]): each for each in changes(before, after)}
    assert found["server_state", "old"]["detail"]["state"] == "removed"
    assert found["server_state", "new"]["detail"] == {"state": "ready", "before": None, "tools": 1}
    detail = found["catalog_change", "same"]["detail"]
    assert (detail["added"], detail["removed"], detail["changed"]) == (["c"], ["a"], ["b"])
    assert len(found) == 3


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def test_a_line_cut_short_by_a_kill_costs_itself_alone(tmp_path, caplog):
    first = Pending(tmp_path)
    first.add(a_line(1 << 20))
    first.add(a_line(2 << 20)[:-20])
    first.close()
    second = Pending(tmp_path)
    assert second.slot == 0
    second.add(a_line(3 << 20))
    second.close()
    with closing(Store(tmp_path)) as store, left_behind(tmp_path) as files:
        for file in files:
            store.insert(read_lines(file))
        assert store.count() == 2
    assert "1 broken record(s)" in caplog.text


def test_lines_that_are_no_records_cost_themselves_alone(tmp_path, caplog):
    good, plain = a_line(1 << 20), a_line(2 << 20)
    odd = [
        plain.replace(b"{}", b'{"a":NaN}'),
        plain.replace(b"{}", b"[" * 5000 + b"]" * 5000),
        plain.replace(b"%d" % (2 << 20), b"9" * 30),
        plain.replace(b"{}", b'"\xff"'),
    ]
    assert all(each != plain for each in odd)
    with closing(Store(tmp_path)) as store:
        store.insert([good, *odd, b"".join(odd) + a_line(3 << 20)])
        assert store.count() == 2
    assert caplog.text.count("1 broken record(s)") == 4 and "4 broken record(s)" in caplog.text


async def test_who_is_late_writes_to_no_file_of_somebody_else(tmp_path):
    async with open_journal(tmp_path, KEEP, 100, on=True, lasting=False) as journal:
        journal.record("system", "ok")
    files = [tmp_path / name for name in "abcd"]
    with ExitStack() as stack:
        for path in files:  # they get the numbers that the journal's had
            stack.enter_context(path.open("wb"))
        journal.record("system", "ok")
    assert [path.read_bytes() for path in files] == [b""] * 4


@pytest.mark.parametrize("keep", [Retention(1e300, 10**30, 10**30), Retention(float("inf"), 1, 1)])
def test_however_much_is_kept_it_can_be_reckoned(tmp_path, keep):
    with closing(filled(tmp_path, 2)) as store:
        assert trimmed(store, keep, 10**12) == min(2, keep.records)


def test_two_writers_have_two_slots_and_nobody_takes_from_the_living(tmp_path):
    first, second = Pending(tmp_path), Pending(tmp_path)
    assert (first.slot, second.slot) == (0, 1)
    second.add(a_line(5 << 20))
    take_in(tmp_path)
    assert not (tmp_path / "activity.sqlite3").exists()
    second.close()
    take_in(tmp_path)
    take_in(tmp_path)
    assert [each["id"] for each in kept(tmp_path)] == [spelled(5 << 20)]
    first.close()


def test_numbers_grow_whatever_the_clock_does():
    numbers = Numbers(3)
    given_out = [numbers.next(now) for now in (1000, 1000, 999, 1, 1001)]
    assert given_out == sorted(set(given_out))
    assert number(spelled(given_out[0])) == given_out[0]


def test_two_that_write_in_the_same_millisecond_lose_no_record(tmp_path, monkeypatch):
    monkeypatch.setattr(writer.time, "time_ns", lambda: 10**18)
    journals = [Journal(tmp_path, KEEP, 100, on=True) for _ in range(2)]
    for each in journals:
        each.open()
        each.record("system", "ok")
    for each in journals:
        each.close()
    take_in(tmp_path)
    assert len(kept(tmp_path)) == 2


async def test_one_that_runs_a_single_script_leaves_its_records_to_the_next(tmp_path):
    async with open_journal(tmp_path, KEEP, 100, on=True, lasting=False) as journal:
        journal.record("system", "ok")
    assert not (tmp_path / "activity.sqlite3").exists()
    async with open_journal(tmp_path, KEEP, 100, on=True, lasting=True) as journal:
        with anyio.fail_after(20):
            await journal.flush()
            await until(lambda: (tmp_path / "activity.sqlite3").exists())
    assert len(kept(tmp_path)) == 1


async def test_switched_off_it_writes_nothing(tmp_path):
    async with open_journal(tmp_path / "state", KEEP, 100, on=False, lasting=True) as journal:
        journal.record("system", "ok")
        await journal.flush()
        assert journal.status() == {"on": False}
    assert not (tmp_path / "state").exists()


# ── when it can't be written ────────────────────────────────────────────────────────────────────


@pytest.mark.threat("J2")
async def test_a_full_disk_turns_it_off_loudly_and_it_comes_back(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    async with open_journal(tmp_path, KEEP, 100, on=True, lasting=True) as journal:
        journal.record("system", "ok", code="BEFORE")
        await journal.flush()
        with most_bytes_of_a_file(1000):
            for _ in range(20):
                journal.record("system", "ok")
            status = journal.status()
            assert not status["on"] and status["not_written"] > 10
            assert "OFF" in journal.warnings()[0] and "OFF" in caplog.text
        with anyio.fail_after(20):
            await until(lambda: journal.error is None)
        journal.record("system", "ok", code="AFTER")
    assert "is on again" in caplog.text
    records = kept(tmp_path)
    assert [each["code"] for each in records if "code" in each] == [
        "BEFORE",
        "JOURNAL_GAP",
        "AFTER",
    ]
    (gap,) = (each for each in records if each.get("code") == "JOURNAL_GAP")
    written = len(records) - 3
    assert gap["detail"]["not_written"] == 20 - written


@pytest.mark.threat("J2")
async def test_a_broken_database_turns_it_off_and_what_was_written_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)
    file = tmp_path / "activity.sqlite3"
    file.write_bytes(b"no database " * 1000)
    async with open_journal(tmp_path, KEEP, 100, on=True, lasting=True) as journal:
        journal.record("system", "ok", code="WAITS")
        await journal.flush()
        assert "not a database" in journal.status()["error"]
        journal.record("system", "ok", code="LOST")
        file.rename(tmp_path / "activity.broken")
        with anyio.fail_after(20):
            await until(lambda: journal.error is None)
    assert [each["code"] for each in kept(tmp_path)] == ["WAITS", "JOURNAL_GAP"]


def test_a_database_of_another_version_is_left_alone(tmp_path):
    Store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "activity.sqlite3")) as database:
        database.execute("PRAGMA user_version = 9")
    with pytest.raises(sqlite3.DatabaseError, match="move it away"):
        Store(tmp_path)


# ── what is kept ────────────────────────────────────────────────────────────────────────────────


def trimmed(store, keep, now_ms):
    while not store.trim(keep, now_ms):
        pass
    return store.count()


def test_the_oldest_go_first_by_age_by_number_and_by_size(tmp_path):
    with closing(filled(tmp_path, 6000, detail={"text": "x" * 300})) as store:
        now, size = 6000 * 1000, store.used() / 2**20
        assert trimmed(store, Retention(1, 10_000, 100), now) == 6000
        assert trimmed(store, Retention(5000.5 / 86_400, 10_000, 100), now) == 5001
        assert trimmed(store, Retention(1, 4500, 100), now) == 4500
        assert trimmed(store, Retention(1, 4500, size / 2), now) == 2500
        assert store.used() < size / 2 * 2**20
        newest = page(store._database, Wanted(), limit=1).records[0]
    assert newest["time"] == "1970-01-01T01:40:00.000Z"
    assert (tmp_path / "activity.sqlite3").stat().st_size < size / 2 * 2**20 * 1.1


def test_the_files_are_this_user_s_alone(tmp_path):
    pending, store = Pending(tmp_path / "state"), filled(tmp_path / "state", 1)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    store.close()
    pending.close()
    assert set(modes.values()) == {0o600} and len(modes) == 5


def test_a_slot_that_can_not_be_taken_holds_no_descriptor(tmp_path, monkeypatch):
    def full(file):
        raise OSError("the disk is full")

    monkeypatch.setattr(pending, "end_last_line", full)
    os.close(free := os.dup(0))
    with pytest.raises(OSError, match="disk is full"):
        Pending(tmp_path)
    (tmp_path / "activity.0.a").write_bytes(b"1")
    with pytest.raises(OSError, match="disk is full"), left_behind(tmp_path):
        pass
    os.close(now := os.dup(0))
    assert now == free
