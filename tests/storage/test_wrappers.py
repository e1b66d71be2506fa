"""The wrappers count, slow down and break exactly what they are told to."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import ObjectExists, ObjectMissing, StorageTransient
from omnigraph.storage.options import open_store
from omnigraph.testing.stores import CountingStore, Fault, FaultyStore, LatencyStore, SimulatedCrash, sequential_hops


@pytest.mark.parametrize(
    ("intervals", "hops"),
    [
        ([], 0),
        ([(0, 1)], 1),
        ([(0, 1), (1, 2), (2, 3)], 3),
        ([(0, 1), (0, 1), (0.5, 1.5)], 1),
        ([(0, 1), (0, 3), (2, 4), (5, 6)], 3),
        ([(0, 10), (1, 2), (3, 4), (5, 6)], 3),
        ([(5, 6), (0, 10), (3, 4), (1, 2)], 3),
    ],
    ids=["none", "one", "row", "side by side", "mixed", "beside a long one", "in any order"],
)
def test_hops_are_the_longest_row_of_requests_that_waited(intervals: list[tuple[float, float]], hops: int) -> None:
    assert sequential_hops(intervals) == hops


def test_counting_by_kind_and_bytes() -> None:
    store = CountingStore(open_store("memory://"))
    store.create("f/a", b"12345")
    store.put("f/b", b"678")
    with pytest.raises(ObjectExists):
        store.create("f/a", b"12")
    assert store.get("f/a") == b"12345"
    with pytest.raises(ObjectMissing):
        store.get("f/c")
    store.list("f", limit=1)
    store.list_folders("")
    store.info("f/a")
    store.delete("f/a")
    store.delete_prefix("f")

    counts = store.snapshot()
    assert counts.by_kind == {
        "create": 2, "put": 1, "get": 2, "list": 1, "list_folders": 1, "info": 1, "delete": 1, "delete_prefix": 1
    }  # fmt: skip
    assert counts.requests == 10
    assert (counts.bytes_in, counts.bytes_out) == (5 + 3 + 2, 5)
    assert counts.hops == 10
    assert store.requests()[0].key == "f/a"


def test_counting_starts_anew_after_a_reset() -> None:
    store = CountingStore(open_store("memory://"))
    store.put("a", b"1")
    store.reset()
    assert store.snapshot().requests == 0
    assert store.snapshot().hops == 0


def test_requests_side_by_side_are_one_hop() -> None:
    together = threading.Barrier(4)
    # All four are inside the store before any of them may leave it.
    store = CountingStore(LatencyStore(open_store("memory://"), seconds=1, sleep=lambda _: together.wait() and None))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: store.put(str(number), b""), range(4)))
    assert store.snapshot().requests == 4
    assert store.snapshot().hops == 1


def test_latency_is_paid_by_every_request_before_it_is_applied() -> None:
    inner = open_store("memory://")
    slept: list[tuple[float, int]] = []
    store = LatencyStore(inner, seconds=0.03, sleep=lambda seconds: slept.append((seconds, len(inner.list("")))))
    store.put("a", b"")
    store.get("a")
    assert slept == [(0.03, 0), (0.03, 1)]


@pytest.mark.parametrize(("together", "met"), [(2, True), (3, False)])
def test_as_many_requests_as_the_cap_allows_are_under_way_at_once_and_no_more(together: int, met: bool) -> None:
    meeting = threading.Barrier(together)

    def meet(_: float) -> None:
        # Three wait in vain: the third is not let in while two are inside.
        meeting.wait(timeout=30 if met else 0.3)

    store = LatencyStore(open_store("memory://"), seconds=1, concurrency=2, sleep=meet)
    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(store.put, str(number), b"") for number in range(6)]
    assert {type(each.exception()) for each in running} == {type(None) if met else threading.BrokenBarrierError}


def test_an_answer_is_lost_after_the_write_was_applied() -> None:
    inner = open_store("memory://")
    store = FaultyStore(inner, Fault("answer_lost", "create", "branches/*"))
    store.create("other", b"")
    with pytest.raises(StorageTransient) as raised:
        store.create("branches/main/1", b"mine")
    assert raised.value.outcome == "unknown"
    assert inner.get("branches/main/1") == b"mine"
    with pytest.raises(ObjectExists):
        store.create("branches/main/1", b"mine")
    assert store.fired() == (("answer_lost", "create", "branches/main/1"),)


def test_a_lost_answer_to_a_refused_create_is_the_refusal() -> None:
    store = FaultyStore(open_store("memory://"), Fault("answer_lost", "create", skip=1))
    store.create("a", b"")
    with pytest.raises(ObjectExists):
        store.create("a", b"")


def test_refused_n_times_then_served() -> None:
    inner = open_store("memory://")
    store = FaultyStore(inner, Fault("refused", "put", times=2, skip=1))
    store.put("a", b"0")
    for _ in range(2):
        with pytest.raises(StorageTransient):
            store.put("a", b"1")
        assert inner.get("a") == b"0"
    store.put("a", b"2")
    assert store.get("a") == b"2"


def test_slow_calls_wait_and_go_on() -> None:
    slept: list[float] = []
    store = FaultyStore(open_store("memory://"), Fault("slow", "get", seconds=7), sleep=slept.append)
    store.put("a", b"1")
    assert store.get("a") == b"1"
    assert store.get("a") == b"1"
    assert slept == [7]


@pytest.mark.parametrize(("kind", "applied"), [("crash_before", False), ("crash_after", True)])
def test_a_crash_is_before_or_after_and_the_dead_do_nothing_more(kind: str, applied: bool) -> None:
    inner = open_store("memory://")
    store = FaultyStore(inner, Fault(kind, "create"))  # type: ignore[arg-type] # the two kinds above
    with pytest.raises(SimulatedCrash):
        store.create("a", b"")
    assert bool(inner.list("")) is applied
    with pytest.raises(SimulatedCrash):
        store.put("clean-up", b"")
    assert [info.key for info in inner.list("")] == (["a"] if applied else [])
    FaultyStore(inner).put("next", b"")


def test_a_simulated_crash_is_not_caught_as_an_exception() -> None:
    assert not issubclass(SimulatedCrash, Exception)
