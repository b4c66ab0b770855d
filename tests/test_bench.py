"""The benches still run: each with a count that is too small to mean anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "scripts" / "bench"


def run(name, count):
    done = subprocess.run(
        [sys.executable, str(BENCH / name), "--count", str(count)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_overhead_compares_executions_and_calls_with_the_least_there_could_be():
    shown = run("overhead.py", 3)
    for what in ("bare ASGI echo", "16 at once", "SDK client", "bare line-based client", "ideal"):
        assert what in shown


def test_kernels_compares_a_vm_with_the_bare_engine():
    assert "fib" in run("kernels.py", 1)


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="reads the memory of VMs: root, Linux"
)
def test_memory_counts_all_processes():
    assert "fork server (1)" in run("memory.py", 10)


def test_cli_compares_a_command_with_a_bare_start():
    assert "mcpproxy code exec" in run("cli.py", 1)
