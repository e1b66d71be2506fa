"""What differs between two snapshots, as a DataFrame: ids are compared by a join of Spark, rows by the tasks after it.

The driver looks at fragments only; a task holds the ids of its fragments, then one batch of rows at a time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.changes.diff import changed_types, entity_changes, in_steps, really_changed
from omnigraph.changes.entity_changes import EVERYTHING, OPS, ChangeFilter
from omnigraph.changes.stored_rows import TypeRows, typed_rows_at
from omnigraph.changes.table_diff import FragmentRun, unshared_ids, unshared_runs, with_ops
from omnigraph.language.catalog import EntityType
from omnigraph.language.projection import arrow_schema, kind_of, wider_entity
from omnigraph.records.encoding import file_columns
from omnigraph.snapshot import View
from omnigraph.spark.change_rows import entity_text, items_in_one_sentence
from omnigraph.spark.types import for_spark, spark_arrow_schema, struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches: TypeAlias = Iterator[Any]
Content: TypeAlias = "Callable[[TypeRows, TypeRows, pa.Table], pa.RecordBatch]"


def diff_frame(spark: SparkSession, before: View, after: View) -> DataFrame:
    """Columns op, type, id, before, after, of every type; the entities as JSON text."""
    frames = [
        _joined(spark, *sides).mapInArrow(_with_content(*sides, _as_text), _TEXT_COLUMNS)
        for sides in changed_types(before, after, EVERYTHING)
    ]
    return reduce(lambda whole, frame: whole.unionAll(frame), frames or [spark.createDataFrame([], _TEXT_COLUMNS)])


_TEXT_COLUMNS = "op string, type string, id string, before string, after string"


def type_diff_frame(spark: SparkSession, before: View, after: View, entity: EntityType) -> DataFrame:
    """Columns op, id, before, after, of one type; the entities as structs with the columns of the later snapshot, as wide as the
    earlier one has them."""
    only = ChangeFilter(kinds=frozenset({kind_of(entity)}), types=frozenset({entity.id}))
    for sides in changed_types(before, after, only):
        schema = struct_type(_typed_schema(wider_entity(*(side.entity for side in sides))))
        return _joined(spark, *sides).mapInArrow(_with_content(*sides, _as_structs), schema)
    return spark.createDataFrame([], struct_type(_typed_schema(entity)))


def _joined(spark: SparkSession, before: TypeRows, after: TypeRows) -> DataFrame:
    """The rows (id, before, after) that are not stored alike on both sides, with their addresses."""
    gone = _ids(spark, unshared_runs(before, after), "before")
    added = _ids(spark, unshared_runs(after, before), "after")
    return gone.join(added, "id", "full_outer").select("id", "before", "after")


def _ids(spark: SparkSession, runs: list[FragmentRun], name: str) -> DataFrame:
    schema = f"id string, {name} long"
    if not runs:
        return spark.createDataFrame([], schema)
    return spark.range(0, len(runs), 1, len(runs)).mapInArrow(_reading_ids(runs, name), schema)


def _reading_ids(runs: list[FragmentRun], name: str) -> Callable[[Batches], Batches]:
    values = [pickle.dumps(run) for run in runs]

    def read(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                ids = unshared_ids(pickle.loads(values[number])).rename_columns(["id", name])
                yield from ids.cast(pa.schema([("id", pa.string()), (name, pa.int64())])).to_batches()

    return lambda batches: items_in_one_sentence(read(batches))


def _with_content(before: TypeRows, after: TypeRows, content: Content) -> Callable[[Batches], Batches]:
    """The tasks after the join: which rows really changed, and what they held and hold."""

    def read(joined: Batches) -> Batches:
        places = pa.schema([("id", pa.utf8()), ("before", pa.uint64()), ("after", pa.uint64())])
        for batch in joined:
            for step in in_steps(before, after, pa.Table.from_batches([batch]).cast(places)):
                changed = really_changed(with_ops(before, after, step))
                if changed.num_rows:
                    yield content(before, after, changed)

    return lambda joined: items_in_one_sentence(read(joined))


def _as_text(before: TypeRows, after: TypeRows, changed: pa.Table) -> pa.RecordBatch:
    rows = [
        (change.op, change.type_name, change.id, entity_text(change.before), entity_text(change.after))
        for change in entity_changes(before, after, changed)
    ]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=["op", "type", "id", "before", "after"])


def _as_structs(before: TypeRows, after: TypeRows, changed: pa.Table) -> pa.RecordBatch:
    entity = wider_entity(before.entity, after.entity)
    ids = changed.column("id").combine_chunks()
    ops = pa.array([OPS[op] for op in changed.column("op").to_pylist()])
    old = _structs(before, changed.column("before"), entity)
    new = _structs(after, changed.column("after"), entity)
    return pa.RecordBatch.from_arrays([ops, ids, old, new], schema=_typed_schema(entity))


def _typed_schema(entity: EntityType) -> pa.Schema:
    image = pa.struct(list(spark_arrow_schema(file_columns(arrow_schema(entity).empty_table()).schema)))
    return pa.schema([("op", pa.string()), ("id", pa.string()), ("before", image), ("after", image)])


def _structs(side: TypeRows, addresses: pa.ChunkedArray, entity: EntityType) -> pa.StructArray:
    """The rows at these addresses, in their order; null where there is none."""
    absent = pc.is_null(addresses).combine_chunks()
    places = pc.subtract(pc.cumulative_sum(pc.invert(absent).cast(pa.int64())), 1)
    present = typed_rows_at(side, addresses, entity).take(pc.if_else(absent, None, places))
    rows = for_spark(file_columns(present)).combine_chunks()
    columns = [column.chunk(0) for column in rows.columns]
    return pa.StructArray.from_arrays(columns, fields=list(rows.schema), mask=absent)
