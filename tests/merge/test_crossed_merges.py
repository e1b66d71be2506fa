"""Branches that edit only what is theirs and merge into each other in any order: there is never a conflict, and a merge
gives the newest version of everything.

The model needs no merge bases: an item (a row, or one property of a shared row) is edited by one branch only, so its
versions are a list, and of two branches the one that has seen more of the list is right.
"""

from __future__ import annotations

import random
import tempfile
from typing import Any

import pytest
from merge import model

import omnigraph as og

BRANCHES = ("main", "x", "y", "z")
COLUMNS = dict(zip(BRANCHES, "abcd", strict=True))
"""The property of every shared row that a branch may edit."""
SHARED = ("s1", "s2")
ROUNDS = {"row": 4, "property": 3}
MERGES = 4
HISTORIES = 14
"""Of each kind, always the same. When only the newest of several merge bases is looked at, more than a third of them conflict."""

SCHEMA = """
node Item { key: String @key  a: I32?  b: I32?  c: I32?  d: I32? }
edge Link: Item -> Item { weight: I32? }
"""

Item = tuple[str, ...]
"""("row", type, id), or ("property", id, name) of a shared row."""


class World:
    def __init__(self, folder: str, by: str, seed: int) -> None:
        self.by: Any = by
        self.random = random.Random(f"{by} {seed}")
        self.graph = og.init(f"{folder}/graph", schema=SCHEMA, durability="process")
        self.versions: dict[Item, list[Any]] = {}
        with self.graph.transaction() as tx:
            for id in SHARED:
                tx.insert("Item", key=id, a=0, b=0, c=0, d=0)
        for name in BRANCHES[1:]:
            self.graph.branches.create(name)
        self.seen: dict[str, dict[Item, int]] = {name: {} for name in BRANCHES}

    # ------------------------------------------------------------ steps

    def round(self) -> None:
        """Branches edit, then take each other's heads as they were before anybody merged: merges cross."""
        for branch in BRANCHES:
            if self.random.random() < 0.6:
                self.edit(branch)
        heads = {name: (self.graph.commits(name, limit=1)[0].id, dict(self.seen[name])) for name in BRANCHES}
        for _ in range(MERGES):
            source, target = self.random.sample(BRANCHES, 2)
            self.merge(*heads[source], target)

    def edit(self, branch: str) -> None:
        """Change, remove or bring back some of the branch's own nodes and edges."""
        nodes = {id: self.value(branch, ("row", "Item", id)) for id in (f"{branch}1", f"{branch}2")}
        with self.graph.transaction(branch) as tx:
            for id, row in nodes.items():
                if self.random.random() < 0.5:
                    nodes[id] = self.edit_node(tx, branch, id, row)
            for id in (f"{branch}-e1", f"{branch}-e2"):
                self.edit_edge(tx, branch, id, [*SHARED, *(node for node, row in nodes.items() if row)])
            if self.by == "property":
                self.edit_shared(tx, branch)

    def edit_node(self, tx: Any, branch: str, id: str, row: Any) -> Any:
        if row is not None and self.random.random() < 0.4:
            tx.delete("Item", id)
            new = None
        else:
            new = {"id": id, "key": id, **{name: self.random.randrange(3) for name in "abcd"}}
            tx.upsert("Item", {name: new[name] for name in ("key", *"abcd")})
        self.add_version(branch, ("row", "Item", id), new)
        return new

    def edit_edge(self, tx: Any, branch: str, id: str, nodes: list[str]) -> None:
        item = ("row", "Link", id)
        row = self.value(branch, item)
        lost_its_node = row is not None and not {row["src"], row["dst"]} <= set(nodes)
        if lost_its_node:
            self.add_version(branch, item, None)
        elif row is not None and self.random.random() < 0.3:
            tx.delete("Link", id)
            self.add_version(branch, item, None)
        elif self.random.random() < 0.5:
            ends = {"src": self.random.choice(nodes), "dst": self.random.choice(nodes)}
            new = {"id": id, **ends, "weight": self.random.randrange(3)}
            tx.upsert("Link", {"id": id, "weight": new["weight"]}, from_=ends["src"], to=ends["dst"])
            self.add_version(branch, item, new)

    def edit_shared(self, tx: Any, branch: str) -> None:
        for id in SHARED:
            if self.random.random() < 0.5:
                value = self.random.randrange(3)
                tx.update("Item", id, {COLUMNS[branch]: value})
                self.add_version(branch, ("property", id, COLUMNS[branch]), value)

    def merge(self, commit: str, seen: dict[Item, int], target: str) -> None:
        self.graph.branches.create("older", commit)
        self.graph.branches.merge("older", target, by=self.by, delete_branch=True)
        for item, version in seen.items():
            self.seen[target][item] = max(version, self.seen[target].get(item, 0))
        assert model.state_of(self.graph, target) == self.expected(target)

    # ------------------------------------------------------------ the model

    def add_version(self, branch: str, item: Item, value: Any) -> None:
        versions = self.versions.setdefault(item, [None if item[0] == "row" else 0])
        versions.append(value)
        self.seen[branch][item] = len(versions) - 1

    def value(self, branch: str, item: Item) -> Any:
        return self.versions[item][self.seen[branch][item]] if item in self.seen[branch] else None

    def expected(self, branch: str) -> model.State:
        state: model.State = {
            ("node", "Item", id): {"id": id, "key": id, "a": 0, "b": 0, "c": 0, "d": 0} for id in SHARED
        }
        for item in self.seen[branch]:
            value = self.value(branch, item)
            if item[0] == "property":
                row = state["node", "Item", item[1]]
                state["node", "Item", item[1]] = {**row, item[2]: value}
            elif value is not None:
                state["node" if item[1] == "Item" else "edge", item[1], item[2]] = value
        return state


def run(by: str, seed: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, by, seed)
        for _ in range(rounds):
            world.round()


@pytest.mark.parametrize("by", ["row", "property"])
def test_branches_that_edit_only_their_own_never_conflict(by: str) -> None:
    for seed in range(HISTORIES):
        run(by, seed, ROUNDS[by])


@pytest.mark.soak
@pytest.mark.parametrize("by", ["row", "property"])
def test_branches_that_edit_only_their_own_never_conflict_in_long_histories(by: str) -> None:
    for _ in range(40):
        run(by, random.randrange(2**32), rounds=25)
