"""Large tables made quickly: rows staged as one fragment and published, as a load would, without its checks."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import TableState
from omnigraph.write import publishing

SCHEMA = """
node Item {
  key: String @key
  a: I64?
  b: String?
  mail: String? @unique
}
"""
KEY = "node:Item"
_ROWS = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False),
        pa.field("key", pa.utf8(), nullable=False),
        pa.field("a", pa.int64()),
        pa.field("b", pa.utf8()),
        pa.field("mail", pa.utf8()),
    ]
)


def items(first: int, count: int, *, a: int | None = None) -> pa.Table:
    numbers = pa.array(range(first, first + count), pa.int64())
    ids = pc.binary_join_element_wise("k", pc.utf8_lpad(numbers.cast(pa.utf8()), 9, "0"), "")
    values = numbers if a is None else pa.repeat(pa.scalar(a, pa.int64()), count)
    texts = pa.repeat("a text of some length", count)
    return pa.table([ids, ids, values, texts, pa.nulls(count, pa.utf8())], schema=_ROWS)


def publish(graph: og.Graph, branch: str, rows: pa.Table, *, remove: Iterable[int] = ()) -> None:
    """Rows added, rows at addresses removed, as one commit."""
    repository = graph._repository
    entry, view = repository.head(branch)
    base, old = view.table_or_new(KEY), view.state(KEY)
    staged = repository.tables.stage(base, rows=rows, remove=remove, fold=False)
    state = TableState(base.path, staged.version, (old.generation if old else 0) + 1, staged.rows)
    publishing.publish(
        repository.history,
        PublishPlan(
            commit_id=repository.history.new_id(),
            branch=branch,
            incarnation=entry.incarnation,
            base=entry.head.commit.ref,
            schema=entry.head.schema,
            changes=(TableChange(KEY, "strict", old, state),),
            kind="load",
        ),
    )
