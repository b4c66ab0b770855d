"""What all surfaces are asked and what each has to say: values, failures and refusals."""

from __future__ import annotations

import json

import pytest
from daemon_process import stubs

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
    returns("what is left out as null", "input", {}, req("REQ-OPT-16", "REQ-ASK-10"), script=None, language=None, input=None, description=None, options={"timeout_ms": None, "max_tool_calls": None, "trace": None}),
    returns("options left out as null", "1", 1, req("REQ-OPT-16"), options=None),
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

FAILURES = [
    fails("the SYNTAX_ERROR example", "var x = { missing bracket", "SYNTAX_ERROR", "SyntaxError: ", req("REQ-EX-09", "REQ-CODE-01")),
    fails("the RUNTIME_ERROR example", "var x = null; x.property", "RUNTIME_ERROR", "TypeError: cannot read property 'property' of null", req("REQ-EX-10", "REQ-CODE-02", "REQ-POS-04")),
    fails("the TIMEOUT example", "while(true) {}", "TIMEOUT", "JavaScript execution timed out", req("REQ-EX-11", "REQ-CODE-03"), options={"timeout_ms": 30}),
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

INVALID = [
    *(refused(f"{field} as {value!r:.20}", {"code": "1", field: value} if field != "code" else {"code": value}, 400, code, field, req("REQ-SAFE-05", "REQ-ASK-05", "REQ-ASK-06", "REQ-ASK-08", "REQ-ASK-11", "REQ-ASK-12", "REQ-REST-12"))
      for field, code in {"code": "INVALID_REQUEST", "script": "INVALID_REQUEST", "input": "INVALID_REQUEST", "options": "INVALID_OPTIONS", "language": "INVALID_LANGUAGE", "description": "INVALID_REQUEST"}.items()
      for value in (7, True, [1], "x" if field in ("input", "options") else {"a": 1})),
    *(refused(f"{name} as {value!r:.20}", {"code": "1", "options": {name: value}}, 400, "INVALID_OPTIONS", name, req("REQ-OPT-02", "REQ-OPT-03", "REQ-OPT-05", "REQ-OPT-06", "REQ-OPT-09", "REQ-OPT-10", "REQ-OPT-11", "REQ-OPT-15", "REQ-OPT-16", "REQ-ASK-14", "REQ-REST-11"))
      for name, values in {
          "timeout_ms": (0, -1, 600001, 1.5, "1000", True, [], {}),
          "max_tool_calls": (-1, 0.5, "5", False, [5]),
          "allowed_servers": ("github", None, {"github": True}, [1], ["github", None], [["github"]], True),
          "trace": (1, "true", []),
          "max_parallel": (4,),
          "timeout": (1000,),
      }.items() for value in values),
    refused("another member", {"code": "1", "colour": "green"}, 400, "INVALID_REQUEST", "'colour'", req("REQ-ASK-13")),
    refused("another language", {"code": "1", "language": "python"}, 400, "INVALID_LANGUAGE", "python", req("REQ-ASK-08")),
    refused("a language in another case", {"code": "1", "language": "TypeScript"}, 400, "INVALID_LANGUAGE", "TypeScript", req("REQ-ASK-08")),
    refused("both", {"code": "1", "script": "double"}, 400, "INVALID_REQUEST", "Provide exactly one of 'code' (inline source) or 'script' (the name of a stored script)", req("REQ-ASK-03", "REQ-STORE-23", "REQ-REST-03")),
    refused("neither", {}, 400, "INVALID_REQUEST", "next to mcpproxy's config file) — not both, not neither.", req("REQ-ASK-04", "REQ-STORE-23", "REQ-REST-03")),
    refused("code that is null", {"code": None}, 400, "INVALID_REQUEST", "exactly one", req("REQ-ASK-18")),
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
