"""Each log line says which request it belongs to, also from tasks that the request started."""

from __future__ import annotations

import logging

import anyio

from mcpproxy import logs


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
