"""What a script is: the ways of giving a value, the language, and what errors say of their place."""

from __future__ import annotations

import re

import pytest
from world import open_world


@pytest.fixture(scope="module")
async def world():
    async with open_world(code_execution_pool_size=2) as world:
        yield world


VALUES = [
    pytest.param("const x = 5; x", 5, id="the completion value"),
    pytest.param("if (true) { 7 }", 7, id="of an if"),
    pytest.param("for (let i = 0; i < 3; i++) { i }", 2, id="of a loop"),
    pytest.param("{ a: 1 }", 1, id="of a block with a label"),
    pytest.param("try { throw 1 } catch { 2 }", 2, id="of a catch"),
    pytest.param("switch (2) { case 1: 'one'; break; case 2: 'two' }", "two", id="of a switch"),
    pytest.param("return 5", 5, id="a return"),
    pytest.param(
        "if (input.a) { return 'early' }\n'late'",
        "late",
        id="a return not reached leaves the completion value",
    ),
    pytest.param(
        "for (const x of [1, 2, 3]) { if (x === 2) return x }", 2, id="a return out of a loop"
    ),
    pytest.param(
        "try { return 'tried' } finally { 'finally' }", "tried", id="a return past a finally"
    ),
    pytest.param("1; if (await 0) { 2 } else { 3 }", 3, id="completion of an if beside await"),
    pytest.param("let s = 0; for (const x of [1, 2]) { s += await x } s", 3, id="await in a loop"),
    pytest.param("await 5", 5, id="await as the completion value"),
    pytest.param(
        "try { await 1; 'tried' } finally { 'finally' }", "tried", id="a finally has no say"
    ),
    pytest.param(
        "do { try { await 1 } finally { 2; break } } while (0)", 2, id="a finally that jumps has"
    ),
    pytest.param(
        "[await 0]; try { 1; throw 2 } catch {}\n[5][0]", 5, id="a statement after a catch"
    ),
    pytest.param("await 'before'; empty: {}", "before", id="an empty labelled block is nothing"),
    pytest.param(
        "const seen = await 'it'; 'last'; for (const x of [1, 2]) if (x > 2) x; else if (x) seen",
        "it",
        id="a loop whose body has no braces",
    ),
    pytest.param("for await (const x of [1, 2]) { x }", 2, id="for await"),
    pytest.param(
        "await using a = null; using b = null; 'used'", "used", id="using at the top level"
    ),
    pytest.param("using a = null; 'used'", "used", id="using without await"),
    pytest.param("#!/usr/bin/env node\nawait 'run'", "run", id="a hashbang"),
    pytest.param("do { await 1; 'once' } while (false)", "once", id="do while"),
    pytest.param("a: for (;;) { await 0; 'in'; break a }", "in", id="a labelled break"),
    pytest.param(
        "if (input.x) await 1\nelse 'neither'", "neither", id="a statement without braces"
    ),
    pytest.param(
        "'use strict'; await 0; (function () { return this === undefined })()",
        True,
        id="a directive holds under await",
    ),
    pytest.param("const f = async () => { return 3 }; f()", 3, id="a promise is awaited"),
    pytest.param("Promise.resolve({ a: 1 })", {"a": 1}, id="a resolved promise"),
    pytest.param("(input) => input.v", "in", id="a lone arrow function is called"),
    pytest.param("async (input) => { return input.v };", "in", id="a lone async arrow function"),
    pytest.param("function main(input) { return input.v }", "in", id="a lone declaration"),
    pytest.param("function (input) { return input.v }", "in", id="a lone anonymous function"),
    pytest.param(
        "// first\n(async () => {\n  return input.v;\n})", "in", id="a parenthesised function"
    ),
    pytest.param("const f = () => 1; f() + 1", 2, id="a function among others is not called"),
    pytest.param(
        "export default async function (input) { return input.v }", "in", id="an export by default"
    ),
    pytest.param(
        "const twice = (x) => x + x;\nexport default async ({v}) => { return twice(v) };",
        "inin",
        id="an export by default with others",
    ),
    pytest.param(
        "export const N = 2;\nexport default [N, N];", [2, 2], id="a value exported by default"
    ),
    pytest.param(
        "let n = 0;\nexport default async function main() { return ++n }\nawait main();",
        1,
        id="an export that is called is called once",
    ),
    pytest.param("export const x = 3;\nexport { x as y };\nx", 3, id="exports among others"),
    pytest.param(
        "module.exports = async (input) => { return input.v };", "in", id="module.exports"
    ),
    pytest.param("const n = 3;\nmodule.exports = { n };", {"n": 3}, id="module.exports of data"),
    pytest.param(
        "const one = () => 1;\nconst main = () => one() + 1;\nmodule.exports = { main };",
        2,
        id="module.exports of functions",
    ),
    pytest.param(
        "exports.handler = async (event) => { return event.v };", "in", id="exports.handler"
    ),
    pytest.param(
        "const LIMIT = 2;\nfunction up(n) { return n < LIMIT ? up(n + 1) : n }\nasync function main(input) { return [up(0), input.v] }",
        [2, "in"],
        id="the function that nobody calls",
    ),
    pytest.param(
        "const run = () => { return 1 };\nconst main = async () => { return await run() };",
        1,
        id="the one of two that nobody calls",
    ),
    pytest.param("```js\nreturn 1 + 1\n```", 2, id="a fence"),
    pytest.param(
        "\n```\nasync () => { return 'fenced' }\n```\n", "fenced", id="a fence without a language"
    ),
    pytest.param("const s = '```js'; s.length", 5, id="a fence in a string"),
    pytest.param("~~~~js title=x\nreturn 4\n~~~~", 4, id="another kind of fence"),
    pytest.param("```js\nreturn 4", 4, id="a fence without an end"),
    pytest.param("```js return 4```", 4, id="a fence on one line"),
    pytest.param("await 0; '\ud800'.length", 1, id="half a pair in the source"),
    pytest.param("\ufeff1 + 1", 2, id="a byte order mark"),
    pytest.param("const s = 'a\0b'; s.length", 3, id="NUL in the source"),
    pytest.param("const x = 1\nconst y = 2\n;[x, y]", [1, 2], id="no semicolons"),
    pytest.param("return `\\\n${'joined'}`", "joined", id="a line continuation in a template"),
    pytest.param(
        "await 0;\nString.raw`C:\\new\\table $& \\${x}`",
        "C:\\new\\table $& \\${x}",
        id="raw strings stay as they are",
    ),
    pytest.param("await 0; 'é😀\u2028'", "é😀\u2028", id="all of Unicode"),
    pytest.param(
        "[...Array(3).keys()].map(await_ => await_ * 2)", [0, 2, 4], id="await within a longer name"
    ),
    pytest.param(
        "class A { static { this.x = 1 } async m() { return await 1 } } [A.x]",
        [1],
        id="await in a method is no top-level await",
    ),
    pytest.param(
        "try { throw new Error('a', { cause: 7 }) } catch (e) { e.cause }", 7, id="Error.cause"
    ),
    pytest.param(
        "Object.groupBy([1, 2, 3], x => x % 2 ? 'odd' : 'even')",
        {"odd": [1, 3], "even": [2]},
        id="Object.groupBy",
    ),
    pytest.param(
        "new Date(0).toString()", "Thu Jan 01 1970 00:00:00 GMT+0000", id="dates are in UTC"
    ),
]


@pytest.mark.req(
    "REQ-WAY-01",
    "REQ-WAY-02",
    "REQ-WAY-03",
    "REQ-WAY-04",
    "REQ-WAY-05",
    "REQ-WAY-08",
    "REQ-WAY-09",
    "REQ-WAY-10",
    "REQ-WAY-11",
    "REQ-WAY-12",
)
@pytest.mark.parametrize(("code", "wanted"), VALUES)
async def test_a_value(world, code, wanted):
    assert await world.value(code, input={"v": "in"}) == wanted


TYPESCRIPT = [
    ("const x: number = 42; ({ result: x })", {"result": 42}),
    ("function id<T extends object>(x: T): T { return x }\nid<{ a: number }>({ a: 3 })", {"a": 3}),
    ("({ a: 1 } satisfies Record<string, number>)", {"a": 1}),
    ("enum Color { Red, Green = 5, Blue } [Color.Red, Color.Blue, Color[5]]", [0, 6, "Green"]),
    ("const enum Size { Small = 'S' } Size.Small", "S"),
    (
        "namespace Geo { export const pi = 3; export function area(r: number) { return pi * r * r } }\nGeo.area(2)",
        12,
    ),
    (
        "class P { constructor(public readonly a: number, private b = 2) {} sum() { return this.a + this.b } }\nnew P(1).sum()",
        3,
    ),
    (
        "abstract class A { abstract f(): number; g() { return this.f() } } class B extends A { f() { return 4 } } new B().g()",
        4,
    ),
    (
        "import type { Thing } from './things';\nconst t: Thing | null = null;\nreturn t === null",
        True,
    ),
    (
        "const n: number = input.value;\nif (n > 1) { return { n } as const }\nreturn null",
        {"n": 21},
    ),
    ("async (input: { value: number }): Promise<number> => { return input.value }", 21),
    ("function (input: any): number { return input.value }", 21),
    ("const s = 'x as y: number <T>! satisfies'; s", "x as y: number <T>! satisfies"),
    ("let v: string | undefined = 'a'; v!.length", 1),
    (
        "const r = await Promise.all([1, 2].map(async (n: number): Promise<number> => n * 2));\nreturn r",
        [2, 4],
    ),
    ("import { type A, type B as C } from './a';\nreturn 6", 6),
    ("export {};\nconst n: number = 7;\nn", 7),
    ("export type A = number;\nexport const n: A = 6;\nexport default (): A => { return n }", 6),
    (
        "import type { A } from 'a';\nexport type { A };\nexport { one };\nconst one: number = 1;\nreturn one",
        1,
    ),
    ("export const one = async (): Promise<number> => 1;\nreturn await one()", 1),
    (
        "import type { A } from 'a';\nconst s: string = `\nimport type { B } from 'b';\nexport const c = ${'}'};\nnamespace X {\n}`;\nnamespace N { export const n = s }\nreturn N.n",
        "\nimport type { B } from 'b';\nexport const c = };\nnamespace X {\n}",
    ),
    (
        "  namespace In { export const n = '{' }\n  const m = 1; namespace Line { export const n = m }\n  return In.n + Line.n",
        "{1",
    ),
    ("#!/usr/bin/env ts-node\nconst n: number = 8;\nreturn n", 8),
    ("using a: any = null;\nconst n: number = 9;\nn", 9),
    (
        "namespace A {\n  export const n = 5;\n}\nconst two: number = 2;\nnamespace B { export enum E { X = 3 } }\nreturn A.n + two + B.E.X",
        10,
    ),
    (
        "namespace N { export const n = 1; export function f() { return n } }\nnamespace N { export const m = f() + n }\nreturn N.m",
        2,
    ),
    ("import type { A } from 'a';\nnamespace N { export const n = 4 }\nN.n // as number", 4),
    (
        "namespace N { export let n: number = 1; export const m = 2; export function up() { return ++n + m } }\nN.up(); N.n += 5;\nreturn [N.n, N.up(), N.n]",
        [7, 10, 8],
    ),
    ("namespace A.B { export var s = `export let y = 2` }\nA.B.s", "export let y = 2"),
]


@pytest.mark.req("REQ-TS-01", "REQ-TS-02", "REQ-TS-03", "REQ-TS-04", "REQ-TS-05", "REQ-TS-07")
@pytest.mark.parametrize(("code", "wanted"), TYPESCRIPT)
async def test_typescript(world, code, wanted):
    assert await world.value(code, language="typescript", input={"value": 21}) == wanted


def place(error):
    found = re.search(r"script\.(?:js|ts):(\d+):(\d+)", error["stack"])
    assert found, error
    return int(found[1]), int(found[2])


PLACES = [
    pytest.param("const a = 1;\nif (a) {\n  return a.b.c;\n}", "javascript", "RUNTIME_ERROR", (3, 10), id="under return"),
    pytest.param("const a = await 1;\n\n    throw new TypeError('late');", "javascript", "RUNTIME_ERROR", (3, 24), id="under await"),
    pytest.param("async () => {\n\n  throw new Error('x');\n}", "javascript", "RUNTIME_ERROR", (3, 18), id="in a lone function"),
    pytest.param("```js\nconst a = 1;\nthrow new Error('x');\n```", "javascript", "RUNTIME_ERROR", (3, 16), id="in a fence"),
    pytest.param("await 0; 1; 2; null.x", "javascript", "RUNTIME_ERROR", (1, 16), id="behind what was put in"),
    pytest.param("'é😀'; await null.x", "javascript", "RUNTIME_ERROR", (1, 14), id="behind wide characters"),
    pytest.param("await 0; 'é😀'; throw new Error('x');", "javascript", "RUNTIME_ERROR", (1, 26), id="behind wide characters, put in"),
    pytest.param("var x = { missing bracket", "javascript", "SYNTAX_ERROR", (1, 19), id="a syntax error"),
    pytest.param("return 1;\nfunction ( {", "javascript", "SYNTAX_ERROR", (2, 10), id="a syntax error under return"),
    pytest.param("const x = 1;\nconst x = 2;", "javascript", "SYNTAX_ERROR", (2, 9), id="declared twice"),
    pytest.param("interface A {\n  a: number;\n}\n\nconst x: A = { a: 1 };\n  throw new Error('here');", "typescript", "RUNTIME_ERROR", (6, 18), id="in TypeScript"),
    pytest.param("enum C { A, B = 5 }\nclass P { constructor(public a: number) {}\n  boom(): never {\n    throw new TypeError(`x${this.a}`) } }\nreturn new P(C.B).boom()", "typescript", "RUNTIME_ERROR", (4, 24), id="behind an enum"),
    pytest.param("const a: number = 1;\nconst b: string = ;\n", "typescript", "SYNTAX_ERROR", (2, 19), id="a syntax error in TypeScript"),
    pytest.param("let é: string = '😀';\nlet x = 1; let x = 2;", "typescript", "SYNTAX_ERROR", (2, 16), id="declared twice in TypeScript"),
    pytest.param("let a = 1;\nlet b = /(/;", "javascript", "SYNTAX_ERROR", (2, 9), id="a regular expression"),
    pytest.param("const f = (a) => {\n  await a;\n};\nreturn f(1)", "javascript", "SYNTAX_ERROR", (2, 3), id="await where it can't be"),
    pytest.param("const f = (a: number) => {\n  await a;\n};\nf(1)", "typescript", "SYNTAX_ERROR", (2, 3), id="await where it can't be, in TypeScript"),
    pytest.param("const n = 1;\nexport default () => {\n  throw new Error('x') }", "javascript", "RUNTIME_ERROR", (3, 18), id="in what is exported"),
    pytest.param("let a = 1;\na = #b in {}", "javascript", "SYNTAX_ERROR", (2, 5), id="a private name"),
    pytest.param("let a = 1;\nJSON.parse('{bad')", "javascript", "RUNTIME_ERROR", (2, 6), id="a text that JSON.parse refuses"),
    pytest.param("let a = 1;\n\neval('1;}')", "javascript", "RUNTIME_ERROR", (3, 1), id="a text that eval refuses"),
    pytest.param("let a = 1;\n\neval('throw new Error(7)')", "javascript", "RUNTIME_ERROR", (3, 1), id="a text that throws"),
    pytest.param("class E extends Error {}\nclass F extends E { constructor() { super() } }\nthrow new F()", "javascript", "RUNTIME_ERROR", (3, 7), id="an error of the script's own class"),
    pytest.param("const a = [1];\nconst {b: {c}} = a;", "javascript", "RUNTIME_ERROR", (2, 7), id="taken apart"),
    pytest.param("const f = (x) => {\n  const [y] = x; return y };\nf(5)", "javascript", "RUNTIME_ERROR", (2, 9), id="taken apart in a function"),
    pytest.param("let a = 1;\n  throw 'text'", "javascript", "RUNTIME_ERROR", (2, 3), id="a text that is thrown"),
    pytest.param("enum E { A }\nconst {a} = null as any;\nreturn 1", "typescript", "RUNTIME_ERROR", (2, 7), id="taken apart behind an enum"),
    pytest.param("const one = 1;\nnamespace N {\n  export const f = (a: number) => { throw new Error(`${a}`) }\n}\nreturn N.f(one)", "typescript", "RUNTIME_ERROR", (3, 53), id="in a namespace under return"),
    pytest.param("if (input.a) throw 'one';\nthrow 'two'", "javascript", "RUNTIME_ERROR", (2, 1), id="one of two texts"),
    pytest.param("const o = {\n  get a() { null.x } };\no", "javascript", "SERIALIZATION_ERROR", (2, 13), id="in a getter of the result"),
    pytest.param("let a;\nawait search_tools(7)", "javascript", "RUNTIME_ERROR", (2, 7), id="a question that is refused"),
]  # fmt: skip


@pytest.mark.req("REQ-POS-01", "REQ-POS-02", "REQ-POS-03", "REQ-TS-06")
@pytest.mark.parametrize(("code", "language", "wanted", "at"), PLACES)
async def test_an_error_names_the_callers_own_line(world, code, language, wanted, at):
    error = await world.error(code, language=language)
    assert error["code"] == wanted
    line, column = place(error)
    assert line == at[0]
    assert abs(column - at[1]) <= 9, (column, at)


@pytest.mark.req("REQ-POS-01", "REQ-POS-03")
@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("await 0;\n\n  const e = new RangeError('r'); e.stack", "javascript"),
        ("interface A {}\n\n  const e: any = new RangeError('r');\nreturn e.stack", "typescript"),
        (
            "class E extends RangeError { constructor() { super('r'); Error.captureStackTrace?.(this, E) } }\n\n  const e = new E(); console.log(e); e.stack",
            "javascript",
        ),
    ],
)
async def test_a_stack_that_the_script_reads_is_in_its_own_lines(world, code, language):
    reply = await world.run(code, language=language)
    head, *frames = reply["value"].split("\n")
    assert head == "RangeError: r"
    assert len(frames) == 1 and re.search(r"\bscript\.[jt]s:3:\d+\)$", frames[0])
    for line in reply.get("logs", []):
        assert "script.js:3:" in line["message"] and "<input>" not in line["message"]


@pytest.mark.req("REQ-POS-03")
async def test_typescript_of_any_length_has_positions(world):
    code = "const all: number[] = [];\n" + "all.push(1 as number, 2);\n" * 2000 + "\nall.x.y;"
    assert place(await world.error(code, language="typescript")) == (2003, 1)


BLAMED = [
    ("const r = {items: 1}; r.items.map(x => x)", "r.items.map is not a function"),
    ("const r = {}; new r.Client()", "r.Client is not a function"),
    ("const r = {}; r.a.b", "cannot read property 'b' of undefined (r.a is undefined)"),
    ("const r = {}; for (const x of r.items) x", "r.items is not iterable (it is undefined)"),
    ("const {a: [b]} = {a: null}", "cannot destructure [b]"),
    ("[1].map(5)", "not a function"),
    ("const r = {}; r.format(new Date(0))", "r.format is not a function"),
    ("const r = {}; r.all(1, r.some(new Map()))", "r.some is not a function"),
    ("const r = {}; r.a.b; r.x = () => r.a.b.b", "(r.a is undefined)"),
]


@pytest.mark.parametrize(("code", "part"), BLAMED)
async def test_an_error_names_what_it_is_about(world, code, part):
    error = await world.error(code)
    assert error["message"].startswith("TypeError: ") and part in error["message"]
    assert ".map is" not in error["message"] or "r.items" in error["message"]


THROWN = [
    ("throw 'text'", "Uncaught text"),
    (
        "throw new Error('o', {cause: new TypeError('i', {cause: 5})})",
        "Error: o (cause: TypeError: i (cause: 5))",
    ),
    (
        "await Promise.any([Promise.reject(new Error('a')), Promise.reject(7)])",
        "AggregateError (errors: Error: a; 7)",
    ),
    ("queueMicrotask(() => { throw new Error('m') }); await sleep(1)", "Error: m"),
    ("throw { why: 'because', n: 7 }", 'Uncaught {why: "because", n: 7}'),
    ("throw null", "Uncaught null"),
    ("throw undefined", "Uncaught undefined"),
    ("throw 10n", "Uncaught 10n"),
    ("throw { toString() { throw 1 }, toJSON() { throw 2 } }", "Uncaught {"),
    ("throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })", "Uncaught "),
    ("const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy", "Uncaught "),
    (
        "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { throw 2 } }); throw e",
        "Error",
    ),
    ("throw new RangeError('r')", "RangeError: r"),
    ("await Promise.reject(new TypeError('bad'))", "TypeError: bad"),
    ("class Mine extends Error { name = 'Mine' } throw new Mine('m')", "Mine: m"),
    ("throw new SyntaxError('not the compiler')", "SyntaxError: not the compiler"),
    ("new Promise(() => {})", "Error: the script waits for a promise that can never settle"),
]


@pytest.mark.req("REQ-POS-04", "REQ-POS-05", "REQ-WAY-06", "REQ-WAY-07")
@pytest.mark.parametrize(("code", "message"), THROWN)
async def test_whatever_was_thrown_is_told_faithfully(world, code, message):
    error = await world.error(code)
    assert error["code"] == "RUNTIME_ERROR"
    assert error["message"].startswith(message)


@pytest.mark.req("REQ-ASK-07")
@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("const a: number = 1; a", 1),
        ("interface A { b: number }\nreturn (input as A).b", 7),
        ("enum E { A = 5 } [E.A]", [5]),
        ("async (input: {b: number}): Promise<number> => input.b", 7),
        ("```js\nlet s: string = 'x';\ns\n```", "x"),
    ],
)
async def test_what_is_typescript_alone_is_run_as_such(world, code, wanted):
    assert await world.value(code, input={"b": 7}) == wanted
    assert await world.value(code, input={"b": 7}, language="javascript") == wanted


async def test_an_error_in_typescript_that_nobody_announced_has_its_place(world):
    error = await world.error("interface A {}\n\nconst a: A | null = null;\n  a!.b")
    assert place(error) == (4, 3)
    assert "script.ts" in error["stack"]
    error = await world.error("const a: number = ;")
    assert "Unexpected token ';'" in error["message"] and "script.js:1:19" in error["stack"]
    error = await world.error("namespace N { export let n: number }\nreturn N.n")
    assert 'This is TypeScript: send it with language "typescript"' in error["message"]


async def test_a_fence_says_what_language_it_is_in(world):
    assert await world.value("```ts\nconst a: number = 1;\nreturn a\n```") == 1
    assert await world.value("```ts\nconst a: number = 1;\na```", language="javascript") == 1


@pytest.mark.req("REQ-TYPED-11")
async def test_a_forgotten_await_is_named(world):
    error = await world.error("tools.stub.add({a: 1, b: 2}).sum")
    assert "(await tools.stub.add(…)).sum" in error["message"]


async def test_an_uncaught_tool_error_names_the_line_of_its_call(world):
    error = await world.error("const a = 1;\n\nawait tools.stub.fail({message: 'boom'});")
    assert place(error)[0] == 3
    error = await world.error("const a = 1;\nawait tools.stubb.echo({})")
    assert place(error)[0] == 2


@pytest.mark.req("REQ-LOG-07")
async def test_the_rest_of_the_console_is_there(world):
    reply = await world.run(
        "console.log('%s is %d of %j, 100%%', 'a', 5, {b: 1}, 'more'); console.group('g'); console.groupEnd();"
        "console.count(); console.count(); console.assert(1, 'no'); console.assert(0, 'yes'); console.time('t'); console.timeEnd('t'); 1"
    )
    said = [line["message"] for line in reply["logs"]]
    assert said[:5] == [
        'a is 5 of {"b":1}, 100% more',
        "g",
        "default: 1",
        "default: 2",
        "Assertion failed: yes",
    ]
    assert said[5].startswith("t: ") and said[5].endswith("ms")


async def test_awaiting_tools_gives_tools(world):
    assert await world.value("typeof (await tools).stub.echo") == "function"
