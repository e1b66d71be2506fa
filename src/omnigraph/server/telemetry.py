"""Counters and times, in the form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from omnigraph._internal.lazy_imports import load_extra
from omnigraph.metering import StoreCost
from omnigraph.server.registry import Served

# Requests as spans of OpenTelemetry, when an endpoint for them is configured.

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_BILLION = 1_000_000_000


class SpanPart(NamedTuple):
    """A part of what a request did: a step of the server, or a request to the store. Times are seconds since 1970."""

    name: str
    started: float
    ended: float
    attributes: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RequestSpan:
    """A request that has ended. Times are seconds since 1970."""

    name: str
    started: float
    ended: float
    parts: Sequence[SpanPart]
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
        for part in request.parts:
            began = _nanoseconds(part.started)
            inner = self._tracer.start_span(part.name, context=context, attributes=part.attributes, start_time=began)
            inner.end(_nanoseconds(part.ended))
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


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_HOPS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128)

_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""A client may send any word: the others are counted as one."""


class Metrics:
    """Of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("http_requests", "Requests answered.", "route", "method", "status")
        self._seconds = Histogram(
            "omnigraph_http_request_seconds",
            "From the first byte of a request to the last of its answer.",
            ["route"],
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._in_flight = Gauge(
            "omnigraph_http_inflight", "Requests that are being answered.", ["actor_class"], registry=self.registry
        )
        self._rejected = self._counter("admission_rejected", "Writes refused because their actor has too many.")
        self._commits = self._counter("commits", "Commits made.", "graph", "branch_class", "kind")
        self._conflicts = self._counter("merge_conflicts", "Conflicts that stopped a merge.", "kind")
        self._retries = self._counter("publish_retries", "Lost races for the next commit; the write tried again.")
        self._store_requests = self._counter("store_requests", "Requests to the store.", "route", "operation")
        self._store_bytes = self._counter("store_bytes", "Bytes that were read and written.", "route", "direction")
        self._store_hops = Histogram(
            "omnigraph_store_hops",
            "Requests to the store of one request of a client that had to wait for the one before them.",
            ["route"],
            registry=self.registry,
            buckets=_HOPS,
        )
        self._maintenance = self._counter("maintenance", "Steps of maintenance.", "graph", "step", "outcome")
        self._maintenance_seconds = self._counter("maintenance_seconds", "Time for maintenance.", "graph", "step")
        self._lag = Gauge(
            "omnigraph_feed_lag_commits",
            "Commits between the last poll of a feed and the branch's head.",
            ["graph"],
            registry=self.registry,
        )
        self._wait = Histogram(
            "omnigraph_pool_wait_seconds",
            "Time that work waited for a thread.",
            ["pool"],
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._waits = {pool: self._wait.labels(pool) for pool in ("read", "write", "bulk")}
        self._classes = [self._in_flight.labels(name) for name in ("anonymous", "named")]
        self._of_route: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        """The children of what is counted for every request: finding them by their labels costs more than counting."""
        self._ready = Gauge("omnigraph_graph_ready", "1 for a graph that is served.", ["graph"], registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"omnigraph_{name}", text, labels, registry=self.registry)

    @contextmanager
    def in_flight(self, is_named: bool) -> Iterator[None]:
        gauge = self._classes[is_named]
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method if method in _METHODS else "other", status)
        children = self._of_route.get(key)
        if children is None:
            children = self._of_route[key] = (
                self._requests.labels(key[0], key[1], str(status)),
                self._seconds.labels(route),
            )
        children[0].inc()
        children[1].observe(seconds)

    def rejected(self) -> None:
        self._rejected.inc()

    def committed(self, graph: str, branch: str, kind: str) -> None:
        self._commits.labels(graph, "main" if branch == "main" else "other", kind).inc()

    def add_cost(self, route: str, kinds: Mapping[str, int], cost: StoreCost) -> None:
        """What a request asked of the store."""
        self._retries.inc(cost.lost_races)
        if not (cost.requests or cost.table_requests):
            return
        for kind, count in kinds.items():
            self._store_requests.labels(route, kind).inc(count)
        self._store_bytes.labels(route, "read").inc(cost.bytes_read)
        self._store_bytes.labels(route, "written").inc(cost.bytes_written)
        self._store_hops.labels(route).observe(cost.hops)

    def conflicting(self, kinds: Iterator[str]) -> None:
        for kind in kinds:
            self._conflicts.labels(kind).inc()

    def add_maintenance(self, graph: str, step: str, seconds: float, *, is_done: bool) -> None:
        self._maintenance.labels(graph, step, "done" if is_done else "failed").inc()
        self._maintenance_seconds.labels(graph, step).inc(seconds)

    def lagging(self, graph: str, commits: int) -> None:
        self._lag.labels(graph).set(commits)

    def waited(self, pool: str, seconds: float) -> None:
        self._waits[pool].observe(seconds)

    def serving(self, served: Served) -> None:
        self._ready.clear()
        for graph in served.graphs:
            self._ready.labels(graph).set(1)
        for graph in served.set_aside:
            self._ready.labels(graph).set(0)

    def text(self) -> bytes:
        return generate_latest(self.registry)
