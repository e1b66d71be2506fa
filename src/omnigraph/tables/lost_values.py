"""Values that a version does not read although its files hold them: a column of a file has no field there, and a property of the
type is stored in it. No write makes such a version; it was possible in earlier releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.tables.fragment import ROW_ADDRESS
from omnigraph.tables.growing import NO_FIELD
from omnigraph.tables.table import Table
from omnigraph.values.arrow import widened

if TYPE_CHECKING:
    import pyarrow as pa


def lost_values(table: Table, uri: str, options: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """The files of each fragment with such values, and the values themselves: the ids of its rows, and the properties by name.
    `uri`: the folder of the table."""
    import numpy as np
    import pyarrow as pa

    table = table.stored
    for fragment in table.fragments:
        files = [file for file in _metadata(table, fragment.id).files if NO_FIELD in file.fields]
        for file in files:
            place = f"{uri}/data/{file._path}"
            lost = _lost_columns(table, _schema(place, options), file.fields)
            if lost:
                rows = _read(place, options, ["id", *(stored for _, stored in lost)])
                kept = np.setdiff1d(np.arange(rows.num_rows), table.deleted_offsets(fragment))
                rows = rows.take(pa.array(kept))
                columns: dict[str, Any] = {"id": rows.column("id")}
                for name, stored in lost:
                    values = rows.column(stored).combine_chunks()
                    columns[name] = widened(values, table.schema.field(name).type)
                yield fragment.files, pa.table(columns)


def _metadata(table: Table, fragment: int) -> Any:
    return table.dataset.get_fragment(fragment).metadata


def _lost_columns(table: Table, schema: pa.Schema, fields: Sequence[int]) -> list[tuple[str, str]]:
    """Properties, each with the column of a file that holds its values and has no field in the version."""
    if table.layout is None:
        return []
    names = [name for field in schema for name in _repeated(field)]
    unread = {name for name, id in zip(names, fields, strict=True) if id == NO_FIELD}
    return [
        (column.name, stored)
        for column in table.layout.columns
        for stored in [next((name for name, _ in column.stored if name in unread), None)]
        if stored is not None
    ]


def _repeated(field: pa.Field) -> list[str]:
    """The name of a column, for it and for each field nested in it."""
    nested = [field.type.field(place) for place in range(field.type.num_fields)]
    return [field.name, *(field.name for child in nested for _ in _repeated(child))]


def _schema(place: str, options: Mapping[str, str]) -> pa.Schema:
    import lance

    return lance.file.LanceFileReader(place, dict(options) or None).metadata().schema


def _read(place: str, options: Mapping[str, str], columns: Sequence[str]) -> pa.Table:
    import lance

    return lance.file.LanceFileReader(place, dict(options) or None, columns=list(columns)).read_all().to_table()


def rows_with(table: Table, values: pa.Table, fragments: Sequence[int] | None = None) -> pa.Table:
    """The rows of these fragments that gain a value of a property, by their ids, with it and with their addresses. A row gains a
    value where it has none, or the one that all older rows have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    assert table.layout is not None, "the table of a type has a layout"
    rows = table.read(fragments=fragments, with_address=True)
    places = pc.index_in(rows.column("id"), value_set=values.column("id").combine_chunks())
    gains: Any = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
    for name in values.column_names[1:]:
        column = table.layout.by_name[name]
        known, own = values.column(name).take(places), rows.column(name)
        replaced = pc.is_null(own)
        if column.fill is not None and not isinstance(column.fill, tuple):
            replaced = pc.or_(replaced, pc.fill_null(pc.equal(own, pa.scalar(column.fill, column.type)), False))
            differs = pc.fill_null(pc.not_equal(own, known), True)
            replaced = pc.and_(replaced, differs)
        replaced = pc.and_(replaced, pc.is_valid(known))
        gains = pc.or_(gains, replaced)
        field = rows.schema.field(name).with_nullable(True)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pc.if_else(replaced, known, own))
    return rows.filter(gains)


def without_addresses(rows: pa.Table) -> tuple[pa.Table, Any]:
    """The rows as they are written, and the addresses that they had."""
    return rows.drop_columns([ROW_ADDRESS]), rows.column(ROW_ADDRESS).to_numpy()
