"""Running a read in process: the first strategy that has an answer, the engine if it needs one, result columns.

Modules that only some reads need (the engine, SQL trees, vectors) are imported by those reads.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.deadlines import NEVER, Deadline
from omnigraph.errors import ArithmeticOverflow, ResourceExhausted
from omnigraph.expressions.arguments import Arguments
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.inputs.adjacency import Compact, despite_lost_segments
from omnigraph.read.result import Result, Timing, Values
from omnigraph.read.strategies import Answer, Mode, Read, answer
from omnigraph.values.arrow import arrow_type
from omnigraph.values.entities import Value
from omnigraph.values.literals import Constant
from omnigraph.values.temporal import DAYS, MICROSECONDS
from omnigraph.values.types import PropertyType, Scalar
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.read.sql.shapes import OutputColumn, RelationalQuery

MAX_MATCHED_ROWS = 1_000_000
MAX_MATCHED_BYTES = 256 * 2**20


def run_read(
    view: View,
    plan: ReadPlan,
    parameters: Mapping[str, object],
    *,
    mode: Mode = "auto",
    now: dt.datetime | None = None,
    deadline: Deadline = NEVER,
) -> Result:
    """Run a read on one snapshot. `parameters` are bound values; every mode gives the same rows in the same order."""
    started = time.perf_counter()
    arguments = Arguments(parameters, instant(now), deadline)
    if plan.texts:
        from omnigraph.read.search.texts import with_vectors

        arguments = with_vectors(view, plan, arguments)
    if plan.union is not None:
        results = [
            run_read(view, part, arguments.parameters, mode=mode, now=arguments.now, deadline=deadline)
            for part in plan.union.parts
        ]
        return united_result(plan, results, arguments, started)
    return despite_lost_segments(view, lambda: _answered(Read(view, plan, arguments, mode), started))


def _answered(read: Read, started: float) -> Result:
    answered = answer(read)
    reading_ended = time.perf_counter()
    table = evaluated(answered, read.arguments)
    engine_ended = time.perf_counter()
    final = finished(read.view, answered, table)
    timing = Timing(reading_ended - started, engine_ended - reading_ended, time.perf_counter() - started)
    return Result(final, read.plan, read.view.snapshot.commit, timing)


def united_result(plan: ReadPlan, parts: Sequence[Result], arguments: Arguments, started: float) -> Result:
    """The result of a union, given the results of its parts."""
    from omnigraph.read.union import united

    read = sum(part.timing.inputs_s for part in parts)
    table = united(plan, [part._table for part in parts], arguments)
    total = time.perf_counter() - started
    return Result(table, plan, parts[0].commit, Timing(read, total - read, total))


def matched_rows(view: View, plan: ReadPlan, arguments: Arguments) -> list[dict[str, Value]]:
    """The rows of an insert's `match`, which the insert holds in memory. Raises ResourceExhausted if there are too many."""
    cut = replace(plan, limit=Constant(MAX_MATCHED_ROWS + 1, PropertyType(Scalar.I64)))
    result = run_read(view, cut, arguments.parameters, now=arguments.now.replace(tzinfo=dt.UTC))
    if len(result) > MAX_MATCHED_ROWS or result.to_arrow().nbytes > MAX_MATCHED_BYTES:
        raise ResourceExhausted(
            f"the match of an insert has more than {MAX_MATCHED_ROWS:,} rows, or {MAX_MATCHED_BYTES >> 20} MiB",
            hint="write what it matches to a file ('omnigraph query --format csv') and load that ('omnigraph load')",
        )
    return result.rows


def finished(view: View, answered: Answer, table: pa.Table | Values) -> pa.Table | Values:
    """The result, built from the columns of the tree unless these are the result already."""
    if answered.prepared is None or isinstance(table, Values):
        return table
    return finish(view, answered.prepared.query, table)


def evaluated(answered: Answer, arguments: Arguments) -> pa.Table | Values:
    """The columns of the tree, run by the engine if needed."""
    if answered.table is not None:
        return answered.table
    prepared, relations = answered.prepared, answered.relations
    assert prepared is not None, "an answer without a table has a tree"
    from omnigraph.read import engine

    return engine.run(
        prepared.sql(frozenset(relations)), prepared.query.placed(arguments), relations, arguments.deadline
    )


def instant(now: dt.datetime | None) -> dt.datetime:
    """The query's one point in time, in UTC."""
    return (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)


def finish(view: View, query: RelationalQuery, table: pa.Table) -> pa.Table:
    """The tree's columns as result columns: names, types, ids for ordinals, whole entities."""
    import pyarrow as pa

    arrays = [_column(view, query, output, table) for output in query.outputs]
    names = [output.column.name for output in query.outputs]
    return pa.table(arrays, names=names)


def _column(view: View, query: RelationalQuery, output: OutputColumn, table: pa.Table) -> pa.ChunkedArray | pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(output.value)
    if output.is_key and query.keys == "ordinal":
        ordinals = _joined(column)
        ids = Compact(view).nodes(output.types[0]).ids_at(pc.fill_null(ordinals, 0).to_numpy(zero_copy_only=False))
        column = pa.chunked_array([pc.if_else(ordinals.is_valid(), ids, None) if ordinals.null_count else ids])
    if output.is_entity:
        from omnigraph.read.entities import objects

        kinds = None if output.type_column is None else _joined(table.column(output.type_column)).cast(pa.utf8())
        return objects(view, output.types, _joined(column).cast(pa.utf8()), kinds)
    target = pa.utf8() if output.type is None else arrow_type(output.type)
    try:
        cells = column if column.type == target else column.cast(target)
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow from error
    if output.type is not None and output.type.scalar in _RANGES:
        _check_range(cells, output.type.scalar)
    return cells


_RANGES = {Scalar.DATE: DAYS, Scalar.DATETIME: MICROSECONDS}


def _check_range(cells: pa.ChunkedArray, scalar: Scalar) -> None:
    """Computed dates and timestamps may leave the supported range of years."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = pc.list_flatten(cells) if pa.types.is_list(cells.type) else cells
    extremes = pc.min_max(flat.cast(pa.int32() if scalar is Scalar.DATE else pa.int64())).as_py()
    first, last = _RANGES[scalar]
    if extremes["min"] is not None and not (first <= extremes["min"] and extremes["max"] <= last):
        raise ArithmeticOverflow


def _joined(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
