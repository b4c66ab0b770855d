"""`/metrics`: figures for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from mcpproxy import __version__
from mcpproxy.meter import Durations
from mcpproxy.rest.routing import Answer, Area, Request, Route

if TYPE_CHECKING:
    from prometheus_client import Metric

    from mcpproxy.daemon import Daemon

EXAMPLE = 'mcpproxy_executions_total{outcome="ok"} 12.0\n'


class Metrics(Area):
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/metrics",
                summary="Figures for Prometheus",
                handle=self._metrics,
                example=EXAMPLE,
                content_type="text/plain; version=1.0.0; charset=utf-8",
            ),
        )

    async def _metrics(self, request: Request) -> Any:
        # Here, as it brings a web server along that only few need.
        import prometheus_client

        registry = prometheus_client.CollectorRegistry(auto_describe=False)
        registry.register(Figures(self._daemon))
        prometheus_client.ProcessCollector("mcpproxy", registry=registry)
        text = await anyio.to_thread.run_sync(prometheus_client.generate_latest, registry)
        return Answer(text, content_type=prometheus_client.CONTENT_TYPE_LATEST)


class Figures:
    """What `prometheus_client` calls a collector. Taken at once, so that the figures are of one moment."""

    def __init__(self, daemon: Daemon) -> None:
        self._found = [*counted(daemon), *seen(daemon)]

    def collect(self) -> Iterator[Metric]:
        return iter(self._found)


def counted(daemon: Daemon) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    meter = daemon.meter

    def histogram(name: str, about: str, found: Mapping[Any, Durations], *labels: str) -> Metric:
        family = HistogramMetricFamily(name, about, labels=labels)
        for values, durations in found.items():
            family.add_metric(values, durations.buckets(), durations.total)
        return family

    executions = CounterMetricFamily(
        "mcpproxy_executions", "Executions that ended, by outcome.", labels=["outcome"]
    )
    for outcome, number in meter.executions.items():
        executions.add_metric([outcome], number)
    calls = CounterMetricFamily(
        "mcpproxy_tool_calls", "Calls that passed the gates.", labels=["server", "outcome"]
    )
    for (server, outcome), number in meter.calls.items():
        calls.add_metric([server, outcome], number)
    refused = CounterMetricFamily(
        "mcpproxy_tool_calls_refused", "Calls that did not pass the gates.", labels=["code"]
    )
    for code, number in meter.refused_calls.items():
        refused.add_metric([code], number)
    away = CounterMetricFamily(
        "mcpproxy_requests_refused", "Requests turned away.", labels=["code"]
    )
    for code, number in meter.refused.items():
        away.add_metric([code], number)
    durations = {(server,): found for server, found in meter.call_durations.items()}
    yield from (executions, calls, refused, away)
    yield histogram("mcpproxy_execution_seconds", "Time with a VM.", {(): meter.running})
    yield histogram(
        "mcpproxy_execution_queue_seconds", "Time until a VM was free.", {(): meter.waiting}
    )
    yield histogram(
        "mcpproxy_tool_call_seconds", "Time from going out to the answer.", durations, "server"
    )


def seen(daemon: Daemon) -> Iterator[Metric]:
    """How things stand now."""
    from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

    yield InfoMetricFamily("mcpproxy", "What runs.", {"version": __version__})
    pool, journal = daemon.pool, daemon.journal
    for name, about, value in (
        ("mcpproxy_pool_size", "Scripts that may run at once.", pool.size),
        ("mcpproxy_pool_busy", "Scripts that run.", pool.busy),
        ("mcpproxy_pool_waiting", "Scripts that wait for a VM.", pool.waiting),
        ("mcpproxy_journal_lost_records", "Records that could not be written.", journal.lost),
    ):
        yield GaugeMetricFamily(name, about, value=value)
    state = GaugeMetricFamily(
        "mcpproxy_server_state", "1 for the state that a server is in.", labels=["server", "state"]
    )
    flight = GaugeMetricFamily(
        "mcpproxy_server_calls_in_flight", "Calls that run.", labels=["server"]
    )
    queued = GaugeMetricFamily(
        "mcpproxy_server_calls_queued", "Calls that wait.", labels=["server"]
    )
    for each in daemon.fleet.status():
        state.add_metric([each["name"], each["state"]], 1)
        flight.add_metric([each["name"]], each["in_flight"])
        queued.add_metric([each["name"]], each["queued"])
    yield from (state, flight, queued)
