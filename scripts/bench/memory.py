"""Memory of the daemon and all its processes, at rest with ten spares and after many executions.

    python scripts/bench/memory.py [--count N]

N executions (default 2,000). PSS, which counts a shared page once among those who share it. Linux
only; the VMs are not dumpable, so that only root may read theirs.
"""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path

import common
from common import execution, request

MEBIBYTE = 1024
SPARES = 10
STILL = 1.0
"""MB that half a second may change."""
MIX = [
    execution("1 + 1"),
    execution("const n: number = 2; return n * 2", language="typescript"),
    execution("let s = []; for (let n = 0; n < 1e4; n++) s.push({n}); return s.length"),
    execution("await tools.stub.echo({n: 1})"),
    execution("throw new Error('on purpose')"),
]


def role(pid: int, daemon: int) -> str:
    if pid == daemon:
        return "daemon"
    line = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    if "typescript" in line:
        return "TypeScript"
    if "zygote" in line:
        parent = int(
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
        )
        return "fork server" if parent == daemon else "spares"
    return "upstream (not counted)"


def pss(daemon: int) -> dict[str, tuple[int, float]]:
    """Role -> (processes, MB)."""
    found: dict[str, tuple[int, float]] = {}
    for pid in common.family(daemon):
        try:
            name = role(pid, daemon)
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
            size = int(re.findall(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)[0]) / MEBIBYTE
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue  # it ended while we looked
        except PermissionError:
            raise SystemExit("VMs are not dumpable: run this as root, to read theirs") from None
        number, so_far = found.get(name, (0, 0.0))
        found[name] = (number + 1, so_far + size)
    return found


def settled(daemon: int) -> dict[str, tuple[int, float]]:
    """Once the spares are born and nothing grows any more."""
    common.wait_for(lambda: pss(daemon).get("spares", (0, 0))[0] == SPARES)
    before, now = 0.0, pss(daemon)
    while abs(sum(size for _, size in now.values()) - before) > STILL:
        before = sum(size for _, size in now.values())
        time.sleep(0.5)
        now = pss(daemon)
    return now


def main(executions: int) -> None:
    if not Path("/proc/self/smaps_rollup").exists():
        raise SystemExit("there is no smaps_rollup here: this needs Linux")
    with common.daemon(common.stub_settings(), code_execution_pool_size=SPARES) as daemon:
        taken = [("at rest", settled(daemon.pid))]
        for before, part in pairwise((0.0, 0.1, 0.55, 1.0) if executions > 100 else (0.0, 1.0)):
            done = round((part - before) * executions)
            for body in MIX:
                ask = request(daemon.port, "POST", "/api/v1/code/exec", body)
                if body is MIX[-1]:  # it fails on purpose, which the load client would tell
                    fail(daemon.port, ask, max(1, done // len(MIX)))
                else:
                    common.loaded(daemon.port, ask, max(1, done // len(MIX)), at_once=8)
            taken.append((f"after {round(part * executions):,}", settled(daemon.pid)))
    roles = sorted({name for _, found in taken for name in found})
    rows: list[tuple[object, ...]] = [
        (
            f"{name} ({taken[0][1].get(name, (0, 0))[0]})",
            *(found.get(name, (0, 0.0))[1] for _, found in taken),
        )
        for name in roles
    ]
    counted = [name for name in roles if "not counted" not in name]
    rows.append(
        ("all", *(sum(found.get(name, (0, 0.0))[1] for name in counted) for _, found in taken))
    )
    common.table(
        f"PSS in MB, {SPARES} warm spares (number of processes)",
        ("", *(name for name, _ in taken)),
        rows,
    )


def fail(port: int, ask: bytes, times: int) -> None:
    with common.Client(port) as client:
        for _ in range(times):
            client.ask(ask)


if __name__ == "__main__":
    main(common.count(2000, "executions"))
