"""What is secret appears in no text, in whatever form it got there."""

from __future__ import annotations

import json
import logging
import threading
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.errors import CallError
from mcpproxy.logs import Discreet
from mcpproxy.redaction import SECRETS, Secrets, in_address, in_option, likely

FAKE = 'not a real "secret" / é\\'
PEM = "-----BEGIN FAKE KEY-----\nbm90IGEgcmVhbCBrZXkgYXQgYWxs\n-----END FAKE KEY-----"


def known(**values: str) -> Secrets:
    secrets = Secrets()
    for name, value in values.items():
        secrets.add(value, f"${{env:{name}}}")
    return secrets


@pytest.mark.threat("L3")
@pytest.mark.parametrize(
    "text",
    [FAKE, json.dumps(FAKE), json.dumps(FAKE, ensure_ascii=False), quote(FAKE, safe="")],
    ids=["plain", "JSON", "JSON as UTF-8", "URL"],
)
def test_a_secret_is_found_in_each_of_its_forms(text):
    assert known(KEY=FAKE).hide(f"<{text}>").strip('<>"') == "${env:KEY}"


def test_the_longer_of_two_secrets_is_found_first():
    secrets = known(SHORT="fake-key", LONG="fake-key-and-more")
    assert secrets.hide("fake-key fake-key-and-more") == "${env:SHORT} ${env:LONG}"


def test_each_line_of_a_key_is_hidden_and_ordinary_words_are_not():
    secrets = known(PEM=PEM, MODE="true", LEVEL="info")
    assert secrets.hide("12:00 bm90IGEgcmVhbCBrZXkgYXQgYWxs") == "12:00 ${env:PEM}"
    assert secrets.hide("true info") == "true info"


def test_what_stands_for_secrets_is_none_itself():
    assert known(KEY="fake-value", SHOWN="(hidden)").hide("fake-value (hidden)") == "${env:KEY} (hidden)"  # fmt: skip


def test_a_reference_is_shown_rather_than_nothing_and_a_forgotten_value_again():
    secrets = Secrets()
    secrets.add("fake-value")
    assert secrets.hide("fake-value") == "(hidden)"
    secrets.add("fake-value", "${keyring:it}")
    secrets.add("fake-value")
    assert secrets.hide("fake-value") == "${keyring:it}"
    secrets.forget("fake-value")
    assert secrets.hide("fake-value") == "fake-value"


def test_data_keeps_its_shape():
    found = known(KEY="fake-value").hide_all({"a": ["is fake-value", 7, None], "fake-value": True})
    assert found == {"a": ["is ${env:KEY}", 7, None], "${env:KEY}": True}


def test_an_agent_token_is_known_by_its_looks():
    assert Secrets().hide(f"got mcp_agt_{'0' * 64}, sorry") == "got mcp_agt_(hidden), sorry"


TEXT = st.characters(exclude_characters="#")


@given(st.text(TEXT, min_size=6), st.text(TEXT), st.text(TEXT))
def test_whatever_surrounds_it_a_secret_is_gone(secret, before, after):
    secrets = Secrets()
    secrets.add(secret, "#")
    assert secret not in secrets.hide(before + secret + after)


def test_a_large_text_takes_time_in_proportion():
    secrets = known(**{f"K{n}": "ab" * 20 + str(n) for n in range(10)})

    def seconds(text: str) -> float:
        start = time.process_time()
        secrets.hide(text)
        return time.process_time() - start

    small = min(seconds("ab" * 250_000) for _ in range(3))
    assert seconds("ab" * 2_500_000) < 40 * small + 0.05


@pytest.mark.threat("L3")
def test_neither_a_log_line_nor_an_error_has_a_secret():
    SECRETS.add("fake-value-of-a-key", "${env:KEY}")
    try:
        raise ValueError("fake-value-of-a-key")
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, "", 0, "%s", ("fake-value-of-a-key",), (ValueError, error, None)
        )
    assert Discreet("%(message)s").format(record) == "${env:KEY}\nValueError: ${env:KEY}"
    error = CallError("UPSTREAM_ERROR", "fake-value-of-a-key is wrong")
    assert f"{error} {error.message} {error.envelope()}".count("fake-value") == 0
    SECRETS.forget("fake-value-of-a-key")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("X-Api-Key", "short", True),
        ("GH_PAT", "x", True),
        ("NODE_PATH", "/usr/lib", False),
        ("X-Anything", "not-a-real-secret-0123", True),
        ("Notion-Version", "2022-06-28", False),
        ("X-Base", "https://example.com/a/b/c", False),
    ],
)
def test_what_is_likely_a_secret(name, value, secret):
    assert likely(name, value) is secret


@pytest.mark.parametrize(
    ("before", "arg", "secret"),
    [
        ("", "--api-key=k-1", "k-1"),
        ("--token", "k-1", "k-1"),
        ("--token", "--verbose", ""),
        ("--token=k-1", "next", ""),
        ("--verbose", "next", ""),
        ("token", "next", ""),
        ("", "--name=next", ""),
        ("", "token=next", ""),
    ],
)
def test_what_is_called_like_a_secret_among_arguments(before, arg, secret):
    assert in_option(arg, before) == secret


def test_what_is_likely_a_secret_in_an_address():
    url = "https://me:fake-pass@h/s/fake0fake0fake0fake0fake0/mcp?key=fake-key&page=${env:PAGE_KEY}&v=2"
    assert in_address(url) == ["fake-key", "fake-pass", "fake0fake0fake0fake0fake0"]
    assert in_address("https://h/a-long-name-that-somebody-chose/mcp?token=${env:T}") == []


def test_a_value_that_comes_while_another_is_taken_in_is_hidden_as_well():
    secrets = Secrets()
    other = threading.Thread(target=secrets.add, args=("hunter2-fake-value",))

    class Interrupted(str):
        __slots__ = ()

        def __len__(self):
            if secrets._shown.get(self) and other.ident is None:
                other.start()
                other.join(0.05)  # has to wait until this one is done
            return super().__len__()

    secrets.add(Interrupted("correct-horse-fake"))
    other.join()
    assert secrets.hide("hunter2-fake-value correct-horse-fake") == "(hidden) (hidden)"
