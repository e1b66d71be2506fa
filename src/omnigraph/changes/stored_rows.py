"""Reads the rows of a type in one snapshot by their addresses, in chunks that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.language.catalog import EntityType
from omnigraph.language.projection import project
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS
from omnigraph.tables.ascending import distinct, is_member, runs
from omnigraph.tables.changed_table import INLINE_FRAGMENT, ChangedTable
from omnigraph.tables.layout import Layout
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import Inline, InlineChange

MIN_CHUNK_ROWS = 256
MAX_CHUNK_ROWS = 65_536
CHUNK_BYTES = 64 * 1024 * 1024
SCAN_FRACTION = 8
"""A fragment, or a range of it, is scanned if more than one row in this many is needed; otherwise rows are fetched by address."""
MAX_ADDRESSES = 4_096


@dataclass(frozen=True)
class CarriedChange:
    """The change that a commit holds inline, and how many rows it replaces or removes."""

    change: InlineChange
    superseded: int


@dataclass(frozen=True)
class TypeRows:
    """A type's rows in one snapshot; can be sent to a worker. `table` is None if no row was ever written."""

    entity: EntityType
    table: Table | None
    carried: CarriedChange | None = None
    """The change between the state they are compared with and these rows, if their commit holds it inline."""
    shares_nothing: bool = False
    """Whether rows may differ although both states store them in the same place: a property that was dropped has come back."""

    def __reduce__(self) -> tuple[Any, ...]:
        table = self.table
        return _stored, (
            self.entity,
            table and (table.path, table.stored.dataset, table.layout),
            table and table.inline,
            self.shares_nothing,
        )


def _stored(
    entity: EntityType, place: tuple[str, Any, Layout | None] | None, inline: Inline | None, shares_nothing: bool
) -> TypeRows:
    table = place and Table(*place)
    rows = ChangedTable.on(table, inline) if table and inline else table
    return TypeRows(entity, rows, shares_nothing=shares_nothing)


def rows_at(table: Table, addresses: Sequence[int] | np.ndarray[Any, Any], columns: Sequence[str] | None) -> pa.Table:
    """The rows at these addresses, in table order, with their addresses."""
    batches = list(_batches_at(table, addresses, columns))
    if not batches:
        return table.empty(columns, with_address=True)
    return pa.concat_tables(batches)


def _batches_at(
    table: Table, addresses: Sequence[int] | np.ndarray[Any, Any], columns: Sequence[str] | None
) -> Iterator[pa.Table]:
    wanted = distinct(np.asarray(addresses, dtype=np.uint64))
    if not len(wanted):
        return
    if wanted[0] >= np.uint64(INLINE_FRAGMENT << OFFSET_BITS):
        yield table.take_addresses(wanted.tolist(), columns)
        return
    fragment_rows = {fragment.id: fragment.rows for fragment in table.fragments}
    for fragment, places in runs(wanted >> np.uint64(OFFSET_BITS)):
        members = wanted[places]
        if len(members) == fragment_rows[fragment]:
            yield table.read(columns, fragments=[fragment], with_address=True)
        elif fragment == INLINE_FRAGMENT:
            yield table.take_addresses(members.tolist(), columns)
        elif _is_dense(members) or len(members) * SCAN_FRACTION >= fragment_rows[fragment]:
            span = f"{ROW_ADDRESS} >= {members[0]} AND {ROW_ADDRESS} <= {members[-1]}"
            for batch in table.scan(columns, span, fragments=[fragment], with_address=True):
                kept = batch.filter(pa.array(is_member(batch.column(ROW_ADDRESS).to_numpy(), members)))
                if kept.num_rows:
                    yield pa.Table.from_batches([kept])
        else:
            for start in range(0, len(members), MAX_ADDRESSES):
                yield table.take_addresses(members[start : start + MAX_ADDRESSES].tolist(), columns)


def _is_dense(addresses: np.ndarray[Any, Any]) -> bool:
    """Whether a scan from the first to the last of these sorted addresses reads few other rows. A scan reads whole pages, so it
    never pays for a few rows."""
    return len(addresses) > MAX_ADDRESSES and int(addresses[-1] - addresses[0]) < SCAN_FRACTION * len(addresses)


def chunk_rows(*tables: Table | None) -> int:
    """How many rows of these tables fit in a chunk of memory."""
    rows = sum(table.rows for table in tables if table is not None)
    size = sum(fragment.bytes for table in tables if table is not None for fragment in table.fragments)
    return max(MIN_CHUNK_ROWS, min(MAX_CHUNK_ROWS, CHUNK_BYTES * rows // max(size, 1)))


def typed_rows_at(stored: TypeRows, addresses: pa.ChunkedArray, wanted: EntityType) -> pa.Table:
    """The rows at the non-null addresses, in their order, as rows of `wanted`."""
    if stored.table is None:
        return project(pa.table({name: pa.array([], pa.utf8()) for name in ("id", "src", "dst")}), wanted, wanted)
    places = addresses.drop_null().to_numpy()
    rows = rows_at(stored.table, places, None)
    if (places[:-1] > places[1:]).any():
        rows = rows.take(np.searchsorted(rows.column(ROW_ADDRESS).to_numpy(), places))
    return project(rows, stored.entity, wanted)
