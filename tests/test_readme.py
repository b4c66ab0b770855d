"""The README tells the truth: its configuration loads, its commands exist.

What its programs give is in test_examples.py, where the servers run that they are for.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import click
import pytest
from pages import ROOT, blocks, page
from two_calls_played import PROGRAM, QUERY

from mcpproxy import importing, settings
from mcpproxy.cli import main

README = page("README.md")


def block(language: str, n: int = 0) -> str:
    return blocks(README, language)[n]


def load(path: Path, document: str) -> settings.Loaded:
    path.write_text(document, encoding="utf-8")
    return settings.load(path, {"MCPPROXY_DATA_DIR": str(path.parent / "state")})


@pytest.mark.parametrize(
    ("document", "servers"),
    [
        pytest.param(block("json"), ["time", "github"], id="the README's"),
        pytest.param(page("examples/mcp_config.json"), ["time", "git"], id="the quickstart's"),
    ],
)
def test_the_example_configurations_load_without_a_warning(tmp_path, document, servers):
    loaded = load(tmp_path / "c.json", document)
    assert [server.name for server in loaded.settings.servers] == servers
    assert loaded.warnings == []


@pytest.mark.parametrize("snippet", re.findall(r"`(\{.*?\})` ?\|", README))
def test_client_configurations_lead_to_us(snippet):
    port = settings.split_listen(settings.Settings().listen)[1]
    found = importing.take(json.loads(snippet), Path("/"), Path("/"), {}, port)
    assert found.skipped == {"mcpproxy": "it is mcpproxy itself"} and not found.entries


def test_the_commands_for_claude_code_add_what_the_others_have():
    over_http, over_stdio = (
        shlex.split(line) for line in re.findall(r"`(claude mcp add .*?)`", README)
    )
    url = f"http://{settings.Settings().listen}/mcp"
    assert over_http[3:] == ["--transport", "http", "mcpproxy", url] and url in README
    assert over_stdio[3:] == ["mcpproxy", "--", "mcpproxy", "stdio"]


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


def test_the_wish_is_the_one_that_is_tried():
    """test_examples.py grants it; here only that both say the same."""
    asked = json.loads(block("json", 2))
    assert asked == {"name": "search_tools", "arguments": {"query": QUERY, "limit": 3}}
    assert block("ts", 1) == PROGRAM.read_text(encoding="utf-8")
