"""Columns of a table by one key: read where they are stored, looked up when few are wanted, or cut into buckets.

What is cut is read once, whatever the number of buckets, and travels as Arrow: a piece is the rows of one bucket in a few
fragments of one source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from omnigraph.changes.stored_rows import rows_at
from omnigraph.pipeline.target import TableVersion, Target
from omnigraph.relational import duck
from omnigraph.relational.trees import exp
from omnigraph.tables import Table
from omnigraph.tables.ascending import runs
from omnigraph.tables.fragment import ROW_ADDRESS
from omnigraph.workers import Piece, packed

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BUCKETS = 65_536
CUT_ROWS = 1_048_576
"""Rows that a task reads at once to cut them."""
MAX_LOOKUP = 20_000
"""Keys that are looked up through an index instead of reading a whole column, when the other table is much larger."""
LOOKUP_FACTOR = 8


@dataclass(frozen=True)
class Source:
    """Columns of a table, or of some of its fragments or rows, for a check that looks at the column `by`. A null there is
    no key."""

    place: TableVersion
    columns: tuple[str, ...]
    by: str
    rows: int
    fragments: tuple[int, ...] | None = None
    addresses: tuple[int, ...] | None = None
    with_address: bool = False


class SourceReader(Protocol):
    def read(self, source: Source) -> pa.Table: ...

    def matching(self, source: Source, wanted: pa.Array) -> pa.Table:
        """At least the rows whose `by` is one of these values."""


@dataclass(frozen=True)
class StoredReader:
    """Rows read where they are stored."""

    target: Target

    def read(self, source: Source) -> pa.Table:
        table = self.target.open(source.place)
        if source.addresses is not None:
            return rows_at(table, source.addresses, source.columns).select(list(source.columns))
        return table.read(source.columns, fragments=source.fragments, with_address=source.with_address)

    def matching(self, source: Source, wanted: pa.Array) -> pa.Table:
        table = self.target.open(source.place)
        if not are_few(len(wanted), table.rows) or source.fragments == () or source.addresses is not None:
            return self.read(source)
        if _has_filter_text(table.schema.field(source.by).type):
            return self._look_up(table, source, wanted.to_pylist())
        return self._sift(table, source, wanted)

    def holding(self, source: Source, wanted: pa.Array) -> pa.Table:
        """The rows whose `by`, which is text, is one of these values. However many rows there are, no others are held."""
        table = self.target.open(source.place)
        if are_few(len(wanted), table.rows):
            return self._look_up(table, source, wanted.to_pylist())
        return self._sift(table, source, wanted)

    def _look_up(self, table: Table, source: Source, wanted: list[object]) -> pa.Table:
        with_address = source.with_address or source.fragments is not None
        rows = table.lookup(source.by, wanted, list(source.columns), with_address=with_address)
        return rows if source.fragments is None else _of_fragments(rows, source.fragments, source.with_address)

    def _sift(self, table: Table, source: Source, wanted: pa.Array) -> pa.Table:
        import pyarrow as pa

        stream = table.scan(list(source.columns), fragments=source.fragments, with_address=source.with_address)
        keys = exp.select('"key"').from_('"wanted"')
        query = exp.select("*").from_('"stream"').where(exp.column(source.by, quoted=True).isin(query=keys))
        return duck.run(query, {"stream": stream, "wanted": pa.table({"key": wanted})})


def are_few(wanted: int, rows: int) -> bool:
    return wanted <= MAX_LOOKUP and rows > LOOKUP_FACTOR * wanted


def _has_filter_text(type: pa.DataType) -> bool:
    """Whether any value of the type can be written into a scan's filter."""
    from pyarrow import types as pt

    return bool(pt.is_string(type) or pt.is_signed_integer(type) or pt.is_date(type))


def _of_fragments(rows: pa.Table, fragments: Sequence[int], with_address: bool) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    fragment = pc.shift_right(rows.column(ROW_ADDRESS), pa.scalar(32, pa.uint64()))
    kept = rows.filter(pc.is_in(fragment, value_set=pa.array(fragments, pa.uint64())))
    return kept if with_address else kept.drop_columns([ROW_ADDRESS])


# ---------------------------------------------------------------- buckets


@dataclass(frozen=True)
class Cut:
    """A task: some fragments of a source, cut by key into buckets."""

    target: Target
    number: int
    source: Source
    fragments: tuple[int, ...] | None
    buckets: int


def cut(task: Cut) -> Iterator[Piece]:
    """The rows of each bucket. A null key is in none: no rule looks at it."""
    import numpy as np
    import pyarrow as pa

    source = task.source
    rows = StoredReader(task.target).read(replace(source, fragments=task.fragments))
    if rows.column(source.by).null_count:
        rows = rows.filter(rows.column(source.by).is_valid())
    number = f'CAST(hash("{source.by}") % {task.buckets} AS USMALLINT)'
    buckets = duck.run(exp.select(number).from_('"rows"'), {"rows": rows.select([source.by])}).column(0).to_numpy()
    order = np.argsort(buckets, kind="stable")
    ordered = rows.take(pa.array(order))
    for bucket, places in runs(buckets[order]):
        yield bucket, task.number, packed(ordered.slice(places.start, places.stop - places.start))


@dataclass(frozen=True)
class BucketReader:
    """The rows of one bucket, from their pieces."""

    target: Target
    pieces: dict[Source, list[pa.Table]]

    def read(self, source: Source) -> pa.Table:
        import pyarrow as pa

        held = self.pieces.get(source)
        if held is not None:
            return pa.concat_tables(held)
        table = self.target.open(source.place)
        return table.read(source.columns, fragments=(), with_address=source.with_address)

    def matching(self, source: Source, wanted: pa.Array) -> pa.Table:
        return self.read(source)


def fragment_groups(target: Target, source: Source) -> list[tuple[int, tuple[int, ...] | None]]:
    """Fragments to read at once, with their rows. None: the source names its rows."""
    if source.addresses is not None:
        return [(len(source.addresses), None)]
    groups: list[tuple[int, tuple[int, ...]]] = []
    for fragment in target.open(source.place).fragments:
        if source.fragments is not None and fragment.id not in source.fragments:
            continue
        if groups and groups[-1][0] + fragment.rows <= CUT_ROWS:
            rows, fragments = groups.pop()
            groups.append((rows + fragment.rows, (*fragments, fragment.id)))
        else:
            groups.append((fragment.rows, (fragment.id,)))
    return [*groups]
