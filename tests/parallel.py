"""Runs the test files at the same time, in processes that are forked once all tests were collected.

With xdist each worker imports and collects everything for itself, which was a tenth of the suite's CPU.
Here a process gets one file after another; what it says of each test is shown by the one that forked it.

    pytest --processes auto     one more than there are cores: tests of processes wait as much as they work
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

DONE = "done"
"""What a process says when it has run what it was given."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes",
        type=lambda text: cores() + 1 if text == "auto" else int(text),
        default=0,
        help="run files at the same time in so many processes",
    )


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 3


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = session.config.option.processes
    if not count or not session.items or session.config.option.collectonly or session.testsfailed:
        return None
    session.config._tmp_path_factory.getbasetemp()  # one for all processes, and removed by this one
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    share(session, files, min(count, len(files)))
    return True


def share(session: pytest.Session, files: list[list[pytest.Item]], count: int) -> None:
    """Give each process the next file until all have been run."""
    left, never = iter(files), {item.nodeid for item in session.items}
    workers: list[Worker] = []
    try:
        for _ in range(count):
            workers.append(Worker(session, workers))
            workers[-1].give(next(left, []))
        while workers:
            for line in wait([worker.line for worker in workers]):
                (worker,) = (each for each in workers if each.line is line)
                told = worker.hear()
                if told is None:
                    workers.remove(worker)
                    if rest := worker.ended(session):
                        workers.append(Worker(session, workers))
                        workers[-1].give(rest)
                elif told == DONE:
                    worker.give([] if session.shouldfail or session.shouldstop else next(left, []))
                else:
                    worker.show(session, *told)
                    never.discard(told[1])
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    finally:
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    assert not never, f"never run: {sorted(never)}"


class Worker:
    """A process that runs what it is given, as it is seen by the one that forked it."""

    def __init__(self, session: pytest.Session, others: list[Worker]) -> None:
        self.items: list[pytest.Item] = []
        self.line, theirs = Pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            for line in (self.line, *(other.line for other in others)):
                line.close()
            work(session, theirs)
        theirs.close()

    def give(self, items: list[pytest.Item]) -> None:
        self.items = items
        self.line.send([item.nodeid for item in items])

    def hear(self) -> Any:
        """What it says next; None when it has ended."""
        try:
            return self.line.recv()
        except EOFError:
            return None

    def show(self, session: pytest.Session, what: str, nodeid: str, found: Any) -> None:
        hook = session.config.hook
        match what:
            case "start":
                hook.pytest_runtest_logstart(nodeid=nodeid, location=found)
            case "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=found)
                hook.pytest_runtest_logreport(report=report)
            case "finish":
                hook.pytest_runtest_logfinish(nodeid=nodeid, location=found)
                del self.items[0]

    def ended(self, session: pytest.Session) -> list[pytest.Item]:
        """Say so if that was too early; what it has not run."""
        self.line.close()
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if not self.items and not code:
            return []
        first, *rest = self.items or [session.items[-1]]
        reason = f"the process that ran it ended with {code}"
        report = pytest.TestReport(first.nodeid, first.location, {}, "failed", reason, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        return rest


# ── in the process ────────────────────────────────────────────────────────────────────────────────


def work(session: pytest.Session, line: Connection) -> None:
    """Run what comes, and end."""
    config = session.config
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()  # into files of its own
    terminal = config.pluginmanager.getplugin("terminalreporter")
    config.pluginmanager.unregister(terminal)
    config.pluginmanager.register(Teller(config, line, terminal._tw), "terminalreporter")
    found = {item.nodeid: item for item in session.items}
    code = 1
    try:
        for names in given(line):
            items = [found[name] for name in names]
            for item, following in zip(items, [*items[1:], None], strict=True):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail or session.shouldstop:
                    break
            line.send(DONE)
        config._ensure_unconfigure()  # raises for what nobody has waited for or closed
        code = 0
    except EOFError:
        pass  # whom to tell has gone
    except BaseException:
        capture.suspend_global_capture()
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def given(line: Connection) -> Iterator[list[str]]:
    while names := line.recv():
        yield names


class Teller:
    """Stands where the terminal's reporter stood."""

    def __init__(self, config: pytest.Config, line: Connection, writer: Any) -> None:
        self.config = config
        self.line = line
        self._tw = writer
        """The plugin for timeouts writes here before it ends the process."""

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self.line.send(("start", nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook
        data = hook.pytest_report_to_serializable(config=self.config, report=report)
        self.line.send(("report", report.nodeid, data))

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        self.line.send(("finish", nodeid, location))
