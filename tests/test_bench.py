"""The benches still run: each with a count that is too small to mean anything."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "scripts" / "bench"
COUNTS = {
    "overhead": 3,
    "kernels": 1,
    "cli": 1,
    "search": 100,
    "toolpack": 1,
    "memory": 10,
    "fleet": 2,
    "kills": 2,
    "journal": 5,
}
LONG = {"overhead", "kernels", "cli", "memory", "fleet", "kills", "journal"}
"""Those that start many processes, run with `--benches` only: the suite is to be quick."""
READABLE = sys.platform == "linux" and os.getuid() == 0


@pytest.fixture(scope="module")
def running(request):
    """The long ones, begun together: they mostly wait for processes to start."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    wanted = LONG if request.config.getoption("benches") else ()
    started = {
        name: subprocess.Popen(
            [sys.executable, str(BENCH / f"{name}.py"), "--count", str(COUNTS[name])], **pipes
        )
        for name in sorted(wanted)
    }
    yield started
    for process in started.values():
        process.terminate()
        process.communicate()


def run(name, monkeypatch, *words):
    """In this process, which has imported it all."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    monkeypatch.syspath_prepend(BENCH)
    runpy.run_path(str(BENCH / f"{name}.py"), run_name="__main__")


@pytest.fixture
def shown(running, monkeypatch, capsys):
    def wait(name):
        if name not in LONG:
            run(name, monkeypatch, "--count", str(COUNTS[name]))
            return capsys.readouterr().out
        if name not in running:
            pytest.skip("takes long: run with --benches")
        said, _ = running[name].communicate(timeout=50)
        assert running[name].returncode == 0, said
        return said

    return wait


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_each_says_what_it_measures(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(name, monkeypatch, "--help")
    assert ended.value.code == 0
    assert "--count" in capsys.readouterr().out


def test_cli_compares_a_command_with_a_bare_start(shown):
    assert "mcpproxy code exec" in shown("cli")


def test_kernels_compares_a_vm_with_the_bare_engine(shown):
    assert "fib" in shown("kernels")


def test_overhead_compares_executions_and_calls_with_the_least_there_could_be(shown):
    table = shown("overhead")
    for what in ("bare ASGI echo", "16 at once", "SDK client", "bare line-based client", "ideal"):
        assert what in table


def test_toolpack_compares_tools_with_the_bare_programs(shown):
    table = shown("toolpack")
    assert "cli: cat, kept" in table and "ratio of medians" in table


@pytest.mark.skipif(not READABLE, reason="only root may read the memory of VMs, on Linux")
def test_memory_counts_all_processes(shown):
    assert "fork server (1)" in shown("memory")


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_fleet_compares_connecting_with_bare_starts_and_counts_what_servers_cost(shown):
    table = shown("fleet")
    for what in ("all by the fleet", "listed and searched", "2025-11-25, one after another"):
        assert what in table


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_kills_lose_and_double_nothing(shown):
    assert "without an end" in shown("kills")


def test_search_says_how_well_and_how_quickly_tools_are_found(shown):
    table = shown("search")
    for what in ("words alone", "recall@5", "paraphrase", "At 100 tools", "p50 ms"):
        assert what in table


def test_journal_compares_on_with_off_and_times_pages(shown):
    table = shown("journal")
    for what in ("Recording", "ratio", "16 at once", "with details", "the last 30d"):
        assert what in table
