"""Each log line says which request it belongs to, also from tasks that the request started."""

from __future__ import annotations

import logging
import os

import anyio

from mcpproxy import logs
from mcpproxy.upstream import dial


async def test_lines_carry_the_id_of_their_own_request():
    said: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record):
            said.append(self.format(record))

    handler = Kept()
    handler.setFormatter(logging.Formatter("[%(request)s] %(message)s"))
    handler.addFilter(logs.Marked())
    logger = logging.getLogger("mcpproxy.test_logs")
    logger.addHandler(handler)

    async def inner(text):
        logger.warning(text)

    async def work(request_id):
        logs.request.set(request_id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inner, f"of {request_id}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work, "a")
        tasks.start_soon(work, "b")
    logger.warning("of none")
    logger.removeHandler(handler)
    assert sorted(said) == ["[-] of none", "[a] of a", "[b] of b"]


def test_half_a_surrogate_pair_costs_no_line_and_no_traceback(tmp_path, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(logging, "basicConfig", lambda **options: made.extend(options["handlers"]))
    monkeypatch.setattr(logging.getLogger("mcpproxy"), "level", logging.INFO)
    logs.set_up("info", tmp_path / "main.log")
    made.append(dial._log_file(tmp_path, "server"))
    for handler in made[1:]:
        dial._note(handler, ["half \ud800 of one"])
        handler.close()
    for name in ("main.log", "server-server.log"):
        assert "half \\ud800 of one" in (tmp_path / name).read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


def test_a_stderr_that_nobody_reads_keeps_nobody_waiting():
    theirs, ours = os.pipe()
    with open(ours, "w", encoding="utf-8") as stream, open(theirs, "rb") as reader:
        handler = logs.Stderr(stream)
        for n in range(3000):
            handler.handle(
                logging.LogRecord("x", logging.INFO, "", 0, f"{n} " + "ö" * 50, None, None)
            )
        os.set_blocking(theirs, False)
        read = reader.read().decode().splitlines()
        assert read[0].startswith("0 ") and len(read) < 3000
        handler.handle(logging.LogRecord("x", logging.INFO, "", 0, "ö" * 100_000, None, None))
        dropped, last = reader.read().decode().splitlines()
    assert dropped == f"({3000 - len(read)} lines were not read in time)"
    assert last == "ö" * len(last) and len(last) > 1000
