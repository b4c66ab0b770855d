"""Every row of the threat model has a test that holds it, and every citation a row."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from threats import THREATS

HERE = Path(__file__).parent
MODEL = HERE.parent / "docs" / "threat-model.md"
ROW = re.compile(r"^\| ([A-Z]\d+) \|.*\|([^|]*)\|$", re.MULTILINE)


def cited(decorator: ast.expr) -> list[str]:
    """The rows that a decorator `pytest.mark.threat(...)` cites."""
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.threat":
        return [ast.literal_eval(argument) for argument in decorator.args]
    return []


def citations() -> dict[str, set[str]]:
    """Row -> the tests that cite it, as they are written in `THREATS`."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in HERE.rglob("test_*.py"):
        name = path.relative_to(HERE).with_suffix("").as_posix()
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "mark.threat(" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    for row in cited(decorator):
                        found[row].add(f"{name}::{node.name}")
    return found


def test_every_row_has_tests_and_they_cite_it():
    assert all(THREATS.values())
    assert citations() == {row: set(tests) for row, tests in THREATS.items()}


def test_the_document_has_the_same_rows_and_names_the_same_tests():
    text = MODEL.read_text(encoding="utf-8")
    rows = {row: set(re.findall(r"`([^`]+)`", tests)) for row, tests in ROW.findall(text)}
    assert rows == {row: set(tests) for row, tests in THREATS.items()}


def test_no_row_is_there_twice():
    rows = [row for row, _ in ROW.findall(MODEL.read_text(encoding="utf-8"))]
    assert len(rows) == len(set(rows))
