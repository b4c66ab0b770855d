"""Prompts of a pack: Markdown with arguments, in versions that stay.

    prompts/REGISTRY.yaml                          {domain: {name: [3, 2]}}
    prompts/packs/DOMAIN/NAME.v3.md                the text, a template with `input`
    prompts/packs/DOMAIN/NAME.v3.spec.yaml         the JSON Schema of its arguments; or NAME.spec.yaml for all versions

Each version is a prompt `domain.name@3`; the newest is `domain.name` as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcpproxy.upstream.checker import Checker
from mcpproxy.upstream.files import Bad, inside
from mcpproxy.upstream.toolpack.document import LARGEST, Document, load
from mcpproxy.upstream.toolpack.schemas import Bundle
from mcpproxy.upstream.toolpack.templating import Template, Unfit

Json = dict[str, Any]

PART = re.compile(r"[A-Za-z0-9_-]{1,60}\Z")
LONGEST = 256 * 2**10
"""Characters of a rendered prompt."""
REGISTRY = Path("prompts", "REGISTRY.yaml")
SCALARS = {"integer", "number", "boolean", "null", "array", "object"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version of a prompt."""

    name: str
    title: str | None
    description: str
    body: Template
    checker: Checker
    files: tuple[Path, ...]

    @property
    def properties(self) -> dict[str, Json]:
        found = self.checker.schema.get("properties")
        members = found.items() if isinstance(found, dict) else ()
        return {name: each for name, each in members if isinstance(each, dict)}

    def definition(self) -> Json:
        """Its entry in `prompts/list`."""
        required = self.checker.schema.get("required")
        arguments = []
        for name, schema in self.properties.items():
            said = schema.get("description")
            entry: Json = {"name": name}
            if isinstance(said, str):
                entry["description"] = said
            entry["required"] = isinstance(required, list) and name in required
            arguments.append(entry)
        found: Json = {"name": self.name, "description": self.description, "arguments": arguments}
        return {**found, "title": self.title} if self.title else found

    def gives(self) -> Json:
        """What an operator approves of it besides: its text, by hash."""
        return {"text": hashlib.sha256(self.body.source.encode()).hexdigest()}

    def get(self, arguments: Json) -> Json:
        """The result of `prompts/get`. Raises `Unfit`."""
        values = {name: self._value(name, each) for name, each in arguments.items()}
        if faults := self.checker.faults(values, "arguments"):
            raise Unfit(f"{faults}; prompts/list shows what {self.name} takes")
        text = self.body.render({"input": values, "request": values})
        if self.body.fixed and values:
            given = json.dumps(values, ensure_ascii=False, indent=2)
            text = f"{text.rstrip()}\n\n```json\n{given}\n```\n"
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": self.description, "messages": [message]}

    def _value(self, name: str, text: object) -> object:
        """MCP's arguments are texts; one that isn't to be one is read as JSON."""
        kind = self.properties.get(name, {}).get("type")
        kinds = set(kind) if isinstance(kind, list) else {kind}
        if not isinstance(text, str) or "string" in kinds or not kinds & SCALARS:
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def complete(self, argument: str, begun: str) -> list[str]:
        """Values of an argument that its schema lists."""
        listed = self.properties.get(argument, {}).get("enum")
        texts = [each for each in listed or () if isinstance(each, str)]
        return [each for each in texts if each.startswith(begun)]


def read(root: Path) -> Iterator[Prompt | tuple[Path, Bad]]:
    """The prompts of a pack, and the files that can't be used."""
    registry = root / REGISTRY
    if not registry.exists():
        return
    try:
        document = load(inside(registry, root))
        entries = list(_entries(document))
    except Bad as error:
        yield registry, error
        return
    for domain, name, majors, line in entries:
        newest: Prompt | None = None
        for major in sorted(majors):
            try:
                newest = _read(root, domain, name, major)
                yield newest
            except Bad as error:
                file = error.file or registry
                yield file, Bad(str(error), error.line if error.file else line)
        if newest is not None:
            yield replace(newest, name=f"{domain}.{name}")


def _entries(document: Document) -> Iterator[tuple[str, str, list[int], int | None]]:
    """Domain, name, versions and line of each. Raises `Bad`."""
    data = document.data
    if not isinstance(data, dict):
        raise Bad("it must be a mapping: {domain: {name: [1]}}", document.line(()))
    for domain, names in data.items():
        line = document.line((domain,))
        if not PART.match(domain) or not isinstance(names, dict):
            raise Bad(f"{domain!r} must be a domain with names in it: {{name: [1]}}", line)
        for name, majors in names.items():
            line = document.line((domain, name))
            versions = majors if isinstance(majors, list) else [majors]
            if not PART.match(name):
                raise Bad(f"{name!r} is no name: letters, digits, _ and - may be in it", line)
            if not versions or not all(
                type(each) is int and 0 <= each < 10**6 for each in versions
            ):
                raise Bad(
                    f"{domain}.{name} must list its versions as numbers, such as [1, 2]", line
                )
            yield domain, name, list(dict.fromkeys(versions)), line


def _read(root: Path, domain: str, name: str, major: int) -> Prompt:
    """One version. Raises `Bad`, with the file at fault if it isn't the registry."""
    folder = root / "prompts" / "packs" / domain
    path = inside(folder / f"{name}.v{major}.md", root)
    own = folder / f"{name}.v{major}.spec.yaml"
    spec = inside(own if own.exists() else folder / f"{name}.spec.yaml", root)
    try:
        body = Template(_text(path), largest=LONGEST)
    except Bad as error:
        raise Bad(str(error), error.line, path) from error
    try:
        found = load(spec).data
        if not isinstance(found, dict):
            raise Bad("it must be a JSON Schema, or a mapping with one as input")
        bundle = Bundle(root)
        schema = bundle.whole(found.get("input", found), spec)
        checker = Checker({"type": "object", **schema})
    except Bad as error:
        raise Bad(str(error), error.line, error.file or spec) from error
    said = (found.get("description"), checker.schema.get("description"), body.source.lstrip("# \n"))
    description = next(each for each in said if isinstance(each, str)).split("\n")[0][:500]
    title = found.get("title")
    files = (path, spec, *bundle.files)
    title = title if isinstance(title, str) else None
    return Prompt(f"{domain}.{name}@{major}", title, description, body, checker, files)


def _text(path: Path) -> str:
    """Raises `Bad`."""
    try:
        raw = path.read_bytes()
        if len(raw) > LARGEST:
            raise Bad(f"it is larger than {LARGEST >> 10} KiB")
        return raw.decode()
    except OSError as error:
        raise Bad(f"it can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Bad("it is not UTF-8", raw[: error.start].count(b"\n") + 1) from error
