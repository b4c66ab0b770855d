"""The same requests on every surface of one real daemon, and the same envelopes back.

Each case is asked over REST, MCP over HTTP in both eras, stdio and the command line, wherever the
surface can say it at all. The cases are in surface_cases.py; what only one surface has is below.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess

import anyio
import pytest
from daemon_process import EXEC, everywhere, open_process, open_surfaces, over_stdio, through
from running import KEY
from surface_cases import FAILURES, FILE, INVALID, SCRIPTS, SETTINGS, TITLES, VALUES

req = pytest.mark.req


@pytest.fixture(scope="module")
async def surfaces(tmp_path_factory, anyio_backend):
    errors = tmp_path_factory.mktemp("stdio") / "stderr"
    with open_process(**SETTINGS) as serving, errors.open("w", encoding="utf-8") as file:
        for name, source in SCRIPTS.items():
            serving.home.script(name, source)
        (serving.home.folder / "scripts" / "link.js").symlink_to("double.js")
        os.mkfifo(serving.home.folder / "scripts" / "pipe.js")
        async with open_surfaces(serving, file) as found:
            yield found
    assert errors.read_text(encoding="utf-8") == ""


@pytest.mark.req("REQ-REPLY-03", "REQ-REPLY-09", "REQ-LEDGER-07", "REQ-LOG-04")
@pytest.mark.parametrize(("body", "value"), VALUES)
async def test_a_value_is_the_same_everywhere(surfaces, body, value):
    assert await everywhere(surfaces, body) == {"ok": True, "value": value}


@pytest.mark.req("REQ-REPLY-03", "REQ-REPLY-06", "REQ-SAFE-04")
@pytest.mark.parametrize(("body", "code", "part"), FAILURES)
async def test_a_failure_is_the_same_everywhere(surfaces, body, code, part):
    envelope = await everywhere(surfaces, body)
    error = envelope["error"]
    assert (envelope["ok"], error["code"]) == (False, code)
    assert part in error["message"]
    assert isinstance(error["stack"], str)
    if code in ("SYNTAX_ERROR", "RUNTIME_ERROR") and "never settle" not in part:
        assert "script.js:" in error["stack"] or "forged" in part


@pytest.mark.req("REQ-SAFE-04", "REQ-REST-14")
@pytest.mark.parametrize(("body", "status", "code", "part"), INVALID)
async def test_a_refusal_is_the_same_everywhere(surfaces, body, status, code, part):
    envelope = await everywhere(surfaces, body)
    assert envelope.keys() == {"ok", "error"}
    assert envelope["error"].keys() == {"code", "message"}
    assert (envelope["ok"], envelope["error"]["code"]) == (False, code)
    assert part in envelope["error"]["message"]
    assert surfaces.post(body).status == status


# ── what a reply has besides ──────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-LOG-01", "REQ-LOG-02", "REQ-REPLY-09")
async def test_logs_come_with_the_reply(surfaces):
    code = "for (const l of ['log', 'info', 'warn', 'error', 'debug']) console[l](l, {n: 1}); 1"
    envelope = await everywhere(surfaces, {"code": code})
    assert [line["level"] for line in envelope["logs"]] == ["log", "info", "warn", "error", "debug"]
    assert envelope["logs"][0]["message"] == "log {n: 1}"


@pytest.mark.req("REQ-LOG-05")
async def test_logs_are_in_the_servers_log_too(surfaces):
    await surfaces.value("console.warn('a line for the operator'); 1")
    log = surfaces.home.places.logs / "mcpproxy.log"
    assert "console.warn: a line for the operator" in log.read_text(encoding="utf-8")


@pytest.mark.req("REQ-LEDGER-01", "REQ-LEDGER-02", "REQ-LEDGER-12")
async def test_a_failure_has_its_ledger_everywhere(surfaces):
    code = (
        "call_tool('stub', 'ping', {}); call_tool('my-server', 'crash', {}); throw new Error('x')"
    )
    assert (await everywhere(surfaces, {"code": code}))["calls"] == [
        {"n": 1, "server": "stub", "tool": "ping", "outcome": "ok"},
        {"n": 2, "server": "my-server", "tool": "crash", "outcome": "unknown", "code": "UPSTREAM_ERROR"},
    ]  # fmt: skip


@pytest.mark.req("REQ-LEDGER-06")
async def test_trace_shows_the_ledger_of_a_success(surfaces):
    body = {"code": "call_tool('stub', 'ping', {}); 1", "options": {"trace": True}}
    assert await everywhere(surfaces, body) == {
        "ok": True,
        "value": 1,
        "calls": [{"n": 1, "server": "stub", "tool": "ping", "outcome": "ok"}],
    }


@pytest.mark.req("REQ-LEDGER-03", "REQ-LEDGER-04", "REQ-LEDGER-08", "REQ-STOP-01", "REQ-BATCH-23")
async def test_at_the_deadline_calls_in_flight_are_cancelled_and_listed(surfaces):
    await surfaces.reset()
    code = "call_tools([1, 2, 3].map(() => ({server: 'stub', tool: 'hang'})), {max_parallel: 2})"
    envelope = await surfaces.ask("rest", {"code": code, "options": {"timeout_ms": 300}})
    assert envelope["error"]["code"] == "TIMEOUT"
    assert "unknown outcome: call 1 (stub:hang), call 2 (stub:hang)" in envelope["error"]["message"]
    outcomes = [entry["outcome"] for entry in envelope["calls"]]
    assert outcomes == ["unknown", "unknown", "not_started"]
    assert (await surfaces.until("s.in_flight === 0"))["cancelled"] == ["hang", "hang"]


@pytest.mark.req("REQ-STORE-24")
@pytest.mark.parametrize(
    "source", [FILE, TITLES, "throw new Error('x')", "var x = {", "1;\n\nnull.y"]
)
async def test_three_ways_of_giving_the_same_source_give_the_same_bytes(surfaces, source):
    place = surfaces.home
    place.script("same.js", source)
    file = str(place.folder / "scripts" / "same.js")
    ways = [[f"--code={source}"], ["--file", file], ["--script", "same"]]
    assert len({surfaces.invoke(*words).stdout for words in ways}) == 1


# ── cancellation ──────────────────────────────────────────────────────────────────────────────────

HANG = {"code": "call_tool('stub', 'hang', {}); 1"}
CANCELLED = "s.cancelled.includes('hang') && s.in_flight === 0"


@pytest.mark.req("REQ-STOP-03", "REQ-STOP-10")
async def test_a_rest_client_that_hangs_up_cancels_its_calls(surfaces):
    await surfaces.reset()
    connection = surfaces.serving.connect(local=True)
    connection.request("POST", EXEC, json.dumps(HANG), {"Content-Type": "application/json"})
    await surfaces.until("s.in_flight === 1")
    connection.close()
    await surfaces.until(CANCELLED)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("mcp modern", marks=req("REQ-STOP-04")),
        pytest.param("mcp legacy", marks=req("REQ-STOP-05")),
        pytest.param("stdio", marks=req("REQ-STOP-06")),
    ],
)
async def test_an_mcp_client_that_gives_up_cancels_its_calls(surfaces, way):
    await surfaces.reset()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(surfaces.ask, way, HANG)
            await surfaces.until("s.in_flight === 1")
            tasks.cancel_scope.cancel()
        await surfaces.until(CANCELLED)
        assert (await surfaces.ask(way, {"code": "1"}))["value"] == 1


@pytest.mark.req("REQ-STOP-07")
async def test_a_stdio_client_that_leaves_cancels_its_calls(surfaces, tmp_path):
    await surfaces.reset()
    with anyio.fail_after(20), (tmp_path / "e").open("w", encoding="utf-8") as errors:
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                async with over_stdio(surfaces.home, errors) as client:
                    tasks.start_soon(through, client, HANG)
                    await surfaces.until("s.in_flight === 1")
                    tasks.cancel_scope.cancel()

            tasks.start_soon(leave)
        await surfaces.until(CANCELLED)


@pytest.mark.req("REQ-STOP-08")
async def test_an_interrupted_command_cancels_its_calls(surfaces):
    await surfaces.reset()
    words = ["code", "exec", f"--code={HANG['code']}"]
    process = surfaces.home.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        await surfaces.until("s.in_flight === 1")
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert b"interrupted" in said
    await surfaces.until(CANCELLED)


# ── one surface alone ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-PROG-01", "REQ-PROG-02")
@pytest.mark.parametrize("way", ["mcp legacy", "mcp modern", "stdio"])
async def test_progress_is_told_to_who_asked(surfaces, way):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, total, message))

    body = {"code": "call_tool('stub', 'ping', {}); call_tool('api', 'ping', {}); 1"}
    client = surfaces.clients[way]
    assert (await through(client, body, progress_callback=hear))["value"] == 1
    assert heard == [(1, None, "stub:ping"), (2, None, "api:ping")]
    await through(client, body)
    assert len(heard) == 2


@pytest.mark.req(
    "REQ-TOOL-01", "REQ-TOOL-02", "REQ-TOOL-03", "REQ-TOOL-04",
    "REQ-TOOL-05", "REQ-TOOL-06", "REQ-TOOL-07", "REQ-TOOL-08",
)  # fmt: skip
@pytest.mark.parametrize("way", ["mcp legacy", "mcp modern", "stdio"])
async def test_the_tool_has_the_schema_of_the_reference(surfaces, way):
    listed = (await surfaces.clients[way].list_tools()).tools
    (schema,) = [tool.input_schema for tool in listed if tool.name == "code_execution"]
    properties = schema["properties"]
    assert "required" not in schema
    assert {"code", "script", "language", "input", "options"} <= properties.keys()
    assert (properties["code"]["type"], properties["script"]["type"]) == ("string", "string")
    assert properties["language"]["enum"] == ["javascript", "typescript"]
    assert properties["language"]["default"] == "javascript"
    assert (properties["input"]["type"], properties["input"]["default"]) == ("object", {})
    options = properties["options"]["properties"]
    timeout = options["timeout_ms"]
    assert (timeout["type"], timeout["minimum"], timeout["maximum"]) == ("number", 1, 600_000)
    assert (options["max_tool_calls"]["type"], options["max_tool_calls"]["minimum"]) == (
        "number",
        0,
    )
    assert options["allowed_servers"]["items"] == {"type": "string"}
    assert options["trace"]["type"] == "boolean"


@pytest.mark.req("REQ-REPLY-04", "REQ-REST-14", "REQ-REST-01", "REQ-REST-02")
@pytest.mark.parametrize("body", [{"code": "1"}, {"code": "throw 1"}, {}, {"script": "no-such"}])
async def test_rest_adds_the_request_id_and_nothing_else(surfaces, body):
    answer = surfaces.post(body, **{"X-Request-Id": "asked-for"})
    assert answer.headers["x-request-id"] == answer.body["request_id"] == "asked-for"
    known = {"ok", "value", "error", "request_id"}
    assert answer.body.keys() <= known
    assert answer.status == (200 if "code" in body else 404 if "script" in body else 400)


@pytest.mark.req("REQ-IN-04")
async def test_a_lone_surrogate_in_input_arrives_as_it_is(surfaces):
    """The SDK's client can't send one."""
    body = {"code": "input.s.charCodeAt(0)", "input": {"s": "\ud800"}}
    for way in ("rest", "cli"):
        assert await surfaces.ask(way, body) == {"ok": True, "value": 0xD800}


@pytest.mark.req("REQ-ASK-17")
async def test_a_thousand_levels_of_input_are_refused(surfaces):
    """The SDK's client can't send them."""
    given = '{"v": ' + "[" * 1000 + "]" * 1000 + "}"
    sent = raw(surfaces, '{"code": "1", "input": ' + given + "}")
    shown = json.loads(surfaces.invoke("--code=1", f"--input={given}").stdout or "null")
    for envelope in (sent, shown):
        assert envelope is None or envelope["error"]["code"] == "INVALID_REQUEST"
        assert envelope is None or "nested" in envelope["error"]["message"]


def raw(surfaces, text):
    """The answer to a body of exactly this text."""
    connection = surfaces.serving.connect(local=True)
    try:
        connection.request("POST", EXEC, text, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@pytest.mark.req("REQ-CODE-17", "REQ-SAFE-01")
async def test_too_much_memory_ends_that_script_alone(surfaces):
    code = "const a = []; for (;;) a.push(new Array(100000).fill(1))"
    error = (await surfaces.ask("rest", {"code": code}))["error"]
    assert error["code"] == "MEMORY_LIMIT"
    assert "code_execution_memory_mb" in error["message"]
    assert await surfaces.value("1") == 1


@pytest.mark.req("REQ-IN-06")
async def test_a_name_that_comes_twice_counts_with_its_last_value(surfaces):
    assert raw(surfaces, '{"code": "input.a", "input": {"a": 1, "a": 2}}')["value"] == 2
    assert json.loads(surfaces.invoke("--code=input.a", '--input={"a": 1, "a": 2}').stdout)["value"] == 2  # fmt: skip


@pytest.mark.req("REQ-REST-13")
async def test_the_key_may_be_in_the_query(surfaces):
    for query, status in (("", 401), ("?apikey=wrong", 401), (f"?apikey={KEY}", 200)):
        connection = surfaces.serving.connect()
        connection.request("GET", f"/api/v1/code/scripts{query}")
        assert connection.getresponse().status == status
        connection.close()


@pytest.mark.req("REQ-LIST-01", "REQ-LIST-02", "REQ-LIST-03", "REQ-LIST-04", "REQ-LIST-05", "REQ-LIST-08")  # fmt: skip
async def test_stored_scripts_are_listed_with_their_state(surfaces):
    data = surfaces.serving.ask("GET", "/api/v1/code/scripts").body["data"]
    folder = surfaces.home.folder / "scripts"
    assert data["dir"] == str(folder)
    found = {entry["name"]: (entry["status"], entry.get("reason")) for entry in data["scripts"]}
    assert list(found) == sorted(found)
    assert found["double"] == ("ok", None)
    assert found["both"] == ("ambiguous", None)
    assert found["empty"] == ("invalid", "empty")
    assert found["large"] == ("invalid", "oversized")
    assert found["link"] == found["pipe"] == ("invalid", "non-regular")
    (both,) = [entry for entry in data["scripts"] if entry["name"] == "both"]
    assert both["paths"] == [f"{folder}/both.js", f"{folder}/both.ts"]


@pytest.mark.req("REQ-STORE-15")
async def test_a_replaced_script_counts_at_once(surfaces):
    for n in (1, 2):
        surfaces.home.script(f"{n}.tmp", str(n))
        scripts = surfaces.home.folder / "scripts"
        (scripts / f"{n}.tmp").rename(scripts / "replaced.js")
        assert (await everywhere(surfaces, {"script": "replaced"}))["value"] == n
    (surfaces.home.folder / "scripts" / "replaced.js").unlink()
    envelope = await everywhere(surfaces, {"script": "replaced"})
    assert envelope["error"]["code"] == "SCRIPT_NOT_FOUND"


@pytest.mark.req("REQ-EX-15", "REQ-EX-16", "REQ-EX-17", "REQ-EX-18", "REQ-EX-19", "REQ-CLI-14", "REQ-CLI-15")  # fmt: skip
@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["--code=({sum: input.a + input.b})", '--input={"a":5,"b":10}'], 0, '"sum": 15'),
        (["--code=var r = call_tool('github','get_user',{username:input.user}); r", '--input={"user":"octocat"}'], 0, '"Octocat"'),
        (["--code=throw new Error('Test error')"], 1, '"message": "Error: Test error"'),
        (["--code=while(true){}", "--timeout=50"], 1, '"code": "TIMEOUT"'),
        (["--code=1", "--timeout=60000", "--max-tool-calls=10", "--allowed-servers=github,gitlab", "--log-level=debug"], 0, '"value": 1'),
        (["--file=script.js"], 0, '"Torvalds"'),
        (["--script=double", "--input-file=params.json"], 0, '"result": 42'),
    ],
    ids=["a sum", "a call", "an error", "a timeout", "limits", "a file", "a stored script"],
)  # fmt: skip
async def test_the_patterns_of_the_command_line_as_processes(surfaces, words, status, part):
    (surfaces.home.folder / "script.js").write_text(FILE, encoding="utf-8")
    (surfaces.home.folder / "params.json").write_text('{"value": 21}', encoding="utf-8")
    done = await anyio.to_thread.run_sync(surfaces.home.run, "code", "exec", *words)
    assert done.returncode == status, done.stderr
    assert part in done.stdout
    assert done.stderr.startswith("running on the daemon at ")
