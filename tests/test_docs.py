"""The pages tell the truth: each example that is followed by its output gives that output.

- a `js` or `ts` block followed by a `json` block: a program, and its value or its whole reply.
  `// input: {...}` and `// options: {...}` at its top are those of the request.
- an `http` block followed by another: a request, and its answer.
- a `console` block: lines that begin with `$` are run by a shell; what follows is their stdout.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import jsonschema_rs
import pytest
import warm
from daemon_process import open_process, stubs

from mcpproxy import __version__
from mcpproxy.cli import main
from mcpproxy.errors import CALL_CODES, RETRYABLE
from mcpproxy.rest.openapi import ENVELOPE
from mcpproxy.rest.routing import STATUS
from mcpproxy.settings import Ceilings, Settings

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "code-execution.md"
REFERENCE = ROOT / "docs" / "reference" / "code-execution.md"
DISCOVERY = ROOT / "docs" / "discovery.md"
PAGES = [GUIDE, REFERENCE, DISCOVERY]
CHANGELOG = ROOT / "CHANGELOG.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
STATED = re.compile(r"^// (input|options): (.*)\n")
EXAMPLES = {"js": "javascript", "ts": "typescript"}


def blocks(page: Path) -> list[tuple[str, str, str, int]]:
    """Kind, text, what stands between it and the block before, and line of each block."""
    found, end, text = [], 0, page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append((match[1], match[2], text[end : match.start()], line))
        end = match.end()
    return found


def pairs(kinds: set[str], answer: str) -> list[object]:
    """The blocks of some kinds that are directly followed by one of kind `answer`."""
    found: list[object] = []
    for page in PAGES:
        for asked, (kind, output, between, _) in pairwise(blocks(page)):
            if asked[0] in kinds and kind == answer and not between.strip():
                if kind != asked[0] or output.startswith("HTTP/"):
                    name = f"{page.relative_to(ROOT)}:{asked[3]}"
                    found.append(pytest.param(asked[0], asked[1], output, id=name))
    return found


def test_each_program_has_its_output_and_each_request_its_answer():
    """Else nothing would run it."""
    found = [(kind, text) for page in PAGES for kind, text, *_ in blocks(page)]
    requests = [text for kind, text in found if kind == "http" and not text.startswith("HTTP/")]
    assert len(pairs({"http"}, "http")) == len(requests)
    programs = sum(kind in EXAMPLES for kind, _ in found)
    assert (
        len(pairs(set(EXAMPLES), "json")) == programs == [kind for kind, _ in found].count("json")
    )


@pytest.fixture(scope="module")
def serving():
    servers = stubs("github", "my-server", "stub")
    with open_process(mcpServers=servers, code_execution_pool_size=2) as found:
        place = found.home
        (place.folder / ".mcpproxy").symlink_to(place.folder)
        # Commands find the daemon, which runs with another configuration than the usual one.
        place.environ["PATH"] = warm.command(place.folder, "--config", place.config)
        (place.folder / "program.js").write_text("return input.n * 2\n", encoding="utf-8")
        place.script("double.js", "({ result: input.value * 2 })")
        place.script("typed.ts", "const x: number = 42; x")
        # The page's programs are run before its requests, and one of them looks for this.
        (kept,) = (
            text for _, text, *_ in blocks(DISCOVERY) if text.startswith("POST /api/v1/code")
        )
        found.ask("POST", "/api/v1/code/exec", json.loads(kept.partition("\n\n")[2]))
        yield found


def timeless(text: str) -> str:
    return re.sub(r'("ms": ?)\d+', r"\g<1>0", text)


@pytest.mark.parametrize(("kind", "code", "output"), pairs(set(EXAMPLES), "json"))
def test_a_program_gives_what_stands_behind_it(serving, kind, code, output):
    body = {"code": code, "language": EXAMPLES[kind]}
    while stated := STATED.match(code):
        body[stated[1]] = json.loads(stated[2])
        code = body["code"] = code[stated.end() :]
    reply = serving.ask("POST", "/api/v1/code/exec", body).body
    del reply["request_id"]
    wanted = json.loads(timeless(output))
    whole = isinstance(wanted, dict) and {"ok"} < wanted.keys() & {"ok", "value", "error"}
    assert json.loads(timeless(json.dumps(reply))) == (
        wanted if whole else {"ok": True, "value": wanted}
    )


@pytest.mark.parametrize(("kind", "asked", "answer"), pairs({"http"}, "http"))
def test_a_request_is_answered_as_shown(serving, kind, asked, answer):
    head, _, body = asked.partition("\n\n")
    method, path = head.splitlines()[0].split()[:2]
    got = serving.ask(method, path, json.loads(body) if body.strip() else None)
    status, _, wanted = answer.partition("\n\n")
    assert status.split()[1] == str(got.status)
    shown = wanted.replace("/home/me/.mcpproxy", str(serving.home.folder))
    assert {**got.body, "request_id": "…"} == json.loads(shown)


def commands() -> Iterator[object]:
    for page in PAGES:
        for kind, text, _, line in blocks(page):
            if kind == "console":
                for command in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
                    if command:
                        words, _, output = command.removeprefix("$ ").partition("\n")
                        id = f"{page.relative_to(ROOT)}:{line}: {words[:40]}"
                        yield pytest.param(words, output, id=id)


@pytest.mark.parametrize(("words", "output"), list(commands()))
def test_a_command_prints_what_stands_behind_it(serving, words, output):
    place = serving.home
    done = subprocess.run(
        ["sh", "-c", words], env=place.environ, cwd=place.folder, capture_output=True,
        encoding="utf-8", timeout=30, check=False,
    )  # fmt: skip
    printed = done.stdout.replace(str(place.folder / ".mcpproxy"), "/home/me/.mcpproxy")
    printed = printed.replace(str(place.folder), "/home/me/.mcpproxy")
    assert timeless(printed) == timeless(output), done.stderr


# ── tables ────────────────────────────────────────────────────────────────────────────────────────


def table(page: Path, heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading, by their first cell without backquotes."""
    text = page.read_text(encoding="utf-8")
    section = re.split(rf"^#+ {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
    rows = {}
    for line in re.split(r"^#", section, flags=re.MULTILINE)[0].splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            rows[cells[0].strip("`")] = cells[1:]
    return rows


def test_every_setting_of_code_execution_is_listed_with_its_default():
    listed = table(REFERENCE, "Settings")
    fields = {
        name: field for name, field in Settings.model_fields.items() if "code_execution" in name
    }
    fields["call_tool_timeout"] = Settings.model_fields["call_tool_timeout"]
    ceilings = {f"code_execution_limits.{name}": one for name, one in Ceilings.model_fields.items()}
    del fields["code_execution_limits"]
    assert listed.keys() == fields.keys() | ceilings.keys()
    for name, (default, taken, *_) in listed.items():
        field = (fields | ceilings)[name]
        assert default == f"`{json.dumps(field.default)}`".replace("120.0", '"2m"'), name
        bounds = [
            str(getattr(each, edge))
            for edge in ("ge", "le")
            for each in field.metadata
            if getattr(each, edge, None) is not None and name != "call_tool_timeout"
        ]
        for bound in bounds:
            assert bound in taken.replace(",", ""), name


def test_every_code_of_a_call_is_listed_with_whether_it_may_be_tried_again():
    listed = table(REFERENCE, "Codes of one call")
    assert listed.keys() == CALL_CODES
    for code, (retryable, *_) in listed.items():
        assert retryable == ("yes" if code in RETRYABLE else "no"), code


def test_every_refusal_is_listed_with_its_status():
    listed = table(REFERENCE, "Refusals")
    assert {code: int(cells[0]) for code, cells in listed.items()} == STATUS


def test_the_codes_of_an_execution_are_all_listed():
    sources = [
        ROOT / "mcpproxy" / name
        for name in ("script.py", "endings.py", "execution.py", "errors.py")
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    known = {
        code
        for code in re.findall(r'"([A-Z]+(?:_[A-Z]+)+|TIMEOUT|CANCELLED)"', text)
        if code not in STATUS and code not in CALL_CODES
    }
    final = {"INVALID_ARGS", "MAX_TOOL_CALLS_EXCEEDED", "SERVER_NOT_ALLOWED", "CANCELLED"}
    ours = {"INTERNAL_ERROR", "INVALID_CONFIG"}
    assert table(REFERENCE, "Codes of an execution").keys() == (known - ours) | final


def test_the_members_of_a_reply_are_all_listed_and_described(serving):
    assert table(REFERENCE, "Reply").keys() | {"request_id"} == ENVELOPE["properties"].keys()
    talk = "for (let n = 0; n < 9999; n++) console.log('line');"
    calls = "for (let n = 0; n < 101; n++) call_tool('stub', 'echo', {});"
    seen = set()
    for code in (f"{talk} {calls} 1", "null.x"):
        reply = serving.execute(code, description="A test", options={"trace": True})
        jsonschema_rs.validate(ENVELOPE | {"additionalProperties": False}, reply)
        seen |= reply.keys()
    assert seen == ENVELOPE["properties"].keys() - {"warnings"}


def test_the_changelog_begins_with_what_is_to_come_or_the_version_that_this_is():
    text = CHANGELOG.read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[0] in ("Unreleased", __version__)
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {*re.findall(r"^### (.*)$", text, re.MULTILINE)} <= kinds
    for words in re.findall(r"`mcpproxy ([a-z ]+)`", text):
        found: click.Command = main
        for word in words.split():
            assert isinstance(found, click.Group) and word in found.commands, words
            found = found.commands[word]
