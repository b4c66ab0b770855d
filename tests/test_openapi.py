"""API documents as tools: what is sent for a call, and where no value gets."""

from __future__ import annotations

import base64
import email
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from apis import document, open_document, parameter, put, read
from packs import serving_site
from test_toolpack_http import Site

from mcpproxy.upstream.openapi.sending import request, written
from mcpproxy.upstream.openapi.styles import Unwritable

LIST = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.fixture
async def site():
    async with serving_site(Site) as site:
        yield site


COLORS = ["blue", "black"]
RGB = {"R": "100", "G": "200"}


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("simple", False, "a b/ü", "a%20b%2F%C3%BC"),
        ("simple", False, COLORS, "blue,black"),
        ("simple", False, RGB, "R,100,G,200"),
        ("simple", True, RGB, "R=100,G=200"),
        ("label", False, COLORS, ".blue,black"),
        ("label", True, COLORS, ".blue.black"),
        ("label", True, RGB, ".R=100.G=200"),
        ("matrix", False, "blue", ";v=blue"),
        ("matrix", False, COLORS, ";v=blue,black"),
        ("matrix", True, COLORS, ";v=blue;v=black"),
        ("matrix", True, RGB, ";R=100;G=200"),
        ("form", True, "blue", "?v=blue"),
        ("form", True, 2.0, "?v=2"),
        ("form", True, True, "?v=true"),
        ("form", True, "", "?v="),
        ("form", True, COLORS, "?v=blue&v=black"),
        ("form", False, COLORS, "?v=blue,black"),
        ("form", False, RGB, "?v=R,100,G,200"),
        ("form", True, RGB, "?R=100&G=200"),
        ("spaceDelimited", False, COLORS, "?v=blue%20black"),
        ("pipeDelimited", False, COLORS, "?v=blue%7Cblack"),
        ("deepObject", True, {"a": "1", "b": {"c": ["x", "y"]}}, "?v[a]=1&v[b][c]=x&v[b][c]=y"),
    ],
)
async def test_a_value_is_written_in_the_style_of_its_parameter(
    tmp_path, site, style, explode, value, written
):
    place = "path" if style in ("simple", "label", "matrix") else "query"
    path = "/x{v}" if place == "path" else "/x"
    get = {
        "operationId": "get",
        "parameters": [parameter(place, "v", style=style, explode=explode)],
    }
    file = put(tmp_path, document({path: {"get": get}}, origin=site.origin))
    async with open_document(file) as api:
        assert (await api.call("get", v=value))["target"] == f"/x{written}"


def described(schema: Any = None, media: str = "application/json", **more: Any) -> dict[str, Any]:
    """A request body."""
    return {"content": {media: {"schema": {} if schema is None else schema, **more}}}


async def test_headers_cookies_and_json_values_are_sent_as_such(tmp_path, site):
    parameters = [
        parameter("header", "X-Ids", LIST),
        parameter("cookie", "session"),
        {"in": "query", "name": "where", "content": {"application/json": {"schema": {}}}},
        parameter("query", "q", allowReserved=True),
        parameter("header", "Authorization"),
    ]
    get = {"operationId": "get", "parameters": parameters}
    file = put(tmp_path, document({"/x": {"get": get}}, origin=site.origin))
    async with open_document(file) as api:
        found = await api.call(
            "get", **{"X-Ids": ["1", "2"]}, session="a;b=c", where={"a": [1]}, q="/a?b:c&d=1#x"
        )
        assert "Authorization" not in api.tool("get")["inputSchema"]["properties"]
    assert found["headers"]["x-ids"] == "1,2"
    assert found["headers"]["cookie"] == "session=a%3Bb%3Dc"
    assert found["target"] == "/x?where=%7B%22a%22%3A%5B1%5D%7D&q=/a?b:c%26d=1%23x"
    assert found["headers"]["accept"].startswith("application/json")


BYTES = base64.b64encode(b"\x00\r\n--\xff").decode()


@pytest.mark.parametrize(
    ("body", "value", "media", "sent"),
    [
        (described(), {"a": [1, None]}, "application/json", '{"a":[1,null]}'),
        (
            described(media="application/merge-patch+json"),
            [1],
            "application/merge-patch+json",
            "[1]",
        ),
        (described(media="text/plain"), "hé\r\n", "text/plain; charset=utf-8", "hé\r\n"),
        (
            described(OBJECT, "application/x-www-form-urlencoded"),
            {"a": "x&b=2", "c d": "ü"},
            "application/x-www-form-urlencoded",
            "a=x%26b%3D2&c%20d=%C3%BC",
        ),
        (
            described(
                {"type": "object"},
                "application/x-www-form-urlencoded",
                encoding={"a": {"style": "deepObject", "explode": True}, "b": {"explode": False}},
            ),
            {"a": {"x": 1}, "b": [1, 2], "c": [1, 2], "d": {"e": 1}},
            "application/x-www-form-urlencoded",
            "a[x]=1&b=1,2&c=1&c=2&d=%7B%22e%22%3A1%7D",
        ),
        (described(media="application/octet-stream"), BYTES, "application/octet-stream", None),
    ],
)
async def test_a_body_is_written_as_its_type_wants(tmp_path, site, body, value, media, sent):
    post = {"operationId": "add", "requestBody": {**body, "required": True}}
    file = put(tmp_path, document({"/x": {"post": post}}, origin=site.origin))
    async with open_document(file) as api:
        assert (await api.error("add"))[0] == "EINVAL"
        if sent is None:
            operation = api.source.api.operations["add"]
            assert written(operation.body, value) == (media, b"\x00\r\n--\xff")
            return
        found = await api.call("add", body=value)
    assert (found["headers"]["content-type"], found["body"]) == (media, sent)


def test_a_form_of_parts_keeps_each_value_in_its_part(tmp_path):
    properties = {
        "file": {"type": "string", "format": "binary"},
        "about": {"type": "object"},
        "tags": LIST,
    }
    schema = {"type": "object", "properties": properties}
    encoding = {"file": {"contentType": "image/png, image/jpeg"}}
    post = {"requestBody": described(schema, "multipart/form-data", encoding=encoding)}
    api = read(tmp_path, document({"/x": {"post": post}}))
    hostile = 'x"\r\nX-Evil: 1'
    value = {"file": BYTES, "about": {"a": 1}, "tags": ["1", "2"], hostile: "y"}
    media, sent = written(api.operations["post_x"].body, value)
    message = email.message_from_bytes(
        f"Content-Type: {media}\r\n\r\n".encode() + sent, policy=HTTP
    )
    parts = [
        (part["content-disposition"], part.get_content_type(), part.get_payload(decode=True))
        for part in message.get_payload()
    ]
    assert parts == [
        ('form-data; name="file"; filename="file"', "image/png", b"\x00\r\n--\xff"),
        ('form-data; name="about"', "application/json", b'{"a":1}'),
        ('form-data; name="tags"', "text/plain", b"1"),
        ('form-data; name="tags"', "text/plain", b"2"),
        ('form-data; name="x%22%0D%0AX-Evil: 1"', "text/plain", b"y"),
    ]


# ── where a value must not get ──────────────────────────────────────────────────────────────────

HOSTILE = [
    "..", ".", "../admin", "a/../../b", "..\\x", "%2e%2e", "//evil.example/", "@evil.example", "x?admin=1",
    "x#y", "x;v=1", "", "\r\nX-Evil: 1", "a\x00b", "http://evil.example/", "a&key=stolen", "\ud800", "🙂",
]  # fmt: skip


@pytest.mark.threat("O1")
@pytest.mark.parametrize("value", HOSTILE)
async def test_no_value_leaves_its_place(tmp_path, value):
    parameters = [
        parameter("path", "id"),
        parameter("query", "q"),
        parameter("query", "loose", allowReserved=True),
        parameter("header", "X-H"),
        parameter("cookie", "c"),
    ]
    get = {"operationId": "get", "parameters": parameters, "security": [{"key": []}]}
    scheme = {"type": "apiKey", "in": "query", "name": "key"}
    found = document(
        {"/a/{id}/b": {"get": get}},
        origin="https://api.example/v1",
        components={"securitySchemes": {"key": scheme}},
    )
    api = read(tmp_path, found, auth={"key": "plainly-fake-key"})
    operation = api.operations["get"]
    keys = [api.credentials["key"]]
    for name in ("id", "q", "loose", "X-H", "c"):
        arguments = {"id": "1", name: value}
        try:
            made = request(operation, arguments, keys, {})
        except Unwritable as error:
            assert str(error).startswith(f"{name}: ") or "URL" in str(error)
            continue
        parts = urlsplit(made.url)
        assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "api.example", "")
        segments = parts.path.split("/")
        assert segments[:3] == ["", "v1", "a"] and segments[4:] == ["b"] and segments[3]
        assert unquote(segments[3]) == arguments["id"] and unquote(segments[3]) not in (".", "..")
        pairs = parse_qsl(parts.query, keep_blank_values=True, errors="strict")
        sent = [(name, value)] if name in ("q", "loose") else []
        assert pairs == [*sent, ("key", "plainly-fake-key")]
        assert [each for each, _ in made.headers] == list(
            dict.fromkeys(
                [
                    "Accept",
                    *(["X-H"] if name == "X-H" else []),
                    *(["Cookie"] if name == "c" else []),
                ]
            )
        )
        assert not any(set(text) & {"\r", "\n", "\0"} for _, text in made.headers)
        assert ";" not in dict(made.headers).get("Cookie", "")


@pytest.mark.threat("O1")
@pytest.mark.parametrize("member", ["key", "limit", "k%65y"])
def test_no_member_of_an_object_is_another_parameter(tmp_path, member):
    get = {
        "operationId": "get",
        "parameters": [parameter("query", "filter", OBJECT), parameter("query", "limit")],
        "security": [{"key": []}],
    }
    scheme = {"type": "apiKey", "in": "query", "name": "key"}
    found = document({"/x": {"get": get}}, components={"securitySchemes": {"key": scheme}})
    api = read(tmp_path, found, auth={"key": "plainly-fake-key"})
    operation, keys = api.operations["get"], [api.credentials["key"]]
    if member == "k%65y":  # is sent as it is, and is no other name
        made = request(operation, {"filter": {member: "1"}}, keys, {})
        assert made.url.endswith("?k%2565y=1&key=plainly-fake-key")
        return
    with pytest.raises(Unwritable, match="would be another parameter"):
        request(operation, {"filter": {member: "1"}}, keys, {})


@pytest.mark.threat("O1")
@pytest.mark.parametrize("member", ["session", "key", "k%65y"])
def test_no_member_of_an_object_is_another_cookie(tmp_path, member):
    parameters = [parameter("cookie", "all", OBJECT), parameter("cookie", "session")]
    get = {"operationId": "get", "parameters": parameters, "security": [{"key": []}]}
    scheme = {"type": "apiKey", "in": "cookie", "name": "key"}
    found = document({"/x": {"get": get}}, components={"securitySchemes": {"key": scheme}})
    api = read(tmp_path, found, auth={"key": "plainly-fake-key"})
    operation, keys = api.operations["get"], [api.credentials["key"]]
    if member == "k%65y":  # is sent as it is, and is no other name
        made = request(operation, {"all": {member: "1"}}, keys, {})
        assert dict(made.headers)["Cookie"] == "k%2565y=1; key=plainly-fake-key"
        return
    with pytest.raises(Unwritable, match="would be another cookie"):
        request(operation, {"all": {member: "1"}}, keys, {})


def test_a_path_is_not_made_without_a_part_of_it(tmp_path):
    get = {"operationId": "get", "parameters": [parameter("path", "id")]}
    operation = read(tmp_path, document({"/x/{id}": {"get": get}})).operations["get"]
    with pytest.raises(Unwritable, match="id: it is missing"):
        request(operation, {}, (), {})


@pytest.mark.threat("O1")
async def test_arguments_that_do_not_fit_the_document_are_not_sent(tmp_path, site):
    get = {"operationId": "get", "parameters": [parameter("query", "n", {"type": "integer"})]}
    file = put(tmp_path, document({"/x": {"get": get}}, origin=site.origin))
    async with open_document(file) as api:
        for arguments in ({"n": "x"}, {"m": 1}, {"body": {}}, {"Host": "evil.example"}):
            assert (await api.error("get", **arguments))[0] == "EINVAL"
    assert site.asked == []
