"""What a script may return: JSON, faithfully, or a sentence with path and remedy."""

from __future__ import annotations

import pytest
from world import open_world


@pytest.fixture(scope="module")
async def world():
    async with open_world(code_execution_pool_size=2) as world:
        yield world


KEPT = [
    (
        "[null, true, 0, -1.5, 'text', [], {}, {n: {o: 1}}]",
        [None, True, 0, -1.5, "text", [], {}, {"n": {"o": 1}}],
    ),
    ("null", None),
    ("''", ""),
    ("({ a: undefined, b: null })", {"b": None}),
    ("-0", 0),
    (
        "[2 ** 53, 1e21, 0.1 + 0.2, 5e-324, 1.7976931348623157e308]",
        [2**53, 1e21, 0.1 + 0.2, 5e-324, 1.7976931348623157e308],
    ),
    (
        "class M { constructor(c) { this.c = c } toJSON() { return { amount: this.c } } } ({ m: new M(2) })",
        {"m": {"amount": 2}},
    ),
    ("class P { #h = 1; constructor() { this.a = 1 } get b() { return 2 } } new P()", {"a": 1}),
    ("Object.assign(Object.create(null), { a: 1 })", {"a": 1}),
    (
        'JSON.parse(\'{"__proto__": 1, "constructor": 2, "then": 3}\')',
        {"__proto__": 1, "constructor": 2, "then": 3},
    ),
    ("const s = { n: 1 }; [s, s]", [{"n": 1}, {"n": 1}]),
    ("({ get total() { return 3 } })", {"total": 3}),
    ("[new String('s'), new Number(1), new Boolean(false)]", ["s", 1, False]),
    ("[new (class Grams extends Number {})(2), Object.create(Number.prototype)]", [2, {}]),
    ("new Proxy({ a: 1 }, {})", {"a": 1}),
    ("'\\ud800'", "\ufffd"),
    ("let n = 0; ({ get a() { return n++ }, b: [1] })", {"a": 0, "b": [1]}),
]


@pytest.mark.req("REQ-VAL-01", "REQ-VAL-02", "REQ-VAL-04", "REQ-VAL-05", "REQ-VAL-06", "REQ-VAL-21")
@pytest.mark.parametrize(("code", "wanted"), KEPT)
async def test_json_values_arrive(world, code, wanted):
    value = await world.value(code)
    assert value == wanted
    assert type(value) is type(wanted)


@pytest.mark.req("REQ-VAL-03")
async def test_properties_keep_their_order(world):
    assert list(await world.value("({ zeta: 1, alpha: 2, mid: 3 })")) == ["zeta", "alpha", "mid"]


REFUSED = [
    (
        "({ rows: [{}, { when: new Date(0) }] })",
        "value.rows[1].when is a Date: return .toISOString()",
    ),
    ("({ m: new Map() })", "value.m is a Map"),
    ("[new Set()]", "value[0] is a Set"),
    ("/x/", "value is a RegExp"),
    ("new Error('x')", "value is an Error"),
    ("({ p: Promise.resolve(1) })", "value.p is a Promise: await it first"),
    ("({ b: new Uint8Array(3) })", "value.b is a Uint8Array"),
    ("new ArrayBuffer(1)", "value is an ArrayBuffer"),
    ("[1].values()", "value is an Iterator"),
    ("({ n: 10n })", "value.n is a BigInt"),
    ("({ x: { y: NaN } })", "value.x.y is NaN"),
    ("[1, Infinity]", "value[1] is Infinity"),
    ("[1, , 3]", "value[1] is a hole"),
    ("[1, undefined]", "value[1] is undefined"),
    ("const a = { list: [] }; a.list.push(a); a", "value.list[0] is a circular reference"),
    ("({ 'a b': { c: () => 1 } })", 'value["a b"].c is a function'),
    ("Symbol('x')", "value is a symbol"),
    ("let v = {}; for (let i = 0; i < 120; i++) v = { v }; v", "nested deeper than 100 levels"),
    ("undefined", "add `return"),
    ("const x = 5;", "add `return"),
    ("async () => { 5 }", "add `return"),
    ("({ get g() { throw new Error('x') } })", "reading the result threw Error: x"),
    ("({ toJSON() { throw new Error('j') } })", "reading the result threw Error: j"),
    (
        "({ get g() { call_tool('stub', 'echo', { get deep() { throw 1 } }); throw new Error('x') } })",
        "value.g: reading the result threw Error: x",
    ),
    (
        "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); ({ get g() { throw proxy } })",
        "value.g: reading the result threw Uncaught [a value that throws when it is looked at]",
    ),
    ("new Proxy({}, { ownKeys() { throw 1 } })", "reading the result threw"),
]


@pytest.mark.req(
    "REQ-VAL-07",
    "REQ-VAL-08",
    "REQ-VAL-09",
    "REQ-VAL-10",
    "REQ-VAL-11",
    "REQ-VAL-12",
    "REQ-VAL-13",
    "REQ-VAL-14",
    "REQ-VAL-15",
    "REQ-VAL-16",
    "REQ-VAL-17",
    "REQ-VAL-18",
)
@pytest.mark.parametrize(("code", "part"), REFUSED)
async def test_everything_else_names_path_and_remedy(world, code, part):
    error = await world.error(code)
    assert error["code"] == "SERIALIZATION_ERROR"
    assert error["message"].startswith(
        "Result contains non-JSON-serializable values (functions, circular references, etc.)"
    )
    assert part in error["message"]


@pytest.mark.req("REQ-VAL-19", "REQ-VAL-20")
async def test_a_result_too_large_gives_its_size_and_a_preview(world):
    error = await world.error("'x'.repeat(2 ** 21)")
    assert error["code"] == "RESULT_TOO_LARGE"
    assert error["size"] == 2**21 + 2
    assert str(2**21 + 2) in error["message"]
    assert error["preview"] == '"' + "x" * 2047


@pytest.mark.req("REQ-VAL-20")
async def test_the_limit_counts_bytes(world):
    assert (await world.error("'é'.repeat(600000)"))["code"] == "RESULT_TOO_LARGE"
    assert len(await world.value(f"'x'.repeat({2**20 - 2})")) == 2**20 - 2


@pytest.mark.req("REQ-HAS-15")
@pytest.mark.parametrize(
    "code",
    [
        "JSON.stringify = () => '\"forged\"'; ({ a: 1 })",
        "Array.prototype.toJSON = Object.prototype.toJSON = () => 'forged'; ({ a: 1 }, 'x') && JSON.parse('{\"a\":1}')",
        "globalThis.Promise = globalThis.Object = globalThis.Error = undefined; ({ a: 1 })",
        "for (const C of [String, Number, Map, RegExp, WeakMap]) for (const k of Object.getOwnPropertyNames(C.prototype)) { try { C.prototype[k] = () => { throw 1 } } catch {} } ({ a: 1 })",
        "Reflect.apply = Function.prototype.call = Function.prototype.apply = () => 'forged'; ({ a: 1 })",
    ],
    ids=[
        "JSON.stringify",
        "toJSON on prototypes is the script's own doing",
        "globals",
        "prototypes",
        "Reflect.apply",
    ],
)
@pytest.mark.threat("S10")
async def test_overwriting_builtins_does_not_reach_the_host(world, code):
    value = await world.value(code)
    assert value in ({"a": 1}, "forged")
    assert ("toJSON" in code) == (value == "forged")


async def test_functions_may_call_each_other_a_few_thousand_deep(world):
    assert await world.value("const f = (n) => n ? f(n - 1) + 1 : 0; f(3000)") == 3000


async def test_half_a_character_in_a_source_is_a_replacement_character(world):
    code = "const s: string = 'a\ud800b'; return [s.length, s]"
    assert await world.value(code, language="typescript") == [3, "a\ufffdb"]


async def test_a_result_that_is_not_a_number_says_where_such_come_from(world):
    reply = await world.run("[1 * undefined]")
    assert "value[0] is NaN" in reply["error"]["message"]
    assert "log what the tool gave" in reply["error"]["message"]
