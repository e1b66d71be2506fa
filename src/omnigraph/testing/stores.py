"""A store that fails on demand."""

from __future__ import annotations

import abc
import builtins
import contextlib
import fnmatch
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from omnigraph.errors import StorageTransient
from omnigraph.storage.store import Lock, ObjectInfo, Store

# The base of the wrappers: a store that sends every call through one function.

Operation = Literal["get", "put", "create", "list", "list_folders", "info", "delete", "delete_many", "delete_prefix"]
T = TypeVar("T")


class WrappedStore(Store):
    """Passes each call on to `inner` through `_around`, which may count it, delay it or break it."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.uri = inner.uri

    @abc.abstractmethod
    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        """Make `call`, which is `operation` on `key` (or prefix); `data` is what a write writes, and otherwise empty."""

    def get(self, key: str) -> bytes:
        return self._around("get", key, b"", lambda: self.inner.get(key))

    def put(self, key: str, data: bytes) -> None:
        self._around("put", key, data, lambda: self.inner.put(key, data))

    def create(self, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        self._around("create", key, data, lambda: self.inner.create(key, data, sync_first=sync_first))

    def list(self, prefix: str, *, limit: int | None = None) -> builtins.list[ObjectInfo]:
        return self._around("list", prefix, b"", lambda: self.inner.list(prefix, limit=limit))

    def list_folders(self, prefix: str) -> builtins.list[str]:
        return self._around("list_folders", prefix, b"", lambda: self.inner.list_folders(prefix))

    def has(self, key: str) -> bool | None:
        return self.inner.has(key)

    def lock(self, folder: str) -> Lock | None:
        return self.inner.lock(folder)

    def info(self, key: str) -> ObjectInfo:
        return self._around("info", key, b"", lambda: self.inner.info(key))

    def delete(self, key: str) -> None:
        self._around("delete", key, b"", lambda: self.inner.delete(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        self._around("delete_many", keys[0] if keys else "", b"", lambda: self.inner.delete_many(keys))

    def delete_prefix(self, prefix: str) -> int:
        return self._around("delete_prefix", prefix, b"", lambda: self.inner.delete_prefix(prefix))


# A store that counts requests and bytes.


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


# A store with a latency, and a limit of concurrent requests.


class LatencyStore(WrappedStore):
    """Delays each request by `seconds` before it is applied; at most `concurrency` run at once."""

    def __init__(
        self,
        inner: Store,
        *,
        seconds: float,
        concurrency: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._sleep = sleep
        self._gate: contextlib.AbstractContextManager[object] = (
            contextlib.nullcontext() if concurrency is None else threading.BoundedSemaphore(concurrency)
        )

    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        with self._gate:
            self._sleep(self._seconds)
            return call()


FaultKind = Literal["answer_lost", "refused", "slow", "crash_before", "crash_after"]


class SimulatedCrash(BaseException):
    """The process "died" at a storage call. A `BaseException`, since no `except` of the program may catch it."""


@dataclass(frozen=True)
class Fault:
    """What happens to some of the calls whose operation and key match the patterns (`*` and `?` as in file names).

    - answer_lost: the call is applied, then `StorageTransient`;
    - refused: the call is not applied, `StorageTransient`;
    - slow: the call waits `seconds`, then goes on;
    - crash_before, crash_after: `SimulatedCrash` before or after the call is applied.

    The first `skip` matching calls pass, the next `times` fail, all later ones pass.
    """

    kind: FaultKind
    operation: str = "*"
    key: str = "*"
    times: int = 1
    skip: int = 0
    seconds: float = 0.0


class FaultyStore(WrappedStore):
    """Applies the first fault that matches a call. After a crash every further call crashes too, since a dead process makes none;
    a new `FaultyStore` around the same inner store stands for the next process.
    """

    def __init__(self, inner: Store, *faults: Fault, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(inner)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._seen: list[int] = []
        self._fired: list[tuple[FaultKind, Operation, str]] = []
        self._dead = False
        for fault in faults:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)
            self._seen.append(0)

    def fired(self) -> tuple[tuple[FaultKind, Operation, str], ...]:
        """Which faults happened to which calls, in order, so that a test can check that its fault occurred."""
        with self._lock:
            return tuple(self._fired)

    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        fault = self._take(operation, key)
        if fault is None:
            return call()
        if fault.kind == "slow":
            self._sleep(fault.seconds)
            return call()
        if fault.kind in ("crash_before", "refused"):
            raise self._failure(fault, operation, key)
        call()
        raise self._failure(fault, operation, key)

    def _failure(self, fault: Fault, operation: Operation, key: str) -> BaseException:
        if fault.kind in ("crash_before", "crash_after"):
            with self._lock:
                self._dead = True
            return SimulatedCrash(f"{fault.kind} {operation} '{key}'")
        return StorageTransient(f"cannot {operation} '{key}' in {self.uri}: {fault.kind}", key=key, hint="try again")

    def _take(self, operation: Operation, key: str) -> Fault | None:
        with self._lock:
            if self._dead:
                raise SimulatedCrash(f"{operation} '{key}' after the crash")
            for index, fault in enumerate(self._faults):
                if fnmatch.fnmatchcase(operation, fault.operation) and fnmatch.fnmatchcase(key, fault.key):
                    self._seen[index] += 1
                    if fault.skip < self._seen[index] <= fault.skip + fault.times:
                        self._fired.append((fault.kind, operation, key))
                        return fault
            return None
