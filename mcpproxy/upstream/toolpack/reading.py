"""A directory of tool files and prompts, read as a whole: what can be used, and what can't and why.

Nothing is run here. One file that is wrong costs its tool and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpproxy.upstream.checker import Checker
from mcpproxy.upstream.files import Bad, inside, shown
from mcpproxy.upstream.toolpack import commands, endpoints, prompts, toolfile
from mcpproxy.upstream.toolpack.commands import Command
from mcpproxy.upstream.toolpack.document import Document, load
from mcpproxy.upstream.toolpack.endpoints import Endpoint
from mcpproxy.upstream.toolpack.executed import Code, runs
from mcpproxy.upstream.toolpack.prompts import Prompt
from mcpproxy.upstream.toolpack.schemas import Bundle
from mcpproxy.upstream.toolpack.templating import Template
from mcpproxy.upstream.toolpack.toolfile import ToolFile

Json = dict[str, Any]

SUFFIX = ".tool.yaml"
MOST_FILES = 20_000
"""Files of a pack that are looked at."""
SKIPPED = frozenset({"__pycache__", "node_modules"})
"""Folders in which nothing is looked for, besides those whose names begin with a dot."""
ANNOTATIONS = {
    "readOnlyHint": bool,
    "destructiveHint": bool,
    "idempotentHint": bool,
    "openWorldHint": bool,
    "title": str,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that can't be used, and why."""

    file: str
    """From the root of the pack."""
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool, ready to be called."""

    file: ToolFile
    definition: Json
    """Its entry in `tools/list`."""
    work: Command | Endpoint
    input: Checker
    output: Checker | None
    cache_key: Template | None
    runs: Json
    """What a call comes to; see `executed.py`."""
    mark: str
    """Changes with everything in the pack that its result may depend on."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A directory as it was read."""

    root: Path
    tools: Mapping[str, Tool]
    prompts: Mapping[str, Prompt]
    faults: tuple[Fault, ...]
    signature: str
    """Changes with the files."""


def read(root: Path, environ: Mapping[str, str]) -> Pack:
    """Everything of a directory. `environ` is for its PATH, where programs are looked for."""
    root = root.resolve()
    faults = []
    signature = sign(root)
    if not root.is_dir():
        faults.append(Fault(str(root), None, "there is no such directory"))
    tools: dict[str, Tool] = {}
    owners: dict[str, Path] = {}
    files = [(path, stat.st_mode) for path, stat in walk(root)]
    code = Code(root, files)
    for path in [path for path, _ in files if path.name.endswith(SUFFIX)]:
        try:
            tool = _tool(path, root, environ, signature, code)
            name = tool.file.id
            if (owner := owners.setdefault(name, path)) != path:
                raise Bad(f"there is another tool {name!r}, in {shown(owner, root)}")
            tools[name] = tool
        except Bad as error:
            faults.append(Fault(shown(error.file or path, root), error.line, str(error)))
    found: dict[str, Prompt] = {}
    for each in prompts.read(root):
        if isinstance(each, Prompt):
            found[each.name] = each
        else:
            path, bad = each
            faults.append(Fault(shown(path, root), bad.line, str(bad)))
    return Pack(root, tools, found, tuple(faults), signature)


def walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of a pack in a steady order. Links to folders are not followed."""
    number = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            each for each in folders if not each.startswith(".") and each not in SKIPPED
        )
        for name in sorted(names):
            number += 1
            if number > MOST_FILES:
                return
            path = Path(folder, name)
            try:
                yield path, path.stat()
            except OSError:  # it has just gone, or is a link to nowhere
                continue


def sign(root: Path) -> str:
    """What changes with any file of the pack."""
    root = root.resolve()
    digest = hashlib.sha256(os.fsencode(root))
    for path, found in walk(root):
        digest.update(os.fsencode(path))
        digest.update(f"\0{found.st_ino} {found.st_size} {found.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _tool(path: Path, root: Path, environ: Mapping[str, str], signature: str, code: Code) -> Tool:
    """Raises `Bad`."""
    document = load(inside(path, root))
    file = toolfile.read(document)
    with _At(path, document, "schema"):
        bundle = Bundle(root)
        taken, given = _schemas(file, path, bundle)
    key = "php" if file.php else "entry"
    with _At(path, document, key):
        work: Command | Endpoint
        if file.kind == "http":
            work = endpoints.plan(file)
            mark = _digest(path, *bundle.files)
        else:
            work = commands.plan(file, path, root, environ)
            mark = signature
    with _At(path, document, "templating"):
        source = file.templating.cache_key
        cache_key = None if source is None else Template(source)
    with _At(path, document, "annotations"):
        definition = _definition(file, taken, given)
    return Tool(file, definition, work, taken, given, cache_key, runs(file, path, code), mark)


class _At:
    """Give a fault of this file the line of the part at fault, or else of a key."""

    def __init__(self, path: Path, document: Document, key: str) -> None:
        self._path = path
        self._document = document
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Bad) and error.file in (None, self._path):
            error.line = self._document.line(error.where or (self._key,))


def _schemas(file: ToolFile, path: Path, bundle: Bundle) -> tuple[Checker, Checker | None]:
    """Raises `Bad`."""
    taken = bundle.whole(file.schemas.input, path)
    if taken.setdefault("type", "object") != "object":
        raise Bad("schema.input must be of type object: the arguments of a tool are one")
    output = file.schemas.output
    return Checker(taken), None if output is None else Checker(bundle.whole(output, path))


def _definition(file: ToolFile, taken: Checker, given: Checker | None) -> Json:
    """Raises `Bad`."""
    for name, value in file.annotations.items():
        kind = ANNOTATIONS.get(name)
        if kind is None or not isinstance(value, kind):
            known = ", ".join(ANNOTATIONS)
            reason = f"annotations.{name} must be one of {known}, with true or false"
            raise Bad(reason, where=("annotations", name))
    annotations = dict(file.annotations)
    if file.kind == "http" and file.method == "GET":
        annotations.setdefault("readOnlyHint", True)
    if file.deterministic:
        annotations.setdefault("idempotentHint", True)
    said = (file.description, taken.schema.get("description"), f"A tool of kind {file.kind}.")
    found: Json = {"name": file.id}
    if file.title:
        found["title"] = file.title
    found["description"] = next(each for each in said if isinstance(each, str) and each)
    found["inputSchema"] = taken.schema
    if given is not None and given.schema.get("type") == "object":
        found["outputSchema"] = given.schema
    return {**found, "annotations": annotations} if annotations else found


def _digest(*paths: Path) -> str:
    """Raises `Bad`."""
    contents = []
    for path in paths:
        try:
            contents.append(hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError as error:
            raise Bad(f"it can't be read: {error.strerror}", file=path) from error
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()
