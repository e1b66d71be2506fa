"""Ranges encoded by Spark's tasks: each puts its bytes beside the graph, and the driver fetches them in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from omnigraph.pipeline.choices import FileFormat
from omnigraph.pipeline.export.ranges import IdRange, encoded, id_ranges
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.target import Target
from omnigraph.tables import Table
from omnigraph.views import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class EncodeTask:
    target: Target
    range: IdRange
    format: FileFormat
    folder: str


def encode_range(task: EncodeTask) -> str:
    """Where its bytes are."""
    rows = task.range.rows(task.target.open(task.range.place))
    # A task that is tried again must not meet what its first attempt left half written.
    key = f"{task.folder}/{uuid4().hex}"
    task.target.store.put(key, encoded(task.target.catalog.tables[task.range.key], rows, task.format))
    return key


class SparkEncoder:
    """Encodes the tables of one view. Needs a folder of the graph's store while it works."""

    def __init__(self, view: View, format: FileFormat, session: SparkSession) -> None:
        from omnigraph.pipeline.spark.session import cores_of

        self._view = view
        self._format = format
        self._runner = SparkRunner(session, cores_of(session))
        self._folder = f"staging/export-{uuid4().hex}"

    def encoded(self, table: Table, key: str) -> Iterator[bytes]:
        """The bytes of each range."""
        target = Target.of(self._view.repository, self._view)
        tasks = [EncodeTask(target, range, self._format, self._folder) for range in id_ranges(table, key)]
        with self._view.repository.history.leases.hold(self._view.snapshot.commit.ref):
            yield from self._encoded(tasks, key)

    def _encoded(self, tasks: list[EncodeTask], key: str) -> Iterator[bytes]:
        store = self._view.repository.store
        try:
            for store_key in self._runner.map(f"export {key}", encode_range, tasks):
                yield store.get(store_key)
        finally:
            store.delete_prefix(self._folder)
