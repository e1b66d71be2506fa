"""The race table of schema changes: a writer of each kind is held at each point between two durable effects while a schema
change commits; and a schema change is held while each kind of writer, or another schema change, commits."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, OmnigraphError
from omnigraph.load.job import LoadJob
from omnigraph.testing.failpoints import Failpoint, FailpointReached, Park, arm, disarm_all, raising
from omnigraph.write.group import JointStage
from omnigraph.write.publishing import publish_group
from omnigraph.write.row_write import prepare_write
from omnigraph.write.transaction import WriteTransaction

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mood: enum(bad, good)?
}
node City { name: String @key }
edge Knows: Person -> Person
"""

CHANGES = {
    "add type": SCHEMA + "node Pet { name: String @key }",
    "add nullable": SCHEMA.replace("age: I32?", "age: I32?\n nick: String? @default(\"x\")"),
    "add defaulted": SCHEMA.replace("age: I32?", "age: I32?\n rank: I32 @default(3)"),
    "rename property": SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")'),
    "rename type": SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {').replace(
        "Person -> Person", "Human -> Human"
    ),
    "wider enum": SCHEMA.replace("bad, good", "awful, bad, good"),
    "wider number": SCHEMA.replace("age: I32?", "age: I64?"),
    "list": SCHEMA.replace("age: I32?", "age: [I32]?"),
    "index": SCHEMA.replace("age: I32?", "age: I32? @index"),
    "drop other type": SCHEMA.replace("node City { name: String @key }", ""),
    "drop property": SCHEMA.replace("  age: I32?\n", ""),
    "narrower enum": SCHEMA.replace("bad, good", "bad"),
    "range": SCHEMA.replace("age: I32?", "age: I32?\n  @range(age, 0..9)"),
}  # fmt: skip
COMPATIBLE, INCOMPATIBLE = tuple(CHANGES)[:10], tuple(CHANGES)[10:]

NOBODY_NEW = frozenset({"Ada", "Bob"})
OK, SCHEMA_CONFLICT, MERGE = "ok", "expected_version_mismatch on schema", "merge_conflicts"
REFUSED = "schema_change_refused"


@dataclass(frozen=True)
class Kind:
    """A kind of writer: what it does, and what it hears after a drop, a narrower enum, a range."""

    run: Callable[[og.Graph, Path], object]
    outcomes: tuple[str, str, str] = (SCHEMA_CONFLICT, SCHEMA_CONFLICT, SCHEMA_CONFLICT)
    people: frozenset[str] = frozenset({"Ada", "Bob", "Dee"})
    refused: frozenset[str] = NOBODY_NEW
    age: tuple[str, int] | None = ("Dee", 50)

    def breaks(self, change: str) -> bool:
        """Whether the rows that it brings break a schema."""
        return (change == "range" and self.age is not None) or (
            change == "narrower enum" and self.age is not None and self.age[0] == "Dee"
        )


def transaction(write: Callable[[og.Transaction], object]) -> Callable[[og.Graph, Path], object]:
    def run(graph: og.Graph, _: Path) -> None:
        with graph.transaction(message="held") as tx:
            write(tx)

    return run


DEE = {"name": "Dee", "age": 50, "mood": "good"}


def group(graph: og.Graph, _: Path) -> None:
    """Two transactions that are published as one group."""
    repository = graph._repository
    begun = [WriteTransaction(repository, graph._committer) for _ in range(2)]
    for tx, row in zip(begun, (DEE, {"name": "Eve"}), strict=True):
        tx.insert("Person", row)
    writes = [prepare_write(tx.view, tx.entry, tx.deltas(tx.view.schema), message="held") for tx in begun]
    outcomes = publish_group(repository.history, writes, stage_together=JointStage(repository, writes))
    for outcome in outcomes:
        if isinstance(outcome, OmnigraphError):
            raise outcome


def load(mode: str, engine: Any = "local") -> Callable[[og.Graph, Path], object]:
    def run(graph: og.Graph, folder: Path) -> None:
        file = folder / "people.jsonl"
        file.write_text('{"type": "Person", "data": {"name": "Dee", "age": 50, "mood": "good"}}\n')
        graph.load(str(file), mode=mode, engine=engine, message="held")  # type: ignore[arg-type]

    return run


def staged(run: Callable[[og.Graph, Path], object]) -> Callable[[og.Graph, Path], object]:
    """A load that is staged and prepared as one of many rows is."""

    def run_staged(graph: og.Graph, folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LoadJob, "_max_held_rows", 0)
            run(graph, folder)

    return run_staged


def merge(graph: og.Graph, _: Path) -> None:
    graph.branches.merge("work", message="held")


def optimize(graph: og.Graph, _: Path) -> None:
    graph.maintenance.optimize()


TEXT = 'query add() { insert Person { name: "Dee", age: 50, mood: "good" } }'
DERIVED = """query add() {
  insert Person { name: "Dee", age: 49 + $p.age, mood: "good" } match { $p: Person { name: "Ada" } }
}"""


def mutate(text: str) -> Callable[[og.Graph, Path], object]:
    return lambda graph, _: graph.mutate(text, message="held")


def keyed(graph: og.Graph, folder: Path) -> None:
    """A batch of a stream."""
    file = folder / "batch.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "Dee", "age": 50, "mood": "good"}}\n')
    graph.load(str(file), mode="append", engine="local", message="held", once=("stream", 1))


UNTOUCHED = {"outcomes": (OK, OK, OK), "people": NOBODY_NEW, "age": None}
KINDS = {
    "insert": Kind(transaction(lambda tx: tx.insert("Person", DEE))),
    "upsert": Kind(transaction(lambda tx: tx.upsert("Person", DEE))),
    "update": Kind(
        transaction(lambda tx: tx.update("Person", "Ada", age=50)),
        (SCHEMA_CONFLICT, OK, SCHEMA_CONFLICT),
        NOBODY_NEW,
        age=("Ada", 50),
    ),
    "delete": Kind(transaction(lambda tx: tx.delete("Person", "Bob")), (OK, OK, OK), frozenset({"Ada"}), age=None),
    "edge": Kind(transaction(lambda tx: tx.insert("Knows", from_="Ada", to="Bob")), (OK, OK, OK), NOBODY_NEW, age=None),
    "mutation": Kind(mutate(TEXT)),
    "insert that matches": Kind(mutate(DERIVED)),
    "group": Kind(group, people=NOBODY_NEW | {"Dee", "Eve"}, refused=NOBODY_NEW | {"Eve"}),
    "load": Kind(load("append")),
    "merge load": Kind(load("merge")),
    "staged load": Kind(staged(load("append"))),
    "staged merge load": Kind(staged(load("merge"))),
    "overwrite": Kind(load("overwrite"), people=frozenset({"Dee"})),
    "batch of a stream": Kind(keyed),
    "merge": Kind(merge, (MERGE, MERGE, MERGE)),
    "optimize": Kind(optimize, **UNTOUCHED),  # type: ignore[arg-type]  # as named
    "new branch": Kind(lambda graph, _: graph.branches.create("another"), **UNTOUCHED),  # type: ignore[arg-type]  # as named
    "deleted branch": Kind(lambda graph, _: graph.branches.delete("spare"), **UNTOUCHED),  # type: ignore[arg-type]  # as named
    "tag": Kind(lambda graph, _: graph.tags.create("v1"), **UNTOUCHED),  # type: ignore[arg-type]  # as named
}


@cache
def points_of(kind: str) -> tuple[Failpoint, ...]:
    """Every point that a writer of a kind comes to, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        return points_passed(KINDS[kind], new_graph(), Path(folder))


def points_passed(kind: Kind, graph: og.Graph, folder: Path) -> tuple[Failpoint, ...]:
    reached: list[Failpoint] = []
    for point in Failpoint:
        arm(point, lambda point=point: reached.append(point))
    try:
        kind.run(graph, folder)
    finally:
        disarm_all()
    return tuple(reached)


def new_graph() -> og.Graph:
    return filled(og.init("memory://", schema=SCHEMA))


def filled(graph: og.Graph) -> og.Graph:
    with graph.transaction() as tx:
        for name in ("Ada", "Bob"):
            tx.insert("Person", name=name, age=1)
    graph.branches.create("work")
    graph.branches.create("spare")
    with graph.transaction("work") as tx:
        tx.insert("Person", DEE)
    with graph.transaction() as tx:
        tx.insert("City", name="rome")
    return graph


def heard(write: Callable[[], object]) -> str:
    try:
        write()
    except ExpectedVersionMismatch as error:
        return f"{error.code} on {error.table_key}"
    except OmnigraphError as error:
        return error.code
    return OK


def held_at(point: Failpoint, held: Callable[[], object], meanwhile: Callable[[], object]) -> str:
    """What the held writer hears."""
    park, outcome = Park(), []
    arm(point, park)
    thread = threading.Thread(target=lambda: outcome.append(heard(held)), daemon=True)
    thread.start()
    try:
        park.wait_until_reached()
        disarm_all()
        meanwhile()
    finally:
        park.release()
        thread.join()
    return outcome[0]


def check_people(graph: og.Graph, kind: Kind, change: str, *, wrote: bool) -> None:
    """The graph reads under its schema, and has what was acknowledged."""
    name = "Human" if change == "rename type" else "Person"
    column = "years" if change == "rename property" else "age"
    table = graph._repository.resolve("main").table(f"node:{name}")
    assert table is not None
    rows = {row["id"]: row for row in table.read().to_pylist()}
    assert rows.keys() == (kind.people if wrote else kind.refused)
    if wrote and kind.age is not None:
        who, age = kind.age
        assert rows[who][column] == ([age] if change == "list" else age)
    if change == "add defaulted":
        assert {row["rank"] for row in rows.values()} == {3}
    if change == "add nullable":
        assert {row["nick"] for row in rows.values()} == {None}
    list(graph.diff("main~1", "main"))
    with graph.transaction() as tx:
        tx.insert(name, name="Zoe")


def race(kind: Kind, change: str, point: Failpoint, graph: og.Graph, folder: Path) -> None:
    """A writer is held at a point while the schema changes. It goes on under the new one, or hears what it does not allow; if it
    had committed before, the change is checked with its rows."""
    other = og.open(graph.uri)
    before, applied = graph.head().id, []

    def apply() -> None:
        has_landed = other.head().id != before
        applied.append((has_landed, heard(lambda: other.schema.apply(CHANGES[change]))))

    outcome = held_at(point, lambda: kind.run(graph, folder), apply)
    ((has_landed, applied_as),) = applied
    is_refused = has_landed and kind.breaks(change)
    assert applied_as == (REFUSED if is_refused else OK), point
    incompatible = dict(zip(INCOMPATIBLE, kind.outcomes, strict=True))
    assert outcome == (OK if has_landed else incompatible.get(change, OK)), point
    wanted = SCHEMA if is_refused else CHANGES[change]
    assert graph.schema.catalog.hash == graph.schema.plan(wanted).catalog.hash, point
    if change != "drop property" or not has_landed:
        check_people(graph, kind, "none" if is_refused else change, wrote=outcome == OK)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_that_loses_to_a_schema_change_goes_on_under_it_or_hears_a_conflict_on_it(
    kind: str, change: str, tmp_path: Path
) -> None:
    """Each kind meets every change, and is held at every point that it comes to, now with this change and now with that."""
    points, number = points_of(kind), list(CHANGES).index(change)
    assert points
    for point in points[number :: len(CHANGES)] or [points[number % len(points)]]:
        race(KINDS[kind], change, point, new_graph(), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_meets_every_change_at_every_point(kind: str, change: str, tmp_path: Path) -> None:
    for point in points_of(kind):
        race(KINDS[kind], change, point, new_graph(), tmp_path)


def spark_races(spark: Any, folder: Path, changes: Iterable[str], *, every_point: bool) -> None:
    """The points of the program that drives the job; a graph in memory is none for Spark."""
    kind, number = Kind(load("append", spark)), iter(range(10**6))

    def graph() -> og.Graph:
        return filled(og.init(folder / str(next(number)), schema=SCHEMA, durability="process"))

    points = [point for point in points_passed(kind, graph(), folder) if not point.startswith("table.")]
    assert Failpoint.LOAD_BEFORE_PUBLISH in points
    for place, change in enumerate(changes):
        chosen = points if every_point else [points[(len(points) // 2 + 3 * place) % len(points)]]
        for point in chosen:
            race(kind, change, point, graph(), folder)


@pytest.mark.spark
def test_a_load_on_spark_that_loses_to_a_schema_change_goes_on_too(spark: Any, tmp_path: Path) -> None:
    spark_races(spark, tmp_path, ("rename type", "range", "add defaulted"), every_point=False)


@pytest.mark.spark
@pytest.mark.soak
def test_a_load_on_spark_meets_every_change_at_every_point(spark: Any, tmp_path: Path) -> None:
    spark_races(spark, tmp_path, CHANGES, every_point=True)


def test_the_kinds_come_to_all_points_that_a_writer_has() -> None:
    """What is left belongs to starting a graph, copying one, cleaning up, and to races that are lost."""
    reached = {point.name for kind in KINDS for point in points_of(kind)}
    others = ("INIT", "SWEEP", "COPY", "CLONE", "PUSH", "HISTORY", "SCHEMA")
    rare = {"PUBLISH_BEFORE_READBACK", "MERGE_BEFORE_BRANCH_DELETE"}
    assert {point.name for point in Failpoint if not point.name.startswith(others)} - reached == rare


APPLY_POINTS = (Failpoint.SCHEMA_BEFORE_PUT, Failpoint.PUBLISH_BEFORE_CREATE)

APPLIED = [
    (kind, change, APPLY_POINTS[place % 2])
    for kind in KINDS
    for place, change in enumerate(("add nullable", "rename type", "range", "narrower enum", "drop property"))
]


@pytest.mark.parametrize(("kind", "change", "point"), APPLIED, ids=[f"{k}-{c}-{p}" for k, c, p in APPLIED])
def test_a_schema_change_that_loses_to_a_writer_is_checked_again_with_its_rows(
    kind: str, change: str, point: Failpoint, tmp_path: Path
) -> None:
    graph = new_graph()
    other = og.Graph(graph._repository)
    outcome = held_at(point, lambda: graph.schema.apply(CHANGES[change]), lambda: KINDS[kind].run(other, tmp_path))
    assert outcome == (REFUSED if KINDS[kind].breaks(change) else OK)
    landed = change if outcome == OK else "add type"
    check_people(graph, KINDS[kind], landed, wrote=True) if change != "drop property" else list(
        graph.diff("main~1", "main")
    )


@pytest.mark.parametrize("point", APPLY_POINTS)
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("add nullable", "add nullable", OK),
        ("add nullable", "add type", SCHEMA_CONFLICT),
        ("rename property", "drop property", "schema_error"),
        ("wider number", "range", SCHEMA_CONFLICT),
    ],
)
def test_of_two_schema_changes_the_second_is_planned_again_on_the_first(
    first: str, second: str, expected: str, point: Failpoint
) -> None:
    graph = new_graph()
    other = og.Graph(graph._repository)
    outcome = held_at(point, lambda: graph.schema.apply(CHANGES[first]), lambda: other.schema.apply(CHANGES[second]))
    assert outcome == expected
    assert graph.schema.catalog.hash == graph.schema.plan(CHANGES[second]).catalog.hash
    assert [commit.kind for commit in graph.commits()].count("schema") == 1


@pytest.mark.parametrize("point", [Failpoint.PUBLISH_AFTER_CREATE, Failpoint.PUBLISH_BEFORE_ACK])
def test_a_schema_change_that_is_in_is_acknowledged_whatever_comes_after_it(point: Failpoint) -> None:
    graph = new_graph()
    other = og.open(graph.uri)
    first, second = CHANGES["rename property"], CHANGES["rename property"] + "node Pet { name: String @key }"
    assert held_at(point, lambda: graph.schema.apply(first), lambda: other.schema.apply(second)) == OK
    assert graph.schema.plan(second).is_empty
    assert [commit.kind for commit in graph.commits()].count("schema") == 2


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("stores_every_commit")
def test_a_prepared_load_is_resumed_under_the_schema_that_is_there_by_then(change: str, tmp_path: Path) -> None:
    graph = new_graph()
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(FailpointReached()))
    try:
        with pytest.raises(FailpointReached):
            load("append")(graph, tmp_path)
    finally:
        disarm_all()
    graph.schema.apply(CHANGES[change])
    (prepared,) = graph.recovery.list()
    outcome = heard(lambda: graph.recovery.resume(prepared.commit_id))
    assert outcome == (OK if change in COMPATIBLE else SCHEMA_CONFLICT)
    check_people(graph, KINDS["load"], change, wrote=outcome == OK)
    assert [each.commit_id for each in graph.recovery.list()] == ([] if outcome == OK else [prepared.commit_id])


def test_a_statement_sees_the_schema_that_another_process_has_changed(tmp_path: Path) -> None:
    """Its type is looked up when the head is confirmed: an update of a property that is gone must not be lost in silence."""
    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", age=36)
    others = [og.open(tmp_path / "graph", durability="process") for _ in range(3)]
    for other in others:
        with other.transaction() as tx:  # so that it knows a head
            tx.update("Person", "Ada", age=37)
    graph.schema.apply(CHANGES["rename property"] + "node Pet { name: String @key }")
    with pytest.raises(OmnigraphError, match="unknown property 'age'"), others[0].transaction() as tx:
        tx.update("Person", "Ada", age=38)
    with others[1].transaction() as tx:
        assert tx.update("Person", "Ada", years=39)
    with others[2].transaction() as tx:
        assert not tx.delete("Pet", "Rex")
    assert graph.entity("Person", "Ada")["years"] == 39
