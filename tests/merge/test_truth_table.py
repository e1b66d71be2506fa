"""Every pair of ten operations on two branches, merged by row and by property, with each strategy: outcome, conflicts and
content, against the plain model. 600 merges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from merge import model

import omnigraph as og
from omnigraph.errors import MergeConflicts

Side = int
"""1 for the source, 2 for the target: so that both sides can change the same thing differently."""


def nothing(_graph: og.Graph, _branch: str, _side: Side) -> None: ...


def add_node(graph: og.Graph, branch: str, side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.insert("Person", name="new", age=side)


def remove_node(graph: og.Graph, branch: str, _side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.delete("Person", "a")


def add_edge(graph: og.Graph, branch: str, _side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.insert("Knows", from_="c", to="a")


def remove_edge(graph: og.Graph, branch: str, _side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.delete("Knows", "e1")


def set_property(graph: og.Graph, branch: str, side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.update("Person", "a", age=10 * side)


def set_property_equally(graph: og.Graph, branch: str, _side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.update("Person", "a", age=7)


def set_another_property(graph: og.Graph, branch: str, side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.update("Person", "a", nick=f"nick{side}")


def net_zero(graph: og.Graph, branch: str, _side: Side) -> None:
    for age in (5, 1):
        with graph.transaction(branch) as tx:
            tx.update("Person", "a", age=age)


def delete_and_add_again(graph: og.Graph, branch: str, _side: Side) -> None:
    with graph.transaction(branch) as tx:
        tx.delete("Person", "a")
    with graph.transaction(branch) as tx:
        tx.insert("Person", name="a", age=1)


OPERATIONS: list[Callable[[og.Graph, str, Side], None]] = [
    nothing,
    add_node,
    remove_node,
    add_edge,
    remove_edge,
    set_property,
    set_property_equally,
    set_another_property,
    net_zero,
    delete_and_add_again,
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Base: three people, one edge; each operation once on a source branch and once on a target branch."""
    graph = og.init(tmp_path_factory.mktemp("truth") / "g", schema=model.SCHEMA, durability="process")
    with graph.transaction() as tx:
        for name in "abc":
            tx.insert("Person", name=name, age=1)
        tx.insert("Knows", {"id": "e1"}, from_="a", to="b")
    for operation in OPERATIONS:
        for side, word in ((1, "source"), (2, "target")):
            branch = f"{word}-{operation.__name__}"
            graph.branches.create(branch)
            operation(graph, branch, side)
    return graph


@pytest.mark.parametrize("target", OPERATIONS, ids=lambda operation: f"target_{operation.__name__}")
@pytest.mark.parametrize("source", OPERATIONS, ids=lambda operation: f"source_{operation.__name__}")
def test_truth_table(graph: og.Graph, source: Callable[..., None], target: Callable[..., None]) -> None:
    left, right = f"source-{source.__name__}", f"target-{target.__name__}"
    base, ours, theirs = (model.state_of(graph, name) for name in ("main", right, left))
    for by in ("row", "property"):
        for strategy in ("fail", "ours", "theirs"):
            into = f"{left}+{right}+{by}+{strategy}"
            graph.branches.create(into, right)
            expected = model.merge(model.Base.of(base), theirs, ours, by=by, strategy=strategy)
            if expected.conflicts:
                with pytest.raises(MergeConflicts) as caught:
                    graph.branches.merge(left, into, by=by, strategy=strategy)
                assert model.comparable(caught.value.conflicts) == expected.conflicts, into
                assert model.state_of(graph, into) == ours, f"{into}: a merge with conflicts published something"
                continue
            outcome = graph.branches.merge(left, into, by=by, strategy=strategy).outcome
            wanted = "merged" if target is not nothing else "fast_forward"
            assert outcome == (wanted if source is not nothing else "already_up_to_date"), into
            assert model.state_of(graph, into) == expected.state, into


def test_the_table_has_conflicts_of_every_kind_of_the_rule_and_orphans(graph: og.Graph) -> None:
    """So that a model that finds no conflicts cannot pass unnoticed."""
    base = model.state_of(graph, "main")
    found = {
        kind
        for left in OPERATIONS
        for right in OPERATIONS
        for kind, _, _ in model.merge(
            model.Base.of(base),
            model.state_of(graph, f"source-{left.__name__}"),
            model.state_of(graph, f"target-{right.__name__}"),
            by="row",
            strategy="fail",
        ).conflicts
    }
    assert found == {"divergent_insert", "divergent_update", "delete_vs_update", "orphan_edge"}


def test_a_net_zero_merge_moves_no_table_and_is_recorded(graph: og.Graph) -> None:
    graph.branches.create("recorded", "target-set_another_property")
    before = graph._repository.resolve("recorded").snapshot
    result = graph.branches.merge("source-net_zero", "recorded")
    after = graph._repository.resolve("recorded").snapshot
    assert result.outcome == "merged"
    assert result.commit is not None
    assert after.tables == before.tables
    assert [parent.branch for parent in result.commit.parents] == ["target-set_another_property", "source-net_zero"]


def test_both_branches_may_add_the_same_edge(graph: og.Graph) -> None:
    graph.branches.create("both-edges", "target-add_edge")
    graph.branches.merge("source-add_edge", "both-edges")
    edges = [row for key, row in model.state_of(graph, "both-edges").items() if key[1] == "Knows"]
    assert sum(row["src"] == "c" and row["dst"] == "a" for row in edges) == 2
