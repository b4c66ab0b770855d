"""The client of the suite's scenarios about logins: our fleet, and a browser that allows everything.

The suite runs it with the URL of a server that wants a login, and watches how it gets in.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio
import httpx2

from mcpproxy.errors import CallError
from mcpproxy.settings import ServerSettings, Settings
from mcpproxy.upstream.fleet import Fleet, open_fleet

DOCUMENT = "https://conformance-test.local/client-metadata.json"
LOGINS = 3
"""Logins after which we take no for an answer."""


async def main(url: str, environ: Mapping[str, str]) -> None:
    known = json.loads(environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    oauth = {"client_metadata_url": DOCUMENT} | {
        name: known[name] for name in ("client_id", "client_secret") if known.get(name)
    }
    server = ServerSettings.model_validate(
        {"name": "suite", "url": url, "protocol": "http", "oauth": oauth}
    )
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        async with open_fleet(Settings(mcpServers=[server]), environ, state, state) as fleet:
            with anyio.fail_after(25):
                await fleet.settled()
                for _ in range(LOGINS):
                    if not await wanting(fleet) or not await log_in(fleet):
                        break


async def wanting(fleet: Fleet) -> bool:
    """Call every tool; whether something wants a login (or another one)."""
    suite = fleet.catalog.servers["suite"]
    try:
        for name in suite.tools:
            await fleet.call("suite", name, {})
    except CallError as error:
        return "auth login" in error.message
    return suite.state != "ready"


async def log_in(fleet: Fleet) -> bool:
    login = await fleet.log_in("suite", (), 20)
    if login.url is not None:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            await browser.get((await browser.get(login.url)).headers["location"])
        await login.over.wait()
    await fleet.settled()
    print(login.error or "logged in", file=sys.stderr)
    return login.error is None


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1], os.environ)
