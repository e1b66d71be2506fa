"""Which rows of a merge are as they were: committed rows compared with those that replace them, by tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.changes.equality import differing, value_columns
from omnigraph.changes.stored_rows import rows_at
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.tables import Table
from omnigraph.tables.table import ROW_ADDRESS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_TASK_ROWS = 1_048_576
MAX_TASK_BYTES = 256 * 1024 * 1024
"""What a task holds of each side."""


@dataclass(frozen=True)
class Comparison:
    """A task: rows of one type at two places, as pairs of addresses."""

    target: Target
    key: str
    old: TableVersion
    new: TableVersion
    pairs: pa.Table


def unchanged_rows(
    target: Target, key: str, committed: Table, incoming: TableVersion, pairs: pa.Table, runner: Runner
) -> np.ndarray[Any, Any]:
    """Addresses of the committed rows that are replaced by rows of the same values. `pairs`: columns old and new."""
    import numpy as np

    # In the order of the committed rows, so that each of their fragments is read by one task.
    ordered = pairs.sort_by("old")
    step = _task_rows(committed)
    tasks = [
        Comparison(target, key, TableVersion.of(committed), incoming, ordered.slice(start, step))
        for start in range(0, ordered.num_rows, step)
    ]
    return np.concatenate([np.array([], np.uint64), *runner.map("compare", compare, tasks)])


def compare(task: Comparison) -> np.ndarray[Any, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    entity = task.target.catalog.tables[task.key]
    columns = ["id", *value_columns(entity)]
    old = rows_at(task.target.open(task.old), task.pairs.column("old").to_numpy(), columns)
    new = rows_at(task.target.open(task.new), task.pairs.column("new").to_numpy(), columns)
    changed = pc.is_in(old.column("id"), value_set=pa.array(differing(old, new, entity), pa.utf8()))
    same: np.ndarray[Any, Any] = old.column(ROW_ADDRESS).filter(pc.invert(changed)).to_numpy()
    return same


def _task_rows(table: Table) -> int:
    size = sum(fragment.bytes for fragment in table.fragments)
    return max(256, min(MAX_TASK_ROWS, MAX_TASK_BYTES * table.rows // max(size, 1)))
