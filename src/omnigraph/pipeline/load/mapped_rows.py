"""Rows of a split under the names of its type: as the source names them, or as a map says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from omnigraph.language.catalog import Catalog
from omnigraph.pipeline.load.inputs import Split
from omnigraph.pipeline.load.mapping import MappedSource
from omnigraph.records.documents import NUMBER, documents, records_at
from omnigraph.records.picking import Picker, column_names
from omnigraph.records.tabular import TabularReader
from omnigraph.records.typed import WHOLE, NamedRows, RecordForm, Reject, TypedRows

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536


class ColumnsReader:
    """Typed rows from the blocks of a split. `names` are the columns of the source."""

    def __init__(
        self, catalog: Catalog, split: Split, names: list[str], *, text: bool, form: RecordForm = WHOLE
    ) -> None:
        """Raises UnreadableInput when the columns cannot be the type's."""
        assert split.key is not None
        entity = catalog.tables[split.key]
        self._picker: Picker | None = None
        if split.source is None:
            self._names = [split.names.get(name, name) for name in names]
        else:
            # Members of objects and columns of databases have names of their own already.
            self._names = column_names(names) if split.format in ("csv", "parquet") else names
            split.source.picked.check([*self._names, NUMBER], entity)
            self._picker = Picker(split.source.picked, entity)
        targets = self._names if self._picker is None else self._picker.names
        folders = [split.names.get(name, name) for name in split.file.partitions]
        if split.source is not None:
            folders = [name for name, column in split.source.picked.columns.items() if column in split.file.partitions]
        self._rows = TabularReader(catalog, split.key, targets, split.fresh, text=text, text_names=folders, form=form)

    @property
    def rejects(self) -> list[Reject]:
        return self._rows.rejects

    def read(self, table: pa.Table, lines: pa.Int64Array) -> Iterator[TypedRows | NamedRows]:
        import pyarrow.compute as pc

        named = table.rename_columns(self._names)
        if self._picker is not None:
            if NUMBER not in self._names:
                named = named.append_column(NUMBER, pc.cast(lines, "string"))
            named, lines = self._picker.pick(named, lines)
        yield from self._rows.read(named, lines)


def rows_from(count: int, rows: int) -> pa.Int64Array:
    """The numbers of the rows that follow this many."""
    import numpy as np
    import pyarrow as pa

    return pa.array(np.arange(count + 1, count + rows + 1, dtype=np.int64))


def without_structs(table: pa.Table) -> pa.Table:
    """A table whose structs are columns of their own, under dotted names."""
    import pyarrow as pa

    while any(pa.types.is_struct(column.type) for column in table.schema):
        table = table.flatten()
    return table


def document_rows(
    file: IO[bytes], source: MappedSource, rejects: list[Reject]
) -> Iterator[tuple[pa.Table, pa.Int64Array]]:
    """The records at the places that a map names, as columns of text, with the line of each; of records inside of documents,
    of which a line may have many, with their number."""
    import pyarrow as pa

    names, places = source.picked.sources, source.at or ("",)
    number = 0
    held: list[list[str | None]] = []
    lines: list[int] = []

    def block() -> tuple[pa.Table, pa.Int64Array]:
        columns = [pa.array([row[place] for row in held], pa.string()) for place in range(len(names))]
        return pa.Table.from_arrays(columns, names=names), pa.array(lines, pa.int64())

    for line, document in documents(file, rejects):
        for place in places:
            for cells in records_at(document, line, place):
                number += 1
                held.append([cells.get(name) for name in names])
                lines.append(line if places == ("",) else number)
        if len(held) >= BATCH_ROWS:
            yield block()
            held, lines = [], []
    if held:
        yield block()
