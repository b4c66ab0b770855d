"""How often something may happen: wrong keys of one peer, executions of one token.

Plain arithmetic over a clock that is passed in. What is remembered is bounded, whoever comes.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable

WRONG_KEYS = 20
"""Wrong keys that one peer may show in a row; after that one a second is looked at."""
MOST_PEERS = 1024
MOST_KEYS = 256
MINUTE = 60.0


class WrongKeys:
    """Who showed wrong keys lately, so that guessing is slow.

    A key that was right once is always looked at: whoever shares an address with a guesser stays in.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By peer: how many wrong keys count against it, and when that was so. One is forgotten a second."""
        self._salt = secrets.token_bytes(16)
        self._right: OrderedDict[bytes, None] = OrderedDict()

    def wait(self, peer: str, key: bytes) -> int:
        """Seconds until a key of this peer is looked at; 0 when it is now."""
        if self._mark(key) in self._right:
            return 0
        return max(0, math.ceil(self._level(network(peer)) - WRONG_KEYS + 1))

    def wrong(self, peer: str) -> bool:
        """Count one more; whether it is the first of this peer for a while."""
        peer = network(peer)
        before = self._level(peer)
        level = min(before + 1, WRONG_KEYS)
        self._levels[peer] = level, self._clock()
        self._levels.move_to_end(peer)
        if len(self._levels) > MOST_PEERS:
            self._levels.popitem(last=False)
        return before == 0

    def right(self, key: bytes) -> None:
        mark = self._mark(key)
        self._right[mark] = None
        self._right.move_to_end(mark)
        if len(self._right) > MOST_KEYS:
            self._right.popitem(last=False)

    def _level(self, peer: str) -> float:
        level, at = self._levels.get(peer, (0.0, 0.0))
        return max(0.0, level - (self._clock() - at))

    def _mark(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, key=self._salt, digest_size=16).digest()


def network(peer: str) -> str:
    """Who counts as one: an IPv4 address, or the /64 that one IPv6 host is usually given."""
    if ":" not in peer:
        return peer
    try:
        return str(ipaddress.ip_network((peer.partition("%")[0], 64), strict=False))
    except ValueError:
        return peer


class Executions:
    """When each token's last executions began."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[str, deque[float]] = {}

    def begin(self, name: str, most: int) -> float:
        """Count one more, unless there were `most` within a minute; then gives the seconds to wait."""
        now = self._clock()
        begun = self._begun.setdefault(name, deque())
        while begun and begun[0] <= now - MINUTE:
            begun.popleft()
        if len(begun) >= most:
            return begun[len(begun) - most] + MINUTE - now
        begun.append(now)
        return 0.0
