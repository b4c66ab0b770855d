"""Named secrets: kept, found at the last moment, and shown to nobody on the way."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import anyio
import anyio.to_thread
import keyring
import keyring.backend
import pytest
from asgi import Client, http
from click.testing import CliRunner
from keyring.backends import fail
from upstreams import wanted

from mcpproxy import discreet
from mcpproxy.cli import main
from mcpproxy.errors import Refused
from mcpproxy.redaction import SECRETS
from mcpproxy.rest.routing import Request
from mcpproxy.rest.secrets import Secrets
from mcpproxy.settings import OAuth, ServerSettings
from mcpproxy.upstream.dial import program
from mcpproxy.upstream.fleet import open_fleet
from mcpproxy.upstream.references import References, Unreachable
from mcpproxy.vault import Vault, VaultError


class Keyring(keyring.backend.KeyringBackend):
    """A keyring in memory; `locked` is one that nobody unlocks."""

    priority = 0

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service, username):
        if self.locked:
            raise RuntimeError("it is locked")
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password

    def delete_password(self, service, username):
        del self.kept[service, username]


@pytest.fixture
def system_keyring():
    mine = Keyring()
    keyring.set_keyring(mine)
    yield mine
    keyring.set_keyring(fail.Keyring())


def test_without_a_keyring_secrets_are_in_a_file_of_this_user_alone(tmp_path):
    vault = Vault(tmp_path / "state")
    assert vault.set("TOKEN", "fake-value-1") == "file"
    assert vault.get("TOKEN") == "fake-value-1" and vault.names() == {"TOKEN": "file"}
    assert stat.S_IMODE(vault.path.stat().st_mode) == 0o600
    assert vault.delete("TOKEN") and not vault.delete("TOKEN")
    assert vault.get("TOKEN") is None and vault.names() == {}


def test_several_who_set_secrets_at_once_lose_none(tmp_path):
    def provide(who):
        vault = Vault(tmp_path)
        for n in range(10):
            vault.set(f"{who}{n}", "fake-value")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(provide, "abcd"))
    assert len(Vault(tmp_path).names()) == 40


def test_with_a_keyring_the_file_has_names_alone(tmp_path, system_keyring):
    vault = Vault(tmp_path)
    assert vault.set("TOKEN", "fake-value-2") == "keyring"
    assert system_keyring.kept == {("mcpproxy", "TOKEN"): "fake-value-2"}
    assert "fake" not in vault.path.read_text(encoding="utf-8")
    assert vault.get("TOKEN") == "fake-value-2" and vault.names() == {"TOKEN": "keyring"}
    system_keyring.kept["mcpproxy", "OTHER"] = "set by another program"
    assert vault.get("OTHER") == "set by another program"
    assert vault.delete("OTHER") and vault.delete("TOKEN") and system_keyring.kept == {}


def test_what_can_not_be_kept_or_read_says_why(tmp_path, system_keyring):
    vault = Vault(tmp_path)
    for name, value, said in (("a b", "x", "letters"), ("A", "", "1 to")):
        with pytest.raises(VaultError, match=said):
            vault.set(name, value)
    system_keyring.locked = True
    with pytest.raises(VaultError, match=r"it is locked.*PYTHON_KEYRING_BACKEND"):
        vault.get("A")
    vault.path.write_text("[", encoding="utf-8")
    with pytest.raises(VaultError, match=r"secrets\.json can't be read"):
        vault.names()


@pytest.mark.threat("U2")
async def test_a_reference_to_a_secret_is_resolved_for_its_server_alone(tmp_path):
    vault = Vault(tmp_path)
    vault.set("TOKEN", "fake-value-3")
    settings = ServerSettings(
        name="s", command="sh", args=["--key=${keyring:TOKEN}"], env={"B": "${keyring:GONE}"}
    )
    references = References({"PATH": "/bin:/usr/bin"}, vault)
    await references.fetch(settings)
    with pytest.raises(Unreachable, match=r"env\.B.*keyring:GONE.*mcpproxy secrets set GONE"):
        program(settings, references)
    vault.set("GONE", "fake-value-4")
    await references.fetch(settings)
    planned = program(settings, references)
    assert planned.command[1:] == ["--key=fake-value-3"] and planned.env["B"] == "fake-value-4"
    written = ServerSettings(name="w", command="sh", args=["--token", "not-a-real-token"])
    assert program(written, references).command[2] == "not-a-real-token"
    assert SECRETS.hide("not-a-real-token") == "(hidden)"
    assert "fake" not in repr(references) + SECRETS.hide(f"{planned.command} {planned.env}")


async def test_a_keyring_that_fails_is_the_reason_why_a_server_is_down(tmp_path, system_keyring):
    system_keyring.locked = True
    settings = ServerSettings(name="s", url="http://h/${keyring:A}")
    with pytest.raises(Unreachable, match="it is locked"):
        await References({}, Vault(tmp_path)).fetch(settings)


def test_a_word_under_an_ordinary_name_stays_in_texts():
    references = References({"MODE": "production", "DB_PASSWORD": "swordfish", "HOME": "/home/me"})
    assert references.resolve("${env:MODE} ${env:DB_PASSWORD} ${env:HOME}", "env.A")
    assert SECRETS.hide("production swordfish /home/me") == "production ${env:DB_PASSWORD} /home/me"


@pytest.mark.threat("L3")
def test_settings_are_shown_with_references_and_without_values():
    SECRETS.add("fake-value-5", "${env:FIVE}")
    server = ServerSettings(
        name="s",
        url="https://me:fake-a@h/fake0fake0fake0fake0fake0/mcp?key=fake-b&team=${env:TEAM}",
        headers={"Authorization": "Bearer ${env:T}", "X-Key": "fake-c", "Accept": "text/plain"},
        env={"A": "${keyring:A}fake-d", "B": "fake-e"},
        oauth=OAuth(client_id="us", client_secret="fake-h", extra_params={"audience": "fake-i"}),
        args=["--api-key", "fake-f", "--token=fake-g", "--token=${env:T}", "--port", "1", "fake-value-5"],
    )  # fmt: skip
    shown = discreet.shown(server)
    assert "fake" not in json.dumps(shown)
    assert shown["url"] == "https://(hidden)@h/(hidden)/mcp?key=(hidden)&team=${env:TEAM}"
    assert shown["headers"] == {
        "Authorization": "Bearer ${env:T}", "X-Key": "(hidden)", "Accept": "text/plain",
    }  # fmt: skip
    assert shown["env"] == {"A": "${keyring:A}(hidden)", "B": "(hidden)"}
    assert shown["args"][1:] == [
        "(hidden)", "--token=(hidden)", "--token=${env:T}", "--port", "1", "${env:FIVE}",
    ]  # fmt: skip


def test_the_command_takes_values_from_a_pipe_and_shows_none(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPPROXY_DATA_DIR", str(tmp_path / "state"))
    config = tmp_path / "c.json"
    config.write_text(
        '{"api_key": "k", "listen": "127.0.0.1:1", "mcpServers": {"s": {"url": "http://h/${keyring:PIN}"}}}',
        encoding="utf-8",
    )

    def run(*words, given="", status=0):
        done = CliRunner().invoke(main, ["secrets", *words, "-c", str(config)], input=given)
        assert done.exit_code == status and "fake" not in done.output, done.output
        return done.output

    assert "${keyring:A_KEY}" in run("set", "A_KEY", given="fake-value\n")
    assert "fewer than 6" in run("set", "PIN", given="fake")
    assert Vault(tmp_path / "state").get("A_KEY") == "fake-value"
    assert run("list").splitlines()[1:] == ["A_KEY  file", "PIN    file     s"]
    assert run("delete", "A_KEY") == "A_KEY is gone\n"
    warned = run("delete", "PIN")
    assert "${keyring:PIN} by s," in warned and "mcpproxy secrets set PIN" in warned
    assert "there is no secret" in run("delete", "A_KEY", status=2)
    assert "letters" in run("set", "a b", given="fake", status=2)


async def test_who_deletes_a_secret_over_rest_hears_which_servers_refer_to_it(tmp_path):
    fleet = SimpleNamespace(refer_to=lambda name: ["wiki"] if name == "PIN" else [])
    daemon = SimpleNamespace(vault=Vault(tmp_path), fleet=fleet)
    daemon.vault.set("PIN", "fake-value")
    at = http("DELETE", "/api/v1/secrets/PIN")
    request = Request(at, Client().receive, {"name": "PIN"}, {}, {})
    (delete,) = (each for each in Secrets(daemon).routes() if each.method == "DELETE")
    assert await delete.handle(request) == {"name": "PIN", "removed": True, "servers": ["wiki"]}
    with pytest.raises(Refused, match="no secret 'PIN'"):
        await delete.handle(request)


@pytest.mark.threat("L3")
async def test_a_server_waits_for_its_secret_and_can_not_have_it_shown(tmp_path):
    """What it says of it, in its log or as its last words, has the reference instead."""
    server = ServerSettings(
        name="talks", command="sh", args=["-c", "echo got ${keyring:IT} >&2; exit 1"]
    )
    vault = Vault(tmp_path)
    async with open_fleet(wanted(server), {"PATH": "/bin:/usr/bin"}, tmp_path, tmp_path) as fleet:
        with anyio.fail_after(10):
            await fleet.settled()
            assert "mcpproxy secrets set IT" in fleet.status()[0]["error"]
            assert fleet.refer_to("IT") == ["talks"] and fleet.refer_to("OTHER") == []
            await anyio.to_thread.run_sync(vault.set, "IT", "fake-value-6")
            fleet.reconnect("talks")
            await fleet.settled()
        assert "got ${keyring:IT}" in fleet.status()[0]["error"]
    assert "got ${keyring:IT}" in (tmp_path / "server-talks.log").read_text(encoding="utf-8")
