"""A schema change that is killed at any point happened or did not; one that is overtaken at any point is planned again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from children import run_killed
from evolve import killed_change
from evolve.killed_change import AFTER, BEFORE

import omnigraph as og
from omnigraph.errors import BranchReplaced, Conflict, OmnigraphError, SchemaChangeRefused
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, arm

PEOPLE = "query q() { match { $p: Human } return { $p.name, $p.years } order { $p.name } }"


def new_graph(folder: Path) -> og.Graph:
    g = og.init(folder, schema=BEFORE, durability="process")
    with g.transaction() as tx:
        tx.insert("Person", name="Ada", age=36)
        tx.insert("Person", name="Bo", age=40)
        tx.insert("Knows", from_="Ada", to="Bo")
    g.branches.create("side")
    return g


def points_of_a_change(folder: Path) -> list[Failpoint]:
    g, reached = new_graph(folder), []
    for point in Failpoint:
        arm(point, lambda point=point: reached.append(point))
    try:
        g.schema.apply(AFTER, branch="side")
    finally:
        failpoints.disarm_all()
    return list(dict.fromkeys(reached))


def test_a_change_passes_few_points(tmp_path: Path) -> None:
    assert points_of_a_change(tmp_path / "g") == [
        Failpoint.SCHEMA_BEFORE_PUT,
        Failpoint.PUBLISH_BEFORE_CREATE,
        Failpoint.PUBLISH_AFTER_CREATE,
        Failpoint.PUBLISH_BEFORE_ACK,
    ]


def test_a_killed_change_happened_or_did_not(tmp_path: Path) -> None:
    points = points_of_a_change(tmp_path / "measured")
    new_graph(tmp_path / "prepared")
    seen = []
    for point in points:
        root = tmp_path / point.value
        shutil.copytree(tmp_path / "prepared", root)
        run_killed(Path(killed_change.__file__), str(root), point=point)
        g = og.open(root, verify="full")
        seen.append(g.head().kind)
        g.schema.apply(AFTER)
        assert g.head().kind == "schema"
        assert [tuple(row.values()) for row in g.query(PEOPLE).rows] == [("Ada", 36), ("Bo", 40)]
    assert seen == ["mutation", "mutation", "schema", "schema"]


def insert_person(g: og.Graph) -> None:
    with g.transaction("side") as tx:
        tx.insert("Person", name="Cy", age=1)


def insert_in_the_way(g: og.Graph) -> None:
    with g.transaction("side") as tx:
        tx.insert("Person", name="Cy")


def insert_edge(g: og.Graph) -> None:
    with g.transaction("side") as tx:
        tx.insert("Knows", from_="Bo", to="Ada")


def update(g: og.Graph) -> None:
    with g.transaction("side") as tx:
        tx.update("Person", "Bo", age=41)


def optimize(g: og.Graph) -> None:
    g.maintenance.optimize("side")


def same_change(g: og.Graph) -> None:
    g.schema.apply(AFTER, branch="side")


def another_change(g: og.Graph) -> None:
    g.schema.apply(BEFORE.replace("age: I32?", "age: I32?  nick: String?"), branch="side")


def new_branch(g: og.Graph) -> None:
    g.branches.create("another", "side")


def delete_branch(g: og.Graph) -> None:
    g.branches.delete("side", force=True)


OTHERS: list[tuple[Callable[[og.Graph], None], type[OmnigraphError] | None, list[tuple[str, int]]]] = [
    (insert_person, None, [("Ada", 36), ("Bo", 40), ("Cy", 1)]),
    (insert_in_the_way, SchemaChangeRefused, []),
    (insert_edge, None, [("Ada", 36), ("Bo", 40)]),
    (update, None, [("Ada", 36), ("Bo", 41)]),
    (optimize, None, [("Ada", 36), ("Bo", 40)]),
    (same_change, None, [("Ada", 36), ("Bo", 40)]),
    (another_change, Conflict, []),
    (new_branch, None, [("Ada", 36), ("Bo", 40)]),
    (delete_branch, BranchReplaced, []),
]


@pytest.mark.parametrize("point", [Failpoint.SCHEMA_BEFORE_PUT, Failpoint.PUBLISH_BEFORE_CREATE])
@pytest.mark.parametrize(("other", "error", "people"), OTHERS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_change_that_is_overtaken(
    tmp_path: Path,
    point: Failpoint,
    other: Callable[[og.Graph], None],
    error: type[OmnigraphError] | None,
    people: list[tuple[str, int]],
) -> None:
    g = new_graph(tmp_path / "g")

    def overtake() -> None:
        failpoints.disarm_all()
        other(og.open(tmp_path / "g", durability="process"))

    arm(point, overtake)
    try:
        if error is not None:
            with pytest.raises(error):
                g.schema.apply(AFTER, branch="side")
            assert "schema" not in [commit.kind for commit in g.commits("main")]
            return
        receipt = g.schema.apply(AFTER, branch="side")
    finally:
        failpoints.disarm_all()
    assert (receipt.commit is None) == (other is same_change)
    assert [tuple(row.values()) for row in g.query(PEOPLE, revision="side").rows] == people
    assert [commit.kind for commit in g.commits("side")].count("schema") == 1
