"""The transform's process: kept compiled, killed when it must be, never in the way of the next one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import anyio
import pytest

from mcpproxy.errors import WorkerError
from mcpproxy.sandbox.typescript import Oxc, open_transformer


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


async def test_a_second_process_takes_what_the_first_one_compiled(cache):
    for _ in range(2):
        async with open_transformer(cache) as transformer:
            assert (await transformer.transform("let a: number = 1")).text == "let a = 1;\n"
        (kept,) = cache.iterdir()
        made = kept.stat().st_mtime_ns
    assert kept.stat().st_mtime_ns == made


async def test_a_damaged_file_is_made_anew(cache):
    async with open_transformer(cache) as transformer:
        await transformer.warm()
    (kept,) = cache.iterdir()
    kept.write_bytes(b"damaged")
    async with open_transformer(cache) as transformer:
        assert (await transformer.transform("1 as number")).text == "1;\n"
    assert kept.stat().st_size > 1000


async def test_a_cancelled_request_leaves_no_answer_for_the_next(cache):
    async with open_transformer(cache) as transformer:
        await transformer.warm()
        with anyio.move_on_after(0):
            await transformer.transform("first")
        assert (await transformer.transform("second as any")).text == "second;\n"


@pytest.mark.threat("S13")
async def test_a_process_that_dies_is_replaced(cache):
    async with open_transformer(cache) as transformer:
        await transformer.warm()
        process = transformer._process
        process.kill()
        await process.wait()
        with pytest.raises(WorkerError):
            await transformer.transform("1")
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
    answer = Oxc().answer(source)
    assert answer["text"] is None
    assert refusal in answer["refusal"]
    assert "wasm" not in answer["refusal"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at a process in /proc")
async def test_its_process_is_in_jail(cache):
    async with open_transformer(cache) as transformer:
        await transformer.warm()
        process = Path(f"/proc/{transformer._process.pid}")
        assert "NoNewPrivs:\t1" in (process / "status").read_text(encoding="ascii")
        limits = (process / "limits").read_text(encoding="ascii")
        assert re.search(r"^Max file size +0 +0 ", limits, re.MULTILINE)
