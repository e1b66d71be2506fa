"""Output of commands: a table or a sentence for people, JSON for programs. Every command has both."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pa, pc, pt
from omnigraph.api.rows import joined_lines, text_batches
from omnigraph.errors import AlreadyExists, InputError, LanguageError, OmnigraphError, RejectedRecords, UnreadableInput

if TYPE_CHECKING:
    from omnigraph.metering import Meter
    from omnigraph.types import Result, SqlResult


FILE_FORMATS = ("csv", "jsonl", "parquet", "arrow")
"""The formats that can be written to a file."""
FORMATS = ("table", "kv", "json", *FILE_FORMATS)

MIN_COLUMN = 6
"""Narrower columns would be unreadable: rows that need them are shown with one property per line."""

ID_LENGTH = 26
"""The length of a generated id."""

REJECTS_SHOWN = 20


@dataclass(frozen=True)
class Output:
    as_json: bool
    quiet: bool
    column_width: int = 80
    wrap: bool = False
    meter: Meter | None = None
    """Counts what the command asks of the store."""

    def counted(self, receipt: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON value of a write's receipt, with what the command has asked of the store."""
        cost = None if self.meter is None else self.meter.cost().to_json()
        return {**receipt, "store": cost} if cost else receipt

    def done(self, value: Any, sentence: str) -> None:
        """Print what a command has done: the JSON value, or a sentence that --quiet leaves out."""
        if self.as_json:
            self.json(value)
        elif not self.quiet:
            print(sentence)

    def show(self, value: Any, text: str) -> None:
        """Print what a command was asked for: the JSON value, or the text."""
        if self.as_json:
            self.json(value)
        elif text:
            print(text)

    def json(self, value: Any) -> None:
        print(json.dumps(value, indent=2, ensure_ascii=False))

    def table(
        self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, value: Any, title: str | None = None
    ) -> None:
        """Rows as a table that fits the terminal; `value` is what JSON shows instead."""
        if self.as_json:
            self.json(value)
            return
        listed = list(rows)
        if title is not None and not self.quiet:
            print(title)
        if listed:
            print_table(listed, columns, self.column_width, wrap=self.wrap)
        elif not self.quiet:
            print("(none)")

    def rows(self, header: str, result: Result | SqlResult, format: str, envelope: Callable[[], Any]) -> None:
        """Print rows of a query, in one of `FORMATS`. `envelope` makes the JSON form of the whole result."""
        if format == "json":
            self.json(envelope())
        elif format in FILE_FORMATS:
            from omnigraph.api.rows import write_rows

            sys.stdout.flush()
            write_rows(result, "-", format)  # type: ignore[arg-type]
        else:
            self._rows_for_people(header, result, format)

    def _rows_for_people(self, header: str, result: Result | SqlResult, format: str) -> None:
        if not self.quiet:
            print(header)
        if not len(result):
            print("(no rows)")
            return

        print_result(result, self.column_width, wrap=self.wrap, as_lines=format == "kv")


def print_cost(meter: Meter) -> None:
    """Print the requests to the store, for --debug: when each began and how long it took, and the totals."""
    cost = meter.cost()
    for request in meter.requests:
        begun, took = request.started - meter.requests[0].started, request.ended - request.started
        print(
            f"store: {begun * 1000:9.1f} ms {took * 1000:8.1f} ms {request.kind:6} {request.bytes:>9,} B  {request.key}",
            file=sys.stderr,
        )
    if text := str(cost):
        print(f"store: {text}", file=sys.stderr)


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    column_width: int,
    *,
    wrap: bool = False,
    numeric: Collection[str] | None = None,
) -> None:
    """Print a table no wider than the terminal, or one property per line if there are too many columns. `numeric` columns (by
    default, those of numbers) are right-aligned."""
    from rich.cells import cell_len

    width = screen_width()
    if is_too_wide(columns, width):
        print_kv(rows, columns)
        return
    names = [line(name) for name in columns]
    texts = [[line(cell(row.get(name))) for name in columns] for row in rows]
    natural = [max(map(cell_len, column)) for column in zip(names, *texts, strict=True)]
    whole = [is_whole(map(cell_len, column)) for column in zip(*texts, strict=True)] if texts else []
    widths = fitted([min(most, column_width) for most in natural], width - 2 * (len(columns) - 1), whole)
    at_right = [
        all(isinstance(row.get(name), int | float | None) for row in rows) if numeric is None else name in numeric
        for name in columns
    ]
    head, *drawn = [drawn_row(row, widths, at_right, wrap=wrap) for row in [names, *texts]]
    print("\n".join([f"\x1b[1m{head}\x1b[0m" if sys.stdout.isatty() else head, *drawn]))


def drawn_row(texts: Sequence[str], widths: Sequence[int], at_right: Sequence[bool], *, wrap: bool = False) -> str:
    """A row of a table: each text is cut to its column or wrapped to as many lines as it needs."""
    cells = [wrapped(text, width) if wrap else [text] for text, width in zip(texts, widths, strict=True)]
    lines = []
    for parts in zip_longest(*cells, fillvalue=""):
        fields = [fit(*field) for field in zip(parts, widths, at_right, strict=True)]
        lines.append("  ".join(fields).rstrip())
    return "\n".join(lines)


def fit(text: str, width: int, at_right: bool) -> str:
    """Text padded or cut to exactly this many cells of a terminal, where some characters take two."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    space = " " * (width - cell_len(text))
    return space + text if at_right else text + space


def wrapped(text: str, width: int) -> list[str]:
    """Text wrapped to lines of this many cells, between words where possible."""
    from rich.cells import cell_len, chop_cells

    lines = []
    while cell_len(text) > width:
        most = max(len(chop_cells(text, width)[0]), 1)
        end = text.rfind(" ", 0, most + 1)
        end = end if end > 0 else most
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]


def is_too_wide(columns: Sequence[str], width: int) -> bool:
    return len(columns) * (MIN_COLUMN + 2) > width


def is_whole(lengths: Iterable[int]) -> bool:
    """Whether these lengths of texts are those of ids or times: all the same, and no longer than an id. Part of one tells nothing."""
    different = set(lengths)
    return len(different) == 1 and max(different) <= ID_LENGTH


def fitted(widths: Sequence[int], room: int, whole: Sequence[bool] = ()) -> list[int]:
    """Widths that fit into `room`: the widest columns shrink first, so that short ones stay whole. Columns that are `whole` shrink
    after all others have reached `MIN_COLUMN`."""
    result = list(widths)
    while sum(result) > room:
        free = [place for place, is_kept in enumerate(whole) if not is_kept and result[place] > MIN_COLUMN]
        widest = max(free or range(len(result)), key=result.__getitem__)
        result[widest] -= 1
    return result


def screen_width() -> int:
    """The width of the terminal. Output to a file or a pipe is not cut."""
    if sys.stdout.isatty():
        return os.get_terminal_size(sys.stdout.fileno()).columns
    return int(os.environ.get("COLUMNS") or 10_000)


def cut_lines(text: str) -> str:
    """A drawing with lines cut to the width of the terminal, so that none wraps."""
    if not sys.stdout.isatty():
        return text
    width = screen_width()
    return "\n".join(row if len(row) <= width else f"{row[: width - 1]}…" for row in text.split("\n"))


def print_kv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    width = max(len(name) for name in columns)
    for index, row in enumerate(rows):
        if index:
            print()
        for name in columns:
            print(f"{line(name).ljust(width)}  {line(cell(row.get(name)))}".rstrip())


def cell(value: Any) -> str:
    """One value as text in a table or CSV: null is empty, lists and objects are JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def time_text(at: dt.datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def current_time() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def age_text(at: dt.datetime) -> str:
    """How long ago: `just now`, `5 minutes ago`, `3 days ago`."""
    seconds = (current_time() - at).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit, unit + 's')} ago"
    return "just now"


def write_new(path: str, text: str) -> None:
    """Write a new file. AlreadyExists if there is one, which the user may have edited."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise AlreadyExists(f"{path} already exists", hint="choose another name, or remove it") from None


def counted(number: int, singular: str, plural: str) -> str:
    """`1 entity`, `2 entities`."""
    return f"{number} {singular if number == 1 else plural}"


def line(text: str) -> str:
    """Text on one line, without control characters that a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def print_error(error: OmnigraphError, as_json: bool, spell: Callable[[str], str] = lambda hint: hint) -> None:
    """Print an error: as JSON on stdout for programs, or as a sentence on stderr for people. `spell` writes a hint for this caller."""
    if as_json:
        value = error.to_json()
        if "hint" in value:
            value["hint"] = spell(value["hint"])
        print(json.dumps({"error": value}, indent=2, ensure_ascii=False))
    else:
        sys.stdout.flush()
        print(_error_text(error, spell), file=sys.stderr)


def _error_text(error: OmnigraphError, spell: Callable[[str], str]) -> str:
    """One clear sentence, the position if there is one, and what to do."""
    if isinstance(error, LanguageError):
        return f"error: {error.render()}"
    place = ""
    if isinstance(error, InputError) and error.file:
        place = f"{error.file}:{error.line}: " if error.line else f"{error.file}: "
    lines = [f"error: {place}{error.message}"]
    if isinstance(error, UnreadableInput) and error.total > 1:
        return "\n".join(
            [f"error: {error.total} inputs cannot be read", *map(spell, _listed(error.problems, error.total))]
        )
    if isinstance(error, RejectedRecords) and error.total > 1:
        lines = [f"error: {error.total} records were rejected", *map(spell, _listed(error.rejects, error.total))]
    if error.hint:
        lines.append(f"hint: {spell(error.hint)}")
    return "\n".join(lines)


def _listed(rejects: Sequence[Mapping[str, Any]], total: int) -> list[str]:
    shown = [f"  {_reject_text(reject)}" for reject in rejects[:REJECTS_SHOWN]]
    return [*shown, f"  ... and {total - len(shown)} more"] if total > len(shown) else shown


def _reject_text(reject: Mapping[str, Any]) -> str:
    file, number = reject.get("file"), reject.get("line")
    place = f"{file}:{number}: " if file and number else f"{file}: " if file else ""
    hint = f" ({reject['hint']})" if reject.get("hint") else ""
    return line(f"{place}{reject.get('reason')}{hint}")


# Rows of a query for people: cut to the terminal, complete in a file or a pipe, and fast for many rows.

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
    return bool(pt.is_integer(type) or pt.is_floating(type) or pt.is_boolean(type))
