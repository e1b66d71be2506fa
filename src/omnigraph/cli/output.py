"""Output of commands: a table or a sentence for people, JSON for programs. Every command has both."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from omnigraph.errors import AlreadyExists, InputError, LanguageError, OmnigraphError, RejectedRecords, UnreadableInput

if TYPE_CHECKING:
    from omnigraph import Result, SqlResult

FILE_FORMATS = ("csv", "jsonl", "parquet", "arrow")
"""The formats that can be written to a file."""
FORMATS = ("table", "kv", "json", *FILE_FORMATS)

MIN_COLUMN = 6
"""Narrower columns would be unreadable: rows that need them are shown with one property per line."""

REJECTS_SHOWN = 20


@dataclass(frozen=True)
class Output:
    as_json: bool
    quiet: bool
    column_width: int = 80
    wrap: bool = False

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
            from omnigraph.wire.rows import write_rows

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
        from omnigraph.cli.result_text import print_result

        print_result(result, self.column_width, wrap=self.wrap, as_lines=format == "kv")


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
    widths = fitted([min(most, column_width) for most in natural], width - 2 * (len(columns) - 1))
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


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths that fit into `room`: the widest columns shrink first, so that short ones stay whole."""
    result = list(widths)
    while sum(result) > room:
        result[result.index(max(result))] -= 1
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
    return at.strftime("%Y-%m-%d %H:%M:%S")


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


def print_error(error: OmnigraphError, as_json: bool) -> None:
    """Print an error: as JSON on stdout for programs, or as a sentence on stderr for people."""
    if as_json:
        print(json.dumps({"error": error.to_json()}, indent=2, ensure_ascii=False))
    else:
        sys.stdout.flush()
        print(error_text(error), file=sys.stderr)


def error_text(error: OmnigraphError) -> str:
    """One clear sentence, the position if there is one, and what to do."""
    if isinstance(error, LanguageError):
        return f"error: {error.render()}"
    place = ""
    if isinstance(error, InputError) and error.file:
        place = f"{error.file}:{error.line}: " if error.line else f"{error.file}: "
    lines = [f"error: {place}{error.message}"]
    if isinstance(error, UnreadableInput) and error.total > 1:
        return "\n".join([f"error: {error.total} inputs cannot be read", *_listed(error.problems, error.total)])
    if isinstance(error, RejectedRecords) and error.total > 1:
        lines = [f"error: {error.total} records were rejected", *_listed(error.rejects, error.total)]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines)


def _listed(rejects: Sequence[Mapping[str, Any]], total: int) -> list[str]:
    shown = [f"  {_reject_text(reject)}" for reject in rejects[:REJECTS_SHOWN]]
    return [*shown, f"  ... and {total - len(shown)} more"] if total > len(shown) else shown


def _reject_text(reject: Mapping[str, Any]) -> str:
    file, number = reject.get("file"), reject.get("line")
    place = f"{file}:{number}: " if file and number else f"{file}: " if file else ""
    hint = f" ({reject['hint']})" if reject.get("hint") else ""
    return line(f"{place}{reject.get('reason')}{hint}")
