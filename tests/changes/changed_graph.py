"""A graph with a few commits of different kinds, for whoever follows its changes."""

from __future__ import annotations

from pathlib import Path

from merge import model

import omnigraph as og


def changed_graph(folder: Path) -> og.Graph:
    """Three commits on main: three people and an edge; an update and an insert; a merge that deletes."""
    graph = og.init(folder, schema=model.SCHEMA, durability="process")
    with graph.transaction(actor="ada") as tx:
        for name in "abc":
            tx.insert("Person", name=name, age=1)
        tx.insert("Knows", {"id": "e1"}, from_="a", to="b")
    graph.branches.create("work")
    with graph.transaction() as tx:
        tx.update("Person", "a", age=2)
        tx.insert("Person", name="d")
    with graph.transaction("work") as tx:
        tx.delete("Person", "b")
    graph.branches.merge("work", actor="bob")
    return graph
