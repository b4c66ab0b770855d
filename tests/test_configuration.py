"""Settings that change while the daemon runs: over REST, in the file, and not at all when they are broken."""

from __future__ import annotations

import json
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from urllib.parse import unquote

import anyio
import pytest
from asgi import ask
from fakes import no_journal
from running import home
from upstreams import STUB, until

from mcpproxy import admin, entries, jsonc, settings
from mcpproxy.configuration import Configuration, differences
from mcpproxy.errors import SettingsError
from mcpproxy.guard import Guard
from mcpproxy.policy import ADMIN, Caller
from mcpproxy.rest.api import open_api
from mcpproxy.settings import Settings
from mcpproxy.watching import watch

STUB_ENTRY = {"name": "stub", "command": sys.executable, "args": ["-I", "-S", STUB]}
FILE = """\
{
  // the team's servers
  "listen": "127.0.0.1:0",
  "api_key": "k",
  "mcpServers": [
    {"name": "one", "url": "http://127.0.0.1:9/mcp", "enabled": false}, // keep me
  ],
  "own": {"of another tool": 1}
}
"""


class FakeFleet:
    """Becomes what it is told, and remembers it."""

    def __init__(self) -> None:
        self.restarted: list[str] = []

    def become(self, wanted: Settings) -> None:
        self.wanted = wanted

    def status(self):
        return [{"name": each.name, "state": "ready"} for each in self.wanted.servers]

    async def restart(self, name):
        self.restarted.append(name)


class FakeDaemon:
    def __init__(self, loaded: settings.Loaded) -> None:
        self.fleet = FakeFleet()
        self.configuration = Configuration(loaded, self.apply)
        self.places = loaded.places
        self.journal = no_journal()
        self.apply(loaded)

    def apply(self, loaded: settings.Loaded) -> None:
        self.settings = loaded.settings
        self.server_errors = loaded.server_errors
        self.fleet.become(loaded.settings)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mcp_config.json"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def daemon(file, tmp_path, anyio_backend):
    return FakeDaemon(settings.load(file, {"MCPPROXY_DATA_DIR": str(tmp_path / "state")}))


@pytest.fixture
def app(daemon):
    return Guard(open_api(daemon), daemon.settings, local=True)


async def post(app, path, body=None, method="POST"):
    raw = b"" if body is None else json.dumps(body).encode()
    return await ask(app, method, path, raw, headers={"Content-Type": "application/json"})


SERVERS = "/api/v1/servers"


# ── over REST ───────────────────────────────────────────────────────────────────────────────────


async def test_a_server_is_added_to_the_file_and_to_the_fleet(app, daemon, file):
    entry = {"name": "two", "command": "two", "args": ["-x"], "of_ours": 1}
    answer = await post(app, SERVERS, entry)
    assert answer.status == 200
    assert answer.body["data"]["server"] == {"name": "two", "state": "ready"}
    assert answer.body["data"]["changed"] == ["mcpServers.two"]
    assert [each.name for each in daemon.fleet.wanted.servers] == ["one", "two"]
    text = file.read_text(encoding="utf-8")
    assert jsonc.loads(text)["mcpServers"][1] == entry
    assert [line for line in FILE.splitlines() if line not in text.splitlines()] == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_several_who_change_the_file_at_once_lose_nothing(file):
    before = len(jsonc.loads(file.read_text(encoding="utf-8"))["mcpServers"])

    def provide(who):
        for n in range(5):
            entry = {"name": f"{who}{n}", "command": "x"}
            entries.change(file, lambda text, entry=entry: entries.add(text, entry), {})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(provide, "abcd"))
    assert len(jsonc.loads(file.read_text(encoding="utf-8"))["mcpServers"]) == before + 20


async def test_adding_and_removing_leaves_the_file_as_it_was(app, file):
    await post(app, SERVERS, {"name": "a/b c", "command": "two"})
    assert file.read_text(encoding="utf-8") != FILE
    answer = await ask(RawPath(app), "DELETE", f"{SERVERS}/a%2Fb%20c")
    assert answer.body["data"]["removed"] is True
    assert file.read_text(encoding="utf-8") == FILE


class RawPath:
    """Gives an application the path as servers do: decoded, and as it came."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        raw = scope["path"]
        await self.app({**scope, "raw_path": raw.encode(), "path": unquote(raw)}, receive, send)


async def test_a_server_is_switched_in_the_file(app, daemon, file):
    answer = await post(app, f"{SERVERS}/one/enable")
    assert answer.body["data"]["applied"] is True
    assert file.read_text(encoding="utf-8") == FILE.replace("false", "true")
    assert daemon.fleet.wanted.servers[0].enabled
    await post(app, f"{SERVERS}/one/disable")
    assert file.read_text(encoding="utf-8") == FILE


async def test_a_server_is_restarted(app, daemon):
    assert (await post(app, f"{SERVERS}/one/restart")).body["data"]["state"] == "ready"
    assert daemon.fleet.restarted == ["one"]


async def test_a_restart_is_waited_for_within_bounds(daemon, monkeypatch):
    monkeypatch.setattr(admin, "RESTART_SECONDS", 0.0)
    daemon.fleet.restart = lambda name: anyio.sleep_forever()
    daemon.fleet.status = lambda: [{"name": "one", "state": "down", "error": "it is restarted"}]
    with anyio.fail_after(5):
        found = await admin.Admin(daemon).restart("one")
    assert found["error"] == "it is not there after 0 s, and is still waited for"


async def test_a_server_that_can_not_be_used_is_not_restarted_and_says_why(app, file):
    file.write_text('{"api_key": "k", "mcpServers": {"bad": {}}}', encoding="utf-8")
    await post(app, "/api/v1/config/apply")
    answer = await post(app, f"{SERVERS}/bad/restart")
    assert answer.status == 400 and "neither command nor url" in answer.body["error"]["message"]


async def test_a_server_is_shown_without_its_secrets(app):
    headers = {"Authorization": "Bearer s3cret", "X-Team": "${env:TEAM}"}
    await post(app, SERVERS, {"name": "two", "url": "http://127.0.0.1:9/", "headers": headers})
    answer = await post(app, f"{SERVERS}/two", method="GET")
    assert answer.body["data"]["settings"]["headers"]["X-Team"] == "${env:TEAM}"
    assert "s3cret" not in answer.text


async def test_the_end_of_a_log_is_shown(app, daemon):
    log = daemon.places.logs / "server-one.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {n}\n" for n in range(20_000)), encoding="utf-8")
    lines = (await post(app, f"{SERVERS}/one/logs?tail=2", method="GET")).body["data"]["lines"]
    assert lines == ["line 19998", "line 19999"]
    assert (await post(app, f"{SERVERS}/one/logs?tail=-1", method="GET")).status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("DELETE", ""), ("POST", "/enable"), ("POST", "/restart"), ("GET", "/logs")],
)
async def test_an_unknown_server_is_a_404_that_names_close_ones(app, method, path):
    answer = await post(app, f"{SERVERS}/onne{path}", method=method)
    assert (answer.status, answer.body["error"]["code"]) == (404, "NOT_FOUND")
    assert "did you mean 'one'?" in answer.body["error"]["message"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "x"}, "name"),
        ({"name": "one", "command": "x"}, "already"),
        ({"name": "a:b", "command": "x"}, "':'"),
        ({"name": "two"}, "neither command nor url"),
        ({"name": "two", "command": "x", "args": "y"}, "args: "),
        ({"name": "two", "command": "x", "args": ["y", 1]}, "args[1]: "),
        ({"name": "two", "url": "ftp://x"}, "url of 'two' must be a URL that begins with http://"),
        ({"name": "two", "url": "http://[::1"}, "url of 'two' must be a URL that begins with"),
        (
            {"name": "two", "command": "x", "url": "http://x"},
            "server 'two' has both command and url",
        ),
        ({"name": "two", "command": "x", "env": {"A": 1}}, "env.A: "),
    ],
)
async def test_an_entry_that_can_not_be_used_is_refused_and_not_written(app, file, entry, said):
    answer = await post(app, SERVERS, entry)
    assert answer.status == 400
    assert said in answer.body["error"]["message"]
    assert "mcpServers" not in answer.body["error"]["message"]  # which isn't in what was sent
    assert file.read_text(encoding="utf-8") == FILE


async def test_servers_are_for_administrators(daemon):
    app = open_api(daemon)

    async def agent(scope, receive, send):
        state = {"caller": Caller("agent", "token"), "request_id": "r"}
        await app({**scope, "state": state}, receive, send)

    for method, path in [
        ("POST", SERVERS),
        ("DELETE", f"{SERVERS}/one"),
        ("POST", "/api/v1/config/apply"),
        ("GET", "/api/v1/config"),
    ]:
        assert (await ask(agent, method, path)).status == 403
    assert ADMIN.admin


async def test_the_form_of_an_object_is_kept(app, file):
    file.write_text('{"api_key": "k", "mcpServers": {"one": {"command": "x"}}}', encoding="utf-8")
    await post(app, SERVERS, {"name": "two", "command": "y"})
    await post(app, f"{SERVERS}/one/disable")
    found = jsonc.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    assert found == {"one": {"command": "x", "enabled": False}, "two": {"command": "y"}}


async def test_what_is_in_force_is_shown_with_its_origin_and_without_secrets(file, tmp_path):
    file.write_text(
        """{"api_key": "k-of-the-tests", "listen": "127.0.0.1:1", "call_tool_timeout": 2500,
            "code_execution_limits": {"max_timeout_ms": 9}, "mcpServers": [
            {"name": "one", "url": "http://h/", "headers": {"X-Key": "s3cret"}, "init_timeout": "1m"},
            {"name": "bad"}]}""",
        encoding="utf-8",
    )
    environ = {"MCPPROXY_DATA_DIR": str(tmp_path / "state")}
    flags = {"listen": "127.0.0.1:0", "logging.level": "warn"}
    daemon = FakeDaemon(settings.load(file, environ, flags))
    app = Guard(open_api(daemon), daemon.settings, local=True)
    answer = await post(app, "/api/v1/config", method="GET")
    assert "k-of-the-tests" not in answer.text and "s3cret" not in answer.text
    found = answer.body["data"]
    wanted = {
        "listen": ("127.0.0.1:0", "flag"),
        "logging.level": ("warn", "flag"),
        "data_dir": (str(tmp_path / "state"), "environment"),
        "api_key": ("(hidden)", "file"),
        "call_tool_timeout": ("2.5s", "file"),
        "init_timeout": ("30s", "default"),
        "code_execution_limits.max_timeout_ms": (9, "file"),
        "code_execution_limits.max_tool_calls": (None, "default"),
    }
    assert {name: (*found["settings"][name].values(),) for name in wanted} == wanted
    assert found["mcpServers"]["one"]["init_timeout"] == "60s"
    assert "neither command nor url" in found["left_out"]["bad"]
    file.write_text('{"api_key": "k-of-the-tests", "logging": {"level": "error"}, "tool_response_limit": 7}', encoding="utf-8")  # fmt: skip
    await post(app, "/api/v1/config/apply")
    found = (await post(app, "/api/v1/config", method="GET")).body["data"]["settings"]
    assert found["tool_response_limit"] == {"value": 7, "from": "file"}
    assert found["call_tool_timeout"]["from"] == "default"
    assert found["logging.level"] == {"value": "warn", "from": "flag"}


def test_the_command_shows_the_file_where_no_daemon_runs():
    with home(tool_response_limit=7, call_tool_timeout="2m") as place:
        shown = place.invoke("config", "show")
        rows = [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
        assert ["tool_response_limit", "file", "7"] in rows
        assert ["call_tool_timeout", "file", "120s"] in rows
        assert ["api_key", "file", "(hidden)"] in rows
        assert ["mcpServers.stub", "file"] in [row[:2] for row in rows]
        assert str(place.config) in shown.stderr
        told = json.loads(place.invoke("config", "show", "--json").stdout)
        assert told["settings"]["tool_response_limit"] == {"value": 7, "from": "file"}
        # What is shown can be written back, but for the key, which isn't shown.
        written = {name: one["value"] for name, one in told["settings"].items() if "." not in name}
        assert written.pop("api_key") == "(hidden)"
        again = settings.check(place.config, {**written, "mcpServers": list(told["mcpServers"].values())}, {})  # fmt: skip
        assert again.settings.call_tool_timeout == 120 and not again.warnings


# ── read anew ───────────────────────────────────────────────────────────────────────────────────


async def test_what_changed_is_said_and_what_needs_a_restart_waits_for_it(app, daemon, file):
    changed = FILE.replace('"k"', '"k2"').replace(
        "{\n", '{\n  "code_execution_timeout_ms": 5,\n', 1
    )
    file.write_text(changed, encoding="utf-8")
    answer = await post(app, "/api/v1/config/apply")
    assert answer.body["data"]["changed"] == ["code_execution_timeout_ms"]
    assert answer.body["data"]["requires_restart"] == ["api_key"]
    assert answer.body["data"]["warnings"] == [
        "unknown setting 'own' is kept and has no effect here"
    ]
    assert daemon.settings.code_execution_timeout_ms == 5
    assert daemon.settings.api_key.get_secret_value() == "k"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FILE[:80], "not valid JSON"),
        ("", "line 1"),
        (FILE.replace('"127.0.0.1:0"', "7"), "listen"),
        ('{"mcpServers": 1}', "mcpServers"),
    ],
)
async def test_a_broken_document_changes_nothing_and_is_reported(app, daemon, file, text, said):
    before = daemon.settings
    file.write_text(text, encoding="utf-8")
    answer = await post(app, "/api/v1/config/apply")
    assert answer.status == 400
    assert said in answer.body["error"]["message"]
    assert said in daemon.configuration.error
    assert daemon.settings is before
    assert (await post(app, f"{SERVERS}/one/enable")).status == 400
    assert file.read_text(encoding="utf-8") == text
    file.write_text(FILE, encoding="utf-8")
    await post(app, "/api/v1/config/apply")
    assert daemon.configuration.error is None


async def test_a_file_that_is_gone_changes_nothing(daemon, file):
    file.unlink()
    with pytest.raises(SettingsError, match="no configuration"):
        await daemon.configuration.reload()
    assert [each.name for each in daemon.settings.servers] == ["one"]


async def test_a_link_is_followed_when_the_file_is_written(app, file, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    target = file.rename(tmp_path / "dotfiles" / "real.json")
    file.symlink_to(target)
    await post(app, f"{SERVERS}/one/enable")
    assert file.is_symlink()
    assert "true" in target.read_text(encoding="utf-8")


def test_differences_name_settings_and_servers():
    one, two = ({"name": name, "command": "x"} for name in ("one", "two"))
    before = Settings.model_validate({"mcpServers": [one, two]})
    after = Settings.model_validate(
        {"mcpServers": [{**one, "lazy": True}, {**two, "name": "three"}], "call_tool_timeout": 1}
    )
    assert differences(before, after) == [
        "call_tool_timeout", "mcpServers.one", "mcpServers.two", "mcpServers.three",
    ]  # fmt: skip


@asynccontextmanager
async def watching(configuration):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(configuration.watch)
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["away", pytest.param("J\udcf6rg", id="no text")])
async def test_files_are_looked_at_where_nobody_tells_of_changes(
    tmp_path, monkeypatch, caplog, name
):
    """A folder that isn't there, and one whose name isn't UTF-8."""
    monkeypatch.setattr("mcpproxy.watching.LOOK_MS", 1)
    caplog.set_level("INFO", "mcpproxy")
    enough, looks = anyio.Event(), []

    async def look():
        looks.append(1)
        if len(looks) == 3:
            enough.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, look, tmp_path / name)
        with anyio.fail_after(20):
            await enough.wait()
        tasks.cancel_scope.cancel()
    assert caplog.text.count("is looked at every 0.001 s") == 1


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_written_or_replaced_is_read_anew(daemon, file, replaced, caplog):
    with anyio.fail_after(20):
        async with watching(daemon.configuration):
            for n in (1, 2):
                target = file.with_name("new") if replaced else file
                target.write_text(FILE.replace('"one"', f'"one{n}"'), encoding="utf-8")
                target.replace(file)
                await until(lambda n=n: daemon.settings.servers[0].name == f"one{n}", 10)
            file.write_text("{", encoding="utf-8")
            await until(lambda: daemon.configuration.error is not None, 10)
            assert daemon.settings.servers[0].name == "one2"
            caplog.set_level("INFO", "mcpproxy")
            file.write_text(FILE.replace('"one"', '"one2"'), encoding="utf-8")
            await until(lambda: "can be used again" in caplog.text, 10)
            assert daemon.configuration.error is None
            file.write_text(FILE.replace('"one"', '"a:b"'), encoding="utf-8")
            await until(lambda: "server 'a:b' is left out" in caplog.text, 10)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
async def test_a_running_daemon_follows_its_file():
    with home(mcpServers=[STUB_ENTRY]) as place, place.serving() as serving:

        def servers():
            found = serving.ask("GET", SERVERS).body["data"]["servers"]
            return {each["name"]: each["state"] for each in found}

        def pid(name):
            return serving.execute(f"(await tools.{name}.whoami({{}})).pid")["value"]

        def error():
            return serving.ask("GET", "/api/v1/status").body["data"]["config_error"]

        before = pid("stub")
        document = json.loads(place.config.read_text(encoding="utf-8"))
        trusted = {**STUB_ENTRY, "name": "more", "quarantined": False}
        more = {**document, "mcpServers": [STUB_ENTRY, trusted]}
        place.write(more)
        await until(lambda: servers().get("more") == "ready", 15)
        assert pid("more") != before
        place.write('{"mcpServers": [')
        await until(lambda: error() is not None, 15)
        assert servers() == {"stub": "ready", "more": "ready"}
        place.write(document)
        await until(lambda: servers() == {"stub": "ready"}, 15)
        assert error() is None
        assert pid("stub") == before


async def test_what_somebody_writes_right_after_us_is_not_missed(daemon, file, monkeypatch):
    change = entries.change

    def change_and_be_followed(path, *rest):
        found = change(path, *rest)
        path.write_text(
            path.read_text(encoding="utf-8").replace('"one"', '"two"'), encoding="utf-8"
        )
        return found

    monkeypatch.setattr(entries, "change", change_and_be_followed)
    await daemon.configuration.change(lambda text: entries.enable(text, "one", True))
    await daemon.configuration._look()
    assert [(each.name, each.enabled) for each in daemon.fleet.wanted.servers] == [("two", True)]


@pytest.mark.parametrize("path", ["a\0b", "~nobody-of-this-name/state"])
async def test_a_folder_that_can_not_be_leaves_everything_as_it_was(file, tmp_path, path):
    daemon = FakeDaemon(settings.load(file, {}))
    broken = FILE.replace("{", f'{{"data_dir": {json.dumps(path)},', 1)
    file.write_text(broken, encoding="utf-8")
    await daemon.configuration._look()
    assert "data_dir must be the path of a folder" in daemon.configuration.error
