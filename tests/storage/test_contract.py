"""What every store promises, run on memory, local disk and a real S3 server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from omnigraph.errors import ObjectExists, ObjectMissing, StorageError, StorageTransient, UsageError
from omnigraph.storage.store import Store
from omnigraph.testing.stores import CountingStore, FaultyStore, LatencyStore


def keys(store: Store, prefix: str = "", limit: int | None = None) -> list[str]:
    return [info.key for info in store.list(prefix, limit=limit)]


def test_what_is_written_is_read_back(store: Store) -> None:
    for data in (b"", b"one", bytes(range(256)) * 4096):
        store.put("folder/object", data)
        assert store.get("folder/object") == data
        assert store.info("folder/object").size == len(data)


@pytest.mark.parametrize("spans", [[(3, 0)], [(1, 2), (4, 0), (0, 1)], [(2, 9)], []])
def test_any_ranges_are_read_also_empty_ones(store: Store, spans: list[tuple[int, int]]) -> None:
    store.put("ranges", b"abcde")
    assert store.get_ranges("ranges", spans) == [b"abcde"[start : start + length] for start, length in spans]


def test_an_object_of_any_size_is_filled_from_a_stream_and_read_as_one(store: Store) -> None:
    for pieces in ([], [b"one"], [bytes([number]) * 3_000_000 for number in range(7)]):
        store.fill("folder/object", iter(pieces))
        assert b"".join(store.chunks("folder/object")) == b"".join(pieces)
        assert store.info("folder/object").size == sum(map(len, pieces))
    with pytest.raises(ObjectMissing):
        next(store.chunks("folder/nothing"))


def test_a_stream_that_breaks_leaves_what_was_there(store: Store) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 100
        raise StorageTransient("the other store is gone", key="there")

    store.put("object", b"before")
    with pytest.raises(StorageError):
        store.fill("object", broken())
    assert store.get("object") == b"before"
    assert keys(store) == ["object"]


def test_create_takes_a_free_key_once_and_leaves_the_first_bytes(store: Store) -> None:
    store.create("branches/main/1.json", b"first")
    with pytest.raises(ObjectExists) as raised:
        store.create("branches/main/1.json", b"second")
    assert raised.value.key == "branches/main/1.json"
    assert "branches/main/1.json" in raised.value.message
    assert store.uri in raised.value.message
    assert store.get("branches/main/1.json") == b"first"


def test_create_after_delete_takes_the_key_again(store: Store) -> None:
    store.create("a", b"first")
    store.delete("a")
    store.create("a", b"second")
    assert store.get("a") == b"second"


def test_put_replaces(store: Store) -> None:
    store.create("a", b"first, and longer")
    store.put("a", b"second")
    assert store.get("a") == b"second"
    assert keys(store) == ["a"]


@pytest.mark.parametrize("ask", ["get", "info"])
@pytest.mark.parametrize("key", ["nothing", "no/such/folder", "folder", "folder/object/below"])
def test_what_is_not_there_is_missing(store: Store, ask: str, key: str) -> None:
    store.put("folder/object", b"x")
    with pytest.raises(ObjectMissing) as raised:
        getattr(store, ask)(key)
    assert raised.value.key == key
    assert store.uri in raised.value.message


def test_a_listing_is_in_key_order_at_every_depth_and_only_below_the_folder(store: Store) -> None:
    below = ["t/a-b", "t/a.c", "t/a/1", "t/a/b/2", "t/a0", "t/b/1", "t/B"]
    for key in [*below, "t2/x", "s/x", "t-/x"]:
        store.put(key, b"12")
    assert keys(store, "t") == sorted(below)
    assert keys(store, "t/") == sorted(below)
    assert keys(store) == sorted([*below, "t2/x", "s/x", "t-/x"])
    assert {info.size for info in store.list("t")} == {2}
    assert keys(store, "nowhere") == []


def test_a_limited_listing_is_the_beginning_of_the_whole_one(store: Store) -> None:
    for number in range(30):
        store.put(f"c/{number % 5}{'/' if number % 2 else '-'}{number:03}", b"")
    whole = keys(store, "c")
    assert len(whole) == 30
    for limit in (0, 1, 2, 7, 29, 30, 31):
        assert keys(store, "c", limit) == whole[:limit]


def test_folders_are_the_immediate_ones_that_hold_something(store: Store) -> None:
    for key in ("b/feature%2Fone/1", "b/main/1", "b/main/deep/er/2", "b/file", "c/x"):
        store.put(key, b"")
    assert store.list_folders("b") == ["feature%2Fone", "main"]
    assert store.list_folders("") == ["b", "c"]
    assert store.list_folders("b/main") == ["deep"]
    assert store.list_folders("nowhere") == []
    store.delete("b/feature%2Fone/1")
    assert store.list_folders("b") == ["main"]


def test_awkward_names_survive(store: Store) -> None:
    awkward = ["b/feature%2Flogin/1.json", "b/naïve ☃/1", "b/a b+c&d=e#f?g/1", "b/...x", "b/~'\"", "b/%25"]
    for key in awkward:
        store.create(key, key.encode())
    assert keys(store, "b") == sorted(awkward)
    for key in awkward:
        assert store.get(key) == key.encode()
        assert store.info(key).key == key
        store.delete(key)
    assert keys(store) == []


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/./b", "a/..", ".tmp-x", "a/.tmp-x/b", "a\0b"])
def test_keys_that_could_mean_different_things_are_refused(store: Store, key: str) -> None:
    for refused in (store.get, store.info, store.delete):
        with pytest.raises(UsageError):
            refused(key)
    for write in (store.put, store.create):
        with pytest.raises(UsageError):
            write(key, b"")


def test_delete_is_idempotent_and_takes_one_object(store: Store) -> None:
    store.put("a/1", b"")
    store.put("a/12", b"")
    store.delete("a/1")
    store.delete("a/1")
    store.delete("never/was")
    store.delete("a")
    assert keys(store) == ["a/12"]


def test_delete_prefix_takes_the_folder_and_nothing_beside_it(store: Store) -> None:
    for key in ("a/1", "a/b/2", "a/b/c/3", "ab/4", "a-/5"):
        store.put(key, b"")
    assert store.delete_prefix("a") == 3
    assert keys(store) == ["a-/5", "ab/4"]
    assert store.delete_prefix("a") == 0


def test_the_age_of_an_object_is_known_in_utc(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    store.put("a", b"")
    after = datetime.now(UTC) + timedelta(seconds=2)
    for info in (store.info("a"), *store.list("")):
        assert info.modified.utcoffset() == timedelta(0)
        assert before <= info.modified <= after


def test_of_many_concurrent_creates_one_wins_and_its_bytes_stay(store: Store) -> None:
    threads = 16
    for position in range(8):
        key = f"branches/main/{position}"
        start = threading.Barrier(threads)

        def attempt(number: int, start: threading.Barrier = start, key: str = key) -> bool:
            start.wait()
            try:
                store.create(key, b"%d" % number)
            except ObjectExists:
                return False
            return True

        with ThreadPoolExecutor(threads) as pool:
            won = list(pool.map(attempt, range(threads)))
        assert sum(won) == 1
        assert store.get(key) == b"%d" % won.index(True)


def test_a_reader_never_sees_half_an_object(store: Store) -> None:
    versions = [bytes([digit]) * 200_000 for digit in range(4)]
    store.put("a", versions[0])
    stop = threading.Event()

    def write() -> None:
        for data in versions * 5:
            store.put("a", data)
        stop.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not stop.is_set() and not writing.done():
            assert store.get("a") in versions
        writing.result()


def test_wrapped_stores_keep_the_contract(store: Store) -> None:
    wrapped = FaultyStore(LatencyStore(CountingStore(store), seconds=0, concurrency=2))
    assert wrapped.uri == store.uri
    wrapped.create("f/a", b"1")
    with pytest.raises(ObjectExists):
        wrapped.create("f/a", b"2")
    wrapped.put("f/b", b"2")
    assert wrapped.get("f/a") == b"1"
    assert keys(wrapped, "f", 1) == [wrapped.info("f/a").key] == ["f/a"]
    assert wrapped.list_folders("") == ["f"]
    wrapped.delete("f/a")
    assert wrapped.delete_prefix("f") == 1
    with pytest.raises(ObjectMissing):
        wrapped.get("f/a")
