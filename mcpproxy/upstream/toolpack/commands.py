"""Tools that are programs: what is started, with which arguments and in which environment.

A command is a list of arguments from beginning to end; no shell sees it. What is started is fixed
when the pack is read; a template gives the text of one argument and can't make two of it, or none, or an option.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpproxy.upstream.files import Bad, inside
from mcpproxy.upstream.toolpack.templating import Template, Unfit
from mcpproxy.upstream.toolpack.toolfile import ToolFile

LONGEST_ARGUMENT = 32 * 2**10
"""Characters; Linux takes 128 KiB."""
NUMBER = re.compile(r"-\d+(\.\d+)?([eE][+-]?\d+)?\Z")
MODULE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)\Z")
RUNNER = Path(__file__).with_name("runner.py")
STANDARD = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
"""What each program has in its environment, from nobody; variables that are listed come on top."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program to be, for any request."""

    start: tuple[str, ...]
    """The program, and what comes before the arguments of the tool file."""
    arguments: tuple[Template, ...]
    key: str
    """Where they stand in the tool file: `entry` or `php`."""

    def line(self, values: Mapping[str, Any]) -> list[str]:
        """The command for one request. Raises `Unfit`."""
        found, options = list(self.start), True
        for n, template in enumerate(self.arguments, 1):
            try:
                text = template.render(values)
            except Unfit as error:
                raise Unfit(f"{self.key}[{n}]: {error}") from error
            _check(text, f"{self.key}[{n}]", options and not template.source.startswith("-"))
            if template.fixed and text == "--":
                options = False
            found.append(text)
        return found


def _check(text: str, where: str, dash: bool) -> None:
    """`dash`: whether one at its beginning would make it an option. Raises `Unfit`."""
    if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
        raise Unfit(f"{where}: a text with NUL or half a character can't be an argument")
    if dash and text.startswith("-") and not NUMBER.match(text):
        raise Unfit(
            f"{where}: {text[:40]!r} begins with '-' and would be an option; "
            "a '--' before it in the entry takes it as it is"
        )


def environment(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What a program sees: the standard, and of ours the variables that are listed."""
    return STANDARD | {name: environ[name] for name in names if name in environ}


def plan(tool: ToolFile, file: Path, root: Path, environ: Mapping[str, str]) -> Command:
    """What a tool file of any kind but `http` starts. Raises `Bad`."""
    words, key = (tool.php, "php") if tool.php else (tool.entry, "entry")
    if not words:
        raise Bad(f"{'php' if tool.kind == 'php' else 'entry'} is missing")
    if tool.php and tool.entry:
        raise Bad("give the script and its arguments as php or as entry, not as both")
    first, *rest = words
    if not Template(first).fixed:
        raise Bad(f"{key}: what is started can't be a template; its arguments can")
    path = environ.get("PATH")
    start: tuple[str, ...]
    match tool.kind:
        case "python":
            start = _python(first, file, root)
        case "node":
            start = (_program("node", path), _script(first, file, root))
        case "php":
            start = (_program(tool.php_binary or "php", path), _script(first, file, root))
        case _:
            own = "/" in first and not first.startswith("/")
            start = (_own(first, file, root) if own else _program(first, path),)
    arguments = []
    for n, word in enumerate(rest, 1):
        try:
            arguments.append(Template(word, largest=LONGEST_ARGUMENT))
        except Bad as error:
            raise Bad(f"{key}[{n}]: {error}", where=(key, n)) from error
    return Command(start, tuple(arguments), key)


def _program(name: str, path: str | None) -> str:
    if found := shutil.which(name, path=path):
        return os.path.abspath(found)
    blank = " " in name
    remedy = "write a command as a list, one item per argument" if blank else "install it"
    raise Bad(f"the program {name!r} is not there, or not on the daemon's PATH: {remedy}")


def _own(name: str, file: Path, root: Path) -> str:
    found = _script(name, file, root)
    if not os.access(found, os.X_OK):
        raise Bad(f"{name} is not executable: chmod +x mends that")
    return found


def _script(name: str, file: Path, root: Path) -> str:
    """A file beside the tool file, or from the root of the pack."""
    for folder in (file.parent, root):
        if os.path.lexists(folder / name):
            return str(inside(folder / name, root))
    raise Bad(f"there is no file {name!r} beside the tool file or in the root of the pack")


def _python(entry: str, file: Path, root: Path) -> tuple[str, ...]:
    """Our runner, told what to run: a function of a module, or a file."""
    runner = (sys.executable, "-I", "-X", "utf8", str(RUNNER), str(file.parent), str(root))
    if found := MODULE.match(entry):
        _module(found[1], file, root)
        return (*runner, "call", entry)
    return (*runner, "file", _script(entry, file, root))


def _module(name: str, file: Path, root: Path) -> None:
    """Raises `Bad` unless the pack has such a module."""
    place = Path(*name.split("."))
    for folder in (file.parent, root):
        for candidate in (folder / place / "__init__.py", (folder / place).with_suffix(".py")):
            if candidate.exists():
                inside(candidate, root)
                return
    raise Bad(f"there is no module {name!r} beside the tool file or in the root of the pack")
