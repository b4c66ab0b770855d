"""Agents' tokens: what each lets its holder do, and until when.

A token is shown once, to the one who made it. What is kept is a hash of it under a key that lies
beside the hashes, in a file of its own. The daemon and the command line write the same file, one at
a time; whoever reads it looks first whether it has changed, so that a change holds at once.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from mcpproxy import names
from mcpproxy.errors import Refused, SettingsError
from mcpproxy.paths import private_directory, reason, signature, take_turn
from mcpproxy.policy import PERMISSIONS, RESERVED, Caller, Ceilings, Permission
from mcpproxy.settings import write
from mcpproxy.stamps import stamp

logger = logging.getLogger(__name__)

PREFIX = b"mcp_agt_"
KEY_BYTES = 32
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
HASH = re.compile(r"[0-9a-f]{64}")
LIFETIME = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
LONGEST = 365 * UNITS["d"]
LATEST = 10.0**11
"""Seconds since 1970, beyond all that a clock says."""
DEFAULT_LIFETIME = "30d"
ALL = "*"
CEILINGS = {"max_timeout_ms": 600_000, "max_tool_calls": 10**9, "max_executions_per_minute": 10**6}
"""The largest value of each; the least is 1."""
FIELDS = ("name", "allowed_servers", "permissions", "expires_in", *CEILINGS)
SHOWN = (
    "name", "allowed_servers", "permissions", "created_at", "expires_at", "expired", *CEILINGS,
)  # fmt: skip
"""What an operator sees of a token; `Token.shown` has these."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of one. Times are seconds since 1970."""

    name: str
    hash: str
    allowed_servers: tuple[str, ...]
    """`*` alone is all."""
    permissions: tuple[Permission, ...]
    created: float
    expires: float
    lifetime: float
    """Seconds from when its secret was made until it expires."""
    max_timeout_ms: int | None = None
    max_tool_calls: int | None = None
    max_executions_per_minute: int | None = None

    def caller(self) -> Caller:
        return Caller(
            name=self.name,
            rank="token",
            token=self.hash,
            since=self.created,
            servers=None if ALL in self.allowed_servers else frozenset(self.allowed_servers),
            permissions=frozenset(self.permissions),
            ceilings=Ceilings(
                self.max_timeout_ms, self.max_tool_calls, self.max_executions_per_minute
            ),
        )

    def shown(self, now: float) -> Json:
        """As an operator sees it: everything but the secret, of which there is no copy."""
        return {
            "name": self.name,
            "allowed_servers": list(self.allowed_servers),
            "permissions": list(self.permissions),
            "created_at": stamp(self.created),
            "expires_at": stamp(self.expires),
            "expired": self.expires <= now,
            **{name: getattr(self, name) for name in CEILINGS},
        }


class Tokens:
    """The tokens of one state directory. All verbs but `find` raise `Refused`."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self.file = directory / "tokens.json"
        self.key_file = directory / "tokens.key"
        self._clock = clock
        self._seen: object = None
        self._held: tuple[bytes, tuple[Token, ...]] = (b"", ())
        self._fault: str | None = None
        """Why they could not be read the last time."""

    # who comes in

    def find(self, secret: bytes) -> Token | None:
        """The token with this secret, expired or not. Takes as long for a wrong one as for a right one."""
        key, tokens = self._current()
        digest = hashed(key, secret)
        found = None
        for token in tokens:
            if hmac.compare_digest(token.hash, digest):
                found = token
        return found if key else None

    def expired(self, token: Token) -> bool:
        return token.expires <= self._clock()

    def hold(self, caller: Caller) -> bool:
        """Whether the token that a caller came in with is still one, as it was."""
        now = self._clock()
        return any(t.hash == caller.token and t.expires > now for t in self._current()[1])

    def _current(self) -> tuple[bytes, tuple[Token, ...]]:
        now = signature(self.file), signature(self.key_file)
        if now != self._seen:
            try:
                self._held = read_key(self.key_file), self._read()
                self._seen, self._fault = now, None
            except Refused as error:
                self._held = b"", ()  # what can't be read lets nobody in, and is read again
                if self._fault != (fault := str(error)):
                    logger.error("no agent's token works: %s", fault)
                self._seen, self._fault = None, fault
        return self._held

    # what an operator does

    def listing(self) -> list[Json]:
        return [token.shown(self._clock()) for token in self._read()]

    def show(self, name: str) -> Json:
        return one(name, self._read()).shown(self._clock())

    def create(self, wanted: Mapping[str, Any]) -> Json:
        """A new token as it is shown, and its secret as `token`, which nobody will see again.

        Raises `Refused` that names the member at fault.
        """
        asked = read_wanted(wanted)
        with self._writing() as (key, tokens):
            if any(token.name == asked["name"] for token in tokens):
                raise Refused(
                    "INVALID_REQUEST",
                    f"name: there is a token {asked['name']!r} already; choose another name, or give that one a new "
                    f"secret: mcpproxy token regenerate {asked['name']}",
                )
            made, secret = self._made(key, asked)
            self._write([*tokens, made])
        logger.info("token '%s' was made", made.name)
        return {**made.shown(self._clock()), "token": secret}

    def regenerate(self, name: str, wanted: Mapping[str, Any]) -> Json:
        """The same token with a new secret, for as long as before or as `expires_in` says."""
        only(wanted, ("expires_in",))
        with self._writing() as (key, tokens):
            before = one(name, tokens)
            lifetime = before.lifetime
            if "expires_in" in wanted:
                lifetime = read_lifetime(wanted["expires_in"])
            kept = {
                key: value
                for key, value in asdict(before).items()
                if key not in ("hash", "created", "expires")
            }
            made, secret = self._made(key, {**kept, "lifetime": lifetime})
            made = replace(made, created=before.created)
            self._write([made if token.name == name else token for token in tokens])
        logger.info("token '%s' was given a new secret", name)
        return {**made.shown(self._clock()), "token": secret}

    def revoke(self, name: str) -> Json:
        with self._writing() as (_, tokens):
            one(name, tokens)
            self._write([token for token in tokens if token.name != name])
        logger.info("token '%s' was revoked", name)
        return {"name": name, "revoked": True}

    def _made(self, key: bytes, asked: Mapping[str, Any]) -> tuple[Token, str]:
        secret = PREFIX.decode() + secrets.token_hex(32)
        now = self._clock()
        made = Token(
            hash=hashed(key, secret.encode()), created=now, expires=now + asked["lifetime"], **asked
        )
        return made, secret

    # the files

    @contextmanager
    def _writing(self) -> Iterator[tuple[bytes, list[Token]]]:
        """The key, which is made when there is none, and the tokens, while nobody else writes them."""
        with ExitStack() as held:
            try:
                private_directory(self.key_file.parent)
                descriptor = os.open(
                    self.key_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
                )
                held.callback(os.close, descriptor)
                take_turn(descriptor)
                tokens = list(self._read())
                if not os.fstat(descriptor).st_size:
                    if tokens:
                        why = f"it is gone; remove {self.file} and make the tokens anew"
                        raise unusable(self.key_file, why)
                    make_key(descriptor)
            except OSError as error:
                raise unusable(self.key_file, reason(error)) from error
            yield read_key(self.key_file), tokens

    def _read(self) -> tuple[Token, ...]:
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))["tokens"]
            return tuple(kept(each) for each in found)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise unusable(self.file, reason(error)) from error
        except (ValueError, TypeError, KeyError, Refused) as error:
            raise unusable(self.file, f"it is damaged ({error}); remove it") from error

    def _write(self, tokens: list[Token]) -> None:
        text = json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=1)
        try:
            write(self.file, text + "\n")
        except SettingsError as error:
            raise Refused("EXECUTION_FAILED", str(error)) from error


def kept(entry: Json) -> Token:
    """A token as it stands in the file. Raises `ValueError`, `TypeError`, `KeyError`."""
    token = Token(
        **{
            **entry,
            "allowed_servers": read_servers(entry["allowed_servers"]),
            "permissions": read_permissions(entry["permissions"]),
        }
    )
    if not HASH.fullmatch(token.hash) or not NAME.fullmatch(token.name):
        raise ValueError("a name or a hash is none")
    for when in (token.created, token.expires, token.lifetime):
        if type(when) not in (int, float) or not 0 <= when < LATEST:
            raise ValueError("a time is none")
    for name in CEILINGS:
        read_ceiling(name, getattr(token, name))
    return token


def hashed(key: bytes, secret: bytes) -> str:
    return hmac.digest(key or bytes(KEY_BYTES), secret, "sha256").hex()


def make_key(descriptor: int) -> None:
    """Write a new key. Raises `OSError`; then there is none."""
    try:
        os.write(descriptor, secrets.token_bytes(KEY_BYTES))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, 0)
        raise


def read_key(path: Path) -> bytes:
    """The key; empty when there is none. Raises `Refused`."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise unusable(path, reason(error)) from error
    if len(key) != KEY_BYTES:
        raise unusable(path, "it is damaged; remove it and tokens.json, and make the tokens anew")
    return key


def unusable(path: Path, why: str) -> Refused:
    return Refused("EXECUTION_FAILED", f"the tokens can't be kept: {path}: {why}")


def one(name: str, tokens: tuple[Token, ...] | list[Token]) -> Token:
    """The token of a name. Raises `Refused`."""
    for token in tokens:
        if token.name == name:
            return token
    known = [token.name for token in tokens]
    near = names.close(name, known)
    meant = f"did you mean {' or '.join(map(repr, near))}?" if near else ""
    there = f"there are {', '.join(known[:20])}" if known else "there are none"
    raise Refused("NOT_FOUND", f"there is no token {name[:64]!r}; {meant or there}")


# ── what is asked for ───────────────────────────────────────────────────────────────────────────


def read_wanted(wanted: Mapping[str, Any]) -> Json:
    """The fields of a `Token` that a request decides. Raises `Refused` that names the field."""
    only(wanted, FIELDS)
    name = wanted.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise wrong("name", "must be 1 to 64 characters of A-Z a-z 0-9 _ . -, the first no sign")
    if name in RESERVED:
        raise wrong("name", f"{name!r} is the name of somebody else here; choose another")
    ceilings = {key: read_ceiling(key, wanted.get(key)) for key in CEILINGS}
    return {
        "name": name,
        "allowed_servers": read_servers(wanted.get("allowed_servers")),
        "permissions": read_permissions(wanted.get("permissions", ["read"])),
        "lifetime": read_lifetime(wanted.get("expires_in", DEFAULT_LIFETIME)),
        **ceilings,
    }


def only(wanted: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in wanted:
        if name not in known:
            raise wrong(name[:64], f"is no field of a token; known are {', '.join(known)}")


def read_servers(value: object) -> tuple[str, ...]:
    if not strings(value) or not value:
        raise wrong(
            "allowed_servers", 'must be an array of one or more server names, or ["*"] for all'
        )
    found = tuple(dict.fromkeys(value))
    if ALL in found and len(found) > 1:
        raise wrong("allowed_servers", '"*" is all of them: give it alone, or names alone')
    if not all(0 < len(name) <= 128 for name in found):
        raise wrong("allowed_servers", "a name has 1 to 128 characters")
    return found


def read_permissions(value: object) -> tuple[Permission, ...]:
    known = ", ".join(PERMISSIONS)
    if not strings(value) or set(value) - set(PERMISSIONS):
        raise wrong("permissions", f"must be an array of {known}")
    if "read" not in value:
        raise wrong("permissions", "must have read in it: every token may at least read")
    return tuple(each for each in PERMISSIONS if each in value)


def read_lifetime(value: object) -> float:
    """Seconds."""
    parts = LIFETIME.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise wrong("expires_in", 'must be a time such as "30d", "12h", "90m" or "4w"')
    found = int(parts[1]) * UNITS[parts[2]]
    if found > LONGEST:
        raise wrong("expires_in", "must be at most 365d; a token can be regenerated")
    return found


def read_ceiling(name: str, value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= CEILINGS[name]:
        raise wrong(name, f"must be a whole number from 1 to {CEILINGS[name]:,}")
    return value


def strings(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def wrong(field: str, why: str) -> Refused:
    return Refused("INVALID_REQUEST", f"{field}: {why}")
