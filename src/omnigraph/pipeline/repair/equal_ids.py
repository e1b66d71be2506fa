"""Rows of one type with equal ids: the first one keeps its id, and with it its edges; the later ones get new ids.

Edges name the nodes at their ends by id, so those of several nodes with one id cannot be told apart: all stay with the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.changes.stored_rows import rows_at
from omnigraph.pipeline.load.checks import BUCKET_ROWS
from omnigraph.pipeline.load.keyed_rows import MAX_BUCKETS, Cut, Source, cut, fragment_groups
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.tables import Staged
from omnigraph.tables.fragment import OFFSET_BITS, ROW_ADDRESS
from omnigraph.tables.staging import TrimmedFragment, by_fragment
from omnigraph.views import View
from omnigraph.workers import Exchange, unpacked

if TYPE_CHECKING:
    import numpy as np


def has_own_ids(view: View, key: str) -> bool:
    """Whether ids of the type are not derived from keys, so that a row can get another one."""
    entity = view.catalog.tables[key]
    return not entity.key


def renumbered(view: View, key: str, runner: Runner) -> tuple[Staged, int] | None:
    """A version of the table without equal ids, and how many rows have new ones; None if there are no equal ids."""
    import numpy as np

    table, tables, target = view.table(key), view.repository.tables, Target.of(view.repository, view)
    assert table is not None, "its rows were looked at"
    base, _ = tables.settle(table)
    place = TableVersion.of(base)
    source = Source(place, ("id",), "id", base.rows, with_address=True)
    buckets = min(-(-base.rows // runner.settings.checked_values(BUCKET_ROWS)), MAX_BUCKETS)
    cuts = [Cut(target, 0, source, fragments, buckets) for _, fragments in fragment_groups(target, source)]
    later = np.concatenate(runner.exchange(Exchange("equal ids", cut, cuts, buckets, _later_rows)))
    if not len(later):
        return None
    fresh = FreshIds.new(view.repository.history.clock)
    tasks = [
        RenumberTask(target, place, fragment, offsets, fresh.part(number))
        for number, (fragment, offsets) in enumerate(by_fragment(later))
    ]
    changed = runner.map("new ids", renumber, tasks)
    fragments = [text for texts, _ in changed for text in texts]
    return tables.stage(base, fragments=fragments, trimmed=[trimmed for _, trimmed in changed]), len(later)


def _later_rows(_bucket: int, pieces: Iterable[tuple[int, Any]]) -> np.ndarray[Any, Any]:
    """Addresses of the rows whose id another row before them has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.concat_tables([unpacked(data) for _, data in pieces])
    ordered = rows.sort_by([("id", "ascending"), (ROW_ADDRESS, "ascending")]).combine_chunks()
    ids, addresses = ordered.column("id"), ordered.column(ROW_ADDRESS)
    later: np.ndarray[Any, Any] = addresses[1:].filter(pc.equal(ids[1:], ids[:-1])).to_numpy()
    return later


@dataclass(frozen=True)
class RenumberTask:
    """Rows of one fragment that get new ids."""

    target: Target
    place: TableVersion
    fragment: int
    offsets: np.ndarray[Any, Any]
    fresh: FreshIds


def renumber(task: RenumberTask) -> tuple[tuple[str, ...], TrimmedFragment]:
    """The rows as new fragments, and the fragment without them."""
    import numpy as np
    import pyarrow as pa

    table, tables = task.target.open(task.place), task.target.tables
    addresses = task.offsets.astype(np.uint64) | np.uint64(task.fragment << OFFSET_BITS)
    rows = rows_at(table, addresses, None).drop_columns([ROW_ADDRESS])
    ids = task.fresh.for_rows(pa.array(np.arange(rows.num_rows)))
    rows = rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), ids)
    return tables.write_fragments(table, rows), tables.delete_rows(table, task.fragment, task.offsets)
