"""Any number of processes write one graph: 2, 3, 5 and 12 of them at once, through the public surface."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import Child

import omnigraph as og

SCHEMA = """
node Person { name: String @key  visits: I32? }
node Counter { name: String @key  value: I32 }
edge Knows: Person -> Person
"""
ADD = """
query add($n: String) { insert Person { name: $n } insert Knows { from: $n, to: "hub" } }
query claim($n: String) { insert Person { name: $n } }
query set($v: I32) { update Counter set { value: $v } where name = "c" }
"""


class Crew:
    """Processes that were started once; any number of them takes part in a run."""

    def __init__(self, count: int) -> None:
        self.children = [Child(Path(__file__)) for _ in range(count)]

    def run(self, count: int, program: str, uri: str) -> list[list[str]]:
        """All open the graph, start at the same moment, and say what came of each round."""
        crew = self.children[:count]
        for number, child in enumerate(crew):
            self._tell(child, [program, uri, number])
        assert [self._hear(child) for child in crew] == ["ready"] * count
        for child in crew:
            self._tell(child, "go")
        return [self._hear(child) for child in crew]

    def _tell(self, child: Child, what: object) -> None:
        child.stdin.write(json.dumps(what) + "\n")
        child.stdin.flush()

    def _hear(self, child: Child) -> Any:
        return json.loads(child.stdout.readline())

    def stop(self) -> None:
        for child in self.children:
            child.close()
            assert child.wait() == 0


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(12)
    yield crew
    crew.stop()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "graph")
    graph = og.init(uri, schema=SCHEMA)
    graph.mutate('query q() { insert Person { name: "hub" } insert Counter { name: "c", value: 0 } }')
    return uri


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_disjoint_writers_all_succeed(crew: Crew, uri: str, count: int) -> None:
    """N of N: each process writes a node and an edge, several times; all land, each in its own commit."""
    outcomes = crew.run(count, "disjoint", uri)
    assert all(outcome == ["ok"] * ROUNDS for outcome in outcomes)
    graph = og.open(uri)
    view = graph._repository.resolve("main")
    assert view.rows("node:Person") == 1 + count * ROUNDS
    assert view.rows("edge:Knows") == count * ROUNDS
    assert len(graph.commits(limit=1_000)) == 2 + count * ROUNDS


@pytest.mark.parametrize("count", [3, 12])
def test_one_key_has_one_winner(crew: Crew, uri: str, count: int) -> None:
    """Each round every process inserts the same key: one succeeds, the others hear of a key conflict."""
    outcomes = crew.run(count, "same", uri)
    for number in range(ROUNDS):
        heard = sorted(outcome[number] for outcome in outcomes)
        assert heard == ["key_conflict"] * (count - 1) + ["ok"]
    assert og.open(uri)._repository.resolve("main").rows("node:Person") == 1 + ROUNDS


@pytest.mark.parametrize("count", [2, 5])
def test_no_update_is_lost(crew: Crew, uri: str, count: int) -> None:
    """Each process counts up until its write is accepted; the losers read again. The sum is exact."""
    crew.run(count, "count", uri)
    table = og.open(uri)._repository.resolve("main").table("node:Counter")
    assert table is not None
    assert table.read(["value"]).column("value").to_pylist() == [count * ROUNDS]


ROUNDS = 5


def attempt(graph: og.Graph, program: str, number: int, turn: int) -> str:
    try:
        if program == "disjoint":
            graph.mutate(ADD, {"n": f"{number}.{turn}"}, name="add")
        elif program == "same":
            with graph.transaction() as tx:
                tx.insert("Person", name=f"round {turn}")
        else:
            with graph.transaction() as tx:
                row = tx.get("Counter", "c")
                assert row is not None
                tx.mutate(ADD, {"v": row["value"] + 1}, name="set")
    except og.errors.OmnigraphError as error:
        return error.code
    return "ok"


def main() -> None:
    for line in sys.stdin:
        program, uri, number = json.loads(line)
        graph = og.open(uri)
        print(json.dumps("ready"), flush=True)
        sys.stdin.readline()
        outcomes = []
        for turn in range(ROUNDS):
            outcome = attempt(graph, program, number, turn)
            while program == "count" and outcome == "expected_version_mismatch":
                outcome = attempt(graph, program, number, turn)
            outcomes.append(outcome)
        print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    main()
