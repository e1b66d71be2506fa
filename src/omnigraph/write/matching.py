"""The rows a statement's `where` selects: committed ones that the transaction has not hidden, and pending ones.

The condition is one SQL tree, run by DuckDB over both. For the committed rows a filter derived from it cuts what is
read; it may keep too much, never too little.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from omnigraph.errors import InputError
from omnigraph.expressions.sql import ExpressionCompiler
from omnigraph.language.catalog import NodeType
from omnigraph.language.identity import node_id
from omnigraph.language.query.plan import Binary, Constant, Expression, Now, Parameter, PropertyRef
from omnigraph.relational import duck
from omnigraph.relational.sql import column, to_sql
from omnigraph.tables import filters
from omnigraph.tables.key_cache import KEY_COLUMNS
from omnigraph.values.json_values import Unfit, typed_value
from omnigraph.values.types import Scalar
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.write.pending import Pending

Row = dict[str, Any]

_COMPARISONS = frozenset({"=", "<", "<=", ">", ">="})


@dataclass(frozen=True)
class _Key:
    """The rows whose key column has this value."""

    column: str
    value: str


class Matcher:
    def __init__(self, view: View, parameters: Mapping[str, object], now: dt.datetime) -> None:
        self.view = view
        self.parameters = parameters
        self.now = now
        self.compiler = ExpressionCompiler(lambda ref: column(ref.column), parameters, now)

    def matches(self, key: str, where: Expression, pending: Pending) -> tuple[list[Row], list[Row]]:
        """(committed rows, pending rows) that satisfy the condition, each in the order of ids."""
        committed: list[Row] = []
        table = self.view.table(key)
        if table is not None:
            access = self._access(key, where)
            if isinstance(access, _Key):
                read = table.lookup(access.column, [access.value])
            else:
                read = table.read(None, access)
            hidden = pending.hides()
            committed = [row for row in self._satisfying(read, where) if row["id"] not in hidden]
        own = self._satisfying(pending.table(self.view.schema(key)), where) if pending.rows else []
        return committed, own

    def value(self, expression: Expression) -> object:
        """The value of an expression that looks at no row."""
        match expression:
            case Constant(value=value, type=type):
                return typed_value(list(value) if isinstance(value, tuple) else value, type)
            case Parameter(name=name):
                return self.parameters.get(name)
            case Now():
                return self.now
        tree = exp.select(exp.alias_(self.compiler.compile(expression), "value"))
        return duck.run(tree, {}).column("value")[0].as_py()

    def _satisfying(self, rows: pa.Table, where: Expression) -> list[Row]:
        """DuckDB says which; the rows stay as they were read."""
        if not rows.num_rows:
            return []
        tree = exp.select(column("id")).from_(exp.to_table("rows")).where(self.compiler.compile(where))
        chosen = duck.run_text(to_sql(tree, "duckdb"), {"rows": rows}).column("id")
        if not len(chosen):
            return []
        import pyarrow.compute as pc

        kept = (
            rows.filter(pc.is_in(rows.column("id"), value_set=chosen.combine_chunks()))
            if len(chosen) < len(rows)
            else rows
        )
        found: list[Row] = kept.sort_by("id").to_pylist()
        return found

    def _access(self, key: str, where: Expression) -> _Key | str | None:
        """How to read every matching row and few others: by a key, by a filter, or (None) all."""
        if isinstance(where, Binary) and where.op == "and":
            sides = [side for side in (self._access(key, where.left), self._access(key, where.right)) if side]
            keys = [side for side in sides if isinstance(side, _Key)]
            return keys[0] if keys else " AND ".join(str(side) for side in sides) or None
        if not isinstance(where, Binary) or where.op not in _COMPARISONS or not isinstance(where.left, PropertyRef):
            return None
        if not isinstance(where.right, Constant | Parameter | Now):
            return None
        value = self.value(where.right)
        if value is None:
            return "false"
        return self._by_key(key, where, value) or _filter(where.left, where.op, value)

    def _by_key(self, key: str, where: Binary, value: object) -> _Key | None:
        assert isinstance(where.left, PropertyRef)
        name = where.left.column
        if where.op != "=":
            return None
        if name in KEY_COLUMNS and isinstance(value, str):
            return _Key(name, value)
        entity = self.view.entity(key)
        if not isinstance(entity, NodeType) or entity.key != (name,):
            return None
        try:
            return _Key("id", node_id(entity, {name: typed_value(value, entity.properties[name].type)}))
        except (Unfit, InputError):
            return None


def _filter(ref: PropertyRef, op: str, value: object) -> str | None:
    """A comparison as text, where the scan compares as SQL does: not lists and bytes, not numbers that it might round."""
    rounded = isinstance(value, float) and ref.type.scalar is not Scalar.F64
    if isinstance(value, list | bytes) or rounded or ref.type.scalar is Scalar.F32:
        return None
    return f"{filters.column(ref.column)} {op} {filters.literal(value)}"
