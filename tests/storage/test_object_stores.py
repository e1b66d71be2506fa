"""What is special on S3: one request per page, conditional puts, lost answers, and the errors of a client."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from s3_server import Recorder, S3Server

from omnigraph.errors import ObjectExists, StorageDenied, StorageError, StoragePermanent, StorageTransient, UsageError
from omnigraph.storage.options import open_store, storage_options_for
from omnigraph.storage.store import Store

pytestmark = pytest.mark.s3


@pytest.fixture
def bucket(s3: S3Server) -> str:
    name = s3.new_bucket()
    s3.reset()
    return name


def opened(s3: S3Server, bucket: str, **options: str) -> Store:
    return open_store(f"s3://{bucket}/graph", storage_options=s3.options | options)


def test_each_operation_is_one_request(s3: S3Server, bucket: str) -> None:
    store = opened(s3, bucket)
    s3.reset()
    store.create("c/1", b"one")
    store.put("c/2", b"two")
    store.get("c/1")
    store.info("c/1")
    store.list("c")
    store.list_folders("")
    store.delete("c/1")
    log = s3.requests()
    assert [request.kind for request in log] == ["CREATE", "PUT", "GET", "HEAD", "LIST", "LIST", "POST"]
    assert [request.key for request in log[:4]] == ["graph/c/1", "graph/c/2", "graph/c/1", "graph/c/1"]
    assert {request.bucket for request in log} == {bucket}
    assert log[0].bytes_in == 3
    assert log[2].bytes_out == 3


def test_a_limited_listing_is_one_request_however_many_objects_there_are(s3: S3Server, bucket: str) -> None:
    store = opened(s3, bucket)
    for number in range(1001):
        store.put(f"c/{number:05}", b"")
    s3.reset()
    assert [info.key for info in store.list("c", limit=2)] == ["c/00000", "c/00001"]
    assert len(store.list("c", limit=1000)) == 1000
    assert [request.kind for request in s3.requests()] == ["LIST", "LIST"]
    s3.reset()
    assert len(store.list("c")) == 1001
    assert store.delete_prefix("c") == 1001
    assert store.list("c") == []


def test_a_repeated_create_whose_answer_was_lost_reports_exists_for_its_own_object(s3: S3Server, bucket: str) -> None:
    store = opened(s3, bucket)
    s3.fault("answer_lost", method="PUT", key="*c/1")
    with pytest.raises(ObjectExists):
        store.create("c/1", b"mine")
    assert store.get("c/1") == b"mine"
    assert [request.status for request in s3.requests() if request.kind == "CREATE"] == [200, 412]


def test_without_repetition_a_lost_answer_is_transient_and_applied(s3: S3Server, bucket: str) -> None:
    store = opened(s3, bucket, client_max_retries="0")
    s3.fault("answer_lost", method="PUT", key="*c/1")
    with pytest.raises(StorageTransient) as raised:
        store.create("c/1", b"mine")
    assert raised.value.outcome == "unknown"
    assert store.get("c/1") == b"mine"


def test_a_server_that_is_busy_for_a_moment_is_asked_again(s3: S3Server, bucket: str) -> None:
    store = opened(s3, bucket)
    s3.fault("refused", method="PUT", times=2)
    store.create("c/1", b"mine")
    assert [request.status for request in s3.requests() if request.kind == "CREATE"] == [503, 503, 200]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (500, StorageTransient),
        (503, StorageTransient),
        (429, StorageTransient),
        (408, StorageTransient),
        (403, StorageDenied),
        (401, StorageDenied),
        (400, StoragePermanent),
    ],
)
@pytest.mark.parametrize("operation", ["create", "get", "list"])
def test_answers_keep_their_meaning(
    s3: S3Server, bucket: str, operation: str, status: int, expected: type[StorageError]
) -> None:
    store = opened(s3, bucket, client_max_retries="0")
    store.put("c/1", b"")
    s3.fault("refused", status=status)
    with pytest.raises(expected) as raised:
        store.create("c/2", b"") if operation == "create" else getattr(store, operation)("c")
    assert raised.value.hint
    assert store.uri in raised.value.message
    assert "<" not in raised.value.message


def test_two_conditional_puts_that_met_are_told_to_try_again_not_that_the_key_is_taken(
    s3: S3Server, bucket: str
) -> None:
    store = opened(s3, bucket, client_max_retries="0")
    s3.fault("refused", method="PUT", status=409, code="ConditionalRequestConflict")
    with pytest.raises(StorageTransient):
        store.create("a", b"")
    store.create("a", b"")


def test_a_missing_bucket_is_a_lasting_error_not_a_missing_object(s3: S3Server) -> None:
    store = open_store("s3://no-such-bucket/graph", storage_options=s3.options)
    for call in (
        lambda: store.get("a"),
        lambda: store.put("a", b""),
        lambda: store.create("a", b""),
        lambda: store.list(""),
        lambda: store.list_folders(""),
        lambda: store.delete("a"),
    ):
        with pytest.raises(StoragePermanent) as raised:
            call()
        assert "bucket does not exist" in (raised.value.hint or "")


def test_a_refused_connection_is_transient() -> None:
    with socket.socket() as deaf:
        # Bound, so that the port is nobody else's, and not listening.
        deaf.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        options = {"aws_endpoint": endpoint, "aws_skip_signature": "true", "client_max_retries": "1"}
        store = open_store("s3://bucket/graph", storage_options=options | {"aws_region": "us-east-1"})
        for call in (lambda: store.get("a"), lambda: store.create("a", b""), lambda: store.list("")):
            with pytest.raises(StorageTransient):
                call()


def test_a_server_that_does_not_answer_in_time_is_transient(s3: S3Server, bucket: str) -> None:
    store = opened(s3, bucket, client_max_retries="0", timeout="200ms")
    s3.fault("slow", method="PUT", seconds=2)
    with pytest.raises(StorageTransient):
        store.create("a", b"")


def test_the_log_begins_anew_even_while_a_request_is_under_way() -> None:
    """One that its client gave up on is answered all the same; who looks next must not find it among its own."""

    async def nothing() -> dict[str, Any]:
        return {"type": "http.request"}

    async def unheard(_: object) -> None: ...

    async def seen() -> list[str]:
        served = asyncio.Event()

        async def inner(*_: object) -> None:
            await served.wait()

        def request(path: str) -> Coroutine[Any, Any, None]:
            scope = {"path": path, "raw_path": path.encode(), "method": "PUT", "headers": [], "query_string": b""}
            return recorder(scope, nothing, unheard)

        recorder = Recorder(inner)
        before = asyncio.create_task(request("/bucket/before"))
        await asyncio.sleep(0)
        await request("/_reset")
        after = asyncio.create_task(request("/bucket/after"))
        served.set()
        await asyncio.gather(before, after)
        return [entry["key"] for entry in recorder.log]

    assert asyncio.run(seen()) == ["after"]


def test_hops_count_requests_that_wait_for_each_other(s3: S3Server, bucket: str) -> None:
    store = opened(s3, bucket)
    s3.meeting(8)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(f"{number}", b""), range(8)))
    store.get("1")
    store.get("2")
    assert len(s3.requests()) == 8 + 2
    assert s3.hops() == 3


_start: threading.Barrier
"""In a racing process: where all of them meet before each race."""


def _race_from(start: threading.Barrier) -> None:
    global _start
    _start = start


def _race(uri: str, options: dict[str, str], number: int) -> list[bool]:
    """Ten races against the other processes; for each whether this one won."""
    store = open_store(uri, storage_options=options)
    won = []
    for position in range(10):
        _start.wait(timeout=60)
        try:
            store.create(f"branches/main/{position}", b"%d" % number)
            won.append(True)
        except ObjectExists:
            won.append(False)
    return won


@pytest.mark.parametrize("backend", ["local", "s3"])
def test_of_racing_processes_one_wins_each_position(s3: S3Server, tmp_path: Path, backend: str) -> None:
    uri = str(tmp_path / "graph") if backend == "local" else f"s3://{s3.new_bucket()}/graph"
    options = {} if backend == "local" else s3.options
    processes, context = 4, multiprocessing.get_context("spawn")
    start = context.Barrier(processes)
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_race_from, initargs=(start,)) as pool:
        running = [pool.submit(_race, uri, options, number) for number in range(processes)]
        results = [each.result() for each in running]
    store = open_store(uri, storage_options=options)
    for position in range(10):
        winners = [number for number in range(processes) if results[number][position]]
        assert len(winners) == 1
        assert store.get(f"branches/main/{position}") == b"%d" % winners[0]


def test_lance_opens_the_same_place_with_the_resolved_options(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lance
    import pyarrow as pa

    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3.url,
    }.items():
        monkeypatch.setenv(name, value)
    uri = f"s3://{bucket}/graph"
    options = storage_options_for(uri)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    lance.write_dataset(pa.table({"id": [1, 2]}), f"{uri}/nodes/T", storage_options=options)
    store = open_store(uri, storage_options=options)
    assert store.list_folders("nodes") == ["T"]
    assert any(request.key.startswith("graph/nodes/T/data/") for request in s3.requests())


def test_an_unknown_option_is_refused_by_name(s3: S3Server) -> None:
    with pytest.raises(UsageError, match="aws_regoin"):
        open_store("s3://bucket/graph", storage_options={"aws_regoin": "x"})
