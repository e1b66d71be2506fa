"""The rows a statement's `where` selects: committed ones that the transaction has not hidden, and pending ones.

The condition is one SQL tree, run by DuckDB over both. For the committed rows a filter derived from it cuts what is
read; it may keep too much, never too little.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from omnigraph.language.catalog import NodeType
from omnigraph.language.identity import node_id
from omnigraph.language.plan import Binary, Constant, Expression, Now, Parameter, PropertyRef
from omnigraph.records import typed_value
from omnigraph.relational import duck
from omnigraph.relational.expressions import ExpressionCompiler, column
from omnigraph.tables import filters
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.write.pending import Pending

Row = dict[str, Any]

_COMPARISONS = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


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
            read = table.read(None, self.prefilter(key, where))
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
        if not rows.num_rows:
            return []
        tree = exp.select("*").from_(exp.to_table("rows")).where(self.compiler.compile(where)).order_by(column("id"))
        found: list[Row] = duck.run(tree, {"rows": rows}).cast(rows.schema).to_pylist()
        return found

    def prefilter(self, key: str, where: Expression) -> str | None:
        """A filter for the scan that every matching row passes; None when nothing can be said."""
        if isinstance(where, Binary) and where.op == "and":
            both = [part for part in (self.prefilter(key, where.left), self.prefilter(key, where.right)) if part]
            return " AND ".join(both) or None
        if not isinstance(where, Binary) or where.op not in _COMPARISONS or not isinstance(where.left, PropertyRef):
            return None
        if not isinstance(where.right, Constant | Parameter | Now):
            return None
        value = self.value(where.right)
        if value is None:
            return "false"
        entity = self.view.entity(key)
        if isinstance(entity, NodeType) and where.op == "=" and entity.key == (where.left.column,):
            property_type = entity.properties[where.left.column].type
            return filters.equals("id", node_id(entity, {where.left.column: typed_value(value, property_type)}))
        if isinstance(value, list | bytes):
            return None
        return f"{filters.column(where.left.column)} {_COMPARISONS[where.op]} {filters.literal(value)}"
