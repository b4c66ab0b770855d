"""`mcpproxy tools` and `/api/v1/tools`: found, shown and called, with a daemon and without one."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from daemon_process import open_process, stubs
from running import home

from mcpproxy.cli import main
from mcpproxy.errors import CALL_CODES
from mcpproxy.rest.tools import CALL_STATUS

TOOLS = "/api/v1/tools"
SETTINGS = {
    "mcpServers": [
        *stubs("stub"),
        *stubs("slow", call_tool_timeout=80),
        *stubs("full", max_concurrent_requests=1),
        *stubs("asleep", lazy=True),
        {"name": "broken", "command": "no-such-program"},
    ],
    "code_execution_pool_size": 1,
}


@pytest.fixture(scope="module")
def serving():
    with open_process(**SETTINGS) as found:
        yield found


@pytest.fixture
def run(serving):
    def run(*words, given=None):
        place = serving.home
        return CliRunner(env=place.environ).invoke(
            main, ["tools", *words, "--config", str(place.config)], input=given
        )

    return run


def test_tools_are_listed(run):
    done = run("list", "--server", "stub")
    head, first, *_ = done.stdout.splitlines()
    assert head.split("  ")[0] == "TOOL"
    assert first.split("  ")[0] == "stub:echo" and first.endswith("Give the arguments back")
    whole = run("list", "--json")
    assert {each["server"] for each in json.loads(whole.stdout)["tools"]} == {
        "stub",
        "slow",
        "full",
        "asleep",
    }
    assert "not known now: the tools of broken" in whole.stderr
    unknown = run("list", "--server", "stup")
    assert (unknown.exit_code, "there is stub" in unknown.stderr) == (2, True)


def test_a_refusal_names_commands_rather_than_tools_of_a_model(run):
    for words, said in (
        (["call", "stub:add", "--args", '{"a": "x"}'], "mcpproxy tools show stub:add"),
        (["call", "nobody:nothing"], "mcpproxy tools search"),
        (["show", "nobody:nothing"], "mcpproxy tools search"),
    ):
        done = run(*words)
        assert done.exit_code == 2 and said in done.stderr
        assert "search_tools" not in done.stderr and "describe_tool" not in done.stderr


def test_tools_are_found(run):
    done = run("search", "pull", "request", "--server", "stub")
    assert done.stdout.splitlines()[1].split()[0] == "stub:get_pull_request"
    found = json.loads(run("search", "pull request", "--limit", "1", "--json").stdout)
    assert len(found["tools"]) == 1 and found["more"] >= 2
    nothing = run("search", "qqqq")
    assert (nothing.stdout, "nothing has these words" in nothing.stderr) == ("", True)
    assert "not searched: broken (down)" in nothing.stderr
    assert "or mcpproxy tools list to see what there is" in nothing.stderr


def test_a_tool_is_shown_as_its_declaration(run):
    done = run("show", "stub:add")
    assert "declare function add(args: { a: number; b: number })" in done.stdout
    assert 'tools.stub["list.items"]({})' in run("show", "stub:list.items").stdout
    assert json.loads(run("show", "stub__add", "--json").stdout)["name"] == "stub:add"
    unknown = run("show", "stub:adds")
    assert (unknown.exit_code, "did you mean stub:add" in unknown.stderr) == (2, True)


def test_a_tool_is_called(run, tmp_path):
    file = tmp_path / "args.json"
    file.write_text('{"a": 1, "b": 2}', encoding="utf-8")
    for words, given in (
        (["--args", '{"a": 1, "b": 2}'], None),
        (["--args", f"@{file}"], None),
        (["--args", "-"], '{"a": 1, "b": 2}'),
    ):
        done = run("call", "stub:add", *words, given=given)
        assert (done.exit_code, json.loads(done.stdout)) == (0, {"sum": 3})
    bad = run("call", "stub:plain_text", "--args", "-", given=b'{"text": "\xe9"}')
    assert bad.exit_code == 2 and "not UTF-8" in bad.stderr
    done = run("call", "stub:plain_text", "--args", '{"text": "\\u00e9"}')
    assert done.stdout == "é\n"
    assert "[image image/png]" in run("call", "stub:blocks").stdout
    whole = json.loads(run("call", "stub:both", "--json").stdout)
    assert {"content", "structuredContent"} <= whole.keys()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["stub:fail", "--args", '{"message": "no luck"}'], 1, "no luck"),
        (["stub:rpc_error", "--args", '{"code": -1, "message": "says no"}'], 1, "says no"),
        (["slow:hang"], 1, "did not answer"),
        (["stub:add", "--args", '{"a": 1}'], 2, '"b" is a required property'),
        (["stub:nope"], 2, "there is no tool"),
        (["nobody:add"], 2, "there is no tool"),
        (["broken:tool"], 2, "not available"),
        (["stub:add", "--args", "[1]"], 2, "--args must be a JSON object"),
        (["stub:add", "--args", "{"], 2, "--args is not JSON"),
        (["stub:add", "--args", "@/no/such"], 2, "No such file"),
    ],
)
def test_a_call_that_fails_says_whether_it_was_made(run, words, status, said):
    done = run("call", *words)
    assert done.exit_code == status, done.output
    assert said in done.output


def test_types_are_printed_and_written_when_they_are_others(run, serving, tmp_path):
    printed = run("types", "--server", "stub").stdout
    assert "add(args: { a: number; b: number }): Promise<{ sum?: number }>;" in printed
    answer = serving.ask("GET", f"{TOOLS}/types.d.ts?server=stub")
    assert (answer.text, answer.headers["content-type"]) == (printed, "text/plain; charset=utf-8")
    assert "namespace Slow" in run("types").stdout and "namespace Slow" not in printed
    file = tmp_path / "scripts" / "mcpproxy.d.ts"
    assert "wrote" in run("types", "-o", str(file)).stderr
    assert "up to date" in run("types", "-o", str(file)).stderr
    assert file.read_text(encoding="utf-8") == run("types").stdout
    assert run("types", "--server", "nobody").exit_code == 2


def test_without_a_daemon_only_the_server_that_is_called_is_started():
    starts = "starts"
    servers = stubs("one", "two")
    with home(mcpServers=servers) as place:
        for server in servers:
            server["args"] = [
                *server["args"],
                "--starts",
                f"{place.folder}/{starts}-{server['name']}",
            ]
        place.write({"mcpServers": servers, "listen": "127.0.0.1:0", "api_key": "k"})
        done = place.run("tools", "call", "one:add", "--args", '{"a": 40, "b": 2}')
        assert (done.returncode, json.loads(done.stdout)) == (0, {"sum": 42}), done.stderr
        assert "running alone" in done.stderr
        assert [path.name for path in place.folder.glob("starts-*")] == ["starts-one"]


# ── REST ────────────────────────────────────────────────────────────────────────────────────────


def call(serving, tool, **arguments):
    return serving.ask("POST", f"{TOOLS}/call", {"tool_name": tool, "arguments": arguments})


def test_a_result_is_given_as_it_came(serving):
    answer = call(serving, "stub:add", a=1, b=2)
    assert (answer.status, answer.body["data"]["structuredContent"]) == (200, {"sum": 3})
    assert "resultType" not in answer.body["data"]
    failed = call(serving, "stub__fail", message="no luck")
    assert (failed.status, failed.body["data"]["isError"]) == (200, True)


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code"),
    [
        ("stub:add", {"a": "1", "b": 2}, 400, "INVALID_TOOL_ARGS"),
        ("stub:nope", {}, 404, "NOT_FOUND"),
        ("broken:x", {}, 503, "SERVER_UNAVAILABLE"),
        ("stub:rpc_error", {"code": -1, "message": "no"}, 502, "UPSTREAM_ERROR"),
        ("slow:hang", {}, 504, "UPSTREAM_TIMEOUT"),
    ],
)
def test_each_way_to_fail_has_its_status(serving, tool, arguments, status, code):
    answer = call(serving, tool, **arguments)
    assert (answer.status, answer.body["error"]["code"]) == (status, code)
    assert (answer.body["success"], "request_id" in answer.body) == (False, True)


def test_every_code_of_a_call_has_a_status():
    assert CALL_STATUS.keys() == CALL_CODES


def test_a_full_server_says_when_to_come_back(serving):
    connection = serving.connect()
    body = json.dumps({"tool_name": "full:hang"})
    headers = {"Content-Type": "application/json", "X-API-Key": "key-of-the-tests"}
    connection.request("POST", f"{TOOLS}/call", body, headers)
    while not in_flight(serving, "full"):
        pass
    answer = call(serving, "full:ping")
    assert (answer.status, answer.body["error"]["code"]) == (429, "queue_full")
    assert int(answer.headers["retry-after"]) >= 1
    connection.close()
    while in_flight(serving, "full"):  # the client that hung up has ended its call
        pass


def in_flight(serving, name):
    servers = serving.ask("GET", "/api/v1/servers").body["data"]["servers"]
    return next(each["in_flight"] for each in servers if each["name"] == name)


def test_a_long_result_is_cut_and_read_on_everywhere(serving, run):
    answer = call(serving, "stub:big", bytes=45_000).body["data"]
    assert len(answer["content"][0]["text"]) == 20_000
    cursor = answer["cut"].pop("cursor")
    assert answer["cut"] == {"start": 0, "end": 20_000, "characters": 45_000}
    second = run("call", f"--cursor={cursor}")
    assert len(second.stdout) == 20_001
    assert "characters 20,001-40,000 of 45,000; read on with: mcpproxy tools call" in second.stderr
    cursor = second.stderr.split("--cursor=")[1].strip()
    last = json.loads(run("call", f"--cursor={cursor}", "--json").stdout)
    assert (len(last["content"][0]["text"]), last["cut"]["cursor"]) == (5_000, None)
    wrong = run("call", "--cursor", "none")
    assert (wrong.exit_code, "nothing to read on" in wrong.stderr) == (2, True)
    assert run("call").exit_code == 2
    neither = serving.ask("POST", f"{TOOLS}/call", {})
    assert (neither.status, "tool_name, or cursor" in neither.text) == (400, True)


def test_a_script_is_given_all_of_it(serving):
    code = "return (await tools.stub.big({bytes: 45000})).length"
    assert serving.execute(code)["value"] == 45_000


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/search", 400, "q is missing"),
        ("/search?q=x&limit=0", 400, "limit"),
        ("/search?q=x&server=nobody", 400, "there is no server"),
        ("/search?q=x&server=stub&server=x", 400, "server is given more than once"),
        (f"/{quote('stub:nope', safe='')}", 404, "there is no tool"),
    ],
)
def test_wrong_questions_are_refused(serving, path, status, said):
    answer = serving.ask("GET", TOOLS + path)
    assert (answer.status, said in answer.body["error"]["message"]) == (status, True)
