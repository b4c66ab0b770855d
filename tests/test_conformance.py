"""The fixtures of `scripts/conformance` are up to it; the suite itself needs npm and is run by hand."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
from authority import open_authority
from upstreams import open_stubs

from mcpproxy.settings import ServerSettings

SUITE = Path(__file__).parents[1] / "scripts" / "conformance_suite"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_fixture_speaks_each_era(tmp_path, era):
    args = ["-I", "-S", str(SUITE / "fixture.py"), "--era", era]
    fixture = ServerSettings(name="fixture", command=sys.executable, args=args)
    async with open_stubs(tmp_path, fixture) as fleet:
        assert fleet.connections()["fixture"].era == era
        result = await fleet.call("fixture", "test_simple_text", {})
        assert result["content"] == [
            {"type": "text", "text": "This is a simple text response for testing."}
        ]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_each_expected_failure_has_its_reason(revision):
    text = (SUITE / f"expected-{revision}.yaml").read_text(encoding="utf-8")
    assert re.fullmatch(r"((  # .+\n)+(  - .+\n)+)+", text.partition("server:\n")[2])


async def test_the_client_of_its_scenarios_about_logins_gets_in(capsys):
    client = runpy.run_path(str(SUITE / "client.py"))
    async with open_authority() as authority:
        await client["main"](authority.url, {})
    assert authority.calls == 1 and capsys.readouterr().err == "logged in\n"
