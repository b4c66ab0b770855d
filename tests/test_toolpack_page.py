"""docs/toolpacks.md tells the truth: its files are written, its commands run, its lists complete."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from packs import open_tools

from mcpproxy import settings
from mcpproxy.cli import main
from mcpproxy.upstream.failure import CODES
from mcpproxy.upstream.toolpack.templating import FILTERS, METHODS, SANDBOX
from mcpproxy.upstream.toolpack.toolfile import ToolFile

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "toolpacks.md").read_text(encoding="utf-8")
FILE = re.compile(r"^(?:# |<!-- )(\S+)(?: -->)?\n")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def keys(heading):
    section = re.split(rf"^#+ {heading}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]


@pytest.fixture
def folder(tmp_path):
    """The files of the page, where it says that they are."""
    for text in [*blocks("yaml"), *blocks("python"), *blocks("markdown")]:
        named = FILE.match(text)
        assert named, text
        path = tmp_path / named[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


async def test_its_tool_is_called_and_its_prompt_filled_in(folder):
    async with open_tools(folder / "tools") as pack:
        assert await pack.call("shout", text="Grüße") == {"text": "GRÜSSE"}
        result = await pack.source.prompt("writing.sectioned_draft", {"topic": "bees"})
        assert "3 sections about bees" in result["messages"][0]["content"]["text"]


def test_its_commands_print_what_it_shows(folder, monkeypatch):
    """In this process, which has imported everything already."""
    monkeypatch.chdir(folder)
    environ = {
        "HOME": str(folder),
        "MCPPROXY_LISTEN": "127.0.0.1:0",
        "XDG_STATE_HOME": str(folder / "state"),
    }
    for block in blocks("console"):
        for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.removeprefix("$ ").partition("\n")
            words, _, status = command.partition(" || echo ")
            done = CliRunner().invoke(main, shlex.split(words)[1:], env=environ)
            said = done.stdout + (f"exit status {done.exit_code}\n" if status else "")
            assert said == output, done.stderr


@pytest.mark.parametrize("text", blocks("json"))
def test_its_configurations_are_valid(tmp_path, text):
    loaded = settings.check(tmp_path / "c.json", json.loads(text), {})
    assert loaded.warnings == [] and loaded.settings.servers[0].protocol == "toolpack"


def test_its_lists_are_complete():
    fields = {field.alias or name for name, field in ToolFile.model_fields.items()}
    assert set(keys("The tool file")) == fields
    assert keys("Failures") == list(CODES)
    ours = {"join", "replace", "round", "string", "sum", "tojson", "urlencode"}
    assert ours < SANDBOX.filters.keys()
    listed = re.search(r"Filters: (.*?)\. Methods: (.*?)\. Loops", PAGE, re.DOTALL)
    assert re.findall(r"`(\w+)`", listed[1]) == sorted(FILTERS | ours)
    assert re.findall(r"`(\w+)`", listed[2]) == sorted(METHODS)
