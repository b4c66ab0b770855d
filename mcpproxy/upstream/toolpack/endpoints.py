"""Tools that are HTTP requests: what is sent for a request, decided before anything is.

Scheme, host and port stand in the tool file and are no template. What a template puts into the path
or the query is encoded for its place, and no path may climb.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mcpproxy.upstream.addresses import never
from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.request import (
    LONGEST_HEADER,
    LONGEST_URL,
    OURS,
    TOKEN,
    Request,
    header_fault,
    target_fault,
)
from mcpproxy.upstream.toolpack.templating import Template, Unfit
from mcpproxy.upstream.toolpack.toolfile import ToolFile

URL = re.compile(r"(https?)://([^/?#]*)(.*)", re.DOTALL)
AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
BODILESS = frozenset({"GET", "DELETE"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An HTTP tool, for any request."""

    method: str
    origin: str
    target: Template
    headers: tuple[tuple[str, Template], ...]
    allow_hosts: frozenset[str]
    """Hosts that may be private, or that a redirect may lead to."""

    def request(self, values: Mapping[str, Any], env: Mapping[str, str], payload: bytes) -> Request:
        """What is sent for one request. Raises `Unfit`."""
        try:
            target = self.target.render(values)
        except Unfit as error:
            raise Unfit(f"entry: {error}") from error
        _check_target(target)
        rendered = (
            (name, _value(name, template, {**values, "env": env}))
            for name, template in self.headers
        )
        headers = [(name, value) for name, value in rendered if value]
        named = {name.lower() for name, _ in headers}
        if "accept" not in named:
            headers.append(("Accept", "application/json, */*;q=0.5"))
        body = None if self.method in BODILESS else payload
        if body is not None and "content-type" not in named:
            headers.append(("Content-Type", "application/json"))
        return Request(self.method, self.origin + target, tuple(headers), body)


def _check_target(target: str) -> None:
    """Raises `Unfit`."""
    if fault := target_fault(target):
        raise Unfit(f"entry: {fault}")


def _value(name: str, template: Template, values: Mapping[str, Any]) -> str:
    try:
        text = template.render(values)
    except Unfit as error:
        raise Unfit(f"headers.{name}: {error}") from error
    if fault := header_fault(text):
        raise Unfit(f"headers.{name}: {fault}")
    return text.strip(" \t")


def _port(authority: str) -> bool:
    """Whether its port is one, if it has any."""
    number = re.search(r":(\d+)\Z", authority)
    return number is None or 0 < int(number[1]) < 65536


def plan(tool: ToolFile) -> Endpoint:
    """Raises `Bad`."""
    if tool.entry is None or len(tool.entry) != 1:
        raise Bad("entry must be one URL")
    match = URL.match(tool.entry[0].strip())
    if match is None:
        raise Bad("entry must begin with http:// or https://")
    scheme, authority, target = match.groups()
    if not AUTHORITY.fullmatch(authority) or not _port(authority):
        raise Bad(
            f"entry: {authority[:80]!r} is no HOST or HOST:PORT; "
            "a template or a password can't stand there"
        )
    target = target if target.startswith("/") else f"/{target}"
    template = Template(target, url=True, largest=LONGEST_URL)
    if template.fixed:
        try:
            _check_target(target)
        except Unfit as error:
            raise Bad(str(error)) from error
    headers = []
    for name, source in tool.headers.items():
        where = ("headers", name)
        if not TOKEN.match(name) or name.lower() in OURS:
            raise Bad(f"headers: {name!r} can't be set by a tool", where=where)
        try:
            headers.append((name, Template(source, largest=LONGEST_HEADER)))
        except Bad as error:
            raise Bad(f"headers.{name}: {error}", where=where) from error
    allowed = frozenset(host.lower().strip("[]") for host in tool.allow_hosts)
    origin = f"{scheme}://{authority.lower()}"
    if never(host := urlsplit(origin).hostname or "", allowed):
        raise Bad(f"entry: {host} is not public; allow_hosts: [{host}] allows it")
    return Endpoint(tool.method, origin, template, tuple(headers), allowed)
