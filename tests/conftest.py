"""What all tests share: one event loop per test, and the backend the daemon runs on."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}
