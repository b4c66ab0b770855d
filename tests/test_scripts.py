"""Stored scripts: which files are scripts, what a refusal says, and to whom."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from mcpproxy.errors import Refused
from mcpproxy.policy import ADMIN, Caller
from mcpproxy.scripts import MAX_BYTES, Scripts, store

TOKEN = Caller("bot", "token")


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "scripts"
    found.mkdir()
    return found


@pytest.fixture
def scripts(folder):
    return Scripts(folder)


def write(folder, **files):
    for name, text in files.items():
        stem, _, extension = name.rpartition("_")
        (folder / f"{stem}.{extension}").write_text(text, encoding="utf-8")


def refused(scripts, name, language=None, caller=ADMIN):
    with pytest.raises(Refused) as refusal:
        scripts.read(name, language, caller)
    return refusal.value.code, str(refusal.value)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────

BAD_NAMES = [
    "", ".", "..", "a/b", "/etc/passwd", "../x", "../../etc/passwd", "C:\\x", "..\\x", "a\\b", ".hidden",
    "ok.js", "a.b", "naïve", "a\u2044b", "a b", "a\0b", "a:b", "~root", "%2e%2e", "n" * 65, "ok\n", "*", " ok", "ok ",
]  # fmt: skip


@pytest.mark.req("REQ-STORE-02", "REQ-STORE-03", "REQ-STORE-04")
@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("caller", [ADMIN, TOKEN])
@pytest.mark.threat("S14")
def test_a_bad_name_is_refused_before_any_file_is_touched(name, caller):
    class Untouchable(Scripts):
        def _candidates(self):
            raise AssertionError("the directory was read")

    untouched = Untouchable(None)  # type: ignore[arg-type]
    code, said = refused(untouched, name, caller=caller)
    assert code == "INVALID_SCRIPT_NAME"
    assert said.startswith("invalid script name ")
    assert said.isprintable()


def test_a_bad_name_says_which_character():
    assert (
        'invalid script name "a/b": character "/" is not allowed' in refused(Scripts("x"), "a/b")[1]
    )


@pytest.mark.req("REQ-STORE-02")
@pytest.mark.parametrize("name", ["a", "A_b-9", "n" * 64, "-", "_"])
def test_any_other_name_of_these_characters_will_do(folder, scripts, name):
    (folder / f"{name}.js").write_text("1", encoding="utf-8")
    assert scripts.read(name, None, ADMIN).source == "1"


@pytest.mark.req("REQ-STORE-05", "REQ-STORE-06")
def test_names_and_extensions_are_case_sensitive(folder, scripts):
    write(folder, name_js="lower", NAME_js="upper", other_JS="1")
    assert scripts.read("name", None, ADMIN).source == "lower"
    assert scripts.read("NAME", None, ADMIN).source == "upper"
    assert refused(scripts, "Name")[0] == refused(scripts, "other")[0] == "SCRIPT_NOT_FOUND"


def test_case_matters_even_where_the_disk_does_not_mind(folder, scripts, monkeypatch):
    """The name is looked up among the directory's own spellings, never handed to the disk as it came."""
    write(folder, report_js="1")
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *more: real(folder / "report.js", *more))
    assert refused(scripts, "Report")[0] == "SCRIPT_NOT_FOUND"
    assert scripts.read("report", None, ADMIN).source == "1"


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-STORE-07", "REQ-STORE-08")
@pytest.mark.parametrize(("extension", "language"), [("js", "javascript"), ("ts", "typescript")])
def test_the_extension_says_the_language(folder, scripts, extension, language):
    (folder / f"a.{extension}").write_text("1", encoding="utf-8")
    assert scripts.read("a", None, ADMIN).language == language
    assert scripts.read("a", language, ADMIN).language == language
    other = {"javascript": "typescript", "typescript": "javascript"}[language]
    code, said = refused(scripts, "a", other)
    assert code == "INVALID_LANGUAGE"
    assert f'stored script "a" is a .{extension} file ({language}) but language "{other}" was requested' in said  # fmt: skip


def test_source_is_read_as_it_is(folder, scripts):
    (folder / "a.js").write_bytes("'é\u2028'\r\n\t// \ufeff".encode())
    assert scripts.read("a", None, ADMIN).source == "'é\u2028'\r\n\t// \ufeff"


def make_symlink(path):
    target = path.with_name("target.txt")
    target.write_text("1", encoding="utf-8")
    path.symlink_to(target)


def make_socket(path):
    descriptor = os.open(path.parent, os.O_RDONLY)  # for a path that is short enough
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
    os.close(descriptor)


KINDS = {
    "empty": ("empty", lambda path: path.write_bytes(b"")),
    "oversized": ("oversized", lambda path: path.write_bytes(b"x" * (MAX_BYTES + 1))),
    "sparse": (
        "oversized",
        lambda path: os.truncate(path, 2**40) if path.touch() is None else None,
    ),
    "binary": ("unreadable", lambda path: path.write_bytes(b"\xff")),
    "folder": ("non-regular", lambda path: path.mkdir()),
    "fifo": ("non-regular", os.mkfifo),
    "symlink": ("non-regular", make_symlink),
    "loop": ("non-regular", lambda path: path.symlink_to(path)),
    "dangling": ("non-regular", lambda path: path.symlink_to("nowhere")),
    "device": ("non-regular", lambda path: path.symlink_to("/dev/zero")),
}
if sys.platform == "linux":
    KINDS["socket"] = ("non-regular", make_socket)


@pytest.mark.req(
    "REQ-STORE-10", "REQ-STORE-11", "REQ-STORE-12", "REQ-STORE-13", "REQ-STORE-22", "REQ-LIST-05"
)
@pytest.mark.parametrize(("reason", "make"), KINDS.values(), ids=KINDS)
@pytest.mark.timeout(10)
@pytest.mark.threat("S14")
def test_what_can_not_be_a_script_says_why(folder, scripts, reason, make):
    make(folder / "a.js")
    code, said = refused(scripts, "a")
    assert code == "SCRIPT_UNUSABLE"
    assert said.startswith(f'stored script "a" ({folder}/a.js) is {reason}')
    code, said = refused(scripts, "a", caller=TOKEN)
    assert code == "SCRIPT_UNUSABLE"
    assert said.startswith(f'stored script "a" is {reason}')
    assert str(folder) not in said
    assert scripts.listing()["scripts"] == [
        {"name": "a", "paths": [f"{folder}/a.js"], "status": "invalid", "reason": reason}
    ]


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is unreadable for root")
def test_a_file_without_permission_is_unreadable(folder, scripts):
    write(folder, a_js="1")
    (folder / "a.js").chmod(0)
    assert "is unreadable" in refused(scripts, "a")[1]


def test_the_limit_is_part_of_the_message(folder, scripts):
    (folder / "a.js").write_bytes(b"x" * (MAX_BYTES + 1))
    said = refused(scripts, "a")[1]
    assert (
        said
        == f'stored script "a" ({folder}/a.js) is oversized: scripts are limited to 262144 bytes'
    )
    assert refused(scripts, "a", caller=TOKEN)[1] == (
        'stored script "a" is oversized: scripts are limited to 262144 bytes'
    )


@pytest.mark.req("REQ-STORE-09")
@pytest.mark.parametrize("size", [1, MAX_BYTES])
def test_the_smallest_and_the_largest_file_will_do(folder, scripts, size):
    (folder / "a.js").write_bytes(b"1" * size)
    assert len(scripts.read("a", None, ADMIN).source) == size


@pytest.mark.req("REQ-STORE-14", "REQ-STORE-21")
def test_two_files_of_one_name_are_ambiguous(folder, scripts):
    write(folder, a_js="1", a_ts="2")
    said = (
        f'stored script "a" is ambiguous: {folder}/a.js and {folder}/a.ts both exist — remove one'
    )
    assert refused(scripts, "a") == ("SCRIPT_UNUSABLE", said)
    said = 'stored script "a" is ambiguous: both a .js and a .ts file exist — ask an administrator to remove one'  # fmt: skip
    assert refused(scripts, "a", caller=TOKEN) == ("SCRIPT_UNUSABLE", said)
    assert scripts.listing()["scripts"] == [
        {"name": "a", "paths": [f"{folder}/a.js", f"{folder}/a.ts"], "status": "ambiguous"}
    ]


@pytest.mark.req("REQ-STORE-15")
def test_each_call_reads_the_file_anew(folder, scripts):
    assert refused(scripts, "a")[0] == "SCRIPT_NOT_FOUND"
    for text in ("first", "second"):
        (folder / "spare").write_text(text, encoding="utf-8")
        os.replace(folder / "spare", folder / "a.js")
        assert scripts.read("a", None, ADMIN).source == text
    (folder / "a.js").unlink()
    assert refused(scripts, "a")[0] == "SCRIPT_NOT_FOUND"


def test_one_call_opens_one_file_once(monkeypatch, folder, scripts):
    write(folder, a_js="1", b_js="2")
    opened, real = [], os.open
    monkeypatch.setattr(
        os, "open", lambda *args, **more: opened.append(args[0]) or real(*args, **more)
    )
    scripts.read("a", None, ADMIN)
    assert opened == [folder / "a.js"]


# ── names that are not there ──────────────────────────────────────────────────────────────────────


@pytest.mark.req("REQ-STORE-17", "REQ-STORE-19")
def test_an_unknown_name_lists_twenty_usable_ones_and_counts_all(folder, scripts):
    for number in range(25):
        (folder / f"s{number:02}.js").write_text("1", encoding="utf-8")
    write(folder, a_js="", b_js="1", b_ts="1", notes_txt="1")
    code, said = refused(scripts, "x")
    listed = ", ".join(f"s{number:02}" for number in range(20))
    assert code == "SCRIPT_NOT_FOUND"
    assert said == f'stored script "x" not found in {folder}. Available scripts (25): {listed} …'


def test_a_few_are_all_listed(folder, scripts):
    write(folder, b_js="1", a_ts="1")
    said = f'stored script "x" not found in {folder}. Available scripts (2): a, b'
    assert refused(scripts, "x")[1] == said


@pytest.mark.req("REQ-STORE-18", "REQ-LIST-02", "REQ-LIST-06")
@pytest.mark.parametrize("there", [True, False])
def test_where_there_are_none_it_says_how_to_make_one(folder, there):
    place = folder if there else folder / "absent"
    said = f'stored script "x" not found: no stored scripts in {place} (create x.js or x.ts there)'
    assert refused(Scripts(place), "x")[1] == said
    assert Scripts(place).listing() == {"dir": str(place), "scripts": []}


@pytest.mark.req("REQ-STORE-20")
@pytest.mark.threat("L5")
def test_a_token_hears_the_same_of_a_full_and_an_empty_directory(folder, scripts):
    empty = refused(scripts, "x", caller=TOKEN)
    write(folder, a_js="1")
    assert refused(scripts, "x", caller=TOKEN) == empty
    assert empty == (
        "SCRIPT_NOT_FOUND",
        'stored script "x" not found (the stored-script listing is available to administrators only; '
        "an agent-token caller must already know the script name)",
    )


def test_the_listing_is_alphabetical_and_leaves_out_what_no_name_can_mean(folder, scripts):
    write(folder, b_js="1", a_ts="1", C_js="1", notes_txt="1", upper_JS="1")
    for name in (".hidden.js", "dotted.name.js", "spa ce.js", "n" * 65 + ".js", "é.js"):
        (folder / name).write_text("1", encoding="utf-8")
    found = scripts.listing()
    assert found["dir"] == str(folder)
    assert [entry["name"] for entry in found["scripts"]] == ["C", "a", "b"]
    assert all(set(entry) == {"name", "paths", "status"} for entry in found["scripts"])


# ── writing, which only a person's command does ─────────────────────────────────────────────────────


def test_a_script_is_written_where_there_is_none(tmp_path):
    folder = tmp_path / "not yet" / "scripts"
    path = store(folder, "one", "return 1", "typescript", replace=False)
    assert (path, path.read_text(encoding="utf-8")) == (folder / "one.ts", "return 1")
    store(folder, "one", "return 2", "typescript", replace=True)
    assert Scripts(folder).read("one", None, ADMIN).source == "return 2"
    assert [each.name for each in folder.iterdir()] == ["one.ts"]


@pytest.mark.parametrize(
    ("name", "source", "language", "replace", "part"),
    [
        ("one", "2", "javascript", False, "--replace"),
        ("one", "2", "typescript", True, "remove it first"),
        ("link", "2", "javascript", False, "--replace"),
        ("../one", "2", "javascript", True, "not allowed"),
        ("new", "", "javascript", False, "is empty"),
        ("new", "'\ud800'", "javascript", False, r"write it as \\ud800"),
        ("new", "x" * (MAX_BYTES + 1), "javascript", False, "is oversized"),
    ],
)
def test_what_is_there_is_not_lost(folder, name, source, language, replace, part):
    (folder / "one.js").write_text("1", encoding="utf-8")
    (folder / "link.js").symlink_to("one.js")
    with pytest.raises(Refused, match=part):
        store(folder, name, source, language, replace=replace)
    assert sorted(each.name for each in folder.iterdir()) == ["link.js", "one.js"]
    assert (folder / "one.js").read_text(encoding="utf-8") == "1"
