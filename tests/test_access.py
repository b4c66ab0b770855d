"""Callers x surfaces x acts, against one daemon: what each may, what each sees, what each is told.

What is expected is worked out in doors.py from a few lines of rules, apart from the code that is tested.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import warm
from doors import (
    ARGUMENTS,
    CALLS,
    LOOKS,
    NOBODY,
    PROFILED,
    RIGHTS,
    SECRET,
    SERVERS,
    TOKENS,
    WORDS,
    Doors,
    every_name,
    expected,
    looks,
    made,
    named_by_caller,
    open_doors,
    visible,
)
from pages import blocks, page

from mcpproxy.bulk import LARGEST
from mcpproxy.connections import BODY_SECONDS, HEAD_SECONDS, MOST_HEAD
from mcpproxy.errors import CALL_CODES
from mcpproxy.guard import LONG_KEY
from mcpproxy.policy import needed
from mcpproxy.rates import WRONG_KEYS
from mcpproxy.rest.api import open_api
from mcpproxy.settings import load


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    with open_doors() as found:
        yield found


# ── calling ─────────────────────────────────────────────────────────────────────────────────────

EACH = """
const got = {};
for (const [server, tool, args] of input.calls) {
  const lone = call_tool(server, tool, args);
  const [batched] = call_tools([{server, tool, args}]);
  let typed = null;
  try { await tools[server][tool](args) } catch (e) { typed = e.code ?? "NO_SUCH_NAME" }
  got[`${server}:${tool}`] = [lone.error?.code ?? null, batched.error?.code ?? null, typed];
}
return got;
"""


def given(server: str, tool: str) -> list[Any]:
    return [server, tool, ARGUMENTS.get(tool, {})]


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.threat("L5", "L6")
def test_calls_of_a_script(doors, caller):
    reply = doors.run(caller, EACH, input={"calls": [given(*call) for call in CALLS]})
    assert reply["ok"], reply
    for server, tool in CALLS:
        code = expected(caller, server, tool)
        lone, batched, typed = reply["value"][f"{server}:{tool}"]
        assert (lone, batched) == (code, code), (server, tool)
        # What a script can't see it can't name; the names of a server's tools are the server's.
        seen = server in SERVERS and code not in ("ACCESS_DENIED", "SERVER_NOT_FOUND")
        assert typed == (code if seen else "NO_SUCH_NAME"), (server, tool)


ORDER = """
const code = (server, tool, args) => call_tool(server, tool, args).error.code;
return [code("hush", "nope", {}), code("open", "delete", 1), code("open", "delete", {}), code("hush", "add", {})];
"""


@pytest.mark.req("REQ-GATE-10")
def test_the_first_gate_that_is_shut_answers(doors):
    denied = "PERMISSION_DENIED"
    allowed = {"allowed_servers": ["open"]}
    for options, codes in (
        (allowed, ["SERVER_NOT_ALLOWED", "INVALID_ARGS", denied, "SERVER_NOT_ALLOWED"]),
        ({}, ["ACCESS_DENIED", "INVALID_ARGS", denied, "ACCESS_DENIED"]),
        ({**allowed, "max_tool_calls": 1}, ["SERVER_NOT_ALLOWED", "INVALID_ARGS", *["MAX_TOOL_CALLS_EXCEEDED"] * 2]),
    ):  # fmt: skip
        assert doors.run("reader", ORDER, options=options)["value"] == codes


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/call", "/mcp/all"])
@pytest.mark.threat("L5")
def test_direct_calls_over_mcp(doors, caller, path):
    for server, tool in CALLS:
        arguments = ARGUMENTS.get(tool, {})
        for name, given in (
            ("call_tool", {"name": f"{server}:{tool}", "args": arguments}),
            (f"{server}__{tool}", arguments),
        ):
            result = doors.mcp(caller, path, "tools/call", name=name, arguments=given)
            code = expected(caller, server, tool)
            # A name that is no tool at all is no server either.
            code = "TOOL_NOT_FOUND" if code == "SERVER_NOT_FOUND" else code
            found = (
                json.loads(result["content"][0]["text"])["error"]["code"]
                if result.get("isError")
                else None
            )
            assert found == code, (name, result)  # fmt: skip


@pytest.mark.parametrize("caller", [each for each in RIGHTS if each != "anonymous"])
@pytest.mark.threat("L5")
def test_direct_calls_over_rest(doors, caller):
    for server, tool in CALLS:
        body = {"tool_name": f"{server}:{tool}", "arguments": ARGUMENTS.get(tool, {})}
        answer = doors.ask(caller, "POST", "/api/v1/tools/call", body)
        code = expected(caller, server, tool)
        if code is None:
            assert answer.status == 200
        else:
            refused = (404, "NOT_FOUND") if code.endswith("NOT_FOUND") else (403, code)
            assert (answer.status, answer.body["error"]["code"]) == refused


@pytest.mark.parametrize(("caller", "profile"), PROFILED)
@pytest.mark.threat("L5")
def test_calls_through_a_profile(doors, caller, profile):
    calls = {"calls": [given(*call) for call in CALLS]}
    path = f"/mcp/p/{profile}"
    reply = doors.tool(caller, path, "code_execution", {"code": EACH, "input": calls})
    assert reply["ok"], reply
    for server, tool in CALLS:
        code = expected(caller, server, tool, profile)
        assert reply["value"][f"{server}:{tool}"][0] == code, (server, tool)
    listed = doors.mcp(caller, f"{path}/all", "tools/list")["tools"]
    names = {tool["name"].replace("__", ":", 1) for tool in listed if "__" in tool["name"]}
    assert names & every_name() == visible(caller, profile)
    assert {name.partition(":")[0] for name in names} == set(PROFILED[caller, profile])
    assert doors.mcp(caller, f"{path}/call", "tools/list")["tools"][2]["name"] == "call_tool"


# ── seeing ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("caller", ["reader", "writer", "owner", "lost"])
@pytest.mark.req("REQ-GATE-11")
@pytest.mark.threat("L5")
def test_no_answer_names_what_the_caller_may_not_know(doors, caller):
    looked = dict(looks(doors, caller))
    assert {where for where, text in looked.items() if SECRET in named_by_caller(text)} == set()


@pytest.mark.parametrize("caller", ["admin", "all"])
def test_these_looks_would_have_found_it(doors, caller):
    # Or the test above could not fail.
    found = {where for where, text in looks(doors, caller) if SECRET in named_by_caller(text)}
    assert found >= {
        "script: names", "script: search", "script: describe", "script: typo", "script: call",
        "/mcp search_tools", "/mcp list_servers", "/mcp get_functions", "/mcp/call call_tool",
        "/mcp/all tools", "prompts/list", "resources/list", "resources/templates/list",
        "tools", "servers", "tools?server=hash", "tools/search?q=add+numbers+delete", "tools/hash:ad",
        "tools/types.d.ts",
    }  # fmt: skip


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.threat("L5")
def test_what_is_listed_is_what_can_be_called(doors, caller):
    mine = visible(caller)
    direct = {
        tool["name"].replace("__", ":", 1)
        for tool in doors.mcp(caller, "/mcp/all", "tools/list")["tools"]
        if tool["name"] != "read_result"  # ours
    }
    in_script = set(doors.run(caller, LOOKS["names"])["value"])
    assert direct & every_name() == in_script & every_name() == mine
    assert direct == in_script
    listed = doors.tool(caller, "/mcp", "list_servers", {})["servers"]
    assert {f"{each['name']}:{name}" for each in listed for name in each.get("names", ())} == direct
    found = doors.tool(caller, "/mcp", "get_functions", {"functions": sorted(every_name())})
    assert {each["name"] for each in found["functions"]} == mine
    if caller != "anonymous":
        over_rest = doors.ask(caller, "GET", "/api/v1/tools").body["data"]["tools"]
        assert {f"{tool['server']}:{tool['name']}" for tool in over_rest} == direct


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.threat("L5")
def test_prompts_and_resources_are_those_of_its_servers(doors, caller):
    mine = {server for server in SERVERS if server in RIGHTS[caller][0]}
    prompts = doors.mcp(caller, "/mcp/all", "prompts/list")["prompts"]
    assert {each["name"].partition("__")[0] for each in prompts} == mine
    for server in SERVERS:
        name = f"{server}__greet"
        found = doors.mcp(caller, "/mcp/all", "prompts/get", name=name, arguments={"who": "x"})
        assert ("messages" in found) is (server in mine)
        uri = f"mcpproxy://resources/{server}/file:///shared"
        read = doors.mcp(caller, "/mcp/all", "resources/read", uri=uri)
        # To whom it is no server of ours, this is an address like any other, of the servers it has.
        assert (f"{WORDS[server]} has file:///shared" in json.dumps(read)) is (server in mine)


# ── operators' acts, scripts, doors ─────────────────────────────────────────────────────────────


def operators_routes() -> list[tuple[str, str]]:
    class Any_:
        """Stands for all that an area takes of the daemon when its routes are made."""

        def __getattr__(self, name: str) -> Any:
            return self

    routes = open_api(Any_()).all  # type: ignore[arg-type]
    return [
        (each.method, each.path.replace("{name}", "open").replace("{", "").replace("}", ""))
        for each in routes
        if each.operators
    ]


@pytest.mark.parametrize("caller", [*TOKENS, "anonymous"])
@pytest.mark.threat("L7")
def test_an_operator_s_act_is_nobody_else_s(doors, caller):
    routes = operators_routes()
    assert ("POST", "/api/v1/tokens") in routes and len(routes) >= 12
    for method, path in routes:
        answer = doors.ask(caller, method, path, {} if method != "GET" else None)
        allowed = (401, "UNAUTHORIZED") if caller == "anonymous" else (403, "FORBIDDEN")
        assert (answer.status, answer.body["error"]["code"]) == allowed, path
        assert answer.body["ok"] is answer.body["success"] is False


@pytest.mark.parametrize("caller", ["admin", "socket"])
def test_an_operator_may(doors, caller):
    for path in ("tokens", "tokens/reader", "servers/open", "servers/open/logs", "code/scripts"):
        assert doors.ask(caller, "GET", f"/api/v1/{path}").status == 200


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.threat("L7")
def test_no_tool_over_mcp_is_an_operator_s_act(doors, caller):
    names = {
        tool["name"]
        for path in ("/mcp", "/mcp/call")
        for tool in doors.mcp(caller, path, "tools/list")["tools"]
    }
    assert names == {
        "code_execution", "search_tools", "get_functions", "list_servers", "run_cached_code", "call_tool",
    }  # fmt: skip


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.threat("L5")
def test_only_a_token_is_kept_from_the_names_of_stored_scripts(doors, caller):
    reply = doors.tool(caller, "/mcp", "code_execution", {"script": "unknown"})
    message = reply["error"]["message"]
    assert reply["error"]["code"] == "SCRIPT_NOT_FOUND"
    assert ("known" in message.replace("unknown", "").replace("know the", "")) is (
        caller not in TOKENS
    )
    assert (str(doors.serving.home.folder) in message) is (caller not in TOKENS)
    assert doors.tool(caller, "/mcp", "code_execution", {"script": "known"})["value"] == 1
    if caller in TOKENS:
        answer = doors.ask(caller, "GET", "/api/v1/code/scripts")
        assert (answer.status, answer.body["success"]) == (403, False)
        assert answer.body["error"].startswith("Agent tokens cannot list stored scripts")


@pytest.mark.parametrize("nobody", NOBODY)
@pytest.mark.threat("L1", "L6")
def test_nobody_gets_in(doors, nobody):
    for verb, path in (
        ("GET", "/api/v1/status"), ("GET", "/api/v1/tools"), ("POST", "/api/v1/code/exec"),
        ("POST", "/api/v1/tools/call"), ("GET", "/api/v1/nothing"), ("GET", "/"),
        *((("POST", "/mcp"), ("POST", "/mcp/all"), ("POST", "/mcp/p/public")) if nobody != "no key" else ()),
    ):  # fmt: skip
        answer = doors.ask(nobody, verb, path, {} if verb == "POST" else None)
        assert answer.status == 401, (verb, path, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.threat("L6")
def test_a_session_is_its_opener_s_alone(doors):
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    accept = {"Accept": "application/json, text/event-stream"}
    callers = ("owner", "all", "admin", "anonymous")
    for opener in callers:
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        session = doors.ask(opener, "POST", "/mcp", first, **accept).headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for caller in callers:
            answer = doors.ask(
                caller, "POST", "/mcp", ping, **accept, **{"Mcp-Session-Id": session}
            )
            assert answer.status == (200 if caller == opener else 404), (opener, caller)
        doors.ask(opener, "DELETE", "/mcp", None, **accept, **{"Mcp-Session-Id": session})


def test_a_session_s_rights_are_those_of_each_request(doors):
    accept = {"Accept": "application/json, text/event-stream"}
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    opened = doors.ask("all", "POST", "/mcp/p/private/all", first, **accept)
    headers = {**accept, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert doors.ask("all", "POST", "/mcp/p/private/all", ready, **headers).status == 202
    for profile, mine in (("/p/private", {SECRET}), ("", set(SERVERS)), ("/p/public", {"open"})):
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        text = doors.ask("all", "POST", f"/mcp{profile}/all", asked, **headers).text
        listed = json.loads(text.partition("data: ")[2] or text)["result"]["tools"]
        assert {tool["name"].partition("__")[0] for tool in listed if "__" in tool["name"]} >= mine
        assert {server for server in SERVERS if f'"{server}__' in text} == mine
    doors.ask("all", "DELETE", "/mcp/all", None, **headers)


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.threat("L5")
def test_a_profile_that_is_not_there(doors, caller):
    answer = doors.ask(caller, "POST", "/mcp/p/pubic/all", {})
    assert (answer.status, answer.body["error"]["data"]["code"]) == (404, "NOT_FOUND")
    assert ("'public'" in answer.text) is (caller in ("admin", "socket"))


# ── docs/access.md ──────────────────────────────────────────────────────────────────────────────

PAGE = page("docs/access.md")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = re.split(rf"^#+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^#", section, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_the_commands_of_the_page_run_one_after_the_other(doors):
    place = doors.serving.home
    (place.folder / ".mcpproxy").symlink_to(place.folder)
    environ = {**place.environ, "PATH": warm.command(place.folder)}
    done = subprocess.run(
        ["sh", "-e", "-c", "".join(blocks(PAGE.split("## Approvals")[0], "sh"))],
        env=environ, cwd=place.folder, capture_output=True, encoding="utf-8", timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "max executions per minute: 10" in done.stdout
    assert "mcp_agt_" not in done.stdout + done.stderr
    doors.keys["from the page"] = (place.folder / "token.txt").read_text(encoding="utf-8").strip()
    assert doors.ask("from the page", "GET", "/api/v1/status").status == 200
    known = [
        each["name"] for each in doors.ask("admin", "GET", "/api/v1/tokens").body["data"]["tokens"]
    ]
    assert "ci" in known and "nightly" not in known


def test_the_requests_of_the_page_are_answered_as_shown(doors):
    wanted = ""
    for asked, answered in itertools.pairwise([*blocks(PAGE, "http"), ""]):
        if asked.startswith("HTTP/"):
            continue
        head, _, body = asked.partition("\n\n")
        verb, path = head.splitlines()[0].split()
        caller = "deploy" if "the token of deploy" in head else "admin"
        answer = doors.ask(caller, verb, path, json.loads(body) if body.strip() else None)
        if path == "/api/v1/tokens" and verb == "POST":
            doors.keys["deploy"] = answer.body["data"]["token"]
        if answered.startswith("HTTP/"):
            status, _, wanted = answered.partition("\n\n")
            assert str(answer.status) == status.split()[1]
            assert {**answer.body, "request_id": "…"} == json.loads(wanted)
    assert wanted


def test_the_tables_of_the_page_say_what_the_code_does(tmp_path):
    for shown, permission in rows("Permissions"):
        annotations = {} if shown == "none" else json.loads(shown.strip("`"))
        assert needed(annotations) == permission.strip("`"), shown
    codes = {code.strip("`") for code, _ in rows("What is hidden isn't there")}
    assert codes == {"ACCESS_DENIED", "SERVER_NOT_ALLOWED", "PERMISSION_DENIED"} <= CALL_CODES
    limits = dict(rows("At the door"))
    for what, *numbers in (
        ("request line and headers", MOST_HEAD, HEAD_SECONDS),
        ("body", LARGEST, BODY_SECONDS),
        ("wrong keys", WRONG_KEYS, LONG_KEY),
    ):
        for number in numbers:
            assert re.search(rf"\b{number:,.0f}\b", limits[what]), (what, number)
    file = tmp_path / "c.json"
    file.write_text(blocks(PAGE, "json")[0], encoding="utf-8")
    loaded = load(file, {})
    assert set(loaded.settings.profiles) == {"review", "planning"} and loaded.warnings == []


# ── ceilings ────────────────────────────────────────────────────────────────────────────────────


def test_a_token_s_ceilings_clamp_what_a_request_asks_for(doors):
    caller = made(doors, "clamped", max_timeout_ms=300, max_tool_calls=1)
    code = 'call_tool("open", "ping", {}); call_tool("open", "ping", {}).error.code'
    for options in ({}, {"max_tool_calls": 0}, {"max_tool_calls": 50}):
        reply = doors.run(caller, code, options=options)
        assert reply["value"] == "MAX_TOOL_CALLS_EXCEEDED"
        assert bool(reply.get("warnings")) is bool(options)
    reply = doors.run(caller, "await sleep(60_000)", options={"timeout_ms": 600_000})
    assert reply["error"]["message"].startswith("JavaScript execution timed out after 300 ms")


def test_more_executions_than_a_minute_may_have_are_refused_with_a_time(doors):
    caller = made(doors, "paced", max_executions_per_minute=2)
    body = {"code": "1"}
    answers = [doors.ask(caller, "POST", "/api/v1/code/exec", body) for _ in range(3)]
    assert [each.status for each in answers] == [200, 200, 429]
    error = answers[2].body["error"]
    assert error["code"] == "RATE_LIMITED" and 0 < error["retry_after_ms"] <= 60_000
    assert 1 <= int(answers[2].headers["retry-after"]) <= 60
    over_mcp = doors.tool(caller, "/mcp", "code_execution", body)
    assert over_mcp["error"]["code"] == "RATE_LIMITED"
    assert doors.run("reader", "1")["value"] == 1


@pytest.mark.threat("L6")
def test_a_script_calls_nothing_more_when_its_token_is_revoked(doors):
    caller = made(doors, "doomed")
    doors.ask(
        "admin",
        "POST",
        "/api/v1/tools/call",
        {"tool_name": "open:stats", "arguments": {"reset": True}},
    )
    code = 'for (;;) { const r = call_tool("open", "ping", {}); if (!r.ok) return r.error.code; await sleep(5) }'
    other = doors.serving.connect()
    headers = {"Content-Type": "application/json", "X-API-Key": doors.keys[caller]}
    other.request("POST", "/api/v1/code/exec", json.dumps({"code": code}), headers)
    seen = 0
    while not seen:
        answer = doors.ask("admin", "POST", "/api/v1/tools/call", {"tool_name": "open:stats"})
        seen = answer.body["data"]["structuredContent"]["total"]
    assert doors.ask("admin", "DELETE", "/api/v1/tokens/doomed").status == 200
    reply = json.loads(other.getresponse().read())
    other.close()
    assert reply["value"] == "ACCESS_DENIED"
