"""The example scripts, run by name through a real daemon against the servers they are for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from daemon_process import open_process

SCRIPTS = Path(__file__).parents[1] / "examples" / "scripts"
PROGRAMS = Path(sys.executable).parent
SERVERS = [
    {"name": "git", "command": str(PROGRAMS / "mcp-server-git")},
    {
        "name": "time",
        "command": str(PROGRAMS / "mcp-server-time"),
        "args": ["--local-timezone", "UTC"],
    },
]
COMMITS = [
    ("Ada", "2026-01-05", "feat: first", {"a.txt": "1\n2\n", "b.txt": "1\n"}),
    ("Bob", "2026-02-10", "fix(api): say which field\n\nMessage: of a body", {"b.txt": "1\n2\n"}),
    ("Ada", "2026-03-15", "Tidy up", {"a.txt": "2\n", "c d.txt": "++x\n--y\n"}),
]


def git(folder: Path, *words: str, who: str = "Ada", day: str = "2026-01-01") -> str:
    at = f"{day}T12:00:00+00:00"
    person = ["-c", f"user.name={who}", "-c", f"user.email={who.lower()}@example.com"]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": at,
        "GIT_COMMITTER_DATE": at,
    }
    return subprocess.run(
        ["git", *person, *words], cwd=folder, env=environ, check=True,
        capture_output=True, encoding="utf-8",
    ).stdout.strip()  # fmt: skip


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repo")
    git(folder, "init", "--initial-branch", "main")
    for n, (who, day, message, files) in enumerate(COMMITS):
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        git(folder, "add", "--all")
        git(folder, "commit", "--message", message, who=who, day=day)
        git(folder, "branch", f"topic-{n}")
    return folder


@pytest.fixture(scope="module")
def run():
    with open_process(mcpServers=SERVERS, code_execution_pool_size=2) as serving:
        shutil.copytree(SCRIPTS, serving.home.folder / "scripts")

        def run(script, **given):
            body = {"script": script, "input": given}
            reply = serving.ask("POST", "/api/v1/code/exec", body).body
            assert reply["ok"], reply
            return reply["value"]

        yield run


def test_changelog(run, repo):
    commits = git(repo, "log", "--format=%h", "--abbrev=7").split()
    assert run("changelog", repo=str(repo), since="2026-02-01") == {
        "other": [f"Tidy up ({commits[0]})"],
        "fix": [f"say which field ({commits[1]})"],
    }
    assert list(run("changelog", repo=str(repo), since="2026-01-01", until="2026-02-01")) == [
        "feat"
    ]


def test_diff_summary(run, repo):
    assert run("diff-summary", repo=str(repo), target="topic-0") == {
        "files": [
            {"file": "c d.txt", "added": 2, "removed": 0},
            {"file": "a.txt", "added": 0, "removed": 1},
            {"file": "b.txt", "added": 1, "removed": 0},
        ],
        "added": 3,
        "removed": 1,
    }


def test_meeting_planner(run):
    """In zones without daylight saving, so that it is the same on every day."""
    people = {"Asha": "Asia/Kolkata", "Yuki": "Asia/Tokyo"}
    assert run("meeting-planner", people=people, **{"from": 9, "to": 15}) == [
        {"Asha": "09:00", "Yuki": "12:30"},
        {"Asha": "10:00", "Yuki": "13:30"},
    ]


def test_repo_activity(run, repo):
    found = run("repo-activity", repos=[str(repo), str(repo / "no-such")])
    assert found["authors"] == [
        {"name": "Ada", "commits": 2, "first": "2026-01-05", "last": "2026-03-15"},
        {"name": "Bob", "commits": 1, "first": "2026-02-10", "last": "2026-02-10"},
    ]
    assert [each["repo"] for each in found["unread"]] == [str(repo / "no-such")]


def test_stale_branches(run, repo):
    assert run("stale-branches", repo=str(repo), days=30, today="2026-04-01") == [
        {"branch": "topic-0", "last": "2026-01-05", "days": 86},
        {"branch": "topic-1", "last": "2026-02-10", "days": 50},
    ]
    assert len(run("stale-branches", repo=str(repo), days=1)) == 4


def test_each_script_is_listed_and_tested():
    listed = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in SCRIPTS.iterdir()} - {"README.md", "jsconfig.json"}
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals()}
    assert len(names) >= 5
    assert all(f"({name})" in listed and Path(name).stem in tested for name in names)
