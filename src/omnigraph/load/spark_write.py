"""Rows that Spark's tasks wrote through the data source, published by one process at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.errors import Conflict, PreconditionFailed, StorageError
from omnigraph.history.values import CommitRef
from omnigraph.history.write_keys import Once
from omnigraph.load.assembly import IN_PROCESS_ROWS
from omnigraph.load.explaining import LoadBase
from omnigraph.load.inputs import Frame, LoadInputs
from omnigraph.load.job import LoadJob, merge_reports
from omnigraph.load.options import LoadOptions
from omnigraph.load.reading import ReadReport, read_batches
from omnigraph.load.receipt import FORMS, LoadReceipt
from omnigraph.load.rejects import rejects_file, request_of
from omnigraph.load.written import WrittenFiles
from omnigraph.records.ids import FreshIds
from omnigraph.snapshot import Repository
from omnigraph.tasks.engines import LoadMode, Missing
from omnigraph.tasks.runner import LocalRunner, Runner
from omnigraph.tasks.target import TableVersions, Target


@dataclass(frozen=True)
class SparkWrite:
    """A write through the data source: everything its commit needs, wherever that runs."""

    uri: str
    options: tuple[tuple[str, str], ...]
    branch: str
    from_: str | None
    key: str | None
    """The table of all rows; None: `type_column` names the type of each."""
    type_column: str
    target: Target
    schema: str
    versions: TableVersions
    mode: LoadMode
    commit_id: str
    actor: str | None
    message: str | None
    since: float
    """When it began, by the store's clock."""
    base: CommitRef
    """The commit whose rows its tasks see."""
    fresh: FreshIds
    """Of the first partition."""
    once: Once | None = None
    if_commit: str | None = None
    """The head that the branch must have when the rows are published."""
    rejects: str | None = None
    missing: Missing = "refuse"

    def read(self, partition: int, batches: Iterable[Any]) -> ReadReport:
        """One task: the rows of a partition of the DataFrame, written as fragments."""
        with self.repository().history.leases.hold(self.base, since=self.since):
            return read_batches(
                self.target,
                self.key,
                self.versions,
                0,
                batches,
                self.fresh.part(partition),
                form=FORMS[self.mode],
                type_column=self.type_column,
                rejects_folder=None if self.rejects is None else f"staging/{self.commit_id}",
            )

    def repository(self) -> Repository:
        return Repository.open(self.uri, dict(self.options) or None)


def publish_spark_write(
    write: SparkWrite, reports: list[ReadReport], *, request: object = None, many: Callable[[], Runner | None]
) -> LoadReceipt:
    """Check and publish rows that tasks have written as fragments. Rejected rows refuse all of it, unless the write names a
    file for them. `request` is what is compared under a write key, if not the table and the mode. `many`: who checks and indexes many
    rows; None: this process."""
    repository = write.repository()
    history = repository.history
    began = history.clock() - (history.retention.store_now() - write.since)
    base = replace(LoadBase.of(repository, write.branch, write.from_), commit_id=write.commit_id, since=began)
    head = base.view.snapshot.commit.id
    if write.mode == "patch" or any(type.removed for report in reports for type in report.types.values()):
        # Its tasks have looked rows up.
        base = replace(base, view=repository.resolve(write.base.id))
    if base.view.snapshot.schema != write.schema:
        raise Conflict("the schema changed while the rows were written", hint="write them again")
    inputs = LoadInputs((), (Frame(write.key, None),))
    options = LoadOptions(
        write.mode,
        actor=write.actor,
        message=write.message,
        if_commit=write.if_commit,
        once=write.once,
        missing=write.missing,
    )
    name = options.key_name
    key = None if name is None else name.asking(request or request_of(inputs, base.view.catalog, write.mode))
    if write.if_commit not in (None, head) and base.committed(repository, key) is None:
        raise PreconditionFailed(write.branch, str(write.if_commit), head)
    stored = {split.stored.rpartition("/")[0] for report in reports for split in report.splits if split.stored}
    with rejects_file(write.rejects, repository.tables.options, repository.store, replace=key is not None) as aside:
        report = merge_reports(reports)
        rows = sum(type.rows + len(type.removed) for type in report.types.values())
        runner = (many() if rows > IN_PROCESS_ROWS else None) or LocalRunner()
        job = LoadJob(repository, base, inputs, options, runner, aside, WrittenFiles(), key)
        try:
            return job.finish(report)
        finally:
            for folder in stored:
                with contextlib.suppress(StorageError):
                    repository.store.delete_prefix(folder)
