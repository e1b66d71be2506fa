"""Long ones: large upserts, many writers at once, and a cluster that loses a worker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline.conftest import Write, content, person

import omnigraph as og
from omnigraph import errors

pytestmark = pytest.mark.soak

WIDE = "node Row { k: I64 @key  a: String  b: F64 }"


def test_upsert_of_a_million_keys_into_five_million_rows(tmp_path: Path, engine: dict[str, Any]) -> None:
    graph = og.init(tmp_path / "wide", schema=WIDE, durability="process")
    base, change = 5_000_000, 1_000_000
    graph.load({"Row": wide(0, base, "old")}, mode="append", **engine)
    first = base - change // 2
    graph.load({"Row": wide(first, first + change, "new")}, mode="merge", **engine)
    table = graph.stores.head()[1].table("node:Row")
    assert table is not None
    assert table.rows == base + change // 2
    assert table.count("a = 'new'") == change
    assert table.count(f"a = 'old' AND k >= {first}") == 0
    ids = pa.chunked_array([batch.column(0) for batch in table.scan(["id"])])
    assert len(ids.unique()) == table.rows


def wide(first: int, last: int, word: str) -> pa.Table:
    import numpy as np

    keys = np.arange(first, last)
    return pa.table({"k": keys, "a": pa.repeat(pa.scalar(word), last - first), "b": keys / 2})


def test_two_loads_and_a_stream_of_mutations_at_once(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    """All land or fail with a typed conflict; every key is there once, with the value of a writer that landed."""
    uri = graph.stores.store.uri
    landed: dict[str, set[int]] = {}
    stuck: list[int] = []
    ended = threading.Event()
    lock = threading.Lock()

    def landing(keys: list[str], value: int) -> None:
        with lock:
            for key in keys:
                landed.setdefault(key, set()).add(value)

    def loads(number: int) -> None:
        mine = og.open(uri, durability="process")
        for turn in range(8):
            keys = [f"k{(number + turn + step) % 12}" for step in range(4)]
            source = write(f"l{number}-{turn}.jsonl", *(person(key, age=10 * number + turn) for key in keys))
            try:
                mine.load(source, mode="merge", engine="local")
            except errors.Contention:
                stuck.append(10 * number + turn)
            landing(keys, 10 * number + turn)

    def mutations() -> None:
        mine = og.open(uri, durability="process")
        turn = 0
        while not ended.wait(0.02):
            turn += 1
            with contextlib.suppress(errors.Conflict):
                mine.mutate(f'query put() {{ insert Person {{ email: "k{turn % 12}", age: {100 + turn % 20} }} }}')
                landing([f"k{turn % 12}"], 100 + turn % 20)

    loaders = [threading.Thread(target=loads, args=(number,)) for number in (1, 2)]
    stream = threading.Thread(target=mutations)
    for thread in [*loaders, stream]:
        thread.start()
    for thread in loaders:
        thread.join()
    ended.set()
    stream.join()
    for prepared in graph.recovery.list():
        graph.recovery.resume(prepared.commit_id)
        stuck.pop()
    assert stuck == []
    rows = {record["data"]["id"]: record["data"]["age"] for record in content(graph, tmp_path)}
    assert rows.keys() == landed.keys()
    assert all(age in landed[key] for key, age in rows.items())
    assert graph.recovery.list() == []


# ---------------------------------------------------------------- a cluster


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A standalone master and its workers on loopback, from the installed package alone."""
    import pyspark

    from omnigraph.pipeline import java

    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "JAVA_HOME": java.java_home(),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    launcher = str(home / "bin" / "spark-class")
    url = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", url]
    log = (folder / "cluster.log").open("wb")
    started = [
        subprocess.Popen([launcher, *arguments], env=environment, stdout=log, stderr=log, start_new_session=True)
        for arguments in [master, *([worker] * workers)]
    ]
    try:
        yield url, started[1:]
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()


LOADING = """
import json, sys
import omnigraph as og
graph = og.open(sys.argv[1])
print(json.dumps(graph.load(sys.argv[2], mode="append", master=sys.argv[3]).to_json()))
"""


def test_a_cluster_that_loses_a_worker_in_the_middle_of_a_load(graph: og.Graph, tmp_path: Path) -> None:
    people = 400_000
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(8):
        lines = (json.dumps(person(f"p{number}", age=number % 90)) for number in range(file, people, 8))
        (folder / f"{file}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with spark_cluster(tmp_path, workers=2) as (url, workers):
        loading = subprocess.Popen(
            [sys.executable, "-c", LOADING, graph.stores.store.uri, str(folder), url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        data = Path(graph.stores.store.uri) / "nodes"
        deadline = time.monotonic() + 300
        while not list(data.glob("Person-*/data/*")) and loading.poll() is None:
            assert time.monotonic() < deadline, "no task wrote anything"
            time.sleep(0.05)
        os.killpg(workers[0].pid, signal.SIGKILL)
        out, err = loading.communicate(timeout=600)
        assert loading.returncode == 0, err.decode()
    assert json.loads(out)["total_entities"] == people
    view = graph.stores.head()[1]
    table = view.table("node:Person")
    assert table is not None
    assert table.rows == people
    ids = pa.chunked_array([batch.column(0) for batch in table.scan(["id"])])
    assert len(ids.unique()) == people
    assert len(graph.commits()) == 2
