"""APIs behind documents: credentials, answers, where requests go, and what becomes of a document."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from apis import document, open_document, parameter, put
from packs import serving_site
from pages import blocks, page
from test_toolpack_http import Site
from upstreams import until

from mcpproxy.catalog import Tool
from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.openapi import source
from mcpproxy.upstream.openapi.reading import Wanted, load
from mcpproxy.upstream.openapi.security import Client


@pytest.fixture
async def site():
    async with serving_site(Site) as site:
        yield site


# ── credentials ─────────────────────────────────────────────────────────────────────────────────

SCHEMES = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
SECRET = "plainly-fake:secret"


@pytest.mark.parametrize(
    ("scheme", "where", "sent"),
    [
        ("header", "x-key", SECRET),
        ("query", "target", "/x?key=plainly-fake%3Asecret"),
        ("cookie", "cookie", f"sid={SECRET}"),
        ("basic", "authorization", f"Basic {base64.b64encode(SECRET.encode()).decode()}"),
        ("bearer", "authorization", f"Bearer {SECRET}"),
    ],
)
async def test_a_credential_is_sent_as_its_scheme_says(tmp_path, site, scheme, where, sent):
    paths = {
        "/x": {"get": {"operationId": "with", "security": [{"none": []}, {scheme: []}]}},
        "/y": {"get": {"operationId": "without", "security": []}},
    }
    more = {"components": {"securitySchemes": {**SCHEMES, "none": SCHEMES["bearer"]}}}
    file = put(tmp_path, document(paths, origin=site.origin, **more))
    seen: list[Any] = []
    answer = site.answer

    async def noted(method: str, target: str, headers: Any, body: str) -> Any:
        seen.append({**headers, "target": target})
        return await answer(method, target, headers, body)

    site.answer = noted
    async with open_document(file, auth={scheme: SECRET}) as api:
        echoed = await api.result("with")
        await api.call("without")
    assert seen[0][where] == sent
    assert sent not in json.dumps(seen[1]) and "key=" not in seen[1]["target"]
    shown = json.dumps(echoed)
    assert SECRET not in shown and sent not in shown and "plainly-fake%3A" not in shown


@pytest.mark.threat("O3")
async def test_what_an_api_or_an_error_says_shows_no_credential(tmp_path, site):
    """The site gives back all that it was sent, and fails as its path says."""
    paths = {"/missing": {"get": {"operationId": "get"}}, "/echo": {"get": {"operationId": "echo"}}}
    more = {"components": {"securitySchemes": SCHEMES}, "security": [{"query": [], "basic": []}]}
    file = put(tmp_path, document(paths, origin=site.origin, **more))
    auth = {"query": "plainly-fake-query-key", "basic": "ada:plainly-fake-password"}
    async with open_document(file, auth=auth) as api:
        for name in ("get", "echo"):
            text = json.dumps(await api.result(name))
            assert "(key)" in text or name == "get"
            assert "plainly-fake" not in text
            assert base64.b64encode(auth["basic"].encode()).decode() not in text
        site.port = 1  # nothing listens there
        api.source.api.operations["echo"] = replace(
            api.source.api.operations["echo"], base="http://127.0.0.1:1"
        )
        assert "plainly-fake" not in json.dumps(await api.result("echo"))
        assert "plainly-fake" not in repr(api.source.api) + repr(api.source.wanted)


class Bank(Site):
    """Gives tokens, and takes each of them once."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.tokens = 0

    async def answer(self, method, target, headers, body):
        if target == "/token":
            client = base64.b64encode(b"me:plainly-fake-secret").decode()
            if headers["authorization"] != f"Basic {client}":
                return 400, "", {"error": "invalid_client"}
            assert parse_qsl(body) == [("grant_type", "client_credentials"), ("scope", "a b")]
            self.tokens += 1
            return 200, "", {"access_token": f"fake-token-{self.tokens}", "expires_in": 3600}
        fine = headers.get("authorization") == "Bearer fake-token-2"
        return (200, "", {"sent": True}) if fine else (401, "", {"error": "expired"})


async def test_a_token_is_got_once_and_anew_when_it_is_refused(tmp_path):
    async with serving_site(Bank) as bank:
        flow = {"tokenUrl": f"{bank.origin}/token", "scopes": {}}
        scheme = {"type": "oauth2", "flows": {"clientCredentials": flow}}
        more = {"components": {"securitySchemes": {"o": scheme}}, "security": [{"o": []}]}
        file = put(tmp_path, document({"/x": {"get": {}}}, origin=bank.origin, **more))
        client = Client("", "me", "plainly-fake-secret", ("a", "b"))
        async with open_document(file, auth={"o": client}) as api:
            assert (await api.call("get_x"))["details"]["status"] == 401
            assert await api.call("get_x") == {"sent": True}
            assert await api.call("get_x") == {"sent": True}
        assert bank.tokens == 2
        wrong = replace(client, client_secret="other-fake-secret")
        async with open_document(file, auth={"o": wrong}) as api:
            code, message = await api.error("get_x")
        assert code == "EINTERNAL" and "client_id 'me'" in message and "check auth" in message


# ── answers ─────────────────────────────────────────────────────────────────────────────────────


class Answers(Site):
    async def answer(self, method, target, headers, body):
        match target:
            case "/busy":
                return 429, "retry-after: 7\r\n", {"reason": "busy"}
            case "/down":
                return 503, "content-type: text/html\r\n", b"<h1>down</h1>"
            case "/nothing":
                return 204, "", b""
            case "/list":
                return 200, "content-type: application/json\r\n", [1, 2]
            case "/image":
                return 200, "content-type: image/png\r\n", b"\x89PNG"
            case "/bytes":
                return 200, "content-type: application/zip\r\n", b"PK\x03\x04\xff"
            case "/text":
                return 200, "content-type: text/csv\r\n", b"1,2"
            case "/nan":
                return 200, "content-type: application/json\r\n", b'{"a": NaN}'
        return 200, "content-type: application/problem+json\r\n", {"ok": 1}


async def test_an_answer_is_json_text_or_bytes_and_a_failure_has_status_and_body(tmp_path):
    names = ("busy", "down", "nothing", "list", "image", "bytes", "text", "nan", "json")
    paths = {f"/{name}": {"get": {"operationId": name}} for name in names}
    async with serving_site(Answers) as site:
        file = put(tmp_path, document(paths, origin=site.origin))
        async with open_document(file) as api:
            found = {name: await api.result(name) for name in names}
            busy = await api.call("busy")
            down = await api.call("down")
    (shown,) = [each for each in blocks(page("docs/openapi.md"), "json") if "error" in each]
    assert {"error": busy} == json.loads(shown)
    assert found["busy"]["isError"] is True
    assert down["details"] == {"status": 503, "body": "<h1>down</h1>"}
    assert found["nothing"] == {"content": [{"type": "text", "text": ""}]}
    assert json.loads(found["list"]["content"][0]["text"]) == [1, 2]
    assert "structuredContent" not in found["list"] and "structuredContent" not in found["nan"]
    assert found["image"]["content"] == [
        {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}
    ]
    resource = found["bytes"]["content"][0]["resource"]
    assert base64.b64decode(resource["blob"]) == b"PK\x03\x04\xff"
    assert (resource["uri"], resource["mimeType"]) == ("openapi:bytes", "application/zip")
    assert found["text"] == {"content": [{"type": "text", "text": "1,2"}]}
    assert found["json"]["structuredContent"] == {"ok": 1}


async def test_an_answer_that_is_too_large_is_refused(tmp_path, site, monkeypatch):
    monkeypatch.setattr(source, "LARGEST_ANSWER", 900)
    file = put(tmp_path, document({"/large": {"get": {}}}, origin=site.origin))
    async with open_document(file) as api:
        assert await api.error("get_large") == ("ECAP", "its answer is larger than 900 bytes")


async def test_a_schema_whose_references_lead_very_deep_is_left_to_the_api(tmp_path, site):
    def link(n):
        return {"properties": {"next": {"items": {"$ref": f"#/components/schemas/S{n + 1}"}}}}

    schemas = {f"S{n}": link(n) for n in range(500)} | {"S500": {"type": "string"}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    paths = {"/x": {"post": {"operationId": "p", "requestBody": body}}}
    found = document(paths, origin=site.origin, components={"schemas": schemas})
    async with open_document(put(tmp_path, found)) as api:
        assert (await api.call("p", body={}))["target"] == "/x"


# ── where requests go ───────────────────────────────────────────────────────────────────────────


@pytest.mark.threat("O2")
async def test_a_private_address_that_only_the_document_names_is_not_reached(tmp_path, site):
    file = put(
        tmp_path,
        document(
            {"/x": {"get": {}}, "/to?302&http://localhost:PORT/": {"get": {"operationId": "far"}}},
            origin=site.origin,
        ),
    )
    async with open_document(file, allow_hosts=frozenset()) as api:
        code, message = await api.error("get_x")
        assert code == "EINTERNAL" and "not public" in message and "allow_hosts" in message
    async with open_document(file, allow_hosts=frozenset(), base_url=site.origin) as api:
        assert (await api.call("get_x"))["target"] == "/x"
        assert "redirected to another host" in (await api.error("far"))[1]


@pytest.mark.threat("O2")
async def test_a_document_of_a_url_can_not_send_credentials_to_another_host(tmp_path):
    more = {"components": {"securitySchemes": SCHEMES}, "security": [{"bearer": []}]}
    there = json.dumps(
        document({"/x": {"get": {}}}, origin="https://evil.example", **more)
    ).encode()
    wanted = Wanted("https://api.example/openapi.json", auth={"bearer": SECRET})
    (fault,) = load(wanted, there).faults
    assert "sends credentials to evil.example" in fault.reason and "set base_url" in fault.reason
    for allowed in (
        replace(wanted, allow_hosts=frozenset({"evil.example"})),
        replace(wanted, base_url="https://api.example/v2"),
        replace(wanted, auth={}),
    ):
        assert load(allowed, there).faults == ()
    flow = {"clientCredentials": {"tokenUrl": "https://evil.example/token", "scopes": {}}}
    more = {"components": {"securitySchemes": {"o": {"type": "oauth2", "flows": flow}}}}
    there = json.dumps(document({}, origin="/", **more)).encode()
    with pytest.raises(Bad, match=r"to evil\.example"):
        load(replace(wanted, auth={"o": Client("", "me", "plainly-fake-secret")}), there)


# ── its life ────────────────────────────────────────────────────────────────────────────────────


class Publisher(Site):
    """Has the document of itself, in as many versions as it has operations."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.names = ["a"]

    async def answer(self, method, target, headers, body):
        if target == "/v1/openapi.json":
            if not self.names:
                return 200, "", b"{"
            paths = {f"/{name}": {"get": {}} for name in self.names}
            return 200, "", document(paths, origin="/v1")
        return await super().answer(method, target, headers, body)


async def test_a_document_of_a_url_is_fetched_anew(tmp_path):
    async with serving_site(Publisher) as site:
        url = f"{site.origin}/v1/openapi.json"
        async with open_document(url, refresh=0.01, allow_hosts=frozenset()) as api:
            assert (await api.call("get_a"))["target"] == "/v1/a"
            site.names = []
            await until(lambda: any("can't be used" in line for line in api.said))
            assert list(api.source.api.operations) == ["get_a"] and api.told == []
            site.names = ["a", "b"]
            await until(lambda: api.told == ["tools"])
            assert list(api.source.api.operations) == ["get_a", "get_b"]


async def test_a_file_is_read_again_when_it_changes_and_the_last_good_one_holds(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(source, "LOOK_SECONDS", 0.01)
    file = put(tmp_path, document({"/a": {"get": {}}}))
    async with open_document(file) as api:
        put(tmp_path, "{")
        await until(lambda: len(api.said) == 1)
        assert "api.json:1 can't be used" in api.said[0] and "it stays as it was" in api.said[0]
        put(tmp_path, document({"/b": {"get": {}}}))
        await until(lambda: api.told == ["tools"])
        assert [each["name"] for each in api.source.tools()] == ["get_b"]


async def test_which_request_a_tool_makes_is_approved_with_it(tmp_path):
    async def runs(origin, **wanted):
        paths = {
            "/a/{b}": {"get": {"operationId": "get_a", "parameters": [parameter("path", "b")]}}
        }
        found = put(tmp_path, document(paths, origin=origin))
        async with open_document(found, **wanted) as api:
            return Tool("api", api.source.tools()[0]).runs

    assert await runs("http://127.0.0.1:1") == {"method": "GET", "url": "http://127.0.0.1:1/a/{b}"}
    same = [await runs(f"http://127.0.0.1:{n}", base_url="http://127.0.0.1:3") for n in (1, 2)]
    assert same == [{"method": "GET", "url": "/a/{b}"}] * 2
