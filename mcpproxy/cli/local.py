"""How a command finds the running daemon: its Unix socket first, then the configured address.

Import-light: standard library only, besides the places on disk.
"""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpproxy import jsonc, paths

PROBE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that answers, and how to reach it."""

    where: str
    socket: Path | None = None
    host: str = ""
    port: int = 0
    key: str = ""

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
    import os

    data_dir = os.environ.get("MCPPROXY_DATA_DIR") or document(config).get("data_dir")
    return paths.places(
        paths.config_file(config), Path(data_dir) if isinstance(data_dir, str) else None
    )


def find(config: str | None) -> Running | None:
    """The daemon that runs with this configuration, if one answers."""
    places = places_of(config)
    candidates = (
        [Running(str(places.socket), socket=places.socket)] if places.socket.exists() else []
    )
    found = document(config)
    host, _, port = str(found.get("listen", "127.0.0.1:8080")).rpartition(":")
    key = found.get("api_key")
    if port.isdecimal() and isinstance(key, str) and key:
        host = host.strip("[]") or "127.0.0.1"
        candidates.append(Running(f"http://{host}:{port}", host=host, port=int(port), key=key))
    return next((each for each in candidates if answers(each)), None)


def answers(daemon: Running) -> bool:
    try:
        status, _ = request(daemon, "GET", "/api/v1/status", timeout=PROBE_SECONDS)
    except (OSError, http.client.HTTPException):
        return False
    return status == 200


def request(
    daemon: Running, verb: str, path: str, body: Any = None, *, timeout: float
) -> tuple[int, str]:
    """Status and text of one answer. Leaving early (Ctrl-C) closes the connection, which cancels the work."""
    headers = {"Content-Type": "application/json"}
    if daemon.key:
        headers["X-API-Key"] = daemon.key
    connection = daemon.connect(timeout)
    try:
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
