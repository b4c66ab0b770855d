"""`${env:NAME}` and `${keyring:NAME}`: stands in for values, from the settings to the last moment.

A value is looked up when its server is dialled and goes to that server alone. From then on no log,
error or answer of ours shows it: the reference stands in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcpproxy.errors import ProxyError
from mcpproxy.redaction import SECRET_NAME, SECRETS
from mcpproxy.vault import Vault, VaultError

if TYPE_CHECKING:
    from mcpproxy.settings import ServerSettings

INHERITED = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR",
)  # fmt: skip
"""All that a server sees of our environment, besides LC_* and what its settings give it. No secrets."""

REFERENCE = re.compile(
    r"\$\{(?:env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)|keyring:(?P<keyring>[A-Za-z0-9_][A-Za-z0-9_.-]*))\}"
)
VAULT_SECONDS = 20.0
"""For a keyring that asks somebody to unlock it."""


class Unreachable(ProxyError):
    """A server can't be dialled as it is configured; the message says what to change."""


@dataclass(slots=True)
class References:
    """Where values are looked up: the daemon's environment, and what was fetched from the vault."""

    environ: Mapping[str, str] = field(repr=False)
    vault: Vault | None = None
    fetched: dict[str, str | None] = field(default_factory=dict, repr=False)
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))
    """Threads that may wait for a keyring that doesn't answer; all others have theirs."""

    def resolve(self, text: str, where: str) -> str:
        """The text with its references replaced. Raises `Unreachable` for what isn't there."""

        def value(found: re.Match[str]) -> str:
            name = found["env"]
            if name is None:
                return self._kept(found["keyring"], where)
            if name not in self.environ:
                raise Unreachable(
                    f"{where} refers to {found[0]}, which is not set in the daemon's environment; "
                    "set it there and start the daemon anew"
                )
            text = self.environ[name]
            # A word under an ordinary name ("production") is no secret, and in many a text.
            if name not in INHERITED and (SECRET_NAME.search(name) or not text.isalpha()):
                SECRETS.add(text, found[0])
            return text

        return REFERENCE.sub(value, text)

    def _kept(self, name: str, where: str) -> str:
        value = self.fetched.get(name)
        if value is None:
            raise Unreachable(
                f"{where} refers to ${{keyring:{name}}}, which is not there; "
                f"set it with: mcpproxy secrets set {name}"
            )
        return value

    async def fetch(self, settings: ServerSettings) -> None:
        """Get from the vault what these settings refer to. Raises `Unreachable`."""
        names = named(settings)
        if not names or (vault := self.vault) is None:
            return
        try:
            with anyio.fail_after(VAULT_SECONDS):
                self.fetched |= await anyio.to_thread.run_sync(
                    lambda: {name: vault.get(name) for name in names},
                    abandon_on_cancel=True,
                    limiter=self.limiter,
                )
        except TimeoutError as error:
            raise Unreachable(
                f"the system's keyring did not answer within {VAULT_SECONDS:g} s: it may wait to be unlocked"
            ) from error
        except VaultError as error:
            raise Unreachable(str(error)) from error


def named(settings: ServerSettings) -> list[str]:
    """The secrets of the vault that a server's settings refer to."""
    found = REFERENCE.finditer(settings.model_dump_json())
    return sorted({match["keyring"] for match in found if match["keyring"]})
