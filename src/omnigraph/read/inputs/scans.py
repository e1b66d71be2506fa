"""Scans that stop at a deadline, and streams that keep the error that ended them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from omnigraph._internal.deadlines import Deadline
from omnigraph._internal.lazy_imports import pa
from omnigraph.tables.lance_errors import translated
from omnigraph.tables.table import Table


class Stream:
    """Batches that are read once. The engine that reads them reports only that reading failed; `failure` is the reason."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.failure: BaseException | None = None
        self._reader = pa.RecordBatchReader.from_batches(schema, self._noted(batches))

    def _noted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except BaseException as error:
            self.failure = error
            raise

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


def read_table(table: Table, columns: Sequence[str], filter: str | None, deadline: Deadline) -> pa.Table:
    """The rows that a filter keeps."""
    if deadline.is_never:
        return table.read(columns, filter)
    with translated(table.path):
        reader = table.scan(columns, filter)
    return pa.Table.from_batches(_watched(table, reader, deadline), reader.schema)


def scan_table(
    table: Table, columns: Sequence[str], filter: str | None, deadline: Deadline, batch_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Like `read_table`, batch by batch."""
    return _watched(table, table.scan(columns, filter, batch_rows=batch_rows), deadline)


def _watched(table: Table, batches: pa.RecordBatchReader, deadline: Deadline) -> Iterator[pa.RecordBatch]:
    with translated(table.path):
        for batch in batches:
            deadline.check()
            yield batch
