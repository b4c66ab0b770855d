"""The extra `mcpproxy[semantic]`, where it is installed; that nothing is missed where it isn't."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from mcpproxy.search import semantic
from mcpproxy.search.index import Entry

ENTRIES = [
    Entry("chat:add_reaction", "add_reaction", "chat", lead="Add a reaction emoji to a message"),
    Entry("db:drop_table", "drop_table", "db", lead="Remove a table and all its rows"),
    Entry("web:screenshot", "screenshot", "web", lead="Capture the page as an image"),
    Entry("kube:logs", "logs", "kube", lead="Output of a container"),
    Entry("git:stash", "stash", "git", lead="Manages it"),
]


@pytest.fixture(scope="module")
def meanings():
    pytest.importorskip("wordllama", reason="mcpproxy[semantic] is not installed")
    found = semantic.meanings()
    assert found is not None
    for entry in ENTRIES:
        found.replace(entry.group, [entry])
    return found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("take a photograph of the website", "web:screenshot"),
        ("answer with an emoticon", "chat:add_reaction"),
        ("get rid of the lines of a spreadsheet table", "db:drop_table"),
    ],
)
def test_the_nearest_has_no_word_of_the_query(meanings, query, expected):
    assert next(iter(meanings.likeness(query).near())) == expected


def test_what_people_say_for_its_name_draws_an_entry_near(meanings):
    likeness = meanings.likeness("set unfinished work aside")
    assert max((entry.id for entry in ENTRIES), key=likeness.__getitem__) == "git:stash"
    assert likeness["git:stash"] > 0.2


@pytest.mark.parametrize(
    "query", ["bake sourdough bread", "ibuprofen dosage", "xq zv", "", "\0", "☃"]
)
def test_what_has_nothing_to_do_with_any_is_near_to_none(meanings, query):
    assert list(meanings.likeness(query).near()) == []


def test_a_group_is_replaced_as_a_whole(meanings):
    other = Entry("kube:scale", "scale", "kube", lead="Change the number of replicas")
    meanings.replace("kube", [other])
    likeness = meanings.likeness("change the number of replicas")
    assert likeness["kube:scale"] > 0.7
    with pytest.raises(KeyError):
        likeness["kube:logs"]
    meanings.replace("kube", [])
    assert "kube:scale" not in list(meanings.likeness("change the number of replicas").near())


def test_without_the_extra_there_are_none(monkeypatch):
    monkeypatch.setattr(semantic, "find_spec", lambda name: None)
    assert semantic.meanings() is None


def test_an_extra_that_is_there_in_part_is_told_and_left_alone(monkeypatch, tmp_path, caplog):
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(semantic, "find_spec", lambda name: Spec)
    with caplog.at_level(logging.WARNING):
        assert semantic.meanings() is None
    assert "searching by words alone" in caplog.text


def test_nothing_of_it_is_imported_before_the_first_search():
    code = "import sys, mcpproxy.discovery, mcpproxy.search.semantic; print([m for m in ('numpy', 'tokenizers', 'wordllama') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == "[]", done.stderr
