"""API documents from the configuration to a program's calls: the example, the page, the commands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import anyio
import pytest
from apis import document, put
from click.testing import CliRunner
from packs import ENVIRON, serving_site
from test_toolpack_http import Site
from upstreams import until, wanted
from warm import share_compiled

from mcpproxy import jsonc, settings
from mcpproxy.approvals import identity
from mcpproxy.cli import main
from mcpproxy.cli.doctor import documents
from mcpproxy.direct import direct
from mcpproxy.discreet import shown
from mcpproxy.embedded import Proxy
from mcpproxy.settings import ServerSettings
from mcpproxy.upstream.fleet import open_fleet
from mcpproxy.upstream.openapi import source

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "openapi"
PAGE = (ROOT / "docs" / "openapi.md").read_text(encoding="utf-8")
CARD = "plainly-fake-card-1"


class Library(Site):
    """The API of the example. There is one copy of each book but the last, and no two loans of a book."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.lent: list[int] = []

    async def answer(self, method, target, headers, body):
        if headers.get("x-library-card") != CARD:
            return 401, "", {"reason": "no card"}
        if method == "GET" and target == "/v1/books?subjects=bees,honey&page[size]=2":
            titles = ("Bees", "Honey", "Wax")
            books = [{"id": n, "title": each, "copies": 2 - n} for n, each in enumerate(titles)]
            return 200, "content-type: application/json\r\n", books
        if method == "POST" and target == "/v1/loans":
            loan = json.loads(body)
            if loan["book"] == 1:
                return 409, "content-type: application/json\r\n", {"reason": "it is being bound"}
            self.lent.append(loan["book"])
            return 201, "content-type: application/json\r\n", loan
        return 404, "", {"reason": f"{method} {target}"}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def invoke(*words, status=0):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


async def test_the_example_is_a_server_whose_operations_a_program_calls(tmp_path):
    config = jsonc.loads((EXAMPLE / "mcp_config.json").read_text(encoding="utf-8"))
    (entry,) = config["mcpServers"]
    assert entry["document"] == "~/openapi/library.yaml"
    async with serving_site(Library) as site:
        entry |= {"document": str(EXAMPLE / "library.yaml"), "base_url": f"{site.origin}/v1"}
        given = {"subjects": ["bees", "honey"], "most": 2, "reader": "Ada", "due": "2026-12-24"}
        code = (EXAMPLE / "lend-all.ts").read_text(encoding="utf-8")
        environ = {**ENVIRON, "LIBRARY_CARD": CARD}
        config |= {"code_execution_pool_size": 1, "data_dir": str(tmp_path)}
        share_compiled(tmp_path)
        async with Proxy(config, environ=environ) as proxy:
            with anyio.fail_after(20):
                done = await proxy.execute(code, given, language="typescript")
                shown = await proxy.execute("return tools.library.getBook({id: 7}).then(() => 1, (e) => [e.code, e.message])")  # fmt: skip
            catalog = proxy.daemon.fleet.catalog
            names = list(catalog.servers["library"].tools)
            listed = [direct(tool, catalog, cuts=False) for tool in catalog.tools()]
    assert names == ["listBooks", "getBook", "lend"]
    assert ["outputSchema" in each for each in listed] == [False, True, True]  # a list, and objects
    assert done.value["lent"] == ["Bees"] and site.lent == [0]
    (failed,) = done.value["failed"]
    assert failed["title"] == "Honey" and "HTTP 409" in failed["why"] and "bound" in failed["why"]
    code, message = shown.value
    assert code == "TOOL_ERROR" and '"status": 404' in message and CARD not in message


def test_the_example_names_its_files():
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLE.iterdir():
        assert path.name == "README.md" or f"({path.name})" in readme


def test_the_commands_add_a_document_by_its_file_or_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "c.json"
    empty = {"api_key": "plainly-fake-key", "listen": "127.0.0.1:1", "mcpServers": []}
    config.write_text(json.dumps(empty), encoding="utf-8")
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    text = "".join(blocks("sh")) + readme.split("```sh\n")[1].split("mcpproxy code")[0].replace("add library", "add other")  # fmt: skip
    for line in text.splitlines():
        invoke(*shlex.split(line)[1:], "-c", config)
    found = settings.load(config, {})
    assert found.warnings == []
    assert [(each.name, each.document, each.base_url) for each in found.settings.servers] == [
        ("library", str(tmp_path / "library.yaml"), None),
        ("petstore", "https://petstore.example/openapi.json", None),
        ("other", str(tmp_path / "examples/openapi/library.yaml"), "http://127.0.0.1:9000/v1"),
    ]
    done = invoke("upstream", "add", "x", "-c", config, "--url", "http://x", "--base-url", "http://y", status=2)  # fmt: skip
    assert "give its --document" in done.stderr


def test_the_page_s_configurations_are_valid_and_its_table_is_complete(tmp_path):
    texts = [each for each in blocks("json") if "mcpServers" in each]
    texts.append((EXAMPLE / "mcp_config.json").read_text(encoding="utf-8"))
    for text in texts:
        loaded = settings.check(tmp_path / "c.json", json.loads(text), {})
        assert loaded.warnings == [] and loaded.settings.servers[0].protocol == "openapi"
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`\w+`(?:, `\w+`)?) \| ", PAGE, re.M)))
    assert {"document", "document_refresh", "base_url", "include", "exclude", "auth", "headers", "allow_hosts"} <= set(listed)  # fmt: skip
    assert set(listed) & set(ServerSettings.model_fields) == set(listed) - {"apiKey", "http", "oauth2"}  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "document of 'x' must be a URL or an absolute path"),
        ({"document": "library.yaml"}, "must be a URL or an absolute path"),
        (
            {"document": "/a.yaml", "base_url": "api.example"},
            "base_url of 'x' must be a URL",
        ),
        ({"document": "/a.yaml", "auth": {"a": {"client_id": "me"}}}, "client_secret"),
    ],
)
def test_a_setting_that_can_not_be_is_named(tmp_path, entry, reason):
    entry = {"name": "x", "protocol": "openapi", **entry}
    found = settings.check(tmp_path / "c.json", {"mcpServers": [entry]}, {})
    assert reason in found.server_errors["x"]


async def test_its_references_are_resolved_and_what_is_wrong_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LOOK_SECONDS", 0.05)
    more = {"components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}}
    async with serving_site(Site) as site:
        paths = {"/x": {"get": {"security": [{"key": []}]}}, "/bad": {"get": 3}}
        file = put(tmp_path, document(paths, origin=site.origin, **more))
        settings = {"protocol": "openapi", "document": file, "headers": {"X-Own": "${env:OWN}"}}
        good = ServerSettings(name="good", auth={"key": "${env:KEY}"}, allow_hosts=["127.0.0.1"], **settings)  # fmt: skip
        lacking = ServerSettings(name="lacking", auth={"key": "${env:NONE}"}, **settings)
        absent = ServerSettings(name="absent", **{**settings, "document": f"{file}.no"})
        environ = {"OWN": "own-value", "KEY": "plainly-fake-key-9"}
        logs = tmp_path / "logs"
        async with open_fleet(wanted(good, lacking, absent), environ, logs) as fleet:
            with anyio.fail_after(20):
                await fleet.settled()
                found = {each["name"]: each for each in fleet.status()}
                assert found["good"]["state"] == "ready"
                assert "auth.key refers to ${env:NONE}" in found["lacking"]["error"]
                assert "can't be used: it can't be read: No such file" in found["absent"]["error"]
                result = await fleet.call("good", "get_x", {})
                told = json.loads(result["content"][0]["text"])["headers"]
                assert told["authorization"] == "Bearer ${env:KEY}" or "fake" not in str(told)
                assert told["x-own"] == "own-value"
                written = "".join(each.read_text(encoding="utf-8") for each in logs.iterdir())
                assert "GET /bad: it must be an object; it is left out" in written
                put(tmp_path, document({"/y": {"get": {}}}, origin=site.origin, **more))
                await until(lambda: fleet.catalog.tool("good", "get_y") is not None)


def test_doctor_names_the_operations_that_are_left_out(tmp_path):
    file = put(tmp_path, document({"/x": {"get": 3}, "/y": {"get": {}}}))
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    servers = [
        ServerSettings(name="mine", protocol="openapi", document=file),
        ServerSettings(name="bad", protocol="openapi", document=str(tmp_path / "bad.json")),
        ServerSettings(name="far", protocol="openapi", document="https://api.example/openapi.json"),
        ServerSettings(name="none", protocol="openapi", document=file, include=["tag:none"]),
    ]
    found = [(each.what, bool(each.remedy)) for each in documents(wanted(*servers))]
    assert found == [
        (f"document of mine has 1 operations in {file}", False),
        ("document of mine: GET /x: it must be an object", True),
        ("document of bad can't be used: it is not valid JSON: Expecting property name enclosed in double quotes", True),
        (f"document of none has 0 operations in {file}", True),
        ("document of none: GET /x: it must be an object", True),
    ]  # fmt: skip


@pytest.mark.threat("O3")
def test_what_is_shown_of_its_settings_has_no_credential():
    oauth = {"client_id": "me", "client_secret": "plainly-fake-1"}
    server = ServerSettings(
        name="x", protocol="openapi", document="https://a:plainly-fake-2@api.example/o?key=plainly-fake-3",
        auth={"key": "plainly-fake-4", "kept": "${keyring:KEPT}", "o": oauth},
    )  # fmt: skip
    found = shown(server)
    assert "plainly-fake" not in json.dumps(found)
    assert found["auth"]["kept"] == "${keyring:KEPT}" and found["auth"]["o"]["client_id"] == "me"
    assert identity(server) == identity(server.model_copy(update={"auth": {}, "include": ["x"]}))
    assert identity(server) != identity(
        server.model_copy(update={"base_url": "https://evil.example"})
    )
