"""Showing results: a table or a sentence for people, JSON for programs. Every command has both."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import LanguageError, OmnigraphError, RejectedRecords

FORMATS = ("table", "kv", "csv", "jsonl", "json")


@dataclass(frozen=True)
class Output:
    as_json: bool
    quiet: bool
    column_width: int = 80

    def result(self, value: Any, text: str | None = None) -> None:
        """A command's outcome: the JSON value, or the sentence."""
        if self.as_json:
            self.json(value)
        elif text is not None and not self.quiet:
            print(text)

    def json(self, value: Any) -> None:
        print(json.dumps(value, indent=2, ensure_ascii=False, default=str))

    def table(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, value: Any = None) -> None:
        """Rows as a table that fits the terminal; `value` is what JSON shows instead (default: the rows)."""
        listed = list(rows)
        if self.as_json:
            self.json(listed if value is None else value)
            return
        if not listed:
            print("(none)")
            return
        print_table(listed, columns, self.column_width)

    def rows(self, header: str, envelope: Mapping[str, Any], format: str) -> None:
        """Query rows in one of the documented formats. `envelope` is the JSON form of the whole result."""
        columns, rows = envelope["columns"], envelope["rows"]
        if format == "json":
            self.json(envelope)
        elif format == "jsonl":
            meta = {
                "query_name": envelope["query_name"],
                "target": envelope["target"],
                "row_count": envelope["row_count"],
            }
            print(json.dumps({"kind": "metadata", **meta}, ensure_ascii=False))
            for row in rows:
                print(json.dumps(row, ensure_ascii=False))
        elif format == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([cell(row.get(name)) for name in columns] for row in rows)
        else:
            print(header)
            if not rows:
                print("(no rows)")
            elif format == "kv":
                _print_kv(rows, columns)
            else:
                print_table(rows, columns, self.column_width)

    def error(self, error: OmnigraphError) -> None:
        if self.as_json:
            self.json({"error": error.to_json()})
        else:
            print(error_text(error), file=sys.stderr)


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], column_width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=False)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    numeric = {
        name for name in columns if all(isinstance(row.get(name), int | float) or row.get(name) is None for row in rows)
    }
    for name in columns:
        justify: Any = "right" if name in numeric else "left"
        table.add_column(Text(name), justify=justify, max_width=column_width, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell(row.get(name))) for name in columns))
    console.print(table)


def _print_kv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    width = max(len(name) for name in columns)
    for index, row in enumerate(rows):
        if index:
            print()
        for name in columns:
            print(f"{name.ljust(width)}  {cell(row.get(name))}")


def cell(value: Any) -> str:
    """One value as text in a table or CSV: null is empty, lists and objects are JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def error_text(error: OmnigraphError) -> str:
    """One clear sentence, its place if it has one, and what to do."""
    if isinstance(error, LanguageError):
        return f"error: {error.render()}"
    lines = [f"error: {error.message}"]
    if isinstance(error, RejectedRecords):
        for reject in error.rejects[:20]:
            place = f"{reject.get('file')}:{reject.get('line')}: " if reject.get("file") else ""
            lines.append(f"  {place}{reject.get('reason')}")
        if error.total > 20:
            lines.append(f"  ... and {error.total - 20} more")
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines)
