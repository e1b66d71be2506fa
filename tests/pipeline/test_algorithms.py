"""Algorithms: every engine gives the same answer, and igraph, or a few lines of Python, gives it too."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import igraph
import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.algorithms import job, on_tasks
from omnigraph.algorithms.numbering import number
from omnigraph.errors import NotFound, OmnigraphError, UsageError
from omnigraph.indexing.adjacency import refresh_adjacency
from omnigraph.tables.adjacency import index

SCHEMA = """
node Person { name: String @key }
node City { name: String @key }
edge Knows: Person -> Person { weight: F64?  strength: I32  note: String? }
edge LivesIn: Person -> City { weight: F64?  strength: I32  note: String? }
"""
KINDS = ["random", "sparse", "path", "hub", "no edges", "two types"]


@dataclass(frozen=True)
class Case:
    graph: og.Graph
    edge: str
    names: list[tuple[str, str]]
    """(type, id), in order."""
    src: list[int]
    dst: list[int]
    weights: list[float]

    @property
    def reference(self) -> igraph.Graph:
        return igraph.Graph(n=len(self.names), edges=list(zip(self.src, self.dst, strict=True)), directed=True)

    def values(self, result: og.types.AlgorithmResult) -> list[Any]:
        rows = result.to_arrow()
        assert list(zip(rows["type"].to_pylist(), rows["id"].to_pylist(), strict=True)) == self.names
        values: list[Any] = rows[result.column].to_pylist()
        return values


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    kind = request.param
    dice = np.random.default_rng(KINDS.index(kind))
    people, cities = [f"p{number}é" for number in range(120)], [f"p{number}" for number in range(30)]
    names = sorted([("Person", name) for name in people] + [("City", name) for name in cities] * (kind == "two types"))
    places = {name: place for place, name in enumerate(names)}
    sources = np.array([places["Person", name] for name in people])
    targets = np.array([places["City", name] for name in cities]) if kind == "two types" else sources
    count = {"random": 500, "sparse": 90, "path": 119, "hub": 300, "no edges": 0, "two types": 150}[kind]
    if kind == "path":  # shuffled, so that neighbours are far apart in the order of ids
        line = dice.permutation(sources)
        src, dst = line[:-1], line[1:]
    else:
        src, dst = dice.choice(sources, count), dice.choice(targets, count)
    if kind == "hub":
        dst[::2] = sources[7]
    weights = dice.integers(0, 4, count) / 3
    graph = og.init(tmp_path_factory.mktemp("algorithms") / "g", SCHEMA)
    edge = "LivesIn" if kind == "two types" else "Knows"
    edges = pa.table(
        {
            "from": pa.array([names[place][1] for place in src], pa.utf8()),
            "to": pa.array([names[place][1] for place in dst], pa.utf8()),
            "weight": pa.array(weights, pa.float64()),
            "strength": pa.array((weights * 3).astype(np.int32)),
        }
    )
    graph.load({"Person": pa.table({"name": people}), "City": pa.table({"name": cities}), edge: edges}, mode="append")
    return Case(graph, edge, names, src.tolist(), dst.tolist(), weights.tolist())


@pytest.fixture(params=["arrays", "tasks"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In this process over arrays, or over four parts."""
    if request.param == "tasks":
        monkeypatch.setattr(job, "fits", lambda projection: False)
        monkeypatch.setattr(job, "parts_for", lambda projection, runner: 4)
    return str(request.param)


def test_ranks_are_those_of_igraph(case: Case, engine: str) -> None:
    algorithms = case.graph.algorithms("local")
    for weight in (None, "strength"):
        ranks = case.values(algorithms.pagerank(case.edge, weight=weight, damping=0.7, tolerance=1e-5))
        given = None if weight is None or not case.src else case.weights
        expected = case.reference.pagerank(damping=0.7, weights=given)
        assert np.abs(np.array(ranks) - expected).sum() < 1e-5


def test_components_are_those_of_igraph_named_by_their_smallest_node(case: Case, engine: str) -> None:
    found = case.values(case.graph.algorithms("local").connected_components(case.edge))
    members = case.reference.connected_components(mode="weak").membership
    smallest: dict[int, tuple[str, str]] = {}
    for name, component in zip(case.names, members, strict=True):
        smallest.setdefault(component, name)
    several = len({type for type, _ in case.names}) > 1
    assert found == [":".join(smallest[each]) if several else smallest[each][1] for each in members]


def test_distances_are_those_of_igraph(case: Case, engine: str) -> None:
    places = [place for place, (type, _) in enumerate(case.names) if type == "Person"][:3]
    algorithms = case.graph.algorithms("local")
    for weight in (None, "weight"):
        result = algorithms.shortest_paths(case.edge, [case.names[place][1] for place in places], weight=weight)
        given = None if weight is None or not case.src else case.weights
        expected = np.array(case.reference.distances(places, weights=given)).min(axis=0)
        found = np.array([np.inf if each is None else each for each in case.values(result)])
        assert np.array_equal(np.isinf(found), np.isinf(expected))
        reached = ~np.isinf(expected)
        assert np.abs(found[reached] - expected[reached]).max() < 1e-12


def test_triangles_are_those_of_igraph(case: Case, engine: str) -> None:
    expected = [0] * len(case.names)
    for triangle in case.reference.as_undirected().simplify().list_triangles():
        for corner in triangle:
            expected[corner] += 1
    assert case.values(case.graph.algorithms("local").triangle_count(case.edge)) == expected


def test_clustering_is_the_share_of_edges_among_neighbours(case: Case, engine: str) -> None:
    edges = {(src, dst) for src, dst in zip(case.src, case.dst, strict=True) if src != dst}
    neighbours: list[set[int]] = [set() for _ in case.names]
    for src, dst in edges:
        neighbours[src].add(dst)
        neighbours[dst].add(src)
    links = [sum(pair in edges for pair in permutations(near, 2)) for near in neighbours]
    expected = [count / max(len(near) * (len(near) - 1), 1) for count, near in zip(links, neighbours, strict=True)]
    assert case.values(case.graph.algorithms("local").local_clustering(case.edge)) == pytest.approx(expected, abs=1e-15)


def test_labels_are_those_of_the_rule_in_a_few_lines(case: Case, engine: str) -> None:
    neighbours: list[list[tuple[int, float]]] = [[] for _ in case.names]
    for src, dst, weight in zip(case.src, case.dst, case.weights, strict=True):
        neighbours[src].append((dst, weight))
        neighbours[dst].append((src, weight))
    several = len({type for type, _ in case.names}) > 1
    for weight_name, rounds in ((None, 4), ("weight", 3)):
        labels = list(range(len(case.names)))
        for _ in range(rounds):
            votes = [Counter[int]() for _ in labels]
            for place, near in enumerate(neighbours):
                for far, weight in sorted(near, key=lambda pair: pair[1]):
                    votes[place][labels[far]] += 1 if weight_name is None else weight  # type: ignore[assignment]
            labels = [_winner(vote, own) for vote, own in zip(votes, labels, strict=True)]
        result = case.graph.algorithms("local").label_propagation(case.edge, weight=weight_name, rounds=rounds)
        expected = [case.names[label] for label in labels]
        assert case.values(result) == [":".join(name) if several else name[1] for name in expected]


def test_ranks_and_labels_are_those_of_graphalytics(case: Case, engine: str) -> None:
    """As its specification defines them: synchronous steps, every edge counts, the smallest of equal labels."""
    nodes, damping = len(case.names), 0.85
    edges = list(zip(case.src, case.dst, strict=True))
    leaving = Counter(case.src)
    ranks, labels = [1 / nodes] * nodes, list(range(nodes))
    for _ in range(7):
        lost = sum(rank for node, rank in enumerate(ranks) if not leaving[node])
        received = [0.0] * nodes
        votes = [Counter[int]() for _ in labels]
        for src, dst in edges:
            received[dst] += ranks[src] / leaving[src]
            votes[dst][labels[src]] += 1
            votes[src][labels[dst]] += 1
        ranks = [(1 - damping) / nodes + damping * (share + lost / nodes) for share in received]
        labels = [
            min(vote, key=lambda label: (-vote[label], label), default=own)
            for own, vote in zip(labels, votes, strict=True)
        ]
    algorithms = case.graph.algorithms("local")
    found = algorithms.pagerank(case.edge, damping=damping, rounds=7)
    assert found.steps == 7
    assert case.values(found) == pytest.approx(ranks, abs=1e-12)
    several = len({type for type, _ in case.names}) > 1
    expected = [":".join(case.names[label]) if several else case.names[label][1] for label in labels]
    assert case.values(algorithms.label_propagation(case.edge, rounds=7, ties="smallest")) == expected


def _winner(votes: Counter[int], own: int) -> int:
    best = [label for label, weight in votes.items() if weight == max(votes.values())]
    return own if own in best or not best else min(best)


def test_a_run_leaves_nothing_beside_the_graph_but_its_rows_until_they_are_closed(
    case: Case, engine: str, tmp_path: Path
) -> None:
    staging = Path(case.graph.uri) / "staging"
    with case.graph.algorithms("local").pagerank(case.edge, tolerance=0.1) as ranks:
        kept = {path.parent.name for path in staging.rglob("*") if path.is_file()}
        assert kept == ({"rows"} if engine == "tasks" else set())
        assert len(ranks) == len(case.names)
        assert sorted(ranks.to_polars().columns) == ["id", "rank", "type"]
        assert set(ranks.property("Person.score")["Person"].column_names) == {"id", "score"}
    assert not [path for path in staging.rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("small") / "g", SCHEMA)
    rows: dict[str, list[Any]] = {"id": ["a", "b"], "from": ["x", "y"], "to": ["y", "x"], "weight": [1.0, None]}
    edges = pa.table({**rows, "strength": pa.array([1, -2], pa.int32())})
    graph.load({"Person": pa.table({"name": ["x", "y"]}), "Knows": edges}, mode="append")
    return graph


WRONG: list[tuple[str, dict[str, Any], type[OmnigraphError], str]] = [
    ("pagerank", {"edge": "Nothing"}, NotFound, "there is no edge type 'Nothing'"),
    ("pagerank", {"edge": "Knows", "weight": "note"}, UsageError, "'note' is not a property of Knows that can be"),
    ("pagerank", {"edge": "Knows", "weight": "src"}, UsageError, "'src' is not a property of Knows that can be"),
    ("pagerank", {"edge": "Knows", "weight": "weight"}, UsageError, "the edge 'b' of Knows has no weight"),
    ("pagerank", {"edge": "Knows", "weight": "strength"}, UsageError, "the edge 'b' of Knows has the weight -2"),
    ("pagerank", {"edge": "Knows", "damping": 1.0}, UsageError, "'damping' must be at least 0 and less than 1"),
    ("pagerank", {"edge": "Knows", "tolerance": 1e-15}, UsageError, "'tolerance' must be a number from 1e-12 on"),
    ("pagerank", {"edge": "Knows", "rounds": 0}, UsageError, "'rounds' must be at least 1"),
    ("label_propagation", {"edge": "Knows", "ties": "none"}, UsageError, "'ties' must be 'own' or 'smallest'"),
    ("label_propagation", {"edge": "Knows", "rounds": 0}, UsageError, "'rounds' must be at least 1"),
    ("shortest_paths", {"edge": "Knows", "sources": []}, UsageError, "shortest paths need sources"),
    ("shortest_paths", {"edge": "Knows", "sources": ["z"]}, NotFound, "there is no Person 'z' to start from"),
]


@pytest.mark.parametrize(("name", "arguments", "kind", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_what_cannot_be_computed_is_refused_in_words(
    small: og.Graph, engine: str, name: str, arguments: dict[str, Any], kind: type[OmnigraphError], message: str
) -> None:
    with pytest.raises(kind) as raised:
        getattr(small.algorithms("local"), name)(**arguments)
    assert message in str(raised.value)
    assert not [path for path in (Path(small.uri) / "staging").rglob("*") if path.is_file()]


@pytest.mark.spark
@pytest.mark.parametrize("case", ["two types"], indirect=True)
def test_spark_gives_the_same_answers(case: Case, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "parts_for", lambda projection, runner: 3)
    here, there = case.graph.algorithms("local"), case.graph.algorithms(spark)
    expected, found = here.pagerank(case.edge, tolerance=0.1), there.pagerank(case.edge, tolerance=0.1)
    assert (expected.engine, found.engine, found.steps) == ("in process", "on Spark", expected.steps)
    assert np.abs(np.array(case.values(found)) - case.values(expected)).sum() < 1e-12
    frame = found.to_spark()
    assert (frame.count(), frame.columns) == (len(case.names), ["type", "id", "rank"])
    ranks = found.property("Person.rank")["Person"]
    assert (ranks.columns, ranks.count()) == (["id", "rank"], 120)
    expected, found = (one.label_propagation(case.edge, rounds=3, ties="smallest") for one in (here, there))
    assert case.values(found) == case.values(expected)
    assert case.values(there.local_clustering(case.edge)) == case.values(here.local_clustering(case.edge))
    assert case.values(there.connected_components(case.edge)) == case.values(here.connected_components(case.edge))
    small = case.graph.spark(spark).algorithms.pagerank(case.edge)
    assert (small.engine, small.to_spark().count()) == ("in process", len(case.names))


def test_tasks_find_their_numbers_in_stored_adjacency(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """And number the ids themselves where a file of it is lost."""
    algorithms = case.graph.algorithms("local")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("pagerank", {}),
        ("connected_components", {}),
        ("triangle_count", {}),
        ("local_clustering", {}),
        ("label_propagation", {}),
    ]
    expected = [case.values(getattr(algorithms, name)(case.edge, **options)) for name, options in calls]
    monkeypatch.setattr(index, "MIN_ROWS", 0)
    monkeypatch.setattr(job, "fits", lambda projection: False)
    monkeypatch.setattr(job, "parts_for", lambda projection, runner: 4)
    repository = case.graph._repository
    refresh_adjacency(repository, repository.head()[1], min_rows=1)
    numbered: list[str] = []
    monkeypatch.setattr(on_tasks, "number", lambda *given, **more: numbered.append("") or number(*given, **more))

    def check() -> None:
        for (name, options), values in zip(calls, expected, strict=True):
            found = case.values(getattr(algorithms, name)(case.edge, **options))
            assert found == (pytest.approx(values, abs=1e-6) if name == "pagerank" else values)

    check()
    assert len(numbered) == (0 if case.src else len(calls))
    for file in (Path(case.graph.uri) / "edges").rglob("*.adj"):
        file.write_bytes(b"")
    algorithms = og.open(case.graph.uri).algorithms("local")
    check()
    assert len(numbered) >= len(calls)
