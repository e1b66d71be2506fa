"""Running a read in process: inputs reduced, the same tree on DuckDB, keys turned into what the query asked for."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from omnigraph.language.arrow import arrow_type
from omnigraph.language.plan import ReadPlan
from omnigraph.read import engine, sources
from omnigraph.read.compiler import compile_read
from omnigraph.read.entities import objects
from omnigraph.read.pushdown import Values
from omnigraph.read.result import Result, Timing
from omnigraph.read.shapes import Output, RelationalQuery
from omnigraph.relational.expressions import to_sql
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

Mode = Literal["auto", "scan", "index", "csr"]


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
    values = Values(parameters, _instant(now))
    query = compile_read(plan, view.catalog)
    relations = {one.name: sources.read_nodes(view, one, values) for one in query.inputs}
    relations |= {hop.edges: sources.read_edges(view, hop, values) for hop in query.hops}
    read = time.perf_counter()
    table = engine.run(to_sql(query.whole(), "duckdb"), query.arguments(parameters, values.now), relations)
    ran = time.perf_counter()
    final = finish(view, query, table)
    end = time.perf_counter()
    return Result(final, plan.columns, view.snapshot.commit, Timing(read - start, ran - read, end - start))


def _instant(now: dt.datetime | None) -> dt.datetime:
    """The query's one instant, in UTC and whole milliseconds, as a DateTime is stored."""
    moment = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def finish(view: View, query: RelationalQuery, table: pa.Table) -> pa.Table:
    """The tree's columns as result columns: names, types, whole entities."""
    import pyarrow as pa

    arrays = [_column(view, output, table) for output in query.outputs]
    names = [output.column.name for output in query.outputs]
    return pa.table(arrays, names=names)


def _column(view: View, output: Output, table: pa.Table) -> pa.ChunkedArray | pa.Array:
    import pyarrow as pa

    column = table.column(output.value)
    if output.is_entity:
        kinds = None if output.type_column is None else _joined(table.column(output.type_column))
        return objects(view, output.types, _joined(column), kinds)
    target = pa.utf8() if output.type is None else arrow_type(output.type)
    return column if column.type == target else column.cast(target)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    joined = column.cast(pa.utf8()).combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
