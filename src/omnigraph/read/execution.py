"""Running a read in process: inputs reduced, the same tree on DuckDB, keys turned into what the query asked for."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.pushdown import Values, looked_up
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read import engine
from omnigraph.read.entities import objects
from omnigraph.read.inputs import sources
from omnigraph.read.inputs.adjacency import Compact
from omnigraph.read.result import Result, Timing
from omnigraph.read.sql.prepared import Prepared, prepare
from omnigraph.read.sql.shapes import NodeInput, Output, RelationalQuery
from omnigraph.read.strategies.counting import NotFactored
from omnigraph.read.strategies.dense import Dense
from omnigraph.read.strategies.direct import run_direct
from omnigraph.read.strategies.factored import Factored
from omnigraph.read.strategies.reduction import Choice, Reduction, named_hop
from omnigraph.values.arrow import arrow_type
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

Mode = Literal["auto", "scan", "index", "csr"]

STREAMED_ROWS = 2_000_000
"""A scan of more rows goes to the engine as a stream, which may spill what it must keep."""


@dataclass(frozen=True)
class Inputs:
    """A query in one of its forms, with every relation it reads; or its answer, when that needed no relation."""

    prepared: Prepared
    relations: Mapping[str, Any]
    choices: tuple[Choice, ...]
    table: pa.Table | None = None
    is_reduced: bool = False
    """Every relation is there as a table, over ids, and may be tiny."""


def run_read(
    view: View,
    plan: ReadPlan,
    parameters: Mapping[str, object],
    *,
    mode: Mode = "auto",
    now: dt.datetime | None = None,
) -> Result:
    """Run a read on one snapshot. `parameters` are bound values; every mode gives the same rows in the same order."""
    start = time.perf_counter()
    values = Values(parameters, instant(now))
    if mode == "auto" and (count := counted_by_metadata(view, plan)) is not None:
        return Result(count, plan, view.snapshot.commit, Timing(0.0, 0.0, time.perf_counter() - start))
    inputs = reduce(view, plan, values, mode)
    read = time.perf_counter()
    query = inputs.prepared.query
    table = _evaluate(inputs, values, mode) if inputs.table is None else inputs.table
    ran = time.perf_counter()
    final = finish(view, query, table)
    timing = Timing(read - start, ran - read, time.perf_counter() - start)
    return Result(final, plan, view.snapshot.commit, timing)


def _evaluate(inputs: Inputs, values: Values, mode: Mode) -> pa.Table:
    """The tree over its inputs: by hand when they are tiny, else in the engine."""
    prepared, given = inputs.prepared, frozenset(inputs.relations)
    if mode == "auto" and prepared.direct is not None and inputs.is_reduced:
        found = run_direct(prepared.direct, prepared.query, inputs.relations, values)
        if found is not None:
            return found
    arguments = prepared.query.arguments(values.parameters, values.now)
    return engine.run(prepared.sql(given), arguments, inputs.relations)


def instant(now: dt.datetime | None) -> dt.datetime:
    """The query's one instant, in UTC."""
    return (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)


def counted_by_metadata(view: View, plan: ReadPlan) -> pa.Table | None:
    """`count($p)` over a bare binding: every snapshot knows the number of its rows."""
    from omnigraph.language.query.plan import Aggregate, EntityRef

    pattern = plan.pattern
    bare = len(pattern.bindings) == 1 and not pattern.expansions and not pattern.filters
    if not bare or plan.limit is not None or plan.offset is not None:
        return None
    for one in plan.projections:
        if not isinstance(one.expression, Aggregate) or not isinstance(one.expression.operand, EntityRef):
            return None
    import pyarrow as pa

    total = sum(view.rows(f"node:{type_name}") for type_name in pattern.bindings[0].types)
    return pa.table({one.name: pa.array([total], pa.int64()) for one in plan.projections})


# ---------------------------------------------------------------- inputs


def reduce(view: View, plan: ReadPlan, values: Values, mode: Mode) -> Inputs:
    """Choose how the inputs are read, and read them."""
    if mode == "scan":
        return _scanned(view, plan, values, reduced=False)
    if mode == "csr":
        return _dense(view, plan, values) if _has_ordinals(plan) else _scanned(view, plan, values)
    prepared = prepare(plan, view.catalog, "id")
    if mode == "auto" and not prepared.query.hops and _is_large(view, prepared.query, values):
        return _scanned(view, plan, values)
    reduction = Reduction(view, prepared.query, values, forced=mode == "index")
    if reduction.run():
        return Inputs(prepared, reduction.relations, tuple(reduction.choices), is_reduced=True)
    if _has_ordinals(plan) and _fits(view, prepared.query):
        return _factored(view, plan, values) or _dense(view, plan, values)
    return _scanned(view, plan, values)


def _rows(view: View, node: NodeInput) -> int:
    return sum(view.rows(f"node:{type_name}") for type_name in node.types)


def _is_large(view: View, query: RelationalQuery, values: Values) -> bool:
    """Is there an input of too many rows to hold, with no condition that fixes a column?"""
    return any(_rows(view, node) > STREAMED_ROWS and not looked_up(node.filters, values) for node in query.inputs)


def _has_ordinals(plan: ReadPlan) -> bool:
    """Ordinals are per table: a variable over several types has none."""
    from omnigraph.expressions.usage import all_patterns

    return all(len(b.types) == 1 for pattern in all_patterns(plan.pattern) for b in pattern.bindings)


def _fits(view: View, query: RelationalQuery) -> bool:
    edges = sum(view.rows(hop.table_key) for hop in query.hops)
    nodes = sum(view.rows(f"node:{type_name}") for node in query.inputs for type_name in node.types)
    return Compact(view).fits(edges, nodes)


def _scanned(view: View, plan: ReadPlan, values: Values, *, reduced: bool = True) -> Inputs:
    """Every table in full; `reduced` lets scans apply conditions and leaves out tables that add nothing."""
    prepared = prepare(plan, view.catalog, "id", elide=reduced)
    query = prepared.query
    inputs = query.inputs if reduced else [replace(one, filters=(), ranked=None) for one in query.inputs]
    relations: dict[str, Any] = {}
    choices = []
    for one in inputs:
        if reduced and _rows(view, one) > STREAMED_ROWS and prepared.uses(one.name) == 1:
            relations[one.name] = sources.stream_nodes(view, one, values)
            choices.append(Choice(f"${one.variable}", "scan", None, f"{_rows(view, one)} rows, streamed"))
        else:
            relations[one.name] = sources.read_nodes(view, one, values)
            choices.append(Choice(f"${one.variable}", "scan", relations[one.name].num_rows))
    for hop in query.hops:
        relations[hop.edges] = sources.read_edges(view, hop if reduced else replace(hop, filters=()), values)
        choices.append(Choice(named_hop(hop), "sql", relations[hop.edges].num_rows))
    return Inputs(prepared, relations, tuple(choices))


def _factored(view: View, plan: ReadPlan, values: Values) -> Inputs | None:
    prepared = prepare(plan, view.catalog, "ordinal")
    if prepared.factored is None:
        return None
    try:
        table = Factored(view, prepared.factored, values).run(prepared.query.outputs)
    except NotFactored:
        return None
    choices = [Choice(named_hop(hop), "csr", view.rows(hop.table_key), "summed") for hop in prepared.query.hops]
    return Inputs(prepared, {}, tuple(choices), table)


def _dense(view: View, plan: ReadPlan, values: Values) -> Inputs:
    prepared = prepare(plan, view.catalog, "ordinal")
    dense = Dense(view, prepared.query, values)
    dense.run()
    return Inputs(prepared, dense.relations, tuple(dense.choices))


# ---------------------------------------------------------------- outputs


def finish(view: View, query: RelationalQuery, table: pa.Table) -> pa.Table:
    """The tree's columns as result columns: names, types, ids for ordinals, whole entities."""
    import pyarrow as pa

    arrays = [_column(view, query, output, table) for output in query.outputs]
    names = [output.column.name for output in query.outputs]
    return pa.table(arrays, names=names)


def _column(view: View, query: RelationalQuery, output: Output, table: pa.Table) -> pa.ChunkedArray | pa.Array:
    import pyarrow as pa

    column = table.column(output.value)
    if output.is_key and query.keys == "ordinal":
        column = pa.chunked_array([Compact(view).nodes(output.types[0]).ids.take(_joined(column))])
    if output.is_entity:
        kinds = None if output.type_column is None else _joined(table.column(output.type_column)).cast(pa.utf8())
        return objects(view, output.types, _joined(column).cast(pa.utf8()), kinds)
    target = pa.utf8() if output.type is None else arrow_type(output.type)
    if column.type == target:
        return column
    try:
        return column.cast(target)
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow from error


def _joined(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
