"""A graph with a large edge table in many small fragments, made without rules: what benches of maintenance and copies start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import TableState
from omnigraph.write.publishing import publish

SCHEMA = "node P { name: String @key }  edge Knows: P -> P { weight: F64? }"
FRAGMENTS = 50


def edges(start: int, rows: int, people: int) -> pa.Table:
    chance = np.random.default_rng(start)
    ends = [_named("p", chance.integers(0, people, rows)) for _ in range(2)]
    ids = _named("e", np.arange(start, start + rows))
    return pa.table({"id": ids, "src": ends[0], "dst": ends[1], "weight": chance.random(rows)})


def _named(letter: str, numbers: Any) -> pa.Array:
    return pc.binary_join_element_wise(letter, pa.array(numbers).cast(pa.string()), "")


def make(folder: Path, rows: int, fragments: int = FRAGMENTS) -> og.Graph:
    """So many edges, in so many fragments, by one commit."""
    graph = og.init(folder, SCHEMA)
    repository = graph._repository
    entry, view = repository.head()
    table = view.table_or_new("edge:Knows")
    schema = view.schema("edge:Knows")
    written: list[str] = []
    for number in range(fragments):
        part = edges(number * (rows // fragments), rows // fragments, max(rows // 10, 1))
        written += repository.tables.write_fragments(table, part.cast(schema))
    staged = repository.tables.stage(table, fragments=written, fold=False)
    repository.tables.sync([staged])
    state = TableState(staged.path, staged.version, 1, staged.rows, staged.digest)
    plan = PublishPlan(
        commit_id=repository.history.new_id(),
        branch="main",
        incarnation=entry.incarnation,
        base=view.snapshot.commit.ref,
        schema=view.snapshot.schema,
        changes=(TableChange("edge:Knows", "insert", None, state),),
        kind="load",
    )
    publish(repository.history, plan)
    return og.open(folder)
