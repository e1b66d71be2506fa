"""What a load reads: files by type and format, cut into splits, gathered into bundles of work; and data frames."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from omnigraph._internal.lazy_imports import pa, pq
from omnigraph.errors import UnreadableInput, UsageError
from omnigraph.language.catalog import Catalog, EntityType
from omnigraph.load.databases import DatabaseKind, database_kind
from omnigraph.load.files import STDIN, InputFile, find_files, spooled
from omnigraph.load.mapping import ColumnMap, MappedSource
from omnigraph.load.options import LoadOptions
from omnigraph.load.text import UTF_8, TextOptions
from omnigraph.records.ids import FreshIds
from omnigraph.tasks.engines import DEFAULT_SETTINGS, FileFormat, TaskSettings
from omnigraph.values.arrow import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
SplitFormat = FileFormat | Literal["documents"] | DatabaseKind
"""How the rows of a split are written; `documents` are JSON of any shape, whose places a map names."""

_SUFFIXES: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}

PARQUET_AS_TEXT = 4
COMPRESSED_AS_TEXT = 6
"""How many bytes of text a byte of Parquet, or of compressed text, stands for, roughly."""
MIN_SPLIT_BYTES = 16 * 1024 * 1024
MAX_SPLIT_BYTES = 128 * 1024 * 1024
"""Input bytes per task. JSON lines of this size make fragments of about a million rows."""


@dataclass(frozen=True)
class Split:
    """A piece of one file: bytes of JSON lines (a line belongs to the split it starts in) or of CSV (exactly its records, once
    `record_starts` has found where they begin), row groups of Parquet, or a whole file."""

    index: int
    file: InputFile
    format: SplitFormat
    key: str | None
    """The table the rows belong to; None when every record says it itself."""
    start: int
    end: int
    fresh: FreshIds
    text: TextOptions
    source: MappedSource | None = None
    """Which of its rows and columns are meant; None: all, under their own names or those of `names`."""
    names: Mapping[str, str] = field(default_factory=dict)
    row_groups: tuple[int, ...] | None = None
    """Those of a Parquet file that this piece has; None: all of them."""
    header: tuple[str, ...] = ()
    """The columns of CSV that is a later piece of its file."""

    @property
    def text_bytes(self) -> int:
        """How much it holds, written as text: what a task has to do, and to hold. Row groups are known to that measure."""
        size = self.end - self.start
        return size if self.row_groups is not None else size * _text_factor(self.file, self.format)


@dataclass(frozen=True)
class Frame:
    """Rows in a data frame (Spark, pandas or Arrow), of one type; `key` is None where a column of it names the types."""

    key: str | None
    rows: Any

    @property
    def is_spark(self) -> bool:
        return "pyspark" in type(self.rows).__module__

    @property
    def has_row_numbers(self) -> bool:
        """The rows of a Spark DataFrame, and those that Spark's tasks wrote, come in any order."""
        return self.rows is not None and not self.is_spark

    @property
    def name(self) -> str:
        """What messages call it."""
        return "DataFrame" if self.key is None else f"{self.key.partition(':')[2]} (DataFrame)"

    def to_arrow(self, entity: EntityType) -> pa.Table:
        """UsageError when it is not a data frame, UnreadableInput when a column of it has no type."""
        rows = self.rows
        if isinstance(rows, pa.RecordBatch):
            return pa.Table.from_batches([rows])
        if hasattr(rows, "toArrow"):
            return rows.toArrow()
        try:
            if type(rows).__module__.startswith("pandas"):
                return _from_pandas(rows, entity)
            if isinstance(rows, pa.Table) or hasattr(rows, "__arrow_c_stream__"):
                return pa.table(rows)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnreadableInput(
                f"the columns cannot be converted to Arrow: {reason}",
                file=self.name,
                hint="give every column values of one type",
            ) from None
        raise UsageError(
            f"expected a DataFrame for {entity.name}, got {type(rows).__name__}",
            hint="give a Spark, pandas, Polars or Arrow table",
        )


def _from_pandas(frame: Any, entity: EntityType) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except OverflowError:
        # Arrow takes integers among Python objects for signed ones; the property may know better.
        types = {property.name: arrow_type(property.type) for property in entity.properties.values()}
        columns = [pa.Array.from_pandas(frame[name], type=types.get(name)) for name in frame.columns]
        return pa.Table.from_arrays(columns, names=[str(name) for name in frame.columns])


@dataclass(frozen=True)
class FoundRows:
    """Rows of one file that are to be loaded: all of it, or what an entry of a map takes."""

    file: InputFile
    format: SplitFormat
    key: str | None
    source: MappedSource | None = None


@dataclass(frozen=True)
class FoundInputs:
    """What a load was given, named and typed: files, or data frames."""

    files: tuple[FoundRows, ...]
    frames: tuple[Frame, ...]
    text: TextOptions
    names: Mapping[str, str] = field(default_factory=dict)
    """Properties by the columns that a map gives for them, in every file."""

    @property
    def text_bytes(self) -> int:
        """How much it is about, written as text; what data frames of this process hold is in memory already."""
        sizes = {rows.file.address: _text_bytes(rows.file, rows.format) for rows in self.files}
        return sum(sizes.values())

    @property
    def session(self) -> SparkSession | None:
        """The session of the first DataFrame that is Spark's."""
        session: SparkSession | None = next((frame.rows.sparkSession for frame in self.frames if frame.is_spark), None)
        return session

    def cut(self, parallelism: int, fresh: FreshIds, settings: TaskSettings = DEFAULT_SETTINGS) -> LoadInputs:
        """Into splits, for this many tasks at a time. `fresh`: the ids of the first split."""
        limit = split_bytes(self.text_bytes, parallelism, settings)
        return LoadInputs(tuple(_splits(self.files, limit, fresh, self.text, self.names)), self.frames, limit)


@dataclass(frozen=True)
class LoadInputs:
    """Everything that one load reads, in a fixed order."""

    splits: tuple[Split, ...]
    frames: tuple[Frame, ...]
    task_bytes: int = MAX_SPLIT_BYTES
    """Text that a task reads, about."""

    @property
    def tables(self) -> set[str]:
        """The tables that are named by what is loaded, beside those that records name themselves."""
        named = {split.key for split in self.splits if split.key is not None}
        return named | {frame.key for frame in self.frames if frame.key is not None}

    def bundles(self) -> list[tuple[Split, ...]]:
        """Splits gathered into tasks, so that many small files still make fragments of a good size."""
        bundles: list[list[Split]] = []
        size = 0
        for split in self.splits:
            if not bundles or size + split.text_bytes > self.task_bytes:
                bundles.append([])
                size = 0
            bundles[-1].append(split)
            size += split.text_bytes
        return [tuple(bundle) for bundle in bundles]


Sources = str | Path | Mapping[str, Any] | Iterable[Any]
"""Paths, DataFrames by their types, or one DataFrame, whose type is given beside it."""


def by_type(sources: Any, type: str | None) -> Sources:
    """A DataFrame that stands alone, by its type; other sources as they are."""
    if not any(hasattr(sources, name) for name in ("toArrow", "__arrow_c_stream__", "__arrow_c_array__")):
        return sources  # type: ignore[no-any-return]  # checked where it is read
    if type is None:
        raise UsageError("the type of the DataFrame is not known", hint='load(frame, type="Person", ...)')
    return {type: sources}


def find_inputs(
    sources: Sources,
    catalog: Catalog,
    options: LoadOptions,
    storage_options: Mapping[str, str] | None,
    spool: str | None = None,
) -> FoundInputs:
    """Name every input; a file that is named twice is read once. UsageError for one of unknown type or format, and for options of
    text that no input can follow. `spool`: a folder to keep what standard input (`-`) holds."""
    mapped, text, format = options.mapping, options.text, options.format
    if isinstance(sources, Mapping):
        if format is not None:
            raise UsageError("DataFrames have no format", hint="leave format out")
        if options.type is not None and set(sources) != {options.type}:
            raise UsageError("the DataFrames are given by their types", hint="leave type out")
        if mapped != ColumnMap():
            raise UsageError("a map of columns is for files", hint="rename the columns of the DataFrame")
        for name in sources:
            if not isinstance(name, str):
                raise UsageError(f"DataFrames must be given by the names of their types, got {name.__class__.__name__}")
        refuse_text_options([], text.chosen)
        frames = [Frame(table_key(catalog, name), rows) for name, rows in sources.items()]
        return FoundInputs((), tuple(frames), text)
    rows_by_type: dict[str, list[FoundRows]] = {}
    for source in paths_of(sources):
        for file in _found_at(source, storage_options, spool):
            # Other files of a folder are not what the map is about.
            is_of_others = bool(mapped.sources) and file.name != source and not mapped.of_file(file.address)
            if file.address not in rows_by_type and not is_of_others:
                rows_by_type[file.address] = _rows_of(file, catalog, format, options.type, mapped)
    if not rows_by_type:
        raise UsageError("there is nothing to load", hint="give JSON lines, CSV or Parquet files")
    files = [rows for in_file in rows_by_type.values() for rows in in_file]
    refuse_text_options([rows.format for rows in files], text.chosen)
    return FoundInputs(tuple(files), (), text, mapped.names)


def _found_at(source: str, options: Mapping[str, str] | None, spool: str | None) -> list[InputFile]:
    if source == STDIN and spool is not None:
        return [spooled(sys.stdin.fileno(), spool)]
    return find_files(source, options)


def _rows_of(
    file: InputFile, catalog: Catalog, format: str | None, type: str | None, mapped: ColumnMap
) -> list[FoundRows]:
    entries = mapped.of_file(file.address)
    if not entries:
        chosen = format_of(file, format)
        return [FoundRows(file, chosen, _key_of(file, chosen, catalog, type))]
    if type is not None:
        raise UsageError(f"the map says of which types '{file.name}' is", hint="leave type= out")
    shape = _mapped_format(file, format)
    return [FoundRows(file, shape, table_key(catalog, entry.type), entry) for entry in entries]


def _mapped_format(file: InputFile, format: str | None) -> SplitFormat:
    with file.open() as stream:
        kind = database_kind(stream.read(16))
    if kind is not None:
        return kind
    chosen = format_of(file, format)
    return "documents" if chosen == "jsonl" else chosen


def paths_of(sources: Any) -> list[str]:
    paths = [sources] if isinstance(sources, str | Path) else sources
    if not isinstance(paths, Iterable):
        raise UsageError(f"expected paths or DataFrames by type, got {type(paths).__name__}", hint=_SOURCES_HINT)
    checked = []
    for path in paths:
        if not isinstance(path, str | Path):
            raise UsageError(f"expected a path, got {type(path).__name__}", hint=_SOURCES_HINT)
        checked.append(path if isinstance(path, str) else str(path))
    return checked


_SOURCES_HINT = 'give a path, several paths, or {"Person": frame}'


def refuse_text_options(formats: Sequence[SplitFormat], options: Collection[str]) -> None:
    """An option that no input could follow was meant for another command."""
    for option in options:
        if option != "encoding" and "csv" not in formats:
            raise UsageError(f"'{option}' is for CSV files, and there are none", hint=f"leave {option}= out")
        if not {"csv", "jsonl", "documents"} & set(formats):
            raise UsageError(
                f"'{option}' is for JSON lines and CSV files, and there are none", hint=f"leave {option}= out"
            )


def table_key(catalog: Catalog, name: str) -> str:
    """The table of a type by its name ("Person") or table key ("edge:Person", when a node has the name too)."""
    keys = [key for key in (name, f"node:{name}", f"edge:{name}") if key in catalog.tables]
    if len(keys) == 1:
        return keys[0]
    if keys:
        raise UsageError(f"'{name}' is a node type and an edge type", hint=f"write {keys[0]} or {keys[1]}")
    if name in catalog.families:
        members = ", ".join(member.name for member in catalog.families[name])
        raise UsageError(f"'{name}' is an edge between interfaces", hint=f"name one of its types: {members}")
    raise UsageError(f"the schema has no type '{name}'", hint=f"it has: {', '.join(sorted(catalog.tables))}")


def is_type(catalog: Catalog, name: str) -> bool:
    return any(key in catalog.tables for key in (name, f"node:{name}", f"edge:{name}"))


def format_of(file: InputFile, format: str | None) -> FileFormat:
    """The format of a file: as given, or as its name says. UsageError when it says nothing."""
    if format is not None:
        return format  # type: ignore[return-value]  # checked by the caller
    by_suffix = "jsonl" if file.is_stdin else _SUFFIXES.get(file.suffix)
    if by_suffix == "parquet" and file.compression is not None:
        raise UsageError(f"'{file.name}' is a compressed Parquet file", hint="unpack it: Parquet compresses inside")
    if by_suffix is None:
        raise UsageError(
            f"the format of '{file.name}' is not known",
            hint="name it .jsonl, .csv or .parquet, or pass format=",
        )
    return by_suffix


def _key_of(file: InputFile, format: FileFormat, catalog: Catalog, type: str | None) -> str | None:
    """JSON lines name their types; the other formats take it from `type` or from the file's name."""
    if format == "jsonl":
        if type is not None:
            raise UsageError("records of JSON lines name their types themselves", hint="leave type= out")
        return None
    if type is not None:
        return table_key(catalog, type)
    for name in (file.stem, *reversed(file.folders)):
        if is_type(catalog, name):
            return table_key(catalog, name)
    raise UsageError(
        f"'{file.name}' is not named after a type of the schema",
        hint=f"pass type='TYPE'; the schema has: {', '.join(sorted(catalog.tables))}",
    )


def _splits(
    files: Sequence[FoundRows],
    limit: int,
    fresh: FreshIds,
    text: TextOptions,
    names: Mapping[str, str],
) -> list[Split]:
    splits: list[Split] = []
    for rows in files:
        file, source = rows.file, rows.source
        options = text if source is None else text.replaced(source.encoding, source.delimiter, source.header)
        is_large = _text_bytes(file, rows.format) > limit and (source is None or not source.picked.needs_whole_file)
        if is_large and rows.format == "parquet" and (groups := _row_groups(file, limit)):
            start = 0
            for numbers, size in groups:
                index, end = len(splits), start + size
                ids = fresh.part(index)
                splits.append(Split(index, file, "parquet", rows.key, start, end, ids, options, source, names, numbers))
                start = end
            continue
        # Only in UTF-8 can a line's end be told without reading from the file's beginning.
        is_cut = is_large and rows.format in ("jsonl", "csv") and options.encoding == UTF_8 and not file.compression
        pieces = -(-file.size // limit) if is_cut else 1
        step = -(-file.size // pieces)
        for piece in range(pieces):
            start, end = piece * step, min((piece + 1) * step, file.size)
            index = len(splits)
            ids = fresh.part(index)
            splits.append(Split(index, file, rows.format, rows.key, start, end, ids, options, source, names))
    return splits


def _row_groups(file: InputFile, limit: int) -> list[tuple[tuple[int, ...], int]]:
    """Runs of row groups of about `limit` bytes, with their bytes, unpacked; none for what is not a Parquet file: who reads it
    says so."""
    try:
        with file.open_anywhere() as stream:
            metadata = pq.read_metadata(stream)
    except (pa.ArrowException, OSError):
        return []
    runs: list[tuple[tuple[int, ...], int]] = []
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).total_byte_size
        if runs and runs[-1][1] + size <= limit:
            runs[-1] = ((*runs[-1][0], number), runs[-1][1] + size)
        else:
            runs.append(((number,), max(size, 1)))
    return runs


def _text_bytes(file: InputFile, format: SplitFormat) -> int:
    return file.size * _text_factor(file, format)


def _text_factor(file: InputFile, format: SplitFormat) -> int:
    if format == "parquet":
        return PARQUET_AS_TEXT
    return 1 if file.compression is None else COMPRESSED_AS_TEXT


def split_bytes(total: int, parallelism: int, settings: TaskSettings) -> int:
    """As set; otherwise two tasks a core when the input is small, so that all cores work to the end, and large pieces when it is
    large."""
    if settings.split_bytes is not None:
        return settings.split_bytes
    return max(MIN_SPLIT_BYTES, min(MAX_SPLIT_BYTES, total // max(1, 2 * parallelism)))
