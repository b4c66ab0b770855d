"""docs/operating.md tells the truth: its services start the daemon, its places and statuses are those of the code."""

from __future__ import annotations

import configparser
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import warm
from pages import ROOT, blocks, page
from running import home

from mcpproxy.cli import PORT_TAKEN, main
from mcpproxy.cli.telling import BAD_CONFIG, FAILED, INTERRUPTED, NOT_RUN

PAGE = page("docs/operating.md")


def started(words: list[str]) -> str:
    """The command of ours that a service starts, known to take these arguments."""
    program, name, *rest = words
    assert Path(program).name == "mcpproxy"
    main.commands[name].make_context(name, rest)
    return name


def test_the_unit_starts_the_daemon_and_not_for_ever():
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(blocks(PAGE, "ini")[0])
    service = unit["Service"]
    assert started(shlex.split(service["ExecStart"])) == "serve"
    assert service["RestartPreventExitStatus"].split() == [str(PORT_TAKEN), str(BAD_CONFIG)]


def test_the_agent_of_launchd_starts_the_daemon():
    agent = plistlib.loads(blocks(PAGE, "xml")[0].encode())
    assert started(agent["ProgramArguments"]) == "serve"
    assert agent["RunAtLoad"] and agent["KeepAlive"] == {"SuccessfulExit": False}


def test_the_statuses_are_those_of_the_commands():
    table = PAGE.split("## Exit status")[1].split("##")[0]
    listed = {int(status) for status in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert listed == {0, FAILED, NOT_RUN, PORT_TAKEN, BAD_CONFIG, INTERRUPTED}


@pytest.fixture(scope="module")
def stopped():
    """A home in which a daemon ran with the usual configuration, and a token was made."""
    with home(code_execution_pool_size=1, enable_socket=True) as place:
        (place.folder / ".mcpproxy").mkdir()
        usual = place.config.rename(place.folder / ".mcpproxy" / place.config.name)
        place.config = usual
        place.environ["MCPPROXY_DATA_DIR"] = str(place.folder / ".local/state/mcpproxy/default")
        place.environ["PATH"] = warm.command(place.folder)
        with place.serving() as serving:
            status = serving.ask("GET", "/api/v1/status").body["data"]
            code = "call_tool('nobody', 'x', {}); return 1"
            serving.ask("POST", "/api/v1/code/exec", {"code": code, "description": "One"})
            place.run("token", "create", "t", "--servers", "*")
            second = place.run("serve")
        yield place, status, second


def test_a_second_daemon_says_how_to_stop_the_first(stopped):
    _, status, second = stopped
    assert second.returncode == PORT_TAKEN
    assert f"stop it first: kill {status['pid']}\n" in second.stderr


def test_the_state_is_where_the_page_says(stopped):
    place, status, _ = stopped
    state = place.folder / ".local/state/mcpproxy/default"
    assert (status["state"], status["logs"]) == (str(state), str(state / "logs"))
    assert "listening on" in (state / "logs" / "mcpproxy.log").read_text(encoding="utf-8")
    table = PAGE.split("| in the state directory | |")[1].split("##")[0]
    named = {name.strip("/") for name in re.findall(r"`([\w./]+)`", table)} - {"activity.md"}
    there = {each.name for each in state.iterdir() if not re.search(r"-(wal|shm)$", each.name)}
    assert there - {"logs", "mcpproxy.lock"} <= named
    assert {"approvals.sqlite3", "tokens.json", "tokens.key", "code.sqlite3", "journal"} <= there


def test_its_commands_run_one_after_the_other(stopped):
    place, *_ = stopped
    done = subprocess.run(
        ["sh", "-e", "-c", "".join(blocks(PAGE, "sh"))],
        env=place.environ, cwd=place.folder, capture_output=True, encoding="utf-8", check=False, timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    listing = subprocess.run(
        ["tar", "-tzf", place.folder / "mcpproxy-backup.tar.gz"],
        capture_output=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    for kept in (".mcpproxy/mcp_config.json", ".local/state/mcpproxy/default/approvals.sqlite3"):
        assert kept in listing.splitlines()


# ── installing, starting at login, removing ─────────────────────────────────────────────────────

PROJECT = tomllib.loads(page("pyproject.toml"))["project"]
UNIT, AGENT = re.findall(r"^`~/(\S+/mcpproxy\.\w+)`", PAGE, re.MULTILINE)
"""Where the page has its two services written, below a home."""

SYSTEM = ("pipx", "systemctl", "loginctl", "journalctl", "launchctl", "claude", "mcpproxy")


@pytest.fixture
def typed(tmp_path):
    """Has a shell run a block; gives what it asked of programs that are the system's, or a daemon's to end."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in SYSTEM:
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>"$HOME/typed"\n', "utf-8")
        (programs / name).chmod(0o700)

    def run(block: str, place: Path) -> list[str]:
        environ = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(place)}
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            env=environ, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=20,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        said = place / "typed"
        lines = said.read_text("utf-8").splitlines()
        said.unlink()
        return lines

    return run


def test_what_is_installed_has_the_command_that_the_services_start(typed, tmp_path):
    install, linux, mac, *_ = blocks(PAGE, "console")
    assert typed(install, tmp_path) == ["pipx install .", "mcpproxy serve"]
    assert (PROJECT["name"], list(PROJECT["scripts"])) == ("mcpproxy", ["mcpproxy"])
    unit = Path(UNIT).stem
    assert typed(linux, tmp_path) == [
        f"systemctl --user enable --now {unit}",
        "loginctl enable-linger",
        f"journalctl --user -u {unit}",
    ]
    assert typed(mac, tmp_path) == [f"launchctl bootstrap gui/{os.getuid()} {tmp_path / AGENT}"]


def test_nothing_is_left_of_what_is_removed(typed, stopped, tmp_path):
    """Of the service, of the configuration or of the state of a daemon that ran."""
    place = tmp_path / "home"
    shutil.copytree(stopped[0].folder / ".mcpproxy", place / ".mcpproxy")
    state = ".local/state/mcpproxy"
    shutil.copytree(stopped[0].folder / state, place / state, symlinks=True)
    for service in (UNIT, AGENT):
        (place / service).parent.mkdir(parents=True)
        (place / service).touch()
    *_, linux, mac, rest = blocks(PAGE, "console")
    label = plistlib.loads(blocks(PAGE, "xml")[0].encode())["Label"]
    assert typed(linux, place) == [f"systemctl --user disable --now {Path(UNIT).stem}"]
    assert typed(mac, place) == [f"launchctl bootout gui/{os.getuid()}/{label}"]
    client = re.search(r"`claude mcp add (?:--\S+ \S+ )*(\w+)", page("README.md"))
    assert typed(rest, place) == [
        f"claude mcp remove {client[1]}",
        "mcpproxy secrets list",
        f"pipx uninstall {PROJECT['name']}",
    ]
    assert [path for path in place.rglob("*") if "mcpproxy" in path.name] == []
