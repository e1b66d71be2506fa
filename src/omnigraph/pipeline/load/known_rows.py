"""Rows of the branch that records name by id: parts of them are completed, and those that are to go are found.

A task looks the ids of many records up at once: few through the index, many by one pass over the column of ids. What it finds
holds for the version that the load stands on (`rebasing` sees to it that nobody changes these rows meanwhile).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.changes.equality import equal_values
from omnigraph.changes.stored_rows import rows_at
from omnigraph.embedding.filling import text_vectors
from omnigraph.errors import InputError, RecordError
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.pipeline.load.keyed_rows import Source, StoredReader
from omnigraph.pipeline.target import NO_VERSION, TableVersion, Target
from omnigraph.records.typed import TypedRows
from omnigraph.tables.fragment import ROW_ADDRESS
from omnigraph.values.arrow import repeated

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_HELD_RECORDS = 262_144
"""Records whose ids are looked up at once."""


@dataclass(frozen=True)
class Places:
    """Where the rows of some ids are: an address for each, of those that are `known`."""

    known: np.ndarray[Any, Any]
    addresses: np.ndarray[Any, Any]

    def of(self, start: int, count: int) -> Places:
        part = slice(start, start + count)
        return Places(self.known[part], self.addresses[part])


def find_places(target: Target, place: TableVersion, ids: pa.ChunkedArray) -> Places:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    table = None if place.version == NO_VERSION else target.open(place)
    if table is None or not table.rows:
        return Places(np.zeros(len(ids), bool), np.zeros(len(ids), np.uint64))
    source = Source(place, ("id",), "id", table.rows, with_address=True)
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
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import numpy as np

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
