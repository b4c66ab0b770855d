"""What an error says beside what happened: what was meant, and what to do instead."""

from __future__ import annotations

import time
from itertools import product

import pytest
from fakes import catalog
from world import open_world

from mcpproxy import hints
from mcpproxy.catalog import Catalog
from mcpproxy.sandbox.source import plain, unfenced


@pytest.fixture(scope="module")
async def world():
    async with open_world(code_execution_pool_size=2) as world:
        yield world


HINTS = [
    ("fetch('https://example.com')", "call a tool"),
    ("require('fs')", "require"),
    ("setTimeout(() => {}, 1)", "await sleep"),
    ("process.env.HOME", "input"),
    ("Buffer.from('x')", "TextEncoder"),
    ("await import('fs')", "import"),
    ("import fs from 'fs'; 1", "import"),
    ("ls -la /tmp && cat README.md", "shell command"),
    ('{"a": 1, "b": [2]}', "JSON"),
    ('```json\n{"tool": "stub:add", "arguments": {"a": 1}}\n```', "Write const result = await tools.stub.add({a: 1, b: 1})"),
    ("<html><body></body></html>", "HTML"),
    ("SELECT name FROM users WHERE id = 1", "SQL"),
    ("def f(x):\n    return x", "Python"),
    ("Please list all the open issues for me.", "prose"),
    ("ls -la", "shell command"),
    ("export TOKEN=x; ./run.sh", "shell command"),
    ("```bash\nls -la\n```", "shell command"),
    ("try:\n    x = 1\nexcept Exception:\n    pass", "Python"),
    ("import os, sys", "Python"),
    ("name: build\non: push\njobs:\n  - test", "YAML"),
    ("diff --git a/x b/x\n+new", "a diff"),
    ("fn main() { run() }", "another programming language"),
    ("list all issues", "prose"),
    ("Öffne die Datei, bitte.", "prose"),
    ("请列出所有未解决的问题。", "prose"),
    ("Result", "must be a JavaScript"),
    ("# a comment\nreturn 1", "write //"),
    ("Here is the code\n```js\nreturn 1\n```", "prose"),
    ("```js\nreturn 1\n```\nIt gives one.", "code alone"),
    ("```js\nlet a = 1\n```\n```js\na\n```", "code alone"),
    ("@logged class A {}", "Decorators"),
    ("return <b>{1}</b>", "JSX"),
    ("const a = 1; ({a}); {a: a, b: 2}", "parentheses"),
    ("const s = \u201chi\u201d", "typographic"),
    ("let a\u200bb = 1", "U+200B"),
    ("export * from './other'; return 1", "nothing can be exported again"),
    ("exports.total = 5", "return it"),
    ("const a = {a: True}; a", "write true"),
    ("async function main() { return 1 }\nconst other = Date.now();", "Return the value in main, and end with return main()"),
    ("async function main() { console.log(1) }\nmain().catch(console.error);", "Return the value in main, and end with return main()"),
    ("console.log(1)", "is not its value"),
    ("[1].forEach(async n => { await tools.stub.echo({n}) })", "no value"),
    ("return params.id", "global input"),
    ("await callTool('stub', 'echo', {})", "Did you mean call_tool?"),
    ("await mcp.call('nobody', 'nothing', {})", "await tools.<server>.<tool>({...})"),
    ("await mcp.callTool({name: 'add', arguments: {a: 1}})", "Write const result = await tools.stub.add({a: 1, b: 1})"),
    ("const a = 1;\\nreturn a;", "escaped once too often"),
    ('return tools.stub.echo({\\"a\\": 1})', "quotes without a"),
    ("[1].map(x =&gt; x)", "write > for &gt;"),
    ("if (1 &lt; 2 &amp;&amp; true) { 1 }", "write > for &gt;"),
    ("<execute_code>\nconst a = 1;\nreturn a;\n</execute_code>", "without the tags"),
    ("JavaScript:\nconst a = 1;", "the name of the language"),
    ("const all = ['a', 'b'].join('\n');", "write \\n in it"),
    ('{"code": "return 1"}', 'what is under "code" alone'),
    ("return await tools.stub.add(a: 1, b: 2)", "Arguments go in one object"),
    ("function f() {\n  if (1) {\n    g();\n}\nf();", 'end of input: { is not closed in "if (1) {"'),
    ("async function main() {\n  return [1, 2];\n\nmain();", '{ is not closed in "async function main() {"'),
    ("const x = 1; x = 2", "declare it with let"),
    ("console.log(y); let y = 1", "before the line that declares it"),
    ("new Date('soon').toISOString()", "is no date"),
    ("JSON.parse(undefined)", "JSON.parse was given undefined"),
    ("JSON.parse('not json')", "is no JSON"),
    ("'abc'.contains('a')", "use includes"),
    ("Date.now().toISOString()", "only a Date has it"),
    ("await bridge.servers['my-server']['list.items']({})", 'tools["my-server"]["list.items"]({'),
    ("await codemode.tool('stub', 'plain_text', {})", "tools.stub.plain_text({"),
    ("await agent.call('stub.add', {a: 1})", "tools.stub.add({a: 1, b: 1})"),
    ("await session.call_tool('nothing', {})", "await tools.<server>.<tool>({...})"),
    ("const all = call_tools([{server: 'stub', tool: 'echo'}]); return all.map(r => r.value.a)", "call_tools gives an array"),
    ("const r = await tools.stub.add({a: 1, b: 2}); return [r].map(each => each.sum).concat(r.rows.map(row => row.a))", "tools.stub.add gave an object with sum"),
    ("const r = call_tools([{server: 'stub', tool: 'echo'}]); for (const each of r) console.log(each.data.a)", "call_tools gives an array"),
    ("'a'.toUppercase()", "it is spelled toUpperCase"),
    ("'2026-01-01'.getMonth()", "new Date(x).getMonth()"),
    ("await tools.stub.add({a: 1, b: null})", "leave it out, or give a value"),
    ("await tools.stub.add.invoke({a: 1, b: 2})", "tools.stub.add is itself what is called"),
    ("const limit = pLimit(2); await limit(() => 1)", "max_parallel"),
    ("console.log(await tools.stub.echo({a: 1}));", "return await tools.stub.echo({a: 1}) in place of"),
    ("await tools.stub.listTools()", "Object.keys(tools.<server>) names its tools"),
    ("await tools.stub.ad('x')", "has no tool 'ad', did you mean"),
    ("await mcp.listTools()", "Object.keys(tools)"),
    ("await Promise.all({a: tools.stub.echo({})})", "Promise.all and its kin take one, [a, b]"),
    ("await Promise.all(tools.stub.echo({}), tools.stub.echo({}))", "Promise.all and its kin take one, [a, b]"),
    ("[2, 1].sort(async (a, b) => a - b)", "wait for no promise"),
    ("const schema = getToolSchema('stub', 'add')", "await describe_tool"),
    ("const all = await getAllTools()", "Object.keys(tools)"),
    ("<invoke><tool_name>json_text</tool_name></invoke>", "tools.stub.json_text({"),
    ("import json\nresult = await plain_text(text='x')", "Python, not JavaScript: Write const result = await tools.stub.plain_text({"),
    ("await my_server.add({a: 1, b: 2})", 'await tools["my-server"].add({'),
    ("await stub__add({a: 1})", "await tools.stub.add({a: 1, b: 1})"),
    ("await mcp__my_server__list_items({})", 'tools["my-server"]["list.items"]({'),
    ("await tools['stub:add']({a: 1})", "write await tools.stub.add({...})"),
    ("await tools.my_server_echo({a: 1})", 'write await tools["my-server"].echo({...})'),
    ("await tools.call_tool('stub', 'add', {})", "global of its own"),
    ("await tools('stub', 'add', {})", "await tools.<server>.<tool>"),
    ("await tools.stub('add', {})", "await tools.<server>.<tool>"),
    ("(await tools.stub.plain_text({})).content[0].text", "already parsed"),
    ("JSON.parse(await tools.stub.echo({a: 1}))", "parsed already"),
    ("call_tool('stub', 'echo', {}).then(r => r)", "no promise"),
    ("[1].map(x => { const r = await tools.stub.echo({x}); return r })", "write async in front of"),
    ("const nap = () => await sleep(1); nap()", "write async in front of"),
    ("const r = await tools.stub.echo({a: 1}); return r.result;\n", "already parsed"),
    ("const a = 1 and 2; a", "write &&"),
    ("len([1])", "use .length"),
    ("const r = await tools.stub.echo({}); if (!r.ok) throw new Error(r.error); return r", "leave the check out"),
    ("const r = await tools.stub.echo({}); if (!r.ok) return r.error; return r", "leave the check out"),
    ("await mcp.stub.add({})", "await tools.stub.add({a: 1, b: 1})"),
    ("await codemode.my_server_add({})", 'await tools["my-server"].add({a: 1, b: 1})'),
    ("await tools.add({a: 1})", "write await tools.stub.add({...})"),
    ("await tools.my-server.add({})", 'tools["my-server"]'),
    ("await tools.stub.list.items({})", 'goes in brackets: const result = await tools.stub["list.items"]({'),
    ("await tools['my-server'].list.items({})", 'await tools["my-server"]["list.items"]({'),
    ("async ({tools}) => await tools.stub.add({a: 1, b: 2})", "take tools out of the parameters"),
    ("async (ctx) => { return await ctx.tools.stub.add({a: 1, b: 2}) }", "tools is a global"),
    ("return input.owner.name", "has no owner, none was sent"),
    ("export const total = (await tools.stub.add({a: 1, b: 2})).sum", "For example: return total"),
    ("const n = 'ab'.lenght; return n", "n is undefined where it is returned"),
    ("(async () => {\n  const r = await tools.stub.echo({});\n  console.log(JSON.stringify(r, null, 2));\n})();", "return r in place of console.log(JSON.stringify(r, null, 2))"),
    ("tools.stub.echo({}).then(r => console.log(r.id));", "return r.id in place of"),
    ("async function main() { return await fetch('x') }\nmain().catch(e => console.error(e.message));", "in the logs that fetch is not defined. there is no network"),
    ("process.on('exit', () => {})", "leave it out"),
    ("if (require.main === module) main()", "leave that check out"),
    ("_.uniq([1])", "plain JavaScript"),
    ("await delay(5)", "await sleep(ms)"),
    ("import { Client } from '@modelcontextprotocol/sdk/client/index.js';", "await tools.<server>.<tool>({...})"),
    ("call_tool('add', {a: 1})", 'call_tool(server, "add", args)'),
    ("call_tool({server: 'stub', tool: 'add', args: {}})", 'call_tool("stub", "add", args)'),
    ("call_tool({name: 'stub:add', arguments: {}})", 'call_tool("stub", "add", args)'),
    ("call_tool({get server() { throw 1 }})", "call_tool(server, tool, args)"),
    ("for (const tool of tools) tool", "Object.keys(tools)"),
    ("tools.map(t => t.name)", "Object.keys(tools)"),
    ("await invoke('stub', 'add', {})", "tools.stub.add({a: 1, b: 1})"),
    ("await tools.stub.add(1, 2)", 'describe_tool("stub:add") shows its parameters'),
    ("call_tool('stub', 'echo', JSON.stringify({a: 1}))", "leave out JSON.stringify"),
    ("call_tools([{server: 'stub', tool: 'echo', arguments: {a: 1}}])", "it goes in args, not in arguments"),
    ("call_tools([{server: 'stub', name: 'echo'}])", "it goes in tool, not in name"),
    ("call_tools([{tool: 'stub:echo'}])", 'write server: "stub", tool: "echo"'),
    ("await tools.stub.call('echo', {a: 1})", "write await tools.stub.echo({...})"),
    ("await tools.invoke('stub', 'echo', {})", "tools are called as await tools.<server>.<tool>({...})"),
    ("await functions.stub_add({})", "await tools.stub.add({a: 1, b: 1})"),
    ("await use_mcp_tool('stub', 'echo', {})", "tools.stub.echo({})"),
    ("const all = [1, 2].map(async x => x); return JSON.stringify(all)", "await Promise.all(...)"),
    ("[1, 2].reduce(async (sum, n) => sum + n, 0)", "cannot make text or a number of a promise"),
    ("call_tool('stub:echo', {a: 1}).result.a", 'call_tool("stub", "echo", args)'),
    ("const r = call_tool('stub', 'fail', {message: 'not found'}); return r.result", "TOOL_ERROR: not found. Look at res.ok"),
    ("`${tools.stub.echo({})}`", "write await tools.stub.echo"),
    ("for (const x of tools.stub.echo({})) x", "write await tools.stub.echo"),
    ("search_tools('x').length", "(await search_tools(…)).length"),
    ("const found = await search_tools('add'); return found.map(t => t.name)", "the array is found.tools"),
    ("const sum = await tools.stub.add({a: 1, b: 2}); for (const x of sum) x", "tools.stub.add gave an object with sum"),
    ("const rows = await tools.stub.echo({}); return rows.map(x => x)", "tools.stub.echo gave an object without members"),
    ("JSON.parse(\"[{'n': 1}]\")", "return the text itself"),
    ("const r = call_tool('stub', 'echo', {a: 1}); return JSON.parse(r.result.content).a", "read the data's members from result itself"),
    ("const r = call_tool('stub', 'echo', {a: 1}); const rows = Array.isArray(r.result) ? r.result : r.result.rows; return rows.length", "call_tool gives {ok: true, result}"),
    ("(await tools.stub.echo({a: 1})).map(x => x)", "tools.stub.echo gave an object with a"),
    ("return (await tools.stub.add({a: 1, b: 2})).items.length", "tools.stub.add gave an object with sum"),
    ("const [first] = await tools.stub.add({a: 1, b: 2}); return first", "tools.stub.add gave an object with sum"),
    ("call_tools([{name: 'stub:echo', args: {}}])", 'write server: "stub", tool: "echo"'),
    ("[tools.stub.echo({})]", "await Promise.all"),
    ("const r = call_tool('stub', 'fail', {message: 'gone'}); throw new Error(r.error)", "TOOL_ERROR: gone"),
    ("import * as s from './servers/my-server';", 'leave it out and write const result = await tools["my-server"].echo({})'),
    ("import { add } from './servers/stub/index.js';", "await tools.stub.add({a: 1, b: 1})"),
    ("import { tools } from 'mcpproxy'; 1", "tools is a global"),
    ("import { z } from 'zod'; 1", "packages are not available"),
    ("const { createHash } = require('node:crypto');", "crypto.randomUUID() is there"),
    ("await crypto.subtle.digest('SHA-256', new Uint8Array(1))", "randomUUID and getRandomValues alone"),
    ("new Intl.Segmenter('en')", "ListFormat and RelativeTimeFormat here"),
    ("process.exit(0)", "end with the value"),
    ("new AbortController()", "stops waiting for it"),
    ("await tools.nowhere.list({})", "there are stub, my-server, github"),
    ("const seen = [1];\nconst all = await tools.stub.echo({all: seen});\nconst show = (x) => x;\nconsole.log(all);", "For example: return all"),
    ("const rows = await tools.stub.echo({}); return rows.items.map(x => x)", "tools.stub.echo gave an object"),
    ("const rows = await tools['my-server']['list.items']({}); return rows.split(',')", 'tools["my-server"]["list.items"] gave an object with tool'),
    ("tools.stub", "value is a group of tools: Object.keys() of it"),
    ("({all: tools})", "value.all is a group of tools"),
    ("// the tools are to be listed\n/* and counted */", "for example: const r = await"),
    ("const rows = await tools.stub.echo({}); return rows[0]?.total;\n", "tools.stub.echo gave an object"),
    ("const t = await tools.stub.plain_text({text: 'a'.repeat(50)}); return t.rows[0]", f'tools.stub.plain_text gave a text that begins "{"a" * 40}"'),
    ("const t = await tools.stub.plain_text({text: 'hi'}); return t.content[0].text", 'tools.stub.plain_text gave the text "hi"'),
    ("const r = await tools.stub.wire({result: {content: [{type: 'text', text: '[{\"a\": 1}]'}]}}); return r.items[0]", "gave an array of 1, the first of which is an object with a"),
    ("const r = call_tool('stub', 'plain_text', {}); return r.split(',')", "call_tool gives {ok: true, result}"),
    ("const r = call_tools([]); return r.items.length", "call_tools gives an array"),
    ("const r = call_tools({}); return r.map(x => x)", "gave no array but one envelope"),
]  # fmt: skip


async def test_a_member_of_the_input_that_was_taken_for_a_variable_is_named(world):
    error = await world.error("return ids.length", input={"ids": [1]})
    assert "ids is not defined. It is a member of input: write input.ids" in error["message"]


@pytest.mark.req("REQ-HAS-10", "REQ-HAS-11", "REQ-HAS-12", "REQ-HAS-13", "REQ-HAS-14")
@pytest.mark.parametrize(("code", "hint"), HINTS)
async def test_what_cannot_be_had_says_what_to_do(world, code, hint):
    assert hint in (await world.error(code))["message"]


CAUGHT = [
    ("try { setTimeout(() => {}, 1) } catch (e) { return {failed: [e.message]} }", "await sleep(ms)"),
    ("const [r] = await Promise.allSettled([(async () => fetch('x'))()]); return String(r.reason)", "there is no network"),
    ("try { codemode.add({a: 1}) } catch (e) { console.error(e) }\nreturn 1", "await tools.stub.add({"),
    ("try { null.x } catch (e) { return e.message }", None),
    ("try { unknown_one } catch (e) { return e.message }", None),
    ("return 'fetch is not defined'", None),
    ("const r = await tools.stub.echo({a: 1}); if (!r.ok) return {error: 'it failed'}; return r.a", "leave the check out"),
    ("const {ok, result} = await tools.stub.echo({a: 1}); if (!ok) return 'failed'; return result", "leave the check out"),
    ("const r = call_tool('stub', 'fail', {}); if (!r.ok) return {error: 'failed'}; return await tools.stub.echo({})", None),
    ("const r = await tools.stub.echo({ok: true}); if (!r.ok) return 'failed'; return r.ok", None),
    ("try { fetch2 } catch {}\nreturn 'fetch is not defined'", None),
]  # fmt: skip


@pytest.mark.parametrize(("code", "hint"), CAUGHT)
async def test_a_program_that_caught_its_own_mistake_is_told_of_it(world, code, hint):
    reply = await world.run(code)
    warnings = reply.get("warnings", [])
    assert reply["ok"] and len(warnings) == (hint is not None)
    assert hint is None or hint in warnings[0]


def test_what_a_tool_gives_is_said_where_it_was_taken_for_something_else():
    gives = {"type": "object", "properties": {"content": {"type": "string"}}}
    known = catalog(files=[{"name": "read", "inputSchema": {}, "outputSchema": gives}])
    source = "const text = await tools.files.read({}); text.split('.')"
    said = hints.advice("RUNTIME_ERROR", "TypeError: text.split is not a function", source, known)
    assert said == "tools.files.read gives { content?: string }"
    source = "const { data, text } = await tools.files.read({}); return data.text"
    message = "TypeError: cannot read property 'text' of undefined (data is undefined)"
    assert hints.advice("RUNTIME_ERROR", message, source, known) == said
    named = hints.advice("RUNTIME_ERROR", "ReferenceError: Read is not defined", "Read({})", known)
    assert named == "Write const result = await tools.files.read({});"
    wide = {"type": "object", "properties": {f"member_{n}": {"type": "string"} for n in range(20)}}
    known = catalog(files=[{"name": "read", "inputSchema": {}, "outputSchema": wide}])
    told = hints.advice("RUNTIME_ERROR", message, source, known)
    assert told is not None and "gives an object with member_0, member_1, " in told
    known = catalog(files=[{"name": "read", "inputSchema": {}, "outputSchema": gives}])
    source = "const file = await tools['files'].read({}); return JSON.parse(file).version"
    again = hints.advice("RUNTIME_ERROR", "SyntaxError: unexpected token: 'object'", source, known)
    assert again is not None and again.endswith(said)


def test_what_is_looked_for_in_a_source_takes_time_in_proportion_to_it():
    shapes = [
        "a\n{}a b",
        "{{{}a",
        "```\n{}",
        "def f({}",
        "{}",
        "function main{}",
        "console.log(a);{}a",
        "<a>{}</a>",
        "tools.{}:",
        "a{}",
    ]
    began = time.process_time()
    for shape, filling in product(shapes, ["\n", " ", "`", "{ ", ")", "=<a ", "using ", "- a\n"]):
        source = shape.format(filling * (2**15 // len(filling)))
        plain(unfenced(source))
        for code, message in [
            ("SYNTAX_ERROR", "SyntaxError: Unexpected token ':'"),
            ("SYNTAX_ERROR", "SyntaxError: Unexpected token '&'"),
            ("RUNTIME_ERROR", "ReferenceError: a is not defined"),
            ("RUNTIME_ERROR", "TypeError: a.b is not a function"),
            ("RUNTIME_ERROR", "TypeError: cannot read property 'b' of undefined (a is undefined)"),
            ("SERIALIZATION_ERROR", f"x: {hints.UNDEFINED}"),
        ]:
            hints.advice(code, message, source, Catalog({}, 1))
    assert time.process_time() - began < 3
