"""`/metrics`: figures for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from mcpproxy import __version__
from mcpproxy.rest.routing import Answer, Area, Request, Route

if TYPE_CHECKING:
    from prometheus_client import Metric

    from mcpproxy.daemon import Daemon

T = TypeVar("T")
EXAMPLE = 'mcpproxy_executions_total{outcome="ok"} 12.0\n'


class Metrics(Area):
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/metrics",
                summary="Metrics for Prometheus",
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
    """What has been counted since the daemon started."""
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    meter = daemon.meter
    for name, about, numbers, labels in (
        ("executions", "Executions that ended, by outcome.", by_one(meter.executions), ["outcome"]),
        ("tool_calls", "Calls that passed the gates.", meter.calls, ["server", "outcome"]),
        ("tool_calls_refused", "Calls that did not pass the gates.", by_one(meter.refused_calls), ["code"]),
        ("requests_refused", "Requests turned away.", by_one(meter.refused), ["code"]),
    ):  # fmt: skip
        counter = CounterMetricFamily(f"mcpproxy_{name}", about, labels=labels)
        for values, number in numbers.items():
            counter.add_metric(values, number)
        yield counter
    by_server = by_one(meter.call_durations)
    for name, about, times, labels in (
        ("execution", "Time with a VM.", {(): meter.running}, []),
        ("execution_queue", "Time until a VM was free.", {(): meter.waiting}, []),
        ("tool_call", "Time from going out to the answer.", by_server, ["server"]),
    ):
        histogram = HistogramMetricFamily(f"mcpproxy_{name}_seconds", about, labels=labels)
        for values, durations in times.items():
            histogram.add_metric(values, durations.buckets(), durations.total)
        yield histogram


def by_one(found: Mapping[str, T]) -> dict[tuple[str, ...], T]:
    """With keys that are the values of one label."""
    return {(key,): value for key, value in found.items()}


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
