"""A stream into a graph whose drivers and executors die, and that is started twice: one commit a batch, no row twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline import stream_writer

import omnigraph as og

SCHEMA = "node Visit { name: String  age: I32? }"
"""Without a key: a row that is written twice is there twice."""

PATIENCE_S = 1_800


class Stream:
    """The graph, and a folder with a file for each micro-batch, as far as drivers live."""

    def __init__(self, folder: Path, batches: int, rows: int) -> None:
        self.graph = og.init(folder / "graph", schema=SCHEMA, durability="process")
        self.inbox = folder / "inbox"
        self.checkpoint = folder / "checkpoint"
        self.log = folder / "drivers.log"
        self.batches = batches
        self.names = [f"p{number}" for number in range(batches * rows)]
        self.inbox.mkdir()
        for batch in range(batches):
            visits = ({"name": name, "age": batch % 100} for name in self.names[batch * rows : (batch + 1) * rows])
            file = self.inbox / f"{batch:06}.json"
            file.write_text("".join(json.dumps(visit) + "\n" for visit in visits))
            # Files are taken by their time, then by their name.
            os.utime(file, (1_000_000_000, 1_000_000_000))

    @property
    def arguments(self) -> tuple[str, str, str]:
        return self.graph.uri, str(self.inbox), str(self.checkpoint)

    @property
    def commits(self) -> int:
        """Since the graph was made."""
        return self.graph.head().ref.seq - self.graph.commits(limit=10_000)[-1].ref.seq

    @contextlib.contextmanager
    def driver(self, master: str) -> Iterator[subprocess.Popen[bytes]]:
        """A driver that is killed at the end of the block, if it has not ended."""
        command = [sys.executable, stream_writer.__file__, *self.arguments, master]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def wait(self, commits: int, *processes: subprocess.Popen[bytes]) -> None:
        """Until there are so many commits, or one of the processes has ended. Each may take long."""
        seen, deadline = self.commits, time.monotonic() + PATIENCE_S
        while seen < commits and all(process.poll() is None for process in processes):
            assert time.monotonic() < deadline, self.log.read_text()[-2_000:]
            time.sleep(0.05)
            if self.commits > seen:
                seen, deadline = self.commits, time.monotonic() + PATIENCE_S

    def check(self) -> None:
        table = self.graph._repository.head()[1].table("node:Visit")
        assert table is not None
        found = sorted(table.read(["name"]).column("name").to_pylist())
        assert found == sorted(self.names)
        commits = self.graph.commits(limit=10_000)
        keys = [commit._write_key for commit in reversed(commits) if commit._write_key is not None]
        assert [key.number for key in keys] == list(range(self.micro_batches)), "one commit a batch"
        assert self.commits == self.micro_batches

    @property
    def micro_batches(self) -> int:
        """That the query has ended. Of a driver that died after it had noted a file, and before it made a batch of it, the next
        one makes a batch with the file after it too: there may be fewer than files."""
        return max(int(file.name) for file in (self.checkpoint / "commits").iterdir() if file.name.isdigit()) + 1


@pytest.mark.spark
def test_a_killed_driver_and_a_second_query_leave_one_commit_a_batch(tmp_path: Path, spark: Any) -> None:
    from omnigraph.spark.source import register

    register(spark)
    stream = Stream(tmp_path, batches=3, rows=3)
    with stream.driver("local[1]") as driver:
        stream.wait(1, driver)
    # The second query is one of the same id that knows only what the first had noted when it was killed.
    second = tmp_path / "second"
    shutil.copytree(stream.checkpoint, second)
    stream_writer.run(spark, *stream.arguments)
    stream_writer.run(spark, stream.graph.uri, str(stream.inbox), str(second))
    stream.check()


# ---------------------------------------------------------------- in the large


def executors_of(driver: subprocess.Popen[bytes]) -> list[int]:
    """The processes of executors that descend from a driver."""
    parents: dict[int, int] = {}
    executors = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                executors.append(pid)

    def descends(pid: int) -> bool:
        while pid not in (0, driver.pid):
            pid = parents.get(pid, 0)
        return pid == driver.pid

    return [pid for pid in executors if descends(pid)]


IN_PROCESS, WITH_EXECUTORS = "local[2]", "local-cluster[1,1,1024]"
EXECUTORS_PER_DRIVER = 4


@pytest.mark.soak
def test_a_long_stream_whose_drivers_and_executors_are_killed(tmp_path: Path) -> None:
    # Each driver that dies may leave two files to one batch.
    stream = Stream(tmp_path, batches=330, rows=20)
    kill_often(stream, drivers=30, executors=10)
    assert stream.micro_batches >= 300


def kill_often(stream: Stream, drivers: int, executors: int) -> None:
    """Kill so many drivers and executors at random; for a while there are two drivers. Then let one finish."""
    start = time.monotonic()
    dice = random.Random(3)
    killed = {"driver": 0, "executor": 0}
    while killed["driver"] < drivers:
        kills_executors = killed["executor"] < executors and killed["driver"] % 5 == 2
        master = WITH_EXECUTORS if kills_executors else IN_PROCESS
        with stream.driver(master) as driver:
            if kills_executors:
                killed["executor"] += kill_executors(stream, driver)
            target = stream.commits + dice.randrange(1, 12)
            if killed["driver"] == drivers // 2:
                with stream.driver(IN_PROCESS) as second:
                    stream.wait(target, driver, second)
            else:
                stream.wait(target, driver)
            killed["driver"] += driver.poll() is None
        print(f"{time.monotonic() - start:6.0f} s {stream.commits} commits, killed {killed}", flush=True)
        assert stream.commits < stream.batches, "there is something left for the last driver"
    with stream.driver(IN_PROCESS) as last:
        stream.wait(stream.batches, last)
        last.wait(PATIENCE_S)
        assert last.returncode == 0, stream.log.read_text()[-2_000:]
    assert killed["executor"] >= executors
    stream.check()
    print(
        f"{stream.batches} files, {stream.micro_batches} batches, {stream.commits} commits, {len(stream.names)} rows, killed {killed}"
    )


def kill_executors(stream: Stream, driver: subprocess.Popen[bytes]) -> int:
    """One after the other, each when it has done something; how many."""
    killed = 0
    for _ in range(EXECUTORS_PER_DRIVER):
        stream.wait(stream.commits + 1, driver)
        for executor in executors_of(driver):
            os.kill(executor, signal.SIGKILL)
            killed += 1
    return killed
