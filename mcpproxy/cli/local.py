"""How a command finds the running daemon: its Unix socket first, then the configured address.

Import-light: standard library only, besides the places on disk.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcpproxy import __version__, jsonc, paths

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Who listens where, on Linux."""
PROBE_SECONDS = 2.0

UNSURE = "; what was asked for may have been done: see mcpproxy activity list"


class NoAnswer(Exception):
    """The daemon hung up, took too long or isn't one; the message says which."""


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that answers, and how to reach it."""

    where: str
    socket: Path | None = None
    host: str = ""
    port: int = 0
    key: str = field(default="", repr=False)

    @property
    def headers(self) -> dict[str, str | bytes]:
        """What opens its door: the key as the bytes that it compares, whatever letters it has."""
        return {"X-API-Key": self.key.encode()} if self.key else {}

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        if self.socket is not None:
            return OverUnix(self.socket, timeout)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)


class OverUnix(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def document(config: str | None) -> dict[str, Any]:
    """The configuration's document, unchecked; empty when there is none that can be read."""
    try:
        found = jsonc.loads(paths.config_file(config).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def places_of(config: str | None) -> paths.Places:
    """The places of a configuration, as the daemon that runs with it sees them."""
    found = os.environ.get("MCPPROXY_DATA_DIR") or document(config).get("data_dir")
    data_dir = Path(found) if found and isinstance(found, str) else None
    return paths.places(paths.config_file(config), data_dir)


def find(config: str | None) -> Running | None:
    """The daemon that runs with this configuration, if one answers."""
    file = str(paths.config_file(config))
    return next((each for each in candidates(config) if answers(each, file)), None)


def candidates(config: str | None) -> Iterator[Running]:
    """Where one may be, the local socket first; the key goes nowhere that somebody else may listen."""
    path = places_of(config).socket
    if ours(path):
        yield Running(str(path), socket=path)
    found = document(config)
    listen = os.environ.get("MCPPROXY_LISTEN") or found.get("listen", "127.0.0.1:8080")
    key = os.environ.get("MCPPROXY_API_KEY") or found.get("api_key")
    host, _, port = listen.rpartition(":") if isinstance(listen, str) else ("", "", "")
    if (
        port.isdecimal()
        and len(port) < 6
        and 0 < int(port) < 65536
        and isinstance(key, str)
        and key
    ):
        # Whoever says where to go, and with which key, knows who is there.
        if "MCPPROXY_API_KEY" not in os.environ and strangers(int(port), config):
            return
        yield Running(
            f"http://{host or '127.0.0.1'}:{port}",
            host=host.strip("[]") or "127.0.0.1",
            port=int(port),
            key=key,
        )


def strangers(port: int, config: str | None) -> bool:
    """Whether another user of this machine listens on a port, who would be sent the key. Linux alone tells.

    Source: proc_net(5): columns 2, 4 and 8 are the local address, the state (0A listens) and the user.
    """
    known = {os.getuid()}
    with suppress(OSError):
        known.add(paths.config_file(config).stat().st_uid)
    for table in TABLES:
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                here = columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port
                if here and int(columns[7]) not in known:
                    return True
    return False


def ours(path: Path) -> bool:
    """Whether a file is there and this user's: what another one put there isn't the daemon."""
    with suppress(OSError):
        return path.stat().st_uid == os.getuid()
    return False


def answers(daemon: Running, config: str) -> bool:
    """Whether it is the daemon of this configuration; another one has other servers.

    Any program may have the configured port: the key goes to none that doesn't answer as we do.
    """
    with suppress(NoAnswer):
        if daemon.socket is None:
            stranger = replace(daemon, key="")
            if request(stranger, "GET", "/livez", timeout=PROBE_SECONDS)[1] != {"status": "ok"}:
                return False
        status, found = request(daemon, "GET", "/api/v1/status", timeout=PROBE_SECONDS)
        data = found.get("data")
        return status == 200 and isinstance(data, dict) and data.get("config") == config
    return False


def request(
    daemon: Running, verb: str, path: str, body: Any = None, *, timeout: float
) -> tuple[int, dict[str, Any]]:
    """Status and JSON of one answer. Raises `NoAnswer`."""
    status, text = fetch(daemon, verb, path, body, timeout=timeout)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(f"{daemon.where} answered with something that is no JSON") from error
    if not isinstance(found, dict):
        raise NoAnswer(f"{daemon.where} answered as no mcpproxy does")
    return status, found


def fetch(
    daemon: Running, verb: str, path: str, body: Any = None, *, timeout: float
) -> tuple[int, bytes]:
    """Status and body of one answer. Raises `NoAnswer`.

    Leaving early (Ctrl-C) closes the connection, which cancels the work.
    """
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"mcpproxy {__version__}",
        **daemon.headers,
    }
    connection = daemon.connect(timeout)
    look = "; see mcpproxy doctor" if verb == "GET" else UNSURE
    try:
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()
    except TimeoutError as error:
        raise NoAnswer(f"the daemon gave no answer within {timeout:g} s{look}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        # `ValueError`: of a host or a key that no address and no header can have.
        why = str(error) or type(error).__name__
        raise NoAnswer(f"the daemon gave no answer: {why}{look}") from error
    finally:
        connection.close()
