"""Tokens of OAuth 2's client credentials (RFC 6749, 4.4): asked for once, and kept until they run out."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from urllib.parse import quote_plus, urlencode

import anyio

from mcpproxy.upstream.failure import Failure
from mcpproxy.upstream.fetching import fetch
from mcpproxy.upstream.openapi.security import Client
from mcpproxy.upstream.request import Request, header_fault

EARLY = 30.0
"""Seconds before its end at which a token isn't used any more."""
LIFETIME = 300.0
"""Of a token whose server doesn't say."""
LARGEST = 2**16


@dataclass(frozen=True, slots=True)
class _Token:
    value: str
    until: float


class Tokens:
    """One token for each client; callers that come while it is asked for wait for the same."""

    def __init__(self, allow_hosts: frozenset[str]) -> None:
        self._allow_hosts = allow_hosts
        self._kept: dict[Client, _Token] = {}
        self._lock = anyio.Lock()

    async def get(self, client: Client) -> str:
        """Raises `Failure`."""
        async with self._lock:
            kept = self._kept.get(client)
            if kept is None or kept.until <= anyio.current_time():
                kept = self._kept[client] = await self._asked(client)
            return kept.value

    def forget(self, client: Client) -> None:
        self._kept.pop(client, None)

    async def _asked(self, client: Client) -> _Token:
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
        headers = (
            ("Accept", "application/json"),
            ("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        )
        asked = {"grant_type": "client_credentials"}
        asked |= {"scope": " ".join(client.scopes)} if client.scopes else {}
        request = Request("POST", client.token_url, headers, urlencode(asked).encode())
        response = await fetch(request, self._allow_hosts, LARGEST)
        try:
            found = json.loads(response.body)
            token, lasts = found["access_token"], float(found.get("expires_in") or LIFETIME)
            if response.status != 200 or not isinstance(token, str) or header_fault(token):
                raise ValueError
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            reason = (
                f"no token is given for client_id {client.client_id!r} (HTTP {response.status})"
            )
            raise Failure("EINTERNAL", f"{reason}; check auth in the configuration") from error
        return _Token(token, anyio.current_time() + max(0.0, lasts - EARLY))
