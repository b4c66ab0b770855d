"""Traces: what a client began goes on here and in the servers that its calls reach.

A client names its trace in the header `traceparent` (W3C Trace Context) or in the `_meta` of an MCP
request; the SDK passes the current one on to the servers. Spans cost nothing until an SDK of
OpenTelemetry is there to take them: the extra `otel`, and one of OpenTelemetry's own variables to say where to.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, propagate, trace

from mcpproxy import __version__

logger = logging.getLogger(__name__)

PARENT, STATE = "traceparent", "tracestate"
ASKING = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables of OpenTelemetry that say where spans go (its SDK reads them, and the others, by itself)."""

_tracer = trace.get_tracer("mcpproxy", __version__)


@contextmanager
def continued(carrier: object) -> Iterator[None]:
    """Have what the block does belong to the trace that `carrier` names, if it names one."""
    if not isinstance(carrier, Mapping) or not isinstance(parent := carrier.get(PARENT), str):
        yield
        return
    named = {PARENT: parent}
    if isinstance(state := carrier.get(STATE), str):
        named[STATE] = state
    token = context.attach(propagate.extract(named))
    try:
        yield
    finally:
        context.detach(token)


def traced() -> bool:
    """Whether what is done now belongs to a trace, or somebody takes spans."""
    return trace.get_current_span() is not trace.INVALID_SPAN or not _untaken()


def _untaken() -> bool:
    return isinstance(_tracer, trace.ProxyTracer) and isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )


@contextmanager
def span(name: str, attributes: Mapping[str, Any]) -> Iterator[trace.Span]:
    """A span around the block; an exception becomes its error. Next to nothing where nobody takes spans."""
    if _untaken():
        yield trace.INVALID_SPAN
        return
    with _tracer.start_as_current_span(name, attributes=dict(attributes)) as made:
        yield made


@contextmanager
def exporting(environ: Mapping[str, str]) -> Iterator[None]:
    """Send spans, for as long as the block, to where OpenTelemetry's variables say."""
    if not any(environ.get(name) for name in ASKING) or environ.get("OTEL_SDK_DISABLED") == "true":
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        logger.warning(
            "OpenTelemetry's variables are set, but %s is not installed, so no trace is sent: "
            "install the extra from the checkout: pipx install --force '.[otel]'",
            error.name,
        )
        yield
        return
    resource = Resource.create({"service.name": "mcpproxy", "service.version": __version__})
    if service := environ.get("OTEL_SERVICE_NAME"):
        resource = resource.merge(Resource({"service.name": service}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
