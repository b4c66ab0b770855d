"""Who gets in, and as whom."""

from __future__ import annotations

import logging
import re
import time

import pytest
from asgi import ask
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.guard import AUTHORITY, EXEC, Guard, is_mcp, respond, without_key
from mcpproxy.rates import WRONG_KEYS
from mcpproxy.settings import Settings
from mcpproxy.tokens import Tokens

KEY = "k-ünlike"
SENT = KEY.encode()


async def whoami(scope, receive, send):
    state = scope["state"]
    await respond(send, 200, f'["{state["caller"].name}", "{state["request_id"]}"]'.encode())


def door(*, local: bool = False, tokens: Tokens | None = None, **settings) -> Guard:
    made = Settings(**{"api_key": KEY, **settings})
    return Guard(whoami, made, local=local, tokens=tokens)


async def caller(guard, path, headers=None):
    """The name of the caller, or the status and code of the refusal."""
    answer = await ask(guard, "GET", path, headers=headers)
    if answer.status == 200:
        return answer.body[0]
    if is_mcp(path):
        assert (answer.body["jsonrpc"], answer.body["id"]) == ("2.0", None)
        return answer.status, answer.body["error"]["data"]["code"]
    assert answer.body["ok"] is False
    assert answer.body.get("success", "none") is ("none" if path == EXEC else False)
    return answer.status, answer.body["error"]["code"]


NO, MISDIRECTED, FOREIGN = (401, "UNAUTHORIZED"), (421, "FORBIDDEN"), (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/api/v1/status", {}, NO),
        ("/api/v1/status", {"X-API-Key": "wrong"}, NO),
        ("/api/v1/status", {"X-API-Key": ""}, NO),
        ("/api/v1/status", {"X-API-Key": SENT}, "admin"),
        ("/api/v1/status", {"Authorization": b"Bearer " + SENT}, "admin"),
        ("/api/v1/status", {"Authorization": b"bearer  " + SENT}, "admin"),
        ("/api/v1/status", {"Authorization": b"Basic " + SENT}, NO),
        ("/api/v1/status?apikey=k-%C3%BCnlike", {}, "admin"),
        ("/api/v1/status?apikey=", {}, NO),
        ("/api/v1/status?apikey=wrong", {"X-API-Key": SENT}, "admin"),
        ("/api/v1/status?apikey=k-%C3%BCnlike", {"X-API-Key": "wrong"}, NO),
        ("/api/v1/status?apikey=k-%C3%BCnlike", {"X-API-Key": ""}, "admin"),
        ("/api/v1/status?apikey=k-%C3%BCnlike", {"Authorization": "Bearer "}, "admin"),
        ("/api/v1/status", {"X-API-Key": " ", "Authorization": b"Bearer " + SENT}, "admin"),
        ("/mcp", {"X-API-Key": ""}, "anonymous"),
        ("/mcp/p/team/all", {}, "anonymous"),
        ("/", {}, NO),
        ("/mcp", {}, "anonymous"),
        ("/mcp/all", {}, "anonymous"),
        ("/mcpx", {}, NO),
        ("/mcp", {"X-API-Key": SENT}, "admin"),
        ("/mcp", {"X-API-Key": "wrong"}, NO),
        ("/mcp", {"Authorization": "Bearer wrong"}, NO),
        ("/livez", {}, "anonymous"),
        ("/readyz", {"X-API-Key": "an old one"}, "anonymous"),
        ("/livezz", {}, NO),
    ],
)
@pytest.mark.threat("L1")
async def test_a_key_makes_an_administrator_and_mcp_is_open_on_loopback(path, headers, expected):
    assert await caller(door(), path, headers) == expected


@pytest.mark.parametrize(("path", "told"), [("/", True), ("/sse", True), ("/api/v1/x", False)])
async def test_who_asks_at_a_wrong_address_is_told_that_of_mcp(path, told):
    answer = await ask(door(), "GET", path)
    assert answer.body["error"]["message"].endswith("; MCP is at /mcp") is told


@pytest.mark.parametrize(
    "settings", [{"require_mcp_auth": True}, {"listen": "0.0.0.0:80"}, {"listen": "10.1.2.3:80"}]
)
@pytest.mark.threat("L1")
async def test_mcp_wants_a_key_when_told_so_or_when_others_can_reach_it(settings):
    assert await caller(door(**settings), "/mcp") == NO
    assert await caller(door(**settings), "/mcp", {"X-API-Key": SENT}) == "admin"


@pytest.mark.threat("L1")
async def test_without_a_configured_key_no_key_is_right():
    assert await caller(door(api_key=""), "/api/v1/status", {"X-API-Key": ""}) == NO


HOSTS = ["127.0.0.1", "127.0.0.1:1", "localhost:65535", "LOCALHOST", "[::1]", "[::1]:8080"]


@pytest.mark.parametrize("host", HOSTS)
async def test_our_own_names_are_ours_with_and_without_a_port(host):
    assert await caller(door(), "/mcp", {"Host": host}) == "anonymous"
    port = re.search(r":(\d+)$", host)
    ours = "127.0.0.1" + (port[0] if port else "")
    assert await caller(door(), "/mcp", {"Host": ours, "Origin": f"http://{host}"}) == "anonymous"


@pytest.mark.threat("B2")
async def test_a_page_of_another_server_on_this_machine_is_foreign():
    headers = {"Host": "127.0.0.1:8080", "Origin": "http://localhost:3000"}
    assert await caller(door(), "/mcp", headers) == FOREIGN


@pytest.mark.parametrize("path", ["/mcp", "/livez", "/api/v1/code/exec"])
@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example", "localhost.", "evil@localhost", "localhost/evil",
     "localhost:80:80", "localhost:", "::1", "[::1", "127.0.0.2", "127.0.0.1 ", "a\x00b", "münchen"],
)  # fmt: skip
@pytest.mark.threat("B1")
async def test_any_other_host_is_misdirected_even_with_the_key(path, host):
    assert await caller(door(), path, {"Host": host, "X-API-Key": SENT}) == MISDIRECTED


@pytest.mark.threat("B1")
async def test_of_two_hosts_none_is_ours():
    assert (
        await caller(door(), "/mcp", {"Host": "localhost", "host": "evil.example"}) == MISDIRECTED
    )
    assert (
        await caller(door(), "/mcp", {"Host": "evil.example", "host": "localhost"}) == MISDIRECTED
    )


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "http://localhost.evil.example", "http://evil@localhost",
     "chrome-extension://localhost", "file://", "http://localhost/x", "localhost"],
)  # fmt: skip
@pytest.mark.threat("B2")
async def test_pages_of_other_sites_are_refused_on_every_listener(origin):
    headers = {"Origin": origin, "X-API-Key": SENT}
    assert await caller(door(), "/mcp", headers) == FOREIGN
    assert await caller(door(local=True), "/mcp", headers) == FOREIGN


async def test_trusted_hosts_are_exact_or_everything_below_a_dot():
    guard = door(trusted_hosts=["Proxy.example", ".Inner.example"])
    names = ["proxy.example", "a.inner.example:443", "a.b.inner.example"]
    keyed = [await caller(guard, "/mcp", {"Host": name, "X-API-Key": SENT}) for name in names]
    assert keyed == ["admin"] * 3
    # Who comes through a reverse proxy need not be on this machine.
    assert [await caller(guard, "/mcp", {"Host": name}) for name in names] == [NO] * 3
    others = ["a.proxy.example", "inner.example", "xinner.example", "evil."]
    assert [await caller(guard, "/mcp", {"Host": name}) for name in others] == [MISDIRECTED] * 4
    answer = await ask(guard, "GET", "/api/v1/status", headers={"Host": "other.example:8080"})
    assert 'or add "other.example" to trusted_hosts' in answer.body["error"]["message"]


@pytest.mark.parametrize(
    ("listen", "host"), [("10.1.2.3:80", "10.1.2.3"), ("[fd00::7]:80", "[fd00::7]:80")]
)
async def test_the_address_we_listen_on_is_ours(listen, host):
    headers = {"Host": host, "X-API-Key": SENT}
    assert await caller(door(listen=listen), "/api/v1/status", headers) == "admin"


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "wrong"}])
async def test_on_the_unix_socket_everybody_is_local(headers):
    assert await caller(door(local=True, require_mcp_auth=True), "/api/v1/status", headers) == (
        "local"
    )


@pytest.mark.parametrize("path", ["/api/v1/status", "/livez", EXEC, "/"])
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.threat("B2")
async def test_the_api_takes_no_page_at_all_not_even_one_of_ours(path, local):
    headers = {"Origin": "http://127.0.0.1:8080", "X-API-Key": SENT}
    assert await caller(door(local=local), path, headers) == FOREIGN
    assert await caller(door(local=local), "/mcp", headers) in ("admin", "local")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.threat("B2")
async def test_a_browser_that_says_where_it_comes_from_is_believed(site):
    assert await caller(door(), "/mcp", {"Sec-Fetch-Site": site}) == FOREIGN
    assert await caller(door(), "/mcp", {"Sec-Fetch-Site": "none"}) == "anonymous"


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
@pytest.mark.threat("L1")
async def test_whoever_comes_through_a_reverse_proxy_needs_a_key(name):
    # A proxy may well send Host: 127.0.0.1, as it came to it.
    assert await caller(door(), "/mcp", {name: "203.0.113.7"}) == NO
    assert await caller(door(), "/mcp", {name: "203.0.113.7", "X-API-Key": SENT}) == "admin"


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path)


@pytest.mark.threat("L6")
async def test_a_token_is_let_in_by_its_name_until_it_expires_or_is_revoked(tokens):
    secret = tokens.create({"name": "ci", "allowed_servers": ["github"], "expires_in": "1m"})[
        "token"
    ]
    guard = door(tokens=tokens, require_mcp_auth=True)
    ways = [{"X-API-Key": secret}, {"Authorization": f"Bearer {secret}"}]
    for path in ("/mcp", "/api/v1/status"):
        assert [await caller(guard, path, way) for way in ways] == ["ci"] * 2
        assert await caller(guard, f"{path}?apikey={secret}") == "ci"
    renewed = tokens.regenerate("ci", {})["token"]
    assert await caller(guard, "/mcp", ways[0]) == NO
    assert await caller(guard, "/mcp", {"X-API-Key": renewed}) == "ci"
    late = Tokens(tokens.file.parent, clock=lambda: time.time() + 61)
    answer = await ask(door(tokens=late), "GET", "/api/v1/x", headers={"X-API-Key": renewed})
    assert (answer.status, answer.body["error"]["code"]) == NO
    assert "expired" in answer.body["error"]["message"]
    tokens.revoke("ci")
    assert await caller(guard, "/mcp", {"X-API-Key": renewed}) == NO


@pytest.mark.threat("L6")
async def test_guessing_is_slowed_down_and_says_when_to_come_back(tokens):
    guard = door(tokens=tokens)
    assert await caller(guard, "/mcp", {"X-API-Key": SENT}) == "admin"
    for n in range(WRONG_KEYS):
        assert await caller(guard, "/api/v1/status", {"X-API-Key": f"guess-{n}"}) == NO
    answer = await ask(guard, "GET", "/api/v1/status", headers={"X-API-Key": "one more"})
    assert (answer.status, answer.body["error"]["code"]) == (429, "RATE_LIMITED")
    assert answer.headers["retry-after"] == "1"
    assert answer.body["error"]["retry_after_ms"] == 1000
    assert await caller(guard, "/mcp", {"X-API-Key": SENT}) == "admin"
    assert await caller(guard, "/mcp") == "anonymous"
    # Nobody guesses a long one: the first time that it is shown is as good as any.
    secret = tokens.create({"name": "ci", "allowed_servers": ["*"]})["token"]
    answer = await ask(guard, "GET", "/x", headers={"X-API-Key": secret[:-1] + "x"})
    assert answer.status == 429
    assert await caller(guard, "/mcp", {"X-API-Key": secret}) == "ci"


@pytest.mark.parametrize(
    ("query", "left"),
    [
        (b"", b""),
        (b"apikey=x", b""),
        (b"a=1&apikey=x&b=2&apikey=y", b"a=1&b=2"),
        (b"%61pikey=x&a", b"a"),
        (b"apikeys=1", b"apikeys=1"),
    ],
)
@pytest.mark.threat("L3")
def test_no_key_goes_further_in_than_the_door(query, left):
    assert without_key(query) == left


@given(st.text())
@pytest.mark.threat("B1")
def test_a_host_that_is_let_in_is_one_name_and_perhaps_a_port(text):
    found = AUTHORITY.fullmatch(text)
    assert found is None or not set("/@\\?# \t\r\n") & set(found[0])


@pytest.mark.parametrize("given_id", ["a", "Az09._-", "x" * 64])
async def test_a_good_request_id_is_kept(given_id):
    answer = await ask(door(), "GET", "/mcp", headers={"X-Request-Id": given_id})
    assert answer.body[1] == answer.headers["x-request-id"] == given_id


@pytest.mark.parametrize("given_id", ["", "x" * 65, "a b", "ä", "a\nb", '"'])
async def test_any_other_request_id_is_replaced(given_id):
    answer = await ask(door(), "GET", "/mcp", headers={"X-Request-Id": given_id})
    assert answer.body[1] == answer.headers["x-request-id"] != given_id
    assert len(answer.body[1]) == 32


async def test_a_refusal_has_the_request_id_twice_and_says_what_to_send():
    answer = await ask(door(), "GET", "/api/v1/status", headers={"X-Request-Id": "mine"})
    assert answer.body["request_id"] == answer.headers["x-request-id"] == "mine"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "X-API-Key" in answer.body["error"]["message"]


@pytest.mark.threat("L3")
async def test_nothing_that_was_sent_is_logged_or_given_back(caplog):
    caplog.set_level(logging.DEBUG)
    guard = door()
    for _ in range(3):
        answer = await ask(guard, "GET", "/x?apikey=guess-1", headers={"X-API-Key": "guess-2"})
    assert len(caplog.records) == 1  # not one for each
    assert "a wrong key was shown" in caplog.text
    assert "guess" not in caplog.text + answer.text + str(answer.headers)


async def test_nothing_but_http_gets_in():
    with pytest.raises(RuntimeError, match="websocket"):
        await door()({"type": "websocket", "headers": []}, None, None)
