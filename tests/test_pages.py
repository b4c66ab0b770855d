"""The pages as a whole: each block is some test's, and each command that anything of ours names is there."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pages import ROOT

from mcpproxy.cli import main

PAGES = [
    path
    for folder in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(folder))
]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
EACH = 0
GUIDES = dict.fromkeys(("js", "ts", "json", "http", "console"), EACH)  # test_docs
TESTED = {
    "README.md": {"sh": 1, "json": 3, "ts": 2},  # test_readme, test_examples
    "docs/access.md": {"sh": 3, "http": EACH, "json": 1},  # test_access, test_trust: the last sh
    "docs/activity.md": {"sh": EACH, "json": 1, "http": 1},  # test_activity
    "docs/architecture.md": {"": 1},  # a drawing; test_layers holds the code to its table
    "docs/code-execution.md": GUIDES,
    "docs/discovery.md": {**GUIDES, "jsonc": 1, "text": 1},  # and test_examples, test_paging
    "docs/observing.md": {"yaml": 1},  # test_observed
    "docs/openapi.md": {"sh": EACH, "json": EACH},  # test_openapi_examples, test_openapi
    "docs/operating.md": {"sh": EACH, "ini": 1, "xml": 1, "console": 6},  # test_operating_page
    "docs/python.md": {"python": EACH, "text": EACH},  # test_python_page
    "docs/reference/code-execution.md": GUIDES,
    # test_servers_page, test_auth_command
    "docs/servers.md": {"sh": EACH, "json": 2, "console": 1},
    # test_toolpack_page
    "docs/toolpacks.md": dict.fromkeys(("console", "json", "yaml", "python", "markdown"), EACH),
    "examples/openapi/README.md": {"sh": 1},  # test_openapi_examples
    "examples/toolpacks/README.md": {"sh": 1},  # test_toolpack_examples
}
"""Which test runs the blocks of a page: each one of a kind, or as many as it has."""

PROSE = {"can", "does", "is", "itself", "registers", "says", "toolkit"}
"""What else we say after the program's name, where a command could stand."""


def blocks_of(path: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_block_is_some_test_s(path):
    known = TESTED.get(str(path.relative_to(ROOT)), {})
    for kind, n in Counter(language for language, _ in blocks_of(path)).items():
        assert known.get(kind) in (EACH, n), f"have a test run each `{kind}`, and say so in TESTED"


def anchors(path: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub has it."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", path.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
        place = path.parent / target if target else path
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


# ── commands ────────────────────────────────────────────────────────────────────────────────────


def shown(path: Path) -> list[str]:
    """Each line of a page that gives a command of ours, in a block or within a text."""
    text = path.read_text(encoding="utf-8")
    blocks = "".join(block for kind, block in blocks_of(path) if kind in ("sh", "console"))
    lines = re.findall(r"^(?:\$ )?(?:.*\| )?(mcpproxy .*)", blocks, re.MULTILINE)
    return lines + re.findall(r"`(?:[^`\n]*-- )?(mcpproxy [^`]*)`", BLOCK.sub("", text))


def written() -> Iterator[tuple[str, str]]:
    """Each command of ours that the program's texts name, and where; `X` where one puts something in."""
    for path in sorted((ROOT / "mcpproxy").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "mcpproxy " in source:
            for text in texts(ast.parse(source)):
                for line in re.findall(r"\bmcpproxy ([a-z][^\n`'\",;:()|<>]*)", text):
                    if line.split()[0] not in PROSE:
                        yield line, path.name


def texts(tree: ast.AST) -> Iterator[str]:
    if isinstance(tree, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "X" for part in tree.values
        )
    elif isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value
    else:
        for child in ast.iter_child_nodes(tree):
            yield from texts(child)


def command_of(words: list[str]) -> tuple[click.Command, str, list[str]]:
    """The command that words begin with, its name, and the words behind it."""
    command: click.Command = main
    name = "mcpproxy"
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{name} has no command {words[0]!r}"
        command, name, words = command.commands[words[0]], words[0], words[1:]
    return command, name, words


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_page_take_what_they_are_given(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in shown(path):
        words = shlex.split(re.split(r" (?:\|\||\||2?>|<|&&) ?", line)[0], comments=True)
        command, name, rest = command_of(words[1:])
        if rest:
            with command.make_context(name, rest):
                pass


def test_each_command_that_a_message_names_is_there():
    """With its options; what else stands behind it may be the rest of a sentence."""
    found = set(written())
    assert len(found) > 40
    for line, where in found:
        command, _, rest = command_of(line.rstrip(".").split())
        known = {option for each in command.params for option in each.opts}
        given = {word.partition("=")[0] for word in rest if re.match(r"--\w", word)}
        assert given <= known, (line, where)


SILENT = {
    *("serve", "stdio", "types", "logs", "export", "new"),  # give text, files or JSON Lines
    *("login", "logout"),  # have nothing to answer
}


def test_each_command_that_answers_does_so_in_json():
    def commands(group: click.Group) -> Iterator[tuple[str, click.Command]]:
        for name, each in group.commands.items():
            yield from commands(each) if isinstance(each, click.Group) else [(name, each)]

    without = {
        name
        for name, each in commands(main)
        if not any("--json" in one.opts for one in each.params)
    }
    assert without == SILENT


# ── what is installed ───────────────────────────────────────────────────────────────────────────

INSTALL = re.compile(r"(?:pipx|pip|uv tool) install ([^`\"\n#]*)")


def test_what_we_tell_to_install_is_the_checkout_and_no_name_that_others_may_have():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    known = {".", *(f".[{extra}]" for extra in extras["optional-dependencies"])}
    programs = [path for folder in ("mcpproxy", "examples", "scripts") for path in sorted((ROOT / folder).rglob("*.py"))]  # fmt: skip
    found = [(path.name, line) for path in (*PAGES, *programs) for line in INSTALL.findall(path.read_text("utf-8"))]  # fmt: skip
    assert len(found) >= 8
    for name, line in found:
        words = shlex.split(line)
        given = [word for word in words if not word.startswith("--")]
        assert set(given) <= {*known, "openai"} and known & set(given), (name, line)
