"""Secrets to which the operator gave a name, for `${keyring:NAME}` in the configuration.

They are in the system's keyring (service "mcpproxy"). Where a machine has none, as servers without a
desktop do, they are in a file of this user's alone. A keyring can't be listed, so that file knows all
names. What is here waits for the disk, or for another program: call it in a thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from mcpproxy.errors import ProxyError
from mcpproxy.paths import private_directory, reason, replace_file, sole_writer
from mcpproxy.redaction import SECRETS

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "mcpproxy"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
LONGEST = 64 * 1024
"""Characters of a value."""

T = TypeVar("T")
Store = Literal["keyring", "file"]
Values = dict[str, str | None]
"""By name; None for one that is in the keyring."""


class VaultError(ProxyError):
    """A secret can't be had or kept; the message says why and what helps."""


class Vault:
    """The named secrets of one configuration."""

    def __init__(self, state: Path) -> None:
        self.path = state / "secrets.json"

    def get(self, name: str) -> str | None:
        """The value, wherever it is; from now on no text has it. Raises `VaultError`."""
        value = self._read().get(name)
        if value is None and (backend := system()) is not None:
            value = asked(lambda: backend.get_password(SERVICE, name))
        if value:
            SECRETS.add(value, f"${{keyring:{name}}}")
        return value or None

    def set(self, name: str, value: str) -> Store:
        """Keep a value, and say where. Raises `VaultError`."""
        if not NAME.fullmatch(name):
            raise VaultError(
                f"{name[:100]!r} can't be the name of a secret: use letters, digits, '_', '-' and '.'"
            )
        if not value or len(value) > LONGEST:
            raise VaultError(f"the value has {len(value)} characters; it may have 1 to {LONGEST:,}")
        SECRETS.add(value, f"${{keyring:{name}}}")
        backend = system()
        if backend is not None:
            asked(lambda: backend.set_password(SERVICE, name, value))
        self._change(lambda known: {**known, name: None if backend is not None else value})
        return "file" if backend is None else "keyring"

    def delete(self, name: str) -> bool:
        """Whether there was one. Raises `VaultError`."""
        there = name in self._read()
        if (backend := system()) is not None:
            in_keyring = asked(lambda: backend.get_password(SERVICE, name)) is not None
            if in_keyring:
                asked(lambda: backend.delete_password(SERVICE, name))
            there = there or in_keyring
        if there:
            self._change(lambda known: {each: known[each] for each in known if each != name})
        return there

    def names(self) -> dict[str, Store]:
        """The secrets that were set here, and where each is. Raises `VaultError`."""
        found = self._read()
        return {name: "keyring" if found[name] is None else "file" for name in sorted(found)}

    def _read(self) -> Values:
        try:
            found = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise VaultError(f"{self.path} can't be read: {error}") from error
        if not isinstance(found, dict):
            raise VaultError(f"{self.path} is damaged: remove it, and set its secrets anew")
        return found

    def _change(self, alter: Callable[[Values], Values]) -> None:
        try:
            private_directory(self.path.parent)
            with sole_writer(self.path.parent):
                replace_file(self.path, json.dumps(alter(self._read()), indent=1).encode())
        except OSError as error:
            raise VaultError(f"{self.path} can't be written: {reason(error)}") from error


def system() -> KeyringBackend | None:
    """The system's keyring, if there is one that keeps anything."""
    import keyring
    from keyring.backends import fail, null

    found = keyring.get_keyring()
    return None if isinstance(found, fail.Keyring | null.Keyring) else found


def asked(question: Callable[[], T]) -> T:
    """What the keyring answers. Raises `VaultError`."""
    try:
        return question()
    except Exception as error:  # each backend has its own, besides those of the package
        raise VaultError(
            f"the system's keyring does not answer ({type(error).__name__}: {error}); unlock it, or do "
            "without: PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring keeps secrets in a file"
        ) from error
