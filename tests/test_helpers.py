"""The standard helpers give what Node gives: each value here was printed by Node 20."""

from __future__ import annotations

import pytest
from world import open_world


@pytest.fixture(scope="module")
async def world():
    async with open_world(code_execution_pool_size=2) as world:
        yield world


NODE = [
    (
        "Array.from(new TextEncoder().encode('a\u00e9\u20ac\ud83d\ude00'))",
        [97, 195, 169, 226, 130, 172, 240, 159, 152, 128],
    ),
    ("Array.from(new TextEncoder().encode('\\ud800x'))", [239, 191, 189, 120]),
    (
        "(() => { const u = new Uint8Array(5); return [new TextEncoder().encodeInto('a\u20acb\ud83d\ude00', u), Array.from(u)] })()",
        [{"read": 3, "written": 5}, [97, 226, 130, 172, 98]],
    ),
    ("new TextDecoder().decode(new Uint8Array([226, 130, 172, 240, 159, 152, 128]))", "€😀"),
    (
        "new TextDecoder().decode(new Uint8Array([0xff, 0x61, 0xe2, 0x82, 0x62, 0xf0, 0x9f, 0x98]))",
        "�a�b�",
    ),
    ("new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61]))", "a"),
    (
        "new TextDecoder('utf-8', {ignoreBOM: true}).decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61]))",
        "\ufeffa",
    ),
    (
        "(() => { try { new TextDecoder('utf-8', {fatal: true}).decode(new Uint8Array([0xff])) } catch (e) { return e.name } })()",
        "TypeError",
    ),
    (
        "(() => { const d = new TextDecoder(); return [d.decode(new Uint8Array([0xe2, 0x82]), {stream: true}), d.decode(new Uint8Array([0xac]), {stream: true}), d.decode()] })()",
        ["", "€", ""],
    ),
    ("new TextDecoder().decode(new Uint8Array([0xed, 0xa0, 0x80]))", "���"),
    ("new TextDecoder().decode(new Uint8Array([0xc0, 0x80, 0xf5]))", "���"),
    (
        "new URL('../b?x=1&y=a%20b#h', 'https://user:pw@example.com:8080/p/q/').href",
        "https://user:pw@example.com:8080/p/b?x=1&y=a%20b#h",
    ),
    (
        "(() => { const u = new URL('HTTP://EXAMPLE.com:80/a b/../\u00fc?q=\u00fc#f'); return [u.protocol, u.host, u.hostname, u.port, u.pathname, u.search, u.hash, u.origin, String(u), JSON.stringify(u)] })()",
        [
            "http:",
            "example.com",
            "example.com",
            "",
            "/%C3%BC",
            "?q=%C3%BC",
            "#f",
            "http://example.com",
            "http://example.com/%C3%BC?q=%C3%BC#f",
            '"http://example.com/%C3%BC?q=%C3%BC#f"',
        ],
    ),
    (
        "(() => { const u = new URL('https://example.com/a'); u.pathname = '/b c'; u.search = 'x=1'; u.hash = 'z'; u.port = '8443'; u.protocol = 'http'; u.host = 'h.test:1'; u.username = 'me'; return u.href })()",
        "http://me@h.test:1/b%20c?x=1#z",
    ),
    (
        "(() => { const u = new URL('https://e.com/?a=1&a=2&b=3'); u.searchParams.append('c', 'd e'); u.searchParams.delete('b'); return [u.href, u.searchParams.getAll('a'), u.searchParams.size] })()",
        ["https://e.com/?a=1&a=2&c=d+e", ["1", "2"], 3],
    ),
    (
        "(() => { const u = new URL('https://e.com/?a=1'); const p = u.searchParams; u.search = '?z=9'; return [p.get('z'), p.get('a')] })()",
        ["9", None],
    ),
    (
        "['x', 'http://', 'https://a b/', '//e.com'].map(s => URL.canParse(s))",
        [False, False, False, False],
    ),
    (
        "(() => { try { new URL('nope') } catch (e) { return [e.name, e instanceof TypeError] } })()",
        ["TypeError", True],
    ),
    ("URL.parse('nope')", None),
    (
        "new URL('https://xn--mnchen-3ya.de/').hostname + new URL('https://m\u00fcnchen.de/').hostname",
        "xn--mnchen-3ya.dexn--mnchen-3ya.de",
    ),
    ("new URL('https://[::1]:3000/x').host", "[::1]:3000"),
    (
        "new URLSearchParams('?a=1&b=2&a=3&c&d=%41+b&e=%zz').toString()",
        "a=1&b=2&a=3&c=&d=A+b&e=%25zz",
    ),
    ("[...new URLSearchParams('a=1&b=2&a=3')]", [["a", "1"], ["b", "2"], ["a", "3"]]),
    (
        "new URLSearchParams({a: 1, b: 'x y&z', \u00fc: '\u00e9'}).toString()",
        "a=1&b=x+y%26z&%C3%BC=%C3%A9",
    ),
    ("new URLSearchParams([['a', '1'], ['a', '2']]).getAll('a')", ["1", "2"]),
    (
        "(() => { const p = new URLSearchParams('b=2&a=1&b=1'); p.sort(); p.set('b', 'n'); p.append('!~*()', \"'\"); return [p.toString(), p.has('a'), p.has('a', '2'), p.get('q')] })()",
        ["a=1&b=n&%21%7E*%28%29=%27", True, False, None],
    ),
    (
        "(() => { const out = []; new URLSearchParams('a=1&b=2').forEach((v, k) => out.push([k, v])); return out })()",
        [["a", "1"], ["b", "2"]],
    ),
    (
        "[0, -0, 1234567.891, -1234.5, 2.0005, 999.9996, 1e21, 5e-7, NaN, -Infinity, 123456789n].map(n => n.toLocaleString())",
        [
            "0",
            "-0",
            "1,234,567.891",
            "-1,234.5",
            "2.001",
            "1,000",
            "1,000,000,000,000,000,000,000",
            "0",
            "NaN",
            "-\u221e",
            "123,456,789",
        ],
    ),
    (
        "[(12.5).toLocaleString('en-US', {minimumFractionDigits: 2}), (0.125).toLocaleString('en', {style: 'percent', maximumFractionDigits: 1}), (1e4).toLocaleString(undefined, {useGrouping: false})]",
        ["12.50", "12.5%", "10000"],
    ),
    (
        "(() => { const d = new Date(13 * 36e5 + 65e3); return [d.toLocaleString(), d.toLocaleDateString('en-US'), d.toLocaleTimeString([], {timeZone: 'UTC'}), [1234.5, new Date(NaN)].toLocaleString()] })()",
        ["1/1/1970, 1:01:05 PM", "1/1/1970", "1:01:05 PM", "1,234.5,Invalid Date"],
    ),
    (
        "(() => { const usd = new Intl.NumberFormat('en-US', {style: 'currency', currency: 'USD'}); return [...[1234.5, -0.005, 1e6].map(usd.format), (9.5).toLocaleString('en-US', {style: 'currency', currency: 'eur', maximumFractionDigits: 0}), (1234.5).toLocaleString(undefined, {style: 'currency', currency: 'JPY'}), (5).toLocaleString('en-US', {style: 'currency', currency: 'CHF'})] })()",
        ["$1,234.50", "-$0.01", "$1,000,000.00", "€10", "¥1,235", "CHF\u00a05.00"],
    ),
    (
        "(() => { const d = new Date('2026-03-05T00:04:07Z'), at = (o) => d.toLocaleString('en-US', o); return [{year: 'numeric', month: 'short', day: 'numeric'}, {weekday: 'long', month: 'long', day: 'numeric', year: 'numeric'}, {month: 'long', year: 'numeric'}, {weekday: 'short'}, {month: '2-digit', day: '2-digit', year: 'numeric', hour: '2-digit', minute: '2-digit', hour12: false}, {dateStyle: 'medium', timeStyle: 'short'}, {dateStyle: 'long', timeStyle: 'long'}, {month: 'long', day: 'numeric', hour: 'numeric', minute: '2-digit', timeZone: 'UTC', timeZoneName: 'short'}].map(at) })()",
        [
            "Mar 5, 2026",
            "Thursday, March 5, 2026",
            "March 2026",
            "Thu",
            "03/05/2026, 24:04",
            "Mar 5, 2026, 12:04 AM",
            "March 5, 2026 at 12:04:07 AM UTC",
            "March 5 at 12:04 AM UTC",
        ],
    ),
    (
        "(() => { const d = new Date('2026-03-05T09:04:07Z'); return [d.toLocaleDateString('en-CA'), d.toLocaleDateString('en-GB'), d.toLocaleString('sv-SE'), new Intl.DateTimeFormat('en-CA', {year: 'numeric', month: '2-digit', day: '2-digit'}).format(d), d.toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'}), d.toLocaleTimeString('en-US', {hour12: false}), d.toLocaleDateString('en-US', {hour: 'numeric'}), Intl.DateTimeFormat().resolvedOptions().timeZone, new Intl.DateTimeFormat('en-US', {month: 'short'}).format(d)] })()",
        [
            "2026-03-05",
            "05/03/2026",
            "2026-03-05 09:04:07",
            "2026-03-05",
            "09:04 AM",
            "09:04:07",
            "3/5/2026, 9 AM",
            "UTC",
            "Mar",
        ],
    ),
    (
        "(() => { const ordinal = new Intl.PluralRules('en', {type: 'ordinal'}), list = new Intl.ListFormat('en'), near = new Intl.RelativeTimeFormat('en', {numeric: 'auto'}), by = new Intl.Collator(undefined, {numeric: true}); return [[1, 2, 3, 4, 11, 22].map(ordinal.select), new Intl.PluralRules().select(1), [['a'], ['a', 'b'], ['a', 'b', 'c']].map(list.format), near.format(-1, 'day'), near.format(-2, 'days'), near.format(1234, 'hour'), [999, 1234, 12345, 999950, 1.25e9, -1500, 0.0123].map(new Intl.NumberFormat('en', {notation: 'compact'}).format), (1049).toLocaleString('en-US', {notation: 'compact', style: 'currency', currency: 'USD', maximumFractionDigits: 1}), ['a10', 'a2'].sort(by.compare)] })()",
        [
            ["one", "two", "few", "other", "other", "two"],
            "one",
            ["a", "a and b", "a, b, and c"],
            "yesterday",
            "2 days ago",
            "in 1,234 hours",
            ["999", "1.2K", "12K", "1M", "1.3B", "-1.5K", "0.012"],
            "$1.0K",
            ["a2", "a10"],
        ],
    ),
    ("[btoa('hello'), atob('aGVsbG8='), atob(' aGVs bG8 ')]", ["aGVsbG8=", "hello", "hello"]),
    ("(() => { try { atob('*') } catch (e) { return e.name } })()", "InvalidCharacterError"),
    ("(() => { try { btoa('\u20ac') } catch (e) { return e.name } })()", "InvalidCharacterError"),
    (
        "(() => { const o = {d: new Date(5), m: new Map([[1, {a: 2}]]), s: new Set(['x']), r: /x/gi, n: null, u: undefined}; o.self = o; const c = structuredClone(o); return [c !== o, c.self === c, c.d instanceof Date && +c.d, [...c.m], [...c.s], String(c.r), 'u' in c] })()",
        [True, True, 5, [[1, {"a": 2}]], ["x"], "/x/gi", True],
    ),
    (
        "(() => { const a = new Uint8Array([1, 2, 3]); const [x, y] = structuredClone([a, a.buffer]); return [Array.from(x), x.buffer === y, x !== a] })()",
        [[1, 2, 3], True, True],
    ),
    (
        "(() => { const e = new RangeError('r', {cause: {n: 1}}); const c = structuredClone(e); return [c instanceof RangeError, c.message, c.cause.n, c.name] })()",
        [True, "r", 1, "RangeError"],
    ),
    (
        "(() => { try { structuredClone({f() {}}) } catch (e) { return e.name } })()",
        "DataCloneError",
    ),
    (
        "(() => { try { structuredClone(Symbol('x')) } catch (e) { return e.name } })()",
        "DataCloneError",
    ),
    (
        "(() => { class P { constructor() { this.a = 1 } get b() { return 2 } } const c = structuredClone(new P()); return [c.constructor === Object, c] })()",
        [True, {"a": 1}],
    ),
    (
        "(() => { const a = [1, , 3]; a.x = 1; const c = structuredClone(a); return [1 in c, c.length, c.x] })()",
        [False, 3, 1],
    ),
    (
        "[typeof structuredClone(new Number(3)), structuredClone(new String('s')) instanceof String]",
        ["object", True],
    ),
    (
        "/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())",
        True,
    ),
    ("crypto.getRandomValues(new Uint8Array(8)).length", 8),
    (
        "(() => { try { crypto.getRandomValues(new Float32Array(1)) } catch (e) { return e.name } })()",
        "TypeMismatchError",
    ),
    (
        "(() => { try { crypto.getRandomValues(new Uint8Array(65537)) } catch (e) { return e.name } })()",
        "QuotaExceededError",
    ),
    (
        "Object.prototype.toString.call(new URL('http://a')) + Object.prototype.toString.call(new URLSearchParams())",
        "[object URL][object URLSearchParams]",
    ),
    (
        "['latin1', 'ascii', 'utf-16le'].map(l => new TextDecoder(l).decode(new Uint8Array([65, 0, 233, 0, 172, 32])))",
        ["A\0é\0¬ ", "A\0é\0¬ ", "Aé€"],
    ),
    (
        "[null, 'abc', [1]].map(b => { try { return new TextDecoder().decode(b) } catch (e) { return e.name } })",
        ["TypeError"] * 3,
    ),
    (
        "(() => { const b = new ArrayBuffer(8), c = structuredClone({b}, {transfer: [b]}); return [b.byteLength, c.b.byteLength] })()",
        [0, 8],
    ),
    ("new URLSearchParams(null).toString()", ""),
    (
        "['b', 'Zoë', 'a', 'C', 'item 10', 'é', 'A', 'item 2', '_x', 'Zoe', 'e', 'résumé', 'resume', '2', 'f'].sort((x, y) => x.localeCompare(y))",
        [
            "_x",
            "2",
            "a",
            "A",
            "b",
            "C",
            "e",
            "é",
            "f",
            "item 10",
            "item 2",
            "resume",
            "résumé",
            "Zoe",
            "Zoë",
        ],
    ),
    (
        "[['item 2', 'item 10', {numeric: true}], ['a', 'Á', {sensitivity: 'base'}], ['a', 'A', {sensitivity: 'accent'}], ['a', 'á', {sensitivity: 'accent'}], ['a', 'A', {}]].map(([a, b, o]) => a.localeCompare(b, 'en', o))",
        [-1, 0, 0, -1, -1],
    ),
    ("(() => { let s = ''; queueMicrotask(() => { s += 'b' }); s += 'a'; return s })()", "a"),
]


@pytest.mark.req("REQ-HAS-03", "REQ-HAS-04", "REQ-HAS-05", "REQ-HAS-06", "REQ-HAS-07", "REQ-HAS-08")
@pytest.mark.parametrize(("code", "wanted"), NODE)
async def test_as_node_has_it(world, code, wanted):
    assert await world.value(f"({code}) ?? null") == wanted


@pytest.mark.req("REQ-HAS-09")
async def test_sleeping_overlaps_and_ends_with_the_deadline(world):
    code = "const woke = []; await Promise.all([60, 1].map(ms => sleep(ms).then(() => woke.push(ms)))); return woke"
    assert await world.value(code) == [1, 60]
    error = await world.error("await sleep(60000)", options={"timeout_ms": 150})
    assert error["code"] == "TIMEOUT"


@pytest.mark.req("REQ-HAS-10", "REQ-HAS-11", "REQ-HAS-12", "REQ-HAS-13", "REQ-HAS-14")
@pytest.mark.parametrize(
    "name", ["fetch", "require", "setTimeout", "process", "Buffer", "InternalError", "std", "os"]
)
async def test_what_is_absent_is_absent(world, name):
    assert await world.value(f"typeof {name}") == "undefined"


@pytest.mark.parametrize(
    "code",
    [
        "(1).toLocaleString('de-DE')",
        "(1).toLocaleString('en-US', {style: 'currency', currency: 'KWD'})",
        "new Date(0).toLocaleString('en-US', {timeZone: 'Asia/Tokyo'})",
        "new Date(0).toLocaleDateString(undefined, {month: 'narrow'})",
        "new Date(0).toLocaleDateString('en-US', {weekday: 'long', year: 'numeric'})",
        "new Date(0).toLocaleTimeString('en-GB')",
        "new Intl.DateTimeFormat('de-DE')",
        "new Intl.ListFormat('de')",
        "new Intl.RelativeTimeFormat('en', {style: 'short'})",
    ],
)
async def test_a_text_that_would_be_wrong_for_its_locale_is_refused(world, code):
    reply = await world.run(code)
    assert "only en-US in UTC can be written here" in reply["error"]["message"]
