"""What the members of a group only add is staged at once, and each commit still stands by itself."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from children import exit_code
from write.crowd import Crowd, person

import omnigraph as og
from omnigraph.errors import KeyConflict, StorageTransient
from omnigraph.history.plan import PublishPlan
from omnigraph.history.publish import Attempt
from omnigraph.storage.local import LocalStore
from omnigraph.testing.failpoints import Failpoint, arm
from omnigraph.write.group import JointStage, footprint
from omnigraph.write.row_write import RowWrite, prepare_write
from omnigraph.write.transaction import WriteTransaction

SCHEMA = """
node Person { name: String @key  nick: String? @unique }
node Team { title: String @key }
edge Knows: Person -> Person @card(0..1)
node Chief { name: String @key }
edge Leads: Chief -> Team @card(1..2)
"""


pytestmark = pytest.mark.usefixtures("stores_every_commit")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", schema=SCHEMA, durability="process")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Commits of members that were staged by themselves."""
    seen: list[str] = []
    real = RowWrite.stage_on

    def watched(write: RowWrite, plan: PublishPlan, attempt: Attempt) -> PublishPlan | None:
        seen.append(str(plan.message))
        return real(write, plan, attempt)

    monkeypatch.setattr(RowWrite, "stage_on", watched)
    return seen


def crowd_of(graph: og.Graph, **members: Callable[[og.Transaction], object]) -> Crowd:
    crowd = Crowd(graph)
    crowd.hold_first(person("first"))
    for name, statements in members.items():
        crowd.start(name, statements)
    crowd.wait_for(len(members))
    return crowd


def people(graph: og.Graph, revision: str = "main") -> set[str]:
    table = graph._repository.resolve(revision).table("node:Person")
    return set() if table is None else set(table.read(["id"]).column("id").to_pylist())


def test_each_commit_of_a_group_shows_its_own_change_and_no_other(graph: og.Graph, alone: list[str]) -> None:
    crowd = crowd_of(graph, **{f"w{number}": person(f"p{number}") for number in range(6)})
    crowd.release()
    assert alone == ["first"]
    commits = graph.commits(limit=6)[::-1]
    seen = {"first"}
    for commit in commits:
        own = f"p{(commit.message or '')[1:]}"
        seen.add(own)
        assert people(graph, commit.id) == seen
        changes = list(graph.commit_changes(commit.id).changes)
        assert [(change.op, change.id) for change in changes] == [("insert", own)]
    numbers = [graph._repository.resolve(commit.id).snapshot.tables["node:Person"] for commit in commits]
    assert [state.generation for state in numbers] == list(range(2, 8))
    assert [state.rows for state in numbers] == list(range(2, 8))


def test_a_group_adds_one_fragment_to_a_table(graph: og.Graph) -> None:
    crowd_of(graph, **{f"w{number}": person(f"p{number}") for number in range(6)}).release()
    table = graph._repository.resolve("main").table("node:Person")
    assert table is not None
    assert sorted(fragment.rows for fragment in table.fragments) == [1, 6]


def test_members_of_several_tables(graph: og.Graph, alone: list[str]) -> None:
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name} for name in ("a", "b", "c")])
    crowd = crowd_of(
        graph,
        team=lambda tx: tx.insert("Team", title="t"),
        edge=lambda tx: tx.insert("Knows", id="k1", from_="a", to="b"),
        both=lambda tx: (tx.insert("Person", name="d"), tx.insert("Knows", id="k2", from_="d", to="c")),
        person=person("e"),
    )
    crowd.release()
    assert all(isinstance(outcome, og.types.Receipt) for outcome in crowd.outcomes.values())
    assert alone == ["None", "first"]
    assert people(graph) == {"a", "b", "c", "d", "e", "first"}
    for commit in graph.commits(limit=4):
        view = graph._repository.resolve(commit.id)
        edges = view.table("edge:Knows")
        ends = set() if edges is None else {end for row in edges.read().to_pylist() for end in (row["src"], row["dst"])}
        assert ends <= people(graph, commit.id)
        (type_name,) = {"team": ["Team"], "edge": ["Knows"], "person": ["Person"], "both": [None]}[commit.message or ""]
        changed = {change.type_name for change in graph.commit_changes(commit.id).changes}
        assert changed == ({type_name} if type_name else {"Person", "Knows"})


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (person("first"), "key_conflict"),
        (person("x", "taken"), "unique_violation"),
        (person("p0"), "key_conflict"),
        (person("x", "n"), "unique_violation"),
    ],
    ids=["key of the branch", "value of the branch", "key of a neighbour", "value of a neighbour"],
)
def test_who_breaks_a_rule_falls_out_alone(
    graph: og.Graph, statements: Callable[[og.Transaction], object], error: str
) -> None:
    members = {"w0": person("p0"), "w1": person("p1", "n"), "w2": person("p2")}
    crowd = Crowd(graph)
    crowd.hold_first(person("first", "taken"))
    for name, own in members.items():
        crowd.start(name, own)
        crowd.wait_for(list(members).index(name) + 1)
    crowd.start("wrong", statements)
    crowd.wait_for(4)
    crowd.release()
    outcome = crowd.outcomes.pop("wrong")
    assert getattr(outcome, "code", None) == error
    assert all(isinstance(outcome, og.types.Receipt) for outcome in crowd.outcomes.values())
    assert people(graph) == {"first", "p0", "p1", "p2"}


def test_who_replaces_a_row_is_staged_by_itself(graph: og.Graph, alone: list[str]) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name="old")
    crowd = crowd_of(
        graph,
        upsert=lambda tx: tx.upsert("Person", name="old", nick="o"),
        a=person("a"),
        b=person("b"),
    )
    crowd.release()
    assert all(isinstance(outcome, og.types.Receipt) for outcome in crowd.outcomes.values())
    assert alone == ["None", "first", "upsert"]
    assert people(graph) == {"old", "first", "a", "b"}


@pytest.mark.parametrize("is_edge", [False, True], ids=["node", "edge"])
def test_members_that_upsert_the_same_entity_replace_it_one_after_the_other(graph: og.Graph, is_edge: bool) -> None:
    """Also where nobody had it before: each of them was checked when it was alone."""
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name} for name in ("a", "b", "c")])

    def put(end: str) -> Callable[[og.Transaction], object]:
        if is_edge:
            return lambda tx: tx.upsert("Knows", id="same", from_=end, to="a")
        return lambda tx: tx.upsert("Person", name="same", nick=end)

    crowd_of(graph, a=put("a"), b=put("b"), c=put("c"), other=lambda tx: tx.insert("Team", title="t")).release()
    key, column = ("edge:Knows", "src") if is_edge else ("node:Person", "nick")
    for commit in graph.commits(limit=4):
        table = graph._repository.resolve(commit.id).table(key)
        rows = [] if table is None else table.read(["id", column]).to_pylist()
        same = [row[column] for row in rows if row["id"] == "same"]
        assert len(same) <= 1
        assert commit.message in ("other", *same)
    assert graph.maintenance.verify(deep=True).is_whole


def test_nobody_relies_on_a_neighbour(graph: og.Graph, alone: list[str]) -> None:
    """An edge whose end a neighbour writes anew is not staged with it: neither order may leave it dangling."""
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name} for name in ("a", "b")])
    crowd = crowd_of(
        graph,
        edge=lambda tx: tx.insert("Knows", from_="a", to="b"),
        node=lambda tx: tx.upsert("Person", name="b2"),
        least=lambda tx: (
            tx.insert("Team", title="t"),
            tx.insert("Chief", name="c"),
            tx.insert("Leads", from_="c", to="t"),
        ),
    )
    waiting = crowd.graph._committer._queues["main"]
    writes = {each.write.plan.message: each.write for each in waiting}
    edge, node, least = (writes[name] for name in ("edge", "node", "least"))
    assert footprint(edge.deltas) == (set(), set(), {("node:Person", "a"), ("node:Person", "b")})
    assert footprint(node.deltas) == ({("node:Person", "b2")}, {("node:Person", "b2")}, set())
    assert not least.only_adds, "a least number is kept by rows of others too"
    crowd.release()
    assert set(alone) == {"None", "first", "least"}


def test_a_pair_that_relies_on_each_other_is_not_chosen(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name} for name in ("a", "b")])

    def write(statements: Callable[[WriteTransaction], object]) -> RowWrite:
        tx = WriteTransaction(graph._repository, graph._committer)
        statements(tx)
        return replace(prepare_write(tx.view, tx.entry, tx.deltas(tx.view.schema)), addresses={})

    edge = write(lambda tx: tx.insert("Knows", from_="a", to="b"))
    node = write(lambda tx: tx.upsert("Person", name="b"))
    other = write(lambda tx: tx.insert("Person", name="c"))
    stage = JointStage(graph._repository, [edge, node, other])
    assert list(stage._apart(range(3))) == [0, 2]
    stage = JointStage(graph._repository, [node, edge, other])
    assert list(stage._apart(range(3))) == [0, 2]


def test_a_group_that_lost_its_place_is_staged_again_at_once(graph: og.Graph, alone: list[str]) -> None:
    """Another process is first, with a key that one member wanted."""
    other = og.open(graph.uri, durability="process")
    crowd = crowd_of(graph, **{f"w{number}": person(f"p{number}") for number in range(4)})

    def be_first() -> None:
        with other.transaction(message="other") as tx:
            tx.insert("Person", name="p2")
            tx.insert("Person", name="q")

    arm(Failpoint.PUBLISH_BEFORE_CREATE, be_first)
    crowd.release()
    assert isinstance(crowd.outcomes.pop("w2"), KeyConflict)
    assert all(isinstance(outcome, og.types.Receipt) for outcome in crowd.outcomes.values())
    assert people(graph) == {"first", "p0", "p1", "p2", "p3", "q"}
    ids = [commit.id for commit in graph.commits()]
    assert len(ids) == len(set(ids)) == 1 + 1 + 1 + 3


def test_the_answer_of_the_put_is_lost(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = crowd_of(graph, **{f"w{number}": person(f"p{number}") for number in range(4)})
    real = LocalStore.create
    lost: list[str] = []

    def create(store: LocalStore, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        real(store, key, data, sync_first=sync_first)
        if key.startswith("branches/") and not lost:
            lost.append(key)
            raise StorageTransient("no answer", key=key)

    monkeypatch.setattr(LocalStore, "create", create)
    crowd.release()
    assert lost
    receipts = [outcome for outcome in crowd.outcomes.values() if isinstance(outcome, og.types.Receipt)]
    assert len(receipts) == 5
    assert people(graph) == {"first", "p0", "p1", "p2", "p3"}
    assert len(graph.commits(limit=100)) == 6


KILLED = """
import sys, threading
import omnigraph as og
from write.crowd import Crowd, person
from omnigraph.testing.failpoints import Failpoint, arm, killing

graph = og.open(sys.argv[1])
crowd = Crowd(graph)
crowd.hold_first(person("first"))
for number in range(4):
    crowd.start(f"w{number}", person(f"p{number}"))
crowd.wait_for(4)
point = Failpoint(sys.argv[2])
arm(point, killing(), nth=int(sys.argv[3]))
crowd.release()
"""


@pytest.mark.parametrize(
    ("point", "nth", "there"),
    [
        (Failpoint.TABLE_STAGED_VERSION, 2, False),
        (Failpoint.PUBLISH_BEFORE_CREATE, 1, False),
        (Failpoint.PUBLISH_AFTER_CREATE, 2, True),
        (Failpoint.PUBLISH_BEFORE_ACK, 2, True),
    ],
)
def test_a_process_that_dies_leaves_the_whole_group_or_none_of_it(
    tmp_path: Path, point: Failpoint, nth: int, there: bool
) -> None:
    """Between the first version and the create nothing of the group is there; after it everything is."""
    uri = str(tmp_path / "graph")
    og.init(uri, schema=SCHEMA, durability="process")
    assert exit_code(KILLED, uri, point.value, str(nth)) == -signal.SIGKILL
    graph = og.open(uri, durability="process")
    everybody = {"first", "p0", "p1", "p2", "p3"}
    assert people(graph) == (everybody if there else {"first"})
    assert len(graph.commits()) == 1 + len(people(graph))
    with graph.transaction() as tx:
        tx.insert("Person", name="later")
        tx.upsert("Person", name="p0")
    assert people(graph) >= {"later", "p0"}
