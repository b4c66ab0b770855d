"""Profiles: what the configuration takes for one, and whom it narrows to what."""

from __future__ import annotations

import pytest

from mcpproxy import settings
from mcpproxy.errors import Refused, SettingsError
from mcpproxy.policy import ADMIN, ANONYMOUS, Caller
from mcpproxy.profiles import narrowed, split

PROFILES = {"team": ["github", "jira"], "nobody": []}


def loaded(tmp_path, profiles):
    document = {"profiles": profiles, "mcpServers": {"github": {"command": "x"}}}
    return settings.check(tmp_path / "c.json", document, {})


@pytest.mark.parametrize(
    "profiles", [{"team": ["github"]}, [{"name": "team", "servers": ["github"]}]]
)
def test_profiles_are_an_object_or_an_array(tmp_path, profiles):
    found = loaded(tmp_path, profiles)
    assert (found.settings.profiles, found.warnings) == ({"team": ["github"]}, [])


def test_a_server_that_is_not_configured_is_named_in_a_warning(tmp_path):
    (said,) = loaded(tmp_path, {"team": ["github", "gitub"]}).warnings
    assert "'team'" in said and "'gitub'" in said


@pytest.mark.parametrize(
    "profiles",
    [
        {"all": []}, {"p": []}, {"Team": []}, {"": []}, {"a/b": []}, {"x" * 64: []}, {"_a": []},
        {"team": "github"}, {"team": None}, {"team": [1]}, "team", ["team"], [{"name": "team"}],
        [{"name": "team", "servers": [], "more": 1}], [{"name": 1, "servers": []}],
        [{"name": "a", "servers": []}, {"name": "a", "servers": ["github"]}],
    ],
)  # fmt: skip
def test_anything_else_is_an_error_that_names_the_setting(tmp_path, profiles):
    with pytest.raises(SettingsError, match="profiles"):
        loaded(tmp_path, profiles)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/mcp/p/team", ("team", "/mcp")),
        ("/mcp/p/team/", ("team", "/mcp")),
        ("/mcp/p/team/all", ("team", "/mcp/all")),
        ("/mcp/p/team/call/", ("team", "/mcp/call")),
        ("/mcp/p/", ("", "/mcp")),
        ("/mcp/p", None),
        ("/mcp/all", None),
        ("/mcp/p/team/p/other", ("team", "/mcp/p/other")),
    ],
)
def test_a_path_is_taken_apart_once(path, found):
    assert split(path) == found


def test_a_profile_is_an_intersection():
    token = Caller("ci", "token", servers=frozenset({"jira", "secret"}))
    assert narrowed(PROFILES, "team", token).scope.servers == {"jira"}
    assert narrowed(PROFILES, "team", ANONYMOUS).scope.servers == {"github", "jira"}
    assert narrowed(PROFILES, "nobody", ADMIN).scope.servers == frozenset()


@pytest.mark.threat("L5")
def test_only_an_administrator_hears_which_profiles_there_are():
    for caller in (ANONYMOUS, Caller("ci", "token")):
        with pytest.raises(Refused) as refused:
            narrowed(PROFILES, "taem", caller)
        assert refused.value.code == "NOT_FOUND"
        assert "team" not in str(refused.value)
    with pytest.raises(Refused, match="did you mean 'team'"):
        narrowed(PROFILES, "taem", ADMIN)
