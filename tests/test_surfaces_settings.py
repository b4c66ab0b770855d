"""What an operator's settings change is changed on every surface."""

from __future__ import annotations

import json

import pytest
from daemon_process import (
    Surfaces,
    cli_words,
    everywhere,
    open_process,
    open_surfaces,
    stubs,
)
from running import home


@pytest.mark.req("REQ-REST-04", "REQ-REST-17")
async def test_a_feature_that_is_off_is_off_everywhere(tmp_path):
    """Not even the name of a script is looked at: this one would be refused for itself."""
    settings = {"enable_code_execution": False, "mcpServers": []}
    with (
        open_process(**settings) as serving,
        (tmp_path / "e").open("w", encoding="utf-8") as errors,
    ):
        async with open_surfaces(serving, errors) as surfaces:
            for body in ({"code": "1"}, {"script": "../x"}, {}):
                envelope = await everywhere(surfaces, body)
                assert envelope["error"]["code"] == "FEATURE_DISABLED"
                assert "enable_code_execution" in envelope["error"]["message"]
                assert surfaces.post(body).status == 403


@pytest.mark.req("REQ-OPT-17", "REQ-OPT-18", "REQ-CONF-10")
async def test_no_request_passes_the_operators_ceilings():
    ceilings = {"max_timeout_ms": 5000, "max_tool_calls": 2}
    settings = {"code_execution_limits": ceilings, "mcpServers": stubs("stub")}
    code = "[1, 2, 3].map(() => call_tool('stub', 'ping', {}).ok)"
    with open_process(**settings) as serving:
        surfaces = Surfaces(serving, {})
        options = {"timeout_ms": 60_000, "max_tool_calls": 0}
        for way in ("rest", "cli"):
            assert await surfaces.ask(way, {"code": code, "options": options}) == {
                "ok": True,
                "value": [True, True, False],
                "warnings": [
                    "timeout_ms 60000 is above what the operator allows; 5000 was used",
                    "max_tool_calls 0 (no limit) is above what the operator allows; 2 was used",
                ],
            }
            lower = {"code": code, "options": {"max_tool_calls": 1, "timeout_ms": 5000}}
            assert await surfaces.ask(way, lower) == {"ok": True, "value": [True, False, False]}


@pytest.mark.req("REQ-STORE-18")
def test_without_stored_scripts_it_says_where_to_put_one():
    with home() as place:
        done = place.run("code", "exec", "--script", "x")
        folder = place.folder / "scripts"
        assert json.loads(done.stdout)["error"]["message"] == (
            f'stored script "x" not found: no stored scripts in {folder} (create x.js or x.ts there)'
        )


def test_what_the_command_line_can_not_say_is_left_to_the_others():
    assert cli_words({"code": "1", "options": {"timeout_ms": 5}}) == ["--code=1", "--timeout=5"]
    assert cli_words({"code": "1", "options": {"timeout_ms": 0}}) is None
    assert cli_words({"code": "1", "options": {"trace": True}}) is None
