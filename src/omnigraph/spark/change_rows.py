"""Changes as rows of Spark: (op, type, id, before, after, commit, actor, time).

`before` and `after` are the entity as JSON text, in the dialect of files and of the command line: `id`, for an edge `from` and
`to`, and the properties. A commit that changed the schema has a row for that too: op `schema`, with the steps in `after`. `time` grows from commit to commit along a branch, so it orders the changes of an entity.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from omnigraph._internal.lazy_imports import pa
from omnigraph.changes.entity_changes import EntityChange
from omnigraph.errors import OmnigraphError, RejectedRecords, UsageError
from omnigraph.history.values import Commit, to_microseconds
from omnigraph.language.schema.migration_steps import step_json
from omnigraph.values.json_text import json_text, value_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from omnigraph.language.schema.migration_steps import MigrationStep
    from omnigraph.values.arrow import Entity


# Errors of the data source as a user of Spark meets them: one sentence.

Method = TypeVar("Method", bound=Callable[..., Any])
Item = TypeVar("Item")


def in_one_sentence(method: Method) -> Method:
    """For methods that Spark calls in a Python worker: an error of ours reaches the user as a sentence, without the
    tracebacks of the worker. The worker ends with it, so nobody else's tracebacks are lost."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except OmnigraphError as error:
            raise _as_sentence(error) from None

    return call  # type: ignore[return-value]


def items_in_one_sentence(items: Iterator[Item]) -> Iterator[Item]:
    """The same for what a worker takes item by item."""
    try:
        yield from items
    except OmnigraphError as error:
        raise _as_sentence(error) from None


def _as_sentence(error: OmnigraphError) -> OmnigraphError:
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    if isinstance(error, RejectedRecords):  # whose hint is about another way to load
        error.hint = None
    return error


BATCH_ROWS = 4_096
BATCH_CHARACTERS = 8 * 1024 * 1024
"""Of JSON text, after which a batch is full."""


class ChangeRow(NamedTuple):
    """One change of one entity or of the schema, and the commit that made it."""

    op: str
    type: str | None
    id: str | None
    before: str | None
    after: str | None
    commit: str
    actor: str | None
    time: int

    @classmethod
    def of(cls, change: EntityChange, commit: Commit) -> ChangeRow:
        before, after = entity_text(change.before), entity_text(change.after)
        return cls(
            change.op, change.type_name, change.id, before, after, commit.id, commit.actor, to_microseconds(commit.at)
        )

    @classmethod
    def of_schema(cls, steps: Sequence[MigrationStep], commit: Commit) -> ChangeRow:
        text = json_text([step_json(step) for step in steps])
        return cls("schema", None, None, None, text, commit.id, commit.actor, to_microseconds(commit.at))

    @property
    def characters(self) -> int:
        return len(self.before or "") + len(self.after or "")


def entity_text(entity: Entity | None) -> str | None:
    return None if entity is None else value_text(entity)


def arrow_schema() -> pa.Schema:
    times = {"time": pa.timestamp("us", tz="UTC")}
    return pa.schema([(name, times.get(name, pa.string())) for name in ChangeRow._fields])


def spark_schema() -> StructType:
    from omnigraph.spark.types import struct_type

    return struct_type(arrow_schema())


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that a user gave: some of those of changes, with their types."""
    known = {field.name: field.dataType for field in spark_schema()}
    for field in schema:
        if known.get(field.name) != field.dataType:
            raise UsageError(
                f"changes have no column '{field.name}' of type {field.dataType.simpleString()}",
                hint=f"they have: {', '.join(f'{name} {type.simpleString()}' for name, type in known.items())}",
            )
    return tuple(schema.names)


def arrow_batches(rows: Iterable[ChangeRow], columns: Sequence[str]) -> Iterator[Any]:
    """The rows in batches of bounded size."""
    batch: list[ChangeRow] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += row.characters
        if len(batch) >= BATCH_ROWS or characters >= BATCH_CHARACTERS:
            yield _arrow_batch(batch, columns)
            batch, characters = [], 0
    if batch:
        yield _arrow_batch(batch, columns)


def _arrow_batch(rows: list[ChangeRow], columns: Sequence[str]) -> pa.RecordBatch:
    known = arrow_schema()
    schema = pa.schema([known.field(name) for name in columns])
    values = dict(zip(ChangeRow._fields, zip(*rows, strict=True), strict=True))
    return pa.RecordBatch.from_arrays([pa.array(values[field.name], field.type) for field in schema], schema=schema)
