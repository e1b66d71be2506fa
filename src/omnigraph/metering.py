"""What one operation asks of the store: requests, how many of them waited for one another, and bytes.

A meter counts for the thread that runs something under it, and for the `Threads` that this one starts. Requests that another
writer's commit makes for this one are not counted here, only how long it waited for them.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakValueDictionary

REQUESTS_KEPT = 100
"""Of an operation, for its trace; those beyond are only counted."""
TABLES = "table"
"""The kind of the requests that the table engine makes by itself."""

_KINDS = {
    "find": "get",
    "get_ranges": "get",
    "fill": "put",
    "delete_many": "delete",
    "delete_prefix": "delete",
    "has": "info",
}

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")
AnyStore = TypeVar("AnyStore", bound=type)


class StoreRequest(NamedTuple):
    """A request, with its start and end in seconds since 1970."""

    kind: str
    key: str
    started: float
    ended: float
    bytes: int


@dataclass(frozen=True)
class StoreCost:
    """`hops` are the requests that had to wait for the one before them: concurrent ones are one hop. How the table engine orders
    its own requests is not known, so they are not among the hops; the files that it writes for a large load are not counted at all."""

    requests: int
    hops: int
    bytes_read: int
    bytes_written: int
    table_requests: int
    lost_races: int
    """How often another writer's entry was first."""
    waited_s: float
    """For other writers: for the entry that another thread's commit shared with this one, or for a turn among processes."""

    def __str__(self) -> str:
        """Empty if the store was not asked for anything."""
        parts = [
            f"{_count(self.requests, 'request')} in {_count(self.hops, 'hop')}" if self.requests else "",
            f"{_count(self.table_requests, 'request')} of tables" if self.table_requests else "",
            f"{self.bytes_read:,} bytes read" if self.bytes_read else "",
            f"{self.bytes_written:,} written" if self.bytes_written else "",
            _count(self.lost_races, "lost race") if self.lost_races else "",
            f"{self.waited_s * 1000:.1f} ms waited for writers" if self.waited_s else "",
        ]
        return ", ".join(part for part in parts if part)

    def to_json(self) -> dict[str, int]:
        """{requests, hops, bytes_read, bytes_written, table_requests?, lost_races?}; empty if the store was not asked for anything."""
        if not (self.requests or self.table_requests):
            return {}
        members = {
            "requests": self.requests,
            "hops": self.hops,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
        }
        more = {"table_requests": self.table_requests, "lost_races": self.lost_races}
        return members | {name: count for name, count in more.items() if count}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Meter:
    """Counts under `run` or `running`, in any number of threads."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()
        self.requests: list[StoreRequest] = []
        self.lost_races = 0
        self.waited_s = 0.0
        self._hops = 0
        self._read = 0
        self._written = 0
        self._last_end = float("-inf")
        self._datasets: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._clock_began = time.time() - time.perf_counter()

    def run(self, work: Callable[[], Result]) -> Result:
        with self.running():
            return work()

    @contextmanager
    def running(self) -> Iterator[Meter]:
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    def add(self, kind: str, key: str, started: float, read: int, written: int) -> None:
        """A request that has ended; times are those of `time.perf_counter`."""
        with self._lock:
            ended = time.perf_counter()
            self.by_kind[kind] += 1
            self._read += read
            self._written += written
            if started >= self._last_end:  # requests are added in the order of their ends
                self._hops, self._last_end = self._hops + 1, ended
            if len(self.requests) < REQUESTS_KEPT:
                times = (self._clock_began + started, self._clock_began + ended)
                self.requests.append(StoreRequest(kind, key, *times, read + written))

    def uses(self, dataset: Any) -> None:
        """A dataset of Lance, which counts its requests itself. Those until now were for the meter that used it last."""
        if id(dataset) in self._datasets:
            return
        with _exchange:
            before = _last_users.get(id(dataset))
            stats = dataset.io_stats_incremental()
            if before is not None:
                before._charge(stats)
            self._datasets[id(dataset)] = dataset
            _last_users[id(dataset)] = self

    def _charge(self, stats: Any) -> None:
        with self._lock:
            self.by_kind[TABLES] += stats.read_iops + stats.write_iops
            self._read += stats.read_bytes
            self._written += stats.written_bytes

    @contextmanager
    def waiting(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.waited_s += time.perf_counter() - started

    def cost(self) -> StoreCost:
        """What was counted until now. Operations that read one table at the same time share its requests as they come."""
        for dataset in list(self._datasets.values()):
            self._charge(dataset.io_stats_incremental())
        with self._lock:
            tables = self.by_kind[TABLES]
            own = self.by_kind.total() - tables
            return StoreCost(own, self._hops, self._read, self._written, tables, self.lost_races, self.waited_s)


_last_users: WeakValueDictionary[int, Meter] = WeakValueDictionary()
"""By id of a dataset, which its users keep alive."""
_exchange = threading.Lock()
_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


current_meter: Callable[[], Meter | None] = _current.get


class Threads(ThreadPoolExecutor):
    """Threads whose work is counted by the meter of the thread that submits it."""

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        if _current.get() is None:
            return super().submit(fn, *args, **kwargs)
        context, work = copy_context(), functools.partial(fn, *args, **kwargs)
        return super().submit(lambda: context.run(work))


def metered(*names: str) -> Callable[[AnyStore], AnyStore]:
    """Decorates a store: each call of these methods is a request. They take a key, and perhaps the data to write."""

    def decorate(store: AnyStore) -> AnyStore:
        for name in names:
            method = getattr(store, name)
            counted = _counted_stream(method) if name == "chunks" else _counted(_KINDS.get(name, name), method)
            setattr(store, name, counted)
        return store

    return decorate


def _counted(kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(store: Any, key: Any, *arguments: Any, **options: Any) -> Any:
        meter = _current.get()
        if meter is None:
            return method(store, key, *arguments, **options)
        read, started = 0, time.perf_counter()
        token = _current.set(None)  # What the method calls is part of the same request.
        try:
            result = method(store, key, *arguments, **options)
            read = _size(result) if kind == "get" else 0
            return result
        finally:
            _current.reset(token)
            data = arguments[0] if kind in ("put", "create") else b""
            meter.add(kind, key if isinstance(key, str) else f"{len(key)} objects", started, read, len(data))

    return call


def _counted_stream(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(store: Any, key: str) -> Iterator[bytes]:
        meter, read, started = _current.get(), 0, time.perf_counter()
        try:
            for chunk in method(store, key):
                read += len(chunk)
                yield chunk
        finally:
            if meter is not None:
                meter.add("get", key, started, read, 0)

    return call


def _size(result: Any) -> int:
    if isinstance(result, list):
        return sum(map(len, result))
    return 0 if result is None else len(result)
