"""docs/python.md and the chat that it shows tell the truth: every block runs, and prints what it says."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from chat_server import chatting
from daemon_process import open_process
from upstreams import STUB

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = [*re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL), ("", "")]
PROGRAMS = [
    pytest.param(text, after if kind == "text" else None, id=str(n))
    for n, ((language, text), (kind, after)) in enumerate(pairwise(BLOCKS))
    if language == "python"
]
SERVERS = [{"name": "github", "command": "github-mcp-server", "args": ["stdio"]}]
CALL = ("mcp1_get_user", {"username": "ada"})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A daemon that runs with the page's configuration, and where its programs are run."""
    program = tmp_path_factory.mktemp("bin") / "github-mcp-server"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -S '{STUB}'\n", encoding="utf-8")
    program.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        with open_process(mcpServers=SERVERS, code_execution_pool_size=1) as serving:
            token = {"name": "page", "allowed_servers": ["github"], "permissions": ["read"]}
            made = serving.ask("POST", "/api/v1/tokens", token).body["data"]
            patch.setenv("AGENT_TOKEN", made["token"])
            patch.setenv("MCPPROXY_DATA_DIR", serving.home.environ["MCPPROXY_DATA_DIR"])
            patch.chdir(serving.home.folder)
            yield serving


@pytest.fixture
def chat(monkeypatch):
    with chatting(CALL) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "no-key")
        yield server


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_a_program_prints_what_stands_behind_it(place, chat, capsys, program, output):
    told = '{"login": "ada", "name": "Ada", "id": 1, "public_repos": 8}\n'
    exec(program.replace("127.0.0.1:8080", place.address), {"__name__": "page"})
    assert capsys.readouterr().out == (told if output is None else output)


def test_the_example_asks_calls_and_answers(place, chat, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["chat", "Who is ada?", "--config", str(place.home.config)])
    runpy.run_path(str(ROOT / "examples" / "toolkit_chat.py"), run_name="__main__")
    said = capsys.readouterr()
    assert json.loads(said.out)["name"] == "Ada"
    assert said.err == 'mcp1_get_user({"username": "ada"})\n'
    system, user, called, told = chat.asked[-1]["messages"]
    assert (system["role"], user["content"]) == ("system", "Who is ada?")
    assert called["tool_calls"][0]["id"] == told["tool_call_id"]
