"""The rows that the `where` of a statement selects: committed ones that the transaction has not hidden, and pending ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.expressions.arguments import Arguments, is_known
from omnigraph.expressions.interpreter import Interpreter, satisfying
from omnigraph.expressions.predicates import Predicate
from omnigraph.language.query.plan import Expression, PropertyRef
from omnigraph.tables import Table
from omnigraph.tables.layout import KEY_COLUMNS
from omnigraph.values.canonical import canonical_text
from omnigraph.views import View
from omnigraph.write.delta import NewRows

if TYPE_CHECKING:
    import pyarrow as pa

from omnigraph.write.pending import Pending

Row = dict[str, Any]


class Matcher:
    def __init__(self, view: View, parameters: Mapping[str, object], now: dt.datetime) -> None:
        self.view = view
        self.arguments = Arguments(parameters, now)

    def value(self, expression: Expression, row: Row | None = None) -> object:
        """The value of an assignment that depends on no row but the one matched by an insert."""
        if row is not None and isinstance(expression, PropertyRef):
            return row[expression.column]
        if is_known(expression):
            return self.arguments.value(expression)
        return Interpreter(self.arguments, 1, _no_columns).evaluate(expression)[0].as_py()

    def assigned(self, key: str, values: Sequence[tuple[str, Expression]], rows: Sequence[Row]) -> list[Row]:
        """The new values of each row of an update; an assignment may use the old values."""
        known: Row = {name: self.value(expression) for name, expression in values if is_known(expression)}
        others = [(name, expression) for name, expression in values if name not in known]
        if not others:
            return [known for _ in rows]
        table = NewRows(self.view.schema(key), rows).table
        interpreter = Interpreter(self.arguments, len(rows), lambda _, name: table.column(name))
        columns = {name: interpreter.evaluate(expression).to_pylist() for name, expression in others}
        return [known | {name: columns[name][place] for name in columns} for place in range(len(rows))]

    def matches(self, key: str, where: Expression, pending: Pending) -> tuple[list[Row], list[Row]]:
        """(committed rows, pending rows) that satisfy the condition, each in the order of ids."""
        predicate = Predicate((where,), self.arguments)
        committed: list[Row] = []
        table = self.view.table(key)
        if table is not None:
            hidden = pending.hides()
            committed = [row for row in self._committed(key, table, predicate) if row["id"] not in hidden]
        if not pending.rows:
            return committed, []
        own = NewRows(self.view.schema(key), list(pending.rows.values()))
        return committed, self._satisfying(own.table, predicate.conjuncts)

    def _committed(self, key: str, table: Table, predicate: Predicate) -> list[Row]:
        """The committed rows: looked up by a key if the condition fixes one, otherwise found by a filter."""
        named = [name for name in (*KEY_COLUMNS, *self._key(key)) if name in predicate.fixed]
        if not named:
            return self._satisfying(table.read(None, predicate.filter), predicate.remaining)
        name = min(named, key=lambda column: len(predicate.fixed[column]))
        rows = table.lookup(*self._lookup(key, name, predicate.fixed[name]))
        return self._satisfying(rows, predicate.apart_from(name).conditions)

    def _key(self, key: str) -> tuple[str, ...]:
        """The property that alone is the key, if there is one."""
        entity = self.view.entity(key)
        return entity.key if len(entity.key) == 1 and entity.key[0] in entity.properties else ()

    def _lookup(self, key: str, name: str, values: Sequence[object]) -> tuple[str, list[str]]:
        if name in KEY_COLUMNS:
            return name, [str(value) for value in values]
        type_ = self.view.entity(key).properties[name].type
        return "id", [canonical_text(value, type_) for value in values]

    def _satisfying(self, rows: pa.Table, conditions: Iterable[Expression]) -> list[Row]:
        matching: list[Row] = satisfying(rows, conditions, self.arguments).sort_by("id").to_pylist()
        return matching


def _no_columns(_variable: str, name: str) -> pa.Array:
    raise AssertionError(f"{name} is a column, and no row is at hand")
