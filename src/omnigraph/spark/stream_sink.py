"""Streams into a graph: each micro-batch is one commit, under the write key (query id, batch id).

    frame.writeStream.format("omnigraph").option("graph", uri).option("type", "Person").option("checkpointLocation", ...).start()
    frame.writeStream.foreachBatch(graph.stream_into("Person", mode="merge")).start()

A batch that is tried again, by a restarted query or by a second one on the same checkpoint, finds its commit. Spark tells only the
tasks of a sink which query they belong to, so they tell it to the commit.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from omnigraph.errors import UsageError
from omnigraph.history.history import new_ulid
from omnigraph.load.job import load
from omnigraph.load.options import LoadOptions
from omnigraph.load.reading import ReadReport
from omnigraph.load.rejects import MICRO_BATCH
from omnigraph.load.spark_write import SparkWrite, publish_spark_write
from omnigraph.snapshot import Repository
from omnigraph.spark.change_rows import in_one_sentence
from omnigraph.spark.source import shared_runner
from omnigraph.storage.options import scheme_of
from omnigraph.tasks.engines import LoadMode, Missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_ID = "sql.streaming.queryId"

Frames = Callable[["DataFrame"], Mapping[str, "DataFrame"]]


@dataclass
class _BatchPart(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not checked
    """What one task wrote, for which query, and what it saw of the graph."""

    report: bytes
    query: str
    rows: SparkWrite


class StreamTableWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Tasks write fragments; `commit`, in a process of its own, publishes those of a batch. The rejects of a stream are a
    folder."""

    def __init__(self, rows: SparkWrite) -> None:
        self.rows = rows

    @in_one_sentence
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = TaskContext.get()
        report = self.rows.read(task.partitionId(), iterator)
        return _BatchPart(pickle.dumps(report), task.getLocalProperty(QUERY_ID), self.rows)

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        parts = [message for message in messages if isinstance(message, _BatchPart)]
        if not parts:  # No task, no row: nothing that could come twice.
            return
        query = parts[0].query
        # The writer of the commit was made after the tasks ran: what they saw is what counts.
        seen = parts[0].rows
        rejects = None if self.rows.rejects is None else rejects_path(self.rows.rejects, query, batchId)
        write = replace(
            self.rows, once=(query, batchId), schema=seen.schema, base=seen.base, rejects=rejects, commit_id=new_ulid()
        )
        reports: list[ReadReport] = [pickle.loads(part.report) for part in parts]
        publish_spark_write(write, reports, request=MICRO_BATCH, many=partial(shared_runner, write))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing is removed: an aborted commit's outcome may be unknown. What no commit names is invisible."""


def rejects_path(folder: str, query: str, batch: int) -> str:
    """The file for the rejected records of a batch: a batch that is tried again replaces its own."""
    if scheme_of(folder) == "file":
        os.makedirs(folder.removeprefix("file://"), exist_ok=True)
    return f"{folder.rstrip('/')}/{query}-{batch:08d}.jsonl"


@dataclass(frozen=True)
class StreamInto:
    """For `foreachBatch`: loads each micro-batch as one commit."""

    repository: Repository
    frames: str | Frames
    mode: LoadMode
    branch: str
    rejects: str | Path | None = None
    missing: Missing = "refuse"
    actor: str | None = None
    message: str | None = None
    permit: Callable[[frozenset[str]], None] | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        query = _query_id(batch.sparkSession)
        rejects = None if self.rejects is None else rejects_path(str(self.rejects), query, batch_id)
        several = callable(self.frames)
        if several:  # Each of the frames would compute the batch again.
            batch.persist()
        try:
            load(
                self.repository,
                self.frames(batch) if callable(self.frames) else {self.frames: batch},
                LoadOptions(
                    self.mode,
                    self.branch,
                    permit=self.permit,
                    engine=batch.sparkSession,
                    actor=self.actor,
                    message=self.message,
                    once=(query, batch_id),
                    request=MICRO_BATCH,
                    rejects=rejects,
                    missing=self.missing,
                ),
            )
        finally:
            if several:
                batch.unpersist()


def _query_id(session: SparkSession) -> str:
    context = getattr(session, "_sc", None)
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    if query is None:
        raise UsageError(
            "stream_into is called by a streaming query of a Spark session in this process",
            hint='frame.writeStream.foreachBatch(g.stream_into("Person", mode="append")); over Spark Connect, use '
            'writeStream.format("omnigraph")',
        )
    return str(query)
