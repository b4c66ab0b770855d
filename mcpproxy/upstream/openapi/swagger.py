"""Swagger 2.0 in the words of OpenAPI 3.0: where a server is, what an operation takes and gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.openapi.document import Documents, texts

Json = dict[str, Any]

SCHEMA = frozenset(
    {"default", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maxLength",
     "maximum", "minItems", "minLength", "minimum", "multipleOf", "pattern", "type", "uniqueItems",
     "x-nullable"}
)  # fmt: skip
"""What of a parameter is its schema."""
STYLES: dict[str, Json] = {
    "csv": {"explode": False},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "tsv": {"style": "tabDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
    "multi": {"explode": True},
}


def servers(data: Json) -> list[Json]:
    """The first of `schemes`, or "https" where it is there; relative to the document what isn't said."""
    host, base = data.get("host"), data.get("basePath") or "/"
    if not host:
        return [{"url": base}]
    schemes = texts(data.get("schemes"))
    scheme = "https" if "https" in schemes else schemes[0] if schemes else ""
    return [{"url": f"{scheme}://{host}{base}" if scheme else f"//{host}{base}"}]


def schemes(definitions: Json) -> Json:
    """`securityDefinitions`, by name."""
    found: Json = {}
    for name, scheme in definitions.items():
        match scheme:
            case {"type": "basic"}:
                found[name] = {"type": "http", "scheme": "basic"}
            case {"type": "oauth2", "flow": flow}:
                kind = {"application": "clientCredentials", "accessCode": "authorizationCode"}
                inside = {"tokenUrl": scheme.get("tokenUrl"), "scopes": scheme.get("scopes") or {}}
                flows = {kind.get(flow, flow): inside}
                found[name] = {"type": "oauth2", "flows": flows}
            case _:
                found[name] = scheme
    return found


def operation(raw: Json, shared: list[Any], documents: Documents, file: Path | None) -> Json:
    """An operation with the parameters that its path adds. Raises `Bad`."""
    data = documents.data
    consumes, produces = (
        texts(raw.get(key)) or texts(data.get(key)) or ["application/json"]
        for key in ("consumes", "produces")
    )
    parameters: list[Json] = []
    fields: list[Json] = []
    found = {**raw, "responses": _responses(raw.get("responses"), produces, documents, file)}
    for each in [*shared, *(raw.get("parameters") or [])]:
        parameter, _ = documents.whole(each, file)
        match parameter:
            case {"in": "body"}:
                content = {media: {"schema": parameter.get("schema", {})} for media in consumes}
                required = parameter.get("required", False)
                found["requestBody"] = {"required": required, "content": content}
            case {"in": "formData", "name": str()}:
                fields.append(parameter)
            case {"in": str(), "name": str()}:
                parameters.append(_parameter(parameter))
            case _:
                raise Bad("a parameter has no name, or no place")
    if fields:
        found["requestBody"] = _form(fields, consumes)
    return {**found, "parameters": parameters}


def _parameter(parameter: Json) -> Json:
    found = {k: v for k, v in parameter.items() if k not in SCHEMA and k != "collectionFormat"}
    if parameter.get("type") == "array":
        found |= _style(parameter)
    return {**found, "schema": _schema(parameter)}


def _style(parameter: Json) -> Json:
    collection = parameter.get("collectionFormat", "csv")
    style = STYLES.get(str(collection))
    if style is None:
        raise Bad(f"collectionFormat {collection!r} is unknown")
    return style if parameter.get("in") in ("query", "formData") else {"explode": False}


def _schema(parameter: Json) -> Json:
    return {key: value for key, value in parameter.items() if key in SCHEMA}


def _form(fields: list[Json], consumes: list[str]) -> Json:
    files = any(field.get("type") == "file" for field in fields)
    media = "multipart/form-data"
    if not files and media not in consumes:
        media = "application/x-www-form-urlencoded"
    properties = {
        field["name"]: {**_schema(field), "description": field.get("description", "")}
        for field in fields
    }
    required = [field["name"] for field in fields if field.get("required") is True]
    schema = {"type": "object", "properties": properties, "required": required}
    encoding = {f["name"]: _style(f) for f in fields if f.get("type") == "array"}
    return {
        "required": bool(required),
        "content": {media: {"schema": schema, "encoding": encoding}},
    }


def _responses(
    responses: Any, produces: list[str], documents: Documents, file: Path | None
) -> Json:
    found = {}
    for status, each in (responses if isinstance(responses, dict) else {}).items():
        response, _ = documents.whole(each, file)
        if isinstance(response, dict):
            schema = {"schema": response["schema"]} if "schema" in response else {}
            found[status] = {"content": dict.fromkeys(produces, schema)}
    return found
