"""Other clients' configurations become entries of ours, or a reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpproxy import settings
from mcpproxy.importing import CLIENTS, places, take

HERE, HOME = Path("/project"), Path("/home/me")


def taken(document, known=None):
    return take(document, HERE, HOME, known or {}, 8080)


def one(entry, name="x", **document):
    found = taken({"mcpServers": {name: entry}, **document})
    assert found.skipped == {}
    return found.entries[0]


def reason(entry, name="x", known=None):
    found = taken({"mcpServers": {name: entry}}, known)
    assert found.entries == []
    return found.skipped[name]


def test_a_command_is_taken_as_it_is():
    entry = {"command": "npx", "args": ["-y", "a-server"], "env": {"TOKEN": "t"}, "cwd": "/w"}
    assert one(entry) == {
        "name": "x", "command": "npx", "args": ["-y", "a-server"], "working_dir": "/w",
        "env": {"TOKEN": "t"},
    }  # fmt: skip


def test_a_path_that_holds_only_in_that_client_s_folder_is_named():
    entry = {"command": "./run", "cwd": "server", "args": ["./data"]}
    assert taken({"mcpServers": {"x": entry, "y": {"command": "/run", "cwd": "~"}}}).notes == [
        "x: write the whole path of its command, ./run",
        "x: write the whole path of its working_dir, server",
    ]


@pytest.mark.parametrize("name", ["url", "serverUrl", "httpUrl"])
def test_an_address_is_taken_under_each_of_its_names(name):
    assert one({name: "https://a.example/mcp"})["url"] == "https://a.example/mcp"


@pytest.mark.parametrize(
    ("kind", "protocol"),
    [(None, None), ("http", "http"), ("sse", "sse"), ("streamable-http", "http")],
)
def test_an_address_keeps_its_transport(kind, protocol):
    made = one(
        {"url": "https://a.example/mcp", "headers": {"X": "1"}, **({"type": kind} if kind else {})}
    )
    assert made.get("protocol") == protocol
    assert (made["url"], made["headers"]) == ("https://a.example/mcp", {"X": "1"})


def test_vs_code_s_servers_and_inputs():
    document = {
        "inputs": [{"id": "github-token", "type": "promptString", "description": "GitHub token", "password": True}],
        "servers": {
            "github": {
                "type": "http",
                "url": "https://a.example/mcp",
                "headers": {"Authorization": "Bearer ${input:github-token}"},
            },
            "local": {"command": "${userHome}/bin/x", "env": {"A": "${env:A}"}, "dev": {}},
        },
    }  # fmt: skip
    found = taken(document)
    assert found.entries[0]["headers"] == {"Authorization": "Bearer ${env:GITHUB_TOKEN}"}
    assert found.entries[1]["command"] == "/home/me/bin/x"
    assert found.entries[1]["env"] == {"A": "${env:A}"}
    assert found.notes == [
        "github: set GITHUB_TOKEN in the daemon's environment (GitHub token)",
        "local: without dev, which have no counterpart here",
    ]
    assert [each["name"] for each in taken({"mcp": document}).entries] == ["github", "local"]


def test_claude_code_s_variables_and_projects():
    found = taken(
        {
            "mcpServers": {"a": {"command": "${BIN:-x}", "env": {"K": "${KEY}"}}},
            "projects": {
                "/project": {"mcpServers": {"b": {"type": "stdio", "command": "b"}}},
                "/other": {"mcpServers": {"c": {"command": "c"}}},
            },
        }
    )
    assert [each["name"] for each in found.entries] == ["a", "b"]
    assert found.entries[0]["env"] == {"K": "${env:KEY}"}
    assert found.notes == ["a: command has no default here: set BIN in the daemon's environment"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "/usr/bin/mcpproxy", "args": ["stdio"]}, "mcpproxy itself"),
        ({"command": "uvx", "args": ["mcpproxy", "stdio"]}, "mcpproxy itself"),
        ({"url": "http://localhost:8080/mcp"}, "mcpproxy itself"),
        ({"command": "${workspaceFolder}/x"}, "workspaceFolder"),
        ({"command": "x", "env": {"A": "${command:pick}"}}, "command:pick"),
        ({"type": "ws", "url": "ws://x"}, "'ws'"),
        ({"type": ["stdio"], "command": "x"}, "['stdio']"),
        ({"type": "streamable-http", "command": "x"}, "neither command nor url"),
        ({}, "neither command nor url"),
        ({"command": "x", "url": "http://x"}, "both command and url"),
        ("text", "no object"),
        ({"command": "x", "args": "y"}, "args"),
        ({"command": "x", "args": [{}]}, "args[0]"),
        ({"command": "x", "env": []}, None),
        ({"command": "x", "env": [1]}, "env"),
    ],
)
def test_what_can_not_be_taken_has_its_reason(entry, said):
    if said is None:
        assert one(entry) == {"name": "x", "command": "x"}
    else:
        assert said in reason(entry)


def test_names_are_made_valid_and_kept_apart():
    assert one({"command": "x"}, name="a:b")["name"] == "a-b"
    entry = {"command": "x", "args": ["1"]}
    assert reason(entry, known={"x": {"name": "x", **entry}}) == "it is there already"
    assert "rename" in reason(entry, known={"x": {"command": "y"}})


def test_a_disabled_server_stays_disabled():
    assert one({"command": "x", "disabled": True})["enabled"] is False


@pytest.mark.parametrize(
    "document", [None, [], {}, {"mcpServers": []}, {"servers": {}, "inputs": 7}]
)
def test_a_document_without_servers_gives_none(document):
    assert taken(document).entries == []


def test_what_is_taken_is_a_valid_configuration(tmp_path):
    found = taken(
        {"mcpServers": {"a": {"command": "a", "env": {"N": 1}}, "b": {"url": "http://x/"}}}
    )
    checked = settings.check(tmp_path / "c.json", {"mcpServers": found.entries}, {})
    assert [each.name for each in checked.settings.servers] == ["a", "b"]
    assert checked.warnings == []


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_has_its_places(client):
    assert all(path.suffix == ".json" for path in places(client, HOME, HERE))
