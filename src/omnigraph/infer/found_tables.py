"""What is found in files: tables with a sample of their rows, whatever the format."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import UnreadableInput, UsageError
from omnigraph.infer.columns import SampledColumn
from omnigraph.load.databases import (
    DatabaseKind,
    column_types,
    database_kind,
    foreign_keys,
    primary_key,
    table_columns,
    table_names,
    table_rows,
)
from omnigraph.load.files import InputFile
from omnigraph.load.inputs import format_of
from omnigraph.load.mapped_rows import without_structs
from omnigraph.load.reading import parquet_batches
from omnigraph.load.text import UTF_8, kind_of, open_text
from omnigraph.records.csv_rows import DELIMITERS, CsvReader
from omnigraph.records.documents import column_names
from omnigraph.tasks.progress import Progress, waiting_for
from omnigraph.values.types import Scalar

START_BYTES = 64 * 1024


@dataclass
class FoundTable:
    """Rows of one kind in a file: a table, or the records at some places of JSON.

    `label` is what it is called, and by which others refer to it.
    """

    file: str
    label: str
    columns: dict[str, SampledColumn]
    rows: int
    is_whole: bool
    """Whether the sample is all there is."""
    at: tuple[str, ...] = ()
    is_document: bool = False
    """Whether the rows are objects of JSON."""
    table: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    header: tuple[str, ...] = ()
    """The columns of CSV that has no header of its own."""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    distinct: bool = False
    key: tuple[str, ...] = ()
    """Columns that the source itself declares to be the key."""
    known_by: str = "declared by the source"
    """How the key and the references are known."""
    references: dict[str, str] = field(default_factory=dict)
    """Columns that the source itself declares to refer to another table: its label."""
    composite_references: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """The same of several columns together: the label, and by the members of its key the columns."""
    ends: tuple[str, str] | None = None
    """Columns that the source itself declares to be the ends of edges."""
    contains: tuple[str, str] | None = None
    """Of records in lists of records: the places of these and those. Only edges are made of it."""
    depth: int = 1
    """How many objects lie between the two, and one."""
    id_column: str | None = None
    """A column that tells the rows apart and is no property."""
    left_out: set[str] = field(default_factory=set)
    """Columns that say something else than a property."""
    names: dict[str, str] = field(default_factory=dict)
    """Names of properties that the source itself declares, by column."""

    parts: tuple[str, ...] = ()
    """Other files with rows of the same kind."""

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file, *self.parts)

    @property
    def origin(self) -> str:
        """Where it is, for people."""
        place = f", table {self.table}" if self.table else f", at {', '.join(self.at)}" if any(self.at) else ""
        more = len(self.parts)
        return self.file + (f" and {more} more {'file' if more == 1 else 'files'} like it" if more else "") + place


def found_tables(
    files: Sequence[InputFile],
    sample: int | None,
    headers: Mapping[str, tuple[str, ...]],
    progress: Progress,
) -> list[FoundTable]:
    """The tables of all files, in the order of their names. `headers`: the columns of CSV files without any, by address."""
    named = _short_names([file.address for file in files])
    tables: list[FoundTable] = []
    for file in files:
        name = named[file.address]
        try:
            with waiting_for(f"looking at {name}", progress):
                tables += _tables_of_file(file, name, sample, headers.get(file.address, ()))
        except UnreadableInput as error:
            error.file = file.name
            raise
    return tables


def _tables_of_file(file: InputFile, name: str, sample: int | None, header: tuple[str, ...]) -> list[FoundTable]:
    from omnigraph.infer.nested import tables_of_documents

    start = _start(file)
    kind = database_kind(start)
    if kind is not None:
        return _tables_of_database(file, name, kind, sample)
    match format_of(file, None):
        case "csv":
            return [_table_of_csv(file, name, start, sample, header)]
        case "parquet":
            return [_table_of_parquet(file, name, sample)]
        case _:
            _refuse_kind(start)
            return tables_of_documents(file, name, sample)


_NUMBERED = re.compile(r"[-_. ]*(part)?[-_. ]*[0-9][-_.0-9]*$")


def joined_parts(tables: list[FoundTable]) -> list[FoundTable]:
    """Files with the same columns whose names differ in a number alone, or in their folder, are parts of one table."""
    groups: dict[tuple[object, ...], list[FoundTable]] = {}
    for table in tables:
        stem = _NUMBERED.sub("", table.label)
        whole = (table.label, table.file) if table.table or table.at or table.id_column else (stem,)
        shape = tuple((name, column.is_text) for name, column in table.columns.items())
        groups.setdefault((*whole, table.delimiter, table.encoding, table.header, shape), []).append(table)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[FoundTable]) -> FoundTable:
    first = group[0]
    if len(group) == 1:
        return first
    columns = {}
    for name, column in first.columns.items():
        held = [table.columns[name].values for table in group]
        if len({values.type for values in held}) > 1:
            held = [table.columns[name].values.cast(pa.string()) for table in group]
        columns[name] = SampledColumn(name, pa.concat_arrays(held), is_text=column.is_text)
    label = _NUMBERED.sub("", first.label) or "row"
    rows, is_whole = sum(table.rows for table in group), all(table.is_whole for table in group)
    return replace(
        first,
        label=label,
        columns=columns,
        rows=rows,
        is_whole=is_whole,
        parts=tuple(table.file for table in group[1:]),
    )


def _short_names(addresses: list[str]) -> dict[str, str]:
    """A name for each file: its own, with as much of its folders as it takes to tell it from the others."""
    endings = {address: _endings(address) for address in addresses}
    counts = Counter(ending for held in endings.values() for ending in held)
    return {address: next((end for end in held if counts[end] == 1), address) for address, held in endings.items()}


def _endings(address: str) -> list[str]:
    """The file's name, then with its folder, and so on."""
    parts = address.split("/")
    return ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)]


def _start(file: InputFile) -> bytes:
    with open_text(file, UTF_8) as stream:
        return stream.read(START_BYTES)


def _refuse_kind(start: bytes) -> None:
    kind = kind_of(start)
    if kind is not None:
        raise UnreadableInput(f"the file is {kind}", hint="give CSV, JSON, Parquet, an SQLite or a DuckDB file")


def stem_of(file: str) -> str:
    return file.rsplit("/", 1)[-1].split(".")[0]


# ---------------------------------------------------------------- CSV


def _table_of_csv(file: InputFile, name: str, start: bytes, sample: int | None, names: tuple[str, ...]) -> FoundTable:
    _refuse_kind(start)
    encoding = _encoding_of(start)
    delimiter = _delimiter_of(start.decode(encoding or "utf-8", "replace"))
    with open_text(file, encoding or "utf-8") as stream:
        reader = CsvReader(stream, delimiter or ",", columns=names)
        header = column_names(reader.header)
        if is_neo4j(header):  # Every label and type has to be known: rows of others would be left out.
            sample = None
        blocks = (table for table, _ in reader.blocks())
        rows, is_whole = _sampled(blocks, sample)
    columns = _columns(header, rows, is_text=True)
    # What ends every line of some programs, or divides parts of a sheet, is a column without a name and without values.
    unused = {f"column {place}" for place, title in enumerate(reader.header, 1) if not title.strip()}
    left_out = {column for column in unused if column in columns and not len(columns[column].present)}
    count = 0 if rows is None else rows.num_rows
    table = FoundTable(
        name, label_of(file), columns, count, is_whole, delimiter=delimiter, encoding=encoding, header=names
    )
    table.left_out = left_out if len(left_out) < len(columns) else set()
    return _with_folders(table, file)


def is_neo4j(header: Sequence[str]) -> bool:
    """Whether a header says what its columns are as Neo4j's importer wants it."""
    return any(re.search(r":(ID|START_ID)(\(|$)", column, re.IGNORECASE) for column in header)


def _with_folders(table: FoundTable, file: InputFile) -> FoundTable:
    """With the columns that folders like `day=2026-11-15` stand for."""
    for name, value in file.partitions.items():
        chosen = column_names([*table.columns, name])[-1]
        table.columns[chosen] = SampledColumn(chosen, pa.array([value] * table.rows, pa.string()), is_text=True)
    return table


def label_of(file: InputFile) -> str:
    """The name of a file; of one that has only a number, that of its folder."""
    if _NUMBERED.sub("", file.stem):
        return stem_of(file.address)
    above = [*file.address.split("/")[:-1]]
    return next((folder for folder in reversed(above) if folder and "=" not in folder), "row")


def _encoding_of(start: bytes) -> str | None:
    """None for UTF-8; a file that is none is taken for the encoding of Western Windows, in which every byte has a meaning."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        return None if error.start > len(start) - 4 else "cp1252" if not _UNDEFINED & set(start) else "latin-1"
    return None


_UNDEFINED = {0x81, 0x8D, 0x8F, 0x90, 0x9D}


def _delimiter_of(text: str) -> str | None:
    """What divides the first line into most cells; None for a comma."""
    first = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    counts = {}
    for delimiter in [",", *(other for other in DELIMITERS if other != ",")]:
        try:
            counts[delimiter] = len(next(csv.reader(io.StringIO(first), delimiter=delimiter), []))
        except csv.Error:
            counts[delimiter] = 0
    best = max(counts, key=lambda delimiter: counts[delimiter])
    return None if best == "," else best


def _sampled(blocks: Iterator[pa.Table], sample: int | None) -> tuple[pa.Table | None, bool]:
    """The first rows, and whether they are all."""
    held: list[pa.Table] = []
    count = 0
    for block in blocks:
        if sample is not None and count + block.num_rows > sample:
            held.append(block.slice(0, sample - count))
            return pa.concat_tables(held), False
        held.append(block)
        count += block.num_rows
    return (pa.concat_tables(held) if held else None), True


def _columns(names: list[str], rows: pa.Table | None, *, is_text: bool) -> dict[str, SampledColumn]:
    empty = pa.array([], pa.string())
    columns = {}
    for place, name in enumerate(names):
        values = empty if rows is None else _plain(rows.column(place))
        columns[name] = SampledColumn(name, values, is_text=is_text or rows is None)
    return columns


def _plain(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


# ---------------------------------------------------------------- Parquet


def _table_of_parquet(file: InputFile, name: str, sample: int | None) -> FoundTable:
    with file.open_anywhere() as stream:
        batches = parquet_batches(stream)
        empty: pa.Table = without_structs(next(batches))
        rows, is_whole = _sampled((without_structs(pa.Table.from_batches([batch])) for batch in batches), sample)
    whole = empty if rows is None else rows
    columns = _columns(column_names(whole.column_names), whole, is_text=False)
    return _with_folders(FoundTable(name, label_of(file), columns, whole.num_rows, is_whole), file)


# ---------------------------------------------------------------- databases


def _tables_of_database(file: InputFile, name: str, kind: DatabaseKind, sample: int | None) -> list[FoundTable]:
    path = file.address
    tables = []
    for table in table_names(kind, path):
        names = table_columns(kind, path, table)
        rows, is_whole = _sampled(table_rows(kind, path, table, names), sample)
        described = FoundTable(
            name,
            table,
            _columns(names, rows, is_text=True),
            0 if rows is None else rows.num_rows,
            is_whole,
            table=table,
        )
        described.key = primary_key(kind, path, table)
        for other, columns in foreign_keys(kind, path, table):
            if len(columns) == 1:
                described.references[next(iter(columns.values()))] = other
            else:
                described.composite_references.append((other, columns))
        for column, type in column_types(kind, path, table).items():
            if column in described.columns:
                described.columns[column].declared, described.columns[column].is_words = _declared(type)
        tables.append(described)
    if not tables:
        raise UsageError(f"'{file.name}' has no tables", hint="give a database with tables, or files")
    return tables


_DECLARED: tuple[tuple[str, Scalar], ...] = (
    ("bool", Scalar.BOOL),
    ("timestamp|datetime", Scalar.DATETIME),
    ("date", Scalar.DATE),
    ("decimal|numeric|real|float|double", Scalar.F64),
)


def _declared(type: str) -> tuple[Scalar | None, bool]:
    """What a column of a database is declared as, where values alone could mislead; and whether it is text."""
    scalar = next(
        (scalar for pattern, scalar in _DECLARED if re.search(pattern, type) and not type.endswith("]")), None
    )
    return scalar, re.search("char|text|clob|string|uuid|enum", type) is not None


def arrays(columns: Mapping[str, list[Any]]) -> dict[str, SampledColumn]:
    """Cells as columns."""
    return {name: SampledColumn(name, pa.array(cells, pa.string()), is_text=True) for name, cells in columns.items()}
