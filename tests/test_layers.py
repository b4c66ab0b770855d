"""Imports point down, as docs/architecture.md draws them, and the quick paths stay quick."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import mcpproxy

PACKAGE = Path(mcpproxy.__file__).parent

LAYERS = [
    {"cli", "toolkit", "embedded"},
    {"serve"},
    {"proxy", "face", "direct", "rest"},
    {
        "guard",
        "toolbox",
        "locating",
        "offer",
        "framing",
        "incoming",
        "admin",
        "discreet",
        "status",
        "trust",
        "inspection",
        "library",
        "asking",
        "audience",
        "subscribers",
        "connections",
    },
    {"daemon"},
    {
        "listings",
        "readable",
        "execution",
        "questions",
        "discovery",
        "configuration",
        "keptcode",
        "view",
        "paging",
    },
    {
        "request",
        "script",
        "calls",
        "declarations",
        "ambient",
        "search",
        "typings",
        "endings",
        "hints",
        "absent",
        "unparsed",
        "modules",
        "contents",
        "guesses",
    },
    {
        "sandbox",
        "upstream",
        "scripts",
        "codecache",
        "tokens",
        "vault",
        "journal",
        "baseline",
        "listedbaseline",
        "decisions",
    },
    {"gates", "entries", "approvals", "switches", "listed", "suspicion"},
    {"catalog", "policy", "profiles", "settings"},
    {
        "names",
        "paths",
        "database",
        "tasks",
        "watching",
        "errors",
        "envelopes",
        "bulk",
        "jsonc",
        "jsonrpc",
        "logs",
        "edit",
        "tail",
        "importing",
        "redaction",
        "rates",
        "effort",
        "meter",
        "tracing",
        "spawning",
        "stamps",
        "readiness",
    },
]
"""From the top; a module may import from layers below its own, and from its own layer without a cycle."""


def place(module: str) -> int:
    return next(n for n, layer in enumerate(LAYERS) if module in layer)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Those below a node; expressions, of which there are many more, have none in them."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(node, part, ()):
            yield each
            yield from statements(each)


@cache
def imports() -> dict[str, set[str]]:
    """Each file, as "upstream.link", and the files of ours that it imports, lazy imports included."""
    names = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): file
        for file in PACKAGE.rglob("*.py")
        if file != PACKAGE / "__init__.py"
    }
    found: dict[str, set[str]] = {}
    for name, file in names.items():
        found[name] = set()
        for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not f"{node.module}.".startswith(
                "mcpproxy."
            ):
                continue
            package = str(node.module).removeprefix("mcpproxy").removeprefix(".")
            for alias in node.names:
                whole = f"{package}.{alias.name}".removeprefix(".")
                found[name].add(whole if whole in names else package)
        found[name] -= {"", name}
    return found


@cache
def modules() -> dict[str, set[str]]:
    """Each module or package and those that it imports."""
    found: dict[str, set[str]] = {}
    for name, others in imports().items():
        own = name.split(".")[0]
        found.setdefault(own, set()).update({other.split(".")[0] for other in others} - {own})
    return found


def test_every_module_has_its_layer():
    listed = set().union(*LAYERS)
    assert set(modules()) == listed


@pytest.mark.parametrize("name", sorted(set().union(*LAYERS)))
def test_imports_point_down(name):
    for other in modules()[name]:
        assert place(other) >= place(name), f"{name} imports {other} from above"


def test_no_two_modules_import_each_other():
    TopologicalSorter(imports()).prepare()  # raises an error that names those in a circle


@pytest.mark.parametrize(("source", "other"), [("toolpack", "openapi"), ("openapi", "toolpack")])
def test_sources_of_tools_know_nothing_of_each_other(source, other):
    files = (PACKAGE / "upstream" / source).glob("*.py")
    named = f"mcpproxy.upstream.{other}"
    assert [file.name for file in files if named in file.read_text(encoding="utf-8")] == []


def test_the_architecture_page_has_the_same_layers_and_names_no_file_that_is_gone():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [row.split("|")[2] for row in re.findall(r"^\| [a-z].*`.*\|$", page, re.MULTILINE)]
    assert [set(re.findall(r"`([a-z]+)(?:\.py|/)`", row)) for row in rows] == LAYERS
    files = {f"/{file.relative_to(PACKAGE)}" for file in PACKAGE.rglob("*.*")}
    named = set(re.findall(r"`(?:\.\./)?((?:\w+/)*\w+\.(?:py|js))`", page)) - {
        "tests/test_layers.py"
    }
    assert [name for name in named if not any(each.endswith(f"/{name}") for each in files)] == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("mcpproxy.cli", {"mcp", "pydantic", "uvicorn", "starlette", "anyio", "quickjs"}),
        ("mcpproxy.toolkit", {"mcp", "pydantic", "anyio", "asyncio", "httpx2", "click"}),
        ("mcpproxy.embedded", {"mcp", "pydantic", "anyio", "asyncio", "httpx2", "click"}),
        ("mcpproxy.sandbox.zygote", {"mcp", "pydantic", "uvicorn", "anyio", "click", "asyncio"}),
    ],
)
def test_the_quick_paths_import_little(module, absent):
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert absent & set(done.stdout.decode().split()) == set()
