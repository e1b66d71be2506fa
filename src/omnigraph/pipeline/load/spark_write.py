"""Rows that Spark's tasks wrote through the data source, published by one process at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.errors import Conflict
from omnigraph.history import KeyName, Once
from omnigraph.pipeline.choices import LoadMode
from omnigraph.pipeline.load.base import LoadBase
from omnigraph.pipeline.load.content import asked_of
from omnigraph.pipeline.load.inputs import Frame, LoadInputs
from omnigraph.pipeline.load.job import LoadJob, merged
from omnigraph.pipeline.load.reading import ReadReport
from omnigraph.pipeline.load.receipt import LoadReceipt
from omnigraph.pipeline.load.rejects import rejects_file
from omnigraph.pipeline.load.written import WrittenFiles
from omnigraph.pipeline.runner import LocalRunner
from omnigraph.pipeline.target import TableVersions, Target
from omnigraph.views import Repository


@dataclass(frozen=True)
class SparkWrite:
    """A write through the data source: everything its commit needs, wherever that runs."""

    uri: str
    options: tuple[tuple[str, str], ...]
    branch: str
    key: str
    target: Target
    schema: str
    versions: TableVersions
    mode: LoadMode
    commit_id: str
    actor: str | None
    message: str | None
    since: float
    """When it began, by the store's clock."""
    once: Once | None = None

    def repository(self) -> Repository:
        return Repository.open(self.uri, dict(self.options) or None)


def publish_spark_write(
    write: SparkWrite, reports: list[ReadReport], *, asked: object = None, rejects: str | None = None
) -> LoadReceipt:
    """Check and publish rows that tasks have written as fragments. Rejected rows refuse all of it, unless `rejects` names a
    file for them. `asked` is what is compared under a write key, if not the table and the mode."""
    repository = write.repository()
    history = repository.history
    began = history.clock() - (history.retention.store_now() - write.since)
    base = replace(LoadBase.of(repository, write.branch), commit_id=write.commit_id, since=began)
    if base.view.snapshot.schema != write.schema:
        raise Conflict("the schema changed while the rows were written", hint="write them again")
    inputs = LoadInputs((), (Frame(write.key, None),))
    name = None if write.once is None else KeyName.of(write.once)
    key = None if name is None else name.asking(asked or asked_of(inputs, base.view.catalog, write.mode))
    with rejects_file(rejects, repository.tables.options, repository.store, replace=key is not None) as aside:
        job = LoadJob(repository, base, inputs, write.mode, LocalRunner(), aside, WrittenFiles(), key)
        return job.finish(merged(reports), write.actor, write.message)
