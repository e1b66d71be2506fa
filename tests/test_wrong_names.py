"""A name that is empty, or that nothing has, is an error in every method: nothing falls back to main, or to nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, CommitNotFound, OmnigraphError, TagNotFound, UsageError

READ = "query q() { match { $p: Person } return { $p.name } }"
WRITE = 'query q() { insert Person { name: "b" } }'
ROW = pa.table({"name": ["b"]})
WRONG_BRANCHES = ("", " ", "nobody", "main~", "main/", "/", "..", "a b")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    folder = tmp_path_factory.mktemp("names")
    graph = og.init(folder / "graph", schema="node Person { name: String @key }", durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="a")
    graph.branches.create("side")
    return graph


def transaction(graph: og.Graph, branch: str) -> None:
    with graph.transaction(branch) as tx:
        tx.insert("Person", name="b")


BRANCH_CALLS: dict[str, Callable[[og.Graph, str], object]] = {
    "mutate": lambda graph, name: graph.mutate(WRITE, branch=name),
    "transaction": transaction,
    "load": lambda graph, name: graph.load({"Person": ROW}, mode="append", branch=name, engine="local"),
    "ensure_indexes": lambda graph, name: graph.maintenance.ensure_indexes(name),
    "optimize": lambda graph, name: graph.maintenance.optimize(name),
    "commits": lambda graph, name: graph.commits(name),
    "history": lambda graph, name: graph.history("Person", "a", revision=name),
    "changes": lambda graph, name: graph.changes(name),
    "baseline": lambda graph, name: graph.baseline(io.BytesIO(), branch=name),
    "revert": lambda graph, name: graph.revert("main", branch=name),
    "reset": lambda graph, name: graph.reset(name, "main"),
    "branches.delete": lambda graph, name: graph.branches.delete(name),
    "branches.merge source": lambda graph, name: graph.branches.merge(name),
    "branches.merge target": lambda graph, name: graph.branches.merge("side", into=name),
}

REVISION_CALLS: dict[str, Callable[[og.Graph, str], object]] = {
    "query": lambda graph, name: graph.query(READ, revision=name),
    "query as of": lambda graph, name: graph.query(READ, as_of=name),
    "query on a branch as of": lambda graph, name: graph.query(READ, revision=name, as_of="2120-01-01"),
    "explain": lambda graph, name: graph.explain(READ, revision=name),
    "export": lambda graph, name: graph.export("-", revision=name),
    "entity": lambda graph, name: graph.entity("Person", "a", revision=name),
    "snapshot": lambda graph, name: graph.snapshot(name),
    "indexes": lambda graph, name: graph.indexes(name),
    "commit": lambda graph, name: graph.show(name),
    "commit_changes": lambda graph, name: graph.commit_changes(name),
    "diff from": lambda graph, name: list(graph.diff(name, "main")),
    "diff_stat from": lambda graph, name: graph.diff_stat(name, "main"),
    "revert of": lambda graph, name: graph.revert(name),
    "reset to": lambda graph, name: graph.reset("main", name),
    "distance": lambda graph, name: graph.distance(name),
    "blame": lambda graph, name: graph.blame("Person", "a", revision=name),
    "diff to": lambda graph, name: list(graph.diff("main", name)),
    "branches.create from": lambda graph, name: graph.branches.create("other", name),
    "tags.create at": lambda graph, name: graph.tags.create("other", name),
}


@pytest.mark.parametrize("call", [*BRANCH_CALLS, *REVISION_CALLS])
def test_a_branch_or_revision_that_is_not_there_is_refused(graph: og.Graph, call: str) -> None:
    make = (BRANCH_CALLS | REVISION_CALLS)[call]
    for name in WRONG_BRANCHES:
        with pytest.raises((UsageError, BranchNotFound, CommitNotFound)):
            make(graph, name)
    assert [branch.name for branch in graph.branches.list()] == ["main", "side"]
    assert graph.tags.list() == []
    assert len(graph.commits()) == 2


def test_a_commit_that_is_not_in_the_branch_is_refused(graph: og.Graph) -> None:
    graph.branches.create("own")
    transaction(graph, "own")
    elsewhere = graph.commits("own")[0].id
    for before in ("", "nonsense", elsewhere):
        with pytest.raises(CommitNotFound):
            graph.commits(before=before)
        with pytest.raises(CommitNotFound):
            graph.commits(before=before, actor="ada")
    assert graph.commits("own", before=elsewhere) == graph.commits()
    graph.branches.delete("own", force=True)
    for limit in (0, -1):
        with pytest.raises(UsageError):
            graph.commits(limit=limit)


def test_a_type_that_is_not_there_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    calls: dict[str, Callable[[str], object]] = {
        "entity": lambda name: graph.entity(name, "a"),
        "history": lambda name: graph.history(name, "a"),
        "export": lambda name: graph.export(tmp_path / "out", types=[name], engine="local"),
        "diff": lambda name: list(graph.diff("main~1", "main", types=[name])),
        "changes": lambda name: graph.changes(start="beginning", types=[name]),
        "commit_changes": lambda name: graph.commit_changes(graph.commits()[0].id, types=[name]),
        "baseline": lambda name: graph.baseline(io.BytesIO(), types=[name]),
        "load": lambda name: graph.load({name: ROW}, mode="append", engine="local"),
    }
    for call in calls.values():
        for name in ("", "Zed"):
            with pytest.raises(OmnigraphError):
                call(name)


def test_names_that_a_branch_cannot_have_do_not_exist(graph: og.Graph) -> None:
    assert graph.branches.exists("side")
    assert not graph.branches.exists("nobody")
    with pytest.raises(UsageError):
        graph.branches.exists("")
    with pytest.raises((TagNotFound, UsageError)):
        graph.tags.delete("")
