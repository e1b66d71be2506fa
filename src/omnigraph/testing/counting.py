"""A store that counts requests and bytes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from omnigraph.storage.store import Store
from omnigraph.testing.wrapping import Operation, T, WrappedStore


@dataclass(frozen=True)
class CountedRequest:
    """One call, with when it started and ended; failed calls are included."""

    kind: Operation
    key: str
    start: float
    end: float
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class RequestCounts:
    """Requests since the last reset. `bytes_in` were written to the store, `bytes_out` read from it."""

    by_kind: Mapping[Operation, int]
    bytes_in: int
    bytes_out: int
    hops: int

    @property
    def requests(self) -> int:
        return sum(self.by_kind.values())


def sequential_hops(intervals: Iterable[tuple[float, float]]) -> int:
    """The longest sequence of requests in which each started after the previous one had ended: the factor by which latency
    counts. Concurrent requests are one hop.
    """
    hops, last_end = 0, float("-inf")
    for start, end in sorted(intervals, key=lambda interval: (interval[1], interval[0])):
        if start >= last_end:
            hops, last_end = hops + 1, end
    return hops


class CountingStore(WrappedStore):
    """Counts each call as one request of its kind and passes it on.

    A listing of several pages, or a `delete_prefix`, is several requests on an object store and one here.
    """

    def __init__(self, inner: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(inner)
        self._clock = clock
        self._lock = threading.Lock()
        self._log: list[CountedRequest] = []

    def reset(self) -> None:
        with self._lock:
            self._log = []

    def requests(self) -> tuple[CountedRequest, ...]:
        """Every request since the last reset, in the order in which they ended."""
        with self._lock:
            return tuple(self._log)

    def snapshot(self) -> RequestCounts:
        log = self.requests()
        return RequestCounts(
            by_kind=dict(Counter(request.kind for request in log)),
            bytes_in=sum(request.bytes_in for request in log),
            bytes_out=sum(request.bytes_out for request in log),
            hops=sequential_hops((request.start, request.end) for request in log),
        )

    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        bytes_out = 0
        start = self._clock()
        try:
            result = call()
            bytes_out = len(result) if isinstance(result, bytes) else 0
            return result
        finally:
            request = CountedRequest(operation, key, start, self._clock(), len(data), bytes_out)
            with self._lock:
                self._log.append(request)
