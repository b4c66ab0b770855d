"""The types of tools under the official compiler.

    python scripts/bench/tool_types.py FILE

FILE has tools as `mcpproxy tools list --json` prints them, or an object with a list for each server.
Run by hand: it needs npm, and the network for it. Compiled are the declarations for editors, with
the example scripts and the line that calls each tool beside them, and each tool's own declaration as
`get_functions` gives it: whole, and as short as beside others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import common

from mcpproxy.ambient import ambient
from mcpproxy.catalog import Catalog, Server, Tool
from mcpproxy.declarations import call_line, declaration, outline

EXAMPLES = Path(__file__).parents[2] / "examples" / "scripts"
COMPILERS = ("5", "latest")
SHOWN = 10


def read(file: Path) -> Catalog:
    found = json.loads(file.read_text(encoding="utf-8"))
    by_server: dict[str, list[Any]] = {}
    if isinstance(found.get("tools"), list):
        for tool in found["tools"]:
            by_server.setdefault(tool["server"], []).append(tool)
    else:
        by_server = found
    servers: Mapping[str, Server] = {
        name: Server(name, "ready", None, {one["name"]: Tool(name, one) for one in tools}, None)
        for name, tools in by_server.items()
    }
    return Catalog(servers, 1)


def write(catalog: Catalog, folder: Path) -> float:
    """A folder as a user has it; gives the milliseconds that the declarations took."""
    shutil.copytree(EXAMPLES, folder)
    taken = common.timed(lambda: ambient(catalog))
    (folder / "mcpproxy.d.ts").write_text(ambient(catalog), encoding="utf-8")
    for n, tool in enumerate(catalog.tools()):
        for kind, written in (("tool", declaration(tool)), ("outline", outline(tool)[0])):
            text = written.replace("declare function", "export declare function")
            (folder / f"{kind}{n}.ts").write_text(text + "\n", encoding="utf-8")
        (folder / f"call{n}.ts").write_text(call_line(tool) + "\n", encoding="utf-8")
    return taken


def compile_with(version: str, place: Path, folder: Path) -> tuple[str, list[str]]:
    """The compiler's own version, and what it finds wrong."""
    home = place / f"typescript-{version}"
    home.mkdir()
    (home / "package.json").write_text("{}", encoding="utf-8")
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent", f"typescript@{version}"]
    if subprocess.run(install, cwd=home, check=False).returncode:
        raise SystemExit("npm could not install the compiler")
    tsc = str(home / "node_modules" / ".bin" / "tsc")
    said = subprocess.run([tsc, "-v"], capture_output=True, encoding="utf-8", check=True).stdout
    done = subprocess.run(
        [tsc, "-p", "jsconfig.json", "--noEmit", "--skipLibCheck", "false"],
        cwd=folder, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    return said.split()[-1], done.stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    catalog = read(parser.parse_args().file)
    if shutil.which("npm") is None:
        raise SystemExit("npm is needed to get the compiler: install Node.js")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "scripts")
        taken = write(catalog, folder)
        size = (folder / "mcpproxy.d.ts").stat().st_size
        found = [compile_with(version, Path(place), folder) for version in COMPILERS]
    tools = sum(1 for _ in catalog.tools())
    rows: list[tuple[object, ...]] = [
        (f"errors of TypeScript {version}", len(errors)) for version, errors in found
    ]
    rows += [("bytes of declarations", size), ("ms to make them", taken)]
    common.table(f"{tools} tools of {len(catalog.servers)} servers", ("check", "found"), rows)
    for version, errors in found:
        for line in errors[:SHOWN]:
            print(f"{version}: {line}")
    if any(errors for _, errors in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
