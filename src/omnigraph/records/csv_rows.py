"""CSV as columns of text, with the physical line of every row. An empty cell is null; a quoted empty cell is empty text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import reduce
from typing import IO, TYPE_CHECKING, Any

from omnigraph.records.typed import MAX_RECORD_SHOWN, Reject

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 4 * 1024 * 1024
MAX_HEADER_BYTES = 1024 * 1024


class CsvReader:
    """Reads one file with a header. Rows with another number of cells than the header are refused; blank lines skipped."""

    def __init__(self, file: IO[bytes]) -> None:
        self.rejects: list[Reject] = []
        start = file.read(MAX_HEADER_BYTES).removeprefix(b"\xef\xbb\xbf")
        self.header = next(csv.reader(io.StringIO(start.decode("utf-8", "replace"), newline="")), [])
        self._source = _Rest(start, file)
        self._number = 2
        self._newlines = 0
        """Newlines inside cells so far: how far physical lines are ahead of rows."""
        self._skipped: dict[int, str] = {}

    def blocks(self) -> Iterator[tuple[pa.Table, pa.Int64Array]]:
        """Text columns and the line each row starts on."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in self._batches():
            table = pa.Table.from_batches([batch])
            lines = self._lines(table)
            blank = reduce(pc.and_, [pc.is_null(column) for column in table.columns])
            if pc.any(blank).as_py():
                keep = pc.invert(blank).combine_chunks()
                table, lines = table.filter(keep), lines.filter(keep)
            if table.num_rows:
                yield table, lines

    def _batches(self) -> Any:
        import pyarrow as pa
        import pyarrow.csv as pv

        if not self.header:
            return iter(())
        return pv.open_csv(
            self._source,
            read_options=pv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=pv.ParseOptions(
                newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=self._skip
            ),
            convert_options=pv.ConvertOptions(
                column_types={name: pa.string() for name in self.header},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )

    def _skip(self, row: Any) -> str:
        self._skipped[row.number] = row.text
        return "skip"

    def _lines(self, table: pa.Table) -> pa.Int64Array:
        """The line of each row: its number, moved by rows that were skipped and by newlines inside cells before it."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        inside = np.zeros(table.num_rows, dtype=np.int64)
        for column in table.columns:
            found = pc.fill_null(pc.count_substring(column, "\n"), 0)
            inside += found.to_numpy()
        lines = np.empty(table.num_rows, dtype=np.int64)
        due = sorted(self._skipped)
        if not due and not inside.any():
            lines[:] = np.arange(table.num_rows) + self._number + self._newlines
            self._number += table.num_rows
            return pa.array(lines)
        for row in range(table.num_rows):
            self._pass_skipped()
            lines[row] = self._number + self._newlines
            self._number += 1
            self._newlines += int(inside[row])
        return pa.array(lines)

    def _pass_skipped(self) -> None:
        while self._number in self._skipped:
            text = self._skipped.pop(self._number)
            cells = len(next(csv.reader(io.StringIO(text, newline="")), []))
            reason = f"expected {len(self.header)} cells, got {cells}"
            self.rejects.append(Reject(self._number + self._newlines, "record", reason, text[:MAX_RECORD_SHOWN]))
            self._number += 1
            self._newlines += text.count("\n")

    def finish(self) -> None:
        """Account for refused rows after the last good one."""
        self._pass_skipped()


class _Rest(io.RawIOBase):
    """The bytes already taken for the header, then the rest of the file."""

    def __init__(self, start: bytes, file: IO[bytes]) -> None:
        self._start = io.BytesIO(start)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        taken = self._start.read(len(buffer)) or self._file.read(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)
