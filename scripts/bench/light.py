"""An MCP server over stdio that costs little, for the benches. Standard library only.

    python -I -S light.py [TOOLS [LEDGER]]

It has TOOLS tools (default 1), with definitions as long as those of real servers, that give their
arguments back. Each call's `n` is appended to the file LEDGER before it is answered.
"""

import json
import os
import sys
from typing import Any

TEXT = (
    "Searches the items of a collection by the given criteria and returns those that match, newest "
    "first, with their most important fields; page through long results with cursor and limit. "
)
FIELDS = ("collection", "query", "labels", "author", "since", "until", "cursor", "limit", "order")
Json = dict[str, Any]

META = {"io.modelcontextprotocol/serverInfo": {"name": "light", "version": "1"}}


def tool(number: int) -> Json:
    properties = {
        field: {"type": "string", "description": f"{TEXT[:70]} The {field} of tool {number}."}
        for field in FIELDS
    }
    schema = {"type": "object", "properties": properties, "additionalProperties": True}
    return {"name": f"tool_{number}", "description": f"{TEXT} {number}", "inputSchema": schema}


def answer(method: str, params: Json, tools: list[Json], ledger: int | None) -> Json:
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    if method == "tools/list":
        return {"tools": tools}
    given = params.get("arguments") or {}
    if ledger is not None:
        os.write(ledger, b"%d\n" % given["n"])
    return {"content": [{"type": "text", "text": json.dumps(given)}]}


def main() -> None:
    tools = [tool(number) for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1)]
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    ledger = os.open(sys.argv[2], flags, 0o600) if len(sys.argv) > 2 else None
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            found = answer(message["method"], message.get("params") or {}, tools, ledger)
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **found}
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": {**result, "_meta": META}}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
