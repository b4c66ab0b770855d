"""Servers with prompts and resources, and clients of them through the faces."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
from fakes import FakeDaemon
from mcp import Client
from upstreams import open_stubs, stub

from mcpproxy.catalog import EMPTY
from mcpproxy.listings import Listings
from mcpproxy.proxy import open_mcp

SERVER_ERAS = ("legacy", "modern")


class Real(FakeDaemon):
    """A fleet of real servers behind the fake daemon's verbs."""

    def __init__(self, fleet):
        super().__init__(EMPTY)
        self.fleet = fleet
        self.listings = Listings(fleet)

    async def call(self, server, tool, arguments, caller, **options):
        return await self.fleet.call(server, tool, arguments, **options)

    async def request(self, server, method, params, caller, **options):
        return await self.fleet.request(server, method, params, **options)


def shelf(word, *flags, era="both", **settings):
    return stub("--library", word, "--era", era, *flags, name=word, **settings)


@asynccontextmanager
async def library(tmp_path, *servers, **options):
    """A client of servers that no other test has."""
    async with open_stubs(tmp_path, *servers) as fleet, reader(fleet, **options) as client:
        yield client


@asynccontextmanager
async def reader(fleet, era="2026-07-28", path="/mcp/all", **options):
    async with (
        open_mcp(Real(fleet)) as face,
        Client(
            face.faces[path].server,
            mode="legacy" if era == "legacy" else "auto",
            cache=None,
            **options,
        ) as client,
    ):
        yield client


async def until(read, fits):
    """What `read` gives once that fits: the server is asked in the background."""
    with anyio.fail_after(20):
        while not fits(found := await read()):
            await anyio.lowlevel.checkpoint()
    return found
