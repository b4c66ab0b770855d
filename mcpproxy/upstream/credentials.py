"""What a login leaves behind, as it is kept on disk, and the SDK's provider made from it again."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, BaseModel, ValidationError

from mcpproxy.paths import file_name, private_directory, replace_file

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""Between looks whether another process is done."""


class Kept(BaseModel):
    """All that is kept of a login, on disk too."""

    url: str
    """Whose tokens they are: they are sent nowhere else."""
    client: OAuthClientInformationFull
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """Of the access token, in seconds since 1970."""
    server: OAuthMetadata | None = None
    """The authorization server, as it was found."""
    resource: ProtectedResourceMetadata | None = None


class Nowhere:
    """The SDK's `TokenStorage` for one exchange: it knows a client at most, and we keep the outcome."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """The provider's context has them."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """The provider's context has it."""


def provider_of(kept: Kept) -> OAuthClientProvider:
    """The SDK's provider in the state in which the login left it."""
    metadata = OAuthClientMetadata(
        redirect_uris=kept.client.redirect_uris or [AnyUrl("http://127.0.0.1/")]
    )
    provider = OAuthClientProvider(kept.url, metadata, Nowhere(kept.client))
    context = provider.context
    context.client_info, context.current_tokens = kept.client, kept.tokens
    context.oauth_metadata, context.protected_resource_metadata = kept.server, kept.resource
    context.protocol_version = LATEST_PROTOCOL_VERSION
    return provider


def end_of(tokens: OAuthToken) -> float | None:
    return None if tokens.expires_in is None else time.time() + tokens.expires_in


# ── on disk ─────────────────────────────────────────────────────────────────────────────────────


def place(directory: Path, name: str) -> Path:
    """Where the login of a server is kept, whatever the server is called."""
    return directory / f"{file_name(name)}.json"


def read(path: Path) -> Kept | None:
    try:
        return Kept.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        logger.warning("the login at %s can't be read: %s", path, type(error).__name__)
        return None


def write(path: Path, kept: Kept | None) -> None:
    """Raises `OSError`."""
    if kept is None:
        path.unlink(missing_ok=True)
        return
    private_directory(path.parent)
    replace_file(path, kept.model_dump_json(exclude_none=True).encode())


@asynccontextmanager
async def turn(path: Path | None) -> AsyncIterator[None]:
    """Be the only process at work on a login: others may have the same one, and renew it when we do.

    Raises `OSError`.
    """
    if path is None:
        yield
        return
    private_directory(path.parent)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _taken(lock):  # noqa: ASYNC110 - no event comes from another process
            await anyio.sleep(LOOK_SECONDS)
        yield
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
