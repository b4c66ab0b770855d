"""The configuration: each setting is defined, checked and documented here, once.

The file is shared with other tools, so keys that we don't know are kept and named in a warning. A
wrong type is an error that names the path and the value. One server that can't be used as written
is left out and reported; it never keeps the others from running.
"""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    Strict,
    ValidationError,
)

from mcpproxy import edit, jsonc
from mcpproxy.errors import SettingsError
from mcpproxy.paths import Places, places, private_directory, replace_file
from mcpproxy.profiles import by_name
from mcpproxy.redaction import SECRETS

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds(value: object) -> object:
    """A duration: milliseconds as a number, or Go's way of writing it ("250ms", "2s", "1h30m")."""
    if isinstance(value, bool):
        raise ValueError('must be milliseconds, or a text such as "30s" or "2m"')
    if isinstance(value, (int, float)):
        return value / 1000
    if isinstance(value, str):
        parts = DURATION.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            raise ValueError('must be milliseconds, or a text such as "250ms", "30s" or "1h30m"')
        return sum(float(number) * UNITS[unit] for number, unit in parts)
    return value


Duration = Annotated[float, BeforeValidator(seconds), Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="allow", strict=True, use_attribute_docstrings=True
    )


SectionT = TypeVar("SectionT", bound=Section)


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
        "auto"
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
    """Whether its new and changed tools are approved as they come."""
    lazy: bool = False
    """Connect at the first use only, or at the first search; from then on its tools are known from the last time."""
    idle_timeout: Duration = 600.0
    """How long a lazy server stays connected after its last call; 0 is for good."""
    era: Literal["auto", "legacy", "modern"] = "auto"
    """The protocol revisions to speak: by handshake (up to 2025-11-25), stateless (2026-07-28), or what it answers to."""
    call_tool_timeout: Duration | None = None
    """How long one call may take; the global value when unset."""
    init_timeout: Duration | None = None
    """How long connecting may take; the global value when unset."""
    health_check_interval: Duration | None = None
    """Time between health checks; the global value when unset."""


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
    api_key: SecretStr = SecretStr("")
    """The administrator's key; made and written to the file when there is none."""
    require_mcp_auth: bool = False
    """Whether `/mcp` wants a key on loopback, too. Elsewhere it always does."""
    trusted_hosts: list[str] = []
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

    call_tool_timeout: Duration = 120.0
    """How long one upstream call may take, not counting the time in which its client answers a question of it. Milliseconds, or "2m"."""
    init_timeout: Duration = 30.0
    """How long connecting to an upstream may take."""
    health_check_interval: Duration = 30.0
    """Time between health checks of a connected upstream."""
    tool_discovery_interval: Duration = 300.0
    """Time after which an upstream's tools are listed anew when it gives no time to live."""
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
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f'must be HOST:PORT such as "127.0.0.1:8080", not "{listen}"')
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and what was to be said about their source."""

    settings: Settings
    places: Places
    warnings: list[str] = field(default_factory=list)
    server_errors: dict[str, str] = field(default_factory=dict)
    """Servers that were left out, by name (or by place in the file), and why."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    overrides: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What beats the file, when it is read anew, too."""


def load(
    path: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
    *,
    create: bool = False,
) -> Loaded:
    """The settings of a file; flags (`overrides`) beat the environment beats the file.

    With `create`, a file that isn't there is made, with a key. Raises `SettingsError`.
    """
    if create and not path.exists():
        _create(path)
    text = read(path)
    document = parse(path, text)
    if document.get("api_key", "") == "":
        write(path, edit.put(text, ("api_key",), secrets.token_hex(32)))
        document = parse(path, read(path))
    return check(path, document, environ, overrides)


def check(
    path: Path,
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings of a document that is, or will be, in a file. Raises `SettingsError`."""
    document = dict(document)
    warnings: list[str] = []
    errors: dict[str, str] = {}
    document["mcpServers"] = list(_servers(document.get("mcpServers", []), errors, warnings))
    for name, variable in (("listen", "LISTEN"), ("api_key", "API_KEY"), ("data_dir", "DATA_DIR")):
        if value := environ.get(f"MCPPROXY_{variable}"):
            document[name] = value
    document |= {name: value for name, value in (overrides or {}).items() if value is not None}
    document.pop("servers", None)
    try:
        settings = _checked(Settings, document, "", warnings)
        split_listen(settings.listen)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: listen {error}") from error
    SECRETS.add(settings.api_key.get_secret_value(), "(api_key)")
    warnings += [f"server '{name}' is left out: {reason}" for name, reason in errors.items()]
    known = {server.name for server in settings.servers} | errors.keys()
    warnings += [
        f"profile '{name}' names the server '{each}', which is not configured"
        for name, servers in settings.profiles.items()
        for each in servers
        if each not in known
    ]
    data_dir = Path(settings.data_dir) if settings.data_dir else None
    return Loaded(settings, places(path, data_dir), warnings, errors, environ, overrides or {})


def read(path: Path) -> str:
    """The text of a file, its line ends as they are. Raises `SettingsError`."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError as error:
        raise SettingsError(
            f"there is no configuration at {path}: give another with --config"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} can't be read: {error}") from error


def parse(path: Path, text: str) -> dict[str, Any]:
    """The document in a file's text. Raises `SettingsError`."""
    try:
        document = jsonc.loads(text)
    except ValueError as error:
        raise SettingsError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise SettingsError(f'{path} must hold a JSON object, such as {{"mcpServers": []}}')
    return document


def write(path: Path, text: str) -> None:
    """Replace a file at once, readable by this user alone; where it is a link, what that leads to.

    Raises `SettingsError`.
    """
    try:
        replace_file(path.resolve(), text.encode())
    except OSError as error:
        raise SettingsError(f"{path} can't be written: {error}") from error


def _create(path: Path) -> None:
    try:
        private_directory(path.parent)
    except OSError as error:
        raise SettingsError(f"{path} can't be written: {error}") from error
    write(path, json.dumps({"listen": "127.0.0.1:8080", "mcpServers": []}, indent=2) + "\n")


def _servers(
    found: object, errors: dict[str, str], warnings: list[str]
) -> Iterator[ServerSettings]:
    """The servers that can be used; the others go to `errors`."""
    if isinstance(found, dict):
        entries = [(f'mcpServers["{name}"]', entry, name) for name, entry in found.items()]
    elif isinstance(found, list):
        entries = [(f"mcpServers[{n}]", entry, None) for n, entry in enumerate(found)]
    else:
        raise SettingsError(
            f"mcpServers must be an array or an object, not {json.dumps(found)[:80]}"
        )
    seen: set[str] = set()
    for path, entry, key in entries:
        if not isinstance(entry, dict):
            errors[key or path] = f"{path} must be an object, not {json.dumps(entry)[:80]}"
            continue
        entry = {"name": key, **entry} if key is not None else dict(entry)
        if entry.get("type") and "protocol" not in entry:  # as other clients call it
            entry["protocol"] = entry.pop("type")
        name = entry["name"] if isinstance(entry.get("name"), str) and entry["name"] else path
        try:
            server = _checked(ServerSettings, entry, path, warnings)
            _usable(server, path)
        except SettingsError as error:
            errors[name] = str(error)
            continue
        if server.name in seen:
            errors[f"{server.name} ({path})"] = (
                f"{path}: another server is called '{server.name}'; rename one"
            )
            continue
        seen.add(server.name)
        yield server


def _usable(server: ServerSettings, path: str) -> None:
    if ":" in server.name:
        raise SettingsError(f"{path}.name '{server.name}' must not contain ':'")
    if server.command is not None and not server.command.strip():
        raise SettingsError(f"{path}.command of '{server.name}' is empty; give a program, or a url")
    if server.protocol == "toolpack":
        if server.directory is None or not server.directory.startswith(("/", "~/", "${env:")):
            raise SettingsError(
                f"{path}.directory of '{server.name}' must be the absolute path of its tool files, "
                f"not {json.dumps(server.directory)}"
            )
        return
    if server.protocol == "openapi":
        _usable_document(server, path)
        return
    if server.command is None and server.url is None:
        raise SettingsError(f"{path}: server '{server.name}' has neither command nor url; give one")
    if server.protocol == "stdio" and server.command is None:
        raise SettingsError(f"{path}: server '{server.name}' has protocol stdio and no command")
    if server.protocol in ("http", "streamable-http", "sse") and server.url is None:
        raise SettingsError(
            f"{path}: server '{server.name}' has protocol {server.protocol} and no url"
        )
    if server.url is not None:
        parts = urlsplit(server.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                f"{path}.url of '{server.name}' must begin with http:// or https://, not '{server.url}'"
            )


def _usable_document(server: ServerSettings, path: str) -> None:
    starts = ("/", "~/", "${env:", "http://", "https://")
    if server.document is None or not server.document.startswith(starts):
        raise SettingsError(
            f"{path}.document of '{server.name}' must be a URL or an absolute path, "
            f"not {json.dumps(server.document)}"
        )
    if server.base_url is not None and not server.base_url.startswith(
        ("http://", "https://", "${env:")
    ):
        raise SettingsError(
            f"{path}.base_url of '{server.name}' must begin with http:// or https://"
        )


def _checked(
    model: type[SectionT], document: Mapping[str, Any], path: str, warnings: list[str]
) -> SectionT:
    """The section, with unknown keys named in `warnings`. Raises `SettingsError` with path and value."""
    try:
        section = model.model_validate(document)
    except ValidationError as error:
        raise SettingsError("; ".join(_faults(error, path))) from error
    warnings += [
        f"unknown setting '{name}' is kept and has no effect here"
        for name in _unknown(section, path)
    ]
    return section


def _unknown(section: Section, path: str) -> Iterator[str]:
    prefix = f"{path}." if path else ""
    for name in section.model_extra or {}:
        yield prefix + name
    for name, value in section:
        if isinstance(value, Section):
            yield from _unknown(value, prefix + name)


def _faults(error: ValidationError, path: str) -> Iterator[str]:
    for fault in error.errors(include_url=False)[:5]:
        where = path
        for part in fault["loc"]:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
        secret = any(word in where for word in ("key", "headers", "env", "auth"))
        value = (
            ""
            if secret or fault["type"] == "missing"
            else f" (it is {json.dumps(fault['input'], default=str)[:80]})"
        )
        message = fault["msg"].removeprefix("Value error, ")
        yield f"{where}: {message[:1].lower()}{message[1:]}{value}"
