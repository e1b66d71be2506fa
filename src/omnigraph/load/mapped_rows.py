"""Rows of a split under the names of its type: as the source names them, or as a map says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import IO

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import UnreadableInput
from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.constraints import did_you_mean
from omnigraph.load.inputs import Split
from omnigraph.load.mapping import MappedSource
from omnigraph.records.documents import (
    MAX_MEMBERS,
    NUMBER,
    VALUE,
    Cells,
    Picker,
    Place,
    column_names,
    documents,
    members_of,
)
from omnigraph.records.rows import WHOLE, NamedRows, RecordForm, Reject, TypedRows
from omnigraph.records.tabular import TabularReader

BATCH_ROWS = 65_536
MAX_NAMED = 12
"""Names that a hint lists."""


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
        named = table.rename_columns(self._names)
        if self._picker is not None:
            if NUMBER not in self._names:
                named = named.append_column(NUMBER, pc.cast(lines, "string"))
            named, lines = self._picker.pick(named, lines)
        yield from self._rows.read(named, lines)


def rows_from(count: int, rows: int) -> pa.Int64Array:
    """The numbers of the rows that follow this many."""
    return pa.array(np.arange(count + 1, count + rows + 1, dtype=np.int64))


def without_structs(table: pa.Table) -> pa.Table:
    """A table whose structs are columns of their own, under dotted names."""
    while any(pa.types.is_struct(column.type) for column in table.schema):
        table = table.flatten()
    return table


def document_rows(
    file: IO[bytes], source: MappedSource, rejects: list[Reject], folders: Collection[str] = ()
) -> Iterator[tuple[pa.Table, pa.Int64Array]]:
    """The records at the places that a map names, as columns of text, with the line of each; of records inside of documents,
    of which a line may have many, with their number. `folders`: columns that are in no record.

    Raises UnreadableInput if the file has no such place, or none of its records a member that a column names.
    """
    names = source.picked.sources
    places = [Place(path, has_values=VALUE in names) for path in source.at or ("",)]
    by_line = [place.path for place in places] == [""]
    number = 0
    held: list[list[str | None]] = []
    lines: list[int] = []
    members = _Members({*names} - {NUMBER, *folders})

    def block() -> tuple[pa.Table, pa.Int64Array]:
        columns = [pa.array([row[place] for row in held], pa.string()) for place in range(len(names))]
        return pa.Table.from_arrays(columns, names=names), pa.array(lines, pa.int64())

    for line, document in documents(file, rejects):
        for place in places:
            for cells in place.records(document, line):
                number += 1
                members.note(cells)
                held.append([cells.get(name) for name in names])
                lines.append(line if by_line else number)
        if len(held) >= BATCH_ROWS:
            yield block()
            held, lines = [], []
    for place in places:
        if (missing := place.missing()) is not None:
            raise _no_member(*missing, f"'at': '{place.path}'", source)
    if number and (lacking := members.lacking()):
        raise _no_member(lacking[0], tuple(members.seen), f"the column of '{_target(source, lacking[0])}'", source)
    if held:
        yield block()


class _Members:
    """Which of the wanted cells some record has."""

    def __init__(self, wanted: set[str]) -> None:
        self._wanted = wanted
        self.seen: dict[str, None] = {}

    def note(self, cells: Cells) -> None:
        if self._wanted:
            self._wanted -= cells.keys()
            if len(self.seen) < MAX_MEMBERS:
                self.seen.update(dict.fromkeys(cells))

    def lacking(self) -> list[str]:
        """The cells that no record has. Where an object is null, its members may be missing."""
        return sorted(name for name in self._wanted if not any(name.startswith(f"{known}.") for known in self.seen))


def _target(source: MappedSource, column: str) -> str:
    named = [name for name, columns in source.picked.columns.items() if column in members_of(columns)]
    return named[0] if named else "where"


def _no_member(name: str, known: Sequence[str], what: str, source: MappedSource) -> UnreadableInput:
    names = [member for member in known if member != NUMBER]
    hint = did_you_mean(name, names, f"there are: {', '.join(names[:MAX_NAMED])}")
    return UnreadableInput(
        f"no record has '{name}' ({what} in the map of {source.type})", type_name=source.type, hint=hint
    )
