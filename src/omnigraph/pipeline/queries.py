"""`.gq` on Spark: the same relational tree as in process, over DataFrames."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlglot import exp

from omnigraph.language.plan import ReadPlan
from omnigraph.pipeline.frames import GraphTables
from omnigraph.pipeline.spark_types import for_spark
from omnigraph.read.compiler import compile_read
from omnigraph.read.execution import finish, instant
from omnigraph.read.pushdown import Values, conjunction
from omnigraph.read.result import Result, Timing
from omnigraph.read.shapes import KEY, TYPE, HopInput, NodeInput, RelationalQuery
from omnigraph.read.sources import read_nodes
from omnigraph.relational.expressions import to_sql, value
from omnigraph.views import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZONE = "spark.sql.session.timeZone"


def run_read_on_spark(
    view: View,
    plan: ReadPlan,
    parameters: Mapping[str, object],
    spark: SparkSession | None = None,
    *,
    now: dt.datetime | None = None,
) -> Result:
    """Run a read as one Spark job on one snapshot; the same rows in the same order as in process."""
    from omnigraph.pipeline.session import spark_session

    started = time.perf_counter()
    session = spark or spark_session()
    values = Values(parameters, instant(now))
    query = compile_read(plan, view.catalog)
    frames = _relations(view, query, values, session)
    names = {name: f"og_{uuid4().hex}_{name}" for name in frames}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(names[name])
    read = time.perf_counter()
    try:
        with _in_utc(session):
            table = session.sql(to_sql(_bound(query, values, names), "spark")).toArrow()
    finally:
        for name in names.values():
            session.catalog.dropTempView(name)
    ran = time.perf_counter()
    final = finish(view, query, _stored_types(table))
    timing = Timing(read - started, ran - read, time.perf_counter() - started)
    return Result(final, plan.columns, view.snapshot.commit, timing)


def _relations(view: View, query: RelationalQuery, values: Values, spark: SparkSession) -> dict[str, DataFrame]:
    tables = GraphTables(view, spark)
    frames = {one.name: _nodes(view, tables, one, values) for one in query.inputs}
    return frames | {hop.edges: _edges(tables, hop, values) for hop in query.hops}


def _nodes(view: View, tables: GraphTables, node: NodeInput, values: Values) -> DataFrame:
    if node.computed:  # scores look at the whole table, which is in process
        return tables.spark.createDataFrame(for_spark(read_nodes(view, node, values)))
    from pyspark.sql.functions import lit

    text = conjunction(node.filters, values)
    stored = list(dict.fromkeys(["id", *(column.stored for column in node.columns)]))
    frames = []
    for name in node.types:
        frame = tables.table(f"node:{name}", stored, text)
        chosen = [frame["id"].alias(KEY)]
        if len(node.types) > 1:
            chosen.append(lit(name).alias(TYPE))
        frames.append(frame.select(*chosen, *(frame[column.stored].alias(column.alias) for column in node.columns)))
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


def _edges(tables: GraphTables, hop: HopInput, values: Values) -> DataFrame:
    names = ["src", "dst", *(["id"] if hop.expansion.edge_variable is not None else [])]
    stored = list(dict.fromkeys([*names, *(column.stored for column in hop.columns)]))
    frame = tables.table(hop.table_key, stored, conjunction(hop.filters, values))
    aliased = [frame[column.stored].alias(column.alias) for column in hop.columns]
    return frame.select(*(frame[name] for name in names), *aliased)


def _bound(query: RelationalQuery, values: Values, names: Mapping[str, str]) -> exp.Expression:
    """The tree with its parameters as literals and its relations under the names of this run."""
    arguments = query.arguments(values.parameters, values.now)

    def replaced(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Limit | exp.Offset):
            return _cut(node, arguments)
        if isinstance(node, exp.Placeholder):
            return value(arguments[node.name], query.placeholders[node.name][1])
        if isinstance(node, exp.Table) and node.name in names:
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
            return exp.Table(this=exp.to_identifier(names[node.name], quoted=True), alias=alias)
        return node

    return query.whole().transform(replaced)


def _cut(cut: exp.Limit | exp.Offset, arguments: Mapping[str, Any]) -> exp.Expression:
    """A limit or offset as a bare number: Spark takes no cast there."""
    placeholder = cut.find(exp.Placeholder)
    if placeholder is None:
        return cut
    return type(cut)(expression=exp.Literal.number(arguments[placeholder.name]))


@contextmanager
def _in_utc(spark: SparkSession) -> Iterator[None]:
    """Instants are UTC in every literal of the tree."""
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "UTC")
    try:
        yield
    finally:
        spark.conf.set(ZONE, before)


def _stored_types(table: Any) -> Any:
    """Instants without their zone, as columns hold them."""
    import pyarrow as pa
    import pyarrow.types as pt

    columns = [
        column.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
        if pt.is_timestamp(column.type) and column.type.tz
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)
