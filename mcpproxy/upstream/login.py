"""One login to one server: a person's browser goes to the authorization server and comes back to us.

The steps are the SDK's provider's: what the server says of its authorization server, what that says of
itself, registering there or going by a client id, PKCE, the exchange of the code. We hand it the answers
to its requests, take the browser's way and back, and put what it has at the end into the server's grant.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import AnyUrl, ValidationError

from mcpproxy import __version__
from mcpproxy.errors import ProxyError
from mcpproxy.redaction import SECRETS
from mcpproxy.upstream.callback import PATH, Callback, open_callback
from mcpproxy.upstream.credentials import Kept, Nowhere, end_of
from mcpproxy.upstream.grant import Grant
from mcpproxy.upstream.tls import trust

if TYPE_CHECKING:
    from mcpproxy.settings import OAuth

LOGIN_SECONDS = 300.0
ANY_PORT = f"http://127.0.0.1:0{PATH}"
PING = {"jsonrpc": "2.0", "id": "login", "method": "ping"}
"""Asks nothing of a server that would answer; all that we want is its challenge."""

logger = logging.getLogger(__name__)

# What fails here is told to whoever logs in; the SDK would write a traceback of it as well.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)


class LoginError(ProxyError):
    """A login can't be begun, or didn't succeed; the message says why and what helps."""


@dataclass(frozen=True, slots=True)
class Client:
    """How we present ourselves, its references resolved."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    oauth: OAuth
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()


class Login:
    """See the module. `run` is the task; the rest is for who waits for it."""

    def __init__(self, grant: Grant, client: Client, seconds: float = LOGIN_SECONDS) -> None:
        self.state: Literal["starting", "waiting", "done", "failed"] = "starting"
        self.url: str | None = None
        """Where a person has to go."""
        self.error: str | None = None
        self.known = anyio.Event()
        """Set when there is a URL, or when it is over."""
        self.over = anyio.Event()
        self.scope = anyio.CancelScope()
        self.seconds = seconds
        self._grant = grant
        self._client = client

    async def run(self) -> None:
        """From the first request to the tokens; `state` and `error` say what came of it."""
        try:
            with self.scope:
                self.error = await self._outcome()
            if self.scope.cancelled_caught:
                self.error = "it was given up: another one was begun, or a logout"
            self.state = "failed" if self.error else "done"
        finally:
            self.known.set()
            self.over.set()

    async def _outcome(self) -> str | None:
        """What went wrong, if anything."""
        try:
            with anyio.fail_after(self.seconds):
                await self._log_in()
        except TimeoutError:
            if self.url is None:
                return f"its authorization server did not answer within {self.seconds:g} s"
            return (
                f"nobody finished it in the browser within {self.seconds:g} s; "
                f"begin again with: {self._grant.command}; if the page did not know mcpproxy, "
                f"first: {self._grant.command.replace('login', 'logout', 1)}"
            )
        except OAuthRegistrationError as error:
            return (
                f"mcpproxy can't register itself there ({error}); register it by hand, with the redirect "
                "http://127.0.0.1:8765/callback, and set oauth.client_id and oauth.redirect_port"
            )
        except (LoginError, OAuthFlowError, httpx2.HTTPError, ValueError, OSError) as error:
            return told(error)
        except Exception as error:
            logger.exception("a login to %s failed in an unexpected way", self._grant.name)
            return f"it failed inside mcpproxy ({type(error).__name__}); its log says more"
        return None

    async def _log_in(self) -> None:
        async with AsyncExitStack() as stack:
            known, callback = await self._callback(stack)
            metadata = OAuthClientMetadata(
                redirect_uris=[AnyUrl(callback.redirect_uri)],
                client_name="mcpproxy",
                software_id="mcpproxy",
                software_version=__version__,
            )
            self._provider = provider = OAuthClientProvider(
                self._client.url,
                metadata,
                Nowhere(known),
                lambda url: self._show(url, callback),
                lambda: come_back(callback),
                self._client.oauth.client_metadata_url,
            )
            http = await stack.enter_async_context(httpx2.AsyncClient(verify=trust(), timeout=30))
            await self._drive(provider, http)
        context = provider.context
        assert context.client_info is not None and context.current_tokens is not None
        await self._grant.adopt(
            Kept(
                url=self._client.url,
                client=context.client_info,
                tokens=context.current_tokens,
                expires_at=end_of(context.current_tokens),
                server=context.oauth_metadata,
                resource=context.protected_resource_metadata,
            )
        )

    async def _callback(
        self, stack: AsyncExitStack
    ) -> tuple[OAuthClientInformationFull | None, Callback]:
        """The client as which we are known there already, and a listener where it may be sent back to."""
        oauth = self._client.oauth
        if oauth.redirect_uri:
            chosen: str | None = oauth.redirect_uri
        elif oauth.redirect_port:
            chosen = f"http://127.0.0.1:{oauth.redirect_port}{PATH}"
        else:
            chosen = None
        if self._client.client_id:
            callback = await self._listen(stack, chosen or ANY_PORT)
            return self._configured(callback.redirect_uri), callback
        kept = self._grant.kept
        if kept is not None and kept.url == self._client.url and kept.client.redirect_uris:
            registered = str(kept.client.redirect_uris[0])
            if chosen in (None, registered):
                try:
                    return kept.client, await self._listen(stack, registered)
                except LoginError:
                    pass  # somebody else has that port now: register anew
        return None, await self._listen(stack, chosen or ANY_PORT)

    async def _listen(self, stack: AsyncExitStack, redirect_uri: str) -> Callback:
        try:
            return await stack.enter_async_context(open_callback(redirect_uri))
        except OSError as error:
            raise LoginError(
                f"can't listen at {redirect_uri} for the browser to come back: {error.strerror or error}; "
                "choose another oauth.redirect_port, or none"
            ) from error

    def _configured(self, redirect_uri: str) -> OAuthClientInformationFull:
        assert self._client.client_id is not None
        if self._client.client_secret:
            SECRETS.add(self._client.client_secret, "(client_secret)")
        return OAuthClientInformationFull(
            client_id=self._client.client_id,
            client_secret=self._client.client_secret,
            redirect_uris=[AnyUrl(redirect_uri)],
        )

    async def _drive(self, provider: OAuthClientProvider, http: httpx2.AsyncClient) -> None:
        """Send what the provider wants sent, until it has tokens."""
        headers = {
            **self._client.headers,
            "Accept": "application/json, text/event-stream",
            MCP_PROTOCOL_VERSION_HEADER: HANDSHAKE_PROTOCOL_VERSIONS[-1],
        }
        first = http.build_request("POST", self._client.url, json=PING, headers=headers)
        flow = provider.async_auth_flow(first)
        try:
            request = await anext(flow)
            while provider.context.current_tokens is None:
                response = await http.send(request, stream=request is first)
                if request is first:  # its head says all, and its body may have no end
                    await response.aclose()
                    response = self._challenge(response)
                request = await flow.asend(response)
        finally:
            await flow.aclose()

    def _challenge(self, response: httpx2.Response) -> httpx2.Response:
        """The server's 401 with the scopes that were chosen; one of ours where it let us in without."""
        found = [
            f'{name}="{value}"'
            for name, value in (
                ("resource_metadata", extract_field_from_www_auth(response, "resource_metadata")),
                (
                    "scope",
                    " ".join(self._client.scopes) or extract_field_from_www_auth(response, "scope"),
                ),
            )
            if value
        ]
        headers = {"WWW-Authenticate": f"Bearer {', '.join(found)}"}
        return httpx2.Response(401, headers=headers, request=response.request)

    async def _show(self, url: str, callback: Callback) -> None:
        """The provider has the address that a person has to open."""
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        callback.expect(query["state"])
        extra = self._client.oauth.extra_params
        if taken := sorted(extra.keys() & query.keys()):
            raise LoginError(f"oauth.extra_params.{taken[0]} is set by the login itself; remove it")
        self._say_how_to_authenticate()
        self.url = f"{url}&{urlencode(extra)}" if extra else url
        self.state = "waiting"
        self.known.set()

    def _say_how_to_authenticate(self) -> None:
        """A client with a secret uses the way that its server knows (RFC 8414, 2: Basic unless it says)."""
        context = self._provider.context
        client, server = context.client_info, context.oauth_metadata
        if client and client.client_secret and client.token_endpoint_auth_method is None:
            ways = (server and server.token_endpoint_auth_methods_supported) or []
            post = "client_secret_post" in ways and "client_secret_basic" not in ways
            client.token_endpoint_auth_method = (
                "client_secret_post" if post else "client_secret_basic"
            )


async def come_back(callback: Callback) -> AuthorizationCodeResult:
    """What the browser brought. Raises `LoginError` for a refusal."""
    found = await callback.answer()
    if "code" not in found:
        said = ": ".join(filter(None, (found.get("error"), found.get("error_description"))))
        raise LoginError(f"the authorization server refused it: {said[:300] or 'no reason given'}")
    return AuthorizationCodeResult(
        code=found["code"], state=found.get("state"), iss=found.get("iss")
    )


def told(error: Exception) -> str:
    """Why it failed, in words for the one who wants to log in."""
    match error:
        case httpx2.ConnectError():
            return f"nothing answers there: {error}"
        case ValidationError():
            return (
                f"an answer is not as OAuth wants it: {error.errors(include_url=False)[0]['msg']}"
            )
    return str(error) or type(error).__name__
