"""One wish, granted twice: by an agent with our five tools, and by one with every tool directly.

The wish: at which hours, in Tokyo, are changes made to this repository?
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client

PROGRAM = Path(__file__).parents[1] / "examples" / "two_calls.ts"
PROGRAMS = Path(sys.executable).parent
SERVERS = [
    {"name": "git", "command": str(PROGRAMS / "mcp-server-git")},
    {"name": "time", "command": str(PROGRAMS / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
]  # fmt: skip
QUERY = "git log, convert time between time zones"
COMMITS = 24
FIRST = 1_767_603_600
"""2026-01-05 09:00 UTC; there is a commit every 40 minutes."""


def repository(folder: Path) -> Path:
    """A repository with a history that is always the same."""
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    stream = "".join(
        f"commit refs/heads/main\ncommitter Ada <ada@example.com> {FIRST + n * 2400} +0000\n"
        f"data <<END\nStep {n}\nEND\n\n"
        for n in range(COMMITS)
    )
    words = ["git", "-C", folder, "fast-import", "--quiet"]
    subprocess.run(words, input=stream, encoding="ascii", check=True)
    subprocess.run(["git", "-C", folder, "symbolic-ref", "HEAD", "refs/heads/main"], check=True)
    return folder


@dataclass
class Agent:
    """A client that keeps what its model would read and write."""

    client: Client
    definitions: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """What the model wrote, and what it was given for it."""

    async def look(self) -> None:
        tools = (await self.client.list_tools()).tools
        seen = [
            {"name": one.name, "description": one.description, "input_schema": one.input_schema}
            for one in tools
        ]
        self.definitions = json.dumps(seen)

    async def call(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content)
        assert not result.is_error, text
        self.calls.append((json.dumps({"name": tool, "arguments": arguments}), text))
        return text


async def in_two_calls(agent: Agent, repo: Path) -> Any:
    """Search, then a program over what was found."""
    await agent.look()
    found = json.loads(await agent.call("search_tools", query=QUERY, limit=3))
    code = PROGRAM.read_text(encoding="utf-8")
    # What the program needs, the model has read: the names and what they take.
    assert uses(code) <= {hit["signature"].partition("(")[0] for hit in found["tools"]}
    reply = await agent.call(
        "code_execution", code=code, language="typescript", input={"repo": str(repo)}
    )
    return json.loads(reply)["value"]


def uses(code: str) -> set[str]:
    return {f"tools.{part.partition('(')[0]}" for part in code.split("tools.")[1:]}


async def directly(agent: Agent, repo: Path) -> Any:
    """A call for the log and one for each time in it; the model itself puts the answers together."""
    await agent.look()
    log = await agent.call("git__git_log", repo_path=str(repo), max_count=100)
    hours: dict[str, list[str]] = {}
    for line in log.splitlines():
        if line.startswith("Date: "):
            text = await agent.call(
                "time__convert_time",
                source_timezone="UTC", time=line.split()[2][:5], target_timezone="Asia/Tokyo",
            )  # fmt: skip
            time = json.loads(text)["target"]["datetime"][11:16]
            hours.setdefault(f"{time[:2]} h", []).append(time)
    return hours
