"""A small OAuth authorization server and the MCP server that it protects, in this process, and a browser."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
from listening import listening, port_of
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent
from mcp_types import Tool as WireTool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

Json = dict[str, Any]


class Authority:
    """Both servers: what they were asked, and how they are to behave."""

    def __init__(self) -> None:
        self.base = ""
        self.reset()

    def reset(self) -> None:
        """Be as new, where it is."""
        self.lifetimes = [3600]
        """`expires_in` of the tokens to come; the last one stays."""
        self.registers = True
        self.denies = False
        """Whether the person in the browser says no."""
        self.refusal: tuple[int, Json] | None = None
        """The answer to a renewal, instead of a token."""
        self.gate: anyio.Event | None = None
        """A renewal waits for this."""
        self.asked = anyio.Event()
        """Set when a renewal has come."""
        self.missing_scope: str | None = None
        self.accepts = True
        """Whether the MCP server takes tokens at all."""
        self.lets_in = False
        """Whether anybody may connect, and only calls want a token."""
        self.takes_documents = False
        """Whether a client may be known by the address of a document about it."""
        self.registered: list[Json] = []
        self.authorized: list[dict[str, str]] = []
        self.forms: list[dict[str, str]] = []
        self.basic: list[str | None] = []
        self.revoked: list[str] = []
        self.seen: list[str | None] = []
        """The Authorization of each request at the MCP server."""
        self.calls = 0
        self.together = 0
        """Calls that wait for each other, to show that they run at once."""
        self._all_there = anyio.Event()
        self.tokens: set[str] = set()
        self.refresh_tokens: set[str] = set()
        self._codes: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    @property
    def renewals(self) -> int:
        return sum(form["grant_type"] == "refresh_token" for form in self.forms)

    # the authorization server

    async def resource(self, request: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.base]})

    async def metadata(self, request: Request) -> Response:
        found: Json = {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "revocation_endpoint": f"{self.base}/revoke",
            "code_challenge_methods_supported": ["S256"],
        }
        if self.registers:
            found["registration_endpoint"] = f"{self.base}/register"
        if self.takes_documents:
            found["client_id_metadata_document_supported"] = True
        return JSONResponse(found)

    async def register(self, request: Request) -> Response:
        if not self.registers:
            return JSONResponse({"error": "no"}, 404)
        self.registered.append(await request.json())
        known = {**self.registered[-1], "client_id": f"client-{len(self.registered)}"}
        return JSONResponse(known, 201)

    async def authorize(self, request: Request) -> Response:
        """As if a person had clicked "allow" at once."""
        asked = dict(request.query_params)
        if self.denies:
            back = urlencode({"error": "access_denied", "state": asked["state"]})
            return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)
        self.authorized.append(asked)
        code = secrets.token_hex(8)
        self._codes[code] = asked["code_challenge"]
        back = urlencode({"code": code, "state": asked["state"], "iss": self.base})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)

    async def token(self, request: Request) -> Response:
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        self.forms.append(form)
        self.basic.append(request.headers.get("authorization"))
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if self._codes.pop(form["code"], None) != challenge:
                return JSONResponse({"error": "invalid_grant"}, 400)
            return JSONResponse(self.issue())
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.refusal is not None:
            return JSONResponse(self.refusal[1], self.refusal[0])
        if form["refresh_token"] not in self.refresh_tokens:
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.refresh_tokens.remove(form["refresh_token"])  # each is good for one use
        return JSONResponse(self.issue())

    def issue(self) -> Json:
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.tokens.add(access)
        self.refresh_tokens.add(refresh)
        lifetime = self.lifetimes.pop(0) if len(self.lifetimes) > 1 else self.lifetimes[0]
        return {
            "access_token": access,
            "token_type": "Bearer",
            "refresh_token": refresh,
            "expires_in": lifetime,
        }

    async def revoke(self, request: Request) -> Response:
        self.revoked.append(parse_qs((await request.body()).decode())["token"][0])
        return Response()

    # the MCP server

    def protected(self) -> Any:
        async def listing(context: Any, params: Any = None) -> ListToolsResult:
            return ListToolsResult(tools=[WireTool(name="echo", input_schema={"type": "object"})])

        async def calling(context: Any, params: Any) -> CallToolResult:
            self.calls += 1
            if self.calls >= self.together:
                self._all_there.set()
            await self._all_there.wait()
            return CallToolResult(content=[TextContent(type="text", text="hi")])

        server = Server("protected", version="1", on_list_tools=listing, on_call_tool=calling)
        inner = server.streamable_http_app()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            headers = dict(scope["headers"])
            given = headers.get(b"authorization")
            self.seen.append(given and given.decode())
            asked = self.lets_in and headers.get(b"mcp-method") != b"tools/call"
            refused = None if asked else self._refused(given.decode() if given else "")
            await (refused or inner)(scope, receive, send)

        return app

    def _refused(self, given: str) -> Response | None:
        metadata = f'resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
        if given.removeprefix("Bearer ") not in self.tokens or not self.accepts:
            return Response("no", 401, {"WWW-Authenticate": f"Bearer {metadata}"})
        if self.missing_scope:
            said = f'Bearer error="insufficient_scope", scope="{self.missing_scope}", {metadata}'
            return Response("no", 403, {"WWW-Authenticate": said})
        return None


@asynccontextmanager
async def open_authority() -> AsyncIterator[Authority]:
    authority = Authority()
    protected = authority.protected()
    well_known = "/.well-known/oauth-"
    others = Starlette(
        routes=[
            Route(f"{well_known}protected-resource/mcp", authority.resource),
            Route(f"{well_known}authorization-server", authority.metadata),
            Route("/register", authority.register, methods=["POST"]),
            Route("/authorize", authority.authorize),
            Route("/token", authority.token, methods=["POST"]),
            Route("/revoke", authority.revoke, methods=["POST"]),
        ]
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        mine = scope["type"] == "http" and scope["path"] != "/mcp"
        await (others if mine else protected)(scope, receive, send)

    async with listening(app, port=0) as server:
        authority.base = f"http://127.0.0.1:{port_of(server)}"
        yield authority


async def browse(url: str, **changed: str) -> httpx2.Response:
    """Open a page that sends us on, and go there; with `changed` parameters if a test says so."""
    async with httpx2.AsyncClient(trust_env=False) as http:
        there = (await http.get(url)).headers["location"]
        parts = urlsplit(there)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changed
        return await http.get(parts._replace(query=urlencode(query)).geturl())
