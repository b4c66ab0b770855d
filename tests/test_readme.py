"""The README tells the truth: its configuration loads, its program runs, its commands exist."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import anyio
import click
import pytest
from two_calls_played import PROGRAM, QUERY

from mcpproxy import settings
from mcpproxy.cli import main
from mcpproxy.daemon import open_daemon
from mcpproxy.policy import LOCAL

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, n: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[n]


def load(path: Path, document: str) -> settings.Loaded:
    path.write_text(document, encoding="utf-8")
    return settings.load(path, {"MCPPROXY_DATA_DIR": str(path.parent / "state")})


def test_the_example_configuration_loads_without_a_warning(tmp_path):
    loaded = load(tmp_path / "c.json", block("json"))
    assert [server.name for server in loaded.settings.servers] == ["time", "github"]
    assert loaded.warnings == []


async def test_the_example_program_prints_what_it_says(tmp_path):
    loaded = load(
        tmp_path / "c.json", '{"mcpServers": [{"name": "time", "command": "mcp-server-time"}]}'
    )
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with anyio.fail_after(30):
        async with open_daemon(loaded, environ, lasting=False) as daemon:
            body = {"code": block("ts"), "language": "typescript"}
            reply = await daemon.execute(body, LOCAL, request_id="readme")
    assert reply.envelope == json.loads(block("json", 1))


@pytest.mark.parametrize("snippet", re.findall(r"`(\{.*?\})` ?\|", README))
def test_client_configurations_are_json(snippet):
    assert json.loads(snippet)


@pytest.mark.parametrize("script", re.findall(r"^(scripts/\w+)", block("sh"), re.MULTILINE))
def test_the_two_commands_are_there(script):
    assert os.access(ROOT / script, os.X_OK)


@pytest.mark.parametrize(
    "words", sorted(set(re.findall(r"`mcpproxy ((?:serve|stdio|code exec|status))", README)))
)
def test_commands_exist(words):
    command: click.Command = main
    for word in words.split():
        assert isinstance(command, click.Group)
        command = command.commands[word]


@pytest.mark.parametrize("page", re.findall(r"\]\(([\w/.-]+\.md)\)", README))
def test_pages_that_are_linked_exist(page):
    assert (ROOT / page).is_file()


async def test_the_quickstarts_program_runs_with_the_example_configuration(tmp_path):
    example = (ROOT / "examples" / "mcp_config.json").read_text(encoding="utf-8")
    loaded = load(tmp_path / "c.json", example)
    assert loaded.warnings == []
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    repository.mkdir()
    for command in (
        ["init", "--quiet"],
        ["commit", "--quiet", "--allow-empty", "-m", "First step"],
    ):
        await anyio.run_process([*git, *command])
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    code = (ROOT / "examples" / "quickstart.ts").read_text(encoding="utf-8")
    body = {"code": code, "language": "typescript", "input": {"repo": str(repository)}}
    with anyio.fail_after(30):
        async with open_daemon(loaded, environ, lasting=False) as daemon:
            reply = await daemon.execute(body, LOCAL, request_id="quickstart")
    assert reply.ok, reply.envelope
    assert reply.envelope["value"]["commits"] == ["Message: First step"]
    assert len(reply.envelope["value"]["nine_in_utc"]) == 2


def test_the_wish_is_the_one_that_is_tried():
    """tests/test_examples.py grants it; here only that both say the same."""
    asked = json.loads(block("json", 2))
    assert asked == {"name": "search_tools", "arguments": {"query": QUERY, "limit": 3}}
    assert block("ts", 1) == PROGRAM.read_text(encoding="utf-8")
