"""What all tests share: one event loop per test, and the backend the daemon runs on."""

from __future__ import annotations

import os

import pytest

# Nobody's keyring is touched, whatever this machine has: not here, not in daemons that tests start.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}
