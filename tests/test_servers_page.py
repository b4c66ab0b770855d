"""docs/servers.md and the reference of settings tell the truth."""

from __future__ import annotations

import json
import os
import runpy
import subprocess

import warm
from pages import ROOT, blocks, page
from running import home

from mcpproxy import asking, settings
from mcpproxy.paths import server_log
from mcpproxy.upstream import dial, link, living, pipes, stdio

PAGE = page("docs/servers.md")


def test_its_commands_run_one_after_the_other(tmp_path):
    client = {"mcpServers": {"files": {"command": "files", "env": {"K": "${input:a-key}"}}}}
    for place in (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        ".cursor/mcp.json",
        ".vscode/mcp.json",
    ):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(json.dumps(client), encoding="utf-8")
    environ = {
        "HOME": str(tmp_path),
        "PYTHON_KEYRING_BACKEND": os.environ["PYTHON_KEYRING_BACKEND"],
        "PATH": warm.command(tmp_path),
        "MCPPROXY_LISTEN": "127.0.0.1:0",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(
        ["sh", "-e", "-c", "".join(blocks(PAGE, "sh"))],
        env=environ, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "would add files" in done.stdout
    assert "set A_KEY" in done.stdout
    loaded = settings.load(tmp_path / ".mcpproxy" / "mcp_config.json", {})
    assert [each.name for each in loaded.settings.servers] == ["time", "github", "files"]
    assert loaded.settings.servers[1].headers == {"Authorization": "Bearer ${env:GITHUB_TOKEN}"}
    assert loaded.warnings == []


def test_its_configuration_is_valid(tmp_path):
    file = tmp_path / "c.json"
    file.write_text(blocks(PAGE, "json")[0], encoding="utf-8")
    loaded = settings.load(file, {})
    assert [each.name for each in loaded.settings.servers] == ["time", "github"]
    assert loaded.warnings == []
    assert "// comments are kept" in file.read_text(encoding="utf-8")
    file.write_text(blocks(PAGE, "json")[1], encoding="utf-8")
    loaded = settings.load(file, {})
    [wiki] = loaded.settings.servers
    assert wiki.oauth is not None and wiki.oauth.client_secret == "${keyring:WIKI_SECRET}"
    assert loaded.warnings == []


def test_its_numbers_are_those_of_the_code():
    for said in (
        f"after {link.FIRST_DELAY:g} s, 2 s, 4 s … up to {link.LONGEST_DELAY:g} s",
        f"after {living.PINGS} unanswered checks",
        "for up to an hour" * (link.LONGEST_RETRY_AFTER == 3600),
        "for a day" * (link.ERA_SECONDS == 86_400),
        "HTTP {}, {}, {} or {} |".format(*dial.BUSY),
        f"{pipes.NOTED} lines for each connection",
        f"the last {dial.LOG_BYTES >> 20} to {dial.LOG_BYTES >> 19} MB",
        f"more than {pipes.LONGEST_MESSAGE >> 20} MiB",
        f"more than {pipes.ENDLESS_MESSAGE >> 20} MiB",
        f"{stdio.GRACE:g} s after its stdin was closed",
        f"waits {asking.KEPT_SECONDS:g} s for the answer",
    ):
        assert said and said in PAGE


def test_logs_are_shown_without_a_daemon():
    with home() as place:
        log = server_log(place.places.logs, "stub")
        log.parent.mkdir(parents=True)
        log.write_text("before\nlast words\n", encoding="utf-8")
        assert place.invoke("upstream", "logs", "stub", "--tail", "1").stdout == "last words\n"


def test_the_reference_is_what_the_code_gives():
    made = runpy.run_path(str(ROOT / "scripts" / "settings_reference.py"))["main"]()
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert page == made, "run scripts/reference"


def test_each_setting_is_explained():
    for model in (settings.Settings, settings.ServerSettings, settings.OAuth, settings.Ceilings):
        assert all(field.description for field in model.model_fields.values())
