"""CSV as columns of text, with the physical line of every row. An empty cell is null; a quoted empty cell is empty text."""

from __future__ import annotations

import codecs
import csv
import io
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import IO, TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.errors import RecordError, UnreadableInput
from omnigraph.records.rows import ENCODING_HINT, Reject

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Where the quoted cells of CSV begin and end, by the rules of its reader: a quote opens a cell only at the beginning of a cell,
# and two quotes inside a quoted cell stand for one.


class QuoteTracker:
    """Follows the bytes of a file, chunk by chunk, from the beginning of a line. `in_quotes`: whether the next byte is inside a
    quoted cell."""

    def __init__(self, delimiter: str, quote: str, *, in_quotes: bool = False) -> None:
        self.in_quotes = in_quotes
        self._quote = quote.encode()
        self._cell_starts = f"{delimiter}\r\n".encode()
        self._next_opens = True
        """Whether a quote as the next byte would open a cell, or continue one that was just closed."""

    def feed(self, chunk: bytes) -> NDArray[np.int64]:
        """Positions of the quotes that open or close a cell; the others are literal."""
        quotes = self._regular(chunk)
        if quotes is None:
            quotes = self._one_by_one(chunk)
        self._pass(chunk, quotes)
        return quotes

    def feed_regular(self, chunk: bytes) -> NDArray[np.int64] | None:
        """Like `feed`; None, without following the chunk, if quotes would have to be examined one by one."""
        quotes = self._regular(chunk)
        if quotes is not None:
            self._pass(chunk, quotes)
        return quotes

    def _regular(self, chunk: bytes) -> NDArray[np.int64] | None:
        """All quotes, if every second one is at the beginning of a cell, or directly after the quote that closed it: then none is
        literal."""
        if self._quote not in chunk:
            return np.empty(0, np.int64)
        data = np.frombuffer(chunk, np.uint8)
        quotes = np.flatnonzero(data == self._quote[0])
        opening = np.arange(self.in_quotes, len(quotes), 2)
        places = quotes[opening]
        is_at_start = np.isin(data[places - 1], np.frombuffer(self._cell_starts, np.uint8))
        is_behind_quote = (opening > 0) & (places - quotes[opening - 1] == 1)
        is_good = is_at_start | is_behind_quote
        if len(places) and places[0] == 0:
            is_good[0] = self._next_opens
        return quotes if is_good.all() else None

    def _one_by_one(self, chunk: bytes) -> NDArray[np.int64]:
        in_quotes, closed, ends = self.in_quotes, -1 if self._next_opens else -2, []
        quotes = np.flatnonzero(np.frombuffer(chunk, np.uint8) == self._quote[0])
        for place in quotes.tolist():
            if in_quotes:
                closed = place
            elif closed != place - 1 and (place == 0 or chunk[place - 1] not in self._cell_starts):
                continue
            in_quotes = not in_quotes
            ends.append(place)
        return np.array(ends, np.int64)

    def _pass(self, chunk: bytes, quotes: NDArray[np.int64]) -> None:
        if not chunk:
            return
        self.in_quotes ^= len(quotes) % 2 == 1
        ends_with_real_quote = len(quotes) > 0 and int(quotes[-1]) == len(chunk) - 1
        self._next_opens = ends_with_real_quote or chunk[-1] in self._cell_starts


def first_record(chunk: bytes, quotes: NDArray[np.int64], *, in_quotes: bool) -> int | None:
    """The position after the first line break outside quotes, in a chunk with these quotes. `in_quotes`: whether the chunk begins
    inside quotes."""
    breaks = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
    outside = breaks[np.searchsorted(quotes, breaks) % 2 == int(in_quotes)]
    return int(outside[0]) + 1 if len(outside) else None


BLOCK_BYTES = 16 * 1024 * 1024
"""No row may be longer."""
MAX_HEADER_BYTES = 1024 * 1024
BYTE_ORDER_MARK = codecs.BOM_UTF8
_QUOTES_HINT = 'close every quote; write "" for a quote inside quotes'
_CELLS_HINT = "put cells that contain the delimiter or a line break in double quotes"


class CsvReader:
    """Reads one UTF-8 file with a header, or without one if `columns` are given; with `is_later_piece`, records from the middle
    of a file with these columns. Rows with another number of cells than the header are refused; blank lines are skipped.

    Raises UnreadableInput if the header or the quotes make no sense.
    """

    def __init__(
        self,
        file: IO[bytes],
        delimiter: str = ",",
        *,
        quote: str = '"',
        null: str | None = None,
        columns: Sequence[str] = (),
        is_later_piece: bool = False,
    ) -> None:
        self.rejects: list[Reject] = []
        self._delimiter = delimiter
        self._quote = quote
        self._nulls = [""] if null is None else ["", null]
        self._column_names = list(columns)
        start = file.read(MAX_HEADER_BYTES)
        if is_later_piece:
            self.header = self._column_names
        else:
            start = start.removeprefix(BYTE_ORDER_MARK)
            self.header = (
                self._column_names if self._column_names and start.strip() else header_names(start, delimiter, quote)
            )
        self._source = _CsvBytes(start, file, QuoteTracker(delimiter, quote))
        self._number = 1 if self._column_names else 2
        self._newlines = 0
        """Newlines inside cells so far: how far physical lines are ahead of rows."""
        self._skipped: dict[int, tuple[int, str]] = {}
        self._last_line = self._number
        """The line on which the last row that was read begins."""

    def blocks(self) -> Iterator[tuple[pa.Table, pa.Int64Array]]:
        """Text columns, and the line on which each row starts."""
        for batch in self._batches():
            table = pa.Table.from_batches([batch])
            lines = self._lines(table)
            if table.num_rows:
                self._last_line = lines[-1].as_py()
            blank = reduce(pc.and_, [pc.is_null(column) for column in table.columns])
            if pc.any(blank).as_py():
                keep = pc.invert(blank).combine_chunks()
                table, lines = table.filter(keep), lines.filter(keep)
            table, lines = self._without_other_encodings(table, lines)
            if table.num_rows:
                yield table, lines
        self._pass_skipped()
        if self._source.quotes.in_quotes:
            raise UnreadableInput("a quote is not closed", line=self._last_line, hint=_QUOTES_HINT)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow.csv as pv

        if not self.header:
            return
        try:
            yield from pv.open_csv(
                self._source,
                read_options=pv.ReadOptions(
                    use_threads=False, block_size=BLOCK_BYTES, column_names=self._column_names or None
                ),
                parse_options=pv.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char=self._quote,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=self._skip,
                ),
                convert_options=pv.ConvertOptions(
                    column_types={name: pa.string() for name in self.header},
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=self._nulls,
                ),
            )
        except pa.ArrowInvalid as error:
            line = self._number + self._newlines
            message = f"not valid CSV: {error}"
            if "straddl" in str(error):
                message = f"a row is longer than {BLOCK_BYTES // 2**20} MiB, or a quote is not closed"
            raise UnreadableInput(message, line=line, hint=_QUOTES_HINT) from None

    def _skip(self, row: Any) -> str:
        self._skipped[row.number] = (row.actual_columns, row.text)
        return "skip"

    def _lines(self, table: pa.Table) -> pa.Int64Array:
        """The line of each row: its number, shifted by skipped rows and by newlines inside cells before it."""
        inside = np.zeros(table.num_rows, dtype=np.int64)
        for column in table.columns:
            inside += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy()
        lines = np.empty(table.num_rows, dtype=np.int64)
        if not self._skipped and not inside.any():
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
            cells, text = self._skipped.pop(self._number)
            error = RecordError(f"expected {len(self.header)} cells, got {cells}", hint=_CELLS_HINT)
            self._last_line = self._number + self._newlines
            self.rejects.append(Reject.of(self._last_line, error, text.replace(_OTHER_BYTE, "�")))
            self._number += 1
            self._newlines += text.count("\n")

    def _without_other_encodings(self, table: pa.Table, lines: pa.Int64Array) -> tuple[pa.Table, pa.Int64Array]:
        """The rows that are valid UTF-8; the others are refused."""
        if not self._source.has_other_bytes:
            return table, lines
        wrong: dict[int, str] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            mask = pc.fill_null(pc.match_substring(column, _OTHER_BYTE), False)
            for row in pc.indices_nonzero(mask).to_pylist():
                wrong.setdefault(row, name)
        for row, name in sorted(wrong.items()):
            record = self._delimiter.join(column[row].as_py() or "" for column in table.columns)
            error = RecordError(f"column '{name}' is not valid UTF-8", hint=ENCODING_HINT)
            self.rejects.append(Reject.of(lines[row].as_py(), error, record.replace(_OTHER_BYTE, "�")))
        keep = pa.array([row not in wrong for row in range(len(lines))], pa.bool_())
        return table.filter(keep), lines.filter(keep)

    @property
    def lines(self) -> int:
        """How many lines were read, including the header."""
        return self._number + self._newlines - 1


DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}


def header_names(start: bytes, delimiter: str, quote: str) -> list[str]:
    """The names in the first line of a file; empty if the file is."""
    if not start.strip():
        return []
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        text = start[: error.start].decode("utf-8")
        if "\n" not in text:
            raise UnreadableInput("the header is not valid UTF-8", line=1, hint=ENCODING_HINT) from None
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quote), [])
    except csv.Error:  # a cell of more than 128 KiB
        raise UnreadableInput("a quote in the header is not closed", line=1, hint=_QUOTES_HINT) from None
    if not names:
        raise UnreadableInput("the first line is empty; it must name the columns", line=1, hint="remove empty lines")
    if len(names) == 1:
        _refuse_single_column(names[0], delimiter)
    return names


def _refuse_single_column(name: str, delimiter: str) -> None:
    """Raises UnreadableInput if the only column is really a whole line in another format."""
    if name.lstrip().startswith("{"):
        raise UnreadableInput(
            "this looks like JSON lines, not CSV", line=1, hint="name the file .jsonl, or pass format='jsonl'"
        )
    for other in DELIMITERS:
        if other != delimiter and other in name:
            separator = DELIMITERS.get(delimiter, repr(delimiter))
            raise UnreadableInput(
                f"the columns are separated by {DELIMITERS[other]}, not by {separator}",
                line=1,
                hint=f"pass delimiter={other!r}",
            )


_OTHER_BYTE = "\ufdd0"
"""Stands for a byte that is not UTF-8: a character that Unicode reserves for a program's internal use."""
_ESCAPED = re.compile("[\udc80-\udcff]+")


class ConvertedBytes(io.RawIOBase):
    """A stream of bytes that are converted while they are read."""

    def __init__(self) -> None:
        self._ready = b""

    @abstractmethod
    def _read(self, size: int) -> bytes:
        """The next bytes of the source, about this many; empty at its end."""

    @abstractmethod
    def _converted(self, chunk: bytes) -> bytes:
        """The converted chunk. It may hold some bytes back for the next call; after the last chunk it is called once more, with
        an empty one."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._read(len(buffer))
            self._ready = self._converted(chunk)
            if not chunk:
                break
        taken = self._ready[: len(buffer)]
        self._ready = self._ready[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)


class _CsvBytes(ConvertedBytes):
    """The bytes already taken for the header, then the rest of the file; always valid UTF-8.

    Arrow's reader cannot report rows in another encoding, so invalid bytes are replaced by a mark.
    """

    def __init__(self, start: bytes, file: IO[bytes], quotes: QuoteTracker) -> None:
        super().__init__()
        self.quotes = quotes
        self.has_other_bytes = False
        self._start = io.BytesIO(start)
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def _read(self, size: int) -> bytes:
        return self._start.read(size) or self._file.read(size)

    def _converted(self, chunk: bytes) -> bytes:
        self.quotes.feed(chunk)
        if chunk.isascii() and not self._decoder.getstate()[0]:
            return chunk
        text = self._decoder.decode(chunk, final=not chunk)
        marked = _ESCAPED.sub(_OTHER_BYTE, text)
        self.has_other_bytes = self.has_other_bytes or marked != text
        return marked.encode("utf-8")
