"""Folders of Kuzu: `schema.cypher` declares tables, `copy.cypher` says which files hold them, with or without a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.pipeline.infer.found_tables import FoundTable
from omnigraph.pipeline.infer.layouts import KINDS, MAX_HEADER_BYTES, declared_column
from omnigraph.pipeline.load.files import InputFile

FILES = ("schema.cypher", "copy.cypher")
_TABLE = re.compile(
    r"CREATE\s+(NODE|REL)\s+TABLE\s+(?:GROUP\s+)?(?:IF\s+NOT\s+EXISTS\s+)?`?(\w+)`?\s*\((.*?)\)\s*(?:WITH[^;]*)?;",
    re.I | re.S,
)
_PRIMARY = re.compile(r"PRIMARY\s+KEY\s*\(\s*`?(\w+)`?\s*\)", re.I)
_COLUMN_KEY = re.compile(r"`?(\w+)`?\s+\S+\s+PRIMARY\s+KEY", re.I)
_FROM_TO = re.compile(r"FROM\s+`?(\w+)`?\s+TO\s+`?(\w+)`?", re.I)
_COPY = re.compile(r"COPY\s+`?(\w+)`?(?:\s*\(([^)]*)\))?\s+FROM\s+['\"]([^'\"]+)['\"]\s*(\([^)]*\))?", re.I)
_COLUMN = re.compile(r"^`?(\w+)`?\s+([A-Za-z0-9_]+)")
_WORDS = frozenset(["primary", "from", "one_one", "many_one", "one_many", "many_many"])
_HEADER_CELL = re.compile(r"^(from|to|src|dst|source|target|start|end|id|.*_id)$", re.I)


@dataclass(frozen=True)
class _Table:
    name: str
    key: str | None
    pairs: tuple[tuple[str, str], ...]
    types: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        """In the order in which a file without a header has them."""
        return (*(("from", "to") if self.pairs else ()), *self.types)


@dataclass(frozen=True)
class Kuzu:
    """What a folder declares. `names`: the table of a file; `has_header`, where `copy.cypher` says it."""

    tables: Mapping[str, _Table]
    names: Mapping[str, str]
    has_header: Mapping[str, bool]
    listed: Mapping[str, tuple[str, ...]]
    ends: Mapping[str, tuple[str, str]]
    """Of a file of relationships between several pairs of tables: which pair."""

    @classmethod
    def of(cls, schema: str, copy: str) -> Kuzu:
        tables = {name: _table(kind.upper(), name, body) for kind, name, body in _TABLE.findall(schema)}
        names, has_header, listed, ends = {}, {}, {}, {}
        for name, columns, path, options in _COPY.findall(copy):
            file = path.rsplit("/", 1)[-1].lower()
            names[file] = name
            if option := re.search(r"header\s*=\s*(true|false)", options, re.I):
                has_header[file] = option[1].lower() == "true"
            option = re.search(r"from\s*=\s*['\"](\w+)['\"].*?to\s*=\s*['\"](\w+)['\"]", options, re.I | re.S)
            if option is not None:
                ends[file] = (option[1], option[2])
            if columns.strip():
                first = ("from", "to") if name in tables and tables[name].pairs else ()
                listed[file] = (*first, *(column.strip(" `") for column in columns.split(",")))
        return cls(tables, names, has_header, listed, ends)

    def table_of(self, file: str, label: str) -> _Table | None:
        name = self.names.get(file.rsplit("/", 1)[-1].lower())
        by_lower = {name.lower(): name for name in self.tables}
        return self.tables.get(name or by_lower.get(label.lower(), ""))

    def headers(self, files: Sequence[InputFile]) -> dict[str, tuple[str, ...]]:
        """The columns of the CSV files that have no header, by address."""
        headers = {}
        for file in files:
            table, name = self.table_of(file.address, file.stem), file.address.rsplit("/", 1)[-1].lower()
            if table is None or file.suffix != ".csv":
                continue
            with file.open() as stream:
                first = stream.readline(MAX_HEADER_BYTES).decode("utf-8-sig", "replace")
            cells = next(csv.reader([first]), [])
            if not self.has_header.get(name, _is_header(cells, table)):
                columns = self.listed.get(name, table.columns)
                headers[file.address] = (
                    columns if len(columns) == len(cells) else (*columns, *map(str, range(len(columns), len(cells))))
                )
        return headers

    def declared(self, tables: Sequence[FoundTable]) -> list[FoundTable]:
        """The tables as the schema declares them: the first two columns of a relationship table are its ends."""
        statements = []
        for table in tables:
            declared = self.table_of(table.file, table.label)
            if declared is None:
                statements.append(table)
                continue
            table = replace(table, label=declared.name, columns=dict(table.columns))
            columns = list(table.columns)
            for column, type in declared.types.items():
                if (
                    column in table.columns
                    and table.columns[column].is_text
                    and (scalar := KINDS.get(type)) is not None
                ):
                    table.columns[column] = declared_column(table.columns[column], scalar, None)
            if declared.key in columns:
                table.key = (str(declared.key),)
            if declared.pairs and len(columns) > 1:
                table.ends = (columns[0], columns[1])
                pair = self.ends.get(table.file.rsplit("/", 1)[-1].lower(), declared.pairs[0])
                table.references = dict(zip(table.ends, pair, strict=True))
            statements.append(table)
        return statements


def _table(kind: str, name: str, body: str) -> _Table:
    key = _PRIMARY.search(body) or _COLUMN_KEY.search(body)
    types = {}
    for part in re.split(r",(?![^(]*\))", body):
        column = _COLUMN.match(part.strip())
        if column is not None and column[1].lower() not in _WORDS:
            types[column[1]] = column[2].lower() if "[" not in part else ""
    return _Table(name, None if key is None else key[1], tuple(_FROM_TO.findall(body)) if kind == "REL" else (), types)


def _is_header(cells: Sequence[str], table: _Table) -> bool:
    names = {column.lower() for column in table.types}
    if table.pairs:
        return len(cells) > 1 and (
            all(map(_HEADER_CELL.match, cells[:2])) or bool(names & {cell.lower() for cell in cells[2:]})
        )
    return {cell.strip().lower() for cell in cells} <= names
