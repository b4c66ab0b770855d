"""Each requirement has a test, and each test that cites one cites one that there is."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from requirements import REQUIREMENTS, rows

TESTS = Path(__file__).parent
SURFACES = {"rest", "mcp", "stdio", "cli", "script"}


@cache
def cited() -> dict[str, list[str]]:
    """Where each id is cited: the strings given to `req(...)` or `pytest.mark.req(...)`."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "req(" in text else ():
            if not isinstance(node, ast.Call) or name(node.func) != "req":
                continue
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{path.name}:{node.lineno}"
                found.setdefault(argument.value, []).append(f"{path.name}:{node.lineno}")
    return found


def name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def test_every_requirement_has_a_test():
    assert sorted(REQUIREMENTS.keys() - cited().keys()) == []


def test_every_citation_is_of_a_requirement():
    assert {id: at for id, at in cited().items() if id not in REQUIREMENTS} == {}


def test_the_table_is_sound():
    assert len(list(rows())) == len(REQUIREMENTS)
    assert all(each.text.endswith(".") for each in REQUIREMENTS.values())
    assert {surface for each in rows() for surface in each.surfaces} == SURFACES
