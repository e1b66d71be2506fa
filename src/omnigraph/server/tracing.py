"""Requests as spans of OpenTelemetry, when an endpoint for them is configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.extras import load_extra

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_BILLION = 1_000_000_000


@dataclass(frozen=True)
class RequestSpan:
    """A request that has ended. Times are seconds since 1970; `parts` are what it did, each with its start and end."""

    name: str
    started: float
    ended: float
    parts: Mapping[str, tuple[float, float]]
    attributes: Mapping[str, Any]
    headers: Mapping[str, str]


class Traces:
    """Spans for a tracer of OpenTelemetry."""

    def __init__(self, tracer: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    def record(self, request: RequestSpan) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        parent = self._propagator.extract(request.headers)
        span = self._tracer.start_span(
            request.name,
            context=parent,
            kind=SpanKind.SERVER,
            attributes=dict(request.attributes),
            start_time=_nanoseconds(request.started),
        )
        context = set_span_in_context(span)
        for part, (start, end) in request.parts.items():
            self._tracer.start_span(part, context=context, start_time=_nanoseconds(start)).end(_nanoseconds(end))
        span.end(_nanoseconds(request.ended))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _BILLION)


def tracer_of(environment: Mapping[str, str]) -> Traces | None:
    """What the environment configures; None when nobody wants to know. MissingExtra when it names an endpoint, and the packages are not there."""
    if not environment.get(ENDPOINT):
        return None
    for package in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"):
        load_extra(package, "tracing", extra="otel")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "omnigraph"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider.get_tracer("omnigraph.server"))
