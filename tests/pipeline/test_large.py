"""What only large loads do, on small ones: checks as tasks, keys cut into buckets, removals as tasks."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline.conftest import SCHEMA, Write, content, knows, person
from pipeline.test_violations import check_case

import omnigraph as og
from omnigraph import errors
from omnigraph.load import assembly, checks, keyed_rows, replaced_rows
from omnigraph.load.job import load
from omnigraph.load.options import LoadOptions
from omnigraph.rules.planning import Change, plan_checks
from omnigraph.rules.values import DuplicateEdges
from omnigraph.tables.staging import by_fragment
from omnigraph.tables.table import Table
from omnigraph.tasks.engines import make_runner
from omnigraph.tasks.progress import Silent, Status
from omnigraph.tasks.runner import unpacked
from omnigraph.tasks.target import TableVersion, Target


class Stages:
    """A progress that remembers the stages."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def update(self, status: Status) -> None:
        self.seen.append(status.stage)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every load is a large one: nothing is done at once in this process, and no task may hold more than a few rows."""
    monkeypatch.setattr(assembly, "IN_PROCESS_ROWS", 0)
    monkeypatch.setattr(checks, "BUCKET_ROWS", 150)
    monkeypatch.setattr(keyed_rows, "MAX_LOOKUP", 0)
    monkeypatch.setattr(assembly, "MAX_HELD_PAIRS", 2)


@pytest.mark.spark
@pytest.mark.parametrize(
    "case",
    [
        "an id twice in a merge",
        "an id that is there",
        "a unique value that is held",
        "a target that is no node",
        "too many edges",
        "a node that edges still need",
    ],
)
def test_a_broken_rule_is_found_in_buckets_on_spark(
    case: str, graph: og.Graph, write: Write, spark: Any, tmp_path: Path, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "BUCKET_ROWS", 2)
    check_case(case, graph, write, {"engine": spark}, tmp_path)


@pytest.mark.spark
def test_checks_run_as_spark_tasks(
    graph: og.Graph, write: Write, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "IN_PROCESS_ROWS", 0)
    check_case("too many edges", graph, write, {"engine": spark}, tmp_path)


def first_people(count: int, age: int = 1) -> list[dict[str, Any]]:
    return [person(f"p{number}", age=age, handle=f"h{number}") for number in range(count)]


def changed_people(seed: int) -> list[dict[str, Any]]:
    """Some of the people with other ages and no handle, some new ones who know one of them, in any order."""
    choose = random.Random(seed)
    old = choose.sample([f"p{number}" for number in range(300)], 120)
    new = [f"new{seed}.{number}" for number in range(80)]
    people = [person(name, age=choose.randrange(100)) for name in [*old, *new]]
    choose.shuffle(people)
    return [*people, *(knows(name, choose.choice(old), id=f"e-{name}") for name in new)]


def test_a_large_merge_gives_what_a_small_one_gives(
    write: Write, engine: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    graphs = []
    for way in ("small", "large"):
        if way == "large":
            request.getfixturevalue("large")
        graph = og.init(tmp_path / way, schema=SCHEMA, durability="process")
        graph.load(write("first.jsonl", *first_people(300)), mode="append", **engine)
        graph.load(write("second.jsonl", *changed_people(1)), mode="merge", **engine)
        graphs.append(graph)
    small, large_one = (content(graph, tmp_path) for graph in graphs)
    assert large_one == small
    assert len(large_one) == 300 + 160
    assert list(graphs[1]._repository.store.list("staging/")) == []


@pytest.mark.parametrize("max_held", [0, 1_000])
def test_pairs_of_replaced_rows_are_read_by_whole_fragments_and_each_once(graph: og.Graph, max_held: int) -> None:
    target, choose = Target.of(graph._repository, graph._repository.head()[1]), random.Random(max_held)
    folder = replaced_rows.PairFolder(f"staging/{graph.head().id}/replaced", max_held)
    wanted = {
        (fragment << 32) | choose.randrange(500): number for number in range(300) for fragment in [choose.randrange(9)]
    }
    tasks: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    for pair in wanted.items():
        choose.choice(tasks[:3]).append(pair)
    found = [
        folder.keep(
            target,
            pa.table(
                {"old": pa.array([o for o, _ in task], pa.uint64()), "new": pa.array([n for _, n in task], pa.uint64())}
            ),
        )
        for task in tasks
    ]
    assert sum(isinstance(pairs.content, str) for pairs in found) == (3 if max_held == 0 else 0)
    for step in (1, 50, 10_000):
        parts = [[span.read(target) for span in spans] for spans in replaced_rows._spans(found, step)]
        assert {tuple(row) for part in parts for rows in part for row in rows.tolist()} == set(wanted.items())
        owners = [{int(row[0]) >> 32 for rows in part for row in rows} for part in parts]
        assert sum(map(len, owners)) == 9, "no fragment is in two parts"
        assert len(parts) == {1: 9, 10_000: 1}.get(step, len(parts))


def test_rows_that_are_replaced_are_removed_by_tasks(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path, large: None
) -> None:
    graph.load(write("first.jsonl", *first_people(300)), mode="append", **engine)
    stages = Stages()
    load(graph._repository, write("second.jsonl", *first_people(200, age=2)), LoadOptions("merge", **engine), stages)
    assert "remove" in stages.seen
    assert len(content(graph, tmp_path)) == 300


def test_what_is_read_does_not_depend_on_the_number_of_buckets(
    graph: og.Graph, write: Write, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column is read once for the keys and once for the other rules. Once a bucket would be quadratic."""
    ring = [knows(f"p{number}", f"p{number + 1}", id=f"e{number}") for number in range(299)]
    graph.load(write("first.jsonl", *first_people(300), *ring), mode="append", engine="local")
    reads: list[object] = []
    read = Table.read

    def counted(self: Table, columns: Any = None, filter: Any = None, *, fragments: Any = None, **more: Any) -> Any:
        for fragment in () if fragments is None or columns is None else fragments:
            reads.append((self.path, self.version, tuple(columns), fragment))
        return read(self, columns, filter, fragments=fragments, **more)

    monkeypatch.setattr(Table, "read", counted)
    graph.branches.create("other")
    found = []
    for branch, bucket_rows in (("main", 400), ("other", 100)):
        monkeypatch.setattr(checks, "BUCKET_ROWS", bucket_rows)
        more = [person(f"q{number}", handle=f"g{number}") for number in range(300)]
        more += [knows(f"q{number}", f"p{number}", id=f"f{number}") for number in range(300)]
        graph.load(write("second.jsonl", *more), mode="append", engine="local", branch=branch)
        found.append(sorted(Counter(reads).values()))
        reads.clear()
    few, many = found
    assert many == few
    assert len(few) > 6
    assert few[-1] <= 2


def test_addresses_by_fragment() -> None:
    found = [
        (fragment, offsets.tolist()) for fragment, offsets in by_fragment([(3 << 32) + 7, 5, (3 << 32) + 7, 2, 3 << 32])
    ]
    assert found == [(0, [2, 5]), (3, [0, 7])]
    assert by_fragment([]) == []


@pytest.mark.parametrize("type_name", ["U64", "F64", "String"])
def test_few_new_values_are_compared_with_many_rows(
    type_name: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through an index where the type has one that can be asked, else by a scan of which only what meets is kept."""
    monkeypatch.setattr(keyed_rows, "LOOKUP_FACTOR", 0)
    graph = og.init(tmp_path / "g", schema=f"node N {{ name: String @key  v: {type_name}? @unique }}")
    values = [str(number) if type_name == "String" else number for number in range(50)]
    records = [{"type": "N", "data": {"name": f"n{place}", "v": value}} for place, value in enumerate(values)]
    graph.load(write("first.jsonl", *records), mode="append", engine="local")
    with pytest.raises(errors.UniqueViolation):
        graph.load(
            write("bad.jsonl", {"type": "N", "data": {"name": "x", "v": values[7]}}), mode="append", engine="local"
        )
    moved = [{"type": "N", "data": {"name": "n7"}}, {"type": "N", "data": {"name": "x", "v": values[7]}}]
    assert graph.load(write("moved.jsonl", *moved), mode="merge", engine="local").total_entities == 2


STAR = """
node Person { name: String @key }
edge Knows: Person -> Person { since: I64?  @unique(src, dst) }
"""


def star(graph: og.Graph, loads: int) -> None:
    """A node with all of the edges, which come in several loads."""
    graph.load({"Person": pa.table({"name": [f"p{number}" for number in range(1_000)]})}, mode="append", engine="local")
    for load_number in range(loads):
        targets = [f"p{number}" for number in range(1 + load_number, 1_000, loads)]
        edges = pa.table({"from": ["p0"] * len(targets), "to": targets, "since": [load_number] * len(targets)})
        graph.load({"Knows": edges}, mode="append", engine="local")


def test_a_node_with_all_edges_makes_no_large_bucket(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "star", STAR, durability="process")
    star(graph, loads=1)
    view, buckets = graph._repository.head()[1], 8
    table = view.table("edge:Knows")
    assert table is not None
    found = {}
    for check in [
        *plan_checks(view.catalog, {"edge:Knows": Change(inserts=True)}),
        DuplicateEdges(view.catalog.edges["Knows"]),
    ]:
        needs = [need for need in (*check.own, *check.others) if need.table == "edge:Knows"]
        sizes = Counter[int]()
        for number, need in enumerate(needs):
            source = keyed_rows.Source.of(need, TableVersion.of(table), table.rows)
            cut = keyed_rows.Cut(Target.of(view.repository, view), number, source, None, buckets)
            for bucket, _, data in keyed_rows.cut(cut):
                sizes[bucket] += unpacked(data).num_rows
        found[type(check).__name__, getattr(check, "end", "")] = max(sizes.values()) / len(needs) / table.rows
    assert found.keys() == {
        *(("EndpointCheck", end) for end in ("src", "dst")),
        *((name, "") for name in ("UniqueCheck", "DuplicateEdges", "KeyCheck")),
    }
    assert found["EndpointCheck", "src"] == 1 / table.rows, "one name, however many edges begin there"
    assert max(found.values()) < 2 / buckets


def test_the_edges_of_a_node_that_goes_are_found_in_pieces(
    tmp_path: Path, engine: dict[str, Any], large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(tmp_path / "star", STAR, durability="process")
    star(graph, loads=5)
    monkeypatch.setattr(checks, "EDGES_PER_TASK", 400)
    monkeypatch.setattr(checks, "NODES_IN_PROCESS", 0)
    stages: dict[str, int] = {}
    runner = type(make_runner(engine["engine"], graph.uri, Silent(), "load"))
    real = runner.map

    def counted(self: Any, stage: str, function: Any, tasks: Any) -> Any:
        stages[stage] = len(tasks)
        return real(self, stage, function, tasks)

    monkeypatch.setattr(runner, "map", counted)
    graph.load({"Person": pa.table({"id": ["p0", "p1"]})}, mode="delete", **engine)
    view = graph._repository.head()[1]
    assert (view.rows("node:Person"), view.rows("edge:Knows")) == (998, 0)
    assert stages["find edges of deleted nodes"] == 2 * 3, "sources and targets, 400 edges at a time"
