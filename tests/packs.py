"""Tool packs in folders of tests: written, opened as the daemon opens them, and called."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import anyio.abc

from mcpproxy.upstream.toolpack import reading
from mcpproxy.upstream.toolpack.source import PackSource, open_pack

ENVIRON = {
    "PATH": os.environ["PATH"],
    "SECRET_WORD": "open-sesame-77",
    "UNLISTED": "nobody-knows-88",
}
ECHO = "import json, sys\njson.dump({'argv': sys.argv[1:], 'input': json.load(sys.stdin)}, sys.stdout)\n"


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def tool(root: Path, id: str, kind: str = "python", **members: Any) -> Path:
    """A tool file; JSON is YAML."""
    return put(root, f"{id}.tool.yaml", json.dumps({"id": id, "kind": kind, **members}))


def cli(root: Path, id: str, *words: str, code: str = ECHO, **members: Any) -> Path:
    """A tool that is this Python with some code, and what its entry has after that."""
    script = put(root, f"{id}.py", code)
    entry = [sys.executable, "-I", "-S", str(script), *words]
    return tool(root, id, "cli", entry=entry, **members)


def shell(root: Path, id: str, script: str, *words: str, **members: Any) -> Path:
    """A tool that is a script for `sh`, which starts in no time; `words` are its "$1" and so on."""
    return tool(root, id, "cli", entry=["sh", "-c", script, "sh", *words], **members)


def faults(root: Path) -> list[str]:
    return [str(each) for each in reading.read(root, ENVIRON).faults]


class Opened:
    """A pack that is open: `call` gives the data of a good result, and the error of another."""

    def __init__(self, source: PackSource, said: list[str], told: list[str]) -> None:
        self.source = source
        self.said = said
        """Lines of stderr, and what was left out."""
        self.told = told
        """Lists that were announced as changed."""

    async def call(self, name: str, /, **arguments: Any) -> Any:
        result = await self.source.call(name, arguments, unreported)
        text = result["content"][0]["text"]
        if result.get("isError"):
            error = json.loads(text)["error"]
            assert result["structuredContent"] == {"error": error}
            return error
        return result.get("structuredContent", text)

    async def error(self, name: str, /, **arguments: Any) -> tuple[str, str]:
        found = await self.call(name, **arguments)
        return found["code"], found["message"]


async def unreported(*said: Any) -> None:
    raise AssertionError("nobody asked")


@asynccontextmanager
async def open_tools(
    root: Path, environ: Mapping[str, str] = ENVIRON, kept: Path | None = None
) -> AsyncIterator[Opened]:
    said: list[str] = []
    told: list[str] = []
    kept = kept or root.parent / "state" / "kept.sqlite3"
    async with open_pack("packs", root, environ, kept, said.extend, told.append) as source:
        assert isinstance(source, PackSource)
        with anyio.fail_after(20):
            yield Opened(source, said, told)


@asynccontextmanager
async def serving_site(kind: type[Any]) -> AsyncIterator[Any]:
    """A server on this machine, made of its port; it answers each connection by `serve`."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    site = kind(listener.extra(anyio.abc.SocketAttribute.local_port))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, site.serve)
        yield site
        tasks.cancel_scope.cancel()
