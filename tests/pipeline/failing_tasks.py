"""Loads whose tasks fail or die after they have done their work, or are beaten by another attempt; and the driver of such loads as a process
of its own.

    python failing_tasks.py <what dies: task, executor or machine> <graph> <master> <folder>
    python failing_tasks.py speculation <graph> <master> <folder>
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og
from omnigraph.load import assembly, checks, keyed_rows
from omnigraph.spark import runner

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person @card(0..) { since: I64? }
"""
MAKERS = ("_mapped", "_cutting", "_joining", "_over_batches")
"""What makes the functions that Spark's workers run, one for each frame of tasks."""
Work = Callable[[Iterator[Any]], Iterator[Any]]
PEOPLE, EDGES, FILES = 1_000, 20_000, 9


def failing(run: Work, mark: str, dies: str | None) -> Work:
    """The first attempt of the first task that ends fails after all of its work: it raises, or its process, its executor or its machine
    is killed. A function of a function: workers cannot import this file."""

    def failing_once(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import signal

        from pyspark import TaskContext

        def parent(pid: int) -> int:
            with open(f"/proc/{pid}/stat") as file:
                return int(file.read().rpartition(")")[2].split()[1])

        yield from run(batches)
        if TaskContext.get().attemptNumber() > 0:
            return
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if dies is None:
            raise OSError("the first attempt fails")
        # The processes above a worker: Python's daemon, the executor, the machine's worker.
        executor = parent(parent(os.getpid()))
        victims = {"task": [], "executor": [executor], "machine": [parent(executor), executor]}[dies]
        for victim in [*victims, os.getpid()]:
            os.kill(victim, signal.SIGKILL)

    return failing_once


@contextlib.contextmanager
def every_frame_fails(folder: Path, dies: str | None = None, only: int | None = None) -> Iterator[list[str]]:
    """In this block, a task of each frame fails once, or only one of the frame with a number. The marks of the frames."""
    marks: list[str] = []
    real = {name: getattr(runner, name) for name in MAKERS}

    def made(name: str, *arguments: Any) -> Work:
        mark = str(folder / f"{len(marks)}-{name}")
        marks.append(mark)
        work: Work = real[name](*arguments)
        return work if only not in (None, len(marks) - 1) else failing(work, mark, dies)

    for name in MAKERS:
        setattr(runner, name, lambda *arguments, name=name: made(name, *arguments))
    try:
        yield marks
    finally:
        for name, maker in real.items():
            setattr(runner, name, maker)


@contextlib.contextmanager
def as_large() -> Iterator[None]:
    """Loads of a few rows do what those of many do."""
    settings = [
        (assembly, "IN_PROCESS_ROWS", 0),
        (assembly, "MIN_INDEX_ROWS", 1),
        (assembly, "MAX_HELD_PAIRS", 2),
        (checks, "BUCKET_ROWS", 30_000),
        (keyed_rows, "MAX_LOOKUP", 0),
    ]
    real = [getattr(module, name) for module, name, _ in settings]
    for module, name, value in settings:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(settings, real, strict=True):
            setattr(module, name, value)


def write_files(folder: Path, age: int) -> str:
    """All people and edges, and with another age also some more of both."""
    for name in ("Person", "Knows"):
        (folder / name).mkdir(parents=True)
    people, edges = PEOPLE + age, EDGES + age
    for file in range(FILES):
        rows = range(file, people, FILES)
        pq.write_table(
            pa.table({"name": [f"p{row}" for row in rows], "age": [age] * len(rows)}), folder / f"Person/{file}.parquet"
        )
        rows = range(file, edges, FILES)
        ends = {end: [f"p{row * factor % people}" for row in rows] for end, factor in (("from", 7), ("to", 13))}
        ids = [f"e{row}" for row in rows]
        pq.write_table(pa.table({"id": ids, **ends, "since": [age] * len(rows)}), folder / f"Knows/{file}.parquet")
    return str(folder)


def content(graph: og.Graph, branch: str) -> list[list[Any]]:
    """Every row, by id."""
    view = graph._repository.head(branch)[1]
    tables = [view.table(key) for key in sorted(view.catalog.tables)]
    return [
        [] if table is None else sorted(map(tuple, (row.values() for row in table.read().to_pylist())))
        for table in tables
    ]


# ---------------------------------------------------------------- the driver


def die_at_every_stage(dies: str, graph: og.Graph, spark: Any, folder: Path) -> None:
    """An append and then a merge, once for each of their frames, on a branch of its own."""
    with as_large():
        for mode, data in (("append", write_files(folder / "append", 0)), ("merge", write_files(folder / "merge", 50))):
            marks = folder / f"none-{mode}"
            with every_frame_fails(marks, only=-1) as frames:
                graph.load(data, mode=mode, branch=f"{mode}-expected", from_="main", engine=spark)
            expected = content(graph, f"{mode}-expected")
            for number in range(len(frames)):
                marks = folder / f"{mode}-{number}"
                marks.mkdir()
                branch, began = f"{mode}-{number}", time.monotonic()
                with every_frame_fails(marks, dies, number):
                    receipt = graph.load(data, mode=mode, branch=branch, from_="main", engine=spark)
                died = [mark.name for mark in marks.iterdir()]
                is_same = content(graph, branch) == expected
                commits = len(graph.commits(branch)) - len(graph.commits("main"))
                report = {"mode": mode, "died": died, "is_same": is_same, "commits": commits}
                failed = sum(stage.failed_tasks for stage in receipt.stages)
                print(
                    json.dumps({**report, "failed": failed, "seconds": round(time.monotonic() - began, 1)}), flush=True
                )
            graph.load(data, mode=mode, engine=spark)


def late(function: Callable[..., Any], folder: str) -> Callable[..., Any]:
    """Work whose first attempt in the first partition waits until there is a commit, and then does all of its work."""

    def waiting(*arguments: Any) -> Any:
        import os
        import time

        from pyspark import TaskContext

        task = TaskContext.get()
        if task.partitionId() != 0 or task.attemptNumber() != 0:
            return function(*arguments)
        # Nothing more can be read from Spark once another attempt has won.
        held = [list(each) if hasattr(each, "__next__") else each for each in arguments]
        while not os.path.exists(f"{folder}/published"):
            time.sleep(0.02)
        result = function(*(iter(each) if isinstance(each, list) else each for each in held))
        open(f"{folder}/ended", "x").close()
        return result

    return waiting


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "3s",
    # The attempt that was beaten goes on.
    "spark.python.task.killTimeout": "600s",
}


def beaten(graph: og.Graph, folder: Path, load: Callable[[], object]) -> None:
    """A load, of whose first task two attempts write all of the rows: the second before the commit, the first after it."""
    folder.mkdir()
    before = len(graph.commits())
    load()
    ended_before = (folder / "ended").exists()
    (folder / "published").touch()
    deadline = time.monotonic() + 60
    while not (folder / "ended").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    table = graph._repository.head()[1].table("edge:Knows")
    assert table is not None
    ids = table.read(["id"]).column("id").to_pylist()
    files = sum(1 for _ in Path(graph.uri, table.path, "data").iterdir())
    report = {"ended_before": ended_before, "ended_after": (folder / "ended").exists(), "rows": len(ids)}
    named = sum(len(fragment.files) for fragment in table.fragments)
    report |= {"ids": len(set(ids)), "commits": len(graph.commits()) - before, "other_files": files - named}
    print(json.dumps(report), flush=True)


def speculate(graph: og.Graph, spark: Any, folder: Path) -> None:
    from omnigraph.spark import source

    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{number}"} for number in range(10)])
    schema = "from string, to string, since long"
    files = folder / "edges" / "Knows"
    spark.range(40).selectExpr("'p1' AS `from`", "'p2' AS `to`", "id AS since").repartition(4).write.parquet(str(files))
    frame = spark.read.schema(schema).parquet(str(files)).repartition(4)
    real_map, real_map_frame = runner.SparkRunner.map, runner.SparkRunner.map_frame

    def slow_map(self: Any, stage: str, function: Any, tasks: Any) -> Any:
        return real_map(self, stage, late(function, place) if stage == "read" else function, tasks)

    def slow_map_frame(self: Any, stage: str, function: Any, frame: Any) -> Any:
        return real_map_frame(self, stage, late(function, place), frame)

    runner.SparkRunner.map, runner.SparkRunner.map_frame = slow_map, slow_map_frame  # type: ignore[method-assign]
    place = str(folder / "files")
    beaten(graph, folder / "files", lambda: graph.load(str(folder / "edges"), mode="append", engine=spark, conf=SMALL))
    place = str(folder / "frame")
    beaten(graph, folder / "frame", lambda: graph.load({"Knows": frame}, mode="append", engine=spark))
    runner.SparkRunner.map, runner.SparkRunner.map_frame = real_map, real_map_frame  # type: ignore[method-assign]
    place = str(folder / "source")

    class SlowWriter(source.TableWriter):
        def write(self, iterator: Iterator[Any]) -> Any:
            return late(source.TableWriter(self.rows).write, place)(iterator)

    class SlowSource(source.OmnigraphSource):
        def writer(self, schema: Any, overwrite: bool) -> Any:
            return SlowWriter(source.OmnigraphSource(self.options).writer(schema, overwrite).rows)

    spark.dataSource.register(SlowSource)
    sink = frame.write.format("omnigraph").option("graph", graph.uri).option("type", "Knows").mode("append")
    beaten(graph, folder / "source", sink.save)


SMALL = {"spark.omnigraph.splitBytes": "512"}


if __name__ == "__main__":
    from omnigraph.spark.sessions import spark_session

    what, address, master, place = sys.argv[1:5]
    opened = og.open(address, durability="process")
    session = spark_session(master, memory="1g", conf=SPECULATION if what == "speculation" else None)
    if what == "speculation":
        speculate(opened, session, Path(place))
    else:
        die_at_every_stage(what, opened, session, Path(place))
    session.stop()
