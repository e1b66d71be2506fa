"""Types of a graph as Spark DataFrames, read fragment by fragment inside the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import UsageError
from omnigraph.load.inputs import table_key
from omnigraph.snapshot import View
from omnigraph.spark.types import for_spark, struct_type
from omnigraph.tables.table import Table
from omnigraph.tasks.target import TableVersion, Target

if TYPE_CHECKING:
    # For whoever hands frames on and may not know Spark.
    from pyspark.sql import DataFrame as DataFrame, SparkSession as SparkSession

GROUP_ROWS = 1_048_576
"""Small fragments are read together, up to about this many rows a task."""
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class FragmentsReader:
    """Reads chosen columns and rows of some fragments, with Spark's types."""

    target: Target
    place: TableVersion
    columns: Sequence[str]
    filter: str | None = None

    def batches(self, fragments: Sequence[int]) -> Iterator[Any]:
        table = self.target.open(self.place)
        for batch in table.scan(self.columns, self.filter, fragments=fragments, batch_rows=BATCH_ROWS):
            if batch.num_rows:
                yield for_spark(batch)


def checked_columns(view: View, key: str, chosen: Sequence[str] | None) -> list[str]:
    """The chosen columns of a table, or all of them. UsageError for one that it does not have."""
    known = list(view.schema(key).names)
    for name in chosen or ():
        if name not in known:
            raise UsageError(f"{key} has no column '{name}'", hint=f"it has: {', '.join(known)}")
    return known if chosen is None else list(chosen)


def check_filter(table: Table, filter: str | None) -> None:
    """UsageError for a filter that the table cannot be scanned with."""
    if filter is None:
        return
    try:
        table.scan(["id"], filter, limit=1)
    except ValueError as error:
        reason = str(error).splitlines()[0].removeprefix("Invalid user input: ").partition(", /")[0]
        raise UsageError(
            f"the filter {filter!r} cannot be used: {reason}",
            hint="write a condition on columns, such as age > 30 AND tier = 'pro'",
        ) from None


def fragment_groups(table: Table) -> tuple[tuple[int, ...], ...]:
    """The table's fragments gathered into tasks."""
    groups: list[list[int]] = []
    rows = 0
    for fragment in table.fragments:
        if not groups or rows + fragment.rows > GROUP_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(fragment.id)
        rows += fragment.rows
    return tuple(tuple(group) for group in groups)


def table_frame(
    view: View, spark: SparkSession, type: str, columns: Sequence[str] | None = None, filter: str | None = None
) -> DataFrame:
    """The entities of a type at a snapshot. `columns` and `filter` are applied while reading."""
    key = table_key(view.catalog, type)
    stored = view.schema(key)
    names = checked_columns(view, key, columns)
    schema = struct_type(pa.schema([stored.field(name) for name in names]))
    table = view.table(key)
    if table is None or not table.rows:
        return spark.createDataFrame([], schema)
    check_filter(table, filter)
    reader = FragmentsReader(Target.of(view.repository, view), TableVersion.of(table), names, filter)
    groups = fragment_groups(table)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reader.batches(groups[number])

    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(read, schema)
