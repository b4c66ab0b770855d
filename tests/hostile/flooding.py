"""Flooding: lines, calls, frames and timers by the million."""

from __future__ import annotations

from hostile import ANY, RUNTIME, TIMEOUT, Case, Gives


def short(reply: dict) -> bool:
    """What is kept of the console is bounded, and what was dropped is counted."""
    return sum(len(line["message"]) for line in reply.get("logs", ())) < 70_000


CASES = [
    Case("a million lines", "for (let i = 0; i < 1e6; i++) console.log('line ' + i); 'done'", Gives("done"), 2500, check=lambda reply: short(reply) and reply["logs_dropped"] + len(reply["logs"]) == 1_000_000),
    Case("lines without end", "for (;;) console.log('line')", TIMEOUT, check=short),
    Case("empty lines without end", "for (;;) console.log()", TIMEOUT, check=lambda reply: len(reply.get("logs", ())) <= 65536 / 16 + 1),
    Case("one endless line", "console.log('x'.repeat(2 ** 22)); 1", Gives(1), 400, check=short),
    Case("a line of many values", "console.log(...Array(6e4).fill({ a: 1 })); 1", Gives(1), 600, check=short),
    Case("a line that is a wide object", "console.log(Object.fromEntries(Array.from({ length: 3e4 }, (_, i) => ['k' + i, i]))); 1", Gives(1), 600, check=short),
    Case("a line that is a wide and deep object", "let o = { a: 1 }; for (let i = 0; i < 8; i++) o = Array(90).fill(o); console.log(o); 1", Gives(1), 900, check=short),
    Case("a line of a proxy without end", "console.log(new Proxy([], { get: (t, k, r) => k === 'length' ? 1e15 : r })); 1", "VALUE TIMEOUT", check=short),
    Case("lines in the midst of a line", "console.log({ get a() { console.log('inner'); return 1 } }); 1", Gives(1), check=short),
    Case("lines of lines of lines", "const o = { get a() { console.log(o); return 1 } }; console.log(o); 1", "VALUE TIMEOUT RUNTIME_ERROR", check=short),
    Case("five thousand calls at once", "(await Promise.all(Array.from({ length: 5000 }, (_, i) => tools.stub.echo({ i })))).every((r, i) => r.i === i)", Gives(True), 6000, calls=5000),
    Case("calls that nobody awaits", "for (let i = 0; i < 3000; i++) tools.stub.hang({ i }); 'left'", Gives("left"), 1500, check=lambda reply: "3000 call(s)" in reply["warnings"][0]),
    Case("calls without end, awaited", "for (;;) await tools.stub.echo({})", TIMEOUT),
    Case("calls without end, waiting", "for (;;) call_tool('stub', 'echo', {})", TIMEOUT),
    Case("calls without end, not awaited", "for (;;) tools.stub.echo({})", "TIMEOUT MEMORY_LIMIT", 80),
    Case("calls without end that hang", "for (;;) tools.stub.hang({})", "TIMEOUT MEMORY_LIMIT", 80),
    Case("batches without end", "const b = Array(100).fill({ server: 'stub', tool: 'echo' }); for (;;) call_tools(b, { max_parallel: 32 })", TIMEOUT),
    Case("refused calls without end", "for (;;) call_tool('nowhere', 'x', {})", TIMEOUT, calls=0),
    Case("refused batches without end", "const b = Array(100).fill({ server: 'nowhere', tool: 'x' }); for (;;) call_tools(b)", TIMEOUT, calls=0),
    Case("malformed calls without end", "for (;;) call_tool()", TIMEOUT, calls=0),
    Case("calls with large args", "for (;;) tools.stub.echo({ a: 'x'.repeat(1e5) })", "TIMEOUT MEMORY_LIMIT", 80),
    Case("calls with names of a megabyte", "const n = 'n'.repeat(1e6); for (let i = 0; i < 20; i++) call_tool(n, n, {}); 1", "VALUE TIMEOUT", 80, calls=0),
    Case("a batch of too many", "call_tools(Array(2e5).fill({ server: 'stub', tool: 'echo' })).error.code", Gives("INVALID_ARGS"), calls=0),
    Case("a batch of getters", "call_tools(Array.from({ length: 100 }, () => ({ get server() { return 'stub' }, get tool() { return 'echo' }, get args() { return { get a() { return 1 } } } }))).every(r => r.ok)", Gives(True), 600, calls=100),
    Case("a batch that grows while it is read", "const b = [{ get server() { b.push({ server: 'stub', tool: 'echo' }); return 'stub' }, tool: 'echo' }]; call_tools(b).length", Gives(1), calls=1),
    Case("errors of tools without end", "for (;;) try { await tools.stub.fail({}) } catch {}", TIMEOUT),
    Case("searches without end", "for (;;) await search_tools('echo')", TIMEOUT, calls=0),
    Case("searches that nobody awaits", "for (;;) search_tools('x'.repeat(1e4))", "TIMEOUT MEMORY_LIMIT", 80, calls=0),
    Case("searches of odd things", "const found = []; for (const q of [null, 1, {}, [], Symbol('s'), () => 1, 1n, { toString() { throw 1 } }]) try { await search_tools(q, { limit: q, server: q }); found.push(1) } catch { found.push(0) } found.length", "VALUE RUNTIME_ERROR", calls=0),
    Case("descriptions without end", "for (;;) try { await describe_tool('stub:nope') } catch {}", TIMEOUT, calls=0),
    Case("names on tools without end", "for (let i = 0; ; i++) tools['s' + i]", "TIMEOUT RUNTIME_ERROR", calls=0),
    Case("names on a server without end", "for (let i = 0; ; i++) tools.stub['t' + i]", "TIMEOUT RUNTIME_ERROR MEMORY_LIMIT", 80, calls=0),
    Case("timers by the ten thousand", "for (let i = 0; i < 3e4; i++) sleep(1e6); 'left'", Gives("left"), 1500),
    Case("timers without end", "for (;;) sleep(1e9)", "TIMEOUT MEMORY_LIMIT", 80),
    Case("timers of odd lengths", "await Promise.all([sleep(-1), sleep(NaN), sleep('x'), sleep({}), sleep(), sleep(1n), sleep(0.5)]); 1", Gives(1)),
    Case("ten thousand timers at once", "await Promise.all(Array.from({ length: 1e4 }, () => sleep(1))); 1", Gives(1), 1500),
    Case("calls and timers and lines at once", "for (let i = 0; ; i++) { tools.stub.echo({ i }); sleep(1); console.log(i); await 0 }", "TIMEOUT MEMORY_LIMIT", 80, check=short),
    Case("random bytes without end", "for (;;) crypto.randomUUID()", TIMEOUT),
    Case("URLs without end", "for (let i = 0; ; i++) new URL('http://h/' + i).pathname", TIMEOUT),
    Case("a member of a call that was not awaited", "tools.stub.echo({}).items.length", RUNTIME, says="not awaited"),
    Case("errors by the hundred thousand", "for (let i = 0; i < 1e5; i++) Promise.reject(new Error('e' + i)); 'done'", ANY, 1500),
    Case("arguments of a million lists", "call_tool('stub', 'echo', { a: Array(2e5).fill([]) }).error.message.includes('100,000 values')", Gives(True), 400, calls=0, memory_mb=64),
    Case("typed arguments of many values", "try { await tools.stub.echo({ a: Array(2e5).fill(0) }) } catch (e) { e.code }", Gives("INVALID_ARGS"), calls=0),
    Case("arguments of many values without end", "const a = Array(9e4).fill([]); for (;;) tools.stub.echo({ a })", "TIMEOUT MEMORY_LIMIT", 80),
    Case("answers that nobody reads", "for (let i = 0; i < 200; i++) tools.stub.echo({ a: 'x'.repeat(2 ** 19) }); for (;;) {}", TIMEOUT, 200, memory_mb=64),
    Case("questions that nobody awaits, of great length", "for (;;) search_tools('x'.repeat(2 ** 20))", "TIMEOUT MEMORY_LIMIT", 200, calls=0),
    Case("the name of a server, of a million letters that fold slowly", "const n = '\u0130'.repeat(1e6); for (;;) try { tools[n] } catch {}", TIMEOUT, 80, calls=0),
    Case("callbacks that make more of themselves", "const r = new FinalizationRegistry(function again(n) { r.register({}, n); r.register({}, n) }); r.register({}, 1); for (;;) await {}", "TIMEOUT MEMORY_LIMIT"),
    Case("a search parameter at a time", "const u = new URL('http://a/'); for (let i = 0; ; i++) u.searchParams.append('k' + i, 'v')", TIMEOUT),
]  # fmt: skip
