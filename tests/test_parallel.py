"""How the tests are run: none is lost, whatever becomes of the process that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ONE = """\
import os
def test_passes(): pass
def test_dies(): os._exit(3)
def test_is_run_all_the_same(): pass
"""
OTHER = """\
import pytest
@pytest.mark.parametrize("n", range(3))
def test_passes(n, tmp_path): print("said by", n)
def test_fails(): print("said before"); assert 1 == 2
def test_leaves_a_file_open():
    class Loop: pass
    loop = Loop()
    loop.itself, loop.file = loop, open(__file__, encoding="utf-8")
"""


def test_each_test_is_run_and_a_process_that_ends_too_early_is_a_failure(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["parallel"]\n', encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    (tmp_path / "test_one.py").write_text(ONE, encoding="utf-8")
    (tmp_path / "test_other.py").write_text(OTHER, encoding="utf-8")
    words = ["-m", "pytest", "-q", "--processes", "2", "-p", "no:schemathesis", "-p", "no:cacheprovider"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1
    assert "test_one.py::test_dies - the process that ran it ended with 3" in done.stdout
    assert "test_other.py::test_fails - assert 1 == 2" in done.stdout
    assert "said before" in done.stdout and "said by" not in done.stdout
    assert "3 failed, 6 passed" in done.stdout, done.stdout
    assert "ResourceWarning" in done.stdout + done.stderr
