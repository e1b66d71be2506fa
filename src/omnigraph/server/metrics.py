"""Counters and times, in the form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from omnigraph.server.registry import Served

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

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
        self._retries = self._counter("publish_retries", "Writes that lost the race for the next commit.")
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

    def lost_race(self) -> None:
        self._retries.inc()

    def conflicting(self, kinds: Iterator[str]) -> None:
        for kind in kinds:
            self._conflicts.labels(kind).inc()

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
