"""Rows of data frames: of one type, or each of the type that a column of it names."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import RecordError, UnreadableInput, UsageError
from omnigraph.language.catalog import Catalog
from omnigraph.load.inputs import table_key
from omnigraph.records.ids import FreshIds
from omnigraph.records.rows import NamedRows, RecordForm, Reject, TypedRows
from omnigraph.records.tabular import TabularReader, is_column_of, shown_row
from omnigraph.values.columns import plain_values


class FrameReader:
    """Typed rows from the batches of one data frame. `key`: their table; None: `type_column` names the type of each row."""

    def __init__(self, catalog: Catalog, key: str | None, type_column: str, fresh: FreshIds, form: RecordForm) -> None:
        self._catalog = catalog
        self._key = key
        self._column = type_column
        self._form = form
        self._fresh = fresh
        self._readers: dict[str, TabularReader] = {}
        self._own_rejects: list[Reject] = []

    @property
    def rejects(self) -> list[Reject]:
        return [*self._own_rejects, *(reject for reader in self._readers.values() for reject in reader.rejects)]

    def check(self, names: list[str]) -> None:
        """UnreadableInput if columns of these names cannot be those of the type, or of any type of the schema."""
        if self._key is None:
            self._refuse_unknown(names)
        else:
            self._reader(self._key, names)

    def read(self, table: pa.Table, lines: pa.Int64Array) -> Iterator[TypedRows | NamedRows]:
        """Raises UnreadableInput when the columns cannot be those of the types."""
        if self._key is not None:
            yield from self._reader(self._key, table.column_names).read(table, lines)
            return
        if not self._readers:
            self.check(table.column_names)
        types = table.column(self._column).combine_chunks().dictionary_encode("encode")
        rest = table.drop_columns([self._column])
        for number, name in enumerate(plain_values(types.dictionary)):
            mask = pc.equal(types.indices, number)
            rows, own = rest.filter(mask), lines.filter(mask)
            try:
                key = _key_of(self._catalog, name, self._column)
            except RecordError as error:
                for row, line in enumerate(own.to_pylist()):
                    cells = {self._column: name, **rows.slice(row, 1).to_pylist()[0]}
                    self._own_rejects.append(Reject.of(line, error, shown_row(cells)))
                continue
            yield from self._of_type(key, rows, own)

    def _of_type(self, key: str, rows: pa.Table, lines: pa.Int64Array) -> Iterator[TypedRows | NamedRows]:
        entity = self._catalog.tables[key]
        known = [name for name in rows.column_names if is_column_of(entity, name, self._form)]
        others = [
            name for name in rows.column_names if name not in known and rows.column(name).null_count < rows.num_rows
        ]
        if others:
            names = ", ".join(f"'{name}'" for name in others)
            raise UnreadableInput(
                f"{entity.name} has no column{'s' if len(others) > 1 else ''} {names}, and rows of it have values there",
                type_name=entity.name,
                hint="leave them null in the rows of this type",
            )
        yield from self._reader(key, known).read(rows.select(known), lines)

    def _reader(self, key: str, names: list[str]) -> TabularReader:
        if key not in self._readers:
            self._readers[key] = TabularReader(self._catalog, key, names, self._fresh, text=False, form=self._form)
        return self._readers[key]

    def _refuse_unknown(self, names: list[str]) -> None:
        entities = self._catalog.tables.values()
        unknown = [
            name
            for name in names
            if name != self._column and not any(is_column_of(entity, name, self._form) for entity in entities)
        ]
        if unknown:
            listed = ", ".join(f"'{name}'" for name in unknown)
            raise UnreadableInput(f"no type of the schema has the column{'s' if len(unknown) > 1 else ''} {listed}")


def _key_of(catalog: Catalog, name: object, column: str) -> str:
    if not isinstance(name, str):
        raise RecordError(f"the row names no type in its column '{column}'")
    try:
        return table_key(catalog, name)
    except UsageError as error:
        raise RecordError(error.message, hint=error.hint) from None
