"""Logging in to a server, and what becomes of a login: renewed, refused, revoked, forgotten."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from authority import Authority, browse, open_authority
from mcp.shared.auth import OAuthClientInformationFull
from upstreams import open_stubs

from mcpproxy.errors import CallError
from mcpproxy.redaction import SECRETS
from mcpproxy.settings import ServerSettings
from mcpproxy.upstream import grant
from mcpproxy.upstream.callback import place
from mcpproxy.upstream.credentials import Kept, read, write
from mcpproxy.upstream.fleet import Fleet
from mcpproxy.upstream.grant import Grant
from mcpproxy.upstream.login import Login, LoginError

COMMAND = "it needs a login: run `mcpproxy auth login guarded`"


@pytest.fixture(scope="module")
async def served(anyio_backend) -> AsyncIterator[Authority]:
    async with open_authority() as found:
        yield found


@pytest.fixture
def authority(served) -> Authority:
    served.reset()
    return served


@asynccontextmanager
async def guarded(folder: Path, authority: Authority, **settings) -> AsyncIterator[Fleet]:
    server = ServerSettings.model_validate(
        {"name": "guarded", "url": authority.url, "protocol": "http", **settings}
    )
    with anyio.fail_after(30):
        async with open_stubs(folder, server, state=folder) as fleet:
            yield fleet


async def until(fleet: Fleet, holds: Callable[[], bool]) -> None:
    """Wait for a snapshot with which something holds."""
    while not holds():
        news = anyio.Event()
        stop = fleet.listen(lambda _, news=news: news.set())
        await news.wait()
        stop()


def state(fleet: Fleet) -> str:
    return fleet.catalog.servers["guarded"].state


async def log_in(fleet: Fleet, *scopes: str) -> Login:
    """The whole of it, as a person does it who allows everything."""
    login = await fleet.log_in("guarded", scopes, 20)
    assert login.url is not None, login.error
    assert (await browse(login.url)).status_code == 200
    await login.over.wait()
    assert login.state == "done", login.error
    await until(fleet, lambda: state(fleet) != "ready")
    await until(fleet, lambda: state(fleet) == "ready")
    return login


def document(folder: Path) -> dict:
    return json.loads((folder / "logins" / "guarded.json").read_text(encoding="utf-8"))


async def test_a_login_is_not_taken_back_by_who_reads_its_file_meanwhile(tmp_path, monkeypatch):
    path, was_read = tmp_path / "guarded.json", threading.Event()
    before, after = (
        Kept(url="http://h/", client=OAuthClientInformationFull(client_id=name, redirect_uris=None))
        for name in ("before", "after")
    )

    def read_it(path):
        found = read(path)
        was_read.set()
        return found

    def write_late(path, kept):
        was_read.wait(0.1)  # by whoever doesn't wait for this to be over
        write(path, kept)

    async with anyio.create_task_group() as tasks:
        one = Grant("guarded", path, tasks, lambda *_: None)
        await one.adopt(before)
        monkeypatch.setattr(grant, "read", read_it)
        monkeypatch.setattr(grant, "write", write_late)
        tasks.start_soon(one.adopt, after)
        tasks.start_soon(one.load)
    assert one.kept == after == read(path)


@pytest.mark.threat("U6")
async def test_from_the_first_refusal_to_a_call(tmp_path, authority):
    async with guarded(tmp_path, authority) as fleet:
        assert state(fleet) == "down"
        assert COMMAND in fleet.status()[0]["error"]
        assert fleet.status()[0]["login"]["state"] == "login needed"
        with pytest.raises(CallError, match="mcpproxy auth login guarded") as refused:
            await fleet.call("guarded", "echo", {})
        assert refused.value.code == "SERVER_UNAVAILABLE"
        await log_in(fleet)
        await fleet.call("guarded", "echo", {})
        login = fleet.status()[0]["login"]
        assert login["state"] == "logged in" and 3500 < login["expires_in_seconds"] <= 3600
    [asked] = authority.authorized
    assert asked["resource"] == authority.url and asked["code_challenge_method"] == "S256"
    kept = document(tmp_path)
    assert stat.S_IMODE((tmp_path / "logins" / "guarded.json").stat().st_mode) == 0o600
    for secret in (kept["tokens"]["access_token"], kept["tokens"]["refresh_token"]):
        assert SECRETS.hide(f"<{secret}>") == "<(login of guarded)>"
    async with guarded(tmp_path, authority) as fleet:  # another daemon, later
        assert state(fleet) == "ready"
    assert len(authority.forms) == 1


@pytest.mark.parametrize("protocol", ["sse", "auto"])
async def test_each_transport_says_that_a_login_is_needed(tmp_path, authority, protocol):
    async with guarded(tmp_path, authority, protocol=protocol) as fleet:
        assert fleet.status()[0]["error"] == f"{COMMAND} (HTTP 401)"


async def test_fifty_calls_at_once_cause_one_renewal_and_each_runs_once(tmp_path, authority):
    async with guarded(tmp_path, authority) as fleet:
        await log_in(fleet)
        authority.tokens.clear()
        authority.together = 50
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(fleet.call, "guarded", "echo", {})
        assert authority.renewals == 1 and authority.calls == 50
    assert document(tmp_path)["tokens"]["refresh_token"] in authority.refresh_tokens


async def test_two_processes_with_one_login_renew_it_once(tmp_path, authority):
    async with guarded(tmp_path, authority) as one, guarded(tmp_path, authority) as other:
        await log_in(one)
        await other.restart("guarded")
        authority.tokens.clear()
        authority.gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.call, "guarded", "echo", {})
            await authority.asked.wait()
            tasks.start_soon(other.call, "guarded", "echo", {})
            while other.logins.grant("guarded")._renewing is None:
                await anyio.lowlevel.checkpoint()
            authority.gate.set()
        assert authority.renewals == 1 and authority.calls == 2
        assert one.logins.grant("guarded").access == other.logins.grant("guarded").access


async def test_a_token_is_renewed_before_it_ends(tmp_path, authority):
    authority.lifetimes = [0, 3600]
    async with guarded(tmp_path, authority) as fleet:
        await log_in(fleet)
        assert authority.renewals == 1
        await fleet.call("guarded", "echo", {})
        assert authority.renewals == 1


async def test_a_caller_that_leaves_does_not_lose_the_renewal(tmp_path, authority):
    async with guarded(tmp_path, authority) as fleet:
        await log_in(fleet)
        authority.tokens.clear()
        authority.gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fleet.call, "guarded", "echo", {})
            await authority.asked.wait()
            tasks.cancel_scope.cancel()
        authority.gate.set()
        await fleet.call("guarded", "echo", {})
        assert authority.renewals == 1 and authority.calls == 1


async def test_a_revoked_login_is_needed_again_and_keeps_what_was_registered(tmp_path, authority):
    async with guarded(tmp_path, authority) as fleet:
        await log_in(fleet)
        authority.tokens.clear()
        authority.refresh_tokens.clear()
        with pytest.raises(CallError) as refused:
            await fleet.call("guarded", "echo", {})
        assert refused.value.code == "SERVER_UNAVAILABLE"
        assert "did nothing" in refused.value.message and COMMAND in refused.value.message
        await until(fleet, lambda: state(fleet) == "down")
        assert COMMAND in fleet.status()[0]["error"]
        assert "tokens" not in document(tmp_path)
        await log_in(fleet)
        await fleet.call("guarded", "echo", {})
    assert len(authority.registered) == 1 and authority.calls == 1


async def test_a_renewal_that_gets_no_answer_loses_nothing(tmp_path, authority):
    noted = []
    async with guarded(tmp_path, authority) as fleet:
        fleet.logins.note = lambda server, status, said: noted.append((server, status, said))
        await log_in(fleet)
        before = document(tmp_path)
        authority.tokens.clear()
        authority.refusal = (503, {"error": "temporarily_unavailable"})
        with pytest.raises(CallError, match=r"could not be renewed.*503.*trying again"):
            await fleet.call("guarded", "echo", {})
        assert document(tmp_path) == before
        authority.refusal = None
        fleet.logins.grant("guarded")._not_before = 0.0  # as if the pause were over
        await fleet.call("guarded", "echo", {})
        assert authority.calls == 1
        await fleet.log_out("guarded")
    assert [(server, status) for server, status, _ in noted] == [
        ("guarded", status) for status in ("ok", "error", "ok", "ok")
    ]
    said = ["logged in", "could not be renewed", "was renewed", "logged out"]
    assert all(words in each[2] for words, each in zip(said, noted, strict=True))


@pytest.mark.threat("U6")
async def test_only_the_answer_to_this_login_ends_it(tmp_path, authority):
    async with guarded(tmp_path, authority) as fleet:
        login = await fleet.log_in("guarded", (), 20)
        assert login.url
        other = await browse(login.url, state="somebody-else-s")
        assert other.status_code == 400 and "auth login" in other.text
        assert not login.over.is_set()
        refused = await browse(login.url, code="", error="access_denied", error_description="<b>")
        assert refused.status_code == 200 and "<b>" not in refused.text
        await login.over.wait()
        assert login.error == "the authorization server refused it: access_denied: <b>"
        assert not (tmp_path / "logins").exists()


async def test_a_login_that_nobody_finishes_says_so_and_another_takes_its_place(
    tmp_path, authority
):
    async with guarded(tmp_path, authority) as fleet:
        first = await fleet.log_in("guarded", (), 20)
        second = await fleet.log_in("guarded", (), 0.3)
        assert first.state == "failed" and "another" in (first.error or "")
        await second.over.wait()
        assert "nobody finished it" in (second.error or "")
        assert "mcpproxy auth login guarded" in (second.error or "")


async def test_a_client_that_was_registered_by_hand_is_used_as_it_is_set(
    tmp_path, authority, free_tcp_port
):
    authority.registers = False
    oauth = {
        "client_id": "by-hand",
        "client_secret": "fake-client-secret",
        "redirect_uri": f"http://localhost:{free_tcp_port}/oauth/callback",
        "scopes": ["read", "write"],
        "extra_params": {"audience": "us"},
    }
    async with guarded(tmp_path, authority, oauth=oauth) as fleet:
        await log_in(fleet)
    [asked] = authority.authorized
    assert asked["client_id"] == "by-hand" and asked["audience"] == "us"
    assert asked["scope"] == "read write" and asked["redirect_uri"] == oauth["redirect_uri"]
    assert authority.basic[0] == "Basic YnktaGFuZDpmYWtlLWNsaWVudC1zZWNyZXQ="
    assert SECRETS.hide("fake-client-secret") == "(client_secret)"


async def test_what_can_not_be_logged_in_to_says_what_to_do(tmp_path, authority):
    authority.registers = False
    async with guarded(tmp_path, authority) as fleet:
        login = await fleet.log_in("guarded", (), 20)
        assert login.state == "failed" and "oauth.client_id" in (login.error or "")
    taken = {"oauth": {"redirect_port": int(authority.base.rpartition(":")[2])}}
    async with guarded(tmp_path, authority, **taken) as fleet:
        login = await fleet.log_in("guarded", (), 20)
        assert "oauth.redirect_port" in (login.error or "")
    for settings, said in (
        ({"headers": {"Authorization": "Bearer fake-key"}}, "remove that first"),
        ({"protocol": "stdio", "command": "true"}, "env or args"),
    ):
        async with guarded(tmp_path, authority, **settings) as fleet:
            with pytest.raises(LoginError, match=said):
                await fleet.log_in("guarded", (), 20)
    with pytest.raises(ValueError, match="on this machine"):
        place("https://elsewhere.example/callback")


async def test_a_scope_that_is_missing_is_named_and_asked_for(tmp_path, authority):
    async with guarded(tmp_path, authority) as fleet:
        await log_in(fleet, "read")
        authority.missing_scope = "admin"
        with pytest.raises(
            CallError, match="lacks the scope admin: run `mcpproxy auth login guarded`"
        ):
            await fleet.call("guarded", "echo", {})
        authority.missing_scope = None
        await fleet.call("guarded", "echo", {})  # what else may be done is no answer to that
        assert "lacks the scope" in fleet.status()[0]["login"]["error"]
        await log_in(fleet)
        assert fleet.status()[0]["login"]["error"] is None
        assert authority.authorized[-1]["scope"] == "read admin"
        await fleet.call("guarded", "echo", {})


@pytest.mark.threat("U6")
async def test_a_token_goes_to_the_address_it_was_given_for_and_is_gone_after_a_logout(
    tmp_path, authority
):
    async with guarded(tmp_path, authority) as fleet:
        await log_in(fleet)
    authority.seen.clear()
    async with guarded(tmp_path, authority, url=f"{authority.url}?other=1") as fleet:
        assert state(fleet) == "down" and set(authority.seen) == {None}
    refresh = document(tmp_path)["tokens"]["refresh_token"]
    async with guarded(tmp_path, authority) as fleet:
        assert await fleet.log_out("guarded") and not await fleet.log_out("guarded")
        await until(fleet, lambda: state(fleet) == "down")
    assert authority.revoked == [refresh] and not (tmp_path / "logins" / "guarded.json").exists()


async def test_a_server_that_lets_anybody_in_and_refuses_calls_needs_a_login_too(
    tmp_path, authority
):
    authority.lets_in = True
    async with guarded(tmp_path, authority) as fleet:
        assert state(fleet) == "ready"
        with pytest.raises(CallError, match="did nothing: it needs a login") as refused:
            await fleet.call("guarded", "echo", {})
        assert refused.value.code == "SERVER_UNAVAILABLE" and state(fleet) == "ready"
        assert fleet.status()[0]["login"]["state"] == "login needed"
        await log_in(fleet)
        await fleet.call("guarded", "echo", {})


async def test_a_client_may_be_known_by_a_document(tmp_path, authority):
    authority.takes_documents = True
    document = "https://us.example/mcpproxy.json"
    async with guarded(tmp_path, authority, oauth={"client_metadata_url": document}) as fleet:
        await log_in(fleet)
    assert authority.authorized[0]["client_id"] == document and authority.registered == []


async def test_a_new_token_that_is_refused_as_well_is_not_renewed_again_and_again(
    tmp_path, authority
):
    async with guarded(tmp_path, authority) as fleet:
        await log_in(fleet)
        authority.accepts = False
        for _ in range(3):
            with pytest.raises(CallError, match="it needs a login"):
                await fleet.call("guarded", "echo", {})
        assert authority.renewals == 1


@pytest.mark.parametrize(
    ("body", "said"), [(b'{"error": "x"}', "x"), (b"[", ""), (b"[" * 10**5, ""), (b"[]", "")]
)
def test_what_an_authorization_server_says_is_read_as_far_as_it_is_anything(body, said):
    assert grant._error_of(httpx2.Response(400, content=body)) == said
