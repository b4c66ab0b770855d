"""APIs for tests: a document, the server of ours behind it, and its tools as the daemon opens them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from packs import unreported

from mcpproxy.upstream.openapi.reading import Api, Wanted, load
from mcpproxy.upstream.openapi.source import ApiSource, open_api


def document(
    paths: Mapping[str, Any],
    version: str = "3.1.0",
    origin: str = "http://127.0.0.1:9",
    **more: Any,
) -> dict[str, Any]:
    """An OpenAPI 3 document of some paths."""
    info = {"title": "Things", "version": "1"}
    return {"openapi": version, "info": info, "servers": [{"url": origin}], "paths": paths, **more}


def parameter(place: str, name: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    found = {"in": place, "name": name, "schema": {} if schema is None else schema, **more}
    return {**found, "required": True} if place == "path" else found


def put(folder: Path, found: Any, name: str = "api.json") -> str:
    path = folder / name
    path.write_text(found if isinstance(found, str) else json.dumps(found), encoding="utf-8")
    return str(path)


def read(folder: Path, found: Any, **wanted: Any) -> Api:
    return load(Wanted(put(folder, found), **wanted))


class Opened:
    """An API that is open: `call` gives the data of a good result, and the error of another."""

    def __init__(self, source: ApiSource, said: list[str], told: list[str]) -> None:
        self.source = source
        self.said = said
        """What was written to the server's log."""
        self.told = told
        """Lists that were announced as changed."""

    def tool(self, name: str) -> dict[str, Any]:
        return self.source.api.operations[name].definition

    async def result(self, name: str, /, **arguments: Any) -> Any:
        return await self.source.call(name, arguments, unreported)

    async def call(self, name: str, /, **arguments: Any) -> Any:
        result = await self.result(name, **arguments)
        text = result["content"][0]["text"]
        if result.get("isError"):
            return json.loads(text)["error"]
        return result.get("structuredContent", text)

    async def error(self, name: str, /, **arguments: Any) -> tuple[str, str]:
        found = await self.call(name, **arguments)
        return found["code"], found["message"]


@asynccontextmanager
async def open_document(document: str, refresh: float = 0, **wanted: Any) -> AsyncIterator[Opened]:
    """`wanted` is that of the configuration; hosts on this machine may be reached unless it says otherwise."""
    said: list[str] = []
    told: list[str] = []
    found = Wanted(document, **{"allow_hosts": frozenset({"127.0.0.1"}), **wanted})
    async with open_api("api", found, refresh, said.extend, told.append) as source:
        assert isinstance(source, ApiSource)
        with anyio.fail_after(20):
            yield Opened(source, said, told)
