"""How one sees from outside what a daemon does: its figures, its traces and the description of its routes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import urlencode

import apis
import pytest
import yaml
from daemon_process import open_process, over_http, through
from hypothesis import HealthCheck, Phase, given, settings
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pages import blocks
from prometheus_client.parser import text_string_to_metric_families
from running import KEY

from mcpproxy import tracing
from mcpproxy.settings import Settings

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
LEFT_OUT = {"GET /events", "POST /api/v1/servers"}
"""One never ends, the other would run whatever words make."""
OWN = (".mcpServers.time", ".arguments.timezone", ".client")
"""In examples, names of somebody's server and argument, and what only a client of MCP says of itself."""


@pytest.fixture(scope="module")
def serving():
    with open_process() as found:
        yield found


def figures(serving) -> dict[tuple[str, str], float]:
    """Each sample by its name and its labels, in the order of their names."""
    answer = serving.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, " ".join(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_what_happens_is_counted(serving):
    before = figures(serving)
    for code in (
        "await tools.stub.add({a: 1, b: 2})",
        "call_tool('stub', 'fail', {message: 'no'}).error.code",
        "call_tool('nowhere', 'x', {}).error.code",
        "throw new Error('on purpose')",
    ):
        serving.execute(code)
    serving.execute("1", options={"timeout_ms": 0})
    after = figures(serving)

    def more(name: str, labels: str = "") -> float:
        return after.get((name, labels), 0) - before.get((name, labels), 0)

    assert more("mcpproxy_executions_total", "ok") == 3
    assert more("mcpproxy_executions_total", "RUNTIME_ERROR") == 1
    assert more("mcpproxy_execution_seconds_count") == 4
    assert more("mcpproxy_execution_seconds_bucket", "+Inf") == 4
    assert more("mcpproxy_tool_calls_total", "ok stub") == 1
    assert more("mcpproxy_tool_calls_total", "TOOL_ERROR stub") == 1
    assert more("mcpproxy_tool_call_seconds_count", "stub") == 2
    assert more("mcpproxy_tool_calls_refused_total", "SERVER_NOT_FOUND") == 1
    assert more("mcpproxy_requests_refused_total", "INVALID_OPTIONS") == 1
    assert after["mcpproxy_server_state", "stub ready"] == 1
    assert after["mcpproxy_pool_busy", ""] == 0


def test_figures_are_for_operators(serving):
    assert serving.ask("GET", "/metrics", **{"X-API-Key": "wrong"}).status == 401


def test_a_trace_goes_on_from_a_request_to_the_servers(serving):
    code = "(await tools.stub.whoami({})).meta.traceparent ?? null"
    body = {"code": code}
    answer = serving.ask("POST", "/api/v1/code/exec", body, traceparent=PARENT).body
    assert answer["value"].split("-")[1] == TRACE
    assert serving.execute(code)["value"] is None


async def test_a_trace_goes_on_from_the_meta_of_a_call(serving, anyio_backend):
    code = "(await tools.stub.whoami({})).meta.traceparent ?? null"
    async with over_http(serving, "2026-07-28") as client:
        found = await through(client, {"code": code}, meta={"traceparent": PARENT})
    assert found["value"].split("-")[1] == TRACE


def test_a_span_belongs_to_the_trace_that_was_named():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, tracing._tracer = tracing._tracer, provider.get_tracer("test")
    try:
        with tracing.continued({"traceparent": PARENT}), tracing.span("work", {"n": 1}):
            pass
        with tracing.continued({"traceparent": "nonsense"}), tracing.span("other", {}):
            pass
    finally:
        tracing._tracer = tracer
    work, other = exporter.get_finished_spans()
    assert f"{work.context.trace_id:032x}" == TRACE
    assert other.parent is None


def test_without_the_extra_it_says_what_to_install(caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with tracing.exporting({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}):
        pass
    assert "pipx install --force '.[otel]'" in caplog.text


# ── the description of the routes ─────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def document(serving):
    return serving.ask("GET", "/api/v1/openapi.json").body


def test_every_route_is_described_and_nothing_else(serving, document):
    for path, operations in document["paths"].items():
        filled = re.sub(r"\{\w+\}", "x", path)
        for method in {"GET", "POST", "PUT", "DELETE"} - {verb.upper() for verb in operations}:
            answer = serving.ask(method, filled)
            assert (answer.status, path) == (405, path)
            allowed = answer.headers["allow"].split(", ")
            assert {verb.lower() for verb in allowed} == operations.keys()


def test_each_operation_has_an_example_and_an_id_of_its_own(document):
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    for each in operations:
        ((_, content),) = each["responses"]["200"]["content"].items()
        assert content["example"] is not None, each["operationId"]


def missing(example, answered, where=""):
    """Members of an example that no answer like this one has."""
    match example, answered:
        case dict(), dict():
            for name, each in example.items():
                inner = f"{where}.{name}"
                yield from missing(each, answered[name], inner) if name in answered else [inner]
        case [first, *_], [_, *_]:
            yield from min((list(missing(first, each, f"{where}[]")) for each in answered), key=len)


def test_the_examples_show_no_members_that_answers_lack(serving, document):
    scripts = serving.home.places.scripts
    scripts.mkdir(exist_ok=True)
    (scripts / "daily-report.js").write_text("1\n", encoding="utf-8")
    serving.ask("POST", "/api/v1/tokens", {"name": "agent", "allowed_servers": ["*"]})
    ran = serving.execute(
        "await tools.stub.add({a: 1, b: 2})", description="Add two numbers", input={"owner": "acme"}
    )
    record = serving.ask("GET", "/api/v1/activity?type=tool_call").body["data"]["records"][0]
    named = {
        "servers": "stub",
        "tools": "stub:add",
        "tokens": "agent",
        "activity": record["id"],
        "code": ran["cache_id"],
    }
    compared = set()
    for path, operations in document["paths"].items():
        if "get" not in operations or path == "/events":
            continue
        area = path.split("/")[3] if path.startswith("/api") else ""
        filled = re.sub(r"\{\w+\}", lambda _: named.get(area, "x"), path)  # noqa: B023 - called at once
        query = "?q=add" if path.endswith("search") else ""
        answer = serving.ask("GET", f"{filled}{query}")
        ((kind, content),) = operations["get"]["responses"]["200"]["content"].items()
        if answer.status == 200 and kind == "application/json":
            lacking = {
                each for each in missing(content["example"], answer.body) if not each.endswith(OWN)
            }
            assert (path, lacking) == (path, set())
            compared.add(path)
    assert len(compared) > 20


def test_no_request_that_fits_the_description_makes_the_daemon_fail(serving, document):
    # Here, as they take a second to import and each worker reads this file.
    import schemathesis
    from schemathesis.core import NotSet

    schema = schemathesis.openapi.from_dict(document)
    asked = set()
    for each in schema.get_all_operations():
        operation = each.ok()
        if operation.label in LEFT_OUT:
            continue

        @given(operation.as_strategy())
        @settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        def ask(case):
            path = case.formatted_path + (f"?{urlencode(case.query)}" if case.query else "")
            body = None if isinstance(case.body, NotSet) else case.body
            answer = serving.ask(case.method, path, body)
            assert answer.status != 500, (case.method, path, body, answer.text)
            asked.add(answer.status)

        ask()
    assert {200, 400, 404} <= asked


def test_the_page_names_each_figure_and_no_other(serving):
    page = (Path(__file__).parents[1] / "docs" / "observing.md").read_text(encoding="utf-8")
    serving.execute("call_tool('stub', 'ping', {}).ok && call_tool('nowhere', 'x', {}).ok")
    serving.execute("1", options={"timeout_ms": 0})
    text = serving.ask("GET", "/metrics").text
    kinds = dict(re.findall(r"^# TYPE (mcpproxy_\w+) (\w+)$", text, re.MULTILINE))
    shown = {name for name in kinds if not name.startswith("mcpproxy_process_")}
    assert set(re.findall(r"`(mcpproxy_\w+)`", page)) == shown
    (scrape,) = yaml.safe_load(blocks(page, "yaml")[0])["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [Settings().listen]}]
    key = {"Authorization": f"Bearer {KEY}", "X-API-Key": ""}  # what Prometheus makes of it
    assert scrape["authorization"].keys() == {"credentials_file"}
    assert serving.ask("GET", scrape.get("metrics_path", "/metrics"), None, **key).status == 200


async def test_by_its_description_the_interface_is_a_server_of_tools(serving, document, tmp_path):
    """As any API is; a real document that we didn't write for that."""
    file, origin = apis.put(tmp_path, document), f"http://{serving.address}"
    async with apis.open_document(file, base_url=origin, auth={"key": KEY}) as api:
        assert api.said == []
        count = sum(len(path) for path in document["paths"].values())
        assert len(api.source.tools()) == count
        found = await api.call(next(name for name in api.source.api.operations if "code_exec" in name), body={"code": "return 6 * 7"})  # fmt: skip
        assert found["ok"] is True and found["value"] == 42
        servers = next(each for each in api.source.tools() if each["description"] and each["name"].endswith("servers"))  # fmt: skip
        assert servers["annotations"]["readOnlyHint"] is True
