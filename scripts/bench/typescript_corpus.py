"""The TypeScript transform beside the official compiler, on sources that others wrote.

    python scripts/bench/typescript_corpus.py [--count N]

Run by hand: it needs npm, and the network for it. N files at most (default 400). Both outputs are
parsed, printed without comments and compared; what differs is told apart by how. Then the time of
4 KB of TypeScript and of the same in JavaScript, both warm.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import common
from world import open_world

from mcpproxy.sandbox.typescript import Oxc

PACKAGES = ["typescript@5", "rxjs@7", "zod@4", "immer@10", "uuid@8", "superstruct@2", "io-ts@2", "effect@3"]  # fmt: skip
COMPARE = Path(__file__).with_suffix(".cjs")
SHOWN = 12
LARGEST = 200_000
LINE = (
    "const item_{0}: {{ a: number; b?: string }} = {{ a: {0} }};\ntotal += item_{0}.a as number;\n"
)
PLAIN = "const item_{0} = {{ a: {0} }};\ntotal += item_{0}.a;\n"


def install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise SystemExit("npm and node are needed to get the compiler and sources: install Node.js")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", *PACKAGES]
    (folder / "package.json").write_text("{}", encoding="utf-8")
    if subprocess.run(command, cwd=folder, check=False).returncode:
        raise SystemExit("npm could not install the packages")


def sources(folder: Path, most: int) -> list[Path]:
    """Some of each package, so that a large one doesn't crowd out the others."""
    found = [
        file
        for file in sorted(folder.rglob("*.ts"))
        if not file.name.endswith(".d.ts") and file.stat().st_size < LARGEST
    ]
    by_package: dict[str, list[Path]] = {}
    for file in found:
        by_package.setdefault(file.relative_to(folder / "node_modules").parts[0], []).append(file)
    shares = sorted(by_package.values(), key=len)
    chosen: list[Path] = []
    for n, share in enumerate(shares):
        room = (most - len(chosen)) // (len(shares) - n)
        chosen += share[:: max(1, -(-len(share) // max(1, room)))][:room]
    return chosen


def ours(files: list[Path], out: Path) -> tuple[list[dict[str, str]], float]:
    """What each file becomes, and the seconds that took."""
    oxc = Oxc()
    oxc.answer("let warm: boolean")
    jobs, spent = [], 0.0
    for n, file in enumerate(files):
        source = file.read_text(encoding="utf-8")
        began = time.perf_counter()
        answer = oxc.answer(source)
        spent += time.perf_counter() - began
        target = out / f"{n}.js"
        target.write_text(answer["text"] or "", encoding="utf-8")
        jobs.append({"source": str(file), "ours": str(target), "refusal": answer["refusal"] or ""})
    return jobs, spent


def corpus(most: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder)
        files = sources(folder, most)
        out = folder / "ours"
        out.mkdir()
        jobs, spent = ours(files, out)
        done = subprocess.run(
            ["node", str(COMPARE), str(folder / "node_modules" / "typescript")],
            input=json.dumps(jobs),
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            check=True,
        )
        verdicts: list[dict[str, Any]] = json.loads(done.stdout)
        tally = Counter(verdict["kind"] for verdict in verdicts)
        rows: list[tuple[object, ...]] = [(kind, number) for kind, number in tally.most_common()]
        kilobytes = sum(file.stat().st_size for file in files) / 1024
        title = f"{len(files)} files, {kilobytes:,.0f} KB, transformed in {spent:.2f} s"
        common.table(title, ("compared with the official compiler", "files"), rows)
        odd = [verdict for verdict in verdicts if verdict["detail"]]
        for verdict in odd[:SHOWN]:
            print(
                f"\n{Path(verdict['source']).relative_to(folder / 'node_modules')}: {verdict['kind']}"
            )
            print("  " + "\n  ".join(line[:160] for line in verdict["detail"].splitlines()))
        if len(odd) > SHOWN:
            print(f"\n… and {len(odd) - SHOWN} more")


async def warm() -> None:
    """4 KB of TypeScript and the JavaScript it amounts to, taken in turns."""
    lines = 50
    typed = "let total: number = 0;\n" + "".join(LINE.format(n) for n in range(lines)) + "total"
    plain = "let total = 0;\n" + "".join(PLAIN.format(n) for n in range(lines)) + "total"
    taken: list[list[float]] = [[], []]
    async with open_world() as world:
        for n in range(60):
            for kept, code, language in zip(
                taken, (plain, typed), ("javascript", "typescript"), strict=True
            ):
                await anyio.sleep(0.01)  # the spares are to be born meanwhile
                began = time.perf_counter()
                await world.value(code, language=language)
                if n >= 10:
                    kept.append((time.perf_counter() - began) * 1000)
    base = common.p50(taken[0])
    rows: list[tuple[object, ...]] = [
        (name, len(code) / 1024, common.p50(side), common.p50(side) - base)
        for name, code, side in zip(
            ("JavaScript", "TypeScript"), (plain, typed), taken, strict=True
        )
    ]
    common.table("A warm execution", ("", "KB", "p50 ms", "more"), rows)


if __name__ == "__main__":
    corpus(common.count(400, "files at most"))
    anyio.run(warm, backend_options={"use_uvloop": True})
