"""Runs one Python tool in a process of its own: JSON on stdin, JSON on stdout.

    python -I runner.py FOLDER ROOT call MODULE:FUNCTION [ARGUMENT…]
    python -I runner.py FOLDER ROOT file SCRIPT [ARGUMENT…]

A function is given the request and returns the result. What it prints goes to stderr: stdout is the
result's alone. A file does both by itself.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback
from typing import Any


def main() -> None:
    folder, root, kind, entry = sys.argv[1:5]
    sys.path[:0] = [folder, root]
    sys.argv[:] = [entry, *sys.argv[5:]]
    if kind == "file":
        runpy.run_path(entry, run_name="__main__")
        return
    out = os.dup(1)
    os.dup2(2, 1)
    with open(out, "w", encoding="utf-8") as stream:
        stream.write(answer(entry))


def answer(entry: str) -> str:
    module, _, function = entry.partition(":")
    try:
        result: Any = getattr(importlib.import_module(module), function)(json.load(sys.stdin))
        return json.dumps(result, allow_nan=False)
    except Exception as error:
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}"
        return json.dumps({"error": {"code": "EINTERNAL", "message": message}})


if __name__ == "__main__":
    main()
