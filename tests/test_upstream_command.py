"""`mcpproxy upstream`, with a daemon and without one."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner
from running import home
from upstreams import STUB

from mcpproxy import jsonc
from mcpproxy.cli import main
from mcpproxy.cli.serverlog import following

FILE = '{\n  // ours\n  "api_key": "k",\n  "listen": "127.0.0.1:1",\n  "mcpServers": {}\n}\n'
COMMAND = [sys.executable, "-I", "-S", STUB]


class Place:
    """A configuration without a daemon, and the command line in this process."""

    def __init__(self, folder, monkeypatch):
        self.config = folder / "c.json"
        self.config.write_text(FILE, encoding="utf-8")
        self.state = folder / "state"
        monkeypatch.setenv("MCPPROXY_DATA_DIR", str(self.state))

    def run(self, verb, *words, status=0):
        done = CliRunner().invoke(main, ["upstream", verb, "-c", str(self.config), *words])
        assert done.exit_code == status, done.output
        return done

    @property
    def servers(self):
        return jsonc.loads(self.config.read_text(encoding="utf-8"))["mcpServers"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    return Place(tmp_path, monkeypatch)


def test_without_a_daemon_the_file_is_changed(place):
    assert "changing" in place.run("add", "a", "--env", "K=a=b", "--", "x", "--flag", "-c").stderr
    place.run(
        "add", "b", "--url", "http://h/", "--header", "X-A=1", "--protocol", "sse", "--disabled"
    )
    assert place.servers == {
        "a": {"command": "x", "args": ["--flag", "-c"], "env": {"K": "a=b"}},
        "b": {"url": "http://h/", "headers": {"X-A": "1"}, "protocol": "sse", "enabled": False},
    }
    place.run("disable", "a")
    place.run("enable", "b")
    assert [each["enabled"] for each in place.servers.values()] == [False, True]
    assert place.run("list").stdout.splitlines() == [
        "NAME  STATE        TOOLS  WHY",
        "a     disabled",
        "b     not running",
    ]
    assert json.loads(place.run("list", "-o", "json").stdout)[0]["name"] == "a"
    place.run("remove", "a")
    place.run("remove", "b")
    assert place.servers == {}
    assert "// ours" in place.config.read_text(encoding="utf-8")


def test_what_is_added_after_the_first_start_is_said_to_wait(place):
    assert "wait" not in place.run("add", "a", "--", "x").stderr
    place.state.mkdir()
    (place.state / "approvals.sqlite3").touch()
    said = place.run("add", "my b", "--", "x").stderr
    assert "my b will wait for approval: mcpproxy upstream inspect 'my b'" in said
    assert "wait" not in place.run("add", "c", "--no-quarantine", "--", "x").stderr
    assert place.servers["c"]["quarantined"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "a"], "one of them"),
        (["add", "a", "--url", "http://h/", "--", "x"], "one of them"),
        (["add", "a", "--env", "K", "--", "x"], "NAME=VALUE"),
        (["add", "a", "--header", "K=v", "--", "x"], "--header is for a server or an API on HTTP"),
        (["add", "a", "--env", "K=v", "--url", "http://x"], "--env is for a command"),
        (["add", "a", "--working-dir", "d", "--url", "http://x"], "--working-dir is for a command"),
        (["add", "a\nb", "--", "x"], "name 'a\\nb' must not contain line breaks"),
        (["add", "a:b", "--", "x"], "':'"),
        (["add", "a", "--url", "h"], "http://"),
        (["remove", "nothing"], "there are none"),
        (["logs", "nothing"], "there are none"),
        (["restart", "a"], "mcpproxy serve"),
        (["import", "--file", "nothing.json"], "nothing.json"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(place, words, said):
    done = place.run(*words, status=2)
    assert said in done.stderr.splitlines()[-1]
    assert place.config.read_text(encoding="utf-8") == FILE


def test_a_list_without_a_daemon_says_what_can_not_be_used(place):
    place.config.write_text('{"mcpServers": {"a": {"command": 5}, "b": {"command": "x"}}}', "utf-8")
    _, b, a = place.run("list").stdout.splitlines()
    assert b.split() == ["b", "not", "running"]
    assert a.split()[:2] == ["a", "down"] and "command: input should be a valid string" in a
    for broken in (b'{"mcpServers": ', b"\xff", b"[]"):
        place.config.write_bytes(broken)
        done = place.run("list", status=2)
        assert (done.stdout, str(place.config) in done.stderr) == ("", True)


def test_a_file_without_servers_is_said_to_have_none(place, tmp_path):
    (tmp_path / "other.json").write_text('{"x": 1}', encoding="utf-8")
    assert "no servers in it" in place.run("import", "--file", str(tmp_path / "other.json")).stdout


def test_a_path_holds_wherever_the_daemon_is_started(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place.run("add", "a", "--", "./bin/run", "./data")
    place.run("add", "b", "--working-dir", "sub", "--", "./run")
    place.run("add", "c", "--working-dir", "~/sub", "--", "~/bin/run")
    place.run("add", "d", "--working-dir", "${env:D}", "--", "${env:D}/run")
    assert place.servers == {
        "a": {"command": str(tmp_path / "bin/run"), "args": ["./data"]},
        "b": {"command": "./run", "working_dir": str(tmp_path / "sub")},
        "c": {"command": "~/bin/run", "working_dir": "~/sub"},
        "d": {"command": "${env:D}/run", "working_dir": "${env:D}"},
    }


def test_servers_of_another_client_are_imported_once(place, tmp_path):
    other = tmp_path / "other.json"
    document = {"mcpServers": {"a": {"command": "x"}, "proxy": {"command": "mcpproxy"}}}
    other.write_text(json.dumps(document), encoding="utf-8")
    dry = place.run("import", "--file", str(other), "--dry-run").stdout
    assert dry.splitlines()[1:] == ["  would add a", "  skipped proxy: it is mcpproxy itself"]
    assert place.servers == {}
    assert "added a" in place.run("import", "--file", str(other)).stdout
    assert place.servers == {"a": {"command": "x"}}
    assert "it is there already" in place.run("import", "--file", str(other)).stdout


def test_what_can_not_be_used_of_another_client_is_skipped_and_the_rest_is_imported(
    place, tmp_path
):
    other = tmp_path / "other.json"
    document = {"a": {"command": "x"}, "b": {"url": "ws://h/"}, "c": {"command": "y"}}
    other.write_text(json.dumps({"mcpServers": document}), encoding="utf-8")
    said = place.run("import", "--file", str(other)).stdout
    assert "skipped b: url of 'b' must be a URL that begins with http" in said
    assert place.servers.keys() == {"a", "c"}


def test_clients_are_looked_for_in_their_places(place, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}', encoding="utf-8")
    (report,) = json.loads(place.run("import", "-o", "json").stdout)  # at home and here: one file
    assert report["added"] == ["a"] and not report["skipped"]
    assert "cursor" not in place.run("import", "--from", "vscode", status=2).stderr
    file.write_text('{"mcpServers": {"b": {"command": "x"}}}', encoding="utf-8")
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "mcp.json").write_text("{", encoding="utf-8")
    assert "not valid JSON" in place.run("import", status=2).stderr
    assert place.servers.keys() == {"a"}


def test_the_end_of_a_log_is_shown_and_followed(place):
    place.run("add", "a", "--", "x")
    log = place.state / "logs" / "server-a.log"
    assert "nothing yet" in place.run("logs", "a").stderr
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\n", encoding="utf-8")
    assert place.run("logs", "a", "--tail", "1").stdout == "two\n"
    follow = following(log, 4)
    assert next(follow) == "two\n"
    log.rename(log.with_name("server-a.log.1"))
    log.write_text("new\n", encoding="utf-8")
    assert next(follow) == "new\n"
    for piece, seen in ((b"gr\xc3", "gr"), (b"\xb6\xc3\x9fe\n", "öße\n")):
        with log.open("ab") as file:
            file.write(piece)
        assert next(follow) == seen


def test_with_a_daemon_changes_hold_at_once():
    with home(mcpServers=[]) as place, place.serving() as serving:
        words = [
            "upstream",
            "add",
            "-c",
            str(place.config),
            "--no-quarantine",
            "stub",
            "--",
            *COMMAND,
        ]
        done = CliRunner(env=place.environ).invoke(main, words)
        assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "added stub")
        assert serving.execute("(await tools.stub.add({a: 2, b: 3}))")["value"] == {"sum": 5}
        assert "is ready" in place.run("upstream", "restart", "stub").stdout
        broken = {"name": "broken", "command": "sh", "args": ["-c", "echo no key >&2"], "quarantined": False}  # fmt: skip
        serving.ask("POST", "/api/v1/servers", broken)
        down = place.invoke("upstream", "restart", "broken")
        assert (down.exit_code, down.stdout) == (1, "")
        assert "broken was restarted, and is down: " in down.stderr and "no key" in down.stderr
        told = place.invoke("upstream", "restart", "broken", "--json")
        assert (told.exit_code, json.loads(told.stdout)["state"]) == (1, "down")
        serving.ask("DELETE", "/api/v1/servers/broken")
        assert "stub  ready" in place.run("upstream", "list").stdout
        assert "did you mean 'stub'?" in place.run("upstream", "disable", "stubb").stderr
        assert place.run("upstream", "disable", "stub").returncode == 0
        assert serving.ask("GET", "/api/v1/servers/stub").body["data"]["state"] == "disabled"
        assert place.run("upstream", "remove", "stub").returncode == 0
        assert serving.ask("GET", "/api/v1/servers").body["data"]["servers"] == []
