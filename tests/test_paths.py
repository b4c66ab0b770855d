"""Where things lie, and that it is short, private and each configuration's own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcpproxy import paths
from mcpproxy.cli import main
from mcpproxy.errors import SettingsError
from mcpproxy.paths import LONGEST_SOCKET, config_file, default_config, places, private_directory


def test_a_configuration_is_an_absolute_path(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert config_file(None) == tmp_path / "home" / ".mcpproxy" / "mcp_config.json"
    assert config_file("") == default_config()
    assert config_file("a/../b.json") == tmp_path / "b.json"
    assert config_file("~/b.json") == tmp_path / "home" / "b.json"


def test_who_has_no_home_is_told_what_to_set(monkeypatch, tmp_path):
    def nobody(user):
        raise KeyError(user)

    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    for ask in (config_file, lambda _: places(tmp_path / "mcp_config.json")):
        with pytest.raises(SettingsError, match=r"no home folder: set HOME, or both --config and"):
            ask(None)
    done = CliRunner().invoke(main, ["status"])
    assert done.exit_code == 2 and "no home folder" in done.stderr
    assert places(tmp_path / "mcp_config.json", tmp_path / "state").state == tmp_path / "state"


def test_stored_scripts_lie_next_to_the_configuration_wherever_the_state_is(tmp_path):
    config = tmp_path / "conf" / "mcp_config.json"
    assert places(config).scripts == places(config, tmp_path / "state").scripts
    assert places(config).scripts == tmp_path / "conf" / "scripts"


def test_two_configurations_share_no_state(tmp_path):
    one, two = (places(tmp_path / name / "mcp_config.json") for name in ("one", "two"))
    assert one.state != two.state
    assert {one.socket, one.pipe}.isdisjoint({two.socket, two.pipe})
    assert one == places(tmp_path / "one" / "mcp_config.json")
    assert places(default_config()).state.name == "default"


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_socket_s_path_is_short_whatever_the_state_s_is(monkeypatch, tmp_path, letter):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    config = tmp_path / "mcp_config.json"
    found = places(config, tmp_path / (letter * 100))
    assert found.socket.parent == found.pipe.parent
    assert str(found.socket).startswith("/run/user/1000/")
    for path in (found.socket, found.pipe):
        assert len(os.fsencode(path)) <= LONGEST_SOCKET
    assert found.logs.is_relative_to(found.state)


def test_a_short_state_directory_holds_its_sockets():
    found = places(Path("/etc/mcp_config.json"), Path("/var/lib/mcpproxy"))
    assert (found.socket, found.pipe) == (
        Path("/var/lib/mcpproxy/mcpproxy.sock"),
        Path("/var/lib/mcpproxy/mcp.sock"),
    )


@pytest.mark.threat("L2")
def test_a_private_directory_is_this_user_s_alone(tmp_path):
    made = tmp_path / "a" / "b"
    private_directory(made)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    made.chmod(0o755)
    private_directory(made)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.threat("L2")
def test_another_user_s_directory_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_directory(tmp_path)


def test_another_user_s_link_to_a_directory_of_ours_is_refused(monkeypatch, tmp_path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    private_directory(tmp_path / "link")
    planted = os.stat_result((0o120777, 0, 0, 1, os.getuid() + 1, 0, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "lstat", lambda path: planted)
    with pytest.raises(PermissionError, match="another user"):
        private_directory(tmp_path / "link")


def test_one_that_was_stopped_in_its_turn_keeps_nobody_for_ever(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "TURN_SECONDS", 0.02)
    with paths.sole_writer(tmp_path):
        with pytest.raises(OSError, match=r"another process has been changing .* for 0\.02 s"):
            with paths.sole_writer(tmp_path):
                raise AssertionError("both have their turn")
    with paths.sole_writer(tmp_path):
        assert list(tmp_path.iterdir()) == []
