"""A union: each part is read in its own way, and their rows become one table here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.expressions.arguments import Arguments
from omnigraph.expressions.sql import cast
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read import engine
from omnigraph.relational.sql import column, named, table, to_sql
from omnigraph.relational.trees import exp
from omnigraph.values.arrow import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa


def united(plan: ReadPlan, parts: Sequence[pa.Table], arguments: Arguments) -> pa.Table:
    """The rows of all parts in the plan's order, without duplicates unless the union keeps all, then limit and offset."""
    import pyarrow as pa

    assert plan.union is not None
    names = [f"r{place}" for place in range(len(plan.columns))]
    relations = {f"u{place}": part.rename_columns(names) for place, part in enumerate(parts)}
    types = [projection.expression.type for projection in plan.projections]  # type: ignore[union-attr]  # values, no entities
    selects = [
        exp.select(*(named(cast(column(name), type_), name) for name, type_ in zip(names, types, strict=True))).from_(
            table(relation)
        )
        for relation in relations
    ]
    whole = exp.union(*selects, distinct=not plan.union.keeps_all)
    shown = [projection.expression for projection in plan.projections]
    keys = [(names[shown.index(key.expression)], key.descending) for key in plan.order]
    keys += [(name, False) for name in names]
    order = [exp.Ordered(this=column(name), desc=down, nulls_first=not down) for name, down in keys]
    query = exp.select(*map(column, names)).from_(whole.subquery("q")).order_by(*order)
    if plan.limit is not None:
        query = query.limit(arguments.number(plan.limit))
    if plan.offset is not None:
        query = query.offset(arguments.number(plan.offset))
    rows = engine.run(to_sql(query, "duckdb"), {}, relations, arguments)
    arrays = [rows.column(name).cast(arrow_type(type_)) for name, type_ in zip(names, types, strict=True)]
    return pa.table(arrays, names=[described.name for described in plan.columns])
