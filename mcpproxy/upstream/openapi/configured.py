"""From a server's settings to what is wanted of a document, its references resolved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcpproxy.redaction import SECRETS, in_address, likely
from mcpproxy.upstream.openapi.reading import Wanted
from mcpproxy.upstream.openapi.security import Client
from mcpproxy.upstream.references import REFERENCE, References, Unreachable
from mcpproxy.upstream.request import TOKEN, header_fault

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings


def wanted(settings: ServerSettings, references: References) -> Wanted:
    """Raises `Unreachable`."""
    document = references.resolve(settings.document or "", "document")
    base = settings.base_url
    for part in [*in_address(settings.document or ""), *in_address(base or "")]:
        SECRETS.add(part)
    return Wanted(
        os.path.expanduser(document),
        None if base is None else references.resolve(base, "base_url"),
        tuple(settings.include),
        tuple(settings.exclude),
        _auth(settings, references),
        _headers(settings, references),
        frozenset(host.lower().strip("[]") for host in settings.allow_hosts),
    )


def _auth(settings: ServerSettings, references: References) -> dict[str, str | Client]:
    found: dict[str, str | Client] = {}
    for name, given in settings.auth.items():
        where = f"auth.{name}"
        secret = given if isinstance(given, str) else given.client_secret
        value = references.resolve(secret, where)
        SECRETS.add(value, "(auth)" if secret == value else secret)
        if isinstance(given, str):
            SECRETS.add(value.partition(":")[2])  # a password alone
            found[name] = value
        else:
            id = references.resolve(given.client_id, f"{where}.client_id")
            found[name] = Client(given.token_url or "", id, value, tuple(given.scopes))
    return found


def _headers(settings: ServerSettings, references: References) -> dict[str, str]:
    found = {}
    for name, text in settings.headers.items():
        value = found[name] = references.resolve(text, f"headers.{name}")
        if not TOKEN.match(name) or header_fault(value):
            raise Unreachable(f"headers.{name} can't be sent: it has characters no header can have")
        if not REFERENCE.search(text) and likely(name, value):
            for part in {value, value.partition(" ")[2]}:
                SECRETS.add(part)
    return found
