"""The example programs, run by a real daemon with the example configuration against the servers they are for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from daemon_process import over_http
from pages import ROOT, blocks, page
from running import home
from two_calls_played import Agent, directly, in_two_calls, repository

from mcpproxy import jsonc

SCRIPTS = ROOT / "examples" / "scripts"
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
def serving():
    servers = jsonc.loads(page("examples/mcp_config.json"))["mcpServers"]
    with home(mcpServers=servers, code_execution_pool_size=2) as place:
        shutil.copytree(SCRIPTS, place.folder / "scripts")
        # Where the quickstart finds their commands.
        place.environ["PATH"] = f"{Path(sys.executable).parent}:{place.environ['PATH']}"
        with place.serving() as found:
            yield found


@pytest.fixture
def run(serving):
    def run(script, **given):
        body = {"script": script, "input": given}
        reply = serving.ask("POST", "/api/v1/code/exec", body).body
        assert reply["ok"], reply
        return reply["value"]

    return run


def test_the_readmes_program_gives_what_stands_behind_it(serving):
    readme = page("README.md")
    reply = serving.execute(blocks(readme, "ts")[0], language="typescript")
    del reply["request_id"]
    assert reply == json.loads(blocks(readme, "json")[1])


def test_the_quickstarts_program(serving, repo):
    code = page("examples/quickstart.ts")
    reply = serving.execute(code, language="typescript", input={"repo": str(repo)})
    assert reply["ok"], reply
    assert reply["value"]["commits"][0] == "Message: Tidy up"
    assert len(reply["value"]["nine_in_utc"]) == 2


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


async def test_a_wish_is_granted_in_two_calls_and_costs_a_fraction(serving, tmp_path):
    place = repository(tmp_path / "history")
    async with over_http(serving, "2026-07-28") as client:
        ours = Agent(client)
        answer = await in_two_calls(ours, place)
    async with over_http(serving, "2026-07-28", "/mcp/all") as client:
        direct = Agent(client)
        assert await directly(direct, place) == answer
    assert answer["18 h"] == ["18:40", "18:00"]
    assert (len(ours.calls), len(direct.calls)) == (2, 25)
    sizes = [sum(len(text) for call in each.calls for text in call) for each in (ours, direct)]
    assert sizes[0] * 3 < sizes[1]


def test_the_page_shows_the_editor_s_file():
    (shown,) = blocks(page("docs/discovery.md"), "jsonc")
    assert json.loads(shown) == json.loads(page("examples/scripts/jsconfig.json"))


def test_each_script_is_listed_and_tested():
    listed = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in SCRIPTS.iterdir()} - {"README.md", "jsconfig.json"}
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals()}
    assert len(names) >= 5
    assert all(f"({name})" in listed and Path(name).stem in tested for name in names)
