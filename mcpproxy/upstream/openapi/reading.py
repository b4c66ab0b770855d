"""A document as operations: which there are, what each is called, and which can't be used and why.

One operation that can't be used costs that operation. What is wrong with the document as a whole (its
version, its servers, the credentials for it) is a `Bad`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain, count
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from openapi_pydantic.v3.v3_1 import Server

from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.openapi import security, swagger
from mcpproxy.upstream.openapi.document import Documents, parse, read
from mcpproxy.upstream.openapi.operation import Maker, Operation, parsed
from mcpproxy.upstream.openapi.security import Auth, Client, Credential
from mcpproxy.upstream.request import target_fault

Json = dict[str, Any]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
"""Those of OpenAPI but TRACE, which shows its sender's credentials."""
LONGEST_NAME = 64
VERSION = re.compile(r"(2\.0|3\.0|3\.1)(?:\.\d+)?(?:-\S*)?\Z")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the configuration says of a document."""

    document: str
    """A path or a URL."""
    base_url: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    auth: Auth = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_hosts: frozenset[str] = frozenset()

    @property
    def file(self) -> Path | None:
        return None if self.document.startswith(("http://", "https://")) else Path(self.document)

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts that may be private: whoever wrote the configuration named them."""
        named = [self.base_url, None if self.file else self.document]
        named += [each.token_url for each in self.auth.values() if isinstance(each, Client)]
        found = {urlsplit(url).hostname or "" for url in named if url}
        return self.allow_hosts | found

    def fits(self, names: set[str]) -> bool:
        """Whether an operation is wanted that is known by some names."""

        def any_of(patterns: tuple[str, ...]) -> bool:
            return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

        return (not self.include or any_of(self.include)) and not any_of(self.exclude)


@dataclass(frozen=True, slots=True)
class Fault:
    """An operation that is left out."""

    where: str
    """Its method and path."""
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Api:
    """A document that was read."""

    operations: Mapping[str, Operation]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]
    """What may go wrong, although every operation can be called."""
    credentials: Mapping[str, Credential | Client] = field(repr=False)
    title: str
    files: tuple[Path, ...]


def load(wanted: Wanted, fetched: bytes | None = None) -> Api:
    """Read a document; `fetched` is that of a URL. Raises `Bad`."""
    file = wanted.file
    if file is not None:
        fetched = read(file)
    data = parse(fetched or b"")
    return _Reader(data, wanted).api()


class _Reader:
    def __init__(self, data: Any, wanted: Wanted) -> None:
        if not isinstance(data, dict):
            raise Bad("it is no OpenAPI document: it must be an object")
        version = str(data.get("openapi") or data.get("swagger") or "")
        match = VERSION.match(version)
        if match is None or (match[1] == "2.0") != ("swagger" in data):
            said = f"its version is {version[:20]!r}" if version else "it has no key 'openapi'"
            raise Bad(f"it is no document of OpenAPI 3.0, 3.1 or Swagger 2.0: {said}")
        if not isinstance(data.get("paths"), dict):
            raise Bad("it has no paths")
        self._data: Json = data
        self._wanted = wanted
        self._old = match[1] == "2.0"
        self._documents = Documents(data, wanted.file)
        self._credentials = security.credentials(self._schemes(), wanted.auth)
        for scheme, client in self._credentials.items():
            given = wanted.auth[scheme]
            if isinstance(client, Client) and isinstance(given, Client) and not given.token_url:
                self._check_recipient(client.token_url, f"auth.{scheme}.token_url")
        taken = {
            (each.where, each.name.lower() if each.where == "header" else each.name)
            for each in self._credentials.values()
            if isinstance(each, Credential)
        }
        taken |= {("header", name.lower()) for name in wanted.headers}
        modern = match[1] == "3.1"
        self._maker = Maker(self._documents, modern=modern, taken=frozenset(taken))
        self._servers = swagger.servers(data) if self._old else data.get("servers")
        self._missing: set[str] = set()

    def _schemes(self) -> Json:
        if self._old:
            found = self._data.get("securityDefinitions")
            return swagger.schemes(found) if isinstance(found, dict) else {}
        components = self._data.get("components")
        found = components.get("securitySchemes") if isinstance(components, dict) else None
        whole = self._documents.whole
        items = found.items() if isinstance(found, dict) else ()
        return {name: whole(each, self._wanted.file)[0] for name, each in items}

    def api(self) -> Api:
        operations: dict[str, Operation] = {}
        faults: list[Fault] = []
        # A mistake in it is one of the document, not of each operation.
        base = self._base(self._servers)
        for method, path, item, raw, file in self._operations(faults):
            where = f"{method.upper()} {path}"
            name = _name(method, path, raw, operations)
            if not self._wanted.fits(_names(name, where, raw)):
                continue
            try:
                operations[name] = self._operation(name, method, path, item, raw, file, base)
            except Bad as error:
                faults.append(Fault(where, str(error)))
        info = self._data.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        notes = [
            f"security scheme {name!r} has no entry in auth; what needs it is sent without"
            for name in sorted(self._missing)
            if not any(each.lower() == "authorization" for each in self._wanted.headers)
        ]
        if not operations and not faults:
            notes.append("no operation is left by include and exclude")
        return Api(
            operations, tuple(faults), tuple(notes), self._credentials,
            title if isinstance(title, str) else "", tuple(self._documents.files),
        )  # fmt: skip

    def _operations(
        self, faults: list[Fault]
    ) -> Iterator[tuple[str, str, Json, Json, Path | None]]:
        for path, each in self._data["paths"].items():
            if not path.startswith("/"):
                if not path.startswith("x-"):
                    faults.append(Fault(path[:100], "a path must begin with '/'"))
                continue
            try:
                item, file = self._documents.whole(each, self._wanted.file)
            except Bad as error:
                faults.append(Fault(path, str(error)))
                continue
            for method in METHODS if isinstance(item, dict) else ():
                raw = item.get(method)
                if isinstance(raw, dict):
                    yield method, path, item, raw, file
                elif raw is not None:
                    faults.append(Fault(f"{method.upper()} {path}", "it must be an object"))

    def _operation(
        self, name: str, method: str, path: str, item: Json, raw: Json, file: Path | None, base: str
    ) -> Operation:
        """Raises `Bad`."""
        shared = _list(item, "parameters")
        _list(raw, "parameters")
        own = raw.get("servers") or item.get("servers")
        base = self._base(own) if own and not self._old else base
        if fault := target_fault(re.sub(r"\{[^{}]*\}", "x", urlsplit(base).path + path)):
            raise Bad(f"the path can't be sent: {fault}")
        if self._old:
            raw, shared = swagger.operation(raw, shared, self._documents, file), []
        requirements = raw.get("security", self._data.get("security"))
        schemes, missing = security.chosen(requirements, self._credentials)
        self._missing |= missing
        if schemes or self._wanted.headers:
            self._check_recipient(base, "base_url")
        return self._maker.make(name, method.upper(), path, base, raw, shared, file, schemes)

    def _base(self, servers: Any) -> str:
        """The URL that paths go on from. Raises `Bad`."""
        url = self._wanted.base_url
        if not url:
            first = servers[0] if isinstance(servers, list) and servers else {"url": "/"}
            server = parsed(Server, first, "servers[0]")
            url = server.url
            for name, variable in (server.variables or {}).items():
                url = url.replace(f"{{{name}}}", variable.default)
        try:
            if not self._wanted.base_url and self._wanted.file is None:
                url = urljoin(self._wanted.document, url)
            if url.startswith("//"):
                url = f"https:{url}"
            parts = urlsplit(url)
            fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        except ValueError as error:
            raise Bad(f"its server is {url[:200]!r}, which is no URL: {error}") from error
        if not fine or parts.username or parts.query or parts.fragment or "{" in url:
            raise Bad(f"its server is {url[:200]!r}, which is no whole URL; set base_url")
        return url.rstrip("/")

    def _check_recipient(self, url: str, setting: str) -> None:
        """Credentials go where the configuration or a file of the user's leads: not where a fetched document does.

        Raises `Bad`.
        """
        host = urlsplit(url).hostname or ""
        if self._wanted.file is None and host not in self._wanted.hosts:
            raise Bad(
                f"the document sends credentials to {host}, which isn't its own host; "
                f"set {setting}, or name it in allow_hosts, to allow that"
            )


def _list(part: Json, key: str) -> list[Any]:
    """Raises `Bad`."""
    found = part.get(key) or []
    if not isinstance(found, list):
        raise Bad(f"{key} must be a list")
    return found


def _name(method: str, path: str, raw: Json, taken: Mapping[str, Any]) -> str:
    """A name for the tool: the operation's own, or method and path, of letters, digits, `_` and `-`."""
    own = raw.get("operationId")
    text = own if isinstance(own, str) and own.strip() else f"{method}{path}"
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:LONGEST_NAME].rstrip("_") or method
    numbered = (f"{stem[: LONGEST_NAME - 5]}_{n}" for n in count(2))
    return next(each for each in chain([stem], numbered) if each not in taken)


def _names(name: str, where: str, raw: Json) -> set[str]:
    """What `include` and `exclude` may call an operation."""
    tags = raw.get("tags")
    found = {name, where, str(raw.get("operationId") or name)}
    return found | {f"tag:{tag}" for tag in (tags if isinstance(tags, list) else [])}
