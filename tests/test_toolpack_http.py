"""Tools that are HTTP requests: what is sent, what comes of the answer, and where it never goes."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import httpcore2
import pytest
from packs import open_tools, serving_site, tool

from mcpproxy.upstream import fetching
from mcpproxy.upstream.addresses import never, permitted


class Site:
    """A server on this machine that gives back what it was asked, or what its path says."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []
        self.paused = anyio.Event()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request:
                request += await stream.receive()
            head, _, body = request.partition(b"\r\n\r\n")
            line, *rest = head.decode().split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (each.partition(": ") for each in rest)
            }
            while len(body) < int(headers.get("content-length", 0)):
                body += await stream.receive()
            method, target, _ = line.split(" ")
            self.asked.append(f"{method} {target}")
            status, more, answer = await self.answer(method, target, headers, body.decode())
            if not status:
                return  # without a word
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            length = f"content-length: {len(data)}\r\nconnection: close\r\n"
            await stream.send(f"HTTP/1.1 {status} X\r\n{more}{length}\r\n".encode() + data)

    async def answer(
        self, method: str, target: str, headers: Any, body: str
    ) -> tuple[int, str, Any]:
        if target.startswith("/to?"):
            code, _, place = target.removeprefix("/to?").partition("&")
            return int(code), f"location: {place.replace('PORT', str(self.port))}\r\n", {}
        match target:
            case "/latin":
                return (
                    200,
                    "content-type: text/plain; charset=ISO-8859-1\r\n",
                    "ü".encode("latin-1"),
                )
            case "/missing":
                return 404, "", {"reason": "not here"}
            case "/text":
                return 200, "", "kein JSON: ü".encode()
            case "/bytes":
                return 200, "", b"\xff\xfe\x00"
            case "/large":
                return 200, "", {"x": "y" * 5000}
            case "/slow":
                return 200, "content-type: text/plain; charset=Punycode\r\n", b"x-" + b"a" * 50_000
            case "/gone":
                return 0, "", None
            case "/never":
                self.paused.set()
                await anyio.sleep_forever()
        asked = {"method": method, "target": target, "body": body}
        return 200, "", {**asked, "headers": headers}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving_site(Site) as site:
        yield site


@asynccontextmanager
async def open_site(tmp_path, site, entry, **members):
    """A pack with one tool `get`, whose entry is a path of the site or a whole URL."""
    entry = entry if entry.startswith("http") else site.origin + entry
    members = {"allow_hosts": ["127.0.0.1"], **members}
    (tmp_path / "pack").mkdir()
    tool(tmp_path / "pack", "get", "http", entry=entry, **members)
    async with open_tools(tmp_path / "pack") as pack:
        assert pack.source.pack.faults == ()
        yield pack


async def test_a_request_is_what_the_tool_file_says(tmp_path, site):
    headers = {"X-Token": "{{input.token}}", "Authorization": "Bearer {{ env.SECRET_WORD }}"}
    entry = "/items/{{input.path}}?q={{input.q}}"
    async with open_site(tmp_path, site, entry, headers=headers, env=["SECRET_WORD"]) as pack:
        found = await pack.call("get", path="a/b c", q="x&y=1#/", token="t0")
    assert (found["method"], found["body"]) == ("GET", "")
    assert found["target"] == "/items/a/b%20c?q=x%26y%3D1%23%2F"
    assert found["headers"]["x-token"] == "t0"
    assert found["headers"]["authorization"] == "Bearer open-sesame-77"
    assert found["headers"]["host"] == f"127.0.0.1:{site.port}"


async def test_the_input_is_the_body_of_a_post(tmp_path, site):
    async with open_site(tmp_path, site, "/new", method="POST") as pack:
        found = await pack.call("get", a=[1])
        assert json.loads(found["body"]) == {"a": [1]}
        assert found["headers"]["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/missing", "EINTERNAL", "HTTP 404"),
        ("/bytes", "EINTERNAL", "neither JSON nor text"),
        ("/slow", "EINTERNAL", "neither JSON nor text"),
        ("/large", "ECAP", "larger than 900 bytes"),
        ("/to?302&/to?302&/to?302&/", "EINTERNAL", None),
        ("/to?302&http://[", "EINTERNAL", "no URL"),
        ("/to?302&ftp://127.0.0.1/", "EINTERNAL", "no plain URL"),
        ("/never", "ETIMEOUT", "timeoutMs"),
        ("/gone", "EINTERNAL", "gave no answer (Server disconnected"),
        ("http://127.0.0.1:1/", "EINTERNAL", "127.0.0.1 can't be reached"),
    ],
)
async def test_what_goes_wrong_has_a_code(tmp_path, site, path, code, words):
    limits, time = (
        {"output": 60_000 if path == "/slow" else 900},
        300 if path == "/never" else 20_000,
    )
    async with open_site(tmp_path, site, path, limits=limits, timeoutMs=time) as pack:
        found = await pack.call("get")
    if words is None:  # three redirects are followed
        assert found["target"] == "/"
    else:
        assert found["code"] == code and words in found["message"]


async def test_a_refusal_tells_its_status_and_body(tmp_path, site):
    async with open_site(tmp_path, site, "/missing") as pack:
        found = await pack.call("get")
    assert found["details"] == {"status": 404, "body": {"reason": "not here"}}


@pytest.mark.parametrize(("path", "text"), [("/text", "kein JSON: ü"), ("/latin", "ü")])
async def test_text_is_text(tmp_path, site, path, text):
    async with open_site(tmp_path, site, path) as pack:
        assert await pack.call("get") == text


@pytest.mark.threat("P6")
async def test_what_one_token_may_see_is_not_kept_for_another(tmp_path, site):
    keyed = {"deterministic": True, "templating": {"cacheKey": "{{input.path}}"}}
    headers = {"X-Token": "{{input.token}}"}
    async with open_site(tmp_path, site, "/{{input.path}}", headers=headers, **keyed) as pack:
        for token in ("mine", "mine", "yours"):
            found = await pack.call("get", path="same", token=token)
            assert found["headers"]["x-token"] == token
    assert site.asked == ["GET /same"] * 2


# ── where it never goes ─────────────────────────────────────────────────────────────────────────


HOSTILE = [
    "@evil.test/", "//evil.test/", "\\\\evil.test", "?to=evil", "#f", "x\r\nHost: evil.test\r\n\r\nGET /x",
    "%2e%2e/x", "a b", "é\u202e", "\x00", "{{7*7}}", "{% raw %}", "http://evil.test/", ";x=1", "&a=b",
]  # fmt: skip


@pytest.mark.threat("P3")
@pytest.mark.parametrize("text", HOSTILE)
async def test_no_value_leaves_its_place_in_the_url(tmp_path, site, text):
    async with open_site(tmp_path, site, "/a/{{input.x}}/z?q={{input.x}}&r=1") as pack:
        found = await pack.call("get", x=text)
    path, _, query = found["target"].partition("?")
    assert path.startswith("/a/") and path.endswith("/z") and "#" not in found["target"]
    assert query.startswith("q=") and query.endswith("&r=1") and query.count("&") == 1
    assert len(site.asked) == 1


@pytest.mark.threat("P3")
@pytest.mark.parametrize("text", ["..", ".", "../../admin", "a/../..", "a/./b", "..\\b"])
@pytest.mark.parametrize("written", ["{{input.x}}", "{{input.x | urlencode}}"])
async def test_no_path_climbs(tmp_path, site, text, written):
    async with open_site(tmp_path, site, f"/a/{written}/z") as pack:
        code, message = await pack.error("get", x=text)
    assert code == "EINVAL" and "'..'" in message and site.asked == []


@pytest.mark.threat("P3")
@pytest.mark.parametrize("text", ["a\r\nX-Evil: 1", "a\nb", "a\x00", "a\x7f", "\ud800"])
async def test_no_value_makes_another_header(tmp_path, site, text):
    async with open_site(tmp_path, site, "/", headers={"X-A": "{{input.x}}"}) as pack:
        code, _ = await pack.error("get", x=text)
    assert code == "EINVAL" and site.asked == []


@pytest.mark.threat("P4")
async def test_a_redirect_to_another_host_is_not_followed(tmp_path, site):
    async with open_site(tmp_path, site, "/to?302&http://localhost:PORT/x") as pack:
        code, message = await pack.error("get")
    assert code == "EINTERNAL" and "another host, localhost" in message
    assert len(site.asked) == 1


@pytest.mark.threat("P4")
async def test_one_that_is_allowed_takes_no_secret_along(tmp_path, site):
    headers = {"X-Token": "t0", "Accept": "a/b"}
    hosts = ["127.0.0.1", "localhost"]
    entry = "/to?307&http://localhost:PORT/x"
    members = {"headers": headers, "allow_hosts": hosts, "method": "POST"}
    async with open_site(tmp_path, site, entry, **members) as pack:
        found = await pack.call("get", a=1)
    assert found["method"] == "POST" and json.loads(found["body"]) == {"a": 1}
    assert "x-token" not in found["headers"] and found["headers"]["accept"] == "a/b"


@pytest.mark.threat("P4")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"],
)
async def test_a_private_address_is_not_reached_however_it_is_spelled(tmp_path, site, host):
    entry = f"http://{host}:{site.port}/"
    tool(tmp_path / "pack", "get", "http", entry=entry)
    async with open_tools(tmp_path / "pack") as pack:
        said = [str(each) for each in pack.source.pack.faults]
        if not said:  # it takes the resolver to see that it is private
            said = list(await pack.error("get"))
    assert site.asked == []
    assert "not public" in said[-1] or "there is no host" in said[-1]


@pytest.mark.threat("P4")
@pytest.mark.parametrize(
    ("address", "allowed", "answer"),
    [
        ("93.184.216.34", [], True),
        ("2606:2800:220:1::1", [], True),
        ("10.0.0.1", [], False),
        ("10.0.0.1", ["api.test"], True),
        ("100.64.0.1", [], False),
        ("169.254.169.254", ["api.test"], False),
        ("169.254.169.254", ["169.254.169.254"], True),
        ("fe80::1", ["api.test"], False),
        ("fd00:ec2::254", [], False),
        ("224.0.0.1", ["api.test"], False),
        ("0.0.0.0", ["api.test"], False),
        ("::ffff:169.254.169.254", ["api.test"], False),
        ("::ffff:10.0.0.1", [], False),
        ("64:ff9b::a00:1", [], False),
        ("64:ff9b::a9fe:a9fe", ["api.test"], False),
        ("64:ff9b::5db8:d822", [], True),
        ("::a9fe:a9fe", ["api.test"], False),
        ("2002:a00:1::1", [], False),
        ("::a00:1", [], False),
        ("::ffff:0:a00:1", [], False),
        ("64:ff9b:1::a00:1", [], False),
        ("fec0::1", [], False),
        ("5f00::1", [], False),
        ("192.0.0.192", [], False),
        ("168.63.129.16", [], False),
        ("::1", [], False),
        ("::1", ["api.test"], True),
    ],
)
def test_which_addresses_may_be_reached(address, allowed, answer):
    assert permitted("api.test", ipaddress.ip_address(address), frozenset(allowed)) is answer


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_is_reached_by_those_alone_who_name_it(host):
    assert never(host, frozenset()) and not never(host, frozenset({host.strip("[]")}))


@pytest.mark.threat("P4")
async def test_a_name_is_resolved_once_and_all_its_addresses_must_do(tmp_path, site, monkeypatch):
    asked = []

    async def addresses(host, port):
        asked.append(host)
        public = ipaddress.ip_address("93.184.216.34")
        return [public, ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(fetching, "_addresses", addresses)
    entry = f"http://api.test:{site.port}/"
    async with open_site(tmp_path, site, entry, allow_hosts=[]) as pack:
        code, message = await pack.error("get")
    assert code == "EINTERNAL" and "api.test is at 127.0.0.1" in message
    assert asked == ["api.test"] and site.asked == []


@pytest.mark.threat("P4")
async def test_the_connection_goes_to_the_address_that_was_looked_at(tmp_path, site, monkeypatch):
    answers = [[ipaddress.ip_address("127.0.0.1")], []]

    async def addresses(host, port):
        return answers.pop(0)

    monkeypatch.setattr(fetching, "_addresses", addresses)
    entry = f"http://api.test:{site.port}/"
    async with open_site(tmp_path, site, entry, allow_hosts=["api.test"]) as pack:
        found = await pack.call("get")
    assert found["headers"]["host"] == f"api.test:{site.port}" and answers == [[]]


async def test_an_address_from_which_nothing_comes_leaves_time_for_the_next(
    tmp_path, site, monkeypatch
):
    connect = httpcore2.AnyIOBackend.connect_tcp

    async def silent(self, host, port, timeout=None, *rest):  # noqa: ASYNC109
        if host == "127.0.0.1":
            return await connect(self, host, port, timeout, *rest)
        with anyio.move_on_after(timeout):
            await anyio.sleep_forever()
        raise httpcore2.ConnectTimeout

    async def addresses(host, port):
        return [ipaddress.ip_address("127.0.0.9"), ipaddress.ip_address("127.0.0.1")]

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", silent)
    monkeypatch.setattr(fetching, "_addresses", addresses)
    monkeypatch.setattr(fetching, "ADDRESS_SECONDS", 0.01)
    entry = f"http://api.test:{site.port}/"
    async with open_site(tmp_path, site, entry, allow_hosts=["api.test"]) as pack:
        with anyio.fail_after(10):
            assert (await pack.call("get"))["headers"]["host"] == f"api.test:{site.port}"
