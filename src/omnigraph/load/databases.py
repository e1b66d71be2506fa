"""Tables of SQLite and DuckDB files as cells of text. They are opened to read alone."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import UnreadableInput
from omnigraph.relational import duck

BATCH_ROWS = 65_536
_SQLITE = b"SQLite format 3\0"
_DUCKDB = b"DUCK"

DatabaseKind = Literal["sqlite", "duckdb"]


def database_kind(start: bytes) -> DatabaseKind | None:
    """What a file is, by its first bytes."""
    if start.startswith(_SQLITE):
        return "sqlite"
    return "duckdb" if start[8:12] == _DUCKDB else None


def table_columns(kind: DatabaseKind, path: str, table: str) -> list[str]:
    """The names of a table's columns. UnreadableInput when there is no such table."""
    with _opened(kind, path) as database:
        try:
            return _columns(database, table)
        except _errors() as error:
            raise _unreadable(error) from None


def table_rows(kind: DatabaseKind, path: str, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Rows of a table in the order in which they are stored, as text."""
    with _opened(kind, path) as database:
        try:
            types = _duckdb_types(database, table) if kind == "duckdb" else {}
            chosen = ", ".join(_as_text(name, types[name]) if types else quoted(name) for name in columns)
            cursor = database.execute(f"SELECT {chosen} FROM {quoted(table)}")
            while rows := cursor.fetchmany(BATCH_ROWS):
                cells = [pa.array(map(_cell, values), pa.string()) for values in zip(*rows, strict=True)]
                yield pa.Table.from_arrays(cells, names=list(columns))
        except _errors() as error:
            raise _unreadable(error) from None


def table_names(kind: DatabaseKind, path: str) -> list[str]:
    """The tables of a database, by name."""
    if kind == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    else:
        query = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal ORDER BY table_name"
    return [str(row[0]) for row in _rows_of(kind, path, query)]


def primary_key(kind: DatabaseKind, path: str, table: str) -> tuple[str, ...]:
    """The columns of a table's declared key."""
    if kind == "sqlite":
        rows = _rows_of(kind, path, f"PRAGMA table_info({quoted(table)})")
        return tuple(row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5])
    query = "SELECT constraint_column_names FROM duckdb_constraints() WHERE table_name = ? AND constraint_type = 'PRIMARY KEY'"
    return tuple(name for row in _rows_of(kind, path, query, [table]) for name in row[0])


def foreign_keys(kind: DatabaseKind, path: str, table: str) -> list[tuple[str, dict[str, str]]]:
    """What refers to the key of another table: that table, and by the members of its key the columns."""
    keys: list[tuple[list[str], str, list[str | None]]]
    if kind == "sqlite":
        rows = _rows_of(kind, path, f"PRAGMA foreign_key_list({quoted(table)})")
        groups = {row[0]: [other for other in rows if other[0] == row[0]] for row in sorted(rows)}
        keys = [([row[3] for row in group], group[0][2], [row[4] for row in group]) for group in groups.values()]
    else:
        query = (
            "SELECT constraint_column_names, referenced_table, referenced_column_names FROM duckdb_constraints() "
            "WHERE table_name = ? AND constraint_type = 'FOREIGN KEY'"
        )
        keys = [(list(row[0]), row[1], list(row[2])) for row in _rows_of(kind, path, query, [table])]
    references = []
    for names, other, targets in keys:
        key = primary_key(kind, path, other)
        members = list(key) if targets == [None] * len(key) else targets
        if set(members) == set(key):
            references.append((other, {str(member): name for member, name in zip(members, names, strict=True)}))
    return references


def column_types(kind: DatabaseKind, path: str, table: str) -> dict[str, str]:
    """How the columns are declared, in lower case; of SQLite maybe as nothing."""
    query = f"PRAGMA table_info({quoted(table)})" if kind == "sqlite" else f"DESCRIBE {quoted(table)}"
    place = 1 if kind == "sqlite" else 0
    return {str(row[place]): str(row[place + 1] or "").lower() for row in _rows_of(kind, path, query)}


def _rows_of(kind: DatabaseKind, path: str, text: str, values: Sequence[object] = ()) -> list[Any]:
    with _opened(kind, path) as database:
        try:
            return list(database.execute(text, values).fetchall())
        except _errors() as error:
            raise _unreadable(error) from None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _opened(kind: DatabaseKind, path: str) -> Any:
    try:
        if kind == "sqlite":
            return closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True))
        return closing(duck.open_file(path))
    except _errors() as error:
        raise _unreadable(error) from None


def _errors() -> tuple[type[Exception], ...]:
    import duckdb

    return sqlite3.Error, duckdb.Error


def _unreadable(error: Exception) -> UnreadableInput:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return UnreadableInput(
        f"the database cannot be read: {reason}", hint="check that the file is whole, and not in use"
    )


def _columns(database: Any, table: str) -> list[str]:
    description = database.execute(f"SELECT * FROM {quoted(table)} LIMIT 0").description
    return [str(column[0]) for column in description]


def _duckdb_types(database: Any, table: str) -> dict[str, str]:
    return {row[0]: str(row[1]) for row in database.execute(f"DESCRIBE {quoted(table)}").fetchall()}


def _as_text(name: str, type: str) -> str:
    """A column of DuckDB as the text that a cell of CSV would have."""
    column = quoted(name)
    if type == "TIMESTAMP WITH TIME ZONE":
        return f"CAST(CAST({column} AS TIMESTAMP) AS VARCHAR)"
    if type == "BLOB":
        return f"'base64:' || base64({column})"
    if type.endswith("]") or type.startswith(("STRUCT", "MAP", "UNION")):
        return f"CAST(to_json({column}) AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"


def _cell(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode()
    return repr(value) if isinstance(value, float) else str(value)
