"""A union: each part is read in its own way, and their rows become one table here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.sql import cast, sortable
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.executor.bindings import first_of_each
from omnigraph.read.executor.output import Codes, OrderBy, combined, ordered, page
from omnigraph.read.executor.values import group_codes, sort_codes
from omnigraph.read.inputs.adjacency import whole
from omnigraph.read.result import result_cells
from omnigraph.relational.sql import column, exp, named, table


def united(plan: ReadPlan, parts: Sequence[pa.Table], arguments: Arguments) -> pa.Table:
    """The rows of all parts in the plan's order, without duplicates unless the union keeps all, then limit and offset."""
    assert plan.union is not None
    types = [projection.expression.type for projection in plan.projections]  # type: ignore[union-attr]  # values, no entities
    with arguments.memory.holding(sum(part.nbytes for part in parts)):
        columns = [
            pa.concat_arrays([whole(result_cells(part.column(place), type_)) for part in parts])
            for place, type_ in enumerate(types)
        ]
        if not plan.union.keeps_all:
            _, first = first_of_each(combined([group_codes(cells) for cells in columns]))
            columns = [cells.take(pa.array(first)) for cells in columns]
        shown = [projection.expression for projection in plan.projections]
        keys = [(shown.index(key.expression), key.descending) for key in plan.order]
        keys += [(place, False) for place in range(len(columns))]
        offset, cut = page(plan, arguments)
        order = [OrderBy(partial(_sort_codes, columns[place]), is_descending) for place, is_descending in keys]
        arguments.deadline.check()
        places = pa.array(ordered(len(columns[0]), order, cut)[offset:cut])
        return pa.table([cells.take(places) for cells in columns], names=[described.name for described in plan.columns])


def _sort_codes(cells: pa.Array, places: np.ndarray) -> Codes:
    return sort_codes(cells.take(pa.array(places)))


def _names(plan: ReadPlan) -> list[str]:
    return [f"r{place}" for place in range(len(plan.columns))]


def union_query(plan: ReadPlan, arguments: Arguments) -> exp.Query:
    """The query of a union over the relations u0, u1, … of its parts, whose columns are r0, r1, …"""
    assert plan.union is not None
    names = _names(plan)
    types = [projection.expression.type for projection in plan.projections]  # type: ignore[union-attr]  # values, no entities
    selects = [
        exp.select(*(named(cast(column(name), type_), name) for name, type_ in zip(names, types, strict=True))).from_(
            table(f"u{place}")
        )
        for place in range(len(plan.union.parts))
    ]
    whole = exp.union(*selects, distinct=not plan.union.keeps_all)
    shown = [projection.expression for projection in plan.projections]
    keys = [(names[shown.index(key.expression)], key.descending) for key in plan.order]
    keys += [(name, False) for name in names]
    order = [
        exp.Ordered(this=sortable(column(name), types[names.index(name)]), desc=down, nulls_first=not down)
        for name, down in keys
    ]
    query = exp.select(*map(column, names)).from_(whole.subquery("q")).order_by(*order)
    if plan.limit is not None:
        query = query.limit(arguments.number(plan.limit))
    if plan.offset is not None:
        query = query.offset(arguments.number(plan.offset))
    return query
