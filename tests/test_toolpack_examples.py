"""The example pack: each tool of it is called, each prompt filled in, and the README names them all."""

from __future__ import annotations

import json
import os
import shlex
import shutil

import anyio
import pytest
from click.testing import CliRunner
from packs import ENVIRON, open_tools, serving_site
from pages import ROOT, blocks, page
from test_toolpack_http import Site

from mcpproxy.cli import main

PACK = ROOT / "examples" / "toolpacks"


@pytest.fixture
async def pack(tmp_path):
    """A copy: nothing may be written beside the examples."""
    folder = tmp_path / "pack"
    shutil.copytree(PACK, folder)
    async with open_tools(folder, {**ENVIRON, "GITHUB_TOKEN": "plainly-fake-token"}) as opened:
        yield opened


async def test_csv_summary(pack):
    text = "name,age\nAda,36\nBob,41\nAda,\n"
    assert await pack.call("csv_summary", text=text) == {
        "rows": 3,
        "columns": [
            {"name": "name", "filled": 3, "distinct": 2},
            {"name": "age", "filled": 2, "distinct": 2, "min": 36, "max": 41},
        ],
    }
    wrong = await pack.error("csv_summary", text="a;b\n1;2;3\n", delimiter=";")
    assert wrong == ("EINVAL", "a line has more values than there are column names")


async def test_folder_size(pack, tmp_path):
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "$(id) file").write_bytes(b"x" * 200_000)
    assert (await pack.call("folder_size", path=str(tmp_path / "big")))["kib"] >= 190
    for path, code in ((str(tmp_path / "none"), "EINVAL"), ("-rf", "EINVAL"), ("/$(id)", "EINVAL")):
        assert (await pack.error("folder_size", path=path))[0] == code


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
async def test_format_money(pack):
    found = await pack.call("format_money", amount=1234.5, currency="EUR", locale="de-DE")
    assert found["text"].replace("\xa0", " ") == "1.234,50 €"
    assert await pack.call("format_money", amount=2, currency="USD") == {"text": "$2.00"}


@pytest.mark.skipif(shutil.which("php") is None, reason="php is not installed here")
async def test_html_text(pack):
    found = await pack.call("html_text", html="<p>Fish &amp;\n<b>chips</b></p>")
    assert found == {"text": "Fish & chips"}


async def test_github_repo(tmp_path):
    folder = tmp_path / "pack"
    shutil.copytree(PACK / "repos", folder)
    file = folder / "github_repo.tool.yaml"
    async with serving_site(Site) as site:
        text = file.read_text(encoding="utf-8").replace("https://api.github.com", site.origin)
        await anyio.Path(file).write_text(f"{text}allow_hosts: [127.0.0.1]\n", encoding="utf-8")
        for environ in (ENVIRON, {**ENVIRON, "GITHUB_TOKEN": "plainly-fake-token"}):
            async with open_tools(folder, environ) as pack:
                found = await pack.call("github_repo", owner="me", repo="notes.md")
                assert found["target"] == "/repos/me/notes.md"
                assert found["headers"]["accept"] == "application/vnd.github+json"
                token = found["headers"].get("authorization")
                assert token == ("Bearer plainly-fake-token" if "GITHUB_TOKEN" in environ else None)
                for wrong in ("../x", "a/b", "a?b", "a b", ""):
                    assert (await pack.error("github_repo", owner="me", repo=wrong))[0] == "EINVAL"


async def test_the_prompts(pack):
    result = await pack.source.prompt("writing.sectioned_draft", {"topic": "bees", "tone": "warm"})
    text = result["messages"][0]["content"]["text"]
    assert "Write a draft of 3 sections about bees." in text and "The tone is warm." in text
    old = await pack.source.prompt("writing.sectioned_draft@2", {"topic": "bees"})
    assert '"topic": "bees"' in old["messages"][0]["content"]["text"]


def test_the_commands_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("mcpproxy.logs.set_up", lambda *_: None)  # the logs are the tests'
    for program in ("node", "php"):  # are looked for, not run
        (tmp_path / program).touch(0o700)
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "MCPPROXY_LISTEN": "127.0.0.1:0",
        "XDG_STATE_HOME": str(tmp_path),
    }
    said = []
    for line in blocks(page("examples/toolpacks/README.md"), "sh")[0].splitlines():
        done = CliRunner().invoke(main, shlex.split(line)[1:], env=environ)
        assert done.exit_code == 0, done.output
        said.append(done.stdout)
    assert "csv_summary" in said[0] and json.loads(said[2])["rows"] == 2


def test_each_tool_is_listed_and_tested():
    listed = (PACK / "README.md").read_text(encoding="utf-8")
    names = {path.name.removesuffix(".tool.yaml") for path in PACK.rglob("*.tool.yaml")}
    assert len(names) == 5
    for name in names:
        assert f"/{name}.tool.yaml)" in listed and f"test_{name}" in globals()
