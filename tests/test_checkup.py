"""What `mcpproxy doctor` finds around the daemon, and what it says to do about it."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace

import pytest
from running import home

from mcpproxy.cli import checkup
from mcpproxy.cli.checkup import Finding
from mcpproxy.cli.doctor import about, report
from mcpproxy.journal.store import Store
from mcpproxy.paths import ALLOW, places
from mcpproxy.serve import tcp_listener
from mcpproxy.settings import Settings


@pytest.fixture
def ours(tmp_path):
    found = places(tmp_path / "c.json", tmp_path / "state")
    found.state.mkdir(mode=0o700)
    found.config.write_text("{}", encoding="utf-8")
    found.config.chmod(0o600)
    return found


def wrong(findings):
    return [each for each in findings if each.remedy]


def test_files_that_others_may_read_are_named_with_the_command_that_closes_them(ours):
    assert wrong(checkup.files(ours)) == []
    secret = ours.state / "it's secret"
    secret.touch(0o640)
    (found,) = wrong(checkup.files(ours))
    assert "others may read" in found.what
    assert os.system(found.remedy) == 0
    assert wrong(checkup.files(ours)) == []


def test_a_place_where_nothing_can_be_kept_is_named(ours):
    assert wrong(checkup.state(ours)) == []
    (ours.state / "file").touch()
    (found,) = wrong(checkup.state(replace(ours, state=ours.state / "file" / "state")))
    assert "no directory" in found.what and "data_dir" in found.remedy
    (found,) = wrong(checkup.state(replace(ours, state=ours.state / ("x" * 300) / "state")))
    assert "too long" in found.what


def test_stored_scripts_that_nobody_can_call_are_named(ours):
    ours.scripts.mkdir()
    for name in ("good.js", "twice.js", "twice.ts"):
        (ours.scripts / name).write_text("1", encoding="utf-8")
    (ours.scripts / "empty.js").touch()
    for name in ("my script.js", "module.mjs", "mcpproxy.d.ts", "jsconfig.json", "notes.md"):
        (ours.scripts / name).touch()
    misnamed = [each for each in wrong(checkup.scripts(ours)) if "by its name" in each.what]
    assert [each.what.split(" is no")[0] for each in misnamed] == [
        str(ours.scripts / "module.mjs"),
        str(ours.scripts / "my script.js"),
    ]
    for path in ("my script.js", "module.mjs"):
        (ours.scripts / path).unlink()
    twice, empty = sorted(wrong(checkup.scripts(ours)), key=lambda each: "empty" in each.what)
    assert "twice.js and" in twice.what
    assert "is empty" in empty.what and empty.remedy.endswith("empty.js")
    assert [each.what for each in checkup.scripts(ours)][-1] == "1 stored scripts can be called"


def test_an_address_that_is_taken_is_found_before_a_daemon_wants_it():
    with tcp_listener("127.0.0.1", 0) as taken:
        settings = Settings(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        (found,) = wrong(checkup.port(settings))
    assert "can't listen" in found.what and "--listen" in found.remedy
    assert wrong(checkup.port(settings)) == []
    (found,) = wrong(checkup.port(Settings(listen="192.0.2.1:0")))  # of nobody's machine
    assert "--listen" in found.remedy and "stop what uses it" not in found.remedy


def test_a_server_is_wrong_only_when_somebody_has_to_do_something():
    states = ("ready", "lazy", "connecting", "disabled", "blocked", "down", "quarantined")
    servers = [{"name": "a b", "state": state, "tools": 0, "error": "why"} for state in states]
    found = dict(zip(states, map(about, servers), strict=True))
    assert [state for state in states if found[state].remedy] == ["down", "quarantined"]
    assert "mcpproxy upstream logs 'a b'" in found["down"].remedy


def test_a_journal_that_can_not_be_read_is_moved_away(ours):
    assert list(checkup.journal(ours, Settings())) == []
    with closing(Store(ours.journal)):
        assert wrong(checkup.journal(ours, Settings())) == []
    (ours.journal / "activity.sqlite3").write_bytes(b"no database " * 1000)
    (found,) = wrong(checkup.journal(ours, Settings()))
    assert found.remedy.startswith("mv ") and "OFF" in found.what
    assert wrong(checkup.journal(ours, Settings(activity_enabled=False))) == []


@pytest.mark.parametrize(
    ("why", "moved"),
    [
        ("activity.sqlite3: database disk image is malformed", True),
        ("activity.sqlite3 was made by another version of mcpproxy (9, not 2): move it away", True),
        ("activity.sqlite3: attempt to write a readonly database", False),
        ("activity.sqlite3: disk I/O error", False),
        ("journal belongs to another user", False),
    ],
)
def test_a_journal_that_is_whole_stays_where_it_is(ours, why, moved):
    remedy = checkup.broken_journal(ours, why).remedy
    assert remedy.startswith("mv ") if moved else remedy.startswith(ALLOW)


def test_what_a_daemon_says_of_itself_is_passed_on_with_what_mends_it(ours):
    well = {
        "activity": {"on": True, "megabytes": 1.5},
        "config_error": None,
        "requires_restart": [],
    }
    assert [each.what for each in checkup.daemon(well, ours)] == ["the journal is on, 1.5 MB"]
    ill = {
        "activity": {"on": False, "error": "disk I/O error", "not_written": 3},
        "config_error": "c.json is not valid JSON",
        "requires_restart": ["listen"],
    }
    off, old, restart = wrong(checkup.daemon(ill, ours))
    assert "disk I/O error" in off.what
    assert "c.json is not valid" in old.what and str(ours.config) in old.remedy
    assert "listen" in restart.what and "mcpproxy serve" in restart.remedy


def test_the_report_is_lines_for_people_and_json_for_programs(capsys):
    report([Finding("it is"), Finding("it isn't", "mend it")], "table")
    assert capsys.readouterr().out == "ok  it is\n!!  it isn't\n      mend it\n"
    with home() as place:
        place.write("{")
        done = place.invoke("doctor", "--json")
    (found,) = json.loads(done.stdout)
    assert (done.exit_code, found["ok"], found["remedy"]) == (1, False, "mend that, then: mcpproxy doctor")  # fmt: skip
    assert f"{place.config} is not valid JSON: line 1" in found["what"]
