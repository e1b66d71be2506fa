"""Loads whose tasks fail, die or are beaten in every stage: exactly their rows, one commit, and nothing is left running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline import failing_tasks
from pipeline.conftest import Write
from pipeline.test_faults import AFTER_THE_COMMIT, BEFORE_THE_PLAN, WITH_A_PLAN, check_killed

import omnigraph as og

PATIENCE_S = 900
STAGES = {"read", "check keys", "compare", "remove", "check rules", "find equal edges", "indexes", "adjacency"}


@pytest.fixture
def people(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "people", failing_tasks.SCHEMA, durability="process")


@pytest.mark.spark
def test_a_task_of_every_stage_fails_after_its_work(people: og.Graph, spark: Any, tmp_path: Path) -> None:
    data, marks = failing_tasks.write_files(tmp_path / "merge", 50), tmp_path / "marks"
    marks.mkdir()
    people.load(failing_tasks.write_files(tmp_path / "append", 0), mode="append", engine="local")
    people.load(data, mode="merge", branch="expected", from_="main", engine="local")
    with failing_tasks.as_large(), failing_tasks.every_frame_fails(marks) as frames:
        receipt = people.load(data, mode="merge", engine=spark)
    assert {stage.stage for stage in receipt.stages} >= STAGES
    assert len(list(marks.iterdir())) == len(frames) >= len(STAGES), "a task of each frame failed"
    assert failing_tasks.content(people, "main") == failing_tasks.content(people, "expected")
    assert [commit.kind for commit in people.commits()].count("load") == 2
    assert people.maintenance.verify(deep=True).is_whole


# ---------------------------------------------------------------- on clusters


class Cluster:
    """A standalone master and two workers on two addresses of loopback, from the installed package alone."""

    HOSTS = ("127.0.0.1", "127.0.0.2")
    """Spark tries a slow task again on another host only."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self.url = f"spark://127.0.0.1:{self._port}"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        self._launch(self.HOSTS[0], "master.Master", "--port", self._port)
        self.keep_workers()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def keep_workers(self) -> None:
        """Start what is not there, or has been killed."""
        for host in self.HOSTS:
            if host not in self.workers or self.workers[host].poll() is not None:
                self.workers[host] = self._launch(host, "worker.Worker", "--cores", "1", "--memory", "1g", self.url)

    def _launch(self, host: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        from omnigraph.spark import java

        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "JAVA_HOME": java.java_home(),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(self._folder / "work"),
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", "--host", host]
        with (self._folder / "cluster.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def executors(self) -> list[int]:
        """The executors of this cluster, and Python's daemons and workers below them."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self._folder / "work").encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return [pid for pid in found if pid not in {process.pid for process in self._processes}]

    def wait_until_idle(self) -> None:
        """Until no executor is left."""
        deadline = time.monotonic() + PATIENCE_S
        while left := self.executors():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def driver(what: str, graph: og.Graph, master: str, folder: Path, meanwhile: Callable[[], None]) -> list[Any]:
    """What a driver of failing loads has to say."""
    out, err = folder / f"{what}.out", folder / f"{what}.err"
    command = [sys.executable, failing_tasks.__file__, what, graph.uri, master, str(folder)]
    with out.open("wb") as said, err.open("wb") as log:
        process = subprocess.Popen(command, stdout=said, stderr=log)
        try:
            seen, deadline = 0, time.monotonic() + PATIENCE_S
            while process.poll() is None:
                meanwhile()
                if (size := out.stat().st_size) > seen:
                    seen, deadline = size, time.monotonic() + PATIENCE_S
                assert time.monotonic() < deadline, err.read_text()[-2_000:]
                time.sleep(0.2)
        finally:
            process.kill()
            process.wait()
    print(out.read_text())
    assert process.returncode == 0, err.read_text()[-5_000:]
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.soak
@pytest.mark.parametrize(("dies", "on_cluster"), [("task", False), ("executor", True), ("machine", True)])
def test_what_runs_a_task_of_every_stage_is_killed_after_its_work(
    dies: str, on_cluster: bool, people: og.Graph, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster = request.getfixturevalue("cluster") if on_cluster else None
    master = "local[2,3]" if cluster is None else cluster.url
    loads = driver(dies, people, master, tmp_path, lambda: None if cluster is None else cluster.keep_workers())
    assert {load["mode"] for load in loads} == {"append", "merge"}
    assert len(loads) >= len(STAGES) + 4
    for load in loads:
        assert (len(load["died"]), load["is_same"], load["commits"]) == (1, True, 1), load
    assert people.maintenance.verify(deep=True).is_whole
    if cluster is not None:
        cluster.wait_until_idle()


@pytest.mark.soak
def test_an_attempt_that_was_beaten_and_ends_after_the_commit_adds_no_row(
    people: og.Graph, tmp_path: Path, cluster: Cluster
) -> None:
    cluster.keep_workers()
    loads = driver("speculation", people, cluster.url, tmp_path, lambda: None)
    assert [load["rows"] for load in loads] == [40, 80, 120]
    for load in loads:
        assert (load["ids"], load["commits"]) == (load["rows"], 1)
        assert (load["ended_before"], load["ended_after"]) == (False, True)
    assert [load["other_files"] for load in loads] == [1, 2, 3], "each was written once more, and is in no commit"
    assert people.maintenance.verify(deep=True).is_whole
    cluster.wait_until_idle()


@pytest.mark.soak
@pytest.mark.parametrize("point", BEFORE_THE_PLAN + WITH_A_PLAN + AFTER_THE_COMMIT)
def test_the_driver_of_a_cluster_is_killed_at_every_point(
    point: str, graph: og.Graph, write: Write, tmp_path: Path, cluster: Cluster
) -> None:
    cluster.keep_workers()
    check_killed(point, graph, write, tmp_path, cluster.url)
    cluster.wait_until_idle()
