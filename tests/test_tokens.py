"""Agents' tokens: shown once, kept as hashes, believed for as long as they last."""

from __future__ import annotations

import errno
import json
import os
import stat
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import home

from mcpproxy import paths
from mcpproxy.errors import Refused
from mcpproxy.policy import ADMIN, ANONYMOUS, LOCAL, Ceilings
from mcpproxy.rates import MOST_PEERS, WRONG_KEYS, Executions, WrongKeys
from mcpproxy.tokens import Tokens, read_wanted

WANTED = {"name": "ci", "allowed_servers": ["github"]}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tokens(tmp_path, clock):
    return Tokens(tmp_path / "state", clock)


def secret_of(made) -> bytes:
    return made["token"].encode()


def test_a_token_is_known_by_its_secret_alone(tokens):
    secret = secret_of(tokens.create(WANTED))
    assert secret.startswith(b"mcp_agt_") and len(secret) == 8 + 64
    found = tokens.find(secret)
    assert found is not None and found.name == "ci"
    for wrong in (b"", b"mcp_agt_", secret[:-1], secret + b"0", secret.upper(), b"ci"):
        assert tokens.find(wrong) is None


@pytest.mark.threat("L2", "L3")
def test_no_copy_of_a_secret_is_kept_and_the_files_are_this_user_s_alone(tokens):
    made = tokens.create(WANTED)
    for file in (tokens.file, tokens.key_file):
        assert made["token"].encode()[8:] not in file.read_bytes()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "token" not in tokens.show("ci")
    assert made["token"] not in json.dumps(tokens.listing())


def test_a_hash_is_worth_nothing_without_the_key(tokens, tmp_path):
    secret = secret_of(tokens.create(WANTED))
    elsewhere = Tokens(tmp_path / "elsewhere")
    elsewhere.create({**WANTED, "name": "other"})
    elsewhere.file.write_bytes(tokens.file.read_bytes())
    assert elsewhere.find(secret) is None


def test_a_token_says_what_its_holder_may(tokens):
    made = tokens.create(
        {
            **WANTED, "allowed_servers": ["github", "jira"], "permissions": ["write", "read"],
            "max_timeout_ms": 1000, "max_tool_calls": 5, "max_executions_per_minute": 2,
        }
    )  # fmt: skip
    caller = tokens.find(secret_of(made)).caller()
    assert (caller.name, caller.rank, caller.admin) == ("ci", "token", False)
    assert caller.servers == {"github", "jira"}
    assert caller.permissions == {"read", "write"}
    assert caller.ceilings == Ceilings(1000, 5, 2)
    every = tokens.find(
        secret_of(tokens.create({"name": "all", "allowed_servers": ["*"]}))
    ).caller()
    assert (every.servers, every.permissions) == (None, {"read"})


def test_another_process_sees_a_change_at_once(tokens, tmp_path):
    daemon = Tokens(tmp_path / "state")
    assert daemon.find(b"mcp_agt_x") is None
    secret = secret_of(tokens.create(WANTED))
    assert daemon.find(secret) is not None
    renewed = secret_of(tokens.regenerate("ci", {}))
    assert daemon.find(secret) is None
    assert daemon.find(renewed) is not None
    tokens.revoke("ci")
    assert daemon.find(renewed) is None


def test_a_token_expires_and_is_renewed_for_as_long(tokens, clock):
    made = tokens.create({**WANTED, "expires_in": "90m"})
    assert made["expires_at"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock.now + 5400))
    found = tokens.find(secret_of(made))
    clock.now += 5399
    assert not tokens.expired(found)
    clock.now += 1
    assert tokens.expired(found) and tokens.show("ci")["expired"]
    renewed = tokens.find(secret_of(tokens.regenerate("ci", {})))
    assert renewed.expires == clock.now + 5400
    assert (
        tokens.find(secret_of(tokens.regenerate("ci", {"expires_in": "4w"}))).lifetime == 28 * 86400
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"), ({"name": "a b"}, "name"), ({"name": "-a"}, "name"),
        ({"name": "a" * 65}, "name"), ({"name": 1}, "name"), ({"name": None}, "name"),
        *(({"name": who.name}, "name") for who in (ADMIN, LOCAL, ANONYMOUS)),
        ({"allowed_servers": []}, "allowed_servers"), ({"allowed_servers": "github"}, "allowed_servers"),
        ({"allowed_servers": None}, "allowed_servers"), ({"allowed_servers": ["*", "a"]}, "allowed_servers"),
        ({"allowed_servers": [""]}, "allowed_servers"), ({"allowed_servers": {"github": True}}, "allowed_servers"),
        ({"permissions": []}, "permissions"), ({"permissions": ["write"]}, "permissions"),
        ({"permissions": ["read", "admin"]}, "permissions"), ({"permissions": "read"}, "permissions"),
        ({"expires_in": "0d"}, "expires_in"), ({"expires_in": "366d"}, "expires_in"),
        ({"expires_in": "30"}, "expires_in"), ({"expires_in": 30}, "expires_in"),
        ({"expires_in": "never"}, "expires_in"), ({"expires_in": None}, "expires_in"),
        ({"max_timeout_ms": 0}, "max_timeout_ms"), ({"max_timeout_ms": 600_001}, "max_timeout_ms"),
        ({"max_tool_calls": True}, "max_tool_calls"), ({"max_tool_calls": 1.5}, "max_tool_calls"),
        ({"max_executions_per_minute": "5"}, "max_executions_per_minute"),
        ({"admin": True}, "admin"), ({"hash": "x"}, "hash"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_request_is_named(change, field):
    with pytest.raises(Refused) as refused:
        read_wanted({**WANTED, **change})
    assert refused.value.code == "INVALID_REQUEST"
    assert str(refused.value).startswith(f"{field}: ")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["name", "allowed_servers", "permissions", "expires_in"]), json_values
    )
)
def test_any_json_is_a_token_with_servers_of_its_own_or_refused(wanted):
    try:
        asked = read_wanted(wanted)
    except Refused:
        return
    assert asked["allowed_servers"] == tuple(dict.fromkeys(wanted["allowed_servers"])) != ()
    assert "read" in asked["permissions"]


def test_one_that_was_stopped_while_it_writes_keeps_nobody_for_ever(tokens, monkeypatch):
    monkeypatch.setattr(paths, "TURN_SECONDS", 0.02)
    with tokens._writing():
        with pytest.raises(Refused, match=r"another process has been changing .* for 0\.02 s"):
            tokens.create(WANTED)
    assert tokens.create(WANTED)["name"] == WANTED["name"]


def test_a_name_is_taken_once_and_an_unknown_one_is_said_to_be(tokens):
    tokens.create(WANTED)
    with pytest.raises(Refused, match="already"):
        tokens.create(WANTED)
    for verb in (tokens.show, tokens.revoke, lambda name: tokens.regenerate(name, {})):
        with pytest.raises(Refused, match="there are ci") as refused:
            verb("nightly")
        assert refused.value.code == "NOT_FOUND"


@pytest.mark.parametrize("file", ["tokens.json", "tokens.key"])
@pytest.mark.parametrize(
    "text", ["", "{", '{"tokens": [{"name": "x"}]}', "x" * 31, '{"tokens": 7}', "[]", "null"]
)
@pytest.mark.threat("L6")
def test_files_that_are_damaged_let_nobody_in(tokens, file, text):
    secret = secret_of(tokens.create(WANTED))
    (tokens.file.parent / file).write_text(text, encoding="utf-8")
    assert tokens.find(secret) is None
    with pytest.raises(Refused) as refused:
        tokens.create({**WANTED, "name": "second"})
    assert refused.value.code == "EXECUTION_FAILED"


@pytest.mark.parametrize(
    "change",
    [
        {"hash": "ü" * 64}, {"hash": None}, {"hash": ""}, {"name": None}, {"allowed_servers": []},
        {"allowed_servers": "github"}, {"permissions": []}, {"permissions": ["admin"]}, {"expires": "never"},
        {"expires": None}, {"expires": "9"}, {"expires": 1e300}, {"created": "x"}, {"max_tool_calls": "many"}, {"rank": "admin"},
    ],
)  # fmt: skip
@pytest.mark.threat("L6")
def test_an_entry_that_is_no_token_lets_nobody_in(tokens, change):
    secret = secret_of(tokens.create(WANTED))
    kept = json.loads(tokens.file.read_text(encoding="utf-8"))
    kept["tokens"][0] |= change
    tokens.file.write_text(json.dumps(kept), encoding="utf-8")
    assert tokens.find(secret) is None


# ── the command line, without a daemon ──────────────────────────────────────────────────────────


def test_the_commands_work_on_the_files_where_no_daemon_runs():
    with home() as place:
        tokens = Tokens(place.places.state)
        made = place.invoke("token", "create", "--name", "ci", "--servers", "github, jira")
        assert made.exit_code == 0, made.output
        assert tokens.find(made.stdout.strip().encode()).allowed_servers == ("github", "jira")
        assert made.stdout.strip() not in made.stderr
        shown = json.loads(place.invoke("token", "show", "ci", "--output", "json").stdout)
        (listed,) = json.loads(place.invoke("token", "list", "-o", "json").stdout)
        assert shown == listed == tokens.show("ci")
        renewed = place.invoke("token", "regenerate", "ci", "-o", "json")
        assert tokens.find(json.loads(renewed.stdout)["token"].encode()) is not None
        assert tokens.find(made.stdout.strip().encode()) is None
        assert place.invoke("token", "revoke", "ci").stdout == "revoked ci\n"
        assert tokens.listing() == []
        said = place.invoke("activity", "export", "--detail").stdout
        found = [json.loads(line) for line in said.splitlines()]
        assert [each["detail"]["change"] for each in found] == ["made", "renewed", "revoked"]
        assert {(each["type"], each["caller"]) for each in found} == {("token", "local")}
        assert found[0]["detail"]["allowed_servers"] == ["github", "jira"]
        assert "mcp_agt_" not in said


def test_a_change_is_made_and_said_not_to_be_on_record_where_it_can_not_be():
    with home() as place:
        assert place.invoke("token", "create", "ci", "--servers", "*").exit_code == 0
        place.write("{")
        revoked = place.invoke("token", "revoke", "ci")
        assert (revoked.exit_code, revoked.stdout) == (0, "revoked ci\n")
        assert "not on record" in revoked.stderr and "not valid JSON" in revoked.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "--servers", "a"], "give the token a name"),
        (["create", "a", "--name", "b", "--servers", "a"], "give the token a name"),
        (["create", "a"], "--servers"),
        (["create", "a", "--servers", ","], "allowed_servers: must be"),
        (["create", "a", "--servers", "a", "--permissions", "admin"], "permissions: must be"),
        (["create", "a", "--servers", "a", "--expires", "2y"], "expires_in: must be"),
        (["create", "a", "--servers", "a", "--max-timeout", "0"], "max_timeout_ms: must be"),
        (["show", "a"], "there is no token 'a'; there are none"),
        (["revoke", "a"], "there is no token 'a'; there are none"),
        (["regenerate", "a"], "there is no token 'a'; there are none"),
    ],
)
def test_a_command_that_can_not_be_done_says_why_and_changes_nothing(words, said):
    with home() as place:
        done = place.invoke("token", *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in done.stderr
        assert Tokens(place.places.state).listing() == []


# ── rates ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.threat("L6")
def test_wrong_keys_of_one_peer_have_to_wait_and_no_other_peer_does(clock):
    wrong = WrongKeys(clock)
    for _ in range(WRONG_KEYS):
        assert wrong.wait("10.0.0.1", b"guess") == 0
        wrong.wrong("10.0.0.1")
    assert wrong.wait("10.0.0.1", b"guess") == 1
    assert wrong.wait("10.0.0.2", b"guess") == 0
    clock.now += 1
    assert wrong.wait("10.0.0.1", b"the right one") == 0
    wrong.wrong("10.0.0.1")
    assert wrong.wait("10.0.0.1", b"guess") == 1


@pytest.mark.threat("L6")
def test_a_key_that_was_right_is_looked_at_whoever_guesses_beside_it(clock):
    wrong = WrongKeys(clock)
    wrong.right(b"the key")
    for _ in range(100):
        wrong.wrong("127.0.0.1")
    assert wrong.wait("127.0.0.1", b"the key") == 0
    assert wrong.wait("127.0.0.1", b"another") == 1


def test_a_host_with_many_ipv6_addresses_is_one_peer(clock):
    wrong = WrongKeys(clock)
    for n in range(WRONG_KEYS):
        wrong.wrong(f"fd00::{n:x}")
    assert wrong.wait("fd00::ffff", b"guess") == 1
    assert wrong.wait("fd00:0:0:1::1", b"guess") == 0


@pytest.mark.threat("L6")
def test_what_is_remembered_of_peers_is_bounded(clock):
    wrong = WrongKeys(clock)
    for n in range(3 * MOST_PEERS):
        wrong.wrong(f"10.{n >> 8}.{n & 255}.1")
        wrong.right(b"%d" % n)
    assert len(wrong._levels) == MOST_PEERS
    assert len(wrong._right) <= MOST_PEERS


@given(st.lists(st.floats(0, 40), max_size=40), st.integers(1, 5))
def test_no_minute_has_more_executions_than_may_be(gaps, most):
    clock = Clock()
    rate, begun = Executions(clock), []
    for gap in gaps:
        clock.now += gap
        wait = rate.begin("ci", most)
        if not wait:
            begun.append(clock.now)
        else:
            assert 0 < wait <= 60
    for first, last in zip(begun, begun[most:], strict=False):
        assert last - first >= 60


def test_no_key_is_left_half_written(tokens, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("mcpproxy.tokens.os.fsync", full)
        with pytest.raises(Refused, match=r"tokens\.key: No space .*; make room on its disk"):
            tokens.create(WANTED)
    assert tokens.find(secret_of(tokens.create(WANTED))) is not None


def test_files_that_can_not_be_read_for_a_moment_are_read_again(tokens, monkeypatch, caplog):
    secret = secret_of(tokens.create(WANTED))

    def refuse(path):
        raise Refused("EXECUTION_FAILED", "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("mcpproxy.tokens.read_key", refuse)
        assert [tokens.find(secret) for _ in range(3)] == [None] * 3
    assert caplog.text.count("no agent's token works") == 1
    assert tokens.find(secret) is not None
