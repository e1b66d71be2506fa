"""Which rows of a merge are as they were: committed rows compared with those that replace them, by tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.changes.equality import differs, value_columns
from omnigraph.changes.stored_rows import rows_at
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.tables import Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_TASK_ROWS = 1_048_576
MAX_TASK_BYTES = 256 * 1024 * 1024
"""What a task holds of each side."""


@dataclass(frozen=True)
class ComparisonTask:
    """A task: rows of one type at two places, as pairs of addresses in the order of the old ones."""

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
        ComparisonTask(target, key, TableVersion.of(committed), incoming, ordered.slice(start, step))
        for start in range(0, ordered.num_rows, step)
    ]
    return np.concatenate([np.array([], np.uint64), *runner.map("compare", compare, tasks)])


def compare(task: ComparisonTask) -> np.ndarray[Any, Any]:
    """The old addresses of the pairs whose values are the same."""
    import numpy as np

    entity = task.target.catalog.tables[task.key]
    old_places, new_places = (task.pairs.column(side).to_numpy() for side in ("old", "new"))
    old = rows_at(task.target.open(task.old), old_places, value_columns(entity))
    new = rows_at(task.target.open(task.new), new_places, value_columns(entity))
    # Rows come in the order of their addresses; the pairs are in that of the old ones.
    order = np.argsort(new_places)
    if not np.array_equal(order, np.arange(len(order))):
        new = new.take(np.argsort(order))
    same: np.ndarray[Any, Any] = old_places[~differs(old, new, entity)]
    return same


def _task_rows(table: Table) -> int:
    size = sum(fragment.bytes for fragment in table.fragments)
    return max(256, min(MAX_TASK_ROWS, MAX_TASK_BYTES * table.rows // max(size, 1)))
