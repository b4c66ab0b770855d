"""What can be set: each setting is defined and documented here, once, and values are checked by type."""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    Strict,
)

from mcpproxy.profiles import by_name
from mcpproxy.redaction import HIDDEN

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
HOST = re.compile(r"\.?[a-z0-9_-][a-z0-9._-]*|\[[0-9a-f:.]+\]", re.IGNORECASE)
LONGEST = 366 * 86_400.0
"""Seconds of a duration."""


def seconds(value: object) -> object:
    """The seconds of a duration: milliseconds as a number, or Go's way of writing it ("250ms", "1h30m").

    Raises `ValueError`; what is neither is left to the check of types.
    """
    if isinstance(value, bool):
        raise ValueError('must be milliseconds, or a text such as "30s" or "2m"')
    if isinstance(value, (int, float)):
        # Before it is divided: an integer may be one that no float can hold.
        found = value / 1000 if value <= LONGEST * 1000 else math.inf
    elif isinstance(value, str):
        parts = DURATION.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            raise ValueError('must be milliseconds, or a text such as "250ms", "30s" or "1h30m"')
        found = sum(float(number) * UNITS[unit] for number, unit in parts)
    else:
        return value
    if found > LONGEST:
        raise ValueError(f'must be at most "{LONGEST / 3600:g}h"')
    return found


def host_name(value: str) -> str:
    """A name as the Host header has it. Raises `ValueError` for what no request can have there."""
    if HOST.fullmatch(value) is None:
        raise ValueError(
            'must be a name or an address without scheme and port, such as "proxy.example.com", or '
            '".example.com" for all below it'
        )
    return value


def spelled(seconds: float) -> str:
    """The same as a text."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def shown(value: object) -> object:
    """A secret. Raises `ValueError` for what is shown in the place of one: anybody could know that."""
    if value == HIDDEN:
        raise ValueError(
            f"is {HIDDEN}, which stands for a secret where it is shown; write the secret itself"
        )
    return value


def sendable(key: object) -> object:
    """A key. Raises `ValueError` for one that no header could bring."""
    if isinstance(key, str) and (key != key.strip() or not key.isprintable()):
        raise ValueError(
            "has a line end, a blank at an end, or a character that no header can have"
        )
    return key


Duration = Annotated[
    float, BeforeValidator(seconds), Field(ge=0), PlainSerializer(spelled, when_used="json")
]
Timeout = Annotated[Duration, Field(gt=0)]
"""How long something may take: there is always a limit."""


class Section(BaseModel):
    """An object of the configuration. What it doesn't know is kept, and warned of."""

    model_config = ConfigDict(
        frozen=True, extra="allow", strict=True, use_attribute_docstrings=True
    )


class Concurrency(Section):
    """How many calls may run at once, and how many may wait for their turn."""

    max_concurrent_requests: int | None = Field(None, ge=0)
    """Calls that may run at once; unset or 0 is any number."""
    queue_size: int | None = Field(None, ge=0)
    """Calls that may wait when the limit is reached; unset or 0 refuses them at once (`queue_full`)."""
    queue_timeout: Duration | None = None
    """How long a call may wait (`queue_timeout`); 30 s when unset. Milliseconds, or "2s"."""


class OAuth(Section):
    """How to log in to a server, where what it says of itself isn't enough. PKCE is always used."""

    client_id: str | None = None
    """The id of a client that was registered by hand; mcpproxy registers itself when unset. A reference may stand here."""
    client_secret: str | None = None
    """Its secret, if it has one; `${keyring:NAME}` keeps it out of the file."""
    client_metadata_url: str | None = None
    """HTTPS address of a client metadata document, used as the id where the server takes such."""
    scopes: list[str] = []
    """What to ask for; what the server names when unset."""
    redirect_port: int | None = Field(None, ge=1, le=65535)
    """Port at which the browser comes back to this machine (`http://127.0.0.1:PORT/callback`); any free one when unset."""
    redirect_uri: str | None = None
    """The whole address instead, where it was registered otherwise; it must be on this machine."""
    extra_params: dict[str, str] = {}
    """Further parameters of the address that the browser is sent to, such as `audience`."""


class ClientCredentials(Section):
    """How a token for an API is got: OAuth 2's client credentials."""

    client_id: str
    """The client's id. A reference may stand here."""
    client_secret: str
    """Its secret; `${keyring:NAME}` keeps it out of the file."""
    token_url: str | None = None
    """Where tokens are given; what the document says when unset."""
    scopes: list[str] = []
    """What to ask for."""


class ServerSettings(Concurrency):
    """One upstream MCP server."""

    name: str = Field(min_length=1, max_length=128)
    """Unique, without ":"; the first half of `server:tool`."""
    protocol: Literal["stdio", "http", "streamable-http", "sse", "auto", "toolpack", "openapi"] = (
        # Other clients call it `type`.
        Field("auto", validation_alias=AliasChoices("protocol", "type"))
    )
    """How to reach it. `auto`: stdio with a command; with a URL, streamable HTTP, then SSE. `toolpack`: tools from files; `openapi`: from the document of an API."""
    url: str | None = None
    """Where an HTTP server is."""
    headers: dict[str, str] = {}
    """Sent with each request; `${env:NAME}` stands for the daemon's environment variable, `${keyring:NAME}` for a secret."""
    oauth: OAuth | None = None
    """How to log in to an HTTP server with `mcpproxy auth login`; most need none of it."""
    command: str | None = None
    """The program of a stdio server."""
    args: list[str] = []
    """Its arguments."""
    working_dir: str | None = None
    """The folder it runs in; the daemon's own when unset."""
    directory: str | None = None
    """Where the files of a tool pack are: absolute, or beginning with `~/`."""
    document: str | None = None
    """The OpenAPI document of an API: a URL, or a path that is absolute or begins with `~/`."""
    document_refresh: Duration = 300.0
    """Time after which a document from a URL is fetched anew; 0 is only when connecting."""
    base_url: str | None = None
    """Where the API of a document is, in place of what the document says."""
    include: list[str] = []
    """The operations of a document that become tools, all when empty: `operationId`, `tag:NAME` or `GET /path`, with `*` for any text."""
    exclude: list[str] = []
    """Operations that don't, named in the same way."""
    enabled_tools: list[str] = []
    """The tools that can be called, by their names; all when empty. The others are switched off."""
    disabled_tools: list[str] = []
    """The tools that are switched off: nobody sees them, and a call is refused with TOOL_DISABLED."""
    auth: dict[str, str | ClientCredentials] = {}
    """Credentials for an API by the name of their security scheme: a key, a token or `USER:PASSWORD`, best as `${keyring:NAME}`; or an OAuth client."""
    allow_hosts: list[str] = []
    """Hosts that an API of a document may have besides that of `base_url` or of the document's URL, though they aren't public, or a redirect leads there."""
    env: dict[str, str] = {}
    """Added to the short list of variables it inherits; `${env:NAME}` and `${keyring:NAME}` are resolved when it is started."""
    enabled: bool = True
    """Whether it is connected at all."""
    quarantined: bool | None = None
    """`true`: it waits for approval. `false`: it is trusted, whoever added it. Unset: it waits when it was added after the first start."""
    auto_approve_tool_changes: bool = False
    """Whether its tools, prompts and resources are approved as they come and change."""
    lazy: bool = False
    """Connect at the first use only, or at the first search; from then on its tools are known from the last time."""
    idle_timeout: Duration = 600.0
    """How long a lazy server stays connected after its last call; 0 is for good."""
    era: Literal["auto", "legacy", "modern"] = "auto"
    """The protocol revisions to speak: by handshake (up to 2025-11-25), stateless (2026-07-28), or what it answers to."""
    call_tool_timeout: Timeout | None = None
    """How long one call may take; the global value when unset."""
    init_timeout: Timeout | None = None
    """How long connecting may take; the global value when unset."""
    health_check_interval: Duration | None = None
    """Time between health checks, 0 for none; the global value when unset."""


class Ceilings(Section):
    """What no request may pass, whatever it asks for."""

    max_timeout_ms: int | None = Field(None, ge=1, le=600_000)
    """Longest `timeout_ms` of a request."""
    max_tool_calls: int | None = Field(None, ge=1)
    """Most calls of one execution; "no limit" is above it."""


class Logging(Section):
    """What the daemon writes down."""

    level: Literal["trace", "debug", "info", "warn", "error"] = "info"
    """The least severe line that is written."""


class Settings(Concurrency):
    """All of the file."""

    listen: str = "127.0.0.1:8080"
    """HOST:PORT of the HTTP listener."""
    data_dir: str | None = None
    """Where state and logs go; the platform's usual place when unset."""
    api_key: Annotated[SecretStr, BeforeValidator(shown), BeforeValidator(sendable)] = SecretStr("")
    """The administrator's key; made and written to the file when there is none."""
    require_mcp_auth: bool = False
    """Whether `/mcp` wants a key on loopback, too. Elsewhere it always does."""
    trusted_hosts: list[Annotated[str, AfterValidator(host_name)]] = []
    """Further values of the Host header, for a reverse proxy; ".example.com" takes all below it."""
    enable_socket: bool = True
    """Whether to listen on the local socket as well."""
    servers: Annotated[tuple[ServerSettings, ...], Strict(False)] = Field((), alias="mcpServers")
    """The upstream servers: a list, or an object by name as other clients write it."""
    profiles: Annotated[dict[str, list[str]], BeforeValidator(by_name)] = {}
    """Names of servers, by the name of a profile: `/mcp/p/<name>` shows these and no others."""

    enable_code_execution: bool = True
    """Whether `code_execution` may be used, on any surface."""
    code_execution_timeout_ms: int = Field(120_000, ge=1, le=600_000)
    """Time a script may take, its tool calls included, in milliseconds."""
    code_execution_max_tool_calls: int = Field(0, ge=0)
    """Calls a script may make; 0 is any number."""
    code_execution_pool_size: int = Field(10, ge=1, le=100)
    """Scripts that may run at once, each in a process of its own."""
    code_execution_max_parallel: int = Field(8, ge=1, le=32)
    """Calls of one batch, or typed calls of one script, that run at once."""
    code_execution_memory_mb: int = Field(128, ge=16, le=4096)
    """Memory of one script, in MiB."""
    code_execution_max_result_bytes: int = Field(2**20, ge=1024, le=4 * 2**20)
    """Largest result of a script as JSON, in bytes."""
    code_execution_queue_timeout_ms: int = Field(30_000, ge=1, le=600_000)
    """How long an execution may wait for a free process, in milliseconds."""
    code_execution_limits: Ceilings = Field(default_factory=lambda: Ceilings.model_validate({}))
    """What no request may pass."""
    code_execution_require_confinement: bool = False
    """Refuse to start where scripts can't be fully confined."""

    call_tool_timeout: Timeout = 120.0
    """How long one upstream call may take, not counting the time in which its client answers a question of it. Milliseconds, or "2m"."""
    init_timeout: Timeout = 30.0
    """How long connecting to an upstream may take."""
    health_check_interval: Duration = 30.0
    """Time between health checks of a connected upstream; 0 for none."""
    tool_discovery_interval: Duration = 300.0
    """Time after which an upstream's tools are listed anew when it gives no time to live; 0 is only when it says that they changed."""
    tool_response_limit: int = Field(20_000, ge=0)
    """Characters of text in one direct tool result; what is longer is cut and can be read on. 0 is any number."""
    server_concurrency_defaults: Concurrency = Field(
        default_factory=lambda: Concurrency.model_validate({})
    )
    """Limits of the servers that set none of their own."""
    activity_enabled: bool = True
    """Whether executions, calls and changes are recorded; `mcpproxy activity` shows them."""
    activity_retention_days: float = Field(90, gt=0, strict=False)
    """How long records are kept."""
    activity_max_records: int = Field(100_000, ge=1)
    """How many records are kept, the newest."""
    activity_max_size_mb: int = Field(256, ge=1)
    """How large the records may get together, in MiB; the oldest go first."""
    activity_max_response_size: int = Field(8192, ge=0, le=2**20)
    """Characters that are kept of each result, reply, arguments, input and logs of a record."""
    quarantine_enabled: bool = True
    """Whether servers that are added, and tools that change, wait for an operator's approval."""
    logging: Logging = Field(default_factory=Logging)
    """What the daemon writes down."""

    @property
    def host(self) -> str:
        return split_listen(self.listen)[0]

    @property
    def port(self) -> int:
        return split_listen(self.listen)[1]

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the listener."""
        return self.host == "localhost" or (
            _is_address(self.host) and ipaddress.ip_address(self.host).is_loopback
        )

    @property
    def anonymous_mcp(self) -> bool:
        """Whether MCP clients may come without a key."""
        return self.loopback and not self.require_mcp_auth


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def split_listen(listen: str) -> tuple[str, int]:
    """Host and port of "HOST:PORT", ":PORT" and "[::1]:PORT". Raises `ValueError`."""
    host, colon, port = listen.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port[:6]) <= 65535):
        raise ValueError(f'must be HOST:PORT such as "127.0.0.1:8080", not "{listen}"')
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
