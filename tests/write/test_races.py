"""The race table: two transactions on one branch, the first held at each point between two durable effects while the second
runs from beginning to end. The outcome of each pair stands in one table. Whatever wins, the graph keeps its rules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from children import Child
from write.model import CARDINALITY, ENDS, SCHEMA
from write.racing import HELD, WRITES, Writing

import omnigraph as og
from omnigraph.errors import OmnigraphError
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.snapshot import Repository
from omnigraph.testing.failpoints import Failpoint, FilePark, Park, arm, disarm_all
from omnigraph.write.inlining import ENVIRONMENT

CATALOG = compile_schema(SCHEMA)
POINTS = (
    Failpoint.TXN_BEFORE_STAGE,
    Failpoint.TABLE_STAGED_DATA,
    Failpoint.TABLE_STAGED_VERSION,
    Failpoint.TXN_AFTER_STAGE,
    Failpoint.PUBLISH_BEFORE_CREATE,
)
"""Where the first writer stands with everything decided and nothing visible."""
STAGED = (Failpoint.TABLE_STAGED_DATA, Failpoint.TABLE_STAGED_VERSION)
"""Only reached by writes whose rows do not stand in their commits."""

OK, KEY, MISMATCH, ENDPOINT = "ok", "key_conflict", "expected_version_mismatch", "endpoint_missing"

# What the held writer (rows) hears after the other one (columns) has committed. The other one always commits. An update or a delete
# that found its node is a conflict only if the node has gone.
#                  insert same    disjoint       upsert         update         delete node    insert edge
TABLE = {
    "insert same": (KEY,          OK,            KEY,           OK,            OK,            OK),
    "disjoint":    (OK,           KEY,           OK,            OK,            OK,            OK),
    "upsert":      (OK,           OK,            OK,            OK,            OK,            OK),
    "update":      (OK,           OK,            OK,            OK,            MISMATCH,      OK),
    "delete node": (OK,           OK,            OK,            OK,            MISMATCH,      OK),
    "insert edge": (OK,           OK,            OK,            OK,            ENDPOINT,      OK),
}  # fmt: skip

CELLS = [
    (first, second, outcome)
    for first, outcomes in TABLE.items()
    for second, outcome in zip(TABLE, outcomes, strict=True)
]


def outcome_of(write: Callable[[], object]) -> str:
    try:
        write()
    except OmnigraphError as error:
        return error.code
    return OK


def new_graph(uri: str) -> og.Graph:
    graph = og.Graph(Repository.create(uri, CATALOG, durability="process"))
    with graph.transaction() as tx:
        for name in HELD:
            tx.insert("Person", name=name)
        tx.insert("Note", id="n", text="t")
        tx.insert("WrittenBy", id="w", from_="n", to="Cy")
        tx.insert("Knows", id="k", from_="Bob", to="Cy")
    return graph


def check_rules(graph: og.Graph) -> None:
    """No id twice, no value held by two, no edge without its nodes, no source with too many or too few edges."""
    view = graph._repository.resolve("main")
    rows = {key: [] if (table := view.table(key)) is None else table.read().to_pylist() for key in view.catalog.tables}
    for key, members in rows.items():
        assert len({row["id"] for row in members}) == len(members) == view.rows(key)
    nicks = [row["nick"] for row in rows["node:Person"] if row["nick"] is not None]
    assert len(set(nicks)) == len(nicks)
    for key, ends in ENDS.items():
        for column, end in zip(("src", "dst"), ends, strict=True):
            assert {row[column] for row in rows[key]} <= {row["id"] for row in rows[end]}
        sources = [row["src"] for row in rows[key]]
        least, most = CARDINALITY[key]
        assert all(least <= sources.count(row["id"]) <= most for row in rows[ends[0]])


def check_cell(graph: og.Graph, first: str, second: str, found: str, expected: str) -> None:
    assert found == expected
    check_rules(graph)
    messages = [commit.message for commit in graph.commits()]
    assert messages == [*([first] if found == OK else []), second, None, None]
    effects = [WRITES[second].effect] + ([WRITES[first].effect] if found == OK else [])
    people = set(HELD)
    for effect in effects:
        people = effect(people)
    table = graph._repository.resolve("main").table("node:Person")
    assert table is not None
    assert set(table.read(["id"]).column("id").to_pylist()) == people


HOLDS = [
    (*cell, point)
    for cell in CELLS
    for point in POINTS
    if not (cell[0] == "delete node" and point is Failpoint.TABLE_STAGED_DATA)  # a removal writes no rows
]


@pytest.mark.parametrize(("first", "second", "expected", "point"), HOLDS, ids=[f"{a}-{b}-{p}" for a, b, _, p in HOLDS])
def test_between_threads(
    first: str, second: str, expected: str, point: Failpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    if point in STAGED:
        monkeypatch.setenv(ENVIRONMENT, "0")
    graph = new_graph("memory://")
    # A handle of its own, as another process has: not the same queue for group commit.
    other = og.Graph(graph._repository)
    park = Park()
    heard: list[str] = []

    def held() -> None:
        heard.append(outcome_of(lambda: WRITES[first].run(graph, first, "1")))

    arm(point, park)
    thread = threading.Thread(target=held, daemon=True)
    thread.start()
    try:
        park.wait_until_reached()
        disarm_all()
        assert outcome_of(lambda: WRITES[second].run(other, second, "2")) == OK
    finally:
        park.release()
        thread.join()
    check_cell(graph, first, second, heard[0], expected)


PROCESS_CELLS = [
    ("insert same", "insert same"),
    ("upsert", "insert same"),
    ("update", "update"),
    ("delete node", "insert edge"),
    ("insert edge", "delete node"),
    ("disjoint", "insert edge"),
]


@pytest.mark.parametrize(("first", "second"), PROCESS_CELLS, ids=[f"{a}-{b}" for a, b in PROCESS_CELLS])
@pytest.mark.parametrize("bound", ["0", "1", "64"])
def test_between_processes(
    first: str, second: str, bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, bound)
    uri = str(tmp_path / "graph")
    graph = new_graph(uri)
    points = POINTS if bound == "0" else [point for point in POINTS if point not in STAGED]
    point = points[len(first + second) % len(points)]
    child = Child(Path(__file__).with_name("racing.py"), uri, first, armed=f"{point}=park:{tmp_path}/park")
    park = FilePark(tmp_path / "park")
    try:
        park.wait_until_reached()
        assert outcome_of(lambda: WRITES[second].run(graph, second, "2")) == OK
    finally:
        park.release()
        printed = child.stdout.read()
        child.close()
    assert child.wait() == 0
    expected = dict(zip(TABLE, TABLE[first], strict=True))[second]
    check_cell(og.open(uri), first, second, printed.strip(), expected)


def test_every_pair_has_its_cell() -> None:
    assert set(TABLE) == set(WRITES)
    assert all(len(outcomes) == len(TABLE) for outcomes in TABLE.values())
    assert all(isinstance(write, Writing) for write in WRITES.values())
