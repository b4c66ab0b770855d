"""One operation of a document as a tool: what it is called, takes and gives, and how it is sent.

A tool's arguments are the parameters by their names, and `body`. A name that is there in two places keeps it for
the first, path before query before header before cookie; the other one is called by its place as well (`query_id`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from openapi_pydantic.v3.v3_1 import Encoding
from openapi_pydantic.v3.v3_1 import Parameter as Described
from pydantic import BaseModel, ValidationError

from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.openapi import styles
from mcpproxy.upstream.openapi.document import Documents
from mcpproxy.upstream.openapi.schemas import Bundle, Schemas
from mcpproxy.upstream.request import OURS, TOKEN

Json = dict[str, Any]
Place = Literal["path", "query", "header", "cookie"]
Kind = Literal["json", "form", "multipart", "text", "binary"]
ModelT = TypeVar("ModelT", bound=BaseModel)

PLACES: tuple[Place, ...] = ("path", "query", "header", "cookie")
IGNORED = OURS | {"accept", "authorization", "content-type", "cookie"}
"""Headers that are no parameters (3.1, "Parameter Object"), or that belong to the connection."""
KINDS: tuple[Kind, ...] = ("json", "form", "multipart", "text", "binary")
"""Ways of sending a body, the one that is preferred first."""
LONGEST_TITLE = 120
MOST_PROMISED = 1000
"""Parts of a response's schema; a larger one would help nobody, and isn't promised."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value of a request, and how it is written there."""

    argument: str
    name: str
    place: Place
    style: str
    explode: bool
    reserved: bool
    json: bool
    """Whether it is written as JSON (`content`) and has no style."""


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent with the request, and the argument that it comes from."""

    argument: str
    media: str
    kind: Kind
    properties: Mapping[str, Any]
    """Of a form: each member's schema, resolved."""
    encodings: Mapping[str, Encoding]


@dataclass(frozen=True, slots=True)
class Operation:
    """See the module."""

    definition: Json
    method: str
    path: str
    """With `{name}` where a parameter of the path stands."""
    base: str
    """The URL that the path goes on from, without a slash at its end."""
    parameters: tuple[Parameter, ...]
    body: Body | None
    accept: str
    security: tuple[str, ...]
    """Schemes whose credentials are sent."""

    @property
    def name(self) -> str:
        return str(self.definition["name"])


def parsed(model: type[ModelT], part: Any, what: str) -> ModelT:
    """A part of a document as OpenAPI has it. Raises `Bad`."""
    try:
        return model.model_validate(part)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(each) for each in fault["loc"])
        raise Bad(f"{what}: {where}: {fault['msg']}") from error


class Maker:
    """Makes operations of one document."""

    def __init__(self, documents: Documents, *, modern: bool, taken: frozenset[tuple[str, str]]):
        self._documents = documents
        self._takes = Schemas(documents, "in", modern=modern)
        self._gives = Schemas(documents, "out", modern=modern)
        self._taken = taken
        """Places and names that credentials and headers of the settings have, which no argument gets."""

    def make(
        self, name: str, method: str, path: str, base: str, raw: Json, shared: list[Any],
        file: Path | None, security: tuple[str, ...],
    ) -> Operation:  # fmt: skip
        """Raises `Bad`."""
        bundle = Bundle(self._takes)
        described = self._described([*shared, *(raw.get("parameters") or [])], file)
        arguments = _arguments((key, each.name) for key, (each, _, _) in described.items())
        properties: Json = {}
        required: list[str] = []
        parameters = []
        for (place, own), (parameter, part, where) in described.items():
            argument = arguments[place, own]
            made, schema = self._parameter(argument, parameter, part, where, bundle)
            parameters.append(made)
            properties[argument] = schema
            if parameter.required or place == "path":
                required.append(argument)
        _check_path(path, parameters)
        body = None
        if raw.get("requestBody") is not None:
            body, schema, needed = self._body(raw["requestBody"], file, arguments.values(), bundle)
            properties[body.argument] = schema
            required += [body.argument] if needed else []
        takes: Json = {"type": "object", "properties": properties, "additionalProperties": False}
        takes |= {"required": required} if required else {}
        takes = bundle.whole(takes)
        accept, gives = self._responses(raw.get("responses"), file)
        definition = _definition(name, method, path, raw, takes, gives)
        return Operation(definition, method, path, base, tuple(parameters), body, accept, security)

    def _described(
        self, parts: Iterable[Any], file: Path | None
    ) -> dict[tuple[Place, str], tuple[Described, Json, Path | None]]:
        """The parameters by place and name; those of the operation stand for those of its path."""
        found: dict[tuple[Place, str], tuple[Described, Json, Path | None]] = {}
        for each in parts:
            part, where = self._documents.whole(each, file)
            if not isinstance(part, dict):
                raise Bad("a parameter must be an object")
            plain = {k: v for k, v in part.items() if k not in ("content", "examples", "schema")}
            label = f"parameter {str(part.get('name'))[:60]!r}"
            parameter = parsed(Described, plain, label)
            place: Place = parameter.param_in.value
            name = parameter.name.lower() if place == "header" else parameter.name
            if (place, name) in self._taken or (place == "header" and name in IGNORED):
                continue
            if place in ("header", "cookie") and not TOKEN.match(name):
                raise Bad(f"{label}: this can't be the name of a {place}")
            found[place, name] = parameter, part, where
        return dict(sorted(found.items(), key=lambda item: PLACES.index(item[0][0])))

    def _parameter(
        self, argument: str, parameter: Described, part: Json, file: Path | None, bundle: Bundle
    ) -> tuple[Parameter, Json]:
        label = f"parameter {parameter.name[:60]!r}"
        place: Place = parameter.param_in.value
        content = part.get("content")
        style = parameter.style or styles.DEFAULTS[place]
        if style not in styles.FITTING[place] and not (
            style == "tabDelimited" and place == "query"
        ):
            raise Bad(f"{label}: a parameter of the {place} can't have style {style!r}")
        if isinstance(content, dict) and content:
            media, first = next(iter(content.items()))
            if not _is_json(media):
                raise Bad(f"{label}: a value of type {media!r} can't be written; JSON can")
            raw = first.get("schema", {}) if isinstance(first, dict) else {}
        else:
            raw = part.get("schema", {})
        explode = style == "form" if parameter.explode is None else parameter.explode
        schema = bundle.taken(raw, file)
        if isinstance(schema, dict):
            said = [parameter.description or schema.get("description") or ""]
            said += [f"Sent as {place} {parameter.name!r}."] if argument != parameter.name else []
            if text := " ".join(filter(None, said)):
                schema = {**schema, "description": text}
        made = Parameter(
            argument, parameter.name, place, style, explode, parameter.allowReserved, bool(content)
        )
        return made, schema

    def _body(
        self, part: Any, file: Path | None, arguments: Iterable[str], bundle: Bundle
    ) -> tuple[Body, Any, bool]:
        part, file = self._documents.whole(part, file)
        content = part.get("content") if isinstance(part, dict) else None
        if not isinstance(content, dict) or not content:
            raise Bad("requestBody has no content")
        media = min(content, key=lambda each: KINDS.index(kind_of(each)))
        kind = kind_of(media)
        media_type = content[media] if isinstance(content[media], dict) else {}
        raw = media_type.get("schema", {})
        if kind == "binary":
            schema: Any = {"type": "string", "contentEncoding": "base64"}
        elif kind == "text":
            schema = {"type": "string"}
        else:
            schema = bundle.taken(raw, file)
        properties = self._properties(raw, file) if kind in ("form", "multipart") else {}
        encodings = _encodings(media_type.get("encoding"))
        notes = [part.get("description") or "", "" if kind == "json" else f"Sent as {media}."]
        if kind == "binary" or any(is_binary(each) for each in properties.values()):
            notes.append("Bytes are given as base64.")
        if isinstance(schema, dict) and (text := " ".join(filter(None, notes))):
            schema = {**schema, "description": text}
        argument = "body" if "body" not in arguments else "request_body"
        if argument in arguments:
            raise Bad(f"a parameter is called {argument!r}, and so would be the body")
        standard = "application/json" if kind == "json" else "application/octet-stream"
        sent = standard if "*" in media else media
        needed = part.get("required") is True
        return Body(argument, sent, kind, properties, encodings), schema, needed

    def _properties(self, raw: Any, file: Path | None) -> Json:
        """The members of a form, each resolved, those of `allOf` as well."""
        schema, file = self._documents.whole(raw, file)
        if not isinstance(schema, dict):
            return {}
        found: Json = {}
        for each in schema.get("allOf") or []:
            found |= self._properties(each, file)
        members = schema.get("properties")
        for name, each in (members if isinstance(members, dict) else {}).items():
            found[name], where = self._documents.whole(each, file)
            if isinstance(found[name], dict) and isinstance(found[name].get("items"), dict):
                items, _ = self._documents.whole(found[name]["items"], where)
                found[name] = {**found[name], "items": items}
        return found

    def _responses(self, responses: Any, file: Path | None) -> tuple[str, Any]:
        """What to accept, and the schema of a good answer that is JSON, or None."""
        good = _good(responses if isinstance(responses, dict) else {})
        part, file = self._documents.whole(good, file)
        content = part.get("content") if isinstance(part, dict) else None
        if not isinstance(content, dict) or not content:
            return "application/json, */*;q=0.5", None
        ordered = sorted(content, key=lambda each: KINDS.index(kind_of(each)))
        plain = [each for each in ordered if "*" not in each]
        accept = ", ".join([*plain[:4], "*/*;q=0.5"])
        raw = content[ordered[0]]
        if not _is_json(ordered[0]) or not isinstance(raw, dict) or "schema" not in raw:
            return accept, None
        try:
            bundle = Bundle(self._gives)
            return accept, bundle.whole(bundle.taken(raw["schema"], file), MOST_PROMISED)
        except Bad:
            return accept, None  # the operation works without: nobody is promised anything


def _encodings(given: Any) -> dict[str, Encoding]:
    """Raises `Bad`."""
    return {
        name: parsed(
            Encoding, {k: v for k, v in each.items() if k != "headers"}, f"encoding of {name!r}"
        )
        for name, each in (given if isinstance(given, dict) else {}).items()
        if isinstance(each, dict)
    }


def kind_of(media: str) -> Kind:
    """How a body of this media type is written."""
    media = media.partition(";")[0].strip().lower()
    if _is_json(media):
        return "json"
    if media == "application/x-www-form-urlencoded":
        return "form"
    if media == "multipart/form-data":
        return "multipart"
    if media.startswith("text/") or media.endswith(("/xml", "+xml", "/yaml", "+yaml")):
        return "text"
    return "binary"


def _is_json(media: str) -> bool:
    media = media.partition(";")[0].strip().lower()
    return media in ("application/json", "*/*", "application/*") or media.endswith("+json")


def is_binary(schema: Any) -> bool:
    """Whether a member of a form is a file: bytes in base64, or a list of such."""
    match schema:
        case {"type": "file"} | {"type": "string", "format": "binary" | "byte"}:
            return True
        case {"contentEncoding": "base64"} | {"contentMediaType": str()}:
            return True
        case {"items": dict(items)}:
            return is_binary(items)
    return False


def _good(responses: Json) -> Any:
    """The response of a success: the lowest 2xx, then a range of them, then the default."""
    exact = sorted(status for status in responses if status[:1] == "2" and status.isdecimal())
    ranges = [status for status in responses if status.upper() == "2XX"]
    for status in [*exact, *ranges, "default"]:
        if status in responses:
            return responses[status]
    return {}


def _arguments(
    described: Iterable[tuple[tuple[Place, str], str]],
) -> dict[tuple[Place, str], str]:
    """What each parameter is called as an argument. Raises `Bad`."""
    found: dict[tuple[Place, str], str] = {}
    for key, name in described:
        argument = name if name not in found.values() else f"{key[0]}_{name}"
        if argument in found.values():
            raise Bad(f"two parameters would be called {argument!r}")
        found[key] = argument
    return found


def _check_path(path: str, parameters: Iterable[Parameter]) -> None:
    """Raises `Bad` unless the path has a place for each of its parameters, and each place a parameter."""
    names = {each.name for each in parameters if each.place == "path"}
    for name in names:
        if f"{{{name}}}" not in path:
            raise Bad(f"parameter {name!r} is not in the path {path}")
        path = path.replace(f"{{{name}}}", "")
    if "{" in path or "}" in path:
        raise Bad(f"the path has a place without a parameter: {path}")


def _definition(name: str, method: str, path: str, raw: Json, takes: Json, gives: Any) -> Json:
    summary, description = _text(raw, "summary"), _text(raw, "description")
    found: Json = {"name": name}
    if summary and len(summary) <= LONGEST_TITLE:
        found["title"] = summary
    stop = "." if summary[-1:].isalnum() and description else ""  # what follows may stand behind it
    said = description if summary in description else f"{summary}{stop}\n\n{description}".strip()
    said = said or f"{method} {path}"
    found["description"] = f"Deprecated. {said}" if raw.get("deprecated") is True else said
    found["inputSchema"] = takes
    if isinstance(gives, dict):
        found["outputSchema"] = gives
    annotations: Json = {"readOnlyHint": method in ("GET", "HEAD", "OPTIONS")}
    if method in ("PUT", "DELETE"):
        annotations["idempotentHint"] = True
    if method == "DELETE":
        annotations["destructiveHint"] = True
    return {**found, "annotations": annotations}


def _text(raw: Json, key: str) -> str:
    value = raw.get(key)
    return value.strip() if isinstance(value, str) else ""
