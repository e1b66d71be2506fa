"""Which rows differ between two versions of a table, found by reading only the fragments that differ.

The answer holds ids and row addresses, not rows: a caller reads the rows it needs. Memory grows with the number of
changed ids; rows are compared in bounded chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.changes.equality import aligned, equal_values
from omnigraph.changes.projection import project
from omnigraph.changes.workers import IN_PROCESS, Workers
from omnigraph.language.catalog import EntityType
from omnigraph.tables import Fragment, Table
from omnigraph.tables.ascending import distinct, runs
from omnigraph.tables.table import OFFSET_BITS, ROW_ADDRESS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

INSERT, UPDATE, DELETE, SAME = 0, 1, 2, 3
"""Kinds of difference, in the order they are reported. SAME: stored elsewhere with equal values."""

MAX_CHUNK_ROWS = 65_536
CHUNK_BYTES = 64 * 1024 * 1024
SCAN_FRACTION = 8
"""Where more than one row in so many is wanted, of a fragment or of a stretch of it, that is scanned; elsewhere rows are
fetched by address."""
MAX_ADDRESSES = 4_096
IDS_PER_TASK = 1_048_576


@dataclass(frozen=True)
class Stored:
    """A type's rows in one snapshot. `table` is None when no row was ever written. Can travel to a worker."""

    entity: EntityType
    table: Table | None

    def __reduce__(self) -> tuple[Any, ...]:
        return _stored, (self.entity, self.table and (self.table.path, self.table.dataset))


def _stored(entity: EntityType, place: tuple[str, Any] | None) -> Stored:
    return Stored(entity, place and Table(*place))


def changed(before: Stored, after: Stored, workers: Workers = IN_PROCESS) -> pa.Table:
    """Columns id, op, before, after (addresses, null where the row is absent), sorted by id."""
    import pyarrow as pa
    import pyarrow.compute as pc

    gone = unshared(before, after, workers).rename_columns(["id", "before"])
    come = unshared(after, before, workers).rename_columns(["id", "after"])
    joined = gone.join(come, "id", join_type="full outer").sort_by("id").combine_chunks()
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


def unshared(side: Stored, against: Stored, workers: Workers) -> pa.Table:
    """Ids and addresses of the rows of one side that are not, as stored, rows of the other."""
    import pyarrow as pa

    table, other = side.table, against.table
    empty = pa.schema([("id", pa.utf8()), (ROW_ADDRESS, pa.uint64())]).empty_table()
    if table is None:
        return empty
    theirs = fragments_by_files(other)
    whole: list[int] = []
    found = [empty]
    for fragment in table.fragments:
        twin = theirs.get(fragment.files)
        if twin is None or other is None:
            whole.append(fragment.id)
        elif twin.deletions != fragment.deletions:
            addresses = _only_here(table, fragment, other, twin)
            if len(addresses):
                found.append(rows_at(table, addresses, ["id"]).select(["id", ROW_ADDRESS]))
    found += workers.map("read ids", _ids_of, [(side, run) for run in _runs(table, whole)])
    return pa.concat_tables([piece.cast(empty.schema) for piece in found])


def _runs(table: Table, fragments: list[int]) -> list[list[int]]:
    """The fragments in runs of bounded size, each for one task."""
    rows = {fragment.id: fragment.rows for fragment in table.fragments}
    runs: list[list[int]] = []
    room = 0
    for fragment in fragments:
        if not runs or rows[fragment] > room:
            runs.append([])
            room = IDS_PER_TASK
        runs[-1].append(fragment)
        room -= rows[fragment]
    return runs


def _ids_of(task: tuple[Stored, list[int]]) -> pa.Table:
    side, fragments = task
    assert side.table is not None
    return side.table.read(["id"], fragments=fragments, with_address=True).select(["id", ROW_ADDRESS])


def fragments_by_files(table: Table | None) -> dict[tuple[str, ...], Fragment]:
    """Fragments that can be told by their files (a file that were there twice would not identify its rows)."""
    found: dict[tuple[str, ...], Fragment] = {}
    doubled: set[tuple[str, ...]] = set()
    for fragment in table.fragments if table is not None else ():
        if fragment.files in found:
            doubled.add(fragment.files)
        found[fragment.files] = fragment
    return {files: fragment for files, fragment in found.items() if files not in doubled}


def _only_here(table: Table, fragment: Fragment, other: Table, twin: Fragment) -> np.ndarray[Any, Any]:
    """Addresses of rows that live in `fragment` and are deleted in its twin. Reads deletions only, no data."""
    import numpy as np

    mine, theirs = live_offsets(table, fragment), live_offsets(other, twin)
    offsets: np.ndarray[Any, Any] = np.setdiff1d(mine, theirs, assume_unique=True)
    return offsets | np.uint64(fragment.id << OFFSET_BITS)


def live_offsets(table: Table, fragment: Fragment) -> np.ndarray[Any, Any]:
    import numpy as np

    found = table.read([], fragments=[fragment.id], with_address=True)
    addresses: np.ndarray[Any, Any] = found.column(ROW_ADDRESS).to_numpy()
    return addresses & np.uint64((1 << OFFSET_BITS) - 1)


# ---------------------------------------------------------------- rows by address


def rows_at(table: Table, addresses: Sequence[int] | np.ndarray[Any, Any], columns: Sequence[str] | None) -> pa.Table:
    """Rows at these addresses, in table order, with their addresses."""
    import pyarrow as pa

    found = list(_batches_at(table, addresses, columns))
    if not found:
        return table.read(columns, "false", with_address=True)
    return pa.concat_tables(found)


def _batches_at(
    table: Table, addresses: Sequence[int] | np.ndarray[Any, Any], columns: Sequence[str] | None
) -> Iterator[pa.Table]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = distinct(np.asarray(addresses, dtype=np.uint64))
    fragment_rows = {fragment.id: fragment.rows for fragment in table.fragments}
    for fragment, places in runs(wanted >> np.uint64(OFFSET_BITS)):
        members = wanted[places]
        if len(members) == fragment_rows[fragment]:
            yield table.read(columns, fragments=[fragment], with_address=True)
        elif _is_dense(members) or len(members) * SCAN_FRACTION >= fragment_rows[fragment]:
            value_set = pa.array(members)
            span = f"{ROW_ADDRESS} >= {members[0]} AND {ROW_ADDRESS} <= {members[-1]}"
            for batch in table.scan(columns, span, fragments=[fragment], with_address=True):
                kept = batch.filter(pc.is_in(batch.column(ROW_ADDRESS), value_set=value_set))
                if kept.num_rows:
                    yield pa.Table.from_batches([kept])
        else:
            for start in range(0, len(members), MAX_ADDRESSES):
                yield table.take_addresses(members[start : start + MAX_ADDRESSES].tolist(), columns)


def _is_dense(addresses: np.ndarray[Any, Any]) -> bool:
    """Whether a scan from the first to the last of these (sorted) addresses reads little else: it reads whole pages, so
    few rows are never worth one."""
    return len(addresses) > MAX_ADDRESSES and int(addresses[-1] - addresses[0]) < SCAN_FRACTION * len(addresses)


def chunk_rows(*tables: Table | None) -> int:
    """How many rows of these tables fit a chunk of memory."""
    rows = sum(table.rows for table in tables if table is not None)
    size = sum(fragment.bytes for table in tables if table is not None for fragment in table.fragments)
    return max(256, min(MAX_CHUNK_ROWS, CHUNK_BYTES * rows // max(size, 1)))


def typed_rows_at(stored: Stored, addresses: pa.ChunkedArray, wanted: EntityType) -> pa.Table:
    """The rows at the non-null addresses, as rows of `wanted`."""
    import pyarrow as pa

    if stored.table is None:
        return project(pa.table({name: pa.array([], pa.utf8()) for name in ("id", "src", "dst")}), wanted, wanted)
    rows = rows_at(stored.table, addresses.drop_null().to_numpy(), None)
    return project(rows, stored.entity, wanted)


def differing_ids(before: Stored, after: Stored, both: pa.Table, workers: Workers) -> pa.Array:
    """Of rows stored in different places on the two sides, the ids whose values differ. null and empty differ."""
    import pyarrow as pa

    step = chunk_rows(before.table, after.table)
    tasks = [(before, after, both.slice(start, step)) for start in range(0, both.num_rows, step)]
    found = workers.map("compare rows", _differing, tasks)
    return pa.concat_arrays([pa.array([], pa.utf8()), *found])


def _differing(task: tuple[Stored, Stored, pa.Table]) -> pa.Array:
    before, after, chunk = task
    old = typed_rows_at(before, chunk.column("before"), after.entity)
    new = typed_rows_at(after, chunk.column("after"), after.entity)
    return differing(old, new, after.entity)


def differing(old: pa.Table, new: pa.Table, entity: EntityType) -> pa.Array:
    """Ids of the entities in both whose values differ."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = old.column("id").combine_chunks().cast(pa.utf8())
    ids = ids.filter(pc.is_in(ids, value_set=new.column("id").combine_chunks().cast(pa.utf8())))
    before, after = aligned(old, ids), aligned(new, ids)
    different = np.zeros(len(ids), bool)
    for name in value_columns(entity):
        different |= ~equal_values(before.column(name), after.column(name))
    return ids.filter(pa.array(different))


def value_columns(entity: EntityType) -> list[str]:
    ends = ["src", "dst"] if entity.table_key.startswith("edge:") else []
    return [*ends, *entity.properties]
