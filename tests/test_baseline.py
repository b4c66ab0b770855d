"""What was approved, across changes of tools, entries and the daemon itself."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from contextlib import asynccontextmanager, closing
from operator import attrgetter
from types import SimpleNamespace

import anyio
import anyio.from_thread
import pytest
from packs import put, shell
from upstreams import refused, stub, until, wanted

from mcpproxy import baseline, database, decisions
from mcpproxy.baseline import open_baseline
from mcpproxy.catalog import Server, Tool
from mcpproxy.database import Database, mend
from mcpproxy.errors import Refused, SettingsError
from mcpproxy.inspection import tool_report
from mcpproxy.paths import ALLOW
from mcpproxy.settings import ServerSettings
from mcpproxy.upstream import call as call_module
from mcpproxy.upstream import fleet as fleet_module
from mcpproxy.upstream.fleet import open_fleet


class Kept:
    """A state directory, and fleets that come and go over it."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "state" / "approvals.sqlite3"

    @asynccontextmanager
    async def fleet(self, *servers, **settings):
        environ = {"PATH": os.environ["PATH"]}
        async with (
            open_baseline(self.file) as self.baseline,
            open_fleet(
                wanted(*servers, **settings), environ, self.folder / "logs", baseline=self.baseline
            ) as fleet,
        ):
            with anyio.fail_after(20):
                await fleet.settled()
            yield fleet


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


def tools(fleet, name="stub"):
    return fleet.catalog.servers[name].tools


def held(fleet, name="stub"):
    return {tool: one.why for tool, one in fleet.catalog.servers[name].held.items()}


def accept(kept, fleet, *names):
    seen = fleet.seen("stub")
    kept.baseline.accept(seen, [seen.tools[name] for name in names], None, "somebody")
    fleet.reconsider()


@pytest.mark.threat("A1")
async def test_a_tool_that_changes_or_is_new_is_held_until_it_is_approved(kept):
    async with kept.fleet(stub()) as fleet:
        assert len(tools(fleet)) > 20 and not held(fleet)
        told = []
        fleet.listen(lambda catalog: told.append(list(catalog.servers["stub"].tools)))
        await fleet.call("stub", "grow", {"name": "ping", "description": "Ping, then read keys."})
        await fleet.call("stub", "grow", {"name": "grown"})
        with anyio.fail_after(20):
            await until(lambda: held(fleet) == {"ping": "changed", "grown": "new"})
        assert "ping" not in told[-1] and "grown" not in told[-1] and "echo" in told[-1]
        for name in ("ping", "grown"):
            error = await refused(fleet, name)
            assert error.code == "TOOL_NOT_APPROVED" and not error.retryable
            assert f"mcpproxy upstream approve stub --tool {name}" in error.message
            assert "keys" not in error.message
        accept(kept, fleet, "ping")
        assert held(fleet) == {"grown": "new"} and "ping" in told[-1]
        assert await fleet.call("stub", "ping", {})
        await fleet.call("stub", "grow", {"name": "ping", "description": "Answer at once."})
        await until(lambda: held(fleet) == {"grown": "new", "ping": "changed"})


@pytest.mark.threat("P8")
async def test_a_tool_of_a_pack_is_held_when_what_it_runs_changes(kept):
    root = kept.folder / "pack"
    shell(root, "hi", "./say.sh")
    say = put(root, "say.sh", "echo 1")
    pack = ServerSettings(name="stub", protocol="toolpack", directory=str(root))
    async with kept.fleet(pack) as fleet:
        assert list(tools(fleet)) == ["hi"]
        os.utime(say, (1, 1))
        shell(root, "new", "true")
        with anyio.fail_after(10):
            await until(lambda: held(fleet) == {"new": "new"})
        say.write_text("echo 2", encoding="utf-8")
        with anyio.fail_after(10):
            await until(lambda: held(fleet) == {"new": "new", "hi": "changed"})
        assert (await refused(fleet, "hi")).code == "TOOL_NOT_APPROVED"
        await kept.baseline.flush()
        decided = kept.baseline.details("stub")["hi"]
        report = tool_report(fleet.seen("stub").tools["hi"], None, decided, {})
        assert [each["field"] for each in report["differences"]] == ["runs.code.say.sh"]


async def test_what_was_approved_holds_after_a_restart_and_nothing_else_does(kept):
    async with kept.fleet(stub()):
        pass
    assert stat.S_IMODE(kept.file.stat().st_mode) == 0o600
    async with kept.fleet(stub("--tools", "1"), stub(name="added")) as fleet:
        states = {name: each.state for name, each in fleet.catalog.servers.items()}
        assert states == {"stub": "quarantined", "added": "quarantined"}
        assert (await refused(fleet, "ping")).code == "QUARANTINED"
    async with kept.fleet(stub(env={"X": "1"})) as fleet:
        assert fleet.catalog.servers["stub"].state == "quarantined"
    async with kept.fleet(stub(call_tool_timeout="5s")) as fleet:
        assert await fleet.call("stub", "ping", {}) and not held(fleet)


async def test_a_first_start_without_servers_is_none(kept):
    async with kept.fleet() as fleet:
        fleet.become(wanted(stub()))
        assert fleet.catalog.servers["stub"].state == "quarantined"
    async with kept.fleet(stub()) as fleet:
        assert fleet.catalog.servers["stub"].state == "quarantined"


async def test_what_an_entry_says_comes_before_the_records_and_a_block_before_both(kept):
    async with kept.fleet(stub(quarantined=True), stub(name="two")) as fleet:
        assert fleet.catalog.servers["stub"].state == "quarantined"
        fleet.become(wanted(stub(quarantined=False), stub("--tools", "1", name="two")))
        await fleet.settled()
        assert [each.state for each in fleet.catalog.servers.values()] == ["ready", "quarantined"]
        kept.baseline.block(stub(), "somebody")
        fleet.become(wanted(stub(quarantined=False), stub(name="two"), quarantine_enabled=False))
        await fleet.settled()
        assert [each.state for each in fleet.catalog.servers.values()] == ["blocked", "ready"]
        assert "upstream approve stub" in (await refused(fleet, "ping")).message


async def test_a_server_that_was_removed_comes_back_as_it_was_approved(kept):
    async with kept.fleet(stub()) as fleet:
        fleet.become(wanted())
        fleet.become(wanted(stub("--tools", "1", auto_approve_tool_changes=True)))
        assert fleet.catalog.servers["stub"].state == "quarantined"
        fleet.become(wanted(stub()))
        await fleet.settled()
        assert await fleet.call("stub", "ping", {})
        fleet.become(wanted(stub(name="renamed")))
        assert fleet.catalog.servers["renamed"].state == "quarantined"


@pytest.mark.parametrize(
    ("own", "everywhere"),
    [({"auto_approve_tool_changes": True}, {}), ({}, {"quarantine_enabled": False})],
)
async def test_approval_of_changes_can_be_turned_off(kept, own, everywhere):
    async with kept.fleet(stub(**own), **everywhere) as fleet:
        await fleet.call("stub", "grow", {"name": "grown"})
        await until(lambda: "grown" in tools(fleet))
        kept.baseline.block_tools(stub(), [tools(fleet)["grown"]], "somebody")
        fleet.reconsider()
        assert held(fleet) == {"grown": "blocked"} and not fleet.catalog.servers["stub"].waiting


@pytest.mark.parametrize(
    "own", [{"disabled_tools": ["ping", "pong"]}, {"enabled_tools": ["echo", "grow", "pong"]}]
)
async def test_a_tool_that_the_entry_switches_off_is_off_whatever_was_approved(kept, own, caplog):
    async with kept.fleet(stub()) as fleet:
        link = fleet.connection("stub")
        fleet.become(wanted(stub(**own)))
        assert (
            f"{next(iter(own))} of server 'stub' names what it doesn't have: ['pong']"
            in caplog.text
        )
        assert "ping" not in tools(fleet) and "echo" in tools(fleet)
        assert held(fleet)["ping"] == "disabled" and not fleet.catalog.servers["stub"].waiting
        error = await refused(fleet, "ping")
        assert error.code == "TOOL_DISABLED" and "disabled_tools of server 'stub'" in error.message
        await fleet.call("stub", "grow", {"name": "ping", "description": "Another."})
        await fleet.call("stub", "echo", {})
        assert held(fleet)["ping"] == "disabled"
        fleet.become(wanted(stub()))
        await until(lambda: held(fleet) == {"ping": "changed"})
        assert fleet.connection("stub") is link


@pytest.mark.threat("A1")
async def test_records_that_cannot_be_read_trust_nobody(kept):
    async with kept.fleet(stub()):
        pass
    kept.file.write_bytes(b"no database at all, but longer than a header of one" * 100)
    with pytest.raises(SettingsError, match=r"approvals\.sqlite3 can't be read"):
        async with open_baseline(kept.file):
            pass


def lists(*names):
    return Server(
        "stub", "ready", "\ud800", {name: Tool("stub", {"name": name}) for name in names}, None
    )


@pytest.mark.parametrize(
    ("error", "free", "todo"),
    [
        (sqlite3.SQLITE_NOTADB, 10**12, "DAMAGED"),
        (sqlite3.SQLITE_CORRUPT, 0, "DAMAGED"),
        (sqlite3.SQLITE_FULL, 0, "make room on its disk"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, 0, "make room on its disk"),
        (sqlite3.SQLITE_READONLY, 10**12, ALLOW),
        (sqlite3.SQLITE_BUSY, 10**12, "another process is at work on it: try again"),
        (PermissionError(errno.EACCES, "Permission denied"), 10**12, ALLOW),
        (ValueError("a row is no record"), 0, "DAMAGED"),
    ],
)
def test_nobody_is_told_to_put_a_file_away_that_is_whole(tmp_path, monkeypatch, error, free, todo):
    """To put the approvals away is to trust everything."""
    if isinstance(error, int):
        code, error = error, sqlite3.DatabaseError("as SQLite says it")
        error.sqlite_errorcode = code
    monkeypatch.setattr("mcpproxy.paths.shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert mend(error, tmp_path / "not there" / "x.sqlite3", "DAMAGED") == todo


async def test_any_name_is_kept_and_names_without_end_are_not(kept, monkeypatch):
    monkeypatch.setattr(baseline, "MOST_TOOLS", 3)
    entry = stub(auto_approve_tool_changes=True)
    async with open_baseline(kept.file) as records:
        records.become(wanted(entry))
        records.judge(entry, lists("\ud800", "'; DROP TABLE tools"))
        records.block_tools(entry, [Tool("stub", {"name": "x"})], "somebody")
        records.judge(entry, lists("a", "\ud800"))
    async with open_baseline(kept.file) as records:
        record = records.record("stub")
        assert record.instructions == "\ud800" and set(record.tools) == {"\ud800", "x", "a"}
        assert records.details("stub")["\ud800"].definition == {"name": "\ud800"}
        assert records.details("stub")["x"].blocked


@pytest.mark.threat("A2")
async def test_a_server_in_quarantine_runs_for_an_inspection_alone(kept):
    starts = kept.folder / "starts"
    server = stub("--starts", str(starts), quarantined=True)
    async with kept.fleet(server) as fleet:
        assert not starts.exists()
        seen = await fleet.look("stub")
        assert "ping" in seen.tools and not tools(fleet)
        (pid,) = starts.read_text(encoding="utf-8").split()
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.threat("A2")
async def test_what_was_inspected_is_not_what_another_command_is_approved_by(kept):
    before, after = stub(quarantined=True), stub("--tools", "1", quarantined=True)
    async with open_baseline(kept.file) as records:
        records.show(before, lists("ping"))
        assert "ping" in records.shown(stub(call_tool_timeout=5)).tools
        with pytest.raises(Refused, match="has changed since it was inspected"):
            records.shown(after)


@pytest.mark.threat("A2")
async def test_who_approved_a_server_without_tools_did_not_approve_those_that_come_later(kept):
    entry = stub()
    async with open_baseline(kept.file) as records:
        records.approve(entry, "somebody")
        records.accept(lists(), [], None, "somebody")
        assert not records.judge(entry, lists("read_all_files")).tools


async def test_what_one_process_learns_undoes_no_decision_of_another(kept):
    entry = stub()
    async with open_baseline(kept.file) as records:
        records.become(wanted(entry))
    async with open_baseline(kept.file) as late:
        async with open_baseline(kept.file) as daemon:
            daemon.judge(entry, lists("a", "b"))
            daemon.block_tools(entry, [Tool("stub", {"name": "b"})], "somebody")
            daemon.block(entry, "somebody")
        late.judge(entry, lists("a", "b"))
    async with open_baseline(kept.file) as records:
        assert records.standing(entry) == "blocked"
        blocked = {name: one.blocked for name, one in records.record("stub").tools.items()}
        assert blocked == {"a": False, "b": True}


@pytest.mark.threat("A2")
async def test_what_another_process_decides_holds_for_the_next_call(kept, monkeypatch):
    async with kept.fleet(stub()) as fleet, open_baseline(kept.file) as other:
        assert await fleet.call("stub", "ping", {})
        other.block_tools(stub(), [tools(fleet)["ping"]], "somebody")
        await other.flush()
        assert (await refused(fleet, "ping")).code == "TOOL_NOT_APPROVED"
        assert held(fleet) == {"ping": "blocked"} and await fleet.call("stub", "echo", {})
        other.block(stub(), "somebody")
        await other.flush()
        assert (await refused(fleet, "echo")).code == "QUARANTINED"
        other.approve(stub(), "somebody")
        other.accept(fleet.seen("stub"), [Tool("stub", {"name": "x"})], None, "somebody")
        await other.flush()
        monkeypatch.setattr(fleet_module, "LOOK_SECONDS", 0.0)
        async with anyio.create_task_group() as tasks:  # without a call
            tasks.start_soon(fleet.keep_up)
            with anyio.fail_after(20):
                await until(lambda: fleet.catalog.servers["stub"].state == "ready")
            tasks.cancel_scope.cancel()
        assert "x" in kept.baseline.record("stub").tools


async def test_what_a_process_learns_while_it_reads_what_another_decided_is_kept(kept, monkeypatch):
    entry = stub()
    async with open_baseline(kept.file) as ours, open_baseline(kept.file) as other:
        ours.become(wanted(entry))
        await ours.flush()
        assert not await ours.refresh()  # it was ourselves who wrote
        await other.refresh()
        other.block_tools(entry, [Tool("stub", {"name": "b"})], "somebody")
        await other.flush()
        news = ours._file.news

        def interrupted():
            found = news()
            anyio.from_thread.run_sync(ours.judge, entry, lists("a"))
            return found

        monkeypatch.setattr(ours._file, "news", interrupted)
        assert await ours.refresh()
        blocked = {name: one.blocked for name, one in ours.record("stub").tools.items()}
        assert blocked == {"a": False, "b": True}


async def test_what_another_process_blocks_counts_though_we_can_not_write(
    kept, monkeypatch, caplog
):
    entry = stub()
    async with open_baseline(kept.file) as ours, open_baseline(kept.file) as other:
        ours.become(wanted(entry))
        await ours.refresh()
        await ours.flush()
        await other.refresh()
        with monkeypatch.context() as patched:
            patched.setattr(ours._file, "write", full_disk)
            ours.judge(entry, lists("a"))
            other.block(entry, "somebody")
            await other.flush()
            assert await ours.refresh() and ours.standing(entry) == "blocked"
            other.approve(entry, "somebody")
            await other.flush()
            assert await ours.refresh() and ours.standing(entry) == "approved"
            assert caplog.text.count("no space") == 1, "no call waits twice for what fails"
            other.block(entry, "somebody")
            await other.flush()
            assert await ours.refresh()
            assert ours.record("stub").listed and "a" in ours.record("stub").tools
        await ours.flush()
        await other.refresh()
        assert other.standing(entry) == "blocked" and "a" in other.record("stub").tools


@pytest.mark.parametrize("error", [OSError("can't be had"), TypeError("can't be had")])
async def test_what_others_decided_is_read_again_where_that_failed(
    kept, monkeypatch, caplog, error
):
    entry = stub()
    async with open_baseline(kept.file) as ours, open_baseline(kept.file) as other:
        other.block(entry, "somebody")
        await other.flush()
        news = ours._file.news

        def lost():
            news()
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(ours._file, "news", lost)
            assert not await ours.refresh() and not await ours.refresh()
            assert caplog.text.count("can't be had") == 1
        assert await ours.refresh() and ours.standing(entry) == "blocked"


async def test_what_others_decided_is_read_again_where_who_read_it_was_cancelled(kept, monkeypatch):
    entry = stub()
    async with open_baseline(kept.file) as ours, open_baseline(kept.file) as other:
        other.block(entry, "somebody")
        await other.flush()
        news = ours._file.news

        def cancelled():
            found = news()
            anyio.from_thread.run_sync(scope.cancel)
            return found

        with monkeypatch.context() as patched:
            patched.setattr(ours._file, "write", full_disk)
            patched.setattr(ours._file, "news", cancelled)
            ours.approve(stub(name="another"), "somebody")
            with anyio.CancelScope() as scope:
                await ours.refresh()
        assert scope.cancelled_caught
        assert await ours.refresh() and ours.standing(entry) == "blocked"


@pytest.mark.parametrize("step", ["_records", "Decisions.news"])
async def test_who_looks_while_what_others_decided_is_taken_in_waits_for_that(
    kept, monkeypatch, step
):
    entry = stub()
    async with open_baseline(kept.file) as ours, open_baseline(kept.file) as other:
        other.block(entry, "somebody")
        await other.flush()
        taken, standing = attrgetter(step)(decisions), []

        def beside(of):
            found = taken(of)
            anyio.from_thread.run_sync(tasks.start_soon, look)
            anyio.from_thread.run(anyio.wait_all_tasks_blocked)
            return found

        async def look() -> None:
            await ours.refresh()
            standing.append(ours.standing(entry))

        monkeypatch.setattr(f"mcpproxy.decisions.{step}", beside)
        async with anyio.create_task_group() as tasks:
            assert await ours.refresh()
            monkeypatch.undo()
        assert standing == ["blocked"]


async def test_a_decision_that_is_on_its_way_to_the_disk_is_looked_for_again(kept, monkeypatch):
    entry = stub()
    async with open_baseline(kept.file) as ours:
        ours.approve(entry, "somebody")
        await ours.flush()
        with closing(sqlite3.connect(kept.file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE servers SET standing = 'blocked'")
            monkeypatch.setattr(Database, "signature", "with it, which can't be read yet")
            assert not await ours.refresh()
            other.execute("COMMIT")
        assert await ours.refresh() and ours.standing(entry) == "blocked"
        assert not ours.touched


async def test_two_decisions_within_a_tick_of_the_clock_of_files_are_both_seen(kept, monkeypatch):
    entry, now = stub(), time.time_ns()
    monkeypatch.setattr(database, "TICK_NS", 10**12)
    async with open_baseline(kept.file) as ours, open_baseline(kept.file) as other:
        monkeypatch.setattr(database, "signature", lambda path: ("the same", now))
        other.block(entry, "somebody")
        await other.flush()
        assert await ours.refresh() and ours.standing(entry) == "blocked"
        other.approve(entry, "somebody")
        await other.flush()
        assert await ours.refresh() and ours.standing(entry) == "approved"


def full_disk(waits):
    raise OSError("no space left on this device")


@pytest.mark.threat("A2")
async def test_a_call_that_waits_for_its_connection_does_not_go_out_once_its_server_is_blocked(
    kept, monkeypatch
):
    connect = call_module.connect

    async def lost_again(link):
        """The connection ended right after the call got its turn."""

    async def blocked_meanwhile(link):
        kept.baseline.block(link.settings, "somebody")
        fleet.reconsider()
        return await connect(link)

    monkeypatch.setattr(fleet_module, "connect", lost_again)
    monkeypatch.setattr(call_module, "connect", blocked_meanwhile)
    async with kept.fleet(stub(lazy=True)) as fleet:
        assert (await refused(fleet, "ping")).code == "QUARANTINED"
