"""Rows of one type that come one by one, collected into columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.language.catalog import EntityType
from omnigraph.records.rows import Row
from omnigraph.records.typed import NamedRows, RecordForm, TypedRows, open_schema

if TYPE_CHECKING:
    import pyarrow as pa


class GatheredRows:
    """Whole rows or parts of rows, depending on the form, and ids of entities to be deleted."""

    def __init__(self, entity: EntityType, form: RecordForm) -> None:
        self._entity = entity
        self._schema = open_schema(entity)
        self._is_partial = form.kind == "partial"
        self._rows: list[Row] = []
        self._lines: list[int] = []
        self._value_columns: list[frozenset[str]] = []
        self._named: list[str] = []
        self._named_lines: list[int] = []
        self._explicit_ids = 0

    def add(self, row: Row, line: int, *, has_id: bool) -> None:
        self._rows.append(row)
        self._lines.append(line)
        self._explicit_ids += has_id

    def add_partial(self, row: Row, columns: frozenset[str], line: int) -> None:
        self._value_columns.append(columns)
        self.add(row, line, has_id=True)

    def name(self, id: str, line: int) -> None:
        self._named.append(id)
        self._named_lines.append(line)

    def typed(self) -> Iterator[TypedRows | NamedRows]:
        import pyarrow as pa

        key = self._entity.table_key
        if self._rows:
            rows = pa.Table.from_pylist(self._rows, schema=self._schema)
            lines = pa.array(self._lines, pa.int64())
            yield TypedRows(
                key, rows, lines, self._explicit_ids, self._columns_with_values() if self._is_partial else None
            )
        if self._named:
            yield NamedRows(key, pa.array(self._named, pa.string()), pa.array(self._named_lines, pa.int64()))

    def _columns_with_values(self) -> pa.Table:
        import pyarrow as pa

        names = [name for name in self._schema.names if name != "id"]
        return pa.table(
            {name: pa.array([name in columns for columns in self._value_columns], pa.bool_()) for name in names}
        )


def columns_with_values(schema: pa.Schema, columns: frozenset[str], rows: int) -> pa.Table:
    """The same columns for every row."""
    import pyarrow as pa

    return pa.table({name: pa.repeat(name in columns, rows) for name in schema.names if name != "id"})
