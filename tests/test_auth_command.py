"""`mcpproxy auth` through a running daemon and without one, and `mcpproxy secrets` through one."""

from __future__ import annotations

import json
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from authority import Authority, open_authority
from click.testing import CliRunner, Result
from running import Home, home

from mcpproxy.cli import main
from mcpproxy.cli.doctor import about

PAGE = Path(__file__).parents[1] / "docs" / "servers.md"
PAGE_BLOCK = PAGE.read_text(encoding="utf-8").partition("```console\n")[2].partition("```")[0]


@pytest.fixture
def authority() -> Iterator[Authority]:
    """In a thread of its own: commands block."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_authority()) as found,
    ):
        yield found


@pytest.fixture
def browsed(monkeypatch) -> list[str]:
    """The addresses that a browser was sent to, where a person has allowed everything at once."""
    found: list[str] = []

    def browse(url: str) -> bool:
        found.append(url)
        with urllib.request.urlopen(url, timeout=20) as page:
            return b"close this page" in page.read()

    monkeypatch.setattr(webbrowser, "open", browse)
    return found


def auth(place: Home, *words: str, status: int = 0) -> Result:
    return run(place, "auth", *words, status=status)


def run(place: Home, *words: str, given: str = "", status: int = 0) -> Result:
    environ = {**place.environ, "BROWSER": "as the test says", "SSH_CONNECTION": "x"}
    words = (*words, "--config", str(place.config))
    done = CliRunner().invoke(main, words, input=given, env=environ)
    assert done.exit_code == status, (done.output, done.exception)
    return done


def wiki(authority: Authority) -> dict[str, object]:
    return {"name": "wiki", "url": authority.url, "protocol": "http"}


@pytest.mark.threat("U6")
def test_a_daemon_logs_in_and_out(authority, browsed):
    local = {"name": "local", "command": "true", "env": {"A": "${keyring:A_KEY}"}}
    servers = [wiki(authority), local]
    call = "return call_tool('wiki', 'echo', {})"
    with home(mcpServers=servers, logging={"level": "debug"}) as place:
        with place.serving() as serving:
            assert "has not asked" in auth(place, "status", "local", status=2).stderr
            assert "env or args" in auth(place, "login", "local", status=2).stderr
            assert "there is no server" in auth(place, "login", "none", status=2).stderr
            authority.denies = True
            assert "access_denied" in auth(place, "login", "wiki", status=1).stderr
            authority.denies = False
            assert "login needed" in auth(place, "status", "wiki", status=1).stdout
            done = auth(place, "login", "wiki", "--scope", "read")
            assert done.stdout == "logged in to wiki, which is ready\n"
            assert browsed[1] in done.stderr and "ssh -L" in done.stderr
            assert authority.authorized[0]["scope"] == "read"
            assert "renewed by itself  read" in auth(place, "status").stdout
            [shown] = json.loads(auth(place, "status", "wiki", "--json").stdout)
            assert shown["state"] == "logged in" and shown["error"] is None
            assert serving.execute(call)["value"]["ok"] is True
            auth(place, "logout", "wiki")
            assert "no login" in auth(place, "logout", "wiki", status=2).stderr
            error = serving.execute(call)["value"]["error"]
            assert error["code"] == "SERVER_UNAVAILABLE"
            assert "mcpproxy auth login wiki" in error["message"]
            listed = serving.ask("GET", "/api/v1/servers").body["data"]["servers"]
            assert about(listed[0]).remedy == "mcpproxy auth login wiki"
            assert about(listed[1]).remedy == "mcpproxy secrets set A_KEY"
            done = run(place, "secrets", "set", "A_KEY", given="not-a-real-key\n")
            assert "connecting anew: local" in done.stdout
            assert run(place, "secrets", "list").stdout.splitlines()[1] == "A_KEY  file     local"
            run(place, "secrets", "delete", "A_KEY")
            assert "no secret" in run(place, "secrets", "delete", "A_KEY", status=2).stderr
        said = (place.places.logs / "mcpproxy.log").read_text(encoding="utf-8")
        assert "wiki" in said and not any(token in said for token in authority.tokens)


def test_without_a_daemon_it_logs_in_by_itself(authority, browsed):
    with home(mcpServers=[wiki(authority)]) as place:
        commands = [line.split() for line in PAGE_BLOCK.splitlines()]
        done = auth(place, *commands[0][2:])
        assert done.stdout == "logged in to wiki, which is ready\n" and len(browsed) == 1
        kept = place.places.state / "logins" / "wiki.json"
        assert json.loads(kept.read_bytes())["client"]["client_id"] == "client-1"
        assert "logged in" in auth(place, *commands[1][2:]).stdout
        auth(place, *commands[2][2:])
        assert len(commands) == 3 and not kept.exists() and len(authority.revoked) == 1
