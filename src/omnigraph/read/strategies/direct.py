"""Tiny reads without an engine: a key, a hop or two, a few dozen rows.

An engine takes longer to plan such a query than Python takes to answer it. It works on the rows that reduction found, which
satisfy the conditions on their own variable; conditions on several variables are interpreted here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import Interpreter, as_mask
from omnigraph.language.query.plan import Aggregate, EntityRef, Expression, PropertyRef, walk
from omnigraph.read.sql.shapes import EDGE, KEY, SOURCE, TARGET, HopInput, NodeInput, RelationalQuery
from omnigraph.read.strategies.forms import DirectForm, direct_form
from omnigraph.read.strategies.reduction import reduced
from omnigraph.read.strategies.strategy import ColumnsAnswer, Read, Strategy
from omnigraph.values.arrow import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = 2_000
"""Beyond this many input or intermediate rows the engine is faster."""

Row = dict[str, Any]
"""A match: for each variable its key, or its edge row (a dict of stored columns)."""
Evaluate = Callable[[Row], Any]


class TooMany(Exception):
    """More rows than are worth handling in Python."""


def _answer(read: Read) -> ColumnsAnswer | None:
    form = read.prepared().form(direct_form)
    small = None if form is None else read.once(reduced)
    if form is None or small is None or not small.is_checked:
        return None
    if sum(relation.num_rows for relation in small.relations.values()) > MAX_ROWS:
        return None
    try:
        table = _Direct(form, small.prepared.query, small.relations, read.arguments).run()
    except (TooMany, ArithmeticOverflow):
        return None
    return ColumnsAnswer(small.choices, small.prepared, table, small.relations)


DIRECT = Strategy("direct", frozenset({"auto"}), _answer)


class _Direct:
    def __init__(
        self, form: DirectForm, query: RelationalQuery, relations: Mapping[str, pa.Table], arguments: Arguments
    ) -> None:
        self.form, self.plan = form, form.plan
        self.query = query
        self.arguments = arguments
        self.nodes = {node.variable: _by_key(node, relations[node.name]) for node in query.inputs}
        self.hops = [(hop, relations[hop.name]) for hop in query.hops]

    def run(self) -> pa.Table:
        """The tree's columns (r0 …)."""
        rows = self._satisfying(self._matches())
        return self._counted(rows) if self.form.counts else self._projected(self._cut(self._ordered(rows)))

    # ------------------------------------------------------------ matches

    def _matches(self) -> list[Row]:
        rows: list[Row] = [{}]
        bound: set[str] = set()
        pending, waiting = list(self.hops), list(self.nodes)
        while pending or waiting:
            following = next((h for h in pending if {h[0].expansion.source, h[0].expansion.target} & bound), None)
            if following is None and (start := next((name for name in waiting if name not in bound), None)):
                rows = _few([{**row, start: key} for row in rows for key in self.nodes[start]])
                bound.add(start)
            elif following is not None or pending:
                following = following or pending[0]
                pending.remove(following)
                rows = _few(self._expand(rows, *following, bound))
            waiting = [name for name in waiting if name not in bound]
        return rows

    def _expand(self, rows: list[Row], hop: HopInput, relation: pa.Table, bound: set[str]) -> list[Row]:
        expansion = hop.expansion
        ends = list(zip(relation.column(SOURCE).to_pylist(), relation.column(TARGET).to_pylist(), strict=True))
        edges = _edge_rows(hop, relation) if expansion.edge_variable is not None else [None] * len(ends)
        near = expansion.source if expansion.source in bound else expansion.target
        side = 0 if near == expansion.source else 1
        by_near: dict[str, list[int]] = {}
        for place, pair in enumerate(ends):
            by_near.setdefault(pair[side], []).append(place)
        matches: list[Row] = []
        for row in rows:
            places = by_near.get(row[near], ()) if near in bound else range(len(ends))
            for place in places:
                extended = self._extended(row, expansion.source, expansion.target, ends[place])
                if extended is not None:
                    if expansion.edge_variable is not None:
                        extended[expansion.edge_variable] = edges[place]
                    matches.append(extended)
        bound.update((expansion.source, expansion.target))
        return matches

    def _extended(self, row: Row, source: str, target: str, pair: tuple[str, str]) -> Row | None:
        extended = dict(row)
        for name, key in ((source, pair[0]), (target, pair[1])):
            if extended.setdefault(name, key) != key or (name in self.nodes and key not in self.nodes[name]):
                return None
        return extended

    # ------------------------------------------------------------ columns

    def _column(self, variable: str, name: str) -> Evaluate:
        if any(hop.expansion.edge_variable == variable for hop, _ in self.hops):
            return lambda row: row[variable][name]
        if name == "id":
            return lambda row: row[variable]
        nodes = self.nodes[variable]
        return lambda row: nodes[row[variable]][name]

    def _read(self, expression: Expression) -> Evaluate:
        """Reads the values of a column."""
        if isinstance(expression, EntityRef):
            return self._column(expression.variable, "id")
        assert isinstance(expression, PropertyRef)
        return self._column(expression.variable, expression.column)

    def _satisfying(self, rows: list[Row]) -> list[Row]:
        """The matches that satisfy the conditions on several variables."""
        import pyarrow as pa

        for condition in self.form.conditions:
            types = {
                (inner.variable, inner.column): arrow_type(inner.type)
                for inner in walk(condition)
                if isinstance(inner, PropertyRef)
            }

            def cells(variable: str, name: str, rows: list[Row] = rows, types: Any = types) -> pa.Array:
                column = self._column(variable, name)
                return pa.array([column(row) for row in rows], types.get((variable, name), pa.utf8()))

            holds = as_mask(Interpreter(self.arguments, len(rows), cells).evaluate(condition))
            rows = [row for row, kept in zip(rows, holds.tolist(), strict=True) if kept]
        return rows

    # ------------------------------------------------------------ results

    def _ordered(self, rows: list[Row]) -> list[Row]:
        """Least significant key first: sorting is stable."""
        keys = [(self._read(key.expression), key.descending) for key in self.plan.order]
        keys += [(self._column(variable, "id"), False) for variable in self.plan.tie_break]
        for column, descending in reversed(keys):
            rows = sorted(rows, key=_nulls_first(column), reverse=descending)
        return rows

    def _cut(self, rows: list[Row]) -> list[Row]:
        offset = 0 if self.plan.offset is None else self.arguments.number(self.plan.offset)
        limit = None if self.plan.limit is None else self.arguments.number(self.plan.limit)
        return rows[offset:] if limit is None else rows[offset : offset + limit]

    def _projected(self, rows: list[Row]) -> pa.Table:
        import pyarrow as pa

        arrays = {}
        for output, projection in zip(self.query.outputs, self.plan.projections, strict=True):
            column = self._read(projection.expression)
            type_ = pa.utf8() if output.type is None else arrow_type(output.type)
            arrays[output.value] = pa.array([column(row) for row in rows], type_)
        return pa.table(arrays)

    def _counted(self, rows: list[Row]) -> pa.Table:
        import pyarrow as pa

        arrays = {}
        for output, projection in zip(self.query.outputs, self.plan.projections, strict=True):
            assert isinstance(projection.expression, Aggregate)
            column = self._read(projection.expression.operand)
            total = sum(column(row) is not None for row in rows)
            arrays[output.value] = pa.array([total] if self._cut([{}]) else [], pa.int64())
        return pa.table(arrays)


def _by_key(node: NodeInput, relation: pa.Table) -> dict[str, Row]:
    columns = {column.stored: relation.column(column.alias).to_pylist() for column in node.columns}
    keys = relation.column(KEY).to_pylist()
    return {key: {name: items[place] for name, items in columns.items()} for place, key in enumerate(keys)}


def _edge_rows(hop: HopInput, relation: pa.Table) -> list[Row | None]:
    columns = {column.stored: relation.column(column.alias).to_pylist() for column in hop.columns}
    columns["id"] = relation.column(EDGE).to_pylist()
    return [{name: items[place] for name, items in columns.items()} for place in range(relation.num_rows)]


def _few(rows: list[Row]) -> list[Row]:
    if len(rows) > MAX_ROWS:
        raise TooMany
    return rows


def _nulls_first(column: Evaluate) -> Callable[[Row], tuple[bool, Any]]:
    def sortable(row: Row) -> tuple[bool, Any]:
        value = column(row)
        return (value is not None, value)

    return sortable
