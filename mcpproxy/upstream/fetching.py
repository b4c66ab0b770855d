"""One HTTP exchange that reaches the host it is meant for and no other.

A name is resolved once, each of its addresses is looked at, and the connection goes to the address that
was looked at: a name that answers otherwise a moment later changes nothing. A redirect is followed on
the same origin, or to a host that the tool allows. Proxies of the environment are not used.
"""

from __future__ import annotations

import codecs
import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from email.message import Message
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpcore2

from mcpproxy.upstream.addresses import Address, permitted
from mcpproxy.upstream.failure import UNKNOWN, Failure
from mcpproxy.upstream.request import Request
from mcpproxy.upstream.tls import trust

MOST_REDIRECTS = 5
KEPT_SECONDS = 5.0
"""Of a connection that waits for another request: less than servers usually keep theirs."""
ADDRESS_SECONDS = 5.0
"""For each address of a host but its last: one from which nothing comes leaves time for the others."""
LONGEST_TYPE = 200
"""Characters of a Content-Type that are looked at."""
SLOW = frozenset({"punycode", "idna"})
"""Encodings whose decoding takes the square of a text's length."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})


NEVER_SENT = (
    httpcore2.ConnectError,
    httpcore2.ConnectTimeout,
    httpcore2.PoolTimeout,
    httpcore2.LocalProtocolError,
)
"""How a request fails before anything of it went out."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case; of several alike, the last."""
    body: bytes

    @property
    def charset(self) -> str:
        """The encoding of a text, UTF-8 where the answer doesn't say. Raises `LookupError` for none."""
        message = Message()
        message["content-type"] = self.headers.get("content-type", "")[:LONGEST_TYPE]
        found = codecs.lookup(str(message.get_content_charset("utf-8"))).name
        if found in SLOW:
            raise LookupError(f"{found} is for names, not for texts")
        return found


def connections(allow_hosts: frozenset[str]) -> httpcore2.AsyncConnectionPool:
    """Connections that are kept for a while between requests to the same server. A context manager."""
    return httpcore2.AsyncConnectionPool(
        trust(),
        max_connections=None,
        keepalive_expiry=KEPT_SECONDS,
        network_backend=Guarded(allow_hosts),
    )


async def fetch(
    request: Request,
    allow_hosts: frozenset[str],
    largest: int,
    limit: str = "",
    pool: httpcore2.AsyncConnectionPool | None = None,
) -> Response:
    """The answer, after redirects; on a connection of the pool, which is for the same hosts, or on one of its own.

    `limit` names what says how large it may be. Raises `Failure`.
    """
    if pool is None:
        async with connections(allow_hosts) as pool:
            return await fetch(request, allow_hosts, largest, limit, pool)
    for _ in range(MOST_REDIRECTS + 1):
        response = await _exchange(request, largest, limit, pool)
        location = response.headers.get("location")
        if response.status not in REDIRECTS or location is None:
            return response
        request = _redirected(request, response.status, location, allow_hosts)
    raise Failure("EINTERNAL", f"it was redirected more than {MOST_REDIRECTS} times")


def _redirected(
    request: Request, status: int, location: str, allow_hosts: frozenset[str]
) -> Request:
    """The next request. Raises `Failure` for one that would go where it must not."""
    try:
        url = urljoin(request.url, location)
        before, after = urlsplit(request.url), urlsplit(url)
        same = (before.scheme, before.hostname, before.port) == (
            after.scheme, after.hostname, after.port,
        )  # fmt: skip
    except ValueError as error:
        raise Failure("EINTERNAL", "it was redirected to something that is no URL") from error
    host = after.hostname or ""
    if after.scheme not in ("http", "https") or after.username or after.password:
        raise Failure("EINTERNAL", "it was redirected to something that is no plain URL of HTTP")
    if before.scheme == "https" and after.scheme == "http":
        raise Failure("EINTERNAL", f"{host} redirects from https to http, which is not followed")
    if not same and host not in allow_hosts:
        raise Failure(
            "EINTERNAL",
            f"it was redirected to another host, {host[:100]}; name it in allow_hosts to have that followed",
        )
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        request = replace(request, method="GET", body=None)
    # whatever may be a secret stays with the host it is for
    headers = request.headers if same else tuple(
        each for each in request.headers if each[0].lower() in ("accept", "content-type")
    )  # fmt: skip
    return replace(request, url=url.partition("#")[0], headers=headers)


async def _exchange(
    request: Request, largest: int, limit: str, pool: httpcore2.AsyncConnectionPool
) -> Response:
    headers = [("Accept-Encoding", "identity"), *request.headers]
    try:
        async with pool.stream(
            request.method,
            _url(request.url),
            headers=[(name.encode(), value.encode()) for name, value in headers],
            content=request.body,
        ) as response:
            body = bytearray()
            async for piece in response.aiter_stream():
                body += piece
                if len(body) > largest:
                    named = f" ({limit})" if limit else ""
                    raise Failure("ECAP", f"its answer is larger than {largest} bytes{named}")
            found = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            return Response(response.status, found, bytes(body))
    except NEVER_SENT as error:
        raise Failure("EINTERNAL", f"{request.host} can't be reached: {error}") from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
        said = f"{request.host} gave no answer ({error or type(error).__name__}); {UNKNOWN}"
        raise Failure("EINTERNAL", said) from error
    except UnicodeEncodeError as error:
        raise Failure("EINTERNAL", "it was redirected to something that is no URL") from error


def _url(text: str) -> httpcore2.URL:
    """Taken apart here: httpcore2 loses what comes after ";" in the path of a text. Raises `UnicodeEncodeError`."""
    parts = urlsplit(text)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return httpcore2.URL(
        scheme=parts.scheme.encode("ascii"),
        host=(parts.hostname or "").encode("ascii"),
        port=parts.port,
        target=target.encode("ascii"),
    )


# ── where a connection may go ───────────────────────────────────────────────────────────────────


class Guarded(httpcore2.AsyncNetworkBackend):
    """Connects to public addresses, and to any address of the hosts that are allowed by name."""

    def __init__(self, allow_hosts: frozenset[str]) -> None:
        self._allow = allow_hosts
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Raises `Failure` where no address of the host may be reached."""
        addresses = await _addresses(host, port)
        allowed = [each for each in addresses if permitted(host, each, self._allow)]
        if len(allowed) < len(addresses):
            refused = next(each for each in addresses if each not in allowed)
            raise Failure(
                "EINTERNAL",
                f"{host} is at {refused}, which is not public; name it in allow_hosts to allow that",
            )
        last: Exception | None = None
        for address in allowed:
            patience = timeout if address is allowed[-1] else ADDRESS_SECONDS
            try:
                return await self._backend.connect_tcp(str(address), port, patience, local_address)
            except (httpcore2.NetworkError, httpcore2.ConnectTimeout) as error:
                last = error
        raise httpcore2.ConnectError(f"none of its addresses answers: {last}")

    async def connect_unix_socket(self, *args: Any, **options: Any) -> Any:
        raise Failure("EINTERNAL", "a tool can't connect to a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def _addresses(host: str, port: int) -> list[Address]:
    """Each address of a host once, in the order in which to try them."""
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Failure("EINTERNAL", f"there is no host {host[:100]}: {error}") from error
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(text) for text in texts]
