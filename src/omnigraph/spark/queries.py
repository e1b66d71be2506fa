"""`.gq` on Spark: the same relational tree as in process, over DataFrames."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.lazy_imports import pa, pt
from omnigraph.errors import ArithmeticOverflow, ResourceExhausted
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import item_type
from omnigraph.expressions.predicates import Predicate
from omnigraph.expressions.sql import literal
from omnigraph.language.query.plan import Given, ReadPlan
from omnigraph.read.execution import finish, given_rows, instant, united_result
from omnigraph.read.inputs.sources import read_nodes
from omnigraph.read.result import Result, Timing
from omnigraph.read.search.texts import with_vectors
from omnigraph.read.sql.compiler import compile_read
from omnigraph.read.sql.hops import beyond_start, closed, is_level, is_recursive, next_level
from omnigraph.read.sql.key_columns import keys_as_ids
from omnigraph.read.sql.shapes import GIVEN, KEY, MARK, TYPE, HopInput, NodeInput, RelationalQuery
from omnigraph.read.union import union_query
from omnigraph.relational.sql import exp, to_sql
from omnigraph.snapshot import View
from omnigraph.spark.frames import table_frame
from omnigraph.spark.runner import cancel_group, new_group, run_job
from omnigraph.spark.types import for_spark, spark_arrow_type
from omnigraph.values.arrow import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEANING = {
    # A number that does not fit is an error, and never another number.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    # Instants are UTC in every literal of the tree.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.crossJoin.enabled": "true",
    # What Spark 4.3 knows of a checkpoint's columns it asks for under wrong names when checkpoints are united, and fails.
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Settings on which the meaning of a query depends."""
_SQL = "spark.sql."
_LEGACY = "spark.sql.legacy."

CANCEL_INTERVAL_S = 0.2
MAX_LEVELS = 1_000
"""A walk without an upper end that is longer is given up: each hop is a job of its own."""

_OUT_OF_RANGE = ("ARITHMETIC_OVERFLOW", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "CAST_INVALID_INPUT")


def run_read_on_spark(
    view: View,
    plan: ReadPlan,
    parameters: Mapping[str, object],
    session: SparkSession,
    *,
    now: dt.datetime | None = None,
    deadline: Deadline = NEVER,
    stages: dict[int, pa.Table] | None = None,
) -> Result:
    """Run a read on Spark, on one snapshot; the same rows in the same order as in process. Ctrl-C and the deadline end it."""
    arguments, group = with_vectors(view, plan, Arguments(parameters, instant(now), deadline, view.memory)), new_group()
    stages = {} if stages is None else stages

    def run(inner: ReadPlan) -> Result:
        return run_read_on_spark(
            view, inner, arguments.parameters, session, now=arguments.now, deadline=deadline, stages=stages
        )

    if plan.union is not None:
        started = time.perf_counter()
        return united_result(plan, [run(part) for part in plan.union.parts], arguments, started)
    work = partial(_run, view, plan, arguments, session, group, given_rows(plan, run, stages))
    return run_job(session, f"omnigraph query {plan.name}", work, group)


def read_frame(
    view: View,
    plan: ReadPlan,
    parameters: Mapping[str, object],
    session: SparkSession,
    *,
    now: dt.datetime | None = None,
) -> DataFrame:
    """A read as a DataFrame of a session of its own: nothing is collected, and Spark plans the read with what is done to the
    DataFrame. Columns have the names and the types of the result; a whole entity is its id, with its type if there are several.
    Stages, and walks of several hops, are run at once, and their rows stay with the executors."""
    arguments = with_vectors(view, plan, Arguments(parameters, instant(now), NEVER, view.memory))
    own = _own_session(session)

    def make() -> DataFrame:
        with _values_in_range():
            return _Frames(view, own, arguments).of(plan)

    return run_job(session, f"omnigraph query {plan.name}", make)


class _Frames:
    """The DataFrames of one query: of its stages, of the parts of a union, and of the whole."""

    def __init__(self, view: View, own: SparkSession, arguments: Arguments) -> None:
        self._view = view
        self._own = own
        self._arguments = arguments
        self._stages: dict[int, DataFrame] = {}

    def of(self, plan: ReadPlan) -> DataFrame:
        if plan.union is not None:
            return self._united(plan)
        query = compile_read(keys_as_ids(plan, self._view.catalog), self._view.catalog)
        relations = _Relations(self._own, query, self._arguments)
        if plan.pattern.start_rows is not None:
            relations.add(GIVEN, self._stage(plan.pattern.start_rows))
        return self._shown(relations.computed(self._view, query, self._arguments), query)

    def _united(self, plan: ReadPlan) -> DataFrame:
        assert plan.union is not None
        query, mark = union_query(plan, self._arguments), uuid4().hex
        for place, part in enumerate(plan.union.parts):
            names = [f"r{number}" for number in range(len(part.columns))]
            self.of(part).toDF(*names).createOrReplaceTempView(f"og_{mark}_u{place}")
        for relation in query.find_all(exp.Table):
            relation.set("this", exp.to_identifier(f"og_{mark}_{relation.name}", quoted=True))
        return self._own.sql(to_sql(query, "spark")).toDF(*(column.name for column in plan.columns))

    def _stage(self, start_rows: Given) -> DataFrame:
        """The rows of a stage, in their order; a stage is run once."""
        from pyspark.sql.functions import col, monotonically_increasing_id

        if id(start_rows.read) not in self._stages:
            rows = self.of(start_rows.read)
            values = [name for name in rows.columns if not name.startswith("$")]
            renamed = [col(f"`{name}`").alias(f"c{place}") for place, name in enumerate(values)]
            renamed += [col(f"`${name}`").alias(f"v{place}") for place, name in enumerate(start_rows.entities)]
            numbered = rows.select(monotonically_increasing_id().alias("k"), *renamed)
            self._stages[id(start_rows.read)] = numbered.localCheckpoint()
        return self._stages[id(start_rows.read)]

    def _shown(self, rows: DataFrame, query: RelationalQuery) -> DataFrame:
        from pyspark.sql.functions import col, struct
        from pyspark.sql.pandas.types import from_arrow_type

        columns = []
        for output in query.outputs:
            value = col(output.value)
            if output.type is not None:
                value = value.cast(from_arrow_type(spark_arrow_type(arrow_type(output.type))))
            elif output.type_column is not None:
                value = struct(col(output.type_column).alias("type"), value.alias("id"))
            columns.append(value.alias(output.column.name))
        return rows.select(*columns)


def _run(
    view: View,
    plan: ReadPlan,
    arguments: Arguments,
    session: SparkSession,
    group: str,
    start_rows: pa.Table | None,
) -> Result:
    started = time.perf_counter()
    query, own = compile_read(keys_as_ids(plan, view.catalog), view.catalog), _own_session(session)
    with (
        _values_in_range(),
        _cancelled_after(arguments.deadline, session, group),
        _Relations(own, query, arguments) as relations,
    ):
        if start_rows is not None:
            relations.add(GIVEN, own.createDataFrame(for_spark(start_rows)))
        rows = relations.computed(view, query, arguments)
        read = time.perf_counter()
        table = rows.toArrow()
    ran = time.perf_counter()
    final = finish(view, query, _stored_types(table))
    timing = Timing(read - started, ran - read, time.perf_counter() - started)
    return Result(final, plan, view.snapshot.commit, timing)


class _Relations:
    """The relations of one query as temporary views, under names of its own; dropped at the end."""

    def __init__(self, spark: SparkSession, query: RelationalQuery, arguments: Arguments) -> None:
        self._spark = spark
        self._query = query
        self._placed = query.placed(arguments)
        self._mark = uuid4().hex
        self._names: dict[str, str] = {}

    def __enter__(self) -> _Relations:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names.values():
            self._spark.catalog.dropTempView(name)

    def add(self, name: str, frame: DataFrame) -> None:
        self._names[name] = f"og_{self._mark}_{name}"
        frame.createOrReplaceTempView(self._names[name])

    def computed(self, view: View, query: RelationalQuery, arguments: Arguments) -> DataFrame:
        """The columns of the tree. Walks of several hops are run first."""
        for name, frame in _inputs(view, query, arguments, self._spark).items():
            self.add(name, frame)
        far = [hop for hop in query.hops if hop.expansion.max_hops > 1]
        for hop in far:
            self.walk(hop) if not is_recursive(hop) else self.close(hop)
        return self.run(query.whole([hop.name for hop in far]))

    def run(self, tree: exp.Query) -> DataFrame:
        return self._spark.sql(to_sql(self._bound(tree), "spark"))

    def walk(self, hop: HopInput) -> None:
        """An expansion of several hops, one level after the other: Spark would write out every level again wherever the
        next ones mention it, which doubles with each hop."""
        nothing: DataFrame | None = None
        for name, query in self._query.definitions[hop.name]():
            if not is_level(name):
                self.add(name, self.run(query))
                continue
            if nothing is None:
                level = self.run(query).localCheckpoint()
                nothing = level if level.isEmpty() else None
            self.add(name, level)

    def close(self, hop: HopInput) -> None:
        """Everything that can be reached: level after level until one is empty."""
        definitions, whole = list(self._query.definitions[hop.name]()), hop
        hop = beyond_start(whole)
        for name, query in definitions[:2]:
            self.add(name, self.run(query).localCheckpoint())
        level = reached = self._spark.table(self._names[f"{hop.name}_level1"])
        distance, seen = 1, f"{hop.name}_seen"
        while not level.isEmpty():
            distance += 1
            if distance > MAX_LEVELS:
                message = f"the walk along {'|'.join(hop.expansion.edges)} does not end after {MAX_LEVELS} hops"
                raise ResourceExhausted(message, hint=f"give an upper end: {{{hop.expansion.min_hops},{MAX_LEVELS}}}")
            self.add(seen, reached)
            name, query = next_level(hop, distance, seen)
            level = self.run(query).localCheckpoint()
            self.add(name, level)
            reached = reached.union(level).localCheckpoint()
        for shorter in range(distance + 1, hop.expansion.min_hops):
            self.add(f"{hop.name}_level{shorter}", level)
        self.add(f"{hop.name}_all", reached)
        self.add(hop.name, self.run(closed(hop)))
        if whole.name != hop.name:
            self.add(whole.name, self.run(definitions[-1][1]))

    def _bound(self, tree: exp.Query) -> exp.Expression:
        """The tree with its parameters as literals and its relations under the names of this run."""

        def replaced(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Limit | exp.Offset):
                return _cut(node, self._placed)
            if isinstance(node, exp.In) and node.args.get("unnest") is not None:
                return self._listed(node, replaced)
            if isinstance(node, exp.Placeholder):
                return literal(self._placed[node.name], self._query.placeholders[node.name].type)
            if isinstance(node, exp.Table) and node.name in self._names:
                alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
                return exp.Table(this=exp.to_identifier(self._names[node.name], quoted=True), alias=alias)
            return node

        return tree.copy().transform(replaced)

    def _listed(self, node: exp.In, bind: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
        """Membership in a list that is known, item by item: Spark takes no subquery in every place."""
        place = node.args["unnest"].find(exp.Placeholder).name
        items, type_ = self._placed[place], self._query.placeholders[place].type
        if not items:
            return exp.false()
        assert isinstance(items, list)
        listed = [literal(item, item_type(type_)) for item in items]
        return exp.In(this=node.this.transform(bind), expressions=listed)


def _inputs(view: View, query: RelationalQuery, arguments: Arguments, spark: SparkSession) -> dict[str, DataFrame]:
    frames = {node.name: _nodes(view, spark, node, arguments) for node in query.inputs}
    return frames | {hop.edges: _edges(view, spark, hop, arguments) for hop in query.hops}


def _nodes(view: View, spark: SparkSession, node: NodeInput, arguments: Arguments) -> DataFrame:
    if node.computed:  # scores look at the whole table, which is in process
        return spark.createDataFrame(for_spark(read_nodes(view, node, arguments)))
    from pyspark.sql.functions import lit

    text = Predicate(node.filters, arguments).filter
    stored = list(dict.fromkeys(["id", *(column.stored for column in node.columns)]))
    frames = []
    for name in node.types:
        frame = table_frame(view, spark, f"node:{name}", stored, text)
        chosen = [frame["id"].alias(KEY)]
        if len(node.types) > 1:
            chosen.append(lit(name).alias(TYPE))
        frames.append(frame.select(*chosen, *(frame[column.stored].alias(column.alias) for column in node.columns)))
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


def _edges(view: View, spark: SparkSession, hop: HopInput, arguments: Arguments) -> DataFrame:
    from pyspark.sql.functions import concat, lit

    names = ["src", "dst", *(["id"] if hop.expansion.reads_edges else [])]
    stored = list(dict.fromkeys([*names, *(column.stored for column in hop.columns)]))
    text = Predicate(hop.filters, arguments).filter
    frames = []
    for edge, key in zip(hop.expansion.edges, hop.table_keys, strict=True):
        frame = table_frame(view, spark, key, stored, text)
        kind = [lit(edge).alias(TYPE)] if hop.expansion.others else []
        aliased = [frame[column.stored].alias(column.alias) for column in hop.columns]
        ends = {"src": view.catalog.edges[edge].source, "dst": view.catalog.edges[edge].target}
        own = [
            concat(frame[name], lit(MARK + ends[name])).alias(name)
            if name in ends and hop.expansion.is_mixed
            else frame[name]
            for name in names
        ]
        frames.append(frame.select(*own, *kind, *aliased))
    return reduce(lambda whole, frame: whole.unionByName(frame), frames)


def _cut(cut: exp.Limit | exp.Offset, arguments: Mapping[str, Any]) -> exp.Expression:
    """A limit or offset as a bare number: Spark takes no cast there."""
    placeholder = cut.find(exp.Placeholder)
    if placeholder is None:
        return cut
    return type(cut)(expression=exp.Literal.number(arguments[placeholder.name]))


@contextmanager
def _values_in_range() -> Iterator[None]:
    """A value that does not fit is the query's fault."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with PySpark, without types
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if any(word in str(error) for word in _OUT_OF_RANGE):
            raise ArithmeticOverflow from None
        raise


@contextmanager
def _cancelled_after(deadline: Deadline, session: SparkSession, group: str) -> Iterator[None]:
    """The jobs of the group are cancelled when the time is over, or the caller cancels the read."""
    ended, woken = threading.Event(), threading.Event()

    def cancel() -> None:
        with deadline.waking(woken.set):
            woken.wait(deadline.remaining_s())
        # A job that starts after a cancellation is not part of it, so the group is cancelled until there is none.
        while not ended.is_set():
            cancel_group(session, group)
            ended.wait(CANCEL_INTERVAL_S)

    watcher = threading.Thread(target=cancel, daemon=True)
    watcher.start()
    try:
        yield
        deadline.check()
    except Exception:  # Whatever a cancelled job raises, the reason is that the time was over.
        deadline.check()
        raise
    finally:
        ended.set()
        woken.set()
        watcher.join()


def _own_session(session: SparkSession) -> SparkSession:
    """A session of the query's own, with the caller's settings except those on which its meaning depends. The caller's session is
    never changed: other threads may be using it."""
    own = session.newSession()
    known = own.conf.getAll
    for name, setting in session.conf.getAll.items():
        if name.startswith(_SQL) and not name.startswith(_LEGACY) and known.get(name) != setting:
            own.conf.set(name, setting)
    for name in known:
        if name.startswith(_LEGACY):
            own.conf.unset(name)
    for name, setting in MEANING.items():
        own.conf.set(name, setting)
    return own


def _stored_types(table: Any) -> Any:
    """Instants without their zone, as columns hold them."""
    columns = [
        column.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
        if pt.is_timestamp(column.type) and column.type.tz
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)
