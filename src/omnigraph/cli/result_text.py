"""Rows of a query for people: cut to the terminal, complete in a file or a pipe, and fast for many rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.cli.output import drawn_row, fit, fitted, is_too_wide, line, print_kv, print_table, screen_width
from omnigraph.wire.rows import joined_lines, text_batches

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph import Result, SqlResult

MIN_ROWS = 20
"""How many rows a terminal shows at least, however small it is."""
OTHER_LINES = 5
"""How many lines of a terminal are not rows: the command, the header, the footer."""
MANY_ROWS = 1_000
"""Tables with more rows are drawn column by column."""


def print_result(result: Result | SqlResult, column_width: int, *, wrap: bool, as_lines: bool) -> None:
    """Print the rows as a table, or with one property per line. A terminal gets those that fit, and how many more there are."""
    shown = min(len(result), rows_on_screen())
    print_rows(result.to_arrow().slice(0, shown), column_width, wrap=wrap, as_lines=as_lines)
    if len(result) > shown:
        print(f"… {len(result) - shown:,} more")


def print_rows(table: pa.Table, column_width: int, *, wrap: bool, as_lines: bool) -> None:
    """Print all of these rows as a table, or with one property per line; columns are cut to the terminal."""
    columns = table.column_names
    if as_lines or is_too_wide(columns, screen_width()):
        print_kv(_rows(table), columns)
    elif table.num_rows > MANY_ROWS and not wrap:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(drawn_by_columns(table, column_width))
        sys.stdout.buffer.flush()
    else:
        numeric = [name for name, column in zip(columns, table.columns, strict=True) if _is_numeric(column.type)]
        print_table(_rows(table), columns, column_width, wrap=wrap, numeric=numeric)


def rows_on_screen() -> int:
    """How many rows fit on the terminal; output to a file or a pipe is not cut."""
    if not sys.stdout.isatty():
        return sys.maxsize
    return max(MIN_ROWS, os.get_terminal_size(sys.stdout.fileno()).lines - OTHER_LINES)


def drawn_by_columns(table: pa.Table, column_width: int) -> Iterator[pa.Buffer | bytes]:
    """The lines that `print_table` prints, in pieces."""
    from rich.cells import cell_len

    names = [line(name) for name in table.column_names]
    is_numeric = [_is_numeric(column.type) for column in table.columns]
    batches = [[_Cells(column.fill_null("")) for column in columns] for columns in text_batches(table)]
    natural = [max(cell_len(name), *(batch[place].widest for batch in batches)) for place, name in enumerate(names)]
    room = screen_width() - 2 * (len(names) - 1)
    widths = fitted([min(most, column_width) for most in natural], room)
    yield drawn_row(names, widths, is_numeric).encode() + b"\n"
    for batch in batches:
        cells = [
            column.fitted(width, at_right=right) for column, width, right in zip(batch, widths, is_numeric, strict=True)
        ]
        yield _without_trailing_spaces(cells)


class _Cells:
    """A column of text, safe on a terminal. Texts that are not plain ASCII are processed one by one."""

    def __init__(self, texts: pa.LargeStringArray) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self.is_plain: bool = pc.all(pc.ascii_is_printable(texts), min_count=0).as_py()
        if not self.is_plain:
            texts = pa.array([line(text) for text in texts.to_pylist()], pa.large_string())
        self.texts = texts
        if self.is_plain:
            self.widest: int = pc.max(pc.binary_length(texts)).as_py() or 0
        else:
            from rich.cells import cell_len

            self.widest = max(map(cell_len, texts.to_pylist()), default=0)

    def fitted(self, width: int, *, at_right: bool) -> pa.LargeStringArray:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.is_plain:
            cells = [fit(text, width, at_right) for text in self.texts.to_pylist()]
            return pa.array(cells, pa.large_string())
        texts = self.texts
        if self.widest > width:
            cut = pc.binary_join_element_wise(
                pc.utf8_slice_codeunits(texts, 0, width - 1),
                pa.scalar("…", pa.large_string()),
                pa.scalar("", pa.large_string()),
            )
            texts = pc.if_else(pc.greater(pc.binary_length(texts), width), cut, texts)
            return pc.utf8_lpad(texts, width) if at_right else pc.utf8_rpad(texts, width)
        return pc.ascii_lpad(texts, width) if at_right else pc.ascii_rpad(texts, width)


def _without_trailing_spaces(columns: Sequence[pa.LargeStringArray]) -> pa.Buffer:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pc.binary_join_element_wise(*columns, pa.scalar("  ", pa.large_string())) if len(columns) > 1 else columns[0]
    return joined_lines([pc.ascii_rtrim(rows, characters=" ")], "")


def _rows(table: pa.Table) -> list[Mapping[str, Any]]:
    names = table.column_names
    rows: list[Mapping[str, Any]] = []
    for columns in text_batches(table):
        rows += [
            dict(zip(names, row, strict=True)) for row in zip(*(column.to_pylist() for column in columns), strict=True)
        ]
    return rows


def _is_numeric(type: pa.DataType) -> bool:
    from pyarrow import types as pt

    return bool(pt.is_integer(type) or pt.is_floating(type) or pt.is_boolean(type))
