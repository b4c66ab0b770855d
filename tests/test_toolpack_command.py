"""`mcpproxy toolpack`, tool packs in the configuration, and what `doctor` says of them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner
from packs import ENVIRON, cli, open_tools, put, serving_site
from test_toolpack_http import Site
from upstreams import until, wanted

from mcpproxy import jsonc
from mcpproxy.cli import main
from mcpproxy.cli.doctor import packs
from mcpproxy.cli.toolpack import KINDS
from mcpproxy.library import Library
from mcpproxy.listings import Listings
from mcpproxy.policy import LOCAL
from mcpproxy.settings import ServerSettings, check
from mcpproxy.upstream.fleet import open_fleet

PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def invoke(*words, status=0):
    done = CliRunner().invoke(main, [str(word) for word in words], env={"PATH": PATH})
    assert done.exit_code == status, done.output
    return done


def lacking(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        kind in ("node", "php") and shutil.which(kind) is None,
        reason=f"{kind} is not installed here",
    )


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=lacking(kind)) for kind in KINDS])
async def test_a_new_tool_works_as_it_is(tmp_path, kind):
    folder = tmp_path / "pack"
    said = invoke("toolpack", "new", "send-mail.2", "--kind", kind, "--dir", folder).stdout
    assert f"wrote {folder / 'send-mail.2.tool.yaml'}\n" in said
    assert invoke("toolpack", "check", folder).stdout == f"ok  send-mail.2 ({kind})\n"
    async with serving_site(Greeter) as site:
        if kind == "http":
            file = folder / "send-mail.2.tool.yaml"
            text = file.read_text(encoding="utf-8").replace("https://api.example.com", site.origin)
            file.write_text(f"{text}allow_hosts: [127.0.0.1]\n", encoding="utf-8")
        async with open_tools(folder, {**ENVIRON, "PATH": PATH}) as pack:
            found = await pack.call("send-mail.2", name="-Ada & Co")
    assert found == {"greeting": "Hello, -Ada & Co!"}


class Greeter(Site):
    """A site that knows how to greet."""

    async def answer(self, method, target, headers, body):
        assert target == "/greetings?name=-Ada%20%26%20Co"
        return 200, "", {"greeting": "Hello, -Ada & Co!"}


def test_a_new_tool_overwrites_nothing_and_has_a_plain_name(tmp_path):
    invoke("toolpack", "new", "x", "--kind", "python", "--dir", tmp_path)
    done = invoke("toolpack", "new", "x", "--kind", "cli", "--dir", tmp_path, status=2)
    assert "x.tool.yaml is there already" in done.stderr
    for name in ("../x", "a b", "", "-x", "a\nb"):
        done = invoke("toolpack", "new", "--kind", "cli", "--dir", tmp_path, "--", name, status=2)
        assert "NAME may have letters" in done.stderr


def test_check_names_file_line_and_reason(tmp_path):
    cli(tmp_path, "good")
    put(tmp_path, "sub/bad.tool.yaml", "id: bad\nkind: nonsense\n")
    done = invoke("toolpack", "check", tmp_path, status=1)
    assert done.stdout.startswith("ok  good (cli)\n!!  sub/bad.tool.yaml:2: kind: ")
    found = json.loads(invoke("toolpack", "check", "-o", "json", tmp_path, status=1).stdout)
    assert [each["name"] for each in found["tools"]] == ["good"]
    assert found["faults"][0]["file"] == "sub/bad.tool.yaml" and found["faults"][0]["line"] == 2
    assert "no such directory" in invoke("toolpack", "check", tmp_path / "none", status=1).stdout
    (tmp_path / "empty").mkdir()
    assert "there is no *.tool.yaml" in invoke("toolpack", "check", tmp_path / "empty").stderr


def test_doctor_names_what_is_wrong_with_a_pack(tmp_path):
    put(tmp_path, "bad.tool.yaml", "id: bad\n")
    server = ServerSettings(name="mine", protocol="toolpack", directory=str(tmp_path))
    found = list(packs(wanted(server)))
    assert found[0].what == f"tool pack mine has 0 tools in {tmp_path}" and not found[0].remedy
    assert found[1].what == "tool pack mine: bad.tool.yaml:1: kind is missing"
    assert found[1].remedy == f"mend it, then: mcpproxy toolpack check {tmp_path}"


def test_a_pack_is_added_by_its_directory(tmp_path):
    config = tmp_path / "c.json"
    config.write_text(
        '{"api_key": "k", "listen": "127.0.0.1:1", "mcpServers": []}', encoding="utf-8"
    )
    invoke("upstream", "add", "mine", "-c", config, "--directory", tmp_path)
    (entry,) = jsonc.loads(config.read_text(encoding="utf-8"))["mcpServers"]
    assert entry == {"name": "mine", "protocol": "toolpack", "directory": str(tmp_path)}


@pytest.mark.parametrize("directory", [None, "tools", "./tools"])
def test_a_pack_needs_a_directory_that_does_not_depend_on_where_the_daemon_runs(
    tmp_path, directory
):
    entry = {"name": "mine", "protocol": "toolpack", "directory": directory}
    found = check(tmp_path / "c.json", {"mcpServers": [entry]}, {})
    assert "must be the absolute path" in found.server_errors["mine"]


async def test_a_pack_is_a_server_like_any_other(tmp_path):
    folder = tmp_path / "pack"
    code = "import json, os, sys\nprint(json.dumps({'argv': sys.argv[1:], 'told': os.environ['TOLD']}))\n"
    cli(folder, "echo", "{{ input.x }}", code=code, env=["TOLD"])
    put(folder, "prompts/REGISTRY.yaml", "a: {b: [1]}")
    put(folder, "prompts/packs/a/b.v1.md", "Say {{ input.x }}.")
    put(folder, "prompts/packs/a/b.spec.yaml", "properties: {x: {type: string}}\nrequired: [x]")
    server = ServerSettings(
        name="mine", protocol="toolpack", directory=str(folder), env={"TOLD": "${env:ASKED}"}
    )
    environ = {**ENVIRON, "ASKED": "by-the-daemon"}
    async with open_fleet(wanted(server), environ, tmp_path / "state" / "logs") as fleet:
        with anyio.fail_after(20):
            await fleet.settled()
            assert fleet.status()[0]["state"] == "ready"
            result = await fleet.call("mine", "echo", {"x": "1"})
            assert result["structuredContent"] == {"argv": ["1"], "told": "by-the-daemon"}
            cli(folder, "later")
            await until(lambda: fleet.catalog.tool("mine", "later") is not None)
            library = Library(fleet, Listings(fleet))
            listed = await library.page("prompts/list", None, LOCAL)
            assert [each["name"] for each in listed["prompts"]] == ["mine__a.b@1", "mine__a.b"]
            got = await fleet.request(
                "mine", "prompts/get", {"name": "a.b", "arguments": {"x": "hi"}}
            )
            assert got["messages"][0]["content"]["text"] == "Say hi."


async def test_a_directory_that_is_not_there_is_said(tmp_path):
    server = ServerSettings(name="mine", protocol="toolpack", directory=str(tmp_path / "none"))
    async with open_fleet(wanted(server), ENVIRON, tmp_path / "logs") as fleet:
        with anyio.fail_after(20):
            await fleet.settled()
        assert fleet.status()[0]["error"] == f"its directory {tmp_path / 'none'} is not there"
