"""The daemon as a process: it listens, answers on every surface, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import SimpleNamespace

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from running import KEY, STUBS, WAIT, below, gone, home, taken_port

from mcpproxy.serve import InTheWay, announce, endings, sole, tcp_listener, unix_listener, url
from mcpproxy.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

HANG = "console.log('it runs'); while (true) {}"
ADD = "(await tools.stub.add({a: 2, b: 3}))"


@pytest.fixture(scope="module")
def serving():
    with home(code_execution_pool_size=1) as place, place.serving() as found:
        yield found


# ── one daemon that answers ───────────────────────────────────────────────────────────────────────


def test_it_is_live_and_ready_without_a_key(serving):
    for path in ("/livez", "/readyz"):
        assert serving.ask("GET", path, **{"X-API-Key": ""}).status == 200


@pytest.mark.parametrize("local", [False, True])
def test_a_script_calls_a_real_server_over_either_listener(serving, local):
    body = {"code": "(await tools.stub.json_text({n: input.n})).n + 1", "input": {"n": 41}}
    answer = serving.ask("POST", "/api/v1/code/exec", body, local=local)
    assert (answer.status, answer.body["ok"], answer.body["value"]) == (200, True, 42)


def test_the_address_wants_the_key_and_the_socket_knows_its_user(serving):
    wrong = {"X-API-Key": "wrong"}
    assert serving.ask("GET", "/api/v1/status", **wrong).status == 401
    assert serving.ask("GET", "/api/v1/status", local=True, **wrong).status == 200
    for path in (serving.home.places.socket, serving.home.places.pipe):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(serving.home.places.socket.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/call", "/mcp/all"])
def test_mcp_is_behind_the_same_door(serving, path):
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    found = serving.ask("POST", path, listing, Host="evil.example", **headers)
    assert (found.status, found.body["error"]["data"]["code"]) == (421, "FORBIDDEN")
    assert serving.ask("POST", path, listing, **headers, **{"X-API-Key": "no"}).status == 401
    # Past the door it is the protocol that has something to say.
    assert "jsonrpc" in serving.ask("POST", path, listing, **headers).text


@contextmanager
def hanging(serving, code=HANG):
    """The connection of a client that waits for a script that never ends."""
    with closing(serving.connect(local=True)) as connection:
        body = json.dumps({"code": code, "options": {"timeout_ms": 600_000}})
        connection.request("POST", "/api/v1/code/exec", body, {"Content-Type": "application/json"})
        serving.await_line("it runs")
        yield connection


@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Bearer {KEY}"}])
async def test_an_sdk_client_of_either_era_runs_a_script(serving, era, headers):
    async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
        streams = streamable_http_client(f"http://{serving.address}/mcp", http_client=http)
        async with Client(streams, mode=era, cache=None) as client:
            result = await client.call_tool("code_execution", {"code": ADD})
    assert json.loads(result.content[0].text) == {"ok": True, "value": {"sum": 5}}


def test_an_answer_says_what_time_it_is(serving):
    with closing(serving.connect()) as connection:
        connection.request("GET", "/livez")
        said = parsedate_to_datetime(connection.getresponse().headers["Date"])
    assert abs((datetime.now(UTC) - said).total_seconds()) < 3


def test_a_client_that_hangs_up_ends_its_script_and_frees_its_place(serving):
    """There is one place, so that the second script can't run before the first has ended."""
    with hanging(serving):
        pass
    assert serving.execute("1 + 1")["value"] == 2


@pytest.mark.req("REQ-REST-10", "REQ-CODE-19")
def test_a_busy_pool_is_a_503():
    settings = {"code_execution_pool_size": 1, "code_execution_queue_timeout_ms": 1000}
    idle = "console.log('it runs'); await sleep(600_000)"
    with home(**settings) as place, place.serving() as small, hanging(small, idle):
        answer = small.ask("POST", "/api/v1/code/exec", {"code": "1"})
    assert (answer.status, answer.body["error"]["code"]) == (503, "POOL_BUSY")
    assert answer.headers["retry-after"] == "1"


def test_the_log_is_for_this_user_and_holds_no_key(serving):
    serving.ask("GET", f"/api/v1/status?apikey={KEY}", **{"X-API-Key": KEY})
    log = serving.home.places.logs / "mcpproxy.log"
    assert "listening on" in log.read_text(encoding="utf-8")
    assert KEY not in log.read_text(encoding="utf-8")
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


# ── its life ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-STOP-09", "REQ-CODE-20")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_whoever_waits_is_told(number):
    with home() as place, place.serving() as serving:
        assert serving.execute(ADD)["value"] == {"sum": 5}
        with hanging(serving) as connection:
            children = below(serving.process.pid)
            assert len(children) >= 3  # the server, the fork server and a VM
            said = serving.stop(number)
            reply = json.loads(connection.getresponse().read())
        assert (reply["ok"], reply["error"]["code"]) == (False, "CANCELLED")
        gone(children)
        assert "Traceback" not in said
        assert not place.places.socket.exists()
        assert not place.places.pipe.exists()


@pytest.mark.parametrize(("kept", "ends"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_a_closed_terminal_ends_it_unless_it_is_to_outlive_that(kept, ends):
    before = signal.signal(signal.SIGHUP, kept)
    try:
        assert (signal.SIGHUP in endings()) == ends
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_stream_or_half_a_request_does_not_keep_it_and_mcp_clients_are_told():
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
    call = {"name": "code_execution", "arguments": {"code": HANG}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(connection, **message):
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)

    with (
        home() as place,
        place.serving() as serving,
        closing(serving.connect(local=True)) as client,
        closing(serving.connect(local=True)) as stream,
        socket.create_connection((serving.host, serving.port)) as half,
    ):
        post(client, id=1, method="initialize", params=begin)
        answer = client.getresponse()
        answer.read()
        headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        post(client, method="notifications/initialized")
        client.getresponse().read()
        stream.request("GET", "/mcp", None, headers)
        assert stream.getresponse().headers["Content-Type"] == "text/event-stream"
        head = f"POST /api/v1/code/exec HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\n"
        half.sendall(head.encode() + b"Content-Length: 9\r\n\r\n{")
        post(client, id=2, method="tools/call", params=call)
        serving.await_line("it runs")
        said = serving.stop()
        assert "CANCELLED" in client.getresponse().read().decode()
    assert "Traceback" not in said


def test_a_second_signal_ends_it_at_once_and_takes_its_children_along():
    stubborn = [{**STUBS[0], "args": [*STUBS[0]["args"], "--stubborn"]}]
    with home(mcpServers=stubborn) as place, place.serving() as serving:
        serving.execute(ADD)
        children = below(serving.process.pid)
        serving.process.send_signal(signal.SIGTERM)
        serving.await_line("a second signal")
        serving.process.send_signal(signal.SIGTERM)
        assert serving.process.wait(WAIT) == 128 + signal.SIGTERM
        gone(children)


@pytest.mark.threat("S4")
def test_one_that_was_killed_leaves_no_process_and_its_sockets_are_taken_over():
    with home() as place, place.serving() as first:
        first.execute(ADD)
        children = below(first.process.pid)
        first.process.kill()
        first.process.wait(WAIT)
        gone(children)
        assert place.places.socket.exists()
        with place.serving() as second:
            assert second.ask("GET", "/api/v1/status", local=True).status == 200


# ── what keeps it from starting ───────────────────────────────────────────────────────────────────


def refused(place, *words):
    done = place.run("serve", *words)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


def test_a_taken_port_is_one_line_that_names_it():
    with home() as place, taken_port() as taken:
        address = "{}:{}".format(*taken.getsockname())
        status, lines = refused(place, "--listen", address)
    assert (status, len(lines)) == (2, 1)
    assert address in lines[0]
    assert "--listen" in lines[0]


def test_there_is_one_daemon_to_a_configuration(serving):
    status, lines = refused(serving.home)
    assert (status, len(lines)) == (2, 1)
    assert "running already" in lines[0]
    assert serving.ask("GET", "/api/v1/status", local=True).status == 200


@pytest.mark.parametrize("words", [["serve"], ["stdio"]])
def test_a_configuration_that_can_not_be_read_is_one_line(words):
    with home() as place:
        place.write('{"listen": ')
        done = place.invoke(*words)
    assert (done.exit_code, done.stdout) == (4, "")
    (line,) = done.stderr.splitlines()
    assert str(place.config) in line


def test_a_state_directory_that_can_not_be_made_is_one_line():
    with home() as place:
        place.environ["MCPPROXY_DATA_DIR"] = str(place.config)
        done = place.invoke("serve")
    assert (done.exit_code, len(done.stderr.splitlines())) == (4, 1)


def test_a_server_that_can_not_start_keeps_no_other_from_running():
    missing = {"name": "missing", "command": "no-such-program-anywhere"}
    with home(mcpServers=[missing, *STUBS]) as place, place.serving() as serving:
        assert serving.execute(ADD)["value"] == {"sum": 5}
        servers = serving.ask("GET", "/api/v1/servers").body["data"]["servers"]
        found = {each["name"]: each for each in servers}
        assert found["stub"]["state"] == "ready"
        assert "no-such-program-anywhere" in found["missing"]["error"]


def test_without_the_local_socket_there_is_only_the_address():
    with home(enable_socket=False) as place, place.serving() as serving:
        assert serving.ask("GET", "/api/v1/status").status == 200
        assert not place.places.socket.exists()
        assert not place.places.pipe.exists()


# ── listeners ─────────────────────────────────────────────────────────────────────────────────────


def test_the_lock_is_one_holder_s_until_it_lets_go():
    with home() as place:
        with sole(place.places):
            with pytest.raises(InTheWay, match="running already"), sole(place.places):
                pass
        with sole(place.places):
            pass


def test_a_unix_listener_replaces_what_is_there_and_cleans_up():
    with home() as place:
        path = place.folder / "a.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        before = os.umask(0o022)
        os.umask(before)
        with unix_listener(path), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()
        assert os.umask(before) == before


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_in_the_way(host):
    with pytest.raises(InTheWay, match=host), tcp_listener(host, 0):
        pass


@pytest.mark.parametrize(
    ("settings", "keyed", "open_to_all"),
    [
        ({}, False, False),
        ({"require_mcp_auth": True}, True, False),
        ({"listen": "0.0.0.0:0"}, True, True),
    ],
)
def test_the_first_line_is_a_command_that_works(caplog, settings, keyed, open_to_all):
    daemon = SimpleNamespace(
        settings=Settings(**settings),
        server_errors={},
        warnings=[],
        places=SimpleNamespace(config="c.json"),
    )
    caplog.set_level("INFO", logger="mcpproxy")
    host = daemon.settings.host if open_to_all else "127.0.0.1"
    with tcp_listener(host, 0) as listener:
        announce(daemon, listener)
    assert f"listening on http://{host}:" in caplog.text
    assert "mcpproxy http://127.0.0.1:" in caplog.text
    assert ("--header" in caplog.text) is keyed
    assert ("from the network" in caplog.text) is open_to_all
    assert "no servers yet; add one with: mcpproxy upstream add" in caplog.text


def test_an_ipv6_address_is_written_in_brackets():
    assert url("::1", 80) == "http://[::1]:80"
    assert url("127.0.0.1", 80) == "http://127.0.0.1:80"
