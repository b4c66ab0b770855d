"""From the arguments of a call to the request that is sent: every value encoded for its place, or refused."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from mcpproxy.upstream.openapi import styles
from mcpproxy.upstream.openapi.operation import Body, Operation, Parameter, is_binary
from mcpproxy.upstream.openapi.security import Credential
from mcpproxy.upstream.openapi.styles import Pairs, Unwritable
from mcpproxy.upstream.request import Request, header_fault, target_fault, wire

Json = dict[str, Any]


def request(
    operation: Operation,
    arguments: Json,
    credentials: Iterable[Credential],
    headers: Mapping[str, str],
) -> Request:
    """What is sent. Raises `Unwritable`, which names the argument."""
    credentials = list(credentials)
    given = [
        (each, arguments[each.argument])
        for each in operation.parameters
        if each.argument in arguments
    ]
    target = urlsplit(operation.base).path + _path(operation, given)
    query = [*_query(operation, given, credentials), *_keys(credentials)]
    if query:
        target += ("&" if "?" in target else "?") + "&".join(
            f"{name}={value}" for name, value in query
        )
    if fault := target_fault(target):
        raise Unwritable(fault)
    sent = [("Accept", operation.accept), *headers.items(), *_headers(given)]
    sent += [(each.name, each.value) for each in credentials if each.where == "header"]
    if cookies := list(_cookies(operation, given, credentials)):
        sent.append(("Cookie", "; ".join(cookies)))
    body = None
    if operation.body and operation.body.argument in arguments:
        media, body = written(operation.body, arguments[operation.body.argument])
        sent.append(("Content-Type", media))
    parts = urlsplit(operation.base)
    unique = {name.lower(): (name, value) for name, value in sent}
    url = f"{parts.scheme}://{parts.netloc}{target}"
    return Request(operation.method, url, tuple(unique.values()), body)


Given = list[tuple[Parameter, Any]]


class _Naming:
    """Give what can't be written the name of its argument."""

    def __init__(self, argument: str) -> None:
        self._argument = argument

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Unwritable):
            raise Unwritable(f"{self._argument}: {error}") from error


def _path(operation: Operation, given: Given) -> str:
    """Filled in piece by piece, so that no value can be taken for a place."""
    written = {}
    for each, value in given:
        if each.place == "path":
            with _Naming(each.argument):
                value = styles.text(wire(value).decode()) if each.json else value
                written[each.name] = styles.in_path(each.name, value, each.style, each.explode)
    pieces = []
    for piece in operation.path.split("{"):
        name, closed, rest = piece.partition("}")
        if closed and name not in written:
            raise Unwritable(f"{name}: it is missing, and the path can't be without it")
        pieces.append(written[name] + rest if closed else piece)
    return quote("".join(pieces), safe="/?%:@!$&'()*+,;=~")


def _query(operation: Operation, given: Given, credentials: list[Credential]) -> Pairs:
    """Raises `Unwritable` for an object whose member would be another parameter."""
    own = {each.name for each in operation.parameters if each.place == "query"}
    own |= {each.name for each in credentials if each.where == "query"}
    found: Pairs = []
    for each, value in given:
        if each.place != "query" or value is None:
            continue
        with _Naming(each.argument):
            value = wire(value).decode() if each.json else value
            pairs = styles.in_query(
                each.name, value, each.style, each.explode, reserved=each.reserved
            )
            for name in (unquote(key) for key, _ in pairs):
                if name in own and name != each.name:
                    raise Unwritable(f"its member {name!r} would be another parameter")
        found += pairs
    return found


def _keys(credentials: list[Credential]) -> Pairs:
    return [
        (quote(each.name, safe=""), quote(each.value, safe=""))
        for each in credentials
        if each.where == "query"
    ]


def _headers(given: Given) -> Iterator[tuple[str, str]]:
    for each, value in given:
        if each.place == "header" and value is not None:
            with _Naming(each.argument):
                text = wire(value).decode() if each.json else styles.in_header(value, each.explode)
                if fault := header_fault(text):
                    raise Unwritable(fault)
            yield each.name, text.strip(" \t")


def _cookies(operation: Operation, given: Given, credentials: list[Credential]) -> Iterator[str]:
    own = {each.name for each in operation.parameters if each.place == "cookie"}
    own |= {each.name for each in credentials if each.where == "cookie"}
    for each, value in given:
        if each.place != "cookie" or value is None:
            continue
        with _Naming(each.argument):
            value = wire(value).decode() if each.json else value
            for name, text in styles.in_query(each.name, value, "form", each.explode):
                if name != each.name and unquote(name) in own:
                    raise Unwritable(f"its member {name!r} would be another cookie")
                yield f"{name}={text}"
    yield from (f"{each.name}={each.value}" for each in credentials if each.where == "cookie")


# ── bodies ──────────────────────────────────────────────────────────────────────────────────────


def written(body: Body, value: Any) -> tuple[str, bytes]:
    """Content type and bytes. Raises `Unwritable`."""
    with _Naming(body.argument):
        match body.kind:
            case "json":
                return body.media, wire(value)
            case "text":
                return _charset(body.media), _bytes(styles.text(value))
            case "binary":
                return body.media, _decoded(value)
        if not isinstance(value, dict):
            raise Unwritable("it must be an object: each member is a field of a form")
        if body.kind == "form":
            return body.media, _form(body, value)
        return _multipart(body, value)


def _charset(media: str) -> str:
    return media if "charset" in media.lower() else f"{media}; charset=utf-8"


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Unwritable("it has half a character in it") from error


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise Unwritable("bytes must be a text in base64") from error


def _form(body: Body, value: Json) -> bytes:
    pairs: Pairs = []
    for name, each in value.items():
        encoding = body.encodings.get(name)
        if each is None:
            continue
        if encoding and (encoding.style or encoding.explode is not None):
            style = encoding.style or "form"
            explode = style == "form" if encoding.explode is None else encoding.explode
            found = styles.in_query(name, each, style, explode, reserved=encoding.allowReserved)
            others = {*body.properties, *value} - {name}
            if any(unquote(key) in others for key, _ in found):
                raise Unwritable(f"a member of {name!r} would be another field")
            pairs += found
        elif isinstance(each, dict):
            pairs.append((styles.encoded(name), styles.encoded(wire(each).decode())))
        else:
            pairs += styles.in_query(name, each, "form", True)
    return "&".join(f"{name}={text}" for name, text in pairs).encode()


def _multipart(body: Body, value: Json) -> tuple[str, bytes]:
    """RFC 7578. The boundary is random, so that no value can end its part."""
    boundary = secrets.token_hex(16)
    made = bytearray()
    for name, each in value.items():
        for item in each if isinstance(each, list) else [each]:
            if item is not None:
                made += f"--{boundary}\r\n".encode() + _part(body, name, item)
    made += f"--{boundary}--\r\n".encode()
    return f"{body.media.partition(';')[0]}; boundary={boundary}", bytes(made)


def _part(body: Body, name: str, value: Any) -> bytes:
    schema = body.properties.get(name)
    encoding = body.encodings.get(name)
    media = (encoding.contentType or "").partition(",")[0].strip() if encoding else ""
    media = "" if "*" in media or header_fault(media) else media
    written = _quoted(name)
    line = f'Content-Disposition: form-data; name="{written}"'
    if is_binary(schema):
        data = _decoded(value)
        line += f'; filename="{written}"'
        media = media or "application/octet-stream"
    elif isinstance(value, dict | list):
        data, media = wire(value), media or "application/json"
    else:
        data = _bytes(styles.text(value))
    kind = f"\r\nContent-Type: {media}" if media else ""
    return _bytes(f"{line}{kind}\r\n\r\n") + data + b"\r\n"


def _quoted(name: str) -> str:
    """As browsers write a name (HTML, "multipart/form-data encoding algorithm")."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
