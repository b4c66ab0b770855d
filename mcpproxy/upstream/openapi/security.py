"""Security schemes of a document, and what the configuration has for them: headers, parameters, tokens.

Only what is configured under a scheme's name is sent, and only with operations that want that scheme.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from openapi_pydantic.v3.v3_1 import SecurityScheme

from mcpproxy.upstream.files import Bad
from mcpproxy.upstream.openapi.operation import parsed
from mcpproxy.upstream.request import TOKEN, header_fault

Json = dict[str, Any]
Where = Literal["header", "query", "cookie"]
PLACES: dict[str, Where] = {"header": "header", "query": "query", "cookie": "cookie"}


@dataclass(frozen=True, slots=True)
class Credential:
    """What is sent with a request, and where."""

    where: Where
    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Client:
    """How a token is asked for: OAuth 2's client credentials (RFC 6749, 4.4)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ()


Auth = Mapping[str, "str | Client"]
"""By scheme: the secret itself, or how to get a token. A client without a URL uses the document's."""


def credentials(schemes: Mapping[str, Any], auth: Auth) -> dict[str, Credential | Client]:
    """What is sent for each scheme that is configured. Raises `Bad`."""
    found: dict[str, Credential | Client] = {}
    for name, given in auth.items():
        if name not in schemes:
            known = ", ".join(schemes) or "none"
            raise Bad(f"auth names the security scheme {name!r}; the document has: {known}")
        scheme = parsed(SecurityScheme, schemes[name], f"security scheme {name!r}")
        if isinstance(given, str):
            found[name] = _credential(name, scheme, given)
        else:
            found[name] = _client(name, scheme, given)
    return found


def _credential(name: str, scheme: SecurityScheme, secret: str) -> Credential:
    if header_fault(secret):
        raise Bad(f"auth.{name}: the secret has characters that can't be sent")
    place = PLACES.get(scheme.security_scheme_in or "")
    match scheme.type, (scheme.scheme or "").lower():
        case "apiKey", _ if scheme.name and place:
            if not TOKEN.match(scheme.name):
                raise Bad(f"security scheme {name!r}: {scheme.name!r} can't be a {place}")
            if place == "cookie" and set(secret) & set('; ",\\'):
                raise Bad(f"auth.{name}: the secret has characters that a cookie can't have")
            return Credential(place, scheme.name, secret)
        case "http", "basic":
            if ":" not in secret:
                raise Bad(f"auth.{name} must be USER:PASSWORD, as the scheme is HTTP basic")
            encoded = base64.b64encode(secret.encode()).decode()
            return Credential("header", "Authorization", f"Basic {encoded}")
        case ("http", "bearer") | ("oauth2" | "openIdConnect", _):
            return Credential("header", "Authorization", f"Bearer {secret}")
    raise Bad(f"security scheme {name!r} is of a kind that isn't supported; set headers instead")


def _client(name: str, scheme: SecurityScheme, client: Client) -> Client:
    flow = scheme.flows.clientCredentials if scheme.flows else None
    url = client.token_url or str((flow and flow.tokenUrl) or "")
    if scheme.type not in ("oauth2", "openIdConnect"):
        raise Bad(f"auth.{name} has a client_id, and the scheme is no OAuth; give a text")
    if not url.startswith(("https://", "http://")):
        raise Bad(f"auth.{name}.token_url must be the URL where tokens are given")
    return Client(url, client.client_id, client.client_secret, client.scopes)


def chosen(requirements: Any, known: Iterable[str]) -> tuple[tuple[str, ...], set[str]]:
    """The schemes of the first alternative for which we have everything, and what is missing of all."""
    known = set(known)
    missing: set[str] = set()
    listed = requirements if isinstance(requirements, list) else []
    alternatives = [each for each in listed if isinstance(each, dict)]
    for each in alternatives:
        if each and each.keys() <= known:
            return tuple(each), set()
        missing |= each.keys() - known
    return (), set() if {} in alternatives else missing
