"""REST: what is asked becomes a verb of the daemon, and each outcome its status."""

from __future__ import annotations

import gc
import json
import time
import weakref
from contextlib import suppress
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest
from asgi import Client, ask, http
from fakes import FakeDaemon, catalog, server

from mcpproxy import __version__
from mcpproxy.bulk import LARGEST, MOST_VALUES
from mcpproxy.catalog import Catalog
from mcpproxy.envelopes import Reply
from mcpproxy.errors import REFUSALS, Refused
from mcpproxy.guard import Guard
from mcpproxy.policy import ADMIN, Caller
from mcpproxy.rest import code
from mcpproxy.rest.api import open_api
from mcpproxy.rest.routing import STATUS, Request, while_there
from mcpproxy.scripts import Scripts
from mcpproxy.settings import Settings
from mcpproxy.tokens import Tokens

EXEC = "/api/v1/code/exec"
JSON = {"Content-Type": "application/json"}


class Daemon(FakeDaemon):
    """The fake one, with what only REST asks of it."""

    def __init__(self, tmp_path) -> None:
        super().__init__(catalog(demo=["echo", "add"], other=["echo"]))
        self.settings = Settings(api_key="k", code_execution_queue_timeout_ms=1500)
        self.scripts = Scripts(tmp_path / "scripts")
        self.tokens = Tokens(tmp_path / "state")
        self.server_errors = {"bad": 'mcpServers[0].command of "bad" is empty'}
        self.outcome: Reply | Exception | None = None
        self.fleet.status = lambda: [{"name": name, "state": "ready"} for name in ("demo", "other")]
        self.fleet.offers = lambda name: ["tools"]

    async def execute(self, body, caller, *, request_id, progress=None):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        await super().execute(body, caller, request_id=request_id, progress=progress)
        return self.outcome or Reply(True, {"ok": True, "value": body["code"]})


@pytest.fixture
def daemon(tmp_path, anyio_backend):
    return Daemon(tmp_path)


@pytest.fixture
def app(daemon):
    return Guard(open_api(daemon), daemon.settings, local=True)


async def post(app, body, headers=JSON):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await ask(app, "POST", EXEC, raw, headers=headers)


async def test_a_success_has_ok_value_and_the_request_id(app, daemon):
    answer = await post(app, {"code": "1 + 1"}, JSON | {"X-Request-Id": "mine"})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {"ok": True, "value": "1 + 1", "request_id": "mine"}
    assert daemon.executed == [({"code": "1 + 1"}, "local", "mine")]


async def test_half_a_surrogate_pair_is_checked_like_any_other_character(app, daemon):
    body = {"tool_name": "demo:echo", "arguments": {"a": "\ud800"}}
    sent = [json.dumps({**body, **more}).encode() for more in ({}, {"\udfff": 1})]
    fine, odd = [await ask(app, "POST", "/api/v1/tools/call", each, headers=JSON) for each in sent]
    assert fine.status == 200 and daemon.called[0][2] == {"a": "\ud800"}
    assert odd.status == 400


async def test_a_body_in_pieces_is_one_body(app, daemon):
    pieces = [b'{"code"', b': "\xc3', b'\xa4"}', b""]
    assert (await ask(app, "POST", EXEC, *pieces, headers=JSON)).body["value"] == "ä"


def test_every_refusal_has_a_status():
    assert STATUS.keys() == REFUSALS


@pytest.mark.req(
    "REQ-REST-03",
    "REQ-REST-04",
    "REQ-REST-05",
    "REQ-REST-06",
    "REQ-REST-07",
    "REQ-REST-08",
    "REQ-REST-09",
    "REQ-REST-11",
)
@pytest.mark.parametrize("code", sorted(REFUSALS))
async def test_a_refusal_has_its_status_and_the_envelope_of_its_endpoint(app, daemon, code):
    daemon.outcome = Refused(code, "because")
    answer = await post(app, {"code": "1"})
    request_id = answer.headers["x-request-id"]
    assert (answer.status, answer.body) == (
        STATUS[code],
        {"ok": False, "error": {"code": code, "message": "because"}, "request_id": request_id},
    )


@pytest.mark.req("REQ-REST-02", "REQ-REST-10")
@pytest.mark.parametrize(
    ("code", "status"), [("RUNTIME_ERROR", 200), ("TIMEOUT", 200), ("POOL_BUSY", 503)]
)
async def test_a_script_that_ran_is_no_refusal(app, daemon, code, status):
    daemon.outcome = Reply(False, {"ok": False, "error": {"code": code, "message": ""}})
    answer = await post(app, {"code": "1"})
    assert (answer.status, answer.body["error"]["code"]) == (status, code)
    assert answer.headers.get("retry-after") == ("2" if status == 503 else None)


async def test_a_lone_surrogate_arrives_as_it_is(app, daemon):
    daemon.outcome = Reply(True, {"ok": True, "value": "\ud800"})
    assert (await post(app, {"code": "1"})).body["value"] == "\ud800"


@pytest.mark.req("REQ-REST-16")
@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "line 1, column 1"),
        (b'{"code": "1"', "line 1, column 13"),
        (b'{\n"code": 1,}', "line 2"),
        (b'{"code": NaN}', "NaN"),
        (b'{"code": -Infinity}', "-Infinity"),
        (b'{"input": {"a": 1e999}}', "1e999"),
        (b'{"input": {"a": ' + b"9" * 5000 + b"}}", "9… is too large for a number"),
        (b'{"input": {"a": -' + b"9" * 310 + b"}}", "9… is too large for a number"),
        (b'{"code": "\xff"}', "byte 10"),
        (b"[1]", "object"),
        (b'"code"', "object"),
        (b"null", "object"),
        (b"[" * 200_000, "nested"),
        (b'{"code": "1"} x', "column 15"),
    ],
)
async def test_what_is_no_json_object_is_refused_saying_where(app, daemon, raw, said):
    answer = await post(app, raw)
    assert (answer.status, answer.body["error"]["code"]) == (400, "INVALID_REQUEST")
    assert said in answer.body["error"]["message"]
    assert daemon.executed == []


@pytest.mark.req("REQ-REST-16")
@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonx", "multipart/form-data"])
async def test_a_body_must_say_that_it_is_json(app, daemon, kind):
    """A web page can send the other kinds without asking first."""
    answer = await post(app, {"code": "1"}, {"Content-Type": kind} if kind else {})
    assert (answer.status, answer.body["error"]["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert daemon.executed == []


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/api/v1/servers/demo/approve", [], "it may have tools"),
        ("/api/v1/servers/demo/approve", {"tool": ["a"]}, "it may have tools"),
        ("/api/v1/servers/demo/approve", {"tools": "a"}, "body.tools"),
        ("/api/v1/tools/call", None, "a body is missing"),
    ],
)
async def test_a_body_is_refused_with_what_it_may_have(app, path, body, said):
    raw = b"" if body is None else json.dumps(body).encode()
    answer = await ask(app, "POST", path, raw, headers={} if body is None else JSON)
    assert 400 <= answer.status < 500 and said in answer.body["error"]["message"]


async def test_a_secret_is_made_anew_without_a_body(app, daemon):
    daemon.tokens.create({"name": "ci", "allowed_servers": ["*"]})
    answer = await ask(app, "POST", "/api/v1/tokens/ci/regenerate")
    assert answer.status == 200 and answer.body["data"]["token"].startswith("mcp_agt_")


@pytest.mark.parametrize("kind", ["Application/JSON", "application/json; charset=utf-8"])
async def test_json_may_be_spelled_in_several_ways(app, kind):
    assert (await post(app, {"code": "1"}, {"Content-Type": kind})).status == 200


async def test_a_body_of_the_largest_size_is_taken(app):
    filled = json.dumps({"code": ""}).encode()
    padded = filled + b" " * (LARGEST - len(filled))
    headers = JSON | {"Content-Length": str(len(padded))}
    assert (await ask(app, "POST", EXEC, padded, headers=headers)).status == 200


@pytest.mark.req("REQ-REST-15")
async def test_a_larger_body_is_refused_by_what_it_declares(app):
    client = Client(b"never read")
    headers = JSON | {"Content-Length": str(LARGEST + 1)}
    await app(http("POST", EXEC, headers), client.receive, client.send)
    assert client.answer.status == 413
    assert client.answer.body["error"]["code"] == "REQUEST_TOO_LARGE"
    assert client.read == 0


@pytest.mark.req("REQ-REST-15")
@pytest.mark.threat("L4")
async def test_a_larger_body_is_refused_while_it_comes(app):
    client = Client(*[b" " * 2**20] * 50)
    await app(http("POST", EXEC, JSON), client.receive, client.send)
    assert client.answer.status == 413
    assert client.read == LARGEST // 2**20 + 1


@pytest.mark.threat("L4")
@pytest.mark.parametrize("value", ["[]", "{}", "1", '"a"'])
async def test_a_body_of_too_many_values_is_refused_before_it_is_read(app, value):
    began = time.process_time()
    answer = await post(app, f'{{"code":"1","input":[{f"{value}," * MOST_VALUES}1]}}'.encode())
    assert answer.status == 400
    assert "250,000 values" in answer.body["error"]["message"]
    assert time.process_time() - began < 0.5


@pytest.mark.req("REQ-STOP-03")
async def test_a_client_that_hangs_up_ends_its_script(app, daemon):
    client = Client(b'{"code": "wait"}')
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app, http("POST", EXEC, JSON), client.receive, client.send)
            await daemon.started.wait()
            client.gone.set()
    assert daemon.cancelled.is_set()
    assert client.sent == []


async def test_a_request_that_is_cancelled_ends_its_script(app, daemon):
    client = Client(b'{"code": "wait"}')
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app, http("POST", EXEC, JSON), client.receive, client.send)
            await daemon.started.wait()
            tasks.cancel_scope.cancel()
    assert daemon.cancelled.is_set()


async def test_a_body_that_ends_early_runs_nothing(app, daemon):
    client = Client(b'{"code": "1"}', b"never comes")
    client.pieces.pop()

    async def receive():
        if client.read:
            return {"type": "http.disconnect"}
        return {**await client.receive(), "more_body": True}

    await app(http("POST", EXEC, JSON), receive, client.send)
    assert daemon.executed == []


@pytest.mark.req("REQ-REST-09")
@pytest.mark.parametrize(
    "bug", [RuntimeError("a secret inside"), ExceptionGroup("x", [KeyError("a secret inside")])]
)
@pytest.mark.threat("L3")
async def test_a_bug_of_ours_is_a_500_that_tells_nothing_but_where_to_look(
    app, daemon, bug, caplog
):
    daemon.outcome = bug
    answer = await post(app, {"code": "1"})
    assert (answer.status, answer.body["error"]["code"]) == (500, "EXECUTION_FAILED")
    assert "secret" not in answer.text
    assert "a secret inside" in caplog.text
    assert answer.body["request_id"] in caplog.text


# ── what there is ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-REST-18")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "NOT_FOUND"),
        ("GET", "/api/v1/nothing", 404, "NOT_FOUND"),
        ("GET", "/api/v1/tools?server=nobody", 404, "NOT_FOUND"),
        ("GET", EXEC, 405, "METHOD_NOT_ALLOWED"),
        ("DELETE", "/api/v1/code/scripts", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/livez", 405, "METHOD_NOT_ALLOWED"),
    ],
)
async def test_paths_and_methods_that_are_not_there(app, method, path, status, code):
    answer = await ask(app, method, path, headers=JSON)
    assert (answer.status, answer.body["error"]["code"]) == (status, code)
    assert answer.body["ok"] is False
    assert ("allow" in answer.headers) == (status == 405)
    assert answer.body.get("success") is (None if path == EXEC else False)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/livez", {"status": "ok"}),
        ("/healthz", {"status": "ok"}),
        ("/health", {"status": "ok"}),
        ("/readyz", {"ready": True}),
        ("/ready", {"ready": True}),
    ],
)
async def test_health(app, path, body):
    assert (await ask(app, "GET", path)).body == body
    assert (await ask(app, "HEAD", path)).status == 200


async def test_an_agent_is_told_how_its_servers_are_and_no_more(daemon):
    asked = http("GET", "/api/v1/status")
    agent, client = Caller("a-token", "token", frozenset({"demo"})), Client()
    await open_api(daemon)(
        asked | {"state": {"caller": agent, "request_id": "r"}}, client.receive, client.send
    )
    assert client.answer.body["data"] == {
        "version": __version__,
        "code_execution": {"enabled": True},
        "servers": {"ready": 1},
    }


async def test_servers_include_those_that_can_not_be_used_and_why(app):
    servers = (await ask(app, "GET", "/api/v1/servers")).body["data"]["servers"]
    assert [each["name"] for each in servers] == ["demo", "other", "bad"]
    assert "command" in servers[2]["error"]


async def test_tools_are_listed_as_their_servers_define_them(app, daemon):
    data = (await ask(app, "GET", "/api/v1/tools?server=demo")).body["data"]
    assert [(each["server"], each["name"]) for each in data["tools"]] == [
        ("demo", "echo"),
        ("demo", "add"),
    ]
    assert data["tools"][0]["inputSchema"] == {"type": "object"}
    assert (data["partial"], data["missing_servers"]) == (False, [])


async def test_a_list_that_lacks_servers_says_which(app, daemon):
    first = daemon.fleet.catalog
    late = server("late", state="connecting")
    daemon.fleet.show(Catalog({**first.servers, "late": late}, 2))
    whole = (await ask(app, "GET", "/api/v1/tools")).body["data"]
    assert (len(whole["tools"]), whole["partial"], whole["missing_servers"]) == (3, True, ["late"])
    one = (await ask(app, "GET", "/api/v1/tools?server=demo")).body["data"]
    assert (one["partial"], one["missing_servers"]) == (False, [])


@pytest.mark.req("REQ-LIST-01", "REQ-LIST-07")
async def test_stored_scripts_are_listed_for_an_administrator_alone(daemon, tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "one.js").write_text("1", encoding="utf-8")
    app = open_api(daemon)

    def scope(caller):
        return http("GET", "/api/v1/code/scripts") | {
            "state": {"caller": caller, "request_id": "r"}
        }

    client = Client()
    await app(scope(ADMIN), client.receive, client.send)
    path = str(tmp_path / "scripts" / "one.js")
    assert client.answer.body["data"] == {
        "dir": str(tmp_path / "scripts"),
        "scripts": [{"name": "one", "paths": [path], "status": "ok"}],
    }
    client = Client()
    await app(scope(Caller("a-token", "token")), client.receive, client.send)
    assert client.answer.status == 403
    assert client.answer.body == {"success": False, "error": code.NO_LISTING, "request_id": "r"}


async def test_a_bug_in_a_list_is_answered_as_well(daemon, app):
    daemon.fleet = SimpleNamespace()
    answer = await ask(app, "GET", "/api/v1/tools")
    assert (answer.status, answer.body["success"]) == (500, False)


async def test_a_parameter_is_read_strictly(app):
    wrong = await ask(app, "GET", "/api/v1/servers/demo/logs?tail=0")
    assert (wrong.status, wrong.body["error"]["code"]) == (400, "INVALID_REQUEST")
    assert "tail" in wrong.body["error"]["message"]
    for odd in ("--5", "5-", "1e3", "%D9%A3", "9" * 5000):
        refused = await ask(app, "GET", f"/api/v1/servers/demo/logs?tail={odd}")
        assert refused.status == 400, odd
    unknown = await ask(app, "GET", "/api/v1/tools?sever=demo&apikey=k")
    assert unknown.status == 400
    assert unknown.body["error"]["message"] == (
        "'sever' is no parameter of /api/v1/tools; it takes server, lazy"
    )


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_holds_a_request_that_is_answered(fails):
    async def act() -> None:
        await anyio.lowlevel.checkpoint()
        if fails:
            raise Refused("INVALID_REQUEST", "no")

    request = Request({}, anyio.sleep_forever, {}, {}, {"code": "x" * 1000})
    held = weakref.ref(request)
    gc.disable()
    try:
        with suppress(Refused):
            await while_there(request, act)
        del request
        await anyio.wait_all_tasks_blocked()
        assert held() is None
    finally:
        gc.enable()
