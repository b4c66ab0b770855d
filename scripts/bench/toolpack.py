"""What a call of a tool from a file costs, beside the least that the same thing could cost.

    python scripts/bench/toolpack.py [--count N]

N calls of each (default 40), in turn with the bare ones: the same program started and waited for by
itself, the same HTTP request by itself. All in one process, without the daemon around it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import common
import httpx2
from common import p50, p99
from packs import open_tools, put, serving_site, tool
from test_toolpack_http import Site

Act = Callable[[], Awaitable[object]]

GIVEN = b'{"x":"a"}'
FUNCTION = "import json, sys; print(json.dumps(json.load(sys.stdin)))"


def program(*command: str) -> Act:
    async def run() -> None:
        await anyio.run_process([*command], input=GIVEN)

    return run


async def taken(count: int, *sides: Act) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in sides]
    for _ in range(count):
        for kept, side in zip(found, sides, strict=True):
            began = time.perf_counter()
            await side()
            kept.append((time.perf_counter() - began) * 1000)
    return found


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "pack")
        put(root, "module.py", "def run(payload):\n    return payload\n")
        tool(root, "python", entry="module:run")
        tool(root, "cli", "cli", entry="cat")
        tool(root, "kept", "cli", entry="cat", deterministic=True)
        async with serving_site(Site) as site, httpx2.AsyncClient() as client:
            url = f"{site.origin}/a"
            tool(
                root,
                "http",
                "http",
                entry=f"{site.origin}/{{{{input.x}}}}",
                allow_hosts=["127.0.0.1"],
            )
            async with open_tools(root) as pack:

                def call(name: str) -> Act:
                    return lambda: pack.call(name, x="a")

                sides = {
                    "cli: cat": (program("cat"), call("cli")),
                    "python: a function": (
                        program(sys.executable, "-Ic", FUNCTION),
                        call("python"),
                    ),
                    "http: this machine": (lambda: client.get(url), call("http")),
                    "cli: cat, kept": (program("cat"), call("kept")),
                }
                rows: list[tuple[object, ...]] = []
                for name, both in sides.items():
                    await taken(2, *both)
                    bare, ours = await taken(count, *both)
                    rows.append((name, p50(bare), p50(ours), p99(ours), p50(ours) / p50(bare)))
    head = ("", "bare ms", "a tool ms", "its p99", "ratio of medians")
    common.table("A call of a tool from a file", head, rows)


if __name__ == "__main__":
    anyio.run(main, common.count(40, "calls of each"), backend_options={"use_uvloop": True})
