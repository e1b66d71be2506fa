"""A merged type on the current branch's table. New fragments of the incoming branch are adopted: no data is copied.

Rows that cannot be adopted (a few of a fragment, of another table, values of both branches) are written as new rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omnigraph.changes.stored_rows import chunk_rows, rows_at
from omnigraph.language.arrow import arrow_schema
from omnigraph.merge.type_merge import TypeMerge
from omnigraph.tables import Fragment, Staged, Table, Tables
from omnigraph.tables.fragment import OFFSET_BITS
from omnigraph.tables.shared_fragments import fragments_by_files
from omnigraph.tables.staging import adopted, stored_rows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ADOPT_FRACTION = 2
"""A fragment is adopted when at least one row in this many is wanted; the others are deleted from it at once."""


def stage_merge(tables: Tables, current: Table, merge: TypeMerge) -> list[Staged]:
    """The current table with the merge applied: the last of the versions returned. All of them must be made durable."""
    whole, left = _adoptable(current, merge)
    rows = _written(merge, left)
    fragments = (
        () if merge.incoming.table is None else adopted(merge.incoming.table, [fragment.id for fragment in whole])
    )
    first = tables.stage(current, rows=rows, fragments=fragments, remove=merge.removes.tolist(), fold=False)
    merged = tables.open(first.path, first.version, layout=current.layout)
    unwanted = _unwanted(merged, whole)
    if not unwanted:
        return [first]
    return [first, tables.stage(merged, remove=unwanted, fold=False)]


def _adoptable(current: Table, merge: TypeMerge) -> tuple[dict[Fragment, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Incoming fragments to adopt, with the offsets wanted of each; and the addresses of the rows that are left to write."""
    import numpy as np

    incoming = merge.incoming.table
    if incoming is None or incoming.path != current.path:
        return {}, merge.puts
    known = {fragment.files for fragment in current.fragments}
    whole = stored_rows(incoming)
    owners = merge.puts >> np.uint64(OFFSET_BITS)
    taken: dict[Fragment, np.ndarray[Any, Any]] = {}
    left = np.ones(len(merge.puts), bool)
    for fragment in incoming.fragments:
        mine = owners == np.uint64(fragment.id)
        count = int(mine.sum())
        is_stored = fragment.id in whole
        if count and is_stored and fragment.files not in known and count * ADOPT_FRACTION >= whole[fragment.id]:
            taken[fragment] = merge.puts[mine] & np.uint64((1 << OFFSET_BITS) - 1)
            left &= ~mine
    return taken, merge.puts[left]


def _unwanted(table: Table, taken: dict[Fragment, np.ndarray[Any, Any]]) -> list[int]:
    """Addresses of rows that came with adopted fragments and are not wanted (an adopted fragment has no deletions yet)."""
    import numpy as np

    here = fragments_by_files(table)
    unwanted: list[int] = []
    for fragment, offsets in taken.items():
        twin = here[fragment.files]
        if len(offsets) < twin.rows:
            rest = np.setdiff1d(np.arange(twin.rows, dtype=np.uint64), offsets, assume_unique=True)
            unwanted.extend((rest | np.uint64(twin.id << OFFSET_BITS)).tolist())
    return unwanted


def _written(merge: TypeMerge, addresses: np.ndarray[Any, Any]) -> pa.RecordBatchReader | None:
    """The rows to write, in bounded pieces; None when there are none."""
    import pyarrow as pa

    if not len(addresses) and not merge.combined.num_rows:
        return None
    schema = arrow_schema(merge.entity)

    def batches() -> Iterator[Any]:
        step = chunk_rows(merge.incoming.table)
        ordered = sorted(addresses.tolist())
        for start in range(0, len(ordered), step):
            assert merge.incoming.table is not None
            rows = rows_at(merge.incoming.table, ordered[start : start + step], None)
            yield from rows.select(schema.names).cast(schema).to_batches()
        yield from merge.combined.cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())
