"""What all commands share: how they are asked, what they print, and how they find the daemon."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
import threading

import click
import pytest
from click.testing import CliRunner
from running import home

from mcpproxy import settings
from mcpproxy.cli import asking, local, main, telling
from mcpproxy.errors import SettingsError
from mcpproxy.journal.records import STATUSES, TYPES


@pytest.mark.parametrize("words", [["--help"], ["code", "exec", "--help"], ["--version"]])
def test_help_is_help(words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0
    assert done.stderr == ""


def test_no_sentence_about_a_command_is_cut():
    groups = {words[:-1] for words, _ in commands()}
    for words in groups:
        said = " ".join(CliRunner().invoke(main, [*words, "--help"]).stdout.split())
        assert "..." not in said.partition("Commands:")[2], words


def commands(group=main, words=()):
    """Each command with the words that lead to it."""
    for name, each in group.commands.items():
        if isinstance(each, click.Group):
            yield from commands(each, (*words, name))
        else:
            yield (*words, name), each


def test_all_commands_are_asked_in_the_same_way(tmp_path):
    gone = str(tmp_path / "gone.json")
    for words, command in commands():
        options = {each for param in command.params for each in param.opts}
        if "-o" in options and words[-1] not in ("export", "types"):
            assert {"--json", "--output", "-o"} <= options, words
        if "--config" in options:
            done = CliRunner().invoke(main, [*words, "--config", gone])
            assert done.exit_code in (2, 4) and "no configuration at" in done.stderr, words
            assert done.stdout == ""


def test_each_option_is_explained_with_its_default():
    for words, command in commands():
        for option in (each for each in command.params if isinstance(each, click.Option)):
            assert option.help and option.help[-1] in ".]", (words, option.opts)
            if isinstance(option.default, str | int) and not option.is_flag:
                usual = "--output" in option.opts and option.default == "table"
                assert usual or option.help.endswith(f"[{option.default}]"), (words, option.opts)


def test_the_records_that_can_be_chosen_are_all_named():
    helps = {each.name: each.help for each in main.commands["activity"].commands["list"].params}
    assert re.findall(r"\w+", helps["type"].replace(" or ", ", ")) == list(TYPES)
    assert re.findall(r"\w+", helps["status"].replace(" or ", ", ")) == list(STATUSES)


LISTS = ("upstream", "token", "secrets", "code cache", "tools", "activity")


def test_an_empty_list_says_so_and_has_no_head():
    with home(mcpServers=[]) as place:
        for words in (*((*one.split(), "list") for one in LISTS), ("auth", "status")):
            given = [*words, "--config", str(place.config)]
            people = CliRunner(env=place.environ).invoke(main, given)
            assert (people.exit_code, people.stdout) == (0, "") and people.stderr, words
            programs = CliRunner(env=place.environ).invoke(main, [*given, "--json"])
            assert programs.exit_code == 0 and json.loads(programs.stdout) is not None


def test_a_person_is_told_of_commands_and_not_of_a_model_s_tools():
    with home(mcpServers=[]) as place:
        done = place.invoke("code", "cache", "show", "0123456789abcdef")
    assert done.exit_code == 2
    assert done.stderr.endswith("; mcpproxy code cache list shows what is kept\n")


# ── streams ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_a_command_with_closed_streams_has_them_lead_nowhere(closed):
    code = (
        "import os, socket, sys; from mcpproxy.cli import telling; telling.open_streams();"
        "telling.show_json({}); sys.stdin.read(); os._exit(0 if socket.socket().fileno() > 2 else 1)"
    )
    shut = " ".join(f"{each}>&-" for each in closed)
    assert (
        subprocess.run(["sh", "-c", f'"$0" -c "$1" {shut}', sys.executable, code]).returncode == 0
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "x" * 5000], "too long"),
        (["--config", "~no-such-user/c.json"], "there is no configuration at ~no-such-user"),
        (["--tool", "\udcff"], "not UTF-8"),
    ],
)
def test_an_argument_that_can_not_be_used_is_one_line(tmp_path, words, said, monkeypatch):
    monkeypatch.setattr(local, "find", lambda config: local.Running("a test"))
    (tmp_path / "c.json").write_text("{}", encoding="utf-8")
    here = ["--config", str(tmp_path / "c.json")]
    done = CliRunner().invoke(main, ["activity", "list", *here, *words])
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_disk_that_is_full_is_one_line(tmp_path):
    (tmp_path / "c.json").write_text("{}", encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "mcpproxy.cli",
        "code",
        "scripts",
        "list",
        "--config",
        str(tmp_path / "c.json"),
    ]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [
        "mcpproxy: the answer can't be written: No space left on device"
    ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_what_is_said_besides_may_be_lost_and_the_answer_is_not():
    code = (
        "import sys, click; from mcpproxy.cli import telling; telling.open_streams();"
        "click.echo('running', err=True); print('more', file=sys.stderr); telling.show_json(1)"
    )
    for place in ("2>/dev/full", "2>&-"):
        words = ["sh", "-c", f'"$0" -c "$1" {place}', sys.executable, code]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
        assert (done.returncode, done.stdout) == (0, b"1\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), "change to another"),
        (OSError(errno.EMFILE, "Too many open files", "/dev/null"), "allow more (ulimit -n)"),
    ],
)
def test_what_the_system_does_not_allow_is_one_line(monkeypatch, error, said):
    """Such as to ask for the current folder once it is gone."""

    def fails(*_):
        raise error

    monkeypatch.setattr("mcpproxy.cli.importing.usual", fails)
    done = CliRunner().invoke(main, ["upstream", "import"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1) and said in done.stderr


def test_a_table_takes_what_the_terminal_can_not_show(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    telling.open_streams()
    telling.show_table(("NAME",), [("中ä",)])
    telling.show_json("ä\ud800")
    assert sys.stdout.buffer.getvalue() == b'NAME\n\\u4e2d\xe4\n"\xc3\xa4\\ud800"\n'


# ── finding the daemon ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("document", "environ", "expected"),
    [
        ('{"api_key": "k"}', {}, ("127.0.0.1", 8080, "k")),
        ('{"api_key": "k", "listen": ":9"}', {}, ("127.0.0.1", 9, "k")),
        ('{"api_key": "k", "listen": "[::1]:9", /* c */ }', {}, ("::1", 9, "k")),
        ('{"listen": "h:1"}', {"LISTEN": "i:2", "API_KEY": "l"}, ("i", 2, "l")),
        ('{"listen": "h:1"}', {}, None),
        ('{"api_key": 7}', {}, None),
        ('{"api_key": "k", "listen": "h:0"}', {}, None),
        ('{"api_key": "k", "listen": "h:99999"}', {}, None),
        ('{"api_key": "k", "listen": 8080}', {}, None),
        ('{"api_key": "k"}', {"LISTEN": "h:" + "9" * 5000}, None),
        ("{", {}, None),
        ("[]", {}, None),
    ],
)
def test_the_configured_address_is_where_a_daemon_may_be(
    tmp_path, monkeypatch, document, environ, expected
):
    config = tmp_path / "c.json"
    config.write_text(document, encoding="utf-8")
    for name, value in {"DATA_DIR": str(tmp_path), **environ}.items():
        monkeypatch.setenv(f"MCPPROXY_{name}", value)
    monkeypatch.setattr(local, "TABLES", ())
    found = [(each.host, each.port, each.key) for each in local.candidates(str(config))]
    assert found == ([expected] if expected else [])


def test_an_empty_data_dir_is_none_for_the_command_as_for_the_daemon(tmp_path, monkeypatch):
    monkeypatch.delenv("MCPPROXY_DATA_DIR", raising=False)
    config = tmp_path / "c.json"
    config.write_text('{"api_key": "k", "data_dir": ""}', encoding="utf-8")
    assert local.places_of(str(config)) == settings.load(config, {}).places


def test_what_is_no_place_at_all_is_said_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("MCPPROXY_DATA_DIR", raising=False)
    config = tmp_path / "c.json"
    config.write_text(r'{"data_dir": "\u0000"}', encoding="utf-8")
    with pytest.raises(SettingsError, match="data_dir must be the path of a folder"):
        local.find(str(config))


def test_an_address_that_can_not_be_has_no_daemon():
    daemon = local.Running("x", host="a" * 70, port=1, key="k")
    with pytest.raises(local.NoAnswer):
        local.request(daemon, "GET", "/livez", timeout=1)


@pytest.mark.threat("L2")
@pytest.mark.parametrize(
    ("owner", "state", "there"), [(0, "0A", True), (1, "0A", False), (1, "01", True)]
)
def test_no_key_goes_to_a_port_where_another_user_listens(
    tmp_path, monkeypatch, owner, state, there
):
    config, table = tmp_path / "c.json", tmp_path / "tcp"
    config.write_text('{"api_key": "k", "listen": "127.0.0.1:8191"}', encoding="utf-8")
    line = f"0: 0100007F:1FFF 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {os.getuid() + owner} 0 1"
    table.write_text(f"  sl  local_address ...\n{line}\n", encoding="ascii")
    monkeypatch.setenv("MCPPROXY_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(local, "TABLES", (table,))
    assert bool(list(local.candidates(str(config)))) is there


@pytest.mark.parametrize(
    ("live", "config", "asked", "found"),
    [
        ({"status": "ok"}, "/c.json", [("/livez", ""), ("/api/v1/status", "k")], True),
        ({"status": "ok"}, "/other.json", [("/livez", ""), ("/api/v1/status", "k")], False),
        ({"ok": True}, "/c.json", [("/livez", "")], False),
    ],
)
def test_the_key_is_shown_to_nobody_who_does_not_answer_as_we_do(
    monkeypatch, live, config, asked, found
):
    seen = []

    def request(daemon, verb, path, *, timeout):
        seen.append((path, daemon.key))
        return 200, live if path == "/livez" else {"data": {"config": config}}

    monkeypatch.setattr(local, "request", request)
    daemon = local.Running("http://127.0.0.1:1", host="127.0.0.1", port=1, key="k")
    assert local.answers(daemon, "/c.json") is found
    assert seen == asked


def test_who_waits_long_for_an_answer_is_told_so(monkeypatch):
    said = threading.Event()
    monkeypatch.setattr(asking, "SILENT_SECONDS", 0)
    monkeypatch.setattr(asking.click, "echo", lambda text, err: said.set())
    monkeypatch.setattr(local, "find", lambda config: local.Running("a test"))
    monkeypatch.setattr(local, "request", lambda *_, timeout: (200, {"data": said.wait(timeout)}))
    assert asking.ask(None, "GET", "/", lambda: None) is True


def test_a_key_is_not_in_what_is_printed():
    assert "secret" not in repr(local.Running("x", key="secret"))
