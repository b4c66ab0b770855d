"""`mcpproxy code exec` and its like: what is sent, what is printed, and the exit status."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from click.testing import CliRunner
from running import below, gone, home
from upstreams import STUB

from mcpproxy.cli import local, main
from mcpproxy.cli.code import MAX_TIMEOUT_MS, patience


@pytest.fixture(scope="module")
def alone():
    """A home with no daemon."""
    with home() as place:
        yield place


@pytest.fixture(scope="module")
def serving():
    with home(code_execution_pool_size=1) as place, place.serving() as found:
        yield found


@pytest.fixture
def sent(monkeypatch):
    """What `code exec` asks of a daemon, which answers with 1."""
    bodies = []

    def request(daemon, verb, path, body=None, *, timeout):
        bodies.append(body)
        return 200, {"ok": True, "value": 1, "request_id": "x"}

    monkeypatch.setattr(local, "find", lambda config: local.Running("a test"))
    monkeypatch.setattr(local, "request", request)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return bodies


def invoke(*words):
    return CliRunner().invoke(main, ["code", "exec", *words])


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req(
    "REQ-CLI-01",
    "REQ-CLI-03",
    "REQ-CLI-05",
    "REQ-CLI-07",
    "REQ-CLI-08",
    "REQ-CLI-09",
    "REQ-CLI-12",
    "REQ-CLI-13",
)
@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["--code", "1"], {"code": "1"}),
        (["--code="], {"code": ""}),
        (["--script", "x"], {"script": "x"}),
        (["--script", "x", "--language", "typescript"], {"script": "x", "language": "typescript"}),
        (["--code", "1", "--language", "javascript"], {"code": "1", "language": "javascript"}),
        (["--code", "1", "--input", '{"a": [1.5, null]}'], {"code": "1", "input": {"a": [1.5, None]}}),
        (["--code", "1", "--timeout", "5"], {"code": "1", "options": {"timeout_ms": 5}}),
        (["--code", "1", "--max-tool-calls", "0"], {"code": "1", "options": {"max_tool_calls": 0}}),
        (["--code", "1", "--allowed-servers", "a, b"], {"code": "1", "options": {"allowed_servers": ["a", "b"]}}),
        (["--code", "1", "--allowed-servers", "a", "--allowed-servers", "b"], {"code": "1", "options": {"allowed_servers": ["a", "b"]}}),
    ],
)  # fmt: skip
def test_only_what_was_given_is_sent(sent, words, body):
    done = invoke(*words)
    assert (done.exit_code, sent) == (0, [body])
    assert json.loads(done.stdout) == {"ok": True, "value": 1}
    assert done.stderr.splitlines() == ["running on the daemon at a test"]


@pytest.mark.req("REQ-CLI-02")
@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("a.js", [], {}),
        ("a.ts", [], {"language": "typescript"}),
        ("a.mts", [], {"language": "typescript"}),
        ("a.ts", ["--language", "javascript"], {"language": "javascript"}),
        ("a", [], {}),
    ],
)
def test_a_file_is_sent_byte_for_byte_with_its_language(sent, tmp_path, name, more, expected):
    source = "`a\r\nb`\r// ä \u2028\n"
    (tmp_path / name).write_bytes(source.encode())
    assert invoke("--file", str(tmp_path / name), *more).exit_code == 0
    assert sent == [{"code": source, **expected}]


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["--file", "-"], {"code": '{"a": 1}'}),
        (["--code", "1", "--input-file", "-"], {"code": "1", "input": {"a": 1}}),
    ],
)
def test_stdin_can_be_the_file(sent, words, body):
    done = CliRunner().invoke(main, ["code", "exec", *words], input='{"a": 1}')
    assert (done.exit_code, sent) == (0, [body])


@pytest.mark.req("REQ-CLI-06")
def test_an_input_file_may_have_a_byte_order_mark(sent, tmp_path):
    (tmp_path / "i.json").write_text('\ufeff{"a": 1}', encoding="utf-8")
    assert invoke("--code", "1", "--input-file", str(tmp_path / "i.json")).exit_code == 0
    assert sent == [{"code": "1", "input": {"a": 1}}]


# ── what is turned away before anything is sent ───────────────────────────────────────────────────


@pytest.mark.req(
    "REQ-CLI-04", "REQ-CLI-05", "REQ-CLI-07", "REQ-CLI-08", "REQ-CLI-10", "REQ-CLI-16", "REQ-CLI-21"
)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "exactly one"),
        (["--code", "1", "--script", "x"], "exactly one"),
        (["--code", "1", "--file", "x"], "exactly one"),
        (["--code", "1", "--language", "python"], "python"),
        (["--code", "1", "--input", "{"], "--input is not JSON"),
        (["--code", "1", "--input", "[1]"], "JSON object"),
        (["--code", "1", "--input", '{"a": NaN}'], "NaN"),
        (["--code", "1", "--input", '{"a": 1e999}'], "1e999"),
        (["--code", "1", "--input", '{"a":' + "[" * 200_000], "nested"),
        (["--code", "1", "--input", "{}", "--input-file", "x"], "not both"),
        (["--file", "-", "--input-file", "-"], "only one of"),
        (["--code", "1", "--input-file", "/no/such.json"], "No such file"),
        (["--file", "/no/such.js"], "No such file"),
        (["--file", "/"], "directory"),
        (["--file", "/dev/null"], "empty"),
        (["--code", "1", "--timeout", "0"], "--timeout"),
        (["--code", "1", "--timeout", "600001"], "--timeout"),
        (["--code", "1", "--timeout", "soon"], "--timeout"),
        (["--code", "1", "--max-tool-calls", "-1"], "--max-tool-calls"),
        (["--code", "1", "--allowed-servers", ""], "--allowed-servers"),
        (["--code", "1", "--allowed-servers", "a,,b"], "--allowed-servers"),
        (["--code", "1", "--log-level", "loud"], "--log-level"),
        (["--code", "1", "--colour"], "--colour"),
    ],
)
def test_a_mistake_is_said_and_nothing_is_run(sent, words, said):
    done = invoke(*words)
    assert (done.exit_code, sent, done.stdout) == (2, [], "")
    assert said in done.stderr


@pytest.mark.parametrize("option", ["--file", "--input-file"])
def test_files_must_be_utf_8(sent, tmp_path, option):
    (tmp_path / "f").write_bytes(b'{"a": "\xff"}')
    words = ["--code", "1"] if option == "--input-file" else []
    done = invoke(*words, option, str(tmp_path / "f"))
    assert (done.exit_code, sent) == (2, [])
    assert "UTF-8" in done.stderr


# ── what comes back ───────────────────────────────────────────────────────────────────────────────

REFUSED = {"ok": False, "error": {"code": "SCRIPT_NOT_FOUND", "message": "it isn't there"}}
FAILED = {"ok": False, "error": {"code": "RUNTIME_ERROR", "message": "Error: x", "stack": ""}}


@pytest.mark.req("REQ-CLI-14", "REQ-CLI-15", "REQ-CLI-16", "REQ-CLI-17")
@pytest.mark.parametrize(
    ("status", "envelope", "exit_code", "said"),
    [
        (200, {"ok": True, "value": "ä"}, 0, ""),
        (200, FAILED, 1, ""),
        (404, REFUSED, 2, "it isn't there"),
        (403, REFUSED, 2, "it isn't there"),
        (500, FAILED, 1, ""),
        (503, FAILED, 1, ""),
    ],
)
def test_the_exit_status_says_whether_it_ran(sent, monkeypatch, status, envelope, exit_code, said):
    answer = (status, {**envelope, "request_id": "x"})
    monkeypatch.setattr(local, "request", lambda *_, **__: answer)
    done = invoke("--code", "1")
    assert done.exit_code == exit_code
    assert json.loads(done.stdout) == envelope
    assert done.stdout == json.dumps(envelope, indent=2, ensure_ascii=False) + "\n"
    assert done.stderr == "running on the daemon at a test\n" + (said and f"mcpproxy: {said}\n")


def test_a_lone_surrogate_is_printed_as_its_escape(sent, monkeypatch):
    answer = (200, {"ok": True, "value": "\ud800ä"})
    monkeypatch.setattr(local, "request", lambda *_, **__: answer)
    done = invoke("--code", "1")
    assert json.loads(done.stdout_bytes) == {"ok": True, "value": "\ud800ä"}


def test_no_answer_is_one_line(sent, monkeypatch):
    def request(*_, **__):
        raise local.NoAnswer("the daemon gave no answer within 1 s")

    monkeypatch.setattr(local, "request", request)
    done = invoke("--code", "1")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1:] == ["mcpproxy: the daemon gave no answer within 1 s"]


@pytest.mark.parametrize(
    ("verb", "look"), [("GET", "mcpproxy doctor"), ("POST", "mcpproxy activity list")]
)
def test_who_gets_no_answer_is_told_where_to_look(verb, look):
    def hang_up():
        with listener.accept()[0] as line:
            line.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as threads:
        ended = threads.submit(hang_up)
        daemon = local.Running("a test", host="127.0.0.1", port=listener.getsockname()[1])
        with pytest.raises(local.NoAnswer, match=f"gave no answer: .*; .*see {look}$"):
            local.request(daemon, verb, "/", timeout=20)
        ended.result()


@pytest.mark.req("REQ-CLI-20")
@pytest.mark.parametrize(
    ("document", "options", "seconds"),
    [
        ({}, {}, 120 + 30 + 10),
        ({}, {"timeout_ms": 5000}, 45),
        ({"code_execution_timeout_ms": 2000, "code_execution_queue_timeout_ms": 500}, {}, 12.5),
        ({"code_execution_timeout_ms": "2s"}, {"timeout_ms": MAX_TIMEOUT_MS}, 640),
    ],
)
def test_a_client_waits_longer_than_its_script_may_take(tmp_path, document, options, seconds):
    config = tmp_path / "c.json"
    config.write_text(json.dumps(document), encoding="utf-8")
    assert patience({"options": options}, str(config)) == seconds


# ── with a daemon ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-CLI-11", "REQ-CLI-18")
def test_it_uses_the_daemon_and_says_so(serving):
    done = serving.home.run("code", "exec", "--code", "(await tools.stub.add({a: 1, b: input.b}))", '--input={"b": 2}')  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"ok": True, "value": {"sum": 3}}
    assert done.stderr == f"running on the daemon at {serving.home.places.socket}\n"


def test_code_exec_imports_no_part_of_the_daemon(serving):
    code = "import sys; from mcpproxy.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    words = ["code", "exec", "--code", "1", "--config", str(serving.home.config)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=serving.home.environ, capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    heavy = {"mcp", "mcp_types", "pydantic", "uvicorn", "starlette", "anyio", "asyncio", "rich"}
    assert heavy & set(done.stderr.split()) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_script_it_waits_for(serving, number):
    """There is one place, so that the second script can't run before the first has ended."""
    words = ["--code", "console.log('it runs'); while (true) {}", "--timeout", "600000"]
    process = serving.home.start("code", "exec", *words, stderr=subprocess.PIPE)
    serving.await_line("it runs")
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert serving.execute("1 + 1")["value"] == 2


def test_status_is_what_the_daemon_says(serving):
    done = serving.home.run("status")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["config"] == str(serving.home.config)


@pytest.mark.req(
    "REQ-SHOW-01", "REQ-SHOW-02", "REQ-SHOW-03", "REQ-SHOW-04", "REQ-SHOW-05", "REQ-SHOW-06"
)
def test_stored_scripts_are_listed_by_the_daemon_as_without_it(serving, alone):
    for place in (serving.home, alone):
        place.script("b.ts", "1")
        place.script("a.js", "1")
        place.script("a.ts", "1")
        place.script("empty.js", "")
        folder = place.folder / "scripts"
        done = place.run("code", "scripts", "list")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"Stored scripts in {folder} (3):",
            f"  {'a':<32} {'ambiguous':<20} {folder}/a.js, {folder}/a.ts",
            f"  {'b':<32} {'ok':<20} {folder}/b.ts",
            f"  {'empty':<32} {'invalid: empty':<20} {folder}/empty.js",
            "",
            "Run one with: mcpproxy code exec --script <name>",
        ]
    listed = json.loads(serving.home.run("code", "scripts", "list", "-o", "json").stdout)
    assert listed == serving.ask("GET", "/api/v1/code/scripts").body["data"]
    assert (
        yaml.safe_load(serving.home.run("code", "scripts", "list", "-o", "yaml").stdout) == listed
    )


# ── without one ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-CLI-19")
def test_alone_it_starts_what_it_needs_and_stops_it(alone):
    done = alone.run("code", "exec", "--code", "(await tools.stub.add({a: 1, b: 2}))")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"ok": True, "value": {"sum": 3}}
    assert done.stderr == "running alone: no daemon answers for this configuration\n"


@pytest.mark.req("REQ-CLI-16")
def test_alone_a_refusal_is_a_refusal(alone):
    done = alone.run("code", "exec", "--script", "no-such")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "SCRIPT_NOT_FOUND"
    assert len(done.stderr.splitlines()) == 2


def test_alone_a_broken_configuration_is_one_line(monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with home() as place:
        place.write('{"code_execution_timeout_ms": "soon"}')
        done = place.invoke("code", "exec", "--code", "1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "code_execution_timeout_ms" in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_alone_an_interrupt_leaves_no_process(alone, number):
    words = ["--code", "console.log('it runs'); while (true) {}", "--log-level", "info"]
    process = alone.start("code", "exec", *words, stderr=subprocess.PIPE)
    while b"it runs" not in process.stderr.readline():
        assert process.poll() is None
    children = below(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130, said.decode()
    assert b"Traceback" not in said, said.decode()
    gone(children)


def test_status_without_a_daemon_says_how_to_start_one(alone):
    done = alone.run("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert "mcpproxy serve" in done.stderr


def test_alone_only_the_servers_that_the_script_calls_are_started(tmp_path):
    servers = [
        {
            "name": name,
            "command": "/bin/sh",
            "args": ["-c", f"touch {tmp_path}/{name}; exec '{sys.executable}' -I -S '{STUB}'"],
        }
        for name in ("used", "unused")
    ]
    code = (
        "return [await tools.used.echo({a: 1}), call_tool('used', 'add', {a: 1, b: 2}).result.sum]"
    )
    with home(mcpServers=servers) as place:
        done = place.run("code", "exec", "--code", code)
    assert json.loads(done.stdout) == {"ok": True, "value": [{"a": 1}, 3]}, done.stderr
    assert [(tmp_path / name).exists() for name in ("used", "unused")] == [True, False]
