"""What all tests share: one event loop per test, and the backend the daemon runs on."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Generator

import pytest
import warm
import warmed
from hypothesis import settings

# Nobody's keyring is touched, whatever this machine has: not here, not in daemons that tests start.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"

settings.register_profile("suite", max_examples=25, deadline=None)
settings.load_profile("suite")
warmed.hurry()


gc.disable()  # until all is imported: there is nothing to find, and looking takes half a second


def pytest_collection_finish() -> None:
    gc.freeze()  # nor among what stays for good
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None):
        warm.address()  # one for all workers, ready when they have collected


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--benches", action="store_true", help="run the long benches, too")


LONG = (
    "test_bench test_corpus test_surfaces test_access test_examples test_serve test_library test_observed "
    "test_proxy test_language test_docs test_cli test_configuration test_trust test_pool test_activity"
).split()
"""The files that take longest, begun first: what begins last is what everybody waits for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: n for n, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONG)))


@pytest.fixture(autouse=True)
def log_level():
    """What others set is theirs: commands that ran in this process before leave their level behind."""
    for name in (None, "mcpproxy"):
        logging.getLogger(name).setLevel(logging.NOTSET if name else logging.WARNING)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test whose name is no text would end a run that several processes share."""
    item.nodeid.encode()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """So would what it logged or printed, where that has half a character in it."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: tests of processes wait as much as they work."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else 4


@pytest.fixture(scope="session")
def anyio_backend():
    """Of the session, so that fixtures of a module can be asynchronous."""
    return "asyncio", {"use_uvloop": True}
