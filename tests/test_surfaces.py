"""The same requests on every surface of one real daemon, and the same envelopes back.

Each case is asked over REST, MCP over HTTP in both eras, stdio and the command line, wherever the
surface can say it at all. What only one surface has is below the table.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess

import anyio
import pytest
from daemon_process import (
    EXEC,
    WAYS,
    Surfaces,
    cli_words,
    open_process,
    open_surfaces,
    over_stdio,
    stubs,
    through,
)
from running import KEY, home

from mcpproxy.request import MAX_SOURCE_BYTES

req = pytest.mark.req

SETTINGS = {
    "code_execution_pool_size": 3,
    "mcpServers": [
        *stubs("stub", "github", "api", "my-server"),
        *stubs("narrow", max_concurrent_requests=1, queue_size=9),
        *stubs("full", max_concurrent_requests=1),
        *stubs("slow", call_tool_timeout=80),
        *stubs("kept-out", quarantined=True),
        {"name": "broken", "command": "no-such-program"},
    ],
}
SCRIPTS = {
    "double.js": "({ result: input.value * 2 })",
    "typed.ts": "const x: number = 42; return { x }",
    "loop.js": "for (let i = 0; i < 5; i++) call_tool('stub', 'ping', {}); 'looped'",
    "fails.js": "call_tool('stub', 'ping', {}); throw new Error('stored')",
    "both.js": "1",
    "both.ts": "1",
    "empty.js": "",
    "large.js": "/".ljust(262_145, "/"),
}


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


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


@pytest.fixture(autouse=True)
def signals(monkeypatch):
    """`code exec` runs in this process here and must leave its signals alone."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)


async def everywhere(surfaces, body):
    """The one envelope that all surfaces give."""
    found = {}
    with anyio.fail_after(20):
        for way in WAYS:
            found[way] = await surfaces.ask(way, body)
    said = {way: envelope for way, envelope in found.items() if envelope is not None}
    assert len(said) >= 4
    for way, envelope in said.items():
        assert json.dumps(envelope) == json.dumps(said["rest"]), way
    return said["rest"]


def given(code, body):
    return body if code is None else {"code": code, **body}


def returns(name, code, value, marks, **body):
    return pytest.param(given(code, body), value, id=name, marks=marks)


def fails(name, code, error, part, marks, **body):
    return pytest.param(given(code, body), error, part, id=name, marks=marks)


def refused(name, body, status, error, part, marks):
    return pytest.param(body, status, error, part, id=name, marks=marks)


OCTOCAT = {"login": "octocat", "name": "Octocat", "id": 1, "public_repos": 8}
WIRE = {"content": [{"type": "text", "text": json.dumps(OCTOCAT)}], "structuredContent": OCTOCAT}
GET_USER = "call_tool('github', 'get_user', {username: input.username})"
FILE = """\
const users = ['octocat', 'torvalds'];
const names = users
  .map(username => call_tool('github', 'get_user', {username}))
  .filter(res => res.ok)
  .map(res => res.result.name);
return {names};
"""
TITLES = """\
var slots = call_tools(
  [1, 2, 3, 4, 5].map(function (n) {
    return {server: 'github', tool: 'get_pull_request',
            args: {owner: 'acme', repo: 'api', pullNumber: n}};
  }),
  {max_parallel: 5}
);

var titles = slots.map(function (r) {
  if (!r.ok) { return 'ERR: ' + r.error.code; }
  return JSON.parse(r.result.content[0].text).title;
});
({titles: titles});
"""
USER_EXAMPLE = """\
var res = call_tool('github', 'get_user', {username: 'octocat'});

if (res.ok) {
  return {
    name: res.result.name,
    repos: res.result.public_repos
  };
} else {
  return {
    error: 'Failed to get user: ' + res.error.message
  };
}
"""
ERROR_EXAMPLE = """\
// Always check res.ok before accessing res.result
var res = call_tool('server', 'tool', {arg: 'value'});

if (!res.ok) {
  // Handle error
  return {error: res.error.message};
}

// Use result
var data = res.result;
"""
CONVERSIONS = """\
var value = [0];
var num = parseInt('42', 10);
var float = parseFloat('3.14');
var str = (42).toString();
var fixed = (3.14159).toFixed(2);
var bool = Boolean(value);
var isTruthy = !!value;
var isArray = Array.isArray(value);
var isObject = typeof value === 'object' && value !== null;
[num, float, str, fixed, bool, isTruthy, isArray, isObject]
"""
LIBRARY = """\
[Object.keys(Object.create({}, {a: {value: 1, enumerable: true}})),
 [1, 2, 3].map(x => x * 2).filter(x => x > 2).reduce((a, b) => a + b),
 ' a,b '.trim().split(',').concat('abc'.indexOf('c'), 'abc'.substring(1)),
 [Math.round(1.5), Math.floor(1.5), Math.max(1, 2), typeof Math.random()],
 [typeof Date.now(), new Date(0).toISOString(), new Date(5).getTime()],
 JSON.parse(JSON.stringify({a: [1]}))]
"""

VALUES = [
    returns("the basic request", "({ result: input.value * 2 })", {"result": 42}, req("REQ-EX-01", "REQ-ASK-01", "REQ-ASK-09", "REQ-REPLY-01"), input={"value": 21}),
    returns("the TypeScript request", "const x: number = 42; const msg: string = 'hello'; ({ result: x, message: msg })", {"result": 42, "message": "hello"}, req("REQ-EX-02", "REQ-ASK-07"), language="typescript", input={}),
    returns("the full request", f"var res = {GET_USER}; return res.ok ? res.result : {{error: res.error}};", WIRE, req("REQ-EX-03", "REQ-OPT-07"), input={"username": "octocat"}, options={"timeout_ms": 30000, "max_tool_calls": 10, "allowed_servers": ["github", "gitlab"]}),
    returns("the input example", "var username = input.username;\nvar limit = input.limit;\n[username, limit]", ["octocat", 10], req("REQ-EX-04", "REQ-IN-01"), input={"username": "octocat", "limit": 10}),
    returns("the call_tool example", USER_EXAMPLE, {"name": "Octocat", "repos": 8}, req("REQ-EX-05", "REQ-CALL-01", "REQ-CALL-05")),
    returns("the call_tools example", TITLES, {"titles": [f"Pull request {n}" for n in range(1, 6)]}, req("REQ-EX-07", "REQ-BATCH-01", "REQ-BATCH-24")),
    returns("the type conversions", CONVERSIONS, [42, 3.14, "42", "3.14", True, True, True, True], req("REQ-EX-08", "REQ-HAS-02")),
    returns("the library", LIBRARY, [["a"], 10, ["a", "b", 2, "bc"], [2, 1, 2, "number"], ["number", "1970-01-01T00:00:00.000Z", 5], {"a": [1]}], req("REQ-HAS-01")),
    returns("a lone call gives its envelope", GET_USER, {"ok": True, "result": WIRE}, req("REQ-EX-16", "REQ-EX-20", "REQ-CALL-02", "REQ-CALL-04"), input={"username": "octocat"}),
    returns("the file of the CLI's pattern", FILE, {"names": ["Octocat", "Torvalds"]}, req("REQ-EX-19")),
    returns("the sum of the CLI's pattern", "({sum: input.a + input.b})", {"sum": 15}, req("REQ-EX-15"), input={"a": 5, "b": 10}),
    returns("null", "null", None, req("REQ-REPLY-08", "REQ-VAL-01", "REQ-VAL-06")),
    returns("primitives", "[true, false, 0, -1.5, 'x', null]", [True, False, 0, -1.5, "x", None], req("REQ-VAL-01", "REQ-VAL-02")),
    returns("order and undefined", "({z: 1, a: undefined, m: {b: 2, a: 1}})", {"z": 1, "m": {"b": 2, "a": 1}}, req("REQ-VAL-03", "REQ-VAL-04")),
    returns("no input is an empty object", "[typeof input, Object.keys(input).length]", ["object", 0], req("REQ-ASK-10")),
    returns("input may be changed", "input.list.push(2); delete input.gone; input", {"list": [1, 2]}, req("REQ-IN-02"), input={"list": [1], "gone": 1}),
    returns("odd names in input", "[Object.keys(input), input['__proto__'], input['']]", [["z", "__proto__", "", "ä\0"], 7, "e"], req("REQ-IN-03", "REQ-IN-07"), input={"z": 1, "__proto__": 7, "": "e", "ä\0": 1}),
    returns("a lone surrogate in the result", "'\\ud800'", "\ufffd", req("REQ-VAL-21")),
    returns("beyond 2 ** 53", "[input.n, input.n === 2 ** 53]", [2**53, True], req("REQ-IN-05"), input={"n": 2**53 + 1}),
    returns("NUL", "const s = 'a\0b'; s.length", 3, req("REQ-WAY-12")),
    returns("256 KB of source", "/*" + "x" * 262_140 + "*/ 1", 1, req("REQ-ASK-16")),
    returns("100 levels of input", "let n = 0; for (let v = input; v; v = v.v) n++; n", 100, req("REQ-ASK-17"), input=json.loads('{"v":' * 99 + "{}" + "}" * 99)),
    returns("an own name in brackets", "(await tools['my-server']['list.items']({x: 1})).x", 1, req("REQ-TYPED-05")),
    returns("await on a synchronous call", "(await call_tool('stub', 'ping', {})).result.pong", True, req("REQ-CALL-16")),
    returns("JSON text is data, too", "call_tool('stub', 'json_text', {deep: {n: 1}}).result.deep.n", 1, req("REQ-CALL-06")),
    returns("a script that looks at ok carries on", "const r = call_tool('gitlab', 'x', {}); r.ok ? 'ok' : 'carried on'", "carried on", req("REQ-GATE-05"), options={"allowed_servers": ["stub"]}),
    returns("an empty batch", "[call_tools([]), call_tool('stub', 'ping', {}).ok]", [[], True], req("REQ-BATCH-16"), options={"max_tool_calls": 1}),
    returns("undefined args in a batch", "call_tools([{server: 'stub', tool: 'ping', args: undefined}])[0].ok", True, req("REQ-BATCH-03")),
    returns("siblings of what fails", "call_tools([{server: 'stub', tool: 'ping'}, {server: 'stub', tool: 'fail'}, {server: 'nope', tool: 'x'}]).map(s => s.ok ? 'ok' : s.error.code)", ["ok", "TOOL_ERROR", "SERVER_NOT_FOUND"], req("REQ-BATCH-18", "REQ-CALL-09")),
    returns("a batch against its budget", "call_tools([1, 2, 3].map(() => ({server: 'stub', tool: 'ping'}))).map(s => s.ok || s.error.code)", [True, True, "MAX_TOOL_CALLS_EXCEEDED"], req("REQ-BATCH-17"), options={"max_tool_calls": 2}),
    returns("a narrow server with a queue", "call_tools([...Array(10)].map(() => ({server: 'narrow', tool: 'ping'}))).filter(s => s.ok).length", 10, req("REQ-BATCH-25")),
    returns("a narrow server without one", "const s = call_tools([...Array(4)].map(() => ({server: 'full', tool: 'sleep', args: {ms: 50}}))); [s.filter(x => x.ok).length, s[3].error.code, s[3].error.retryable, s[3].error.retry_after_ms > 0]", [1, "queue_full", True, True], req("REQ-BATCH-25", "REQ-CODE-15")),
    returns("errors a caller can tell apart", "[['nope', 'x'], ['stub', 'pong'], ['stub', 'rpc_error'], ['broken', 'x'], ['kept-out', 'ping'], ['slow', 'hang']].map(([s, t]) => { const {code, retryable} = call_tool(s, t, {}).error; return [code, retryable] })", [["SERVER_NOT_FOUND", False], ["TOOL_NOT_FOUND", False], ["UPSTREAM_ERROR", False], ["SERVER_UNAVAILABLE", True], ["QUARANTINED", False], ["UPSTREAM_TIMEOUT", True]], req("REQ-CODE-08", "REQ-CODE-09", "REQ-CODE-10", "REQ-CODE-11", "REQ-CODE-12", "REQ-CODE-13", "REQ-CALL-17")),
    returns("a slow call's outcome is unknown", "call_tool('slow', 'hang', {}).error.message.includes('unknown')", True, req("REQ-LEDGER-09", "REQ-CONF-11")),
    returns("arguments that the schema refuses", "const e = call_tool('stub', 'add', {a: 'one', b: 2}).error; [e.code, e.message.includes('args.a'), e.message.includes('number')]", ["INVALID_TOOL_ARGS", True, True], req("REQ-CODE-14")),
    returns("a caught stack overflow", "const f = () => f() + 1; try { f() } catch (e) { e instanceof RangeError }", True, req("REQ-CODE-22")),
    returns("a search within a script", "(await search_tools('look up a user', {limit: 1, server: 'github'})).tools[0].name", "github:get_user", req("REQ-FIND-01", "REQ-FIND-04"), options={"max_tool_calls": 1}),
    returns("a description within a script", "JSON.stringify(await describe_tool('github:get_user')).includes('username')", True, req("REQ-FIND-02")),
    returns("the environment of a server", "Object.keys(await tools.stub.environment({})).filter(n => /KEY|TOKEN|MCPPROXY/.test(n))", [], req("REQ-CONF-12", "REQ-SAFE-03")),
    returns("no server is a list of all", "call_tool('stub', 'ping', {}).ok", True, req("REQ-OPT-08"), options={"allowed_servers": []}),
    returns("any number of calls", "let n = 0; for (let i = 0; i < 50; i++) n += call_tool('stub', 'ping', {}).ok; n", 50, req("REQ-OPT-04", "REQ-OPT-14"), options={"max_tool_calls": 0}),
    returns("the longest timeout", "1", 1, req("REQ-OPT-01"), options={"timeout_ms": 600000}),
    returns("a fraction that is whole", "1", 1, req("REQ-OPT-03"), options={"timeout_ms": 5000.0}),
    returns("a stored script", None, {"result": 42}, req("REQ-ASK-02", "REQ-STORE-01", "REQ-STORE-16"), script="double", input={"value": 21}),
    returns("a stored TypeScript", None, {"x": 42}, req("REQ-STORE-07"), script="typed"),
    returns("a stored script and its language", None, {"x": 42}, req("REQ-STORE-07"), script="typed", language="typescript"),
]  # fmt: skip


@pytest.mark.req("REQ-REPLY-03", "REQ-REPLY-09", "REQ-LEDGER-07", "REQ-LOG-04")
@pytest.mark.parametrize(("body", "value"), VALUES)
async def test_a_value_is_the_same_everywhere(surfaces, body, value):
    assert await everywhere(surfaces, body) == {"ok": True, "value": value}


FAILURES = [
    fails("the SYNTAX_ERROR example", "var x = { missing bracket", "SYNTAX_ERROR", "SyntaxError: ", req("REQ-EX-09", "REQ-CODE-01")),
    fails("the RUNTIME_ERROR example", "var x = null; x.property", "RUNTIME_ERROR", "TypeError: cannot read property 'property' of null", req("REQ-EX-10", "REQ-CODE-02", "REQ-POS-04")),
    fails("the TIMEOUT example", "while(true) {}", "TIMEOUT", "JavaScript execution timed out", req("REQ-EX-11", "REQ-CODE-03"), options={"timeout_ms": 100}),
    fails("the MAX_TOOL_CALLS_EXCEEDED example", "for(var i=0;i<10;i++){call_tool('api','ping',{})}", "MAX_TOOL_CALLS_EXCEEDED", "Exceeded maximum tool calls limit (5)", req("REQ-EX-12", "REQ-CODE-04", "REQ-GATE-06", "REQ-OPT-12"), options={"max_tool_calls": 5}),
    fails("the SERVER_NOT_ALLOWED example", "call_tool('gitlab', 'get_user', {username: 'test'})", "SERVER_NOT_ALLOWED", "Server 'gitlab' is not in the allowed servers list", req("REQ-EX-13", "REQ-CODE-05", "REQ-GATE-02", "REQ-GATE-06"), options={"allowed_servers": ["github"]}),
    fails("the SERIALIZATION_ERROR example", "({fn: function() { return 42; }})", "SERIALIZATION_ERROR", "Result contains non-JSON-serializable values (functions, circular references, etc.)", req("REQ-EX-14", "REQ-CODE-06", "REQ-VAL-07", "REQ-VAL-09")),
    fails("the call_tool error example", ERROR_EXAMPLE.replace("return {error: res.error.message};", "throw new Error(res.error.message);"), "RUNTIME_ERROR", "there is no server 'server'", req("REQ-EX-06", "REQ-CALL-03")),
    fails("the CLI's error pattern", "throw new Error('Test error')", "RUNTIME_ERROR", "Error: Test error", req("REQ-EX-17", "REQ-REPLY-02", "REQ-REPLY-10")),
    fails("too few arguments", "call_tool('stub')", "INVALID_ARGS", "3 arguments", req("REQ-CODE-07", "REQ-CALL-11")),
    fails("undefined args", "call_tool('stub', 'ping', undefined)", "INVALID_ARGS", "plain object", req("REQ-CALL-13")),
    fails("a bad batch", "call_tools([{server: 'stub', tool: 'ping'}, 42])", "INVALID_ARGS", "element 1", req("REQ-BATCH-06", "REQ-BATCH-13", "REQ-BATCH-14")),
    fails("a Date", "({ rows: [{ when: new Date(0) }] })", "SERIALIZATION_ERROR", "value.rows[0].when is a Date: return .toISOString()", req("REQ-VAL-08", "REQ-VAL-12")),
    fails("no value", "const x = 5;", "SERIALIZATION_ERROR", "add `return", req("REQ-VAL-16")),
    fails("itself", "var a = {}; a.self = a; return a;", "SERIALIZATION_ERROR", "circular", req("REQ-VAL-11")),
    fails("a large result", "'x'.repeat(1048577)", "RESULT_TOO_LARGE", "1048579", req("REQ-CODE-16", "REQ-VAL-19", "REQ-VAL-20")),
    fails("a forged code", "throw {code: 'TIMEOUT', message: 'forged'}", "RUNTIME_ERROR", "forged", req("REQ-CODE-21")),
    fails("a promise nobody settles", "new Promise(() => {})", "RUNTIME_ERROR", "never settle", req("REQ-WAY-07")),
    fails("require", "require('fs')", "RUNTIME_ERROR", "there are no modules here", req("REQ-HAS-10")),
    fails("fetch", "fetch('https://example.com')", "RUNTIME_ERROR", "call a tool", req("REQ-HAS-12")),
    fails("setTimeout", "setTimeout(() => {}, 1)", "RUNTIME_ERROR", "await sleep", req("REQ-HAS-11")),
    fails("process", "process.env.HOME", "RUNTIME_ERROR", "input", req("REQ-HAS-13")),
    fails("a stored script against its budget", None, "RUNTIME_ERROR", "Error: stored", req("REQ-STORE-16"), script="fails"),
]  # fmt: skip


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


INVALID = [
    *(refused(f"{field} as {value!r:.20}", {"code": "1", field: value} if field != "code" else {"code": value}, 400, code, field, req("REQ-SAFE-05", "REQ-ASK-05", "REQ-ASK-06", "REQ-ASK-08", "REQ-ASK-11", "REQ-ASK-12", "REQ-REST-12"))
      for field, code in {"code": "INVALID_REQUEST", "script": "INVALID_REQUEST", "input": "INVALID_REQUEST", "options": "INVALID_OPTIONS", "language": "INVALID_LANGUAGE", "description": "INVALID_REQUEST"}.items()
      for value in (None, 7, True, [1], "x" if field in ("input", "options") else {"a": 1})),
    *(refused(f"{name} as {value!r:.20}", {"code": "1", "options": {name: value}}, 400, "INVALID_OPTIONS", name, req("REQ-OPT-02", "REQ-OPT-03", "REQ-OPT-05", "REQ-OPT-06", "REQ-OPT-09", "REQ-OPT-10", "REQ-OPT-11", "REQ-OPT-15", "REQ-OPT-16", "REQ-ASK-14", "REQ-REST-11"))
      for name, values in {
          "timeout_ms": (0, -1, 600001, 1.5, "1000", True, None, [], {}),
          "max_tool_calls": (-1, 0.5, "5", False, None, [5]),
          "allowed_servers": ("github", None, {"github": True}, [1], ["github", None], [["github"]], True),
          "trace": (1, "true", None, []),
          "max_parallel": (4,),
          "timeout": (1000,),
      }.items() for value in values),
    refused("another member", {"code": "1", "colour": "green"}, 400, "INVALID_REQUEST", "'colour'", req("REQ-ASK-13")),
    refused("another language", {"code": "1", "language": "python"}, 400, "INVALID_LANGUAGE", "python", req("REQ-ASK-08")),
    refused("a language in another case", {"code": "1", "language": "TypeScript"}, 400, "INVALID_LANGUAGE", "TypeScript", req("REQ-ASK-08")),
    refused("both", {"code": "1", "script": "double"}, 400, "INVALID_REQUEST", "Provide exactly one of 'code' (inline source) or 'script' (the name of a stored script)", req("REQ-ASK-03", "REQ-STORE-23", "REQ-REST-03")),
    refused("neither", {}, 400, "INVALID_REQUEST", "next to mcpproxy's config file) — not both, not neither.", req("REQ-ASK-04", "REQ-STORE-23", "REQ-REST-03")),
    refused("an empty code", {"code": ""}, 400, "INVALID_REQUEST", "exactly one", req("REQ-ASK-18")),
    refused("too long a source", {"code": "1;" + " " * MAX_SOURCE_BYTES}, 400, "INVALID_REQUEST", "bytes", req("REQ-ASK-15")),
    refused("101 levels of input", {"code": "1", "input": json.loads('{"v":' * 101 + "1" + "}" * 101)}, 400, "INVALID_REQUEST", "nested", req("REQ-ASK-17")),
    refused("an unknown script", {"script": "no-such"}, 404, "SCRIPT_NOT_FOUND", "Available scripts (4): double, fails, loop, typed", req("REQ-STORE-17", "REQ-REST-05")),
    refused("an invalid name", {"script": "../double"}, 400, "INVALID_SCRIPT_NAME", 'character "." is not allowed', req("REQ-STORE-02", "REQ-STORE-04", "REQ-REST-06")),
    refused("a path as a name", {"script": "scripts/double"}, 400, "INVALID_SCRIPT_NAME", 'character "/" is not allowed', req("REQ-STORE-02", "REQ-STORE-04")),
    refused("a name in another case", {"script": "Double"}, 404, "SCRIPT_NOT_FOUND", 'stored script "Double" not found in', req("REQ-STORE-05")),
    refused("two files", {"script": "both"}, 400, "SCRIPT_UNUSABLE", "both exist — remove one", req("REQ-STORE-14", "REQ-REST-07")),
    refused("an empty file", {"script": "empty"}, 400, "SCRIPT_UNUSABLE", "is empty", req("REQ-STORE-10", "REQ-REST-07")),
    refused("an oversized file", {"script": "large"}, 400, "SCRIPT_UNUSABLE", "is oversized: scripts are limited to 262144 bytes", req("REQ-STORE-11", "REQ-REST-07")),
    refused("a link", {"script": "link"}, 400, "SCRIPT_UNUSABLE", "is non-regular", req("REQ-STORE-12", "REQ-REST-07")),
    refused("a FIFO", {"script": "pipe"}, 400, "SCRIPT_UNUSABLE", "is non-regular", req("REQ-STORE-12")),
    refused("a contradicting language", {"script": "typed", "language": "javascript"}, 400, "INVALID_LANGUAGE", 'stored script "typed" is a .ts file (typescript) but language "javascript" was requested', req("REQ-STORE-08", "REQ-REST-08")),
]  # fmt: skip


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
        {"n": 2, "server": "my-server", "tool": "crash", "outcome": "error", "code": "UPSTREAM_ERROR"},
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
        (["--code=while(true){}", "--timeout=300"], 1, '"code": "TIMEOUT"'),
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


# ── other daemons ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-REST-04", "REQ-REST-17")
async def test_a_feature_that_is_off_is_off_everywhere(tmp_path):
    """Not even the name of a script is looked at: this one would be refused for itself."""
    settings = {"enable_code_execution": False, "mcpServers": []}
    with (
        open_process(**settings) as serving,
        (tmp_path / "e").open("w", encoding="utf-8") as errors,
    ):
        async with open_surfaces(serving, errors) as surfaces:
            for body in ({"code": "1"}, {"script": "../x"}, {}):
                envelope = await everywhere(surfaces, body)
                assert envelope["error"]["code"] == "FEATURE_DISABLED"
                assert "enable_code_execution" in envelope["error"]["message"]
                assert surfaces.post(body).status == 403


@pytest.mark.req("REQ-OPT-17", "REQ-OPT-18", "REQ-CONF-10")
async def test_no_request_passes_the_operators_ceilings():
    ceilings = {"max_timeout_ms": 5000, "max_tool_calls": 2}
    settings = {"code_execution_limits": ceilings, "mcpServers": stubs("stub")}
    code = "[1, 2, 3].map(() => call_tool('stub', 'ping', {}).ok)"
    with open_process(**settings) as serving:
        surfaces = Surfaces(serving, {})
        options = {"timeout_ms": 60_000, "max_tool_calls": 0}
        for way in ("rest", "cli"):
            assert await surfaces.ask(way, {"code": code, "options": options}) == {
                "ok": True,
                "value": [True, True, False],
                "warnings": [
                    "timeout_ms 60000 is above what the operator allows; 5000 was used",
                    "max_tool_calls 0 (no limit) is above what the operator allows; 2 was used",
                ],
            }
            lower = {"code": code, "options": {"max_tool_calls": 1, "timeout_ms": 5000}}
            assert await surfaces.ask(way, lower) == {"ok": True, "value": [True, False, False]}


@pytest.mark.req("REQ-STORE-18")
def test_without_stored_scripts_it_says_where_to_put_one():
    with home() as place:
        done = place.run("code", "exec", "--script", "x")
        folder = place.folder / "scripts"
        assert json.loads(done.stdout)["error"]["message"] == (
            f'stored script "x" not found: no stored scripts in {folder} (create x.js or x.ts there)'
        )


def test_what_the_command_line_can_not_say_is_left_to_the_others():
    assert cli_words({"code": "1", "options": {"timeout_ms": 5}}) == ["--code=1", "--timeout=5"]
    assert cli_words({"code": "1", "options": {"timeout_ms": 0}}) is None
    assert cli_words({"code": "1", "options": {"trace": True}}) is None
