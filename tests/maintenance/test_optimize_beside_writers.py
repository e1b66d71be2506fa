"""Optimize lands whatever is written meanwhile, keeps exactly what the writers wrote, and its indexes answer as scans do."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from children import run_killed
from maintenance import optimize_stream

import omnigraph as og
from omnigraph.errors import BranchReplaced
from omnigraph.maintenance import optimize
from omnigraph.tables.searching import find_nearest, find_text
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, arm

SCHEMA = """
node Note { title: String @key  text: String? @index  stars: I32? @index  place: Vector(4)? @index }
edge Follows: Note -> Note
"""
Model = dict[str, int]
"""Titles, and the stars of each."""


def write(graph: og.Graph, numbers: range | list[int], stars: int = 0) -> None:
    with graph.transaction() as tx:
        for number in numbers:
            tx.upsert(
                "Note",
                title=f"n{number}",
                text=f"word{number} of all",
                stars=stars,
                place=[float(number), 1.0, 2.0, 3.0],
            )


def remove(graph: og.Graph, numbers: list[int]) -> None:
    with graph.transaction() as tx:
        for number in numbers:
            tx.delete("Note", f"n{number}")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(str(tmp_path / "g"), SCHEMA, durability="process")
    for start in range(0, 60, 10):
        write(graph, range(start, start + 10))
    remove(graph, [3])
    with graph.transaction() as tx:
        for number in range(10, 50):
            tx.insert("Follows", id=f"e{number}", from_=f"n{50 - number % 7}", to="n1")
    return graph


BASE: Model = {f"n{number}": 0 for number in range(60) if number != 3}


def stored(graph: og.Graph) -> Model:
    table = og.open(graph.uri)._repository.resolve("main").table("node:Note")
    assert table is not None
    return {row["id"]: row["stars"] for row in table.read(["id", "stars"]).to_pylist()}


def check_indexes(graph: og.Graph, model: Model) -> None:
    """Every way to find a row gives that row: by key, by text and by vector, and no row that is gone."""
    view = og.open(graph.uri)._repository.resolve("main")
    table = view.table("node:Note")
    assert table is not None
    for number in (1, 3, 5, 17, 33, 58, 61, 100):
        title = f"n{number}"
        expected = [title] if title in model else []
        rows = table.read(["id"], f"id = '{title}'").column("id").to_pylist()
        hits = find_text(
            table, "text", [f"word{number}"], ["id", "text"], every=True, filter=None, limit=99
        ).to_pylist()
        found = [hit["id"] for hit in hits if f"word{number}" in hit["text"].split()]
        assert (rows, found) == (expected, expected), title
        if title in model:
            place = [float(number), 1.0, 2.0, 3.0]
            near = find_nearest(table, "place", place, ["id"], metric="l2", filter=None, limit=1)
            assert near.column("id").to_pylist() == expected


def beside(graph: og.Graph, meanwhile: Callable[[], Any], **options: Any) -> og.types.OptimizeReport:
    """Optimize, with `meanwhile` done after its work and before its first attempt to publish."""
    arm(Failpoint.OPTIMIZE_BEFORE_PUBLISH, meanwhile)
    try:
        return graph.maintenance.optimize(**options)
    finally:
        failpoints.disarm_all()


def without(*numbers: int) -> Model:
    return {title: stars for title, stars in BASE.items() if title not in {f"n{number}" for number in numbers}}


def overwrite(graph: og.Graph) -> None:
    graph.load([{"type": "Note", "data": {"title": "n5", "stars": 9}}], mode="overwrite", engine="local")


MEANWHILE: dict[str, tuple[Callable[[og.Graph], Any], Model]] = {
    "rows are added": (lambda graph: write(graph, [61]), BASE | {"n61": 0}),
    "rows are deleted": (lambda graph: remove(graph, [1, 17, 58]), without(1, 17, 58)),
    "rows are replaced": (lambda graph: write(graph, [5, 33], stars=4), BASE | {"n5": 4, "n33": 4}),
    "rows are deleted and come back": (
        lambda graph: (remove(graph, [5]), write(graph, [5], stars=7)),
        BASE | {"n5": 7},
    ),
    "small fragments are folded": (
        lambda graph: [write(graph, [number]) for number in range(100, 120)],
        BASE | {f"n{number}": 0 for number in range(100, 120)},
    ),
    "somebody else optimizes": (lambda graph: og.open(graph.uri).maintenance.optimize(), BASE),
    "nearly all rows are deleted": (
        lambda graph: remove(graph, [number for number in range(60) if number not in (3, 5)]),
        {"n5": 0},
    ),
}


@pytest.mark.parametrize("case", MEANWHILE)
def test_what_others_write_meanwhile_is_carried_over(graph: og.Graph, case: str) -> None:
    meanwhile, model = MEANWHILE[case]
    beside(graph, lambda: meanwhile(og.open(graph.uri, durability="process")))
    assert stored(graph) == model
    check_indexes(graph, model)
    head = graph.head()
    graph.maintenance.optimize()
    assert stored(graph) == model
    check_indexes(graph, model)
    assert head.kind == "optimize"


@pytest.mark.usefixtures("stores_every_commit")
def test_a_rebase_keeps_the_rewritten_fragments_and_covers_what_arrived(graph: og.Graph) -> None:
    report = beside(graph, lambda: (write(graph, [61]), remove(graph, [7])))
    assert report.commit is not None
    (notes,) = [table for table in report.tables if table.table_key == "node:Note"]
    assert (notes.after.fragments, notes.after.deleted_rows, notes.after.pending) == (2, 1, ())
    assert notes.before.fragments > 2


@pytest.mark.usefixtures("stores_every_commit")
def test_rows_that_arrive_in_later_attempts_stay_pending_with_a_reason(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimize, "INDEXED_REBASES", 0)
    report = beside(graph, lambda: write(graph, [61]))
    (notes,) = [table for table in report.tables if table.table_key == "node:Note"]
    assert {(each.rows, each.reason) for each in notes.after.pending} == {(1, "written since the index was built")}
    check_indexes(graph, BASE | {"n61": 0})


def test_a_branch_that_is_deleted_meanwhile_ends_it(graph: og.Graph) -> None:
    graph.branches.create("side")
    with pytest.raises(BranchReplaced):
        beside(graph, lambda: graph.branches.delete("side"), branch="side")


def test_a_write_that_loses_to_optimize_is_judged_as_after_any_other(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert("Note", title="n70")
        graph.maintenance.optimize()
    late = graph.transaction()
    late.update("Note", "n1", stars=1)
    write(graph, [71])
    graph.maintenance.optimize()
    late.commit()
    assert stored(graph) == BASE | {"n1": 1, "n70": None, "n71": 0}


def test_optimize_lands_in_a_stream_that_never_stops(tmp_path: Path) -> None:
    """Two threads and a process write, update and delete until optimize has landed three times."""
    uri = str(tmp_path / "g")
    graph = og.init(uri, SCHEMA, durability="process")
    for start in range(0, 400, 20):
        write(graph, range(start, start + 20))
    stop = threading.Event()
    models: dict[str, Model] = {"a": {}, "b": {}}
    threads = [threading.Thread(target=optimize_stream.stream, args=(uri, name, models[name], stop)) for name in models]
    process = subprocess.Popen(
        [sys.executable, optimize_stream.__file__, uri, "c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    for thread in threads:
        thread.start()
    try:
        landed = 0
        while landed < 3:  # A stream that had no time to write since leaves nothing to do.
            landed += graph.maintenance.optimize(actor="janitor").commit is not None
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=60)
        told, _ = process.communicate("stop\n", timeout=60)
    written = optimize_stream.decoded(told)
    assert min(len(written), *(len(model) for model in models.values())) > 0
    model = {f"n{number}": 0 for number in range(400)} | models["a"] | models["b"] | written
    assert stored(graph) == model
    for title in random.Random(5).sample(sorted(model), 20):
        entity = og.open(uri).entity("Note", title)
        assert entity is not None
        assert entity["stars"] == model[title]


POINTS = [
    Failpoint.OPTIMIZE_AFTER_REWRITE,
    Failpoint.OPTIMIZE_AFTER_INDEXES,
    Failpoint.OPTIMIZE_BEFORE_PUBLISH,
    Failpoint.PUBLISH_AFTER_CREATE,
]


def test_a_killed_optimize_leaves_every_row_and_the_next_one_lands(graph: og.Graph) -> None:
    program = "import sys, omnigraph as og; og.open(sys.argv[1]).maintenance.optimize()"
    for point in POINTS:
        write(graph, [61])
        run_killed(program, graph.uri, point=point)
        assert stored(graph) == BASE | {"n61": 0}
    graph.maintenance.optimize()
    assert graph.head().kind == "optimize"
    check_indexes(graph, BASE | {"n61": 0})
