"""A rule that one branch has and the other does not: after a merge every row keeps it, whoever wrote the row, or nothing is merged.

The rows that are checked are those that the branch without the rule changed; all others are as the branch with the rule has them,
where they were checked when it came. That no row is missed is shown by taking the rule away and putting it back, which checks
every row there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest
from evolve.steps import BASE, DATA, STEPS, Step

import omnigraph as og
from omnigraph.errors import MergeConflicts

Side = Literal["main", "work"]
OTHER: Mapping[Side, Side] = {"main": "work", "work": "main"}
RULES = [
    step
    for step in STEPS
    if step.outcome == "if the data allows" and step.breaking and "`@key` of edges" not in step.title
]
"""Keys of edges give them other ids: tests/write/test_edge_keys.py merges across them."""
FILLED_AND_UNIQUE = BASE.replace(
    "node City { name: String @key }", "node City { name: String @key  code: I32 @default(3) @unique }"
)


def two_branches(*more: tuple[str, dict[str, Any]]) -> og.Graph:
    g = og.init("memory://", schema=BASE)
    insert(g, "main", [*DATA, *more])
    g.branches.create("work")
    return g


def insert(g: og.Graph, branch: str, entities: list[tuple[str, dict[str, Any]]]) -> None:
    with g.transaction(branch) as tx:
        for type, values in entities:
            tx.insert(type, values)


def remove(g: og.Graph, branch: str, entities: tuple[tuple[str, dict[str, Any]], ...]) -> None:
    with g.transaction(branch) as tx:
        for type, values in entities:
            if "name" in values:
                tx.delete(type, values["name"])


def check_every_row(g: og.Graph, step: Step) -> None:
    if "F64" in step.title:
        return  # A wider type is no rule, and does not get narrower again.
    assert g.schema.apply(BASE).commit is not None
    assert g.schema.apply(step.schema).commit is not None


@pytest.mark.parametrize("ruled", ["main", "work"])
@pytest.mark.parametrize("step", RULES, ids=lambda step: step.title)
class TestRule:
    def test_rows_that_the_other_branch_brings_keep_it_or_are_conflicts(self, step: Step, ruled: Side) -> None:
        g = two_branches()
        g.schema.apply(step.schema, branch=ruled)
        insert(g, OTHER[ruled], list(step.breaking))
        head = g.head()
        for strategy in ("fail", "ours", "theirs"):
            with pytest.raises(MergeConflicts):
                g.branches.merge("work", strategy=strategy)  # type: ignore[arg-type]  # each is a strategy
        assert g.head() == head

    def test_rows_in_the_way_that_only_the_branch_with_the_rule_removed_are_gone(self, step: Step, ruled: Side) -> None:
        g = two_branches(*step.breaking)
        remove(g, ruled, step.breaking)
        g.schema.apply(step.schema, branch=ruled)
        insert(g, OTHER[ruled], [("City", {"name": "Bonn"}), ("Knows", {"from_": "Bo", "to": "Ada"})])
        g.branches.merge("work")
        check_every_row(g, step)

    def test_rows_in_the_way_that_the_other_branch_changed_are_conflicts(self, step: Step, ruled: Side) -> None:
        g = two_branches(*step.breaking)
        remove(g, ruled, step.breaking)
        g.schema.apply(step.schema, branch=ruled)
        people = [values["name"] for type, values in step.breaking if type == "Person"]
        with g.transaction(OTHER[ruled]) as tx:
            for name in people:
                tx.update("Person", name, score=0.25)
            if not people:
                tx.insert("Visited", from_="Bo", to="Oslo")
        with pytest.raises(MergeConflicts):
            g.branches.merge("work")
        # Whichever side a strategy takes: the rows that are kept keep the rule, or nothing is merged.
        for strategy in ("ours", "theirs"):
            try:
                g.branches.merge("work", strategy=strategy)  # type: ignore[arg-type]  # each is a strategy
            except MergeConflicts:
                continue
            check_every_row(g, step)
            break


@pytest.mark.parametrize("ruled", ["main", "work"])
def test_values_that_stand_for_older_rows_are_among_those_that_must_differ(ruled: Side) -> None:
    g = two_branches()
    g.schema.apply(FILLED_AND_UNIQUE, branch=ruled)
    insert(g, OTHER[ruled], [("City", {"name": "Bonn"})])
    with pytest.raises(MergeConflicts, match="unique_violation"):
        g.branches.merge("work")


@pytest.mark.parametrize("ruled", ["main", "work"])
def test_what_is_required_and_was_filled_on_one_branch_is_missed_on_the_other(ruled: Side) -> None:
    g = two_branches()
    wanted = BASE.replace("node City { name: String @key }", "node City { name: String @key  land: String }")
    g.schema.apply(wanted, branch=ruled, with_='query q() { update City set { land: "IT" } where name is not null }')
    insert(g, OTHER[ruled], [("Knows", {"from_": "Bo", "to": "Ada"})])
    g.branches.merge("work", dry_run=True)
    insert(g, OTHER[ruled], [("City", {"name": "Bonn"})])
    with pytest.raises(MergeConflicts, match=r"Bonn.*value_constraint_violation"):
        g.branches.merge("work")
