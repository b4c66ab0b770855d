"""`Proxy`: the daemon within a Python program."""

from __future__ import annotations

import asyncio  # noqa: TID251 - of those who embed us
import math
import os
import signal
from types import MappingProxyType

import anyio
import pytest
from daemon_process import stubs
from running import below, gone
from upstreams import until
from warm import share_compiled

from mcpproxy import CallError, Execution, ExecutionError, Proxy, Refused, SettingsError
from mcpproxy.embedded import data_of
from mcpproxy.sandbox import pool as pools
from mcpproxy.sandbox.pool import Pool

CONFIG = {"mcpServers": stubs("stub"), "code_execution_pool_size": 1}


async def test_programs_and_tools_run_in_it_and_nothing_is_left(tmp_path):
    before = below(os.getpid())
    share_compiled(tmp_path)
    async with Proxy(CONFIG | {"data_dir": str(tmp_path)}) as proxy:
        assert await proxy.execute("return await tools.stub.add(input)", {"a": 1, "b": 2}) == (
            Execution({"sum": 3})
        )
        traced = await proxy.execute("call_tool('stub', 'ping', {}).ok", trace=True)
        assert (traced.value, traced.calls[0]["outcome"]) == (True, "ok")
        assert await proxy.call("stub:add", {"a": 1, "b": 2}) == {"sum": 3}
        assert "add" in [tool.name for tool in await proxy.tools()]
        assert (await proxy.search("add two numbers", 1))[0]["name"] == "stub:add"
        with pytest.raises(Refused) as refused:
            await proxy.execute("1", timeout_ms=0)
        assert refused.value.code == "INVALID_OPTIONS"
        with pytest.raises(Refused, match="input must be JSON data"):
            await proxy.execute("1", {"when": object()})
        with pytest.raises(Refused, match="allowed_servers must be an array"):
            await proxy.execute("1", allowed_servers="stub")
        assert (await proxy.execute("input.a", MappingProxyType({"a": 1}))).value == 1
        with pytest.raises(CallError, match="JSON data"):
            await proxy.call("stub:ping", {"when": math.nan})
        with pytest.raises(CallError, match="must be a mapping"):
            await proxy.call("stub:ping", [1])
        for tool, code in (("stub:ad", "TOOL_NOT_FOUND"), ("stub:fail", "TOOL_ERROR")):
            with pytest.raises(CallError) as failed:
                await proxy.call(tool, {"message": "no"})
            assert failed.value.code == code
        children = below(os.getpid()) - before
        with anyio.move_on_after(0.05) as scope:
            await proxy.execute("await sleep(60000)")
        assert scope.cancelled_caught
    gone(children)
    with pytest.raises(RuntimeError, match="async with"):
        await proxy.execute("1")


CALLS = """
const add = i => tools.stub.add({ a: i, b: 1 });
for (let i = 0; i < 5; i++) call_tool("stub", "ping", {});
return (await Promise.all([...Array(20).keys()].map(add))).reduce((sum, each) => sum + each.sum, 0)
"""


def test_it_runs_on_a_loop_that_nobody_made_for_anyio(tmp_path):
    async def embed() -> Execution:
        async with Proxy(CONFIG | {"data_dir": str(tmp_path)}) as proxy:
            return await proxy.execute(CALLS)

    share_compiled(tmp_path)
    assert asyncio.run(embed()) == Execution(210)


async def test_a_failure_leaves_the_block_as_it_was_raised(tmp_path):
    share_compiled(tmp_path)
    with pytest.raises(ExecutionError) as failed:
        async with Proxy({"data_dir": str(tmp_path), "code_execution_pool_size": 1}) as proxy:
            await proxy.execute("call_tool('nix', 'x', {})\nnix()")
    error = failed.value
    assert (error.code, str(error)) == ("RUNTIME_ERROR", "ReferenceError: nix is not defined")
    assert "script.js:2" in error.stack
    assert error.calls[0]["code"] == "SERVER_NOT_FOUND"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"listen": 7}, "listen"),
        ({"mcpServers": object()}, "must be JSON data"),
        ("/nowhere/mcp_config.json", "no configuration at /nowhere"),
    ],
)
async def test_a_configuration_that_can_not_be_used_is_refused(config, said):
    with pytest.raises(SettingsError, match=said):
        async with Proxy(config):
            raise AssertionError("it opened")


@pytest.mark.parametrize(
    ("result", "data"),
    [
        ({"content": [], "structuredContent": None}, None),
        ({"content": [{"type": "text", "text": "[1]"}]}, [1]),
        ({"content": [{"type": "text", "text": "[1"}]}, "[1"),
        ({"content": [{"type": "text", "text": "[" * 10**5}]}, "[" * 10**5),
        ({"content": [{"type": "text", "text": "1"}] * 2}, [{"type": "text", "text": "1"}] * 2),
        ({}, None),
    ],
)
def test_the_data_of_a_result_is_what_a_program_is_given(result, data):
    assert data_of(result) == data


@pytest.mark.parametrize("insists", [False, True])
async def test_a_fork_server_that_ends_while_vms_are_tried_is_no_end_of_the_daemon(
    tmp_path, monkeypatch, insists
):
    share_compiled(tmp_path)
    tried = Pool._fork
    killed = []

    def fork_and_kill(pool, act=None):
        vm = tried(pool, act)
        if act is not None and not killed:
            killed.append(pool.fork_server)
            os.kill(pool.fork_server, signal.SIGKILL)
        return vm

    monkeypatch.setattr(Pool, "_fork", fork_and_kill)
    monkeypatch.setattr(pools, "FIRST_PAUSE", 0.001)
    config = {"data_dir": str(tmp_path), "code_execution_require_confinement": insists}
    proxy = Proxy(config)
    if insists:
        with pytest.raises(SettingsError, match="could not be tried"):
            await proxy.__aenter__()
        return
    async with proxy:
        await until(lambda: bool(killed))
        await until(lambda: proxy.daemon.pool.fork_server not in (None, *killed))
        assert (await proxy.execute("1 + 1")).value == 2
