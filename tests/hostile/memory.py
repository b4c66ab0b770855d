"""Memory: what would fill it. The engine's limit or the kernel's ends it, not the machine's."""

from __future__ import annotations

from hostile import ANY, LARGE, RUNTIME, SYNTAX, Case, Gives

FULL = "MEMORY_LIMIT TIMEOUT"
THROWN = "MEMORY_LIMIT RUNTIME_ERROR"

CASES = [
    Case("objects", "const kept = []; for (let i = 0; ; i++) kept.push({ i, at: [i] })", FULL, 400),
    Case("arrays that are filled", "const kept = []; for (;;) kept.push(new Array(1e5).fill(0))", FULL, 400),
    Case("buffers", "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20))", THROWN, 400),
    Case("buffers, errors swallowed", "const kept = []; for (;;) try { kept.push(new Uint8Array(1 << 20).fill(1)) } catch {}", FULL, 300),
    Case("closures", "let f = () => 0; for (;;) { const g = f; f = () => g }", FULL, 400),
    Case("strings", "const kept = []; for (let i = 0; ; i++) kept.push(String(i).repeat(1000))", FULL, 400),
    Case("doubling string", "let s = 'ab'; for (;;) s += s", THROWN, 400),
    Case("repeat", "'0123456789'.repeat(2 ** 28).length", THROWN),
    Case("pad", "''.padStart(2 ** 30 - 1, 'pad').length", THROWN),
    Case("join", "Array(2 ** 26).join('wide wide wide wide').length", "MEMORY_LIMIT RUNTIME_ERROR TIMEOUT", 400),
    Case("replace that multiplies", "'a'.repeat(1e5).replace(/a/g, 'b'.repeat(1e5)).length", "MEMORY_LIMIT RUNTIME_ERROR TIMEOUT", 400),
    Case("spread of a length", "[...Array(2 ** 31)]", "MEMORY_LIMIT RUNTIME_ERROR TIMEOUT", 300),
    Case("array length bomb as the result", "const a = []; a.length = 2 ** 32 - 1; a", "SERIALIZATION_ERROR", says="hole"),
    Case("array-like length", "Array.from({ length: 2 ** 32 }).length", "MEMORY_LIMIT RUNTIME_ERROR TIMEOUT", 300),
    Case("array of too great a length", "new Array(-1)", RUNTIME),
    Case("typed array of 8 GiB", "new Float64Array(2 ** 30).length", THROWN),
    Case("growing buffer", "const b = new ArrayBuffer(0, { maxByteLength: 2 ** 40 }); b.resize(2 ** 39); 1", THROWN),
    Case("shared buffer", "const kept = []; for (;;) kept.push(new SharedArrayBuffer(1 << 22))", THROWN + " TIMEOUT", 400),
    Case("map", "const m = new Map(); for (let i = 0; ; i++) m.set(i, [i])", FULL, 400),
    Case("weak map whose keys are kept", "const m = new WeakMap(), kept = []; for (;;) { const k = {}; kept.push(k); m.set(k, [k]) }", FULL, 400),
    Case("property names", "const o = {}; for (let i = 0; ; i++) o['key ' + i] = i", FULL, 400),
    Case("symbols", "const o = {}; for (;;) o[Symbol('s')] = 1", FULL, 400),
    Case("classes", "let C = class {}; const kept = []; for (;;) kept.push(C = class extends C { m() {} })", FULL + " RUNTIME_ERROR", 400),
    Case("pending promises", "const kept = []; for (;;) kept.push(new Promise(() => {}).then(() => kept))", FULL, 400),
    Case("jobs that wait", "const p = Promise.resolve(); for (;;) p.then(() => {})", FULL, 400),
    Case("generators", "const kept = []; for (;;) { const g = (function* () { yield* [1] })(); g.next(); kept.push(g) }", FULL, 400),
    Case("regular expressions", "const kept = []; for (let i = 0; ; i++) kept.push(new RegExp(('(?:' + i + '){1,20}').repeat(20)))", FULL + " RUNTIME_ERROR", 400),
    Case("compiled functions", "const kept = []; for (let i = 0; ; i++) kept.push(new Function('return ' + i + '+' + 'x+'.repeat(500) + '1'))", FULL, 400),
    Case("errors with stacks", "const kept = []; for (;;) kept.push(new Error('e'.repeat(100)))", FULL, 400),
    Case("JSON text that unfolds", "const t = '[' + '[],'.repeat(4e6) + '0]'; JSON.parse(t).length", "MEMORY_LIMIT RUNTIME_ERROR TIMEOUT", 400),
    Case("JSON.stringify that multiplies", "let o = 'x'.repeat(1e5); for (let i = 0; i < 20; i++) o = [o, o]; JSON.stringify(o).length", "MEMORY_LIMIT RUNTIME_ERROR TIMEOUT", 400),
    Case("shared tree as the result", "let o = 'x'.repeat(1000); for (let i = 0; i < 30; i++) o = [o, o]; o", "MEMORY_LIMIT RESULT_TOO_LARGE SERIALIZATION_ERROR TIMEOUT", 400),
    Case("structuredClone", "let o = [1]; for (;;) o = structuredClone([o, o])", FULL + " RUNTIME_ERROR", 400),
    Case("encoder", "const kept = []; for (;;) kept.push(new TextEncoder().encode('é'.repeat(1e5)))", FULL + " RUNTIME_ERROR", 400),
    Case("a BigInt of 1 GiB", "(1n << (1n << 33n)) > 0n", THROWN),
    Case("flattening", "let a = [1, 2, 3, 4]; for (;;) a = a.flatMap(x => a)", FULL + " RUNTIME_ERROR", 400),
    Case("a URL of many megabytes", "new URL('http://a/' + 'b'.repeat(2 ** 25)).href.length", ANY, 400),
    Case("base64 of much", "atob(btoa('x'.repeat(3e6))).length", "MEMORY_LIMIT RUNTIME_ERROR TIMEOUT VALUE", 400),
    Case("a result above the limit", "'r'.repeat(3 * 2 ** 20)", LARGE, 500),
    Case("a message of megabytes", "throw new Error('m'.repeat(2 ** 24))", RUNTIME, 400, check=lambda reply: len(str(reply)) < 100_000),
    Case("a stack of megabytes", "throw Object.assign(new Error('m'), { stack: 's'.repeat(2 ** 24) })", RUNTIME, 400, check=lambda reply: len(str(reply)) < 100_000),
    Case("a thrown string of megabytes", "throw 'm'.repeat(2 ** 24)", RUNTIME, 400, check=lambda reply: len(str(reply)) < 100_000),
    Case("out of memory is caught, then a value", "let n = 0; try { const kept = []; for (;;) kept.push(new ArrayBuffer(1 << 24)) } catch { n = 1 } n", "MEMORY_LIMIT VALUE", 400),
    Case("arguments of megabytes", "call_tool('stub', 'echo', { a: 'x'.repeat(2 ** 24) }).ok", "WORKER_CRASHED VALUE MEMORY_LIMIT TIMEOUT", 800, calls=0),
    Case("a literal of a hundred thousand", "[" + "0," * 100_000 + "].length", Gives(100_000), 800),
    Case("a source above the limit of size", "1;" * 2**19 + "1", "INVALID_REQUEST", 600),
    Case("an identifier of a megabyte", "var " + "a" * 1_000_000 + " = 1; 1", ANY, 600),
    Case("a string literal that never ends", "'" + "a" * 500_000, SYNTAX, 600),
]  # fmt: skip
