"""Escape: what would reach the host's language, its files, its network or another script."""

from __future__ import annotations

import re

from hostile import RUNTIME, TIMEOUT, Case, Gives

NO = "RUNTIME_ERROR SYNTAX_ERROR SERIALIZATION_ERROR"


def nothing(value: object) -> bool:
    return isinstance(value, list) and set(value) <= {"undefined"}


def homely(value: object) -> bool:
    """A text that names no path, module or object of the host."""
    return not re.search(
        r"/(?:usr|tmp|home|root|opt|work)/|\.py\b|[Pp]ython|mcpproxy|prelude|0x[0-9a-f]{6}",
        str(value),
    )


CASES = [
    Case("the global object", "const g = (() => {}).constructor.constructor('return this')(); [g === globalThis, typeof g.process, typeof g.require]", Gives([True, "undefined", "undefined"])),
    Case("the constructor of a host function", "call_tool.constructor('return typeof process + typeof os')()", Gives("undefinedundefined")),
    Case("the async function's constructor", "await (async () => {}).constructor('return typeof std')()", Gives("undefined")),
    Case("import of a module", "await import('std')", NO),
    Case("import of a file", "await import('/etc/passwd')", NO),
    Case("import from a made function", "await Function('return import(\"os\")')()", NO),
    Case("static import", "import * as os from 'os'; os", NO),
    Case("import.meta", "import.meta.url", NO),
    Case("require", "require('fs').readFileSync('/etc/passwd', 'utf8')", RUNTIME, says="no modules"),
    Case("fetch", "await fetch('http://127.0.0.1/')", RUNTIME, says="no network"),
    Case("timer with a text", "setTimeout('1', 0)", RUNTIME),
    Case("process", "process.env.HOME", RUNTIME),
    Case("engine modules", "['std', 'os', 'bjson', 'scriptArgs', 'print', 'load', 'loadScript', 'gc', 'Worker', 'navigator', 'performance'].map(n => eval('typeof ' + n)).filter(t => t !== 'undefined' && t !== 'object')", Gives([])),
    Case("the doors of the host by name", "['host', 'send', 'ask', 'settled', 'random', 'url', 'made', 'prelude', 'known', 'publish', 'api', 'evaluate', 'about', 'program', 'acorn'].map(n => { try { return eval('typeof ' + n) } catch { return 'undefined' } })", Gives(nothing)),
    Case("the host's language on functions", "['__call__', '__globals__', '__class__', '__self__', '__code__', '__dict__', '__module__', '__builtins__'].map(k => typeof call_tool[k])", Gives(nothing)),
    Case("keys of what is provided", "[call_tool, call_tools, tools.stub.echo, console.log, sleep, search_tools, ToolError].flatMap(f => Reflect.ownKeys(f).map(String)).filter(k => !['length', 'name', 'prototype'].includes(k))", Gives([])),
    Case("source of what is provided", "[String(call_tool), String(tools.stub.echo), String(console.log), String(sleep)].join()", Gives(lambda text: "/work" not in text and "python" not in text.lower())),
    Case("caller", "function f() { return f.caller } f()", "RUNTIME_ERROR SERIALIZATION_ERROR"),
    Case("arguments.callee.caller", "(function () { return typeof arguments.callee.caller })()", "VALUE RUNTIME_ERROR"),
    Case("caller from a getter in args", "let seen = []; call_tool('stub', 'echo', { get a() { try { seen.push(typeof (function g() { return g.caller })()) } catch { seen.push('refused') } return 1 } }); seen.every(s => s === 'refused' || s === 'undefined' || s === 'object')", Gives(True)),
    Case("stack names no path", "let s = ''; try { call_tool('stub', 'echo', { get a() { s += new Error('x').stack; return 1 } }) } catch {} s", Gives(homely)),
    Case("stack of a rejected call names no path", "try { await tools.stub.fail({}) } catch (e) { return e.stack + Object.keys(e) }", Gives(homely)),
    Case("structured stack", "Error.prepareStackTrace = (e, frames) => frames; const s = new Error('x').stack; Array.isArray(s) ? s.map(f => { try { return typeof f.getFunction() + String(f.getThis?.()) } catch { return 'refused' } }).join() : typeof s", Gives(homely)),
    Case("stack frames give functions of the host", "Error.prepareStackTrace = (e, frames) => { globalThis.kept = frames }; call_tool('stub', 'echo', { get a() { new Error('x').stack; return 1 } }); (globalThis.kept ?? []).some(f => { try { return typeof f.getFunction?.() === 'function' && f.getFunction() !== undefined && /host/.test(String(f.getFunction())) } catch { return false } })", Gives(False)),
    Case("Error.captureStackTrace", "const o = {}; Error.captureStackTrace?.(o); String(o.stack)", Gives(homely)),
    Case("species hands over internals", "class P extends Promise { static get [Symbol.species]() { return function (run) { run((v) => globalThis.got = v, () => 0); } } } Promise.prototype.constructor = P; const r = tools.stub.echo({ a: 1 }); typeof globalThis.got", Gives("undefined")),
    Case("a Promise that is replaced sees no doors", "let seen = 0; const Old = Promise; globalThis.Promise = class extends Old { constructor(run) { seen++; super(run) } }; await tools.stub.echo({}); seen", Gives(0)),
    Case("a then that is replaced sees no doors", "const old = Promise.prototype.then; const seen = []; Promise.prototype.then = function (a, b) { seen.push(String(a)); return old.call(this, a, b) }; tools.stub.echo({}); seen.filter(s => /host|settle/.test(s)).length", Gives(0)),
    Case("Reflect.apply that is replaced sees no doors", "const seen = []; Reflect.apply = Function.prototype.apply = Function.prototype.call = function () { seen.push(1) }; call_tool('stub', 'echo', { a: 1 }); seen.length", Gives(0)),
    Case("accessors on Object.prototype see no doors", "const seen = []; for (const k of ['send', 'ask', 'resolve', 'reject', 'timer', 'server', 'tool', 'index', 'wrong', 'later', 'about']) Object.defineProperty(Object.prototype, k, { configurable: true, get() { return undefined }, set(v) { seen.push(k) } }); await tools.stub.echo({}); call_tool('stub', 'echo', {}); seen.filter(k => ['send', 'ask', 'resolve', 'reject'].includes(k))", Gives([])),
    Case("numbers on Array.prototype see no doors", "const seen = []; for (const k of ['0', '1', '2']) Object.defineProperty(Array.prototype, k, { configurable: true, set(v) { seen.push(typeof v) } }); call_tool('stub', 'echo', {}); seen.includes('function')", Gives(False)),
    Case("finalisation", "const r = new FinalizationRegistry(() => { for (;;) {} }); for (let i = 0; i < 1000; i++) r.register({}, i); 'done'", "VALUE TIMEOUT"),
    Case("weak references to what is provided", "typeof new WeakRef(call_tool).deref()", Gives("function")),
    Case("realms", "typeof ShadowRealm", Gives("undefined")),
    Case("eval keeps to the script's world", "const e = eval; e('typeof host + typeof send')", Gives("undefinedundefined")),
    Case("with on host objects", "with (tools.stub) { with (console) { typeof constructor } }", "VALUE RUNTIME_ERROR"),
    Case("other people's input", "[typeof input, Object.keys(globalThis).filter(k => /key|token|secret|env/i.test(k))]", Gives(lambda found: found[1] == [])),
    Case("tools of a server that may not be called", "try { await tools.github.echo({}) } catch (e) { return e.code }", Gives("SERVER_NOT_ALLOWED"), calls=0, options={"allowed_servers": ["stub"]}),
    Case("a server's name by toString", "let n = 0; const r = call_tool({ toString() { return n++ ? 'github' : 'stub' } }, 'echo', {}); r.error.code", Gives("INVALID_ARGS"), calls=0, options={"allowed_servers": ["stub"]}),
    Case("a server's name by String object", "call_tool(new String('github'), 'echo', {}).error.code", Gives("INVALID_ARGS"), calls=0, options={"allowed_servers": ["stub"]}),
    Case("a server's name by getter in a batch", "let n = 0; call_tools([{ get server() { return ['stub', 'github'][n++] }, tool: 'echo' }]).length", Gives(1), options={"allowed_servers": ["stub"]}, calls=1),
    Case("a tool's name with a server in it", "call_tool('stub', 'github:echo', {}).error.code", Gives("TOOL_NOT_FOUND"), calls=0),
    Case("a server's name with a path in it", "call_tool('../github', 'echo', {}).error.code", Gives("SERVER_NOT_FOUND"), calls=0),
    Case("more calls than allowed", "let n = 0; while (call_tool('stub', 'echo', {}).ok) n++; n", Gives(3), options={"max_tool_calls": 3}, calls=3),
    Case("more calls than allowed, in parallel", "(await Promise.allSettled(Array.from({ length: 50 }, () => tools.stub.echo({})))).filter(r => r.status === 'fulfilled').length", Gives(3), options={"max_tool_calls": 3}, calls=3),
    Case("more calls than allowed, for ever", "for (let n = 0; ; n++) call_tool('stub', 'echo', { n })", TIMEOUT, 50, options={"max_tool_calls": 2}, calls=2),
    Case("a wider option in a batch", "call_tools([{ server: 'stub', tool: 'echo', allowed_servers: ['github'] }, { server: 'github', tool: 'echo' }])[1].error.code", Gives("SERVER_NOT_ALLOWED"), options={"allowed_servers": ["stub"]}, calls=1),
    Case("the doors to the host by the symbols of URL", "const [u] = Object.getOwnPropertySymbols(URL), url = new URL('http://a/'); for (const part of ['__class__', 'urlobj', '__dict__', 'no', '', 'parse']) URL[u](url, part, 'x'); url.href", Gives("http://a/")),
    Case("odd values through the doors to the host", "const odd = [-1, NaN, Infinity, {}, 'x', null, undefined, 2 ** 40, () => 1, [1]], said = []; for (const length of odd) { globalThis.Uint8Array = class { constructor() { this.length = length } }; try { crypto.getRandomValues(new Int8Array(4)); crypto.randomUUID() } catch (e) { said.push(e instanceof TypeError) } } said.every(Boolean)", "VALUE TIMEOUT"),
]  # fmt: skip
