"""The configuration: what a file, the environment and flags come to, and what can't be used and why."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcpproxy import jsonc
from mcpproxy.errors import SettingsError
from mcpproxy.settings import Settings, load, split_listen

SERVER = {"name": "demo", "command": "demo-server"}


@pytest.fixture
def loaded(tmp_path):
    """Load a document, given as data or as text."""

    def load_it(document=None, environ=None, **overrides):
        file = tmp_path / "mcp_config.json"
        if not isinstance(document, str):
            document = json.dumps({"api_key": "k", **(document or {})})
        file.write_text(document, encoding="utf-8")
        return load(file, environ or {}, overrides)

    return load_it


def refused(loaded, document, **more):
    with pytest.raises(SettingsError) as error:
        loaded(document, **more)
    return str(error.value)


@pytest.mark.parametrize("text", ["[]", "1", '"mcpServers"', "null"])
def test_a_file_must_hold_an_object(loaded, text):
    assert "must hold a JSON object" in refused(loaded, text)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": Infinity}', "[" * 100_000])
def test_what_is_no_json_is_refused_in_a_sentence(loaded, text):
    assert "mcp_config.json is not valid JSON: " in refused(loaded, text)


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-CONF-01", "REQ-CONF-02", "REQ-CONF-03", "REQ-CONF-04", "REQ-CONF-05")
def test_an_empty_file_gives_the_defaults_of_the_reference(loaded):
    settings = loaded({}).settings
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.enable_code_execution is True
    assert settings.code_execution_timeout_ms == 120_000
    assert settings.code_execution_max_tool_calls == 0
    assert settings.code_execution_pool_size == 10
    assert settings.code_execution_max_parallel == 8
    assert settings.require_mcp_auth is False


@pytest.mark.req("REQ-CONF-02", "REQ-CONF-03", "REQ-CONF-04", "REQ-CONF-05", "REQ-CONF-06")
@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("code_execution_timeout_ms", 1, 600_000),
        ("code_execution_max_tool_calls", 0, None),
        ("code_execution_pool_size", 1, 100),
        ("code_execution_max_parallel", 1, 32),
        ("code_execution_memory_mb", 16, 4096),
        ("code_execution_queue_timeout_ms", 1, 600_000),
    ],
)
def test_a_number_has_its_range_and_an_error_names_path_and_value(loaded, field, least, most):
    for value in (least, most or 10**6):
        assert getattr(loaded({field: value}).settings, field) == value
    wrong = [least - 1, "5", 1.5, True, None, [1], *([most + 1] if most else [])]
    for value in wrong:
        said = refused(loaded, {field: value})
        assert f"{field}: " in said
        assert json.dumps(value) in said


@pytest.mark.req("REQ-CONF-06")
@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"enable_code_execution": "yes"}, "enable_code_execution"),
        ({"enable_code_execution": 1}, "enable_code_execution"),
        ({"listen": 8080}, "listen"),
        ({"trusted_hosts": "a.example"}, "trusted_hosts"),
        ({"trusted_hosts": ["a.example", 1]}, "trusted_hosts[1]"),
        ({"trusted_hosts": ["[fd00::7]", "192.0.2.2:8080"]}, "trusted_hosts[1]"),
        ({"trusted_hosts": [".a.example", "http://a.example"]}, "trusted_hosts[1]"),
        ({"trusted_hosts": ["*"]}, "trusted_hosts[0]"),
        ({"trusted_hosts": ["."]}, "trusted_hosts[0]"),
        ({"code_execution_limits": {"max_timeout_ms": 0}}, "code_execution_limits.max_timeout_ms"),
        ({"code_execution_limits": []}, "code_execution_limits"),
        ({"logging": {"level": "loud"}}, "logging.level"),
        ({"server_concurrency_defaults": {"queue_size": -1}}, "server_concurrency_defaults.queue_size"),
        ({"call_tool_timeout": "2 minutes"}, "call_tool_timeout"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_an_error_that_names_the_path(loaded, document, path):
    assert f"{path}: " in refused(loaded, document)


def test_what_stands_for_a_key_where_it_is_shown_is_none(loaded):
    assert refused(loaded, {"api_key": "(hidden)"}).endswith("write the secret itself")


@pytest.mark.parametrize("key", ["k\n", " k", "a\0b"])
def test_a_key_that_nobody_could_send_is_none(loaded, key):
    assert refused(loaded, {"api_key": key}).endswith("no header can have")


def test_a_wrong_key_is_never_shown(loaded):
    assert "12345" not in refused(loaded, {"api_key": 12345})


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(250, 0.25), (1500.0, 1.5), ("250ms", 0.25), ("2s", 2), ("2m", 120), ("1h30m", 5400), ("1.5s", 1.5)],
)  # fmt: skip
def test_a_duration_is_milliseconds_or_a_text_with_units(loaded, written, seconds):
    assert loaded({"call_tool_timeout": written}).settings.call_tool_timeout == seconds


@pytest.mark.parametrize(
    "written",
    [True, "", "2", "s", "2 s", "-2s", "2d", "2s!", "٣s", -1, 0, "0s", [2], None, 10**400, 1e300, "1" * 400 + "h"],
)  # fmt: skip
def test_anything_else_is_no_duration(loaded, written):
    assert "call_tool_timeout: " in refused(loaded, {"call_tool_timeout": written})


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        (":9000", "127.0.0.1", 9000),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::1]:80", "::1", 80),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(listen, host, port):
    assert split_listen(listen) == (host, port)


@pytest.mark.parametrize("listen", ["", "8080", "localhost", "a:b", "a:65536", "a:-1", "a:"])
def test_an_address_without_a_port_is_refused_with_an_example(loaded, listen):
    said = refused(loaded, {"listen": listen})
    assert "listen" in said
    assert "127.0.0.1:8080" in said


@pytest.mark.parametrize(
    ("listen", "loopback"),
    [("127.0.0.1:1", True), ("127.1.2.3:1", True), ("localhost:1", True), ("[::1]:1", True), (":1", True),
     ("0.0.0.0:1", False), ("[::]:1", False), ("10.0.0.1:1", False), ("example.com:1", False)],
)  # fmt: skip
def test_only_this_machine_s_own_addresses_are_loopback(listen, loopback):
    assert Settings(listen=listen).loopback is loopback


# ── who wins ──────────────────────────────────────────────────────────────────────────────────────


def test_flags_beat_the_environment_and_that_beats_the_file(loaded, tmp_path):
    file = {"listen": "127.0.0.1:1", "api_key": "from the file"}
    environ = {
        "MCPPROXY_LISTEN": "127.0.0.1:2",
        "MCPPROXY_API_KEY": "from the environment",
        "MCPPROXY_DATA_DIR": str(tmp_path / "state"),
    }
    assert loaded(file).settings.port == 1
    found = loaded(file, environ)
    assert found.settings.port == 2
    assert found.settings.api_key.get_secret_value() == "from the environment"
    assert found.places.state == tmp_path / "state"
    assert loaded(file, environ, listen="127.0.0.1:3").settings.port == 3
    assert loaded(file, environ, listen=None).settings.port == 2


def test_an_empty_variable_is_none(loaded):
    assert loaded({}, {"MCPPROXY_LISTEN": ""}).settings.port == 8080


def test_a_key_in_the_environment_needs_none_in_the_file(tmp_path):
    """Which may be on a disk that nobody can write."""
    file = tmp_path / "c.json"
    file.write_text("{}", encoding="utf-8")
    found = load(file, {"MCPPROXY_API_KEY": "from outside"})
    assert found.settings.api_key.get_secret_value() == "from outside"
    assert file.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        (errno.ENOSPC, "No space left on device; make room on its disk"),
        (errno.EROFS, "Read-only file system; see that this user may use it and its folder"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_file_that_can_not_be_written_is_named_with_what_mends_it(
    tmp_path, monkeypatch, number, todo
):
    def fails(*_, **__):
        raise OSError(number, os.strerror(number), "a spare file")

    monkeypatch.setattr("mcpproxy.paths.tempfile.mkstemp", fails)
    file = tmp_path / "c.json"
    with pytest.raises(SettingsError) as error:
        load(file, {}, create=True)
    assert str(error.value) == f"{file} can't be written: {todo}"


def test_a_variable_that_looks_like_a_setting_and_is_none_is_named(loaded):
    environ = {"MCPPROXY_LISTN": "x", "MCPPROXY_CALL_TOOL_TIMEOUT": "1", "MCPPROXY_OF_MINE": "x"}
    assert loaded(environ=environ).warnings == [
        "the variable MCPPROXY_CALL_TOOL_TIMEOUT has no effect; set call_tool_timeout in the configuration",
        "the variable MCPPROXY_LISTN has no effect; did you mean MCPPROXY_LISTEN?",
    ]


def test_a_name_that_an_object_has_twice_is_told(loaded):
    """To whom pastes a second list of servers below the first."""
    twice = '{"api_key": "k", "mcpServers": {"a": {"command": "x"}}, "mcpServers": {"b": {"command": "y", "command": "z"}}}'
    found = loaded(twice)
    assert [each.name for each in found.settings.servers] == ["b"]
    assert [said.split(" is there twice")[0] for said in found.warnings] == [
        "'command'",
        "'mcpServers'",
    ]


def test_unknown_keys_are_kept_and_named(loaded):
    found = loaded(
        {
            "tools_limit": 15,
            "logging": {"level": "info", "compress": True},
            "mcpServers": [{**SERVER, "isolation": {}}],
        }
    )
    said = "\n".join(found.warnings)
    assert found.settings.model_extra == {"tools_limit": 15}
    for path in ("tools_limit", "logging.compress", "mcpServers[0].isolation"):
        assert f"'{path}'" in said


def test_a_misspelt_key_is_answered_with_the_one_that_was_meant(loaded):
    found = loaded({"listn": "", "mcpServers": [{**SERVER, "enabeld": True}]})
    assert [text.partition("here; ")[2] for text in found.warnings] == [
        "did you mean enabled?",
        "did you mean listen?",
    ]


def test_an_address_that_is_none_is_said_to_be_where_it_stands(loaded):
    for environ, flag, where in (
        ({}, "8080", "--listen must"),
        ({"MCPPROXY_LISTEN": "8080"}, None, "MCPPROXY_LISTEN must"),
        ({}, None, "json: listen must"),
    ):
        with pytest.raises(SettingsError, match=re.escape(where)):
            loaded({} if environ or flag else {"listen": "8080"}, environ, listen=flag)


@pytest.mark.threat("L3")
def test_a_secret_prints_nowhere(loaded):
    found = loaded({"api_key": "do-not-print"})
    assert "do-not-print" not in repr(found) + str(found.settings)


# ── servers ───────────────────────────────────────────────────────────────────────────────────────


def names(found):
    return [server.name for server in found.settings.servers]


def test_servers_are_a_list_or_an_object_by_name(loaded):
    as_list = loaded({"mcpServers": [SERVER, {"name": "web", "url": "http://localhost:1/mcp"}]})
    as_object = loaded(
        {"mcpServers": {"demo": {"command": "demo-server"}, "web": {"type": "http", "url": "http://localhost:1/mcp"}}}
    )  # fmt: skip
    assert names(as_list) == names(as_object) == ["demo", "web"]
    assert as_object.settings.servers[1].protocol == "http"
    assert not as_list.server_errors | as_object.server_errors


BAD_SERVERS = [
    ({"name": "bad", "command": ""}, "command"),
    ({"name": "bad", "command": "  "}, "command"),
    ({"name": "bad"}, "neither command nor url"),
    ({"name": "bad", "url": "ftp://x"}, "http://"),
    ({"name": "bad", "url": "localhost:80"}, "http://"),
    ({"name": "bad", "url": "http://"}, "http://"),
    ({"name": "bad", "protocol": "stdio", "url": "http://x"}, "no command"),
    ({"name": "bad", "protocol": "http", "command": "x"}, "no url"),
    ({"name": "bad", "protocol": "smoke", "command": "x"}, "mcpServers[1].protocol"),
    ({"name": "bad", "type": "smoke", "command": "x"}, "mcpServers[1].type"),
    ({"name": "bad:er", "command": "x"}, "':'"),
    ({"name": "bad", "command": ["x"]}, "mcpServers[1].command"),
    ({"name": "bad", "command": "x", "args": "-v"}, "mcpServers[1].args"),
    ({"name": "bad", "command": "x", "args": ["-v", 1]}, "mcpServers[1].args[1]"),
    ({"name": "bad", "command": "x", "env": {"A": 1}}, "mcpServers[1].env.A"),
    ({"name": "bad", "command": "x", "queue_timeout": "soon"}, "mcpServers[1].queue_timeout"),
    ({"name": "bad", "command": "x", "url": "http://x"}, "'bad' has both command and url"),
    (
        {"name": "bad", "command": "x", "enabled_tools": ["a"], "disabled_tools": ["b"]},
        "give one of",
    ),
    ({"name": "bad", "type": "http", "command": "x", "url": "http://x"}, "both command and url"),
    ({"name": "bad", "protocol": "toolpack", "directory": "/x", "url": "http://x"}, "both url and"),
    ({"name": "demo", "command": "x"}, "another server is called 'demo'"),
    ({"command": "x"}, "mcpServers[1].name"),
    ({"name": "", "command": "x"}, "mcpServers[1].name"),
    ("bad", "mcpServers[1] must be an object"),
]


@pytest.mark.parametrize(("entry", "said"), BAD_SERVERS)
def test_a_bad_server_is_named_and_keeps_no_other_from_running(loaded, entry, said):
    last = {"name": "last", "command": "y"}
    found = loaded({"mcpServers": [SERVER, entry, last]})
    assert names(found) == ["demo", "last"]
    ((name, error),) = found.server_errors.items()
    assert said in error
    if isinstance(entry, dict) and entry.get("name"):
        assert entry["name"] in name
    assert any(error in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"command": "x", "args": ["a", "b\0"]}, "args[1]"),
        ({"command": "x\0"}, "command"),
        ({"command": "x", "env": {"A": "\0"}}, "env.A"),
        ({"command": "x", "env": {"A=B": "1"}}, "env"),
        ({"command": "x", "env": {"": "1"}}, "env"),
        ({"protocol": "toolpack", "directory": "/a\0"}, "directory"),
        ({"url": "http://h:port/"}, "url"),
        ({"url": "http://h:99999/"}, "url"),
        ({"protocol": "openapi", "document": "http://[::1"}, "document"),
        ({"protocol": "openapi", "document": "/x", "base_url": "http://[::1"}, "base_url"),
    ],
)
def test_what_no_program_and_no_address_can_be_is_said_before_it_is_tried(loaded, entry, field):
    found = loaded({"mcpServers": [{"name": "bad", **entry}]})
    assert f"mcpServers[0].{field} of 'bad' " in found.server_errors["bad"]
    fine = {"name": "fine", "url": "http://h:${env:PORT}/"}
    assert loaded({"mcpServers": [fine]}).server_errors == {}


def test_a_bad_server_in_an_object_is_called_by_its_key(loaded):
    found = loaded({"mcpServers": {"a": {}, "b": 1, "c": {"command": "c"}}})
    assert names(found) == ["c"]
    assert set(found.server_errors) == {"a", "b"}
    assert 'mcpServers["a"]' in found.server_errors["a"]


@pytest.mark.parametrize("servers", ["demo", 1, None, True])
def test_servers_of_another_shape_are_an_error_of_the_file(loaded, servers):
    assert "mcpServers must be an array or an object" in refused(loaded, {"mcpServers": servers})


def test_secrets_of_a_server_are_not_in_an_error(loaded):
    entry = {**SERVER, "name": "bad", "headers": {"Authorization": ["do-not-print"]}}
    found = loaded({"mcpServers": [entry]})
    assert "mcpServers[0].headers.Authorization" in found.server_errors["bad"]
    assert "do-not-print" not in str(found.warnings)


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "htps://me:do-not-print@h/"},
        {"protocol": "openapi", "document": "htps://me:do-not-print@h/"},
    ],
)
def test_an_address_that_is_none_may_hold_a_password_too(loaded, entry):
    found = loaded({"mcpServers": [{"name": "bad", **entry}]})
    assert "must be a URL" in found.server_errors["bad"]
    assert "do-not-print" not in str(found.warnings)


def test_references_to_secrets_stay_as_they_are_written(loaded):
    entry = {**SERVER, "env": {"TOKEN": "${env:TOKEN}"}}
    found = loaded({"mcpServers": [entry]}, {"TOKEN": "do-not-print"})
    assert found.settings.servers[0].env == {"TOKEN": "${env:TOKEN}"}


# ── the key ───────────────────────────────────────────────────────────────────────────────────────

KEY = re.compile(r"[0-9a-f]{64}")


@pytest.mark.threat("L2")
def test_a_first_run_makes_a_file_with_a_key_for_this_user_alone(tmp_path):
    file = tmp_path / "new" / "mcp_config.json"
    made = load(file, {}, create=True)
    key = made.settings.api_key.get_secret_value()
    assert KEY.fullmatch(key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == [file.name]
    assert load(file, {}).settings.api_key.get_secret_value() == key


def test_processes_that_start_at_once_go_by_one_key(tmp_path):
    file, begin = tmp_path / ".mcpproxy" / "mcp_config.json", threading.Barrier(8)

    def start(_):
        begin.wait(10)
        return load(file, {}, create=True).settings.api_key.get_secret_value()

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(start, range(8)))
    assert keys == {json.loads(file.read_text(encoding="utf-8"))["api_key"]}


def test_a_file_that_was_named_is_never_made(tmp_path):
    file = tmp_path / "mcp_config.json"
    with pytest.raises(SettingsError, match=re.escape(str(file))):
        load(file, {})
    assert not file.exists()


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        "{ // nothing yet\n}",
        '// mine\n{\n  "mcpServers": [], // none\n}\n',
        '{"api_key": ""}',
        '{"mcpServers": [], "api_key" : "", /* fill me */ }',
        '// "api_key": ""\n{"listen": "127.0.0.1:1"}',
        '{"mcpServers": [{"name": "a", "command": "a", "env": {"api_key": ""}}]}',
        '{"mcpServers": [{"name": "a", "command": "a", "env": {"api_key": ""}}], "api_key": ""}',
        '\ufeff{"listen": "127.0.0.1:1"}',
        '{\r\n  "listen": "127.0.0.1:1" // where\r\n}\r\n',
    ],
)
def test_a_file_without_a_key_is_given_one_and_keeps_all_else(tmp_path, text):
    file = tmp_path / "mcp_config.json"
    file.write_bytes(text.encode())
    key = load(file, {}).settings.api_key.get_secret_value()
    assert KEY.fullmatch(key)
    written = file.read_bytes().decode()
    assert jsonc.loads(written) == {**jsonc.loads(text), "api_key": key}
    assert written.count(key) == 1
    kept = iter(written)
    assert all(letter in kept for letter in text)  # everything is there, in its order
    assert load(file, {}).settings.api_key.get_secret_value() == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_is_written_through_a_link(tmp_path):
    real = tmp_path / "dotfiles.json"
    real.write_text("{}", encoding="utf-8")
    link = tmp_path / "mcp_config.json"
    link.symlink_to(real)
    key = load(link, {}).settings.api_key.get_secret_value()
    assert link.is_symlink()
    assert key in real.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "make", [lambda file: file.mkdir(), lambda file: file.write_bytes(b"\xff{}")]
)
def test_a_file_that_can_not_be_read_is_named(tmp_path, make):
    file = tmp_path / "mcp_config.json"
    make(file)
    with pytest.raises(SettingsError, match=r"mcp_config\.json can't be read"):
        load(file, {})
