"""What the command line costs beside a bare start of Python.

    python scripts/bench/cli.py [--count N]

N rounds (default 15).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import common
from common import interleaved, p50, timed


def run(environ: Mapping[str, str], *command: str) -> float:
    return timed(
        lambda: subprocess.run(
            command,
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    )


def main(rounds: int) -> None:
    python = sys.executable
    with common.daemon() as daemon:
        sides = {
            "python -c pass": [python, "-c", "pass"],
            "python -c 'import mcpproxy.cli'": [python, "-c", "import mcpproxy.cli"],
            "mcpproxy --version": [*common.MCPPROXY, "--version"],
            "mcpproxy code exec --code '1 + 1'": [
                *common.MCPPROXY, "code", "exec", "--code", "1 + 1", "--config", str(daemon.config)
            ],
        }  # fmt: skip
        taken = interleaved(
            rounds,
            *(lambda command=command: run(daemon.environ, *command) for command in sides.values()),
        )
    base = p50(taken[0])
    rows: list[tuple[object, ...]] = [
        (name, p50(side), p50(side) - base, p50(side) / base)
        for name, side in zip(sides, taken, strict=True)
    ]
    common.table("Command line, ms", ("", "p50", "more", "ratio"), rows)


if __name__ == "__main__":
    main(common.count(15, "rounds"))
