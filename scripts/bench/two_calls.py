"""What a wish costs a model in tokens: with our five tools, and with every tool directly.

    python scripts/bench/two_calls.py [--tools FILE]

The wish and both ways are those of tests/two_calls_played.py, against mcp-server-git and mcp-server-time.
FILE has the tools of other servers (as for tool_types.py): what their definitions alone would add to
every conversation. Counted with o200k, where `bpe-openai` is installed, or else with the tokenizer in
the wheel of mcpproxy[semantic]: that has 32,000 tokens and counts more, of both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import common
from daemon_process import open_process, over_http
from tool_types import read
from two_calls_played import SERVERS, Agent, directly, in_two_calls, repository

from mcpproxy.catalog import Catalog
from mcpproxy.declarations import summary
from mcpproxy.discovery import Discovery
from mcpproxy.envelopes import to_json

TASKS = 40
AIM = 1200

Way = Callable[[Agent, Path], Awaitable[Any]]


async def play(way: Way, face: str, repo: Path, serving: Any) -> Agent:
    async with over_http(serving, "2026-07-28", face) as client:
        agent = Agent(client)
        await way(agent, repo)
        return agent


def row(name: str, agent: Agent, count: Callable[[str], int]) -> tuple[object, ...]:
    definitions = count(agent.definitions)
    sent = sum(count(sent) for sent, _ in agent.calls)
    got = sum(count(got) for _, got in agent.calls)
    return name, len(agent.calls), definitions, sent, got, sent + got, definitions + sent + got


def main() -> None:
    os.environ.setdefault("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, metavar="FILE", help="tools of other servers")
    file = parser.parse_args().tools
    count = common.tokenizer()
    with tempfile.TemporaryDirectory() as place, open_process(mcpServers=SERVERS) as serving:
        repo = repository(Path(place, "history"))
        ours = anyio.run(play, in_two_calls, "/mcp", repo, serving)
        direct = anyio.run(play, directly, "/mcp/all", repo, serving)
    common.table(
        "tokens that a model reads and writes",
        ("way", "calls", "definitions", "written", "read", "calls' sum", "all"),
        [row("search, then a program", ours, count), row("every tool directly", direct, count)],
    )
    if file is not None:
        others(read(file), count)


def others(catalog: Catalog, count: Callable[[str], int]) -> None:
    """What the tools of a file add to each conversation, and what it costs to find some of them."""
    seen = [
        {"name": f"{one.server}__{one.name}", "description": one.description, "input_schema": one.input_schema}
        for one in catalog.tools()
    ]  # fmt: skip
    discovery = Discovery(lambda caller: catalog)
    costs = []
    for tool in list(catalog.tools())[:: max(1, len(seen) // TASKS)]:
        found = discovery.search_tools(summary(tool))
        read = discovery.get_functions([hit["name"] for hit in found["tools"][:3]])
        costs.append(float(sum(count(to_json(each).decode()) for each in (found, read))))
    common.table(
        f"{len(seen)} other tools, {len(costs)} tasks: a search by what a tool does, and its three best read",
        ("tokens", ""),
        [
            ("all definitions", count(json.dumps(seen))),
            ("a search and three functions, median", common.p50(costs)),
            ("nine of ten are below", sorted(costs)[len(costs) * 9 // 10]),
            (f"tasks below {AIM:,}", sum(cost < AIM for cost in costs)),
        ],
    )


if __name__ == "__main__":
    main()
