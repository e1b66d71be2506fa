"""No two rows of a graph have the same generated id, however they came; and a load whose rows do is refused."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from children import Child

import omnigraph as og
from omnigraph.errors import KeyConflict, UniqueViolation
from omnigraph.language.projection import arrow_schema
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.load import fragments, job
from omnigraph.records.ids import FreshIds
from omnigraph.records.rows import TypedRows
from omnigraph.tasks.runner import LocalRunner

SCHEMA = """
node Person { name: String @key }
node Note { text: String }
edge Knows: Person -> Person { since: I64? }
"""
PEOPLE = 10
PARTS = 8
ROWS = 3
SMALL_SPLITS = {"spark.omnigraph.splitBytes": "512"}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "graph", SCHEMA, durability="process")
    with made.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{number}"} for number in range(PEOPLE)])
    return made


def ids(graph: og.Graph, key: str = "edge:Knows") -> list[str]:
    table = graph._repository.head()[1].table(key)
    found: list[str] = [] if table is None else table.read(["id"]).column("id").to_pylist()
    return found


def check(graph: og.Graph, rows: int, key: str = "edge:Knows") -> None:
    found = ids(graph, key)
    assert (len(found), len(set(found))) == (rows, rows)


def edges(part: int, rows: int = ROWS) -> list[dict[str, Any]]:
    return [{"from": f"p{row % PEOPLE}", "to": f"p{part % PEOPLE}", "since": row} for row in range(rows)]


def as_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    records = [{"edge": "Knows", "from": row["from"], "to": row["to"], "data": {"since": row["since"]}} for row in rows]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def as_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = ["from,to,since", *(f"{row['from']},{row['to']},{row['since']}" for row in rows)]
    path.with_suffix(".csv").write_text("\n".join(lines))


def as_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"), row_group_size=50)


FORMATS = [as_json_lines, as_csv, as_parquet]


def folder(tmp_path: Path, write: Callable[[Path, list[dict[str, Any]]], None], rows: int = ROWS) -> str:
    place = tmp_path / "data" / "Knows"
    place.mkdir(parents=True)
    for part in range(PARTS):
        write(place / f"part-{part}", edges(part, rows))
    return str(tmp_path / "data")


# ---------------------------------------------------------------- every way that rows come


@pytest.mark.parametrize("write", FORMATS)
def test_a_folder_of_small_files(write: Any, graph: og.Graph, tmp_path: Path) -> None:
    data = folder(tmp_path, write)
    for repeat in (1, 2):
        graph.load(data, mode="append", engine="local")
        check(graph, repeat * PARTS * ROWS)
    out = tmp_path / "out.jsonl"
    graph.export(out, engine="local")
    copy = og.init(tmp_path / "copy", SCHEMA, durability="process")
    copy.load(out, mode="append", engine="local")
    assert sorted(ids(copy)) == sorted(ids(graph))


@pytest.mark.parametrize("write", FORMATS)
def test_files_in_many_splits(write: Any, graph: og.Graph, tmp_path: Path) -> None:
    graph.load(folder(tmp_path, write, rows=60), mode="append", engine="local", conf=SMALL_SPLITS)
    check(graph, PARTS * 60)
    table = graph._repository.head()[1].table("edge:Knows")
    assert table is not None
    for fragment in table.fragments:
        held = table.read(["id"], fragments=(fragment.id,)).column("id").to_pylist()
        assert held == sorted(held)


def test_loads_while_the_clock_stands_still_or_goes_back(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, now = folder(tmp_path, as_json_lines), time.time()
    for load in range(2):
        at = now - 60 * load
        monkeypatch.setattr(time, "time", lambda at=at: at)
        monkeypatch.setattr(time, "time_ns", lambda at=at: int(at * 1e9))
        monkeypatch.setattr(graph._repository.history, "clock", lambda at=at: at)
        graph.load(data, mode="append", engine="local")
        graph.load(data, mode="append", engine="local")
        with graph.transaction() as tx:
            tx.insert_many("Knows", edges(load))
    check(graph, 4 * PARTS * ROWS + 2 * ROWS)


def test_threads_that_load_and_insert_at_once(graph: og.Graph, tmp_path: Path) -> None:
    data = folder(tmp_path, as_csv)

    def work(number: int) -> None:
        graph.load(data, mode="append", engine="local")
        with graph.transaction() as tx:
            tx.insert_many("Knows", edges(number))
        graph.load(frame_of(edges(number)), mode="append", engine="local")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(6)))
    check(graph, 6 * (PARTS * ROWS + 2 * ROWS))


INSERTING = """
import sys
import omnigraph as og
graph = og.open(sys.argv[1], durability="process")
graph.load(sys.argv[2], mode="append", engine="local")
with graph.transaction() as tx:
    tx.insert_many("Knows", [{"from": "p1", "to": "p2"}] * 20)
"""


def test_processes_forked_after_the_import(graph: og.Graph, tmp_path: Path) -> None:
    data = folder(tmp_path, as_csv)
    children = [Child(INSERTING, graph.uri, data) for _ in range(2)]
    codes = [child.wait() for child in children]
    for child in children:
        child.close()
    assert codes == [0, 0]
    check(og.open(graph.uri), 2 * (PARTS * ROWS + 20))


def test_every_way_to_write_into_one_type(graph: og.Graph, tmp_path: Path) -> None:
    with graph.transaction() as tx:
        tx.insert_many("Knows", edges(0, 300))
        tx.insert("Knows", from_="p0", to="p1")
        tx.upsert("Knows", from_="p0", to="p1")
    graph.mutate("query q() { insert Knows { from: $a.id, to: $b.id } match { $a: Person  $b: Person } }")
    made = 302 + PEOPLE * PEOPLE
    check(graph, made)
    graph.branches.create("b")
    for branch in ("main", "b"):
        graph.load(frame_of(edges(5)), mode="merge", branch=branch, engine="local")
        with graph.transaction(branch) as tx:
            tx.insert_many("Knows", edges(6, 150))
    graph.branches.merge("b")
    check(graph, made + 2 * (ROWS + 150))
    assert graph.maintenance.verify(deep=True).is_whole


def frame_of(rows: list[dict[str, Any]]) -> dict[str, pa.Table]:
    return {"Knows": pa.Table.from_pylist(rows)}


# ---------------------------------------------------------------- tasks that run twice


def test_a_task_that_runs_twice_writes_the_same_ids(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ranges = LocalRunner.map, []

    def twice(self: LocalRunner, stage: str, function: Any, tasks: Any) -> Any:
        first, second = run(self, stage, function, tasks), run(self, stage, function, tasks)
        if stage.startswith(job.READING):
            ranges.append([[report.types["edge:Knows"].id_ranges for report in reports] for reports in (first, second)])
        return second

    monkeypatch.setattr(LocalRunner, "map", twice)
    graph.load(folder(tmp_path, as_json_lines, rows=50), mode="append", engine="local", conf=SMALL_SPLITS)
    graph.load(frame_of(edges(3)), mode="append", engine="local")
    assert len(ranges) >= 2
    assert all(first == second for first, second in ranges)
    check(graph, PARTS * 50 + ROWS)


# ---------------------------------------------------------------- a source of ids that is broken


def refused(load: Callable[[], object], graph: og.Graph) -> None:
    before = graph.head().id
    with pytest.raises(UniqueViolation, match="duplicate id"):
        load()
    assert graph.head().id == before
    assert ids(graph) == []


@pytest.mark.parametrize("write", FORMATS)
def test_parts_with_the_same_range_are_refused(
    write: Any, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = folder(tmp_path, write)
    monkeypatch.setattr(FreshIds, "part", lambda self, number: self)
    refused(lambda: graph.load(data, mode="append", engine="local"), graph)
    refused(lambda: graph.load(data, mode="merge", engine="local"), graph)


def test_rows_with_the_same_id_are_refused(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FreshIds.for_rows
    monkeypatch.setattr(FreshIds, "for_rows", lambda self, rows: made(self, pa.array([1] * len(rows))))
    refused(lambda: graph.load(frame_of(edges(3)), mode="append", engine="local"), graph)
    with pytest.raises(UniqueViolation):
        graph.load({"Note": pa.table({"text": ["a", "b"]})}, mode="append", engine="local")


def test_a_transaction_with_the_same_id_twice_is_refused(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph._repository.history, "new_id", lambda: "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    for write in ("insert", "upsert"):
        with graph.transaction() as tx:
            getattr(tx, write)("Knows", from_="p0", to="p1")
            with pytest.raises(KeyConflict):
                getattr(tx, write)("Knows", from_="p1", to="p2")
            tx.rollback()
    assert ids(graph) == []


def test_ids_in_no_order_are_checked_and_loaded(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = FreshIds.for_rows
    monkeypatch.setattr(FreshIds, "for_rows", lambda self, rows: made(self, pa.array(rows.to_pylist()[::-1])))
    graph.load(folder(tmp_path, as_parquet), mode="append", engine="local")
    check(graph, PARTS * ROWS)


# ---------------------------------------------------------------- Spark

FRAME = "from string, to string, since long"


def failing_at_first() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Every task has read all its rows when its first attempt fails. A function of a function: workers cannot import this file."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    return run


class SharedRange(FreshIds):
    """As if every partition were the first one."""

    def part(self, number: int) -> FreshIds:
        return self


@pytest.mark.spark
def test_files_partitions_and_batches_of_streams_on_spark_whose_tasks_are_retried(
    graph: og.Graph, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import cloudpickle

    def write(frame: Any) -> Any:
        return frame.format("omnigraph").option("graph", graph.uri).option("type", "Knows")

    rows = spark.createDataFrame([tuple(row.values()) for row in edges(0, 8)], FRAME).repartition(2)
    with monkeypatch.context() as broken:
        broken.setattr(job, "FreshIds", SharedRange)
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        refused(lambda: graph.load({"Knows": rows}, mode="append", engine=spark), graph)
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    data = folder(tmp_path, as_csv)
    graph.load(data, mode="append", engine=spark)
    retried = rows.mapInArrow(failing_at_first(), FRAME)
    graph.load({"Knows": retried}, mode="append", engine=spark)
    write(retried.write).mode("append").save()
    stream = spark.readStream.schema(FRAME).option("maxFilesPerTrigger", str(PARTS // 2)).option("header", True)
    sink = write(stream.csv(f"{data}/Knows").writeStream).option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()
    check(og.open(graph.uri), 2 * PARTS * ROWS + 2 * 8)


@pytest.mark.parametrize("given", ["no ids", "ids in order", "ids in no order"])
def test_many_edges_are_ordered_by_source_unless_their_ids_ascend(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MIN_ORDERED_ROWS", 100)
    knows = compile_schema(SCHEMA).tables["edge:Knows"]
    count, step = 200, 7 if given == "ids in no order" else 1
    ids = [f"e{(number * step) % count:03}" for number in range(count)]
    sources = [f"p{(number * 37) % count:03}" for number in range(count)]
    cells = {"id": ids, "src": sources, "dst": sources[::-1], "since": list(range(count))}
    rows = pa.table(cells).select(arrow_schema(knows).names).cast(arrow_schema(knows))
    typed = TypedRows("edge:Knows", rows, pa.array(range(1, count + 1)), 0 if given == "no ids" else count)
    arranged = fragments.sort_for_storage(knows, [(0, typed)])
    found = arranged.rows.to_pylist()
    assert (found == rows.to_pylist()) == (given == "ids in order")
    if given != "ids in order":
        assert [row["src"] for row in found] == sorted(sources)
    places = [row["since"] for row in found]
    assert arranged.origins(np.arange(count)) == [(0, place + 1) for place in places]
    kept = rows.take(pa.array(places))
    same = rows.column_names[1:] if given == "no ids" else rows.column_names
    assert arranged.rows.select(same) == kept.select(same)
    assert (arranged.id_range() is None) == (given == "ids in no order")
