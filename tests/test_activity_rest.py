"""`/api/v1/activity` and `/events`, over a journal without a daemon."""

from __future__ import annotations

import csv
import io
import json
from contextlib import asynccontextmanager

import anyio
import pytest
from asgi import Client, ask, http
from test_journal import KEEP
from upstreams import until

import mcpproxy.cli.activity  # noqa: F401 - the command has its name
from mcpproxy.journal import feed
from mcpproxy.journal.feed import Feed
from mcpproxy.journal.writer import open_journal
from mcpproxy.policy import ADMIN, Caller
from mcpproxy.rest.activity import Activity
from mcpproxy.rest.events import Events
from mcpproxy.rest.routing import Routes

AGENT = Caller("agent", "token")


class World:
    """The routes over a journal, without a daemon."""

    def __init__(self, journal):
        self.journal = journal
        self.feed = Feed(journal)
        self.routes = Routes([*Activity(self).routes(), *Events(self).routes()])
        self.caller = ADMIN

    async def app(self, scope, receive, send):
        scope["state"] = {"caller": self.caller, "request_id": "request"}
        await self.routes(scope, receive, send)

    async def get(self, path, **headers):
        return await ask(self.app, "GET", path, headers=headers)

    async def data(self, path):
        answer = await self.get(path)
        assert answer.status == 200, answer.text
        return answer.body["data"]

    @asynccontextmanager
    async def listening(self, path, **headers):
        """The other side of a stream of events."""
        client = Client()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.app, http("GET", path, headers), client.receive, client.send)
            await until(lambda: len(client.sent) > 1)
            yield client
            client.gone.set()


def events(client):
    """Name, id and data of each event that came."""
    text = b"".join(each.get("body", b"") for each in client.sent).decode()
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if "data" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def over(client):
    return client.sent[-1]["type"] == "http.response.body" and not client.sent[-1].get("more_body")


@pytest.fixture
async def world(tmp_path):
    async with open_journal(tmp_path, KEEP, 1000, on=True, lasting=True) as journal:
        yield World(journal)


async def test_what_was_recorded_a_moment_ago_is_listed_found_and_summed_up(world):
    for server, tool, code in [("a", "x", None), ("a", "y", "TOOL_ERROR"), ("b", "x", None)]:
        world.journal.record(
            "tool_call",
            "error" if code else "ok",
            code=code,
            server=server,
            tool=tool,
            ms=10,
            seen=5,
        )
    listed = await world.data("/api/v1/activity?server=a&order=oldest")
    assert [(each["tool"], each["status"]) for each in listed["records"]] == [
        ("x", "ok"),
        ("y", "error"),
    ]
    assert listed["next"] is None
    (failed,) = (await world.data("/api/v1/activity?status=error&from=1h"))["records"]
    assert "detail" not in failed
    assert (await world.data(f"/api/v1/activity/{failed['id']}"))["detail"] == {}
    sums = await world.data("/api/v1/activity/summary?by=server")
    assert [
        (each["name"], each["count"], each["error"], each["seen"]) for each in sums["groups"]
    ] == [
        ("a", 2, 1, 10),
        ("b", 1, 0, 5),
    ]
    assert (await world.get("/api/v1/activity?to=24h")).body["data"]["records"] == []


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("?limit=0", 400, "limit"),
        ("?status=fine", 400, "status"),
        ("?cursor=zz", 400, "'zz' is no id"),
        ("?cursor=ffffffffffffffff", 400, "too large"),
        ("?from=soon", 400, "from: 'soon' is no time"),
        ("?colour=red", 400, "it takes type, server"),
        ("/0000000000000000", 404, "there is no record"),
        ("/zz", 400, "'zz' is no id"),
    ],
)
async def test_a_question_that_can_not_be_answered_says_why(world, path, status, words):
    answer = await world.get(f"/api/v1/activity{path}")
    assert answer.status == status
    assert words in answer.body["error"]["message"]


@pytest.mark.threat("J3")
@pytest.mark.parametrize(
    "path", ["/api/v1/activity", "/api/v1/activity/summary", "/api/v1/activity/export", "/api/v1/activity/1", "/events"]
)  # fmt: skip
async def test_who_is_no_operator_reads_nothing_of_it(world, path):
    world.caller = AGENT
    answer = await world.get(path)
    assert answer.status == 403 and answer.body["error"]["code"] == "FORBIDDEN"


async def test_words_that_are_not_ascii_are_found_however_they_were_sent(world):
    world.journal.record("tool_call", "ok", server="größe", tool="x")
    for path in ("/api/v1/activity?server=größe", "/api/v1/activity?server=gr%C3%B6%C3%9Fe"):
        assert len((await world.data(path))["records"]) == 1


@pytest.mark.threat("J3")
async def test_an_export_has_all_records_and_no_formula_for_a_spreadsheet(world):
    for n in range(1200):
        world.journal.record("tool_call", "ok", server="s", tool=f"=cmd{n}", detail={"n": n})
    lines = (await world.get("/api/v1/activity/export?detail=true")).text.splitlines()
    assert [json.loads(line)["detail"]["n"] for line in lines] == list(range(1200))
    answer = await world.get("/api/v1/activity/export?format=csv&from=1h")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 1200 and rows[7]["tool"] == "'=cmd7"


async def test_half_a_surrogate_pair_of_one_program_hides_no_record(world):
    world.journal.record("execution", "ok", detail={"source": "'\ud800'", "description": "odd"})
    world.journal.record("execution", "ok", detail={"source": "\ud800"})
    first, second = (await world.data("/api/v1/activity"))["records"]
    assert second["about"] == "odd" and "\ufffd" in first["about"]
    for path in ("/api/v1/activity/export?detail=true", "/api/v1/activity/summary?by=script"):
        assert (await world.get(path)).status == 200
    lines = (await world.get("/api/v1/activity/export?detail=true")).text.splitlines()
    assert [json.loads(line)["detail"]["source"] for line in lines] == ["'\ud800'", "\ud800"]


# ── events ──────────────────────────────────────────────────────────────────────────────────────


async def test_events_come_as_they_happen_and_a_client_that_was_away_gets_what_it_missed(world):
    async with world.listening("/events?kinds=activity,servers") as client:
        world.journal.record("tool_call", "ok", server="s", tool="t")
        world.journal.record("config_change", "ok")
        world.journal.record("server_state", "error", server="s", detail={"state": "down"})
        await until(lambda: len(events(client)) == 2)
    first, second = events(client)
    assert [first[0], second[0]] == ["activity", "servers"]
    assert second[2]["about"] == "down"
    world.journal.record("execution", "ok", id=world.journal.number())
    async with world.listening("/events", **{"Last-Event-ID": first[1]}) as client:
        world.journal.record("system", "ok")
        await until(lambda: len(events(client)) == 4)
    found = events(client)
    assert [name for name, _, _ in found] == ["config", "servers", "activity", "activity"]
    assert [data["type"] for _, _, data in found[2:]] == ["execution", "system"]
    assert [id for _, id, _ in found] == sorted(id for _, id, _ in found)


@pytest.mark.threat("J2")
async def test_a_listener_that_does_not_read_is_told_and_let_go(world, monkeypatch):
    monkeypatch.setattr(feed, "MOST_WAITING", 5)
    async with world.listening("/events") as client:
        for _ in range(20):
            world.journal.record("system", "ok")
        await until(lambda: over(client))
    found = events(client)
    assert [name for name, _, _ in found] == ["activity"] * 5 + ["slow"]
    async with world.listening(f"/events?after={found[4][1]}") as client:
        await until(lambda: len(events(client)) == 15)


async def test_a_stream_ends_with_the_daemon_and_nobody_listens_after_its_client_is_gone(world):
    async with world.listening("/events") as client:
        pass
    assert over(client)
    assert not world.journal._listeners
    async with world.listening("/events") as client:
        world.feed.close()
        await until(lambda: over(client))


async def test_a_bad_place_or_kind_is_refused(world):
    assert (await world.get("/events?after=here")).status == 400
    head = await ask(world.app, "HEAD", "/events")
    assert (head.status, head.text) == (200, "")
    answer = await world.get("/events?kinds=gossip")
    assert "'gossip' is none of activity, catalog, config, servers" in answer.text
