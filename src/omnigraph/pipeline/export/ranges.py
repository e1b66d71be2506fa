"""A table cut into ranges of ids: what is sorted, encoded and written at a time."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.language.catalog import EntityType
from omnigraph.pipeline.choices import FileFormat
from omnigraph.pipeline.target import TableVersion
from omnigraph.records.encoding import csv_lines, file_columns, json_lines
from omnigraph.tables import Table, literal

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_RANGE = 250_000
_SAMPLES_PER_RANGE = 100


@dataclass(frozen=True)
class IdRange:
    """Rows of a table with first <= id < end (None: no bound)."""

    key: str
    place: TableVersion
    first: str | None
    end: str | None

    def rows(self, table: Table) -> pa.Table:
        """In the order of their ids."""
        bounds = []
        if self.first is not None:
            bounds.append(f"`id` >= {literal(self.first)}")
        if self.end is not None:
            bounds.append(f"`id` < {literal(self.end)}")
        return table.read(filter=" AND ".join(bounds) or None).sort_by("id")


def id_ranges(table: Table, key: str) -> list[IdRange]:
    """The table cut at ids that are about ROWS_PER_RANGE rows apart."""
    if table.rows <= ROWS_PER_RANGE:
        return [IdRange(key, TableVersion.of(table), None, None)]
    step = max(1, ROWS_PER_RANGE // _SAMPLES_PER_RANGE)
    sample: list[str] = []
    for batch in table.scan(["id"]):
        sample += batch.column(0).to_pylist()[::step]
    sample.sort()
    cuts = [None, *sample[:: max(1, ROWS_PER_RANGE // step)][1:], None]
    return [IdRange(key, TableVersion.of(table), first, end) for first, end in itertools.pairwise(cuts)]


def encoded(entity: EntityType, rows: pa.Table, format: FileFormat) -> bytes:
    """Rows as the bytes that stand in a file: lines, or a Parquet file of their own."""
    if format == "jsonl":
        return json_lines(entity, rows)
    if format == "csv":
        return csv_lines(rows)
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(file_columns(rows), buffer)
    return buffer.getvalue()
