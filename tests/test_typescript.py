"""The transform's process: kept compiled, killed when it must be, never in the way of the next one."""

from __future__ import annotations

import re
import socket
import sys
import time
from pathlib import Path

import anyio
import pytest
from quickjs_rs import _transform, _wasmtime
from warm import COMPILED

from mcpproxy.sandbox import frames, typescript
from mcpproxy.sandbox.transformer import open_transformer
from mcpproxy.sandbox.typescript import Oxc, load_compiled, parted


async def test_a_damaged_file_is_made_anew_and_the_next_process_takes_it(tmp_path):
    async with open_transformer(COMPILED) as transformer:
        await transformer.warm()
    damaged = [tmp_path / each.name for each in COMPILED.glob("*.bin")]
    for each in damaged:  # those of other versions are nobody's
        each.write_bytes(b"damaged")
    async with open_transformer(tmp_path) as transformer:
        assert (await transformer.transform("1 as number")).text == "1;\n"
    (made,) = [each for each in damaged if each.stat().st_size > 1000]
    assert len(list(tmp_path.iterdir())) == len(damaged)
    before = made.stat().st_mtime_ns
    async with open_transformer(tmp_path) as transformer:
        assert (await transformer.transform("let a: number = 1")).text == "let a = 1;\n"
    assert made.stat().st_mtime_ns == before


async def test_a_cancelled_request_leaves_no_answer_for_the_next():
    async with open_transformer(COMPILED) as transformer:
        await transformer.warm()
        with anyio.move_on_after(0):
            await transformer.transform("first")
        assert (await transformer.transform("second as any")).text == "second;\n"


@pytest.mark.threat("S13")
async def test_a_process_that_dies_is_replaced():
    async with open_transformer(COMPILED) as transformer:
        await transformer.warm()
        process = transformer.worker.process
        process.kill()
        await process.wait()
        assert (await transformer.transform("1 as any")).text == "1;\n"


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ("const a: number = ;", "Unexpected token"),
        ("(" * 50_000, "nested too deeply"),
    ],
)
@pytest.mark.threat("S13")
def test_what_cannot_be_transformed_is_said_without_insides(source, refusal):
    answer = Oxc(COMPILED).answer(source)
    assert answer["text"] is None
    assert refusal in answer["refusal"]
    assert "wasm" not in answer["refusal"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a process in /proc")
async def test_its_process_is_in_jail():
    async with open_transformer(COMPILED) as transformer:
        await transformer.warm()
        process = Path(f"/proc/{transformer.worker.process.pid}")
        assert "NoNewPrivs:\t1" in (process / "status").read_text(encoding="ascii")
        limits = (process / "limits").read_text(encoding="ascii")
        assert re.search(r"^Max file size +0 +0 ", limits, re.MULTILINE)


@pytest.mark.threat("S13")
async def test_nobody_waits_for_a_source_that_takes_long(monkeypatch):
    monkeypatch.setattr("mcpproxy.sandbox.transformer.QUICK_SECONDS", 0.05)
    long = "return 1;\n" + "namespace A { export const b = 1 }\n" * 20_000
    async with open_transformer(COMPILED) as transformer, anyio.create_task_group() as tasks:
        await transformer.warm()
        tasks.start_soon(transformer.transform, long)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            assert (await transformer.transform("1 as number")).text == "1;\n"
        tasks.cancel_scope.cancel()
    assert transformer.worker.process.returncode is not None


@pytest.mark.threat("S13")
@pytest.mark.parametrize(
    "source",
    [
        "import {" + " type a" * 20_000,
        "import type a\n" * 20_000,
        "}namespace a " * 20_000,
        "export const a = 1;\n" * 20_000,
    ],
)
def test_what_stands_in_no_function_is_found_in_time_that_grows_with_the_source(source):
    began = time.process_time()
    parted(source)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "garbage", [frames.pack(b"[]"), frames.pack(b"{}"), frames.pack(b"no"), b"\xff" * 9]
)
async def test_what_is_no_answer_ends_the_process_not_the_next_transform(garbage):
    async with open_transformer(COMPILED) as transformer:
        await transformer.warm()
        transformer.worker.line.close()
        transformer.worker.line, theirs = socket.socketpair()
        transformer.worker.line.setblocking(False)
        with theirs:
            theirs.sendall(garbage)
            assert (await transformer.transform("1 as number")).text == "1;\n"


def test_a_path_that_is_not_utf8_costs_the_compiling_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_transform, "_read_transform_wasm", lambda: b"\0asm\1\0\0\0")
    monkeypatch.setattr(_wasmtime, "_SHARED_ARTIFACTS", {})
    tried = []
    monkeypatch.setattr(typescript, "compile_beside", lambda compiled, file: tried.append(file))
    load_compiled(tmp_path / "J\udcf6rg")
    assert len(tried) == 1
    assert _wasmtime._SHARED_ARTIFACTS.keys() == {"transform"}
