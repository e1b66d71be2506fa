"""The race table of schema changes: a writer of each kind is held at each point between two durable effects while a schema
change commits; and a schema change is held while each kind of writer, or another schema change, commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, OmnigraphError
from omnigraph.testing.failpoints import Failpoint, FailpointReached, Park, arm, disarm_all, raising
from omnigraph.write.joint import JointStage
from omnigraph.write.proposal import propose
from omnigraph.write.publishing import Submission, publish_group
from omnigraph.write.transaction import Transaction

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
COMPATIBLE = tuple(CHANGES)[:10]

NOBODY_NEW = frozenset({"Ada", "Bob"})
OK, SCHEMA_CONFLICT, MERGE = "ok", "expected_version_mismatch on schema", "merge_conflicts"


@dataclass(frozen=True)
class Kind:
    """A kind of writer: what it does, where it is held, and what it hears after a drop, a narrower enum, a range."""

    run: Callable[[og.Graph, Path], object]
    points: tuple[Failpoint, ...]
    outcomes: tuple[str, str, str] = (SCHEMA_CONFLICT, SCHEMA_CONFLICT, SCHEMA_CONFLICT)
    people: frozenset[str] = frozenset({"Ada", "Bob", "Dee"})
    refused: frozenset[str] = NOBODY_NEW
    age: tuple[str, int] | None = ("Dee", 50)


def transaction(write: Callable[[og.Transaction], object]) -> Callable[[og.Graph, Path], object]:
    def run(graph: og.Graph, _: Path) -> None:
        with graph.transaction(message="held") as tx:
            write(tx)

    return run


DEE = {"name": "Dee", "age": 50, "mood": "good"}


def group(graph: og.Graph, _: Path) -> None:
    """Two transactions that are published as one group."""
    repository, proposals = graph._repository, []
    for row in (DEE, {"name": "Eve"}):
        tx = Transaction(repository, graph._committer)
        tx.insert("Person", row)
        proposals.append(propose(tx.view, tx.entry, tx.deltas(tx.view.schema), message="held"))
    members = [Submission(each.plan, each.staged_on, staged=False) for each in proposals]
    outcomes = publish_group(repository.history, members, stage_together=JointStage(repository, proposals))
    for outcome in outcomes:
        if isinstance(outcome, OmnigraphError):
            raise outcome


def load(mode: str) -> Callable[[og.Graph, Path], object]:
    def run(graph: og.Graph, folder: Path) -> None:
        file = folder / "people.jsonl"
        file.write_text('{"type": "Person", "data": {"name": "Dee", "age": 50, "mood": "good"}}\n')
        graph.load(str(file), mode=mode, engine="local", message="held")  # type: ignore[arg-type]

    return run


def merge(graph: og.Graph, _: Path) -> None:
    graph.branches.merge("work", message="held")


def optimize(graph: og.Graph, _: Path) -> None:
    graph.optimize()


TXN = (Failpoint.TXN_BEFORE_STAGE, Failpoint.TABLE_STAGED_VERSION, Failpoint.PUBLISH_BEFORE_CREATE)
LOAD = (Failpoint.LOAD_AFTER_STAGE, Failpoint.LOAD_BEFORE_PUBLISH, Failpoint.PUBLISH_BEFORE_CREATE)
KINDS = {
    "insert": Kind(transaction(lambda tx: tx.insert("Person", DEE)), TXN),
    "upsert": Kind(transaction(lambda tx: tx.upsert("Person", DEE)), TXN),
    "update": Kind(
        transaction(lambda tx: tx.update("Person", "Ada", age=50)),
        TXN,
        (SCHEMA_CONFLICT, OK, SCHEMA_CONFLICT),
        NOBODY_NEW,
        age=("Ada", 50),
    ),
    "delete": Kind(transaction(lambda tx: tx.delete("Person", "Bob")), TXN, (OK, OK, OK), frozenset({"Ada"}), age=None),
    "edge": Kind(
        transaction(lambda tx: tx.insert("Knows", from_="Ada", to="Bob")), TXN, (OK, OK, OK), NOBODY_NEW, age=None
    ),
    "group": Kind(group, TXN[1:], people=NOBODY_NEW | {"Dee", "Eve"}, refused=NOBODY_NEW | {"Eve"}),
    "load": Kind(load("append"), LOAD),
    "merge load": Kind(load("merge"), LOAD),
    "overwrite": Kind(load("overwrite"), LOAD, people=frozenset({"Dee"})),
    "merge": Kind(merge, (Failpoint.MERGE_BEFORE_STAGE, Failpoint.PUBLISH_BEFORE_CREATE), (MERGE, MERGE, MERGE)),
    "optimize": Kind(
        optimize, (Failpoint.TABLE_STAGED_VERSION, Failpoint.PUBLISH_BEFORE_CREATE), (OK, OK, OK), NOBODY_NEW, age=None
    ),
}


def new_graph() -> og.Graph:
    graph = og.init("memory://", schema=SCHEMA)
    with graph.transaction() as tx:
        for name in ("Ada", "Bob"):
            tx.insert("Person", name=name, age=1)
    graph.branches.create("work")
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


HELD = [
    (kind, change, point, OK)
    for number, kind in enumerate(KINDS)
    for place, change in enumerate(COMPATIBLE)
    for point in KINDS[kind].points
    if change == "rename type" or point is KINDS[kind].points[(number + place) % len(KINDS[kind].points)]
] + [
    (kind, change, point, KINDS[kind].outcomes[place])
    for kind in KINDS
    for place, change in enumerate(("drop property", "narrower enum", "range"))
    for point in KINDS[kind].points
]


@pytest.mark.parametrize(("kind", "change", "point", "expected"), HELD, ids=[f"{k}-{c}-{p}" for k, c, p, _ in HELD])
def test_a_writer_that_loses_to_a_schema_change_goes_on_under_it_or_hears_a_conflict_on_it(
    kind: str, change: str, point: Failpoint, expected: str, tmp_path: Path
) -> None:
    graph = new_graph()
    other = og.Graph(graph._repository)
    outcome = held_at(point, lambda: KINDS[kind].run(graph, tmp_path), lambda: other.apply_schema(CHANGES[change]))
    assert outcome == expected
    assert graph.schema.hash == graph.plan_schema(CHANGES[change]).catalog.hash
    check_people(graph, KINDS[kind], change, wrote=outcome == OK)


APPLY_POINTS = (Failpoint.SCHEMA_BEFORE_PUT, Failpoint.PUBLISH_BEFORE_CREATE)
REFUSED = "schema_change_refused"

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
    outcome = held_at(point, lambda: graph.apply_schema(CHANGES[change]), lambda: KINDS[kind].run(other, tmp_path))
    breaks = {
        "range": KINDS[kind].age is not None,
        "narrower enum": kind not in ("update", "delete", "edge", "optimize"),
    }
    assert outcome == (REFUSED if breaks.get(change) else OK)
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
    outcome = held_at(point, lambda: graph.apply_schema(CHANGES[first]), lambda: other.apply_schema(CHANGES[second]))
    assert outcome == expected
    assert graph.schema.hash == graph.plan_schema(CHANGES[second]).catalog.hash
    assert [commit.kind for commit in graph.commits()].count("schema") == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_prepared_load_is_resumed_under_the_schema_that_is_there_by_then(change: str, tmp_path: Path) -> None:
    graph = new_graph()
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(FailpointReached()))
    try:
        with pytest.raises(FailpointReached):
            load("append")(graph, tmp_path)
    finally:
        disarm_all()
    graph.apply_schema(CHANGES[change])
    (prepared,) = graph.recovery.list()
    outcome = heard(lambda: graph.recovery.resume(prepared.commit_id))
    assert outcome == (OK if change in COMPATIBLE else SCHEMA_CONFLICT)
    check_people(graph, KINDS["load"], change, wrote=outcome == OK)
    assert [each.commit_id for each in graph.recovery.list()] == ([] if outcome == OK else [prepared.commit_id])
