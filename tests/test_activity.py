"""What happened can be read, with a daemon and without: each command of the page, page by page, as it comes."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import KEY, home
from test_journal import a_line

import mcpproxy.cli.activity  # noqa: F401 - the command has its name
from mcpproxy.cli import records
from mcpproxy.cli.local import Running
from mcpproxy.journal import reading
from mcpproxy.journal.queries import instant
from mcpproxy.journal.reading import Wanted, page
from mcpproxy.journal.records import TYPES, number
from mcpproxy.journal.store import Store
from mcpproxy.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "activity.md"
command = sys.modules["mcpproxy.cli.activity"]

# ── a daemon, used and killed ───────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def story():
    """A daemon that was asked and looked at, worked and was killed; what it answered, and its home."""
    code = "const r = await tools.stub.echo({text: input.n}); return r.text"
    answered: dict[str, str] = {}
    with home(code_execution_pool_size=4) as place:
        with place.serving() as serving:
            serving.execute(code, input={"n": "first"})
            serving.ask("POST", "/api/v1/code/exec", {"code": "1", "options": {"trace": 1}})
            serving.ask("GET", "/api/v1/status", **{"X-API-Key": "a-wrong-key"})
            made = {"name": "agent", "allowed_servers": ["stub"], "permissions": ["read"]}
            token = serving.ask("POST", "/api/v1/tokens", made).body["data"]["token"]
            serving.ask("GET", "/api/v1/servers", **{"X-API-Key": token})
            serving.ask("GET", "/api/v1/activity", **{"X-API-Key": token})
            serving.ask("POST", "/api/v1/servers/stub/block", {"tools": ["sleep"]})
            later = {"name": "later", "command": "no-such-program", "enabled": False}
            serving.ask("POST", "/api/v1/servers", later)
            shown = [said(place, words) for words in commands(place)]
            watched = watch(place, serving)
            (request,) = blocks("http")
            stream = first_line(serving, request.split()[1])

            def work(worker):
                for n in range(1000):
                    try:
                        reply = serving.execute(code, input={"n": f"{worker}.{n}"})
                    except (OSError, ValueError, HTTPException):
                        return  # it is dead
                    answered[reply["request_id"]] = reply["value"]

            workers = [threading.Thread(target=work, args=[n]) for n in range(4)]
            for each in workers:
                each.start()
            while len(answered) < 60:
                workers[0].join(0.005)
            serving.process.kill()
            for each in workers:
                each.join()
            serving.process.wait()
        yield SimpleNamespace(
            place=place, answered=answered, shown=shown, watched=watched, stream=stream
        )


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def watch(place, serving):
    """The first record that `watch` shows of an execution."""
    process = place.start(
        "activity", "watch", "--json", "--type", "execution", stdout=subprocess.PIPE
    )
    try:
        line: list[bytes] = []
        reader = threading.Thread(target=lambda: line.append(process.stdout.readline()))
        reader.start()
        while not line:  # until it listens
            serving.execute("'seen by watch'")
            reader.join(0.05)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return json.loads(line[0])


def first_line(serving, path):
    """Of a stream that goes on."""
    with closing(serving.connect()) as connection:
        connection.request("GET", path, headers={"X-API-Key": KEY})
        response = connection.getresponse()
        return response.getheader("content-type"), response.readline()


def commands(place):
    """Those of the page that come to an end, with a real id."""
    first = json.loads(said(place, ["export", "--type", "execution"]).splitlines()[0])
    for block in blocks("sh"):
        for line in block.splitlines():
            line = line.replace("1a22b910e6e00000", first["id"])
            line = line.replace("activity.csv", str(place.folder / "activity.csv"))
            words = shlex.split(line, comments=True)
            if words[:2] == ["mcpproxy", "activity"] and "watch" not in words:
                yield words[2:]


def said(place, words):
    done = place.invoke("activity", *words)
    assert done.exit_code == 0, (words, done.output)
    return done.stdout


@pytest.mark.threat("J1")
def test_a_daemon_that_is_killed_under_load_has_a_record_of_all_that_it_answered(story):
    found = [json.loads(line) for line in said(story.place, ["export", "--detail"]).splitlines()]
    executions = {each["request_id"]: each for each in found if each["type"] == "execution"}
    calls = {each.get("parent"): each for each in found if each["type"] == "tool_call"}
    for request_id, value in story.answered.items():
        execution = executions[request_id]
        assert execution["detail"]["reply"] == {"ok": True, "value": value}
        assert execution["caller"] == "admin"
        call = calls[execution["id"]]
        assert (call["server"], call["tool"], call["status"]) == ("stub", "echo", "ok")
        assert call["detail"]["arguments"] == {"text": value}


def test_each_command_of_the_page_says_the_same_with_a_daemon_and_without(story):
    written = list(commands(story.place))
    assert {words[0] for words in written} == {"list", "show", "summary", "export"}
    for words, before in zip(written, story.shown, strict=True):
        now = said(story.place, words)
        assert now.split()[:3] == before.split()[:3] or words[0] == "summary", words
        if words[0] == "show":
            assert now == before
            assert "stub:echo" in now and 'reply: {"ok": true, "value": "first"}' in now
    assert (
        (story.place.folder / "activity.csv").read_text(encoding="utf-8").startswith("time,type,")
    )


def test_what_comes_is_watched_and_streamed(story):
    assert story.watched["about"] == "'seen by watch'"
    assert story.stream == ("text/event-stream", b"retry: 2000\n")


def test_the_page_tells_of_each_type_and_setting_and_shows_a_record_as_it_is(story):
    text = PAGE.read_text(encoding="utf-8")
    listed = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", "".join(listed)))
    assert set(TYPES) <= named
    fields = {name for name in Settings.model_fields if name.startswith("activity")}
    assert fields <= named
    for name in fields:
        assert f"| `{name}` | `{json.dumps(Settings.model_fields[name].default)}` |" in text
    (example,) = blocks("json")
    call = json.loads(said(story.place, ["export", "--type", "tool_call"]).splitlines()[0])
    assert json.loads(example).keys() == call.keys()
    assert call.keys() | {"code", "client", "back", "detail"} <= named


def recorded(place, *words):
    lines = said(place, ["export", "--detail", *words]).splitlines()
    return [json.loads(line) for line in lines]


def test_who_was_turned_away_and_what_an_operator_did_is_on_record(story):
    refused = recorded(story.place, "--type", "refusal")
    assert [(each["code"], each["caller"]) for each in refused] == [
        ("INVALID_OPTIONS", "admin"),
        ("UNAUTHORIZED", "nobody"),
        ("FORBIDDEN", "agent"),
    ]
    assert refused[1]["detail"]["peer"] == "127.0.0.1"
    assert refused[2]["detail"]["path"] == "/api/v1/activity"
    (made,) = recorded(story.place, "--type", "token")
    assert "mcp_agt_" not in json.dumps(made)
    (blocked,) = recorded(story.place, "--type", "approval")
    assert (blocked["code"], blocked["server"], blocked["caller"]) == ("BLOCKED", "stub", "admin")
    for each in (*refused, made, blocked):  # a listing has not read the details
        (listed,) = (
            one
            for one in json.loads(said(story.place, ["list", "--json", "--type", each["type"]]))[
                "records"
            ]
            if one["id"] == each["id"]
        )
        assert listed["about"] == each["about"] != ""
    (changed,) = recorded(story.place, "--type", "config_change")
    assert changed["about"] == '["mcpServers.later"]' and changed["caller"] == "admin"
    started, ready = recorded(story.place, "--to", "2100-01-01")[:2]
    assert {started["type"], ready["type"]} == {"system", "server_state"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--from", "yesterday"], "from: 'yesterday' is no time"),
        (["show", "nonsense"], "'nonsense' is no id of a record"),
        (["show", "0" * 16], "there is no record"),
        (["watch", "--from", "24h"], "watch shows what comes"),
        (["list", "--status", "bad"], "status: 'bad' is none of ok, error, blocked"),
        (["list", "--type", "call"], "type: 'call' is none of execution, tool_call"),
    ],
)
def test_a_command_that_can_not_be_done_says_why(story, words, said):
    done = story.place.invoke("activity", *words)
    assert done.exit_code == 2
    assert said in done.stderr


# ── pages ───────────────────────────────────────────────────────────────────────────────────────

ATTRIBUTES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["execution", "tool_call"]),
        "status": st.sampled_from(["ok", "error"]),
        "server": st.sampled_from([None, "a", "b"]),
        "caller": st.sampled_from(["me", "you"]),
    }
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with closing(Store(tmp_path_factory.mktemp("pages"))) as found:
        yield found


@given(
    st.lists(ATTRIBUTES, max_size=40),
    ATTRIBUTES.map(lambda found: {key: value for key, value in found.items() if value != "ok"}),
    st.sets(st.sampled_from(["type", "status", "server", "caller"])),
    st.lists(st.integers(1, 9), min_size=1),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_each_record_is_on_one_page_though_others_are_written_meanwhile(
    store, made, wanted, names, limits, oldest_first
):
    wanted = {name: value for name, value in wanted.items() if name in names}
    store._database.execute("DELETE FROM records")
    if made:
        store.insert([b"".join(a_line(n << 20, **each) for n, each in enumerate(made, 1))])
    reading.WINDOW, window = 5, reading.WINDOW
    found, cursor, turn = [], None, 0
    try:
        while turn == 0 or cursor is not None:
            limit = limits[turn % len(limits)]
            each = page(
                store._database,
                Wanted(**wanted),
                limit=limit,
                cursor=cursor,
                oldest_first=oldest_first,
            )
            assert len(each.records) <= limit
            found += [number(record["seq"]) >> 20 for record in each.records]
            cursor, turn = each.next, turn + 1
            if cursor is not None and turn < 10:  # newer ones of the same kind
                store.insert([a_line((1000 + turn) << 20, **{**made[0], **wanted})])
    finally:
        reading.WINDOW = window
    there = [
        n
        for n, each in enumerate(made, 1)
        if all(each.get(name) == value for name, value in wanted.items() if value)
    ]
    old = [each for each in found if each < 1000]
    assert old == (there if oldest_first else there[::-1])
    assert len(set(found)) == len(found)


def test_a_time_is_a_date_or_how_long_ago():
    now = 1_800_000_000_000
    assert instant("from", "90m", now) == now - 90 * 60_000
    assert instant("from", "2026-11-30T08:00:00Z", now) == 1_796_025_600_000
    assert instant("from", "2026-11-30T09:00:00+01:00", now) == 1_796_025_600_000
    assert instant("from", "2026-11-30", now) == 1_795_996_800_000
    with pytest.raises(ValueError, match="to: '5 weeks' is no time"):
        instant("to", "5 weeks", now)


def test_on_the_command_line_a_time_is_of_the_clock_on_the_wall(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        asked = records.query_of({"since": "2026-11-30 09:00", "until": "2026-11-30T01:00Z"})
        shown = command.clock("2026-11-30T00:00:00.000Z", full=True)
        assert records.zoned("24h") == "24h" and records.zoned(None) is None
    finally:
        monkeypatch.undo()
        time.tzset()
    assert asked == {"from": "2026-11-30T09:00:00+09:00", "to": "2026-11-30T01:00Z"}
    assert shown == "2026-11-30 09:00:00"


def test_who_watches_a_daemon_that_dies_goes_on_from_the_last_record_that_came():
    event = b'data: {"seq": "0000000000000001"}\n\n'
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def die():
            line, _ = listener.accept()
            with line:
                line.recv(4096)
                head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                line.sendall(head + b"%x\r\n%s" % (len(event) + 9, event))

        threading.Thread(target=die).start()
        port = listener.getsockname()[1]
        coming = records.told(Running("a daemon", host="127.0.0.1", port=port), None)
        assert next(coming)["seq"] == "0000000000000001"
        with pytest.raises(StopIteration) as ended:
            next(coming)
    assert ended.value.value == "0000000000000001"
