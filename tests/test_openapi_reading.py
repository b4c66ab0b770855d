"""From a document to tools: names, schemas, what is left out and why; OpenAPI 3.0 and 3.1, Swagger 2.0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from apis import document, open_document, put, read
from hypothesis import given, settings
from hypothesis import strategies as st
from packs import serving_site
from test_toolpack_http import Site

from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.openapi.document import parse
from mcpproxy.upstream.openapi.reading import Wanted, load
from mcpproxy.upstream.openapi.security import Client
from mcpproxy.upstream.openapi.sending import request
from mcpproxy.upstream.openapi.styles import Unwritable
from mcpproxy.upstream.references import Unreachable

LIBRARY = Path(__file__).parents[1] / "examples" / "openapi" / "library.yaml"


def answering(schema: Any) -> dict[str, Any]:
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}


def names(api: Any) -> list[str]:
    return list(api.operations)


def test_an_operation_has_a_proper_name_of_its_own(tmp_path):
    paths = {
        "/a": {
            "get": {"operationId": "list things/all"},
            "post": {"operationId": "list_things_all"},
            "put": {"operationId": "x" * 99},
            "patch": {"operationId": "x" * 99},
        },
        "/pets/{petId}/toys": {"get": {"parameters": [{"in": "path", "name": "petId"}]}, "delete": {"operationId": "ü"}},
    }  # fmt: skip
    paths["/pets/{petId}/toys"]["delete"]["parameters"] = [{"in": "path", "name": "petId"}]
    found = names(read(tmp_path, document(paths)))
    assert found == [
        "x" * 64, "list_things_all", "list_things_all_2", "x" * 59 + "_2",
        "get_pets_petId_toys", "delete",
    ] or set(found) == {
        "x" * 64, "list_things_all", "list_things_all_2", "x" * 59 + "_2",
        "get_pets_petId_toys", "delete",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        ((), (), ["listPets", "addPet", "dropPet", "get_health"]),
        (("tag:pets",), (), ["listPets", "addPet", "dropPet"]),
        (("*Pet*",), ("DELETE *",), ["listPets", "addPet"]),
        (("GET /*",), (), ["listPets", "get_health"]),
        ((), ("tag:*",), ["get_health"]),
    ],
)
def test_operations_are_chosen_by_tag_name_and_path(tmp_path, include, exclude, left):
    tagged = {"tags": ["pets"]}
    paths = {
        "/pets": {
            "get": {"operationId": "listPets", **tagged},
            "post": {"operationId": "addPet", **tagged},
            "delete": {"operationId": "dropPet", **tagged},
        },
        "/health": {"get": {}},
    }
    assert names(read(tmp_path, document(paths), include=include, exclude=exclude)) == left


@pytest.mark.parametrize(
    ("summary", "description", "said"),
    [
        ("Find books", "In the catalogue.", "Find books.\n\nIn the catalogue."),
        ("Find books!", "In it.", "Find books!\n\nIn it."),
        ("Find books", "Find books and lend them.", "Find books and lend them."),
        ("Find books", "", "Find books"),
        ("", "", "GET /x"),
    ],
)
def test_an_operation_is_described_by_its_summary_and_what_follows(
    tmp_path, summary, description, said
):
    get = {"summary": summary, "description": description}
    (found,) = read(tmp_path, document({"/x": {"get": get}})).operations.values()
    assert found.definition["description"] == said


def test_methods_say_what_they_do(tmp_path):
    methods = ("get", "head", "put", "post", "patch", "delete")
    api = read(tmp_path, document({"/x": {method: {} for method in methods}}))
    assert {name: each.definition["annotations"] for name, each in api.operations.items()} == {
        "get_x": {"readOnlyHint": True},
        "head_x": {"readOnlyHint": True},
        "put_x": {"readOnlyHint": False, "idempotentHint": True},
        "post_x": {"readOnlyHint": False},
        "patch_x": {"readOnlyHint": False},
        "delete_x": {"readOnlyHint": False, "idempotentHint": True, "destructiveHint": True},
    }


def test_a_name_in_two_places_is_two_arguments(tmp_path):
    places = ("query", "path", "header", "cookie")
    parameters = [{"in": place, "name": "id", "required": place == "path"} for place in places]
    parameters.append({"in": "query", "name": "body"})
    body = {"content": {"application/json": {}}, "required": True}
    paths = {"/x/{id}": {"parameters": parameters, "put": {"requestBody": body}}}
    takes = read(tmp_path, document(paths)).operations["put_x_id"].definition["inputSchema"]
    expected = ["id", "query_id", "body", "header_id", "cookie_id", "request_body"]
    assert list(takes["properties"]) == expected
    assert takes["required"] == ["id", "request_body"]
    assert takes["properties"]["query_id"]["description"] == "Sent as query 'id'."


NODE = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "password": {"$ref": "#/components/schemas/Secret"},
        "name": {"type": "string", "nullable": True, "example": "x", "xml": {}, "x-own": 1},
        "kind": {"type": "string", "enum": ["a"], "nullable": True},
        "size": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "code": {"type": "string", "pattern": "(?<!^)[[:alpha:]]\\Q"},
        "next": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/Node"}]},
    },
    "discriminator": {"propertyName": "kind"},
}
SECRET = {"type": "string", "writeOnly": True}


def test_schemas_of_3_0_mean_the_same_in_2020_12(tmp_path):
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}
    operation = {**answering({"$ref": "#/components/schemas/Node"}), "requestBody": body}
    more = {"components": {"schemas": {"Node": NODE, "Secret": SECRET}}}
    found = document({"/x": {"post": operation}}, "3.0.3", **more)
    definition = read(tmp_path, found).operations["post_x"].definition
    takes, gives = definition["inputSchema"], definition["outputSchema"]
    assert takes["properties"]["body"] == {"$ref": "#/$defs/Node"}
    node = takes["$defs"]["Node"]
    assert "id" not in node["properties"] and node["required"] == ["name"]
    assert "password" in node["properties"]
    assert node["properties"]["name"] == {"type": ["string", "null"], "examples": ["x"]}
    assert node["properties"]["kind"]["enum"] == ["a", None]
    assert node["properties"]["size"] == {"type": "number", "exclusiveMinimum": 0}
    assert node["properties"]["code"] == {"type": "string"}
    assert gives["type"] == "object" and "password" not in gives["properties"]
    assert gives["required"] == ["id", "name"]
    fits = jsonschema_rs.validator_for(gives).is_valid
    chain = {"id": 1, "name": None, "next": {"id": 2, "name": "y", "next": None}}
    assert fits(chain) and not fits({**chain, "next": {"id": 2}}) and not fits({**chain, "size": 0})


def test_3_1_keeps_what_stands_beside_a_reference(tmp_path):
    schema = {"$ref": "#/components/schemas/A", "description": "Mine.", "type": ["object", "null"]}
    found = document(
        {"/x": {"get": answering(schema)}}, components={"schemas": {"A": {"minProperties": 1}}}
    )
    gives = read(tmp_path, found).operations["get_x"].definition["outputSchema"]
    assert gives == {
        "$ref": "#/$defs/A", "description": "Mine.", "type": ["object", "null"], "$defs": {"A": {"minProperties": 1}}
    }  # fmt: skip


SWAGGER = """
swagger: '2.0'
info: {title: Old, version: 1.0}
host: old.example
basePath: /api
schemes: [http, https]
consumes: [application/json]
securityDefinitions:
  key: {type: apiKey, in: header, name: X-Key}
  login: {type: basic}
security: [{login: []}]
definitions:
  Pet:
    type: object
    properties: {name: {type: string}, friend: {$ref: '#/definitions/Pet'}}
parameters:
  page: {in: query, name: page, type: integer, default: 1}
paths:
  /pets/{id}:
    parameters: [{in: path, name: id, type: string, required: true}]
    get:
      operationId: getPet
      parameters:
      - {$ref: '#/parameters/page'}
      - {in: query, name: tags, type: array, items: {type: string}, collectionFormat: pipes}
      - {in: query, name: ids, type: array, items: {type: integer}, collectionFormat: multi}
      responses:
        200: {description: A pet, schema: {$ref: '#/definitions/Pet'}}
    put:
      operationId: putPet
      parameters: [{in: body, name: pet, required: true, schema: {$ref: '#/definitions/Pet'}}]
    post:
      operationId: sendPicture
      parameters:
      - {in: formData, name: picture, type: file, required: true}
      - {in: formData, name: born, type: string, default: 2020-01-01}
"""


def test_swagger_2_is_read_as_openapi(tmp_path):
    api = load(Wanted(put(tmp_path, SWAGGER, "old.yaml"), auth={"login": "ada:fake"}))
    assert api.faults == () and api.notes == ()
    get, change, send = api.operations.values()
    assert get.base == "https://old.example/api" and get.security == ("login",)
    takes, gives = get.definition["inputSchema"], get.definition["outputSchema"]
    assert takes["properties"]["page"] == {"type": "integer", "default": 1}
    assert takes["required"] == ["id"] and gives["properties"]["friend"] == {"$ref": "#/$defs/Pet"}
    styles = {each.name: (each.style, each.explode) for each in get.parameters}
    assert styles["tags"] == ("pipeDelimited", False) and styles["ids"] == ("form", True)
    assert change.body is not None and change.body.media == "application/json"
    assert send.body is not None and send.body.kind == "multipart"
    properties = send.definition["inputSchema"]["properties"]["body"]["properties"]
    assert properties["born"]["default"] == "2020-01-01"  # in YAML a date, and here a text
    assert "base64" in send.definition["inputSchema"]["properties"]["body"]["description"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("12:30", "12:30"), ("017", "017"), ("1_000", "1_000"), ("+49", "+49"), ("0x1f", "0x1f"), ("yes", "yes"),
        ("1e6", 1e6), ("-1.5E-3", -0.0015), ("0", 0), ("-12", -12), ("true", True), ("~", None), ("", None),
    ],
)  # fmt: skip
def test_a_scalar_of_yaml_is_what_json_would_make_of_it(written, value):
    found = parse(f"a: {written}\n".encode())["a"]
    assert (found, type(found)) == (value, type(value))


def test_a_key_that_json_can_not_have_is_named():
    with pytest.raises(Bad, match=r"the key .* is nothing that JSON has"):
        parse(b"? !!timestamp 2020-01-01\n: 1\n")


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (3, "it must be an object"),
        ({"parameters": {"in": "query"}}, "parameters must be a list"),
        ({"parameters": [{"in": "nowhere", "name": "x"}]}, "parameter 'x': in: "),
        ({"parameters": [{"$ref": "#/components/parameters/No"}]}, "there is nothing at #/components"),
        ({"parameters": [{"$ref": "other.json#/x"}]}, "there is no file other.json"),
        ({"parameters": [{"$ref": "../x.json"}]}, "there is no file ../x.json"),
        ({"parameters": [{"in": "query", "name": "x", "style": "matrix"}]}, "can't have style 'matrix'"),
        ({"parameters": [{"in": "path", "name": "x", "required": True}]}, "is not in the path"),
        ({"parameters": [{"in": "header", "name": "a b"}]}, "can't be the name of a header"),
        ({"parameters": [{"in": "query", "name": "x", "schema": {"type": "any"}}]}, "no valid JSON Schema"),
        ({"requestBody": {"content": {}}}, "requestBody has no content"),
        ({"servers": [{"url": "ftp://x"}]}, "which is no whole URL; set base_url"),
    ],
)  # fmt: skip
def test_an_operation_that_can_not_be_used_costs_that_operation(tmp_path, operation, reason):
    api = read(tmp_path, document({"/bad": {"post": operation}, "/good": {"get": {}}}))
    assert names(api) == ["get_good"]
    (fault,) = api.faults
    assert fault.where == "POST /bad" and reason.split(": ")[0] in fault.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it must be an object"),
        ("[1", "it is not valid JSON"),
        ("a: [", "it is not valid YAML"),
        ("a: &a [*a]", "contains itself"),
        ("openapi: 3.0.0", "it has no paths"),
        ("openapi: 4.0.0\npaths: {}", "its version is '4.0.0'"),
        ("paths: {}", "it has no key 'openapi'"),
        ("openapi: 3.0.0\npaths: {}", "its server is '/', which is no whole URL; set base_url"),
        ("x: !!python/object/apply:os.getpid []", "not valid YAML"),
        ("a: &a {x: 1}\nb: {<<: *a}", "merge keys"),
    ],
)
async def test_a_document_that_can_not_be_used_is_an_error_of_its_server(tmp_path, text, reason):
    file = put(tmp_path, text, "api.yaml")
    with pytest.raises(
        Unreachable, match=r"its document .*api\.yaml(:\d+)? can't be used: "
    ) as error:
        async with open_document(file):
            raise AssertionError("it was opened")
    assert reason in str(error.value)


@pytest.mark.threat("O4")
def test_a_small_document_does_not_stand_for_a_huge_one(monkeypatch, tmp_path):
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    with pytest.raises(Bad, match="more than 20000 parts"), monkeypatch.context() as patched:
        patched.setattr("mcpproxy.upstream.openapi.document.MOST_PARTS", 20_000)
        parse(text.encode())
    wide: dict[str, Any] = {
        f"S{n}": {"type": "object", "properties": {str(i): {"anyOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 10} for i in range(10)}}
        for n in range(300)
    } | {"S300": {}}  # fmt: skip
    query = {"in": "query", "name": "x", "schema": {"$ref": "#/components/schemas/S0"}}
    found = document({"/x": {"get": {"parameters": [query]}}}, components={"schemas": wide})
    (fault,) = read(tmp_path, found).faults
    assert "its schema has more than 20000 parts" in fault.reason


@pytest.mark.threat("O4")
def test_a_reference_leads_to_a_file_beside_the_document_and_nowhere_else(tmp_path):
    (tmp_path / "outside.json").write_text(
        '{"type": "string", "title": "outside"}', encoding="utf-8"
    )
    folder = tmp_path / "api"
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    put(folder, "Pet: {type: object, properties: {next: {$ref: '#/Pet'}}}", "parts.yaml")
    put(folder, {"get": answering({"$ref": "parts.yaml#/Pet"})}, "path.json")
    bad = ["../outside.json", "link.json", str(tmp_path / "outside.json"), "file:///etc/passwd", "https://evil.example/x", "path.json%00"]  # fmt: skip
    paths: dict[str, Any] = {"/good": {"$ref": "./path.json"}}
    for n, ref in enumerate(bad):
        paths[f"/bad{n}"] = {"get": {"parameters": [{"$ref": ref}]}}
    api = read(folder, document(paths))
    assert names(api) == ["get_good"] and len(api.faults) == len(bad)
    gives = api.operations["get_good"].definition["outputSchema"]
    assert gives["properties"]["next"] == {"$ref": "#/$defs/Pet"}
    remote = json.dumps(document({"/x": {"$ref": "path.json"}}, origin="/")).encode()
    (fault,) = load(Wanted("https://api.example/openapi.json"), remote).faults
    assert "leads to another document" in fault.reason


def test_what_auth_names_must_be_a_scheme_of_the_document(tmp_path):
    more = {
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X"}}}
    }
    found = document({"/x": {"get": {"security": [{"key": []}]}}}, **more)
    with pytest.raises(Bad, match="auth names the security scheme 'kee'; the document has: key"):
        read(tmp_path, found, auth={"kee": "plainly-fake"})
    (note,) = read(tmp_path, found).notes
    assert note.startswith("security scheme 'key' has no entry in auth")


KEY = {"type": "apiKey", "in": "header", "name": "X"}
CLIENT = Client("", "plainly", "fake")


@pytest.mark.parametrize(
    ("scheme", "given", "part"),
    [
        ({"type": "http", "scheme": "basic"}, "plainly-fake", "must be USER:PASSWORD"),
        (KEY, "plainly\r\nX-Evil: 1", "the secret has characters that can't be sent"),
        ({**KEY, "name": "X: 1\r\nY"}, "plainly-fake", "can't be a header"),
        ({**KEY, "in": "cookie"}, "plainly; other=1", "characters that a cookie can't have"),
        ({**KEY, "in": "nowhere"}, "plainly-fake", "of a kind that isn't supported"),
        ({"type": "http", "scheme": "digest"}, "plainly-fake", "of a kind that isn't supported"),
        (KEY, CLIENT, "the scheme is no OAuth; give a text"),
        ({"type": "oauth2", "flows": {}}, CLIENT, "token_url must be the URL"),
    ],
)
def test_a_credential_that_its_scheme_can_not_send_is_refused(tmp_path, scheme, given, part):
    get = {"get": {"security": [{"key": []}]}}
    found = document({"/x": get}, components={"securitySchemes": {"key": scheme}})
    with pytest.raises(Bad, match=part):
        read(tmp_path, found, auth={"key": given})


def large(operations: int) -> dict[str, Any]:
    """A document as large APIs have: each operation refers to a few of many schemas, which refer to one another."""
    schemas = {
        f"Thing{n}": {
            "type": "object",
            "description": f"Thing number {n}. " * 5,
            "properties": {
                "id": {"type": "integer", "format": "int64"},
                "name": {"type": "string", "nullable": True},
                "owner": {"$ref": f"#/components/schemas/Thing{n // 3}"},
                "parts": {
                    "type": "array",
                    "items": {"$ref": f"#/components/schemas/Thing{n // 2}"},
                },
            },
        }
        for n in range(200)
    }
    paths: dict[str, Any] = {}
    for n in range(operations):
        ref = {"$ref": f"#/components/schemas/Thing{n % 200}"}
        operation = {"tags": [f"group{n % 20}"], "summary": f"Does {n}", **answering(ref)}
        operation["parameters"] = [
            {"in": "path", "name": "id", "required": True, "schema": {"type": "integer"}},
            {"in": "query", "name": "fields", "schema": {"type": "array", "items": {"type": "string"}}},
        ]  # fmt: skip
        if n % 2:
            operation["requestBody"] = {"content": {"application/json": {"schema": ref}}}
        method = "post" if n % 2 else "get"
        paths.setdefault(f"/things{n // 2}/{{id}}", {})[method] = operation
    return document(paths, "3.0.0", components={"schemas": schemas})


async def test_a_large_document_is_read_whole_and_its_tools_work(tmp_path):
    async with serving_site(Site) as site:
        file = put(tmp_path, large(500))
        async with open_document(file, base_url=site.origin) as api:
            assert len(api.source.tools()) == 500 and api.said == []
            tool = api.tool("post_things7_id")
            assert tool["outputSchema"]["properties"]["owner"] == {"$ref": "#/$defs/Thing5"}
            found = await api.call("post_things7_id", id=3, fields=["a", "b"], body={"id": 1})
    assert (found["method"], found["target"]) == ("POST", "/things7/3?fields=a&fields=b")


JUNK: list[Any] = [
    None, True, -1, 1.5, "", "x", "{}", "#/paths", "..", "\ud800", "http://[", "https://a:b@c:99999999/",
    [], [1], [None], [{}], {}, {"x": 1}, {"$ref": "#/components"}, {"$ref": "#"}, {"$ref": 3},
]  # fmt: skip


def places(part: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each part of a document but the whole."""
    if isinstance(part, list):
        part = dict(enumerate(part))
    for key, value in part.items() if isinstance(part, dict) else ():
        yield (*way, key)
        yield from places(value, (*way, key))


@pytest.mark.threat("O4")
@pytest.mark.parametrize("name", ["library", "swagger"])
@settings(max_examples=30, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_whatever_a_document_says_it_is_read_or_refused_with_a_reason(name, chance):
    text = SWAGGER if name == "swagger" else LIBRARY.read_text(encoding="utf-8")
    found = parse(text.encode())
    ways = list(places(found))
    for _ in range(chance.randint(1, 3)):
        *way, last = chance.choice(ways)
        try:
            part = reduce(lambda each, key: each[key], way, found)
            part[last] = deepcopy(chance.choice(JUNK))
        except (KeyError, TypeError, IndexError):
            continue  # it went with what was changed before
    try:
        api = load(Wanted("https://library.example/v1/openapi.json"), json.dumps(found).encode())
    except Bad as error:
        assert str(error)
        return
    for operation in api.operations.values():
        values = {each.argument: deepcopy(chance.choice(JUNK)) for each in operation.parameters}
        values |= {operation.body.argument: {"x": ["y"]}} if operation.body else {}
        try:
            made = request(operation, values, [], {})
        except Unwritable:
            continue
        assert made.url.startswith(f"{operation.base}/")
