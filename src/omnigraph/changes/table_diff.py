"""Which rows differ between two versions of a table, found by reading only the fragments that differ.

The answer holds ids and row addresses, not rows: a caller reads the rows it needs. Memory grows with the number of
changed ids; rows are compared in bounded chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.changes.equality import differing
from omnigraph.changes.stored_rows import MIN_CHUNK_ROWS, CarriedChange, TypeRows, chunk_rows, rows_at, typed_rows_at
from omnigraph.language.projection import wider_entity
from omnigraph.tables import Fragment, Table
from omnigraph.tables.changed_table import ChangedTable
from omnigraph.tables.fragment import OFFSET_BITS, ROW_ADDRESS
from omnigraph.tables.shared_fragments import fragments_by_files
from omnigraph.workers import IN_PROCESS, Workers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

INSERT, UPDATE, DELETE, SAME = 0, 1, 2, 3
"""Kinds of difference, in the order they are reported. SAME: stored elsewhere with equal values."""

IDS_PER_TASK = 1_048_576


def changed_rows(before: TypeRows, after: TypeRows, workers: Workers = IN_PROCESS) -> pa.Table:
    """Columns id, op, before, after (addresses, null where the row is absent), sorted by id."""
    if after.carried is not None and isinstance(after.table, ChangedTable):
        carried = _changed_in_commit(before, after.table, after.carried)
        if carried is not None:
            return with_ops(before, after, carried, workers)
    gone = unshared_rows(before, after, workers).rename_columns(["id", "before"])
    come = unshared_rows(after, before, workers).rename_columns(["id", "after"])
    joined = gone.join(come, "id", join_type="full outer").sort_by("id").combine_chunks()
    return with_ops(before, after, joined, workers)


def _changed_in_commit(before: TypeRows, after: ChangedTable, carried: CarriedChange) -> pa.Table | None:
    """The rows of a commit that carries them, id, before and after: what it replaces or removes is looked up only if it has to
    be in the stored version. None if that is not all of it: a state that was read as the one before another commit does not say
    which ids went."""
    import pyarrow as pa

    change, old = carried.change, before.table
    ids = [*change.ids, *change.removed]
    held: dict[str, int | None] = {}
    if isinstance(old, ChangedTable):
        held = {id: old.place_of(id) for id in ids}
    if old is not None and change.masked:
        rows = old.lookup("id", [id for id in ids if held.get(id) is None], ["id"], with_address=True)
        held |= dict(zip(rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True))
    if sum(address is not None for address in held.values()) != carried.superseded:
        return None
    columns = {
        "id": pa.array(ids, pa.utf8()),
        "before": pa.array([held.get(id) for id in ids], pa.uint64()),
        "after": pa.array([*after.newest_addresses(), *(None for _ in change.removed)], pa.uint64()),
    }
    return pa.table(columns).sort_by("id")


def with_ops(before: TypeRows, after: TypeRows, joined: pa.Table, workers: Workers = IN_PROCESS) -> pa.Table:
    """What happened to rows (id, before, after) that are not stored alike on both sides: columns id, op, before, after."""
    import pyarrow as pa
    import pyarrow.compute as pc

    old, new = joined.column("before"), joined.column("after")
    both = joined.filter(pc.and_(pc.is_valid(old), pc.is_valid(new)))
    different = differing_ids(before, after, both, workers)
    op = pc.if_else(
        pc.is_null(old),
        INSERT,
        pc.if_else(pc.is_null(new), DELETE, pc.if_else(pc.is_in(joined.column("id"), different), UPDATE, SAME)),
    )
    return pa.table({"id": joined.column("id"), "op": op.cast(pa.int8()), "before": old, "after": new})


def no_changes() -> pa.Table:
    import pyarrow as pa

    fields = [("id", pa.utf8()), ("op", pa.int8()), ("before", pa.uint64()), ("after", pa.uint64())]
    return pa.schema(fields).empty_table()


def unshared_rows(side: TypeRows, against: TypeRows, workers: Workers) -> pa.Table:
    """Ids and addresses of the rows of one side that are not, as stored, rows of the other."""
    import pyarrow as pa

    empty = pa.schema([("id", pa.utf8()), (ROW_ADDRESS, pa.uint64())]).empty_table()
    pieces = workers.map("read ids", unshared_ids, unshared_runs(side, against))
    return pa.concat_tables([empty, *pieces])


@dataclass(frozen=True)
class FragmentRun:
    """Fragments of one side that the other does not have as they are; what one task reads."""

    side: TypeRows
    against: TypeRows
    fragments: tuple[int, ...]


def unshared_runs(side: TypeRows, against: TypeRows) -> list[FragmentRun]:
    """The fragments that are not shared, in runs of bounded size. Reads metadata only."""
    theirs = fragments_by_files(against.table)
    runs: list[list[int]] = []
    room = 0
    for fragment in side.table.fragments if side.table is not None else ():
        twin = theirs.get(fragment.files)
        if twin is not None and twin.deletions == fragment.deletions:
            continue
        if not runs or fragment.rows > room:
            runs.append([])
            room = IDS_PER_TASK
        runs[-1].append(fragment.id)
        room -= fragment.rows
    return [FragmentRun(side, against, tuple(run)) for run in runs]


def unshared_ids(run: FragmentRun) -> pa.Table:
    """Ids and addresses of the rows of these fragments that the other side does not have."""
    import pyarrow as pa

    table, other = run.side.table, run.against.table
    assert table is not None, "a run has fragments of a table"
    theirs = fragments_by_files(other)
    whole: list[int] = []
    pieces = []
    for fragment in (fragment for fragment in table.fragments if fragment.id in run.fragments):
        twin = theirs.get(fragment.files)
        if twin is None or other is None:
            whole.append(fragment.id)
        else:
            pieces.append(rows_at(table, _only_here(table, fragment, other, twin), ["id"]))
    if whole:
        pieces.append(table.read(["id"], fragments=whole, with_address=True))
    schema = pa.schema([("id", pa.utf8()), (ROW_ADDRESS, pa.uint64())])
    return pa.concat_tables([piece.select(schema.names).cast(schema) for piece in pieces])


def _only_here(table: Table, fragment: Fragment, other: Table, twin: Fragment) -> np.ndarray[Any, Any]:
    """Addresses of rows that live in `fragment` and are deleted in its twin. Reads deletions only, no data."""
    import numpy as np

    mine, theirs = table.deleted_offsets(fragment), other.deleted_offsets(twin)
    offsets = np.setdiff1d(theirs, mine, assume_unique=True).astype(np.uint64)
    addresses: np.ndarray[Any, Any] = offsets | np.uint64(fragment.id << OFFSET_BITS)
    return addresses


def differing_ids(before: TypeRows, after: TypeRows, both: pa.Table, workers: Workers) -> pa.Array:
    """Of rows stored in different places on the two sides, the ids whose values differ. null and empty differ."""
    import pyarrow as pa

    step = both.num_rows if both.num_rows <= MIN_CHUNK_ROWS else chunk_rows(before.table, after.table)
    tasks = [(before, after, both.slice(start, step)) for start in range(0, both.num_rows, max(step, 1))]
    differing_ids = workers.map("compare rows", _differing, tasks)
    return pa.concat_arrays([pa.array([], pa.utf8()), *differing_ids])


def _differing(task: tuple[TypeRows, TypeRows, pa.Table]) -> pa.Array:
    before, after, chunk = task
    entity = wider_entity(before.entity, after.entity)
    old = typed_rows_at(before, chunk.column("before"), entity)
    new = typed_rows_at(after, chunk.column("after"), entity)
    return differing(old, new, entity)
