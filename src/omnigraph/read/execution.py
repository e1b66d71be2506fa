"""Running a read in process: the first strategy that has an answer, the engine if it needs one, result columns.

Modules that only some reads need (the engine, SQL trees, vectors) are imported by those reads.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import ResourceExhausted
from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.inputs.adjacency import GraphArrays, despite_lost_segments
from omnigraph.read.result import Result, Timing, Values, result_cells
from omnigraph.read.strategies import answer
from omnigraph.read.strategies.strategy import Answer, Mode, Read, ResultAnswer
from omnigraph.snapshot import View
from omnigraph.values.arrow import Value
from omnigraph.values.literals import Constant
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
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
    stages: dict[int, pa.Table] | None = None,
) -> Result:
    """Run a read on one snapshot. `parameters` are bound values; every mode gives the same rows in the same order. `stages` has the
    rows of stages that were run for other parts of a union."""
    started = time.perf_counter()
    arguments = Arguments(parameters, instant(now), deadline, view.memory)
    if plan.texts:
        from omnigraph.read.search.texts import with_vectors

        arguments = with_vectors(view, plan, arguments)
    stages = {} if stages is None else stages

    def run(inner: ReadPlan) -> Result:
        return run_read(
            view, inner, arguments.parameters, mode=mode, now=arguments.now, deadline=deadline, stages=stages
        )

    if plan.union is not None:
        return united_result(plan, [run(part) for part in plan.union.parts], arguments, started)
    start_rows = given_rows(plan, run, stages)
    with view.memory.holding(0 if start_rows is None else start_rows.nbytes):
        return despite_lost_segments(view, lambda: _answered(Read(view, plan, arguments, mode, start_rows), started))


def given_rows(plan: ReadPlan, run: Callable[[ReadPlan], Result], stages: dict[int, pa.Table]) -> pa.Table | None:
    """The rows that the stage before a read gives, as its relation GIVEN; None if there is none. A stage is run once."""
    if (start_rows := plan.pattern.start_rows) is None:
        return None
    if id(start_rows.read) not in stages:
        rows = run(start_rows.read).to_arrow()
        names = [name for name in rows.column_names if not name.startswith("$")]
        columns = {"k": pa.array(range(rows.num_rows), pa.int64())}
        columns |= {f"c{place}": rows.column(name) for place, name in enumerate(names)}
        columns |= {f"v{place}": rows.column(f"${name}") for place, name in enumerate(start_rows.entities)}
        stages[id(start_rows.read)] = pa.table(columns)
    return stages[id(start_rows.read)]


def _answered(read: Read, started: float) -> Result:
    answered = answer(read)
    reading_ended = time.perf_counter()
    evaluated = evaluate(answered, read.arguments)
    engine_ended = time.perf_counter()
    final = result_table(read.view, answered, evaluated)
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


def evaluate(answered: Answer, arguments: Arguments) -> pa.Table | Values:
    """The result, or the columns of the tree, which the engine runs."""
    if isinstance(answered, ResultAnswer):
        return answered.table
    from omnigraph.read import engine

    prepared, relations = answered.prepared, answered.relations
    return engine.run(prepared.sql(frozenset(relations)), prepared.query.placed(arguments), relations, arguments)


def result_table(view: View, answered: Answer, table: pa.Table | Values) -> pa.Table | Values:
    """The result: columns of a tree become result columns."""
    if isinstance(answered, ResultAnswer):
        return table
    assert not isinstance(table, Values), "a tree has columns"
    with view.memory.holding(table.nbytes):
        return finish(view, answered.prepared.query, table)


def instant(now: dt.datetime | None) -> dt.datetime:
    """The query's one point in time, in UTC."""
    return (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)


def finish(view: View, query: RelationalQuery, table: pa.Table) -> pa.Table:
    """The tree's columns as result columns: names, types, ids for ordinals, whole entities."""
    with view.memory.counted(_column(view, query, output, table) for output in query.outputs) as columns:
        arrays = list(columns)
    names = [output.column.name for output in query.outputs]
    return pa.table(arrays, names=names)


def _column(view: View, query: RelationalQuery, output: OutputColumn, table: pa.Table) -> pa.ChunkedArray | pa.Array:
    column = table.column(output.value)
    if output.is_key and query.keys == "ordinal":
        ordinals = _joined(column)
        if ordinals.null_count == len(ordinals):  # ordinal 0 may not exist
            column = pa.chunked_array([pa.nulls(len(ordinals), pa.utf8())])
        else:
            ids = (
                GraphArrays(view)
                .nodes(output.types[0])
                .ids_at(pc.fill_null(ordinals, 0).to_numpy(zero_copy_only=False))
            )
            column = pa.chunked_array([pc.if_else(ordinals.is_valid(), ids, None) if ordinals.null_count else ids])
    if output.is_entity:
        from omnigraph.read.entities import objects

        kinds = None if output.type_column is None else _joined(table.column(output.type_column)).cast(pa.utf8())
        return objects(view, output.types, _joined(column).cast(pa.utf8()), kinds)
    return result_cells(column, output.type)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
