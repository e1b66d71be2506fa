"""SQL that users write, over one snapshot: a single read without access to anything else."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph._internal.deadlines import Deadline
from omnigraph._internal.lazy_imports import pa, pt
from omnigraph._internal.runtime import MORE_MEMORY
from omnigraph.errors import ResourceExhausted, SqlRefused
from omnigraph.history.values import Commit
from omnigraph.read import engine
from omnigraph.read.result import Rows, Timing
from omnigraph.relational import duck
from omnigraph.snapshot import View
from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    import duckdb

_ONE_READ = "one SELECT at a time; to keep tables of your own beside the graph's, use g.duckdb()"


@dataclass(frozen=True)
class SqlColumn:
    """A column of the result of an SQL query.

    >>> assert (counted.columns[0].name, counted.columns[0].type) == ("people", "int64")
    """

    name: str
    type: str
    """Its Arrow type."""


@dataclass(frozen=True)
class SqlResult(Rows):
    """The rows of an SQL query, the commit they were read from, and how long it took. It converts to the same formats as a `Result`.

    Decimals become integers or F64; values that no property can hold (a time of day, an interval, a sum beyond I64) become text.

    >>> counted = g.sql("SELECT count(*) AS people FROM Person")
    >>> assert counted.rows == [{"people": 4}]
    """

    _content: pa.Table
    commit: Commit
    timing: Timing

    def __repr__(self) -> str:
        names = ", ".join(self._table.column_names)
        return f"<SqlResult: {len(self)} rows of ({names}) at {self.commit.id}>"

    @property
    def commit_id(self) -> str:
        """The id of the commit that was read."""
        return self.commit.id

    @property
    def columns(self) -> tuple[SqlColumn, ...]:
        """Name and type of each column."""
        return tuple(SqlColumn(field.name, str(field.type)) for field in self._table.schema)


def run_sql(view: View, text: str, parameters: Mapping[str, object], deadline: Deadline) -> SqlResult:
    """Run one read. Raises SqlRefused for anything else, and for what DuckDB does not accept."""
    import duckdb

    from omnigraph.read.sql_views import relations

    started = time.perf_counter()
    statement = _checked(text)
    known = relations(view)

    def work(connection: Any) -> pa.Table:
        return duck.execute(connection, statement, known, parameters, _with_texts, view.memory)

    try:
        table = engine.run_interruptibly(work, duck.users_sql(view.memory.sql_bytes), deadline)
    except duckdb.OutOfMemoryException as error:
        raise ResourceExhausted("the SQL query does not fit in the memory of its graph", hint=MORE_MEMORY) from error
    except duckdb.Error as error:
        for relation in known.values():
            if relation.failure is not None:
                raise relation.failure from None
        raise SqlRefused(str(error).strip(), hint=_hint(error)) from None
    total = time.perf_counter() - started
    return SqlResult(_as_values(table), view.snapshot.commit, Timing(0.0, total, total))


def open_duckdb(view: View) -> duckdb.DuckDBPyConnection:
    """A separate database in which every type of a snapshot is a view."""
    from omnigraph.read.sql_views import relations

    connection: duckdb.DuckDBPyConnection = duck.users_sql(view.memory.sql_bytes).open()
    for name, relation in relations(view).items():
        connection.register(name, relation)
    return connection


def _checked(text: str) -> str:
    import duckdb

    try:
        statements = duckdb.extract_statements(text)
    except duckdb.Error as error:
        raise SqlRefused(str(error).strip()) from None
    if len(statements) != 1:
        raise SqlRefused(f"expected one SQL statement, got {len(statements)}", hint=_ONE_READ)
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        kind = statements[0].type.name.replace("_", " ")
        raise SqlRefused(f"SQL only reads the graph; this is {kind}", hint=_ONE_READ)
    return text


def _hint(error: Exception) -> str | None:
    import duckdb

    if isinstance(error, duckdb.PermissionException):
        return "SQL reads the types of the graph and nothing else: no files, no other databases, no extensions"
    return None


# ---------------------------------------------------------------- SQL values as values of a graph


_TEXTS = frozenset({"interval", "time", "time with time zone", "bit", "map", "union"})
"""DuckDB types that no column of a graph has; DuckDB's own text for them is the best one."""


def _with_texts(query: Any) -> Any:
    if not any(type.id in _TEXTS for type in query.types):
        return query
    places = [f"CAST(#{at} AS VARCHAR)" if type.id in _TEXTS else f"#{at}" for at, type in enumerate(query.types, 1)]
    names = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in unambiguous(query.columns)]
    return query.project(", ".join(f"{place} AS {name}" for place, name in zip(places, names, strict=True)))


def _as_values(table: pa.Table) -> pa.Table:
    columns = [_as_value(column) for column in table.columns]
    return pa.table(columns, names=unambiguous(table.column_names))


def unambiguous(names: Iterable[str]) -> list[str]:
    """The names, made distinct under SQL's rules, which ignore case: a later duplicate gets a number."""
    taken: set[str] = set()
    distinct = []
    for name in names:
        free, number = name, 1
        while free.lower() in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free.lower())
        distinct.append(free)
    return distinct


def _as_value(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type = column.type
    if pt.is_decimal(type):
        return _number(column)
    if pt.is_dictionary(type):
        return column.cast(type.value_type)
    if pt.is_timestamp(type):
        return column.cast(pa.timestamp("us", type.tz), safe=False).cast(pa.timestamp("us"))
    if _is_known(type):
        return column
    texts = [None if value is None else _text(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.utf8())])


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A decimal as an integer, or as text if I64 does not hold it; one with a fraction as F64."""
    if column.type.scale == 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column.cast(pa.utf8())
    return column.cast(pa.float64())


def _is_known(type: pa.DataType) -> bool:
    if pt.is_list(type) or pt.is_fixed_size_list(type) or pt.is_large_list(type):
        return _is_known(type.value_type)
    if pt.is_struct(type):
        return all(_is_known(field.type) for field in type)
    return bool(
        pt.is_integer(type)
        or pt.is_floating(type)
        or pt.is_boolean(type)
        or pt.is_string(type)
        or pt.is_large_string(type)
        or pt.is_binary(type)
        or pt.is_large_binary(type)
        or pt.is_date32(type)
        or pt.is_null(type)
        or (pt.is_timestamp(type) and type.unit == "us")
    )


def _text(value: Any) -> str:
    import json

    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return str(value)


def _plain(value: object) -> Any:
    try:
        return json_value(value)
    except TypeError:
        return str(value)
