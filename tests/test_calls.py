"""Calls from scripts, in every way of making them, through real VMs and real gates."""

from __future__ import annotations

import pytest
from world import Played, open_world


@pytest.fixture(scope="module")
async def opened():
    async with open_world(code_execution_pool_size=3) as world:
        yield world


@pytest.fixture
def world(opened):
    opened.upstreams, opened.progress = Played(), []
    return opened


@pytest.mark.req("REQ-CALL-02", "REQ-CALL-04")
async def test_the_envelope_holds_the_wire_result(world):
    envelope = await world.value("call_tool('stub', 'echo', {a: 1})")
    assert envelope == {
        "ok": True,
        "result": {
            "content": [{"type": "text", "text": "{'a': 1}"}],
            "structuredContent": {"a": 1},
        },
    }


LENT = [
    (
        "const r = call_tool('stub', 'echo', {name: 'octo'}).result; [r.name, Object.keys(r)]",
        ["octo", ["content", "structuredContent"]],
    ),
    (
        "const r = call_tool('stub', 'echo', {content: 'mine', x: 1}).result; [Array.isArray(r.content), r.x]",
        [True, 1],
    ),
    ("const r = call_tool('stub', 'json_text', {deep: {n: 1}}).result; r.deep.n", 1),
    (
        "const r = call_tool('stub', 'wire', {result: {content: [{type: 'text', text: '[1,2]'}]}}); [r.content[0].text, r.result.map(x => x + 1), r.length, [...r.result], Object.keys(r.result)]",
        ["[1,2]", [2, 3], 2, [1, 2], ["content"]],
    ),
    (
        "const r = call_tool('stub', 'echo', {error: 'mine', ok: false, x: 1}); [r.error ?? null, r.ok, r.x, r.result.error, r.structuredContent.x, Object.keys(r)]",
        [None, True, 1, "mine", 1, ["ok", "result"]],
    ),
    ("let n = 0; for (const k in call_tool('stub', 'echo', {a: 1, b: 2}).result) n++; n", 2),
    ("call_tool('stub', 'plain_text', {text: 'words'}).result.content[0].text", "words"),
]


@pytest.mark.req("REQ-CALL-05", "REQ-CALL-06", "REQ-CALL-07", "REQ-CALL-08")
@pytest.mark.parametrize(("code", "wanted"), LENT)
async def test_members_of_the_data_are_read_directly(world, code, wanted):
    assert await world.value(code) == wanted


TYPED = [
    ("await tools.stub.echo({a: 1})", {"a": 1}),
    ("await tools.stub.json_text({b: 2})", {"b": 2}),
    ("await tools.stub.plain_text({text: 'words'})", "words"),
    ("(await tools.stub.blocks({})).length", 3),
    ("const r = await tools.stub.blocks({}); [r.content.map(each => each.type), Object.keys(r), r.length]", [["text", "image", "text"], ["0", "1", "2"], 3]),
    ("const r = await tools.stub.json_text({b: 2}); [JSON.parse(r.content[0].text).b, r, Object.keys(r), {...r}]", [2, {"b": 2}, ["b"], {"b": 2}]),
    ("(await tools.stub.wire({result: {content: [{type: 'text', text: 'of both'}], structuredContent: {n: 1, content: 7}}})).content", 7),
    ("const r = await tools.stub.wire({result: {content: [{type: 'text', text: '[1]'}]}}); [r, r.content[0].text]", [[1], "[1]"]),
    ("await tools.stub.echo()", {}),
    ("await tools.stub.echo(null)", {}),
    ("[(await tools.myServer.listItems({})).tool, (await tools.Stub.plainText({text: 'x'}))]", ["list.items", "x"]),
    ("(await tools.stub.say({})).tool", "stub_say"),
    ("try { await tools.stub.aB({}) } catch (e) { return [e.code, e.tool] }", ["TOOL_NOT_FOUND", "aB"]),
    ("tools.stub.echo({id: 4})", {"id": 4}),
    ("const p = tools.stub.add({a: 1, b: 2}); [p instanceof Promise, (await p).sum]", [True, 3]),
    ("[(await tools['my-server']['list.items']({x: 1})).tool, (await tools.my_server.list_items({})).tool]", ["list.items", "list.items"]),
    ("[(await tools.stub['a-b']({})).tool, (await tools.stub.a_b({})).tool]", ["a-b", "a_b"]),
    ("[(await tools.stub.delete({})).tool, (await tools.stub.constructor({})).tool, (await tools.stub.then({})).tool, (await tools.stub['__proto__']({})).tool]",
     ["delete", "constructor", "then", "__proto__"]),
    ("[Object.keys(tools), Object.keys(tools.stub).length, 'echo' in tools.stub, 'nope' in tools.stub]", [["stub", "my-server", "github"], 18, True, False]),
    ("const {stub} = tools; const {echo} = stub; await echo({v: 1})", {"v": 1}),
    ("const r = await Promise.race([tools.stub.hang({}), tools.stub.echo({first: true})]); return r", {"first": True}),
    ("try { await tools.stub.fail({message: 'boom'}) } catch (e) { return [e.name, e instanceof Error, e.code, e.server, e.tool, e.message, e.retryable, e.result.structuredContent.hint] }",
     ["ToolError", True, "TOOL_ERROR", "stub", "fail", "boom", False, "another"]),
    ("try { await tools.stub.nope({}) } catch (e) { return e.code }", "TOOL_NOT_FOUND"),
    ("try { await tools.stub.add({a: 'one'}) } catch (e) { return e.code }", "INVALID_TOOL_ARGS"),
    ("try { await tools.stub.echo(5) } catch (e) { return e.code }", "INVALID_ARGS"),
]  # fmt: skip


@pytest.mark.req(
    "REQ-TYPED-01",
    "REQ-TYPED-02",
    "REQ-TYPED-03",
    "REQ-TYPED-05",
    "REQ-TYPED-06",
    "REQ-TYPED-07",
    "REQ-TYPED-08",
    "REQ-TYPED-09",
    "REQ-CALL-10",
)
@pytest.mark.parametrize(("code", "wanted"), TYPED)
async def test_typed_calls(world, code, wanted):
    assert await world.value(code) == wanted


REVOKED = "(({proxy, revoke}) => { revoke(); return proxy })(Proxy.revocable({}, {}))"
REFUSED = [
    ("call_tool()", "INVALID_ARGS", "3 arguments"),
    ("call_tool('stub', 'echo')", "INVALID_ARGS", "3 arguments"),
    ("call_tool('', 'echo', {})", "INVALID_ARGS", "server"),
    ("call_tool('stub', 5, {})", "INVALID_ARGS", "tool"),
    ("call_tool('stub', 'echo', null)", "INVALID_ARGS", "args must be a plain object"),
    ("call_tool('stub', 'echo', [1])", "INVALID_ARGS", "an array"),
    ("call_tool('stub', 'echo', new Map())", "INVALID_ARGS", "a Map"),
    ("call_tool('stub', 'echo', {f() {}})", "INVALID_ARGS", "args.f is a function"),
    ("call_tool('stub', 'echo', {get g() { throw 1 }})", "INVALID_ARGS", "args.g could not"),
    (f"call_tool('stub', 'echo', {REVOKED})", "INVALID_ARGS", "args could not be read"),
    (
        f"call_tool('stub', 'echo', {{get g() {{ throw {REVOKED} }}}})",
        "INVALID_ARGS",
        "args.g could not",
    ),
    ("call_tool({toString() { throw 1 }}, Symbol('t'), {})", "INVALID_ARGS", "server"),
    ("call_tool('stubb', 'echo', {})", "SERVER_NOT_FOUND", "'stub'"),
    ("call_tool('stub', 'ecko', {})", "TOOL_NOT_FOUND", "'echo'"),
    ("call_tool('stub', 'add', {a: 'one', b: 2})", "INVALID_TOOL_ARGS", "args.a"),
    ("call_tool('stub', 'add', {a: 1})", "INVALID_TOOL_ARGS", "b"),
    (
        "call_tool('stub', 'add', {x: 1, b: 2})",
        "INVALID_TOOL_ARGS",
        '"x" is none of its parameters: a, b',
    ),
    ("call_tool('stub', 'fail', {})", "TOOL_ERROR", "it failed"),
    ("call_tool('stub', 'rpc_error', {})", "UPSTREAM_ERROR", "says no"),
    ("call_tool('constructor', 'x', {})", "SERVER_NOT_FOUND", "constructor"),
    ("call_tool('\\ud800', '\\udc00', {})", "SERVER_NOT_FOUND", "no server"),
]


@pytest.mark.req(
    "REQ-CALL-03",
    "REQ-CALL-11",
    "REQ-CALL-12",
    "REQ-CALL-13",
    "REQ-CALL-14",
    "REQ-CALL-17",
    "REQ-BATCH-19",
)
@pytest.mark.parametrize(("code", "wanted", "part"), REFUSED)
async def test_what_is_refused_alone_is_refused_in_a_batch_with_the_same_words(
    world, code, wanted, part
):
    error = await world.value(f"({code}).error")
    assert error["code"] == wanted
    assert part in error["message"]
    assert isinstance(error["retryable"], bool)
    if wanted != "INVALID_ARGS":
        in_batch = code.replace("call_tool(", "[").removesuffix(")") + "]"
        slot = await world.value(
            f"const [server, tool, args] = {in_batch}; call_tools([{{server, tool, args}}])[0].error"
        )
        assert slot == error


@pytest.mark.parametrize(
    "code",
    [
        "call_tool(long, 't', {})",
        "call_tool(long, 't')",
        "call_tool('stub', long, {}).error.message",
        "call_tool('stub', 'echo', {[long]: 1n})",
        "({[long]: [() => 1]})",
        "tools.stub[long]({})",
        "tools[long].echo({})",
    ],
)
async def test_a_refusal_repeats_little_of_a_name_without_end(world, code):
    options = {"allowed_servers": ["stub"]}
    said = str(await world.run(f"const long = 'n'.repeat(1e6); {code}", options=options))
    assert "InternalError" not in said
    assert "nnn…" in said or "characters)" in said
    assert len(said) < 20_000


MALFORMED = [
    ("", "requires 1 argument"),
    ("null", "array"),
    ("'nonsense'", "array"),
    ("[GOOD, 42]", "element 1"),
    ("[GOOD, , GOOD]", "element 1"),
    ("[GOOD, undefined]", "element 1"),
    ("[{tool: 'echo'}]", "element 0: server"),
    ("[{server: 'stub', tool: ''}]", "element 0: tool"),
    ("[{server: 'stub', tool: 'echo', args: null}]", "element 0: args"),
    ("[{server: 'stub', tool: 'echo', args: [1]}]", "element 0: args"),
    ("[GOOD, GOOD, {server: 1}, 42]", "element 2"),
    ("[GOOD], 'x'", "options must be an object"),
    ("[GOOD], {max_parallel: 2.5}", "max_parallel must be an integer"),
    ("[GOOD], {max_parallel: '4'}", "max_parallel must be an integer"),
    ("[GOOD], {max_parallel: undefined}", "max_parallel must be an integer"),
    ("[GOOD], {max_parallel: 0}", "between 1 and 32"),
    ("[GOOD], {max_parallel: 33}", "between 1 and 32"),
    ("Array(101).fill(GOOD)", "maximum of 100"),
    ("new Proxy([GOOD], {get() { throw 1 }})", "could not be read"),
]


@pytest.mark.req(
    "REQ-BATCH-02",
    "REQ-BATCH-04",
    "REQ-BATCH-05",
    "REQ-BATCH-06",
    "REQ-BATCH-07",
    "REQ-BATCH-08",
    "REQ-BATCH-09",
    "REQ-BATCH-11",
    "REQ-BATCH-13",
    "REQ-BATCH-14",
    "REQ-BATCH-15",
)
@pytest.mark.parametrize(("arguments", "part"), MALFORMED)
async def test_a_malformed_batch_dispatches_nothing_and_costs_nothing(world, arguments, part):
    code = f"const GOOD = {{server: 'stub', tool: 'echo'}}; const r = call_tools({arguments}); [Array.isArray(r), r.error.code, r.error.message, call_tool('stub', 'plain_text', {{}}).ok]"
    listed, wanted, message, after = await world.value(code, options={"max_tool_calls": 1})
    assert (listed, wanted, after) == (False, "INVALID_ARGS", True)
    assert part in message
    assert [tool for _, tool, _ in world.upstreams.calls] == ["plain_text"]


@pytest.mark.req("REQ-BATCH-16")
async def test_an_empty_batch_costs_nothing(world):
    assert await world.value(
        "[call_tools([]), call_tool('stub', 'echo', {}).ok]", options={"max_tool_calls": 1}
    ) == [[], True]


@pytest.mark.req("REQ-BATCH-03", "REQ-BATCH-12")
async def test_unknown_option_keys_and_a_missing_args_are_fine(world):
    assert (
        await world.value(
            "call_tools([{server: 'stub', tool: 'echo', extra: 1}], {max_parallel: 32, colour: 'green'})[0].result.structuredContent"
        )
        == {}
    )
    assert await world.value("call_tools([{server: 'stub', tool: 'echo'}], null)[0].ok") is True


@pytest.mark.req("REQ-CALL-15", "REQ-CALL-19")
async def test_arguments_arrive_byte_for_byte(world):
    await world.run(
        r"""await 0; call_tool('stub', 'echo', {s: "\\n \n \t \u00e9 \x41 \0 $& $1 $$ `", u: undefined, n: null, d: new Date(0)}); 1"""
    )
    assert world.upstreams.calls[0][2] == {
        "s": "\\n \n \t é A \0 $& $1 $$ `",
        "n": None,
        "d": "1970-01-01T00:00:00.000Z",
    }


@pytest.mark.req("REQ-GATE-06", "REQ-EX-12", "REQ-EX-13")
@pytest.mark.parametrize(
    ("code", "options", "code_wanted", "message"),
    [
        (
            "for(var i=0;i<10;i++){call_tool('stub','echo',{})}",
            {"max_tool_calls": 5},
            "MAX_TOOL_CALLS_EXCEEDED",
            "Exceeded maximum tool calls limit (5)",
        ),
        (
            "call_tool('gitlab', 'get_user', {})",
            {"allowed_servers": ["github"]},
            "SERVER_NOT_ALLOWED",
            "Server 'gitlab' is not in the allowed servers list",
        ),
        ("call_tool('stub')", {}, "INVALID_ARGS", "3 arguments"),
        (
            "call_tools([{server: 'gitlab', tool: 't'}], {})[0]",
            {"allowed_servers": ["github"]},
            "SERVER_NOT_ALLOWED",
            "gitlab",
        ),
    ],
)
async def test_the_hosts_own_refusal_as_the_value_fails_the_execution(
    world, code, options, code_wanted, message
):
    error = await world.error(code, options=options)
    assert error["code"] == code_wanted
    assert message in error["message"]


@pytest.mark.req("REQ-GATE-07")
async def test_a_made_up_refusal_is_a_plain_value(world):
    made = {"ok": False, "error": {"code": "SERVER_NOT_ALLOWED", "message": "forged"}}
    assert (
        await world.value(
            "({ ok: false, error: { code: 'SERVER_NOT_ALLOWED', message: 'forged' } })"
        )
        == made
    )


@pytest.mark.req("REQ-CALL-18", "REQ-SAFE-03")
@pytest.mark.threat("S8")
async def test_a_getter_that_changes_its_mind_is_read_once(world):
    code = "let n = 0; call_tools([{ get server() { return n++ ? 'github' : 'stub' }, tool: 'echo' }]); n"
    assert await world.value(code, options={"allowed_servers": ["stub"]}) == 1
    assert [server for server, _, _ in world.upstreams.calls] == ["stub"]


@pytest.mark.req("REQ-TYPED-04", "REQ-GATE-09")
async def test_twenty_typed_calls_run_eight_at_a_time(world):
    assert (
        await world.value(
            "(await Promise.all([...Array(20)].map((_, i) => tools.stub.nap({i})))).length"
        )
        == 20
    )
    assert world.upstreams.high_water == 8


async def test_two_thousand_parallel_calls_all_come_back(world):
    assert (
        await world.value(
            "(await Promise.all([...Array(2000)].map((_, i) => tools.stub.echo({i})))).every((r, i) => r.i === i)"
        )
        is True
    )


async def test_a_tool_error_can_be_caught(world):
    assert (
        await world.value(
            "let r; try { r = await tools.stub.fail({}) } catch { r = 'fallback' }\nreturn r"
        )
        == "fallback"
    )


async def test_one_channel_serves_waiting_and_not_waiting(world):
    assert await world.value(
        "const p = tools.stub.nap({who: 'typed'}); const r = call_tool('stub', 'echo', {n: 1}); return [r.result.n, (await p).who]"
    ) == [1, "typed"]


@pytest.mark.parametrize("levels", [150, 400, 3000])
async def test_a_deeply_nested_result_arrives_or_is_an_error_of_its_own(world, levels):
    deep = []
    for _ in range(levels):
        deep = [deep]
    world.upstreams.results["stub", "wire"] = {"content": [], "structuredContent": deep}
    code = "const r = call_tool('stub', 'wire', {}); [r.ok, r.error?.code ?? null]"
    arrived, code = await world.value(code)
    assert (arrived, code) in [(True, None), (False, "UPSTREAM_ERROR")]
    assert arrived or levels == 3000
