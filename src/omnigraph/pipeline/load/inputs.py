"""What is to be loaded: files by type and format, cut into splits, gathered into bundles of work; and data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omnigraph.errors import UsageError
from omnigraph.language.catalog import Catalog
from omnigraph.pipeline.load.files import InputFile, find_files
from omnigraph.records.fresh_ids import FreshIds

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet")

_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}

MIN_SPLIT_BYTES = 16 * 1024 * 1024
MAX_SPLIT_BYTES = 128 * 1024 * 1024
"""Input bytes per task. JSON lines of this size make fragments of about a million rows."""


@dataclass(frozen=True)
class Split:
    """A piece of one file: bytes of JSON lines (a line belongs to the split it starts in), or a whole CSV or Parquet file."""

    index: int
    file: InputFile
    format: Format
    key: str | None
    """The table the rows belong to; None when every record says it itself."""
    start: int
    end: int
    fresh: FreshIds

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Frame:
    """Rows of one type in a data frame (Spark, pandas or Arrow)."""

    key: str
    rows: Any

    @property
    def is_spark(self) -> bool:
        return "pyspark" in type(self.rows).__module__


@dataclass(frozen=True)
class Inputs:
    """Everything of one load, in a fixed order."""

    splits: tuple[Split, ...]
    frames: tuple[Frame, ...]

    def bundles(self, parallelism: int) -> list[tuple[Split, ...]]:
        """Splits gathered into tasks, so that many small files still make fragments of a good size."""
        limit = _split_bytes(sum(split.size for split in self.splits), parallelism)
        bundles: list[list[Split]] = []
        size = 0
        for split in self.splits:
            if not bundles or size + split.size > limit:
                bundles.append([])
                size = 0
            bundles[-1].append(split)
            size += split.size
        return [tuple(bundle) for bundle in bundles]


Sources = str | Path | Mapping[str, Any] | Iterable[str | Path]


def resolve_inputs(
    sources: Sources,
    catalog: Catalog,
    *,
    format: str | None,
    type: str | None,
    options: Mapping[str, str] | None,
    parallelism: int,
    new_id: Callable[[], str],
) -> Inputs:
    """Name every input. UsageError for a file whose type or format cannot be told."""
    if format is not None and format not in FORMATS:
        raise UsageError(f"'{format}' is no format to load", hint=f"one of {', '.join(FORMATS)}")
    if isinstance(sources, Mapping):
        frames = [Frame(key, rows) for name, rows in sources.items() for key in [table_key(catalog, name)]]
        return Inputs((), tuple(frames))
    named = [sources] if isinstance(sources, str | Path) else list(sources)
    files: list[tuple[InputFile, Format, str | None]] = []
    for source in named:
        for file in find_files(str(source), options):
            chosen = _format_of(file, format)
            if chosen is not None:
                files.append((file, chosen, _key_of(file, chosen, catalog, type)))
    if not files:
        raise UsageError("there is nothing to load", hint="give JSON lines, CSV or Parquet files")
    return Inputs(tuple(_splits(files, parallelism, new_id)), ())


def table_key(catalog: Catalog, name: str) -> str:
    """The table of a type by its name ("Person") or table key ("edge:Person", when a node has the name too)."""
    keys = [key for key in (name, f"node:{name}", f"edge:{name}") if key in catalog.tables]
    if len(keys) == 1:
        return keys[0]
    if keys:
        raise UsageError(f"'{name}' is a node type and an edge type", hint=f"say {keys[0]} or {keys[1]}")
    raise UsageError(f"the schema has no type '{name}'", hint=f"it has: {', '.join(sorted(catalog.tables))}")


def _format_of(file: InputFile, format: str | None) -> Format | None:
    if format is not None:
        return format  # type: ignore[return-value]  # checked by the caller
    found = _SUFFIXES.get(file.suffix)
    if found is None:
        raise UsageError(
            f"the format of '{file.name}' is not known", hint="name it .jsonl, .csv or .parquet, or give the format"
        )
    return found


def _key_of(file: InputFile, format: Format, catalog: Catalog, type: str | None) -> str | None:
    """JSON lines name their types; the other formats take it from `type` or from the file's name."""
    if format == "jsonl":
        if type is not None:
            raise UsageError("records of JSON lines name their types themselves", hint="leave the type out")
        return None
    return table_key(catalog, type if type is not None else file.stem)


def _splits(
    files: Sequence[tuple[InputFile, Format, str | None]], parallelism: int, new_id: Callable[[], str]
) -> list[Split]:
    limit = _split_bytes(sum(file.size for file, _, _ in files), parallelism)
    splits: list[Split] = []
    for file, format, key in files:
        pieces = max(1, -(-file.size // limit)) if format == "jsonl" else 1
        step = -(-file.size // pieces)
        for piece in range(pieces):
            start, end = piece * step, min((piece + 1) * step, file.size)
            splits.append(Split(len(splits), file, format, key, start, end, FreshIds.after(new_id())))
    return splits


def _split_bytes(total: int, parallelism: int) -> int:
    """Two tasks a core when the input is small, so that all cores work to the end; large pieces when it is large."""
    return max(MIN_SPLIT_BYTES, min(MAX_SPLIT_BYTES, total // max(1, 2 * parallelism)))
