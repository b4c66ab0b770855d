"""Speed of the language: six kernels in a VM of the product beside the bare engine.

    python scripts/bench/kernels.py [--count N]

N rounds (default 5), each with a fresh process on both sides. Each kernel times itself.
"""

from __future__ import annotations

import json
import subprocess
import sys

import anyio
import common
from common import p50
from world import open_world

KERNELS = {
    "fib(27)": "const fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2); x = fib(27)",
    "loop of 10^7": "for (let n = 0; n < 1e7; n++) x = (x + n) | 0",
    "10^5 appends to a string": "for (let m = 0; m < 5; m++) { let s = ''; for (let n = 0; n < 1e5; n++) s += 'item ' + n; x += s.length }",
    "JSON of 20,000 rows": "const rows = []; for (let n = 0; n < 20000; n++) rows.push({ id: n, name: 'row ' + n, tags: ['a', 'b'], ok: n % 2 === 0 }); const text = JSON.stringify(rows); x = JSON.parse(text).length + text.length",
    "sort of 10^5": "let seed = 1; const list = []; for (let n = 0; n < 1e5; n++) list.push(seed = (seed * 16807) % 2147483647); list.sort((a, b) => a - b); x = list[500]",
    "regular expressions": "const text = 'the quick brown fox 2024-05-06 jumps over user@example.com '.repeat(500); for (let n = 0; n < 60; n++) x += text.match(/[\\w.]+@[\\w.]+/g).length + text.replace(/(\\d{4})-(\\d\\d)-(\\d\\d)/g, '$3.$2.$1').length",
}
PROGRAM = "(() => {{ let x = 0; const began = Date.now(); {{ {0}; }} const took = Date.now() - began; return [took, x]; }})()"
BARE = "import sys, quickjs; print(quickjs.Context().eval('JSON.stringify(' + sys.argv[1] + ')'))"


def bare(program: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", BARE, program], stdout=subprocess.PIPE, check=True)
    return list(json.loads(done.stdout))


async def main(rounds: int) -> None:
    rows: list[tuple[object, ...]] = []
    async with open_world() as world:
        await world.value("1")
        for name, kernel in KERNELS.items():
            program = PROGRAM.format(kernel)
            plain, ours = [], []
            for _ in range(rounds):
                base = await anyio.to_thread.run_sync(bare, program)
                found = await world.value(program)
                assert base[1] == found[1], (name, base, found)
                plain.append(float(base[0]))
                ours.append(float(found[0]))
            rows.append(
                (
                    name,
                    p50(plain),
                    p50(ours),
                    p50(plain) / max(1.0, p50(ours)),
                    min(plain) / max(1.0, min(ours)),
                )
            )
    head = ("", "bare ms", "in a VM ms", "speed of medians", "speed of the best")
    common.table("Speed in a VM of the product, the bare engine being 1", head, rows)


if __name__ == "__main__":
    anyio.run(main, common.count(5, "rounds"), backend_options={"use_uvloop": True})
