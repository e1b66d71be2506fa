"""Columns of a table by one key: read where they are stored, looked up when few are wanted, or cut into buckets.

What is cut is read once, whatever the number of buckets, and travels as Arrow: a piece is the rows of one bucket in a few
fragments of one source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from omnigraph._internal.lazy_imports import np, pa, pc, pt
from omnigraph.changes.stored_rows import rows_at
from omnigraph.changes.table_diff import equal_values
from omnigraph.embedding.filling import text_vectors
from omnigraph.errors import InputError, RecordError
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.records.rows import TypedRows
from omnigraph.relational import duck
from omnigraph.relational.sql import exp
from omnigraph.rules.check import Need
from omnigraph.tables.addresses import ROW_ADDRESS
from omnigraph.tables.ascending import runs
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import Piece, to_ipc
from omnigraph.tasks.target import NO_VERSION, TableVersion, Target
from omnigraph.values.arrow import repeated

MAX_BUCKETS = 65_536
CUT_ROWS = 1_048_576
"""Rows that a task reads at once to cut them."""
MAX_LOOKUP = 20_000
"""Keys that are looked up through an index instead of reading a whole column, when the other table is much larger."""
LOOKUP_FACTOR = 8


@dataclass(frozen=True)
class Source:
    """Columns of a table, or of some of its fragments or rows, for a check that looks at the columns `by`. A row with a null there has
    no key."""

    place: TableVersion
    columns: tuple[str, ...]
    by: tuple[str, ...]
    rows: int
    fragments: tuple[int, ...] | None = None
    addresses: tuple[int, ...] | None = None
    with_address: bool = False
    are_values: bool = False
    """Whether it is enough to know which keys there are."""

    @classmethod
    def of(cls, need: Need, place: TableVersion, rows: int, **chosen: Any) -> Source:
        return cls(place, need.columns, need.by, rows, are_values=need.are_values, **chosen)


class SourceReader(Protocol):
    def read(self, source: Source) -> pa.Table: ...

    def matching(self, source: Source, wanted: pa.Array) -> pa.Table:
        """At least the rows whose first `by` is one of these values."""


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
        if _has_filter_text(table.schema.field(source.by[0]).type):
            return self._look_up(table, source, wanted.to_pylist())
        return self._sift(table, source, wanted)

    def holding(self, source: Source, wanted: pa.Array) -> pa.Table:
        """The rows whose first `by`, which is text, is one of these values. However many rows there are, no others are held."""
        table = self.target.open(source.place)
        if are_few(len(wanted), table.rows):
            return self._look_up(table, source, wanted.to_pylist())
        return self._sift(table, source, wanted)

    def _look_up(self, table: Table, source: Source, wanted: list[object]) -> pa.Table:
        with_address = source.with_address or source.fragments is not None
        rows = table.lookup(source.by[0], wanted, list(source.columns), with_address=with_address)
        return rows if source.fragments is None else _of_fragments(rows, source.fragments, source.with_address)

    def _sift(self, table: Table, source: Source, wanted: pa.Array) -> pa.Table:
        stream = table.scan(list(source.columns), fragments=source.fragments, with_address=source.with_address)
        keys = exp.select('"key"').from_('"wanted"')
        query = exp.select("*").from_('"stream"').where(exp.column(source.by[0], quoted=True).isin(query=keys))
        return duck.run(query, {"stream": stream, "wanted": pa.table({"key": wanted})})


def are_few(wanted: int, rows: int) -> bool:
    return wanted <= MAX_LOOKUP and rows > LOOKUP_FACTOR * wanted


def _has_filter_text(type: pa.DataType) -> bool:
    """Whether any value of the type can be written into a scan's filter."""
    return bool(pt.is_string(type) or pt.is_signed_integer(type) or pt.is_date(type))


def _of_fragments(rows: pa.Table, fragments: Sequence[int], with_address: bool) -> pa.Table:
    fragment = pc.shift_right(rows.column(ROW_ADDRESS), pa.scalar(32, pa.uint64()))
    kept = rows.filter(pc.is_in(fragment, value_set=pa.array(fragments, pa.uint64())))
    return kept if with_address else kept.drop_columns([ROW_ADDRESS])


# ---------------------------------------------------------------- buckets


@dataclass(frozen=True)
class Cut:
    """A task: some fragments of a source, cut by key into buckets. However often a part of a key is there, as the source of a tenth of all edges,
    its rows are spread by the rest of the key, or are there once."""

    target: Target
    number: int
    source: Source
    fragments: tuple[int, ...] | None
    buckets: int


def cut(task: Cut) -> Iterator[Piece]:
    """The rows of each bucket. A null key is in none: no rule looks at it."""
    source = task.source
    rows = StoredReader(task.target).read(replace(source, fragments=task.fragments))
    for name in source.by:
        if rows.column(name).null_count:
            rows = rows.filter(rows.column(name).is_valid())
    keys = [f'"{name}"' for name in source.by]
    if source.are_values:
        rows = duck.run(exp.select(*keys).distinct().from_('"rows"'), {"rows": rows})
    number = f"CAST(hash({', '.join(keys)}) % {task.buckets} AS USMALLINT)"
    keyed = {"rows": rows.select(list(source.by))}
    buckets = duck.run(exp.select(number).from_('"rows"'), keyed).column(0).to_numpy()
    order = np.argsort(buckets, kind="stable")
    ordered = rows.take(pa.array(order))
    for bucket, places in runs(buckets[order]):
        yield bucket, task.number, to_ipc(ordered.slice(places.start, places.stop - places.start))


@dataclass(frozen=True)
class BucketReader:
    """The rows of one bucket, from their pieces."""

    target: Target
    pieces: dict[Source, list[pa.Table]]

    def read(self, source: Source) -> pa.Table:
        held = self.pieces.get(source)
        if held is not None:
            return pa.concat_tables(held)
        table = self.target.open(source.place)
        return table.read(source.columns, fragments=(), with_address=source.with_address)

    def matching(self, source: Source, wanted: pa.Array) -> pa.Table:
        return self.read(source)


def fragment_groups(
    target: Target, source: Source, max_rows: int = CUT_ROWS
) -> list[tuple[int, tuple[int, ...] | None]]:
    """Fragments to read at once, with their rows. None: the source names its rows."""
    if source.addresses is not None:
        return [(len(source.addresses), None)]
    groups: list[tuple[int, tuple[int, ...]]] = []
    for fragment in target.open(source.place).fragments:
        if source.fragments is not None and fragment.id not in source.fragments:
            continue
        if groups and groups[-1][0] + fragment.rows <= max_rows:
            rows, fragments = groups.pop()
            groups.append((rows + fragment.rows, (*fragments, fragment.id)))
        else:
            groups.append((fragment.rows, (fragment.id,)))
    return [*groups]


# Rows of the branch that records name by id: parts of them are completed, and those that are to go are found.
#
# A task looks the ids of all its records up at once, as far as they fit in its memory: few through the index, many by one pass over the
# column of ids. What it finds
# holds for the version that the load stands on (`rebasing` sees to it that nobody changes these rows meanwhile).

MAX_HELD_RECORDS = 4_194_304
"""Records whose ids are looked up at once: each time all ids of the table may have to be read."""
LOOKED_UP_SHARE = 2
"""Of the rows that a task may hold, those that it looks up are this part: it holds the stored rows of their ids beside them."""


@dataclass(frozen=True)
class Places:
    """Where the rows of some ids are: an address for each, of those that are `known`."""

    known: np.ndarray[Any, Any]
    addresses: np.ndarray[Any, Any]

    def of(self, start: int, count: int) -> Places:
        part = slice(start, start + count)
        return Places(self.known[part], self.addresses[part])


def find_places(target: Target, place: TableVersion, ids: pa.ChunkedArray) -> Places:
    table = None if place.version == NO_VERSION else target.open(place)
    if table is None or not table.rows:
        return Places(np.zeros(len(ids), bool), np.zeros(len(ids), np.uint64))
    source = Source(place, ("id",), ("id",), table.rows, with_address=True)
    stored = StoredReader(target).holding(source, ids.unique())
    index = pc.index_in(ids, value_set=stored.column("id").combine_chunks().cast(pa.string())).combine_chunks()
    known = np.asarray(index.is_valid())
    addresses = stored.column(ROW_ADDRESS).take(pc.fill_null(index, 0)).to_numpy() if stored.num_rows else None
    return Places(known, np.zeros(len(ids), np.uint64) if addresses is None else addresses)


@dataclass(frozen=True)
class CompletedRows:
    """Whole rows, and with them what the records said of them; and the places in the block of those that are not whole."""

    rows: TypedRows
    source_rows: pa.Table
    errors: dict[int, InputError]


def complete(target: Target, place: TableVersion, typed: TypedRows, places: Places) -> CompletedRows:
    """Parts of rows with the other columns as the branch has them; of a new entity with their defaults."""
    assert typed.has_value is not None, "they are parts"
    entity = target.catalog.tables[typed.key]
    stored = _stored_rows(target, place, entity, typed, places)
    columns: dict[str, Any] = {"id": typed.rows.column("id")}
    for name in typed.has_value.column_names:
        columns[name] = pc.if_else(typed.has_value.column(name), typed.rows.column(name), stored.column(name))
    rows = pa.Table.from_arrays([columns[name] for name in typed.rows.column_names], schema=typed.rows.schema)
    rows = _with_vectors(target, entity, rows, stored, typed.has_value, places)
    errors = dict(_unnamed(entity, rows, places))
    if not errors:
        return CompletedRows(replace(typed, rows=rows, has_value=None), typed.rows, {})
    mask = pa.array([row not in errors for row in range(rows.num_rows)], pa.bool_())
    whole = TypedRows(typed.key, rows.filter(mask), typed.lines.filter(mask), typed.explicit_ids)
    return CompletedRows(whole, typed.rows.filter(mask), errors)


def _stored_rows(target: Target, place: TableVersion, entity: EntityType, typed: TypedRows, places: Places) -> pa.Table:
    """The row of the branch for each record; of a new entity one with the defaults of its type."""
    known = places.known
    wanted = places.addresses[known]
    schema = typed.rows.schema
    if not len(wanted):
        looked_up = schema.empty_table()
        index = np.zeros(0, np.int64)
    else:
        rows = rows_at(target.open(place), wanted, None)
        held = rows.column(ROW_ADDRESS).to_numpy()
        order = np.argsort(held)
        index = order[np.searchsorted(held, wanted, sorter=order)]
        looked_up = pa.Table.from_arrays(
            [rows.column(name).cast(schema.field(name).type) for name in schema.names], schema=schema
        )
    spread = np.zeros(len(known), np.int64)
    spread[known] = index
    stored = looked_up.take(pa.array(spread, mask=~known))
    is_new = pa.array(~known)
    for name, property in entity.properties.items():
        if property.default is not None and not known.all():
            default = repeated(property.default, property.type, len(known))
            column = pc.if_else(is_new, default, stored.column(name))
            stored = stored.set_column(stored.schema.get_field_index(name), schema.field(name), column)
    return stored


def _with_vectors(
    target: Target, entity: EntityType, rows: pa.Table, stored: pa.Table, has_value: pa.Table, places: Places
) -> pa.Table:
    """With the vectors of texts that are new or others than before, unless a vector was given with them."""
    for vector in text_vectors(entity):
        other = ~equal_values(rows.column(vector.source), stored.column(vector.source))
        stale = (other | ~places.known) & ~np.asarray(has_value.column(vector.property).combine_chunks())
        if not stale.any():
            continue
        index = rows.schema.get_field_index(vector.property)
        none = pa.nulls(rows.num_rows, rows.schema.field(index).type)
        rows = rows.set_column(index, rows.schema.field(index), pc.if_else(pa.array(stale), none, rows.column(index)))
        places_of = np.flatnonzero(stale)
        filled = target.filling.filled(entity, rows.take(pa.array(places_of)))
        order = np.arange(rows.num_rows)
        order[places_of] = rows.num_rows + np.arange(len(places_of))
        rows = pa.concat_tables([rows, filled]).take(pa.array(order))
    return rows


def _unnamed(entity: EntityType, rows: pa.Table, places: Places) -> Iterator[tuple[int, InputError]]:
    """Records of entities that are not in the branch and that lack what a new one cannot do without."""
    needed = [("src", "from"), ("dst", "to")] if isinstance(entity, EdgeType) else []
    needed += [(name, name) for name in entity.key if name in entity.properties]
    seen: set[int] = set()
    for column, word in needed:
        lacking = np.asarray(rows.column(column).is_null()) & ~places.known
        for row in np.flatnonzero(lacking).tolist():
            if row not in seen:
                seen.add(row)
                id = rows.column("id")[row].as_py()
                yield (
                    row,
                    RecordError(
                        f"{entity.name} '{id}' does not exist, and a new one needs '{word}'",
                        type_name=entity.name,
                        property=word,
                        entity_id=id,
                    ),
                )
