"""Applies a merge to the current branch's table. New fragments of the incoming branch are adopted without copying data.

Rows that cannot be adopted (a few rows of a fragment, rows of another table, combined rows) are written as new rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omnigraph.changes.stored_rows import chunk_rows, rows_at
from omnigraph.language.arrow import arrow_schema
from omnigraph.merge.type_merge import TypeMerge
from omnigraph.tables import Staged, Table, Tables
from omnigraph.tables.shared_fragments import fragments_by_files
from omnigraph.tables.staging import TrimmedFragment, adopted, stored_rows

if TYPE_CHECKING:
    import pyarrow as pa

ADOPT_FRACTION = 2
"""A fragment is adopted if at least one row in this many is needed; its other rows are deleted at once."""


def stage_merge(tables: Tables, current: Table, merge: TypeMerge) -> list[Staged]:
    """Stage the merge; the last version returned is the merged table. All of them must be made durable."""
    whole = _adoptable(current, merge)
    rows = _written(merge, whole)
    fragments = () if merge.incoming.table is None else adopted(merge.incoming.table, sorted(whole))
    trimmed = [tables.delete_rows(current, fragment, offsets) for fragment, offsets in merge.removes.by_fragment()]
    first = tables.stage(current, rows=rows, fragments=fragments, trimmed=trimmed, fold=False)
    if not whole:
        return [first]
    merged = tables.open(first.path, first.version, layout=current.layout)
    unwanted = list(_unwanted(tables, merged, merge, whole))
    return [first, tables.stage(merged, trimmed=unwanted, fold=False)] if unwanted else [first]


def _adoptable(current: Table, merge: TypeMerge) -> frozenset[int]:
    """Incoming fragments to adopt."""
    incoming = merge.incoming.table
    if incoming is None or incoming.path != current.path:
        return frozenset()
    known = {fragment.files for fragment in current.fragments}
    whole = stored_rows(incoming)
    new = {fragment.id for fragment in incoming.fragments if fragment.files not in known and fragment.id in whole}
    return frozenset(
        fragment
        for fragment, offsets in merge.puts.by_fragment()
        if fragment in new and len(offsets) * ADOPT_FRACTION >= whole[fragment]
    )


def _unwanted(tables: Tables, table: Table, merge: TypeMerge, adopted_ids: frozenset[int]) -> Iterator[TrimmedFragment]:
    """Delete the rows of adopted fragments that are not needed (an adopted fragment has no deletions yet)."""
    import numpy as np

    by_files = fragments_by_files(table)
    files = {} if merge.incoming.table is None else {held.id: held.files for held in merge.incoming.table.fragments}
    for fragment, offsets in merge.puts.by_fragment():
        if fragment in adopted_ids and len(offsets) < (twin := by_files[files[fragment]]).rows:
            rest = np.setdiff1d(np.arange(twin.rows, dtype=np.uint32), offsets, assume_unique=True)
            yield tables.delete_rows(table, twin.id, rest)


def _written(merge: TypeMerge, adopted_ids: frozenset[int]) -> pa.RecordBatchReader | None:
    """The rows to write, in bounded pieces; None if there are none."""
    import pyarrow as pa

    left = merge.puts.without_fragments(adopted_ids)
    if not len(left) and not merge.combined.num_rows:
        return None
    schema = arrow_schema(merge.entity)

    def batches() -> Iterator[Any]:
        for addresses in left.pieces(chunk_rows(merge.incoming.table)):
            assert merge.incoming.table is not None
            rows = rows_at(merge.incoming.table, addresses, None)
            yield from rows.select(schema.names).cast(schema).to_batches()
        yield from merge.combined.cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())
