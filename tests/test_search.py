"""Words find the tools that do what they ask for, the best first, and nothing where nothing fits."""

from __future__ import annotations

import time

import pytest

from mcpproxy.search.index import Entry, Index
from mcpproxy.search.lexicon import distance, stem, words
from mcpproxy.search.query import PHRASES, WORDS

ENTRIES = [
    Entry("hub:list_issues", "list_issues", "hub", text="List issues of a repository", parameters="owner repo state"),
    Entry("hub:create_issue", "create_issue", "hub", text="Open an issue", parameters="owner repo title"),
    Entry("hub:get_pull_request", "get_pull_request", "hub", text="Details of a pull request"),
    Entry("hub:fork_repository", "fork_repository", "hub", text="Copy a repository to your account"),
    Entry("fs:read_file", "read_file", "fs", text="Read the contents of a file", parameters="path"),
    Entry("fs:list_directory", "list_directory", "fs", text="Files and directories under a path"),
    Entry("web:take_screenshot", "take_screenshot", "web", text="Capture the page as an image"),
    Entry("web:runJavaScript", "runJavaScript", "web", text="Evaluate a script", parameters="frameId"),
    Entry("kube:logs", "logs", "kube", text="Logs of a pod", parameters="podName namespace"),
    Entry("git:add", "git_add", "git", text="Stage files that are untracked"),
    Entry("web:trace", "trace", "web", text="Core web vitals (LCP, INP, CLS)"),
    Entry("site:map", "map", "site", text="Give what is linked"),
    Entry("sums:evaluate", "evaluate", "sums", text="Calculate an expression"),
]  # fmt: skip


@pytest.fixture(scope="module")
def index():
    return Index(ENTRIES)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("list issues", "hub:list_issues"),
        ("listIssues", "hub:list_issues"),
        ("listissues", "hub:list_issues"),
        ("LIST_ISSUES", "hub:list_issues"),
        ("listing an issue", "hub:list_issues"),
        ("hub:list_issues", "hub:list_issues"),
        ("PR", "hub:get_pull_request"),
        ("pull_req", "hub:get_pull_request"),
        ("fork repo", "hub:fork_repository"),
        ("files in a dir", "fs:list_directory"),
        ("screenshto", "web:take_screenshot"),
        ("captura de pantalla", "web:take_screenshot"),
        ("captures d'écran", "web:take_screenshot"),
        ("javascript", "web:runJavaScript"),
        ("tool with frame_id", "web:runJavaScript"),
        ("podname", "kube:logs"),
        ("k8s pod logs", "kube:logs"),
        ("what is in the file", "fs:read_file"),
        ("fs: list", "fs:list_directory"),
        ("kube: what is it for", "kube:logs"),
        ("screen shot", "web:take_screenshot"),
        ("read https://example.com/a.md", "fs:read_file"),
        ("PRs", "hub:get_pull_request"),
        ("subdirectories", "fs:list_directory"),
        ("getPRs", "hub:get_pull_request"),
        ("file a bug", "hub:create_issue"),
        ("something new for the issues", "hub:create_issue"),
        ("what git does not track", "git:add"),
        ("interaction to next paint", "web:trace"),
        ("site links", "site:map"),
        ("17.5 % of 2,340", "sums:evaluate"),
        ("cntnts", "fs:read_file"),
        ("tell me of every link, and of every single one", "site:map"),
    ],
)
def test_the_first_answer(index, query, expected):
    assert index.search(query)[0] == expected


@pytest.mark.parametrize(
    "query", ["", "   ", "zxqv", "\0", "*", '""', "(((", "ß" * 50, "日本語", "x" * 500_000]
)
def test_what_has_no_word_in_common_finds_nothing(index, query):
    assert index.search(query) == []


@pytest.mark.parametrize(
    "query",
    [
        '"; DROP TABLE file --',
        "issue AND NOT file",
        "name:issue",
        "issue NEAR/3 file",
        "iss\0ue file",
        "\ud800 file",
        "{issue} ^file +list -x",
        "file " * 100_000,
    ],
)
def test_the_syntax_of_the_index_is_only_words(index, query):
    started = time.process_time()
    assert index.search(query)
    assert time.process_time() - started < 0.5


def test_one_group_only(index):
    assert index.search("list", group="fs") == ["fs:list_directory"]
    assert index.search("list", group="nowhere") == []


def test_the_same_question_has_the_same_answer():
    assert [Index(ENTRIES).search("list file issue") for _ in range(3)].count(
        Index(ENTRIES).search("list file issue")
    ) == 3


@pytest.mark.parametrize("query", ["which starz", "gravitational wavez", "what is zxqv"])
def test_guesses_alone_are_no_answer_while_a_word_is_unknown(index, query):
    assert index.search(query) == []


def test_nothing_to_search():
    assert Index([]).search("anything") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listIssues", ["list", "issues", "listissues"]),
        ("HTTPServer2go", ["http", "server", "2", "go"]),
        ("k8s", ["k8s"]),
        ("API-patch-page", ["api", "patch", "page"]),
        ("Größe", ["grosse"]),
        ("café", ["cafe"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("serach", "search", 1),
        ("kubernets", "kubernetes", 1),
        ("a", "abcd", 3),
        ("same", "same", 0),
    ],
)
def test_distance(a, b, expected):
    assert distance(a, b, 2) == expected


def test_a_stem_keeps_enough_to_compare():
    assert stem("annotations") == stem("annotating") == "annot"
    assert stem("used") == "used"


def test_no_word_is_its_own_synonym():
    assert not [word for word, others in WORDS.items() if word in others or not others]
    assert all(2 <= len(said) <= 4 for said in PHRASES)


# ── a part of the index, and changes to it ──────────────────────────────────────────────────────


def test_a_selection_is_searched_as_if_there_were_nothing_else():
    own = [entry for entry in ENTRIES if entry.group != "hub"]
    part, alone = Index(ENTRIES), Index(own)
    selection = part.select(entry.id for entry in own)
    for query in (
        "not tracked",
        "list",
        "issues",
        "listissues",
        "screenshto",
        "PR",
        "hub: list",
        "fork repo",
        "logs of a file",
    ):
        assert part.search(query, among=selection) == alone.search(query), query


def test_what_a_group_had_is_gone_and_its_words_with_it():
    index = Index(ENTRIES)
    index.replace(
        "kube", [Entry("kube:scale", "scale", "kube", lead="Change the number of replicas")]
    )
    assert index.search("kube: scale")[0] == "kube:scale"
    assert index.search("podname") == []
    index.replace("kube", [])
    assert index.search("number of pods") == [] and index.search("kube: list") != []
    fresh = Index(entry for entry in ENTRIES if entry.group != "kube")
    assert all(index.search(q) == fresh.search(q) for q in ("list issues", "file", "scren shot"))


# ── meaning ─────────────────────────────────────────────────────────────────────────────────────


class Likeness(dict[str, float]):
    def near(self) -> list[str]:
        return sorted((id for id in self if self[id] >= 0.4), key=lambda id: -self[id])


ALIKE = Likeness({entry.id: 0.1 for entry in ENTRIES} | {"kube:logs": 0.9, "fs:read_file": 0.4})


def test_what_is_near_in_meaning_is_an_answer_without_a_word_in_common(index):
    assert index.search("why did it die") == []
    assert index.search("why did it die", likeness=ALIKE) == ["kube:logs", "fs:read_file"]
    assert index.search("why did it die", group="fs", likeness=ALIKE) == ["fs:read_file"]
    hidden = index.select(["fs:read_file"])
    assert index.search("why did it die", among=hidden, likeness=ALIKE) == ["fs:read_file"]


def test_meaning_moves_what_words_found_and_never_what_was_named(index):
    words = index.search("list them")
    near = Likeness(dict.fromkeys(ALIKE, 0.0) | {words[1]: 0.8})
    assert index.search("list them", likeness=near)[0] == words[1] != words[0]
    assert index.search("take screenshot", likeness=ALIKE)[0] == "web:take_screenshot"
    assert index.search("list_issues", likeness=ALIKE) == index.search("list_issues")


def test_what_is_deprecated_comes_after_what_replaces_it_but_is_found_by_name():
    old = Entry("fs:read_file", "read_file", "fs", text="Read a file", outdated=True)
    new = Entry("fs:read_text_file", "read_text_file", "fs", text="Read a text file")
    index = Index([old, new])
    assert index.search("read the file of a user") == ["fs:read_text_file", "fs:read_file"]
    assert index.search("read_file")[0] == "fs:read_file"
