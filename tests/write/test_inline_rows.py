"""Rows in commits: a graph means the same however many of its rows stand there."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from write.crowd import Crowd

import omnigraph as og
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all
from omnigraph.write.inlining import ENVIRONMENT

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  born: Date?
  seen: DateTime?
  big: I64?
  huge: U64?
  tags: [String]?
  days: [Date]?
  photo: Blob?
  vec: Vector(2)?
}
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
"""
WIDER = SCHEMA.replace("since: I32?", "since: I64?  why: String?").replace(
    "score: F64?", 'points: F64? @rename_from("score")'
)

Operation = Callable[[og.Graph], None]
PEOPLE_QUERY = "query q() { match { $p: Person } return { $p.name } }"
PEOPLE = [f"p{number}" for number in range(12)]


def person(choice: random.Random, name: str) -> dict[str, Any]:
    values: dict[str, Any] = {"name": name}
    made: dict[str, Callable[[], object]] = {
        "age": lambda: choice.randrange(100),
        "born": lambda: f"20{choice.randrange(10, 30)}-01-0{choice.randrange(1, 9)}",
        "seen": lambda: f"1{choice.randrange(100, 999)}-01-01T00:00:00.00000{choice.randrange(9)}Z",
        "big": lambda: choice.choice([2**63 - 1, -(2**63), 2**53, 7]),
        "huge": lambda: choice.choice([2**64 - 1, 0]),
        "tags": lambda: choice.choice([[], ["é", "x'y\"z"], ["\U0001f600"]]),
        "days": lambda: choice.choice([["2020-02-29"], []]),
        "photo": lambda: bytes([choice.randrange(256)] * choice.randrange(4)),
        "vec": lambda: [choice.random(), 0.5],
    }
    for name_, make in made.items():
        if choice.random() < 0.5:
            values[name_] = make()
    return values


def history(seed: int, steps: int) -> list[Operation]:
    """Operations that do the same on every graph."""
    choice = random.Random(seed)
    operations: list[Operation] = []
    for number in range(steps):
        operations.append(_operation(choice, number))
    operations.insert(choice.randrange(steps // 2, steps), lambda graph: graph.schema.apply(WIDER) and None)
    return operations


KINDS = {"write": 10, "update": 5, "delete": 4, "many": 1, "optimize": 1, "merge": 1, "load": 1, "beside": 3}


def _operation(choice: random.Random, number: int, kinds: Mapping[str, int] = KINDS) -> Operation:
    kind = choice.choices(list(kinds), list(kinds.values()))[0]
    names = choice.sample(PEOPLE, 3)
    rows = [person(choice, name) for name in names]
    if kind == "write":

        def write(graph: og.Graph) -> None:
            with graph.transaction() as tx:
                for row in rows[: 1 + number % 3]:
                    tx.upsert("Person", row)
                tx.insert("Note", id=f"n{number}", text=f"note {number}")
                if number % 2:
                    tx.upsert("Knows", id=f"k{number % 7}", from_=names[0], to=names[0], since=number)

        return write
    if kind == "update":
        age = choice.randrange(100)
        text = f"query m() {{ update Person set {{ age: {age} }} where age > {choice.randrange(100)} }}"
        return lambda graph: graph.mutate(text) and None
    if kind == "delete":
        return lambda graph: graph.mutate(f'query m() {{ delete Person where name = "{names[0]}" }}') and None
    if kind == "many":

        def many(graph: og.Graph) -> None:
            with graph.transaction() as tx:
                tx.insert_many("Note", [{"id": f"m{number}-{each}", "text": "many"} for each in range(80)])
                tx.upsert("Person", rows[0])

        return many
    if kind == "optimize":
        return lambda graph: graph.maintenance.optimize() and None
    if kind == "beside":
        others = [
            _operation(choice, 1_000 + 50 * number + each, KINDS | {"beside": 0})
            for each in range(choice.randrange(1, 9))
        ]
        return beside(choice.choice(["optimize", "load"]), others, [{"name": name, "age": number} for name in names])
    if kind == "merge":

        def merge(graph: og.Graph) -> None:
            graph.branches.create("side")
            with graph.transaction("side") as tx:
                tx.upsert("Person", rows[0])
                tx.insert("Note", id=f"s{number}", text="side")
            with graph.transaction() as tx:
                tx.insert("Note", id=f"t{number}", text="main")
            graph.branches.merge("side", "main")
            graph.branches.delete("side", force=True)

        return merge

    return lambda graph: load(graph, [{"name": row["name"], "age": number} for row in rows])


def load(graph: og.Graph, rows: list[dict[str, Any]]) -> None:
    file = Path(graph.uri).parent / "people.jsonl"
    file.write_text("".join(json.dumps({"type": "Person", "data": row}) + "\n" for row in rows))
    graph.load(str(file), mode="merge", engine="local")


def beside(kind: str, others: list[Operation], rows: list[dict[str, Any]]) -> Operation:
    """What takes long, with everything else done after its work and before it is published."""
    point = Failpoint.OPTIMIZE_BEFORE_PUBLISH if kind == "optimize" else Failpoint.LOAD_BEFORE_PUBLISH

    def run(graph: og.Graph) -> None:
        done = []

        def meanwhile() -> None:
            disarm_all()
            done.append(None)
            other = og.open(graph.uri)
            for operation in others:
                operation(other)

        arm(point, meanwhile)
        if kind == "optimize":
            graph.maintenance.optimize()
        else:
            load(graph, rows)
        if not done:  # There was nothing to do, which depends on what is stored.
            meanwhile()

    return run


def content(graph: og.Graph, revision: str) -> dict[str, object]:
    """Everything that readers can see of a commit, by the ways that they take."""
    view = graph._repository.resolve(revision)
    found: dict[str, object] = {}
    for key in view.catalog.tables:
        table = view.table(key)
        if table is None or not table.rows:
            continue
        rows = sorted(table.read().to_pylist(), key=lambda row: row["id"])
        assert len(rows) == table.rows == view.rows(key) == sum(each.rows for each in table.fragments)
        by_fragment = [row for each in table.fragments for row in table.read(fragments=[each.id]).to_pylist()]
        assert sorted(by_fragment, key=lambda row: row["id"]) == rows
        ids = [row["id"] for row in rows]
        held = table.lookup("id", ids, with_address=True)
        assert sorted(held.drop_columns(["_rowaddr"]).to_pylist(), key=lambda row: row["id"]) == rows
        some = held.column("_rowaddr").to_pylist()[::2]
        assert table.take_addresses(some, ["id"]).num_rows == len(some)
        assert table.count("id > 'm'") == len([id for id in ids if id > "m"]) == table.read(["id"], "id > 'm'").num_rows
        assert table.scan(["id"], limit=3).read_all().num_rows == min(3, len(rows))
        if "src" in table.schema.names:
            ends = {row["src"] for row in rows}
            assert table.lookup("src", sorted(ends), ["id", "dst"]).num_rows == len(rows)
        found[key] = rows
    return found


def changes(graph: og.Graph, before: str, after: str) -> list[object]:
    found = [(each.type_name, each.id, each.op, each.before, each.after) for each in graph.diff(before, after)]
    return sorted(found, key=lambda each: each[:3])  # Types come in the order of ids that each graph makes for itself.


def test_a_graph_means_the_same_however_many_rows_stand_in_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_bounds(2, 18, tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_many_graphs_mean_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_bounds(seed, 40, tmp_path, monkeypatch)


def compare_bounds(seed: int, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: dict[str | None, og.Graph] = {}
    for bound in ("0", "1", "3", None):
        if bound is None:
            monkeypatch.delenv(ENVIRONMENT, raising=False)
        else:
            monkeypatch.setenv(ENVIRONMENT, bound)
        folder = tmp_path / f"bound-{bound}"
        folder.mkdir()
        graph = graphs[bound] = og.init(str(folder / "graph"), schema=SCHEMA)
        for operation in history(seed, steps):
            operation(graph)
    expected = states(graphs["0"])
    assert len(expected) > 1.5 * steps
    for bound, graph in list(graphs.items())[1:]:
        assert states(graph) == expected, f"with bound {bound}"
        assert not graph.maintenance.verify().findings
        assert states(og.open(graph.uri)) == expected


def test_what_small_commits_changed_is_read_from_the_commits(tmp_path: Path) -> None:
    """With the tables out of reach: only the state before the first of them is in one."""
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    with graph.transaction() as tx:
        tx.insert("Person", name="p0")
        tx.insert("Knows", id="k0", from_="p0", to="p0")
    with graph.transaction() as tx:
        tx.insert("Person", name="p1")
        tx.insert("Knows", id="k1", from_="p1", to="p0")
    start = graph.head().id
    for number in range(2, 140):
        with graph.transaction() as tx:
            tx.insert("Person", name=f"p{number}")
            tx.insert("Knows", id=f"k{number}", from_=f"p{number}", to="p0", since=number)
    for name in ("nodes", "edges"):
        (tmp_path / "graph" / name).rename(tmp_path / name)
    reader = og.open(str(tmp_path / "graph"))
    pages = [reader.changes(start=f"after:{start}")]
    while not pages[-1].caught_up:
        token, cursor = pages[-1].next_page_token, pages[-1].cursor
        pages.append(reader.changes(page_token=token) if token else reader.changes(since=cursor))
    found = [change for page in pages for block in page.blocks for change in block.changes]
    assert len(found) == 2 * 138
    assert [(change.after or {})["since"] for change in found if change.id == "k77"] == [77]


@pytest.mark.parametrize(("bound", "rivals"), [("1", 0), ("1", 1), ("64", 0), ("64", 1)])
def test_writers_who_meet_share_an_entry_that_carries_their_rows(
    bound: str, rivals: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, bound)
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    for name in ("a", "b"):
        with graph.transaction() as tx:
            tx.insert("Person", name=name)
    before = graph._repository.head()[0]
    crowd = Crowd(graph)
    crowd.hold_first(lambda tx: tx.insert("Person", name="first"))
    for number in range(5):
        crowd.start(f"w{number}", lambda tx, number=number: tx.insert("Person", name=f"p{number}", age=number))
    for _ in range(rivals):
        crowd.start("again", lambda tx: tx.insert("Person", name="p3"))
    crowd.wait_for(5 + rivals)
    crowd.release()
    entry, _ = graph._repository.head()
    outcomes = sorted(type(outcome).__name__ for outcome in crowd.outcomes.values())
    assert outcomes == [*["KeyConflict"] * rivals, *["Receipt"] * 6]
    assert entry.position == before.position + 2
    versions = {state.version for each in entry.snapshots() for state in each.tables.values()}
    assert (versions == {state.version for state in before.head.tables.values()}) == (bound == "64")
    people = [len(graph.query(PEOPLE_QUERY, revision=each.commit.id)) for each in entry.snapshots()]
    assert people == [4, 5, 6, 7, 8]
    assert content(og.open(graph.uri), "main") == content(graph, "main")


def test_zeros_of_either_sign_are_two_values(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    with graph.transaction() as tx:
        tx.insert("Person", name="a")
    signs = (1.0, -1.0, 1.0)
    for sign in signs:
        with graph.transaction() as tx:
            tx.upsert("Person", name="b", score=math.copysign(0.0, sign))
    for reader in (graph, og.open(graph.uri)):
        scores = [(reader.entity("Person", "b", revision=f"main~{age}") or {})["score"] for age in (2, 1, 0)]
        assert tuple(math.copysign(1.0, score) for score in scores) == signs


def test_only_the_step_that_removes_a_row_names_it(tmp_path: Path) -> None:
    """A merge that takes over a table whose last change removed a row does not say so again, and is read as it was written."""
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    for name in ("stored", "in a commit", "gone"):
        with graph.transaction() as tx:
            tx.insert("Person", name=name)
    graph.branches.create("side")
    with graph.transaction("side") as tx:
        tx.delete("Person", "gone")
    graph.branches.merge("side", "main")
    with graph.transaction() as tx:
        tx.insert("Person", name="later")

    def holders(branch: str) -> list[str]:
        files = sorted((tmp_path / "graph" / "branches" / branch).iterdir())
        return [file.name for file in files if '"removed":["gone"]' in file.read_text()]

    assert len(holders("side")) == 1
    assert holders("main") == []
    assert content(og.open(graph.uri), "main") == content(graph, "main")
    assert {row["id"] for row in content(graph, "main")["node:Person"]} == {"stored", "in a commit", "later"}  # type: ignore[attr-defined]


def states(graph: og.Graph) -> list[object]:
    """What each commit that is not an optimize holds, and what it changed, oldest first."""
    ids = [commit.id for commit in reversed(graph.commits(limit=200)) if commit.kind != "optimize"]
    held = [content(graph, id) for id in ids]
    changed = [changes(graph, before, after) for before, after in itertools.pairwise(ids)]
    return [*held, *changed]


@pytest.mark.parametrize("kind", ["optimize", "load"])
def test_what_loses_to_small_commits_again_and_again_writes_its_files_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)  # With less room, each of the small commits would fold.
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{number}", "age": 0} for number in range(100)])
    with graph.transaction() as tx:
        tx.update("Person", "p3", age=1)
    other, lost = og.open(graph.uri), []
    versions: list[int] = []

    def lose() -> None:
        disarm_all()
        versions.append(len(list((tmp_path / "graph" / "nodes").rglob("*.manifest"))))
        with other.transaction() as tx:
            tx.upsert("Person", name=f"p{len(lost) % 7}", age=len(lost))
            tx.upsert("Person", name=f"q{len(lost) % 3}", age=len(lost))
            tx.delete("Person", f"p{50 + len(lost)}")
        lost.append(None)
        if len(lost) < 12:
            arm(Failpoint.PUBLISH_BEFORE_CREATE, lose)

    arm(Failpoint.PUBLISH_BEFORE_CREATE, lose)
    if kind == "optimize":
        assert graph.maintenance.optimize().commit is not None
    else:
        load(graph, [{"name": name, "age": -1} for name in ("p1", "p90", "q1", "r")])
    assert len(set(versions[2:])) == 1, "a lost race stages nothing"
    people = dict.fromkeys((f"p{number}" for number in range(100)), 0) | {"p3": 1}
    for turn in range(12):
        people |= {f"p{turn % 7}": turn, f"q{turn % 3}": turn}
        del people[f"p{50 + turn}"]
    people |= {} if kind == "optimize" else {"p1": -1, "p90": -1, "q1": -1, "r": -1}
    for reader in (graph, og.open(graph.uri)):
        assert {row["id"]: row["age"] for row in content(reader, "main")["node:Person"]} == people  # type: ignore[attr-defined]
    assert not graph.maintenance.verify(deep=True).findings
