"""The graphs of a folder as a catalog of Spark: `og.people.Person` in its SQL.

The catalog itself is Java (tools/spark_catalog, compiled into the jar of this package). The lists that it shows it asks of the data
source, which answers with a schema that has a column for each name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import NotFound, UsageError
from omnigraph.merge.merge import MergeOptions, merge_branches
from omnigraph.snapshot import Repository, View
from omnigraph.spark.change_rows import spark_schema
from omnigraph.storage.options import scheme_of
from omnigraph.tasks.target import Address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

JAR = Path(__file__).with_name("omnigraph_catalog.jar")
_CLASS = "omnigraph.spark.Catalog"
ROW_ID = "_id"
"""A column of every type that the catalog adds: its id, which is never null."""
ABOUT_GRAPHS = {
    "branches": ("branch", "commit", "time"),
    "changes": (),
    "history": ("commit", "parent", "merged", "kind", "actor", "message", "time"),
}
"""Tables about a graph beside its types, and their columns, except those of changes: texts and a time."""
BATCH_COMMITS = 10_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def add_catalog(spark: SparkSession, name: str, root: str, storage_options: Mapping[str, str]) -> None:
    """Make the graphs in `root` a catalog of a session."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a catalog", hint="letters, digits and _, such as og")
    setting = f"spark.sql.catalog.{name}"
    if name == "spark_catalog" or spark.conf.get(f"{setting}.root", root) != root:
        raise UsageError(f"'{name}' is a catalog of the session already", hint="choose another name")
    spark.sql(f"ADD JAR '{JAR}'")
    spark.conf.set(f"{setting}.root", root)
    for option, value in storage_options.items():
        spark.conf.set(f"{setting}.storage.{option}", value)
    spark.conf.set(setting, _CLASS)


def graph_names(root: str, listed: str | None) -> list[str]:
    """The graphs in a folder, or those that the setting `graphs` lists, separated by commas."""
    if listed:
        return [name.strip() for name in listed.split(",")]
    if scheme_of(root) != "file":
        raise UsageError(
            f"the graphs in '{root}' are not listed: an object store has no folders",
            hint="name them: spark.sql.catalog.<name>.graphs=people,orders",
        )
    folder = Path(root.removeprefix("file://"))
    return (
        [path.name for path in sorted(folder.iterdir()) if path.is_dir() and _is_graph(path)] if folder.is_dir() else []
    )


def _is_graph(folder: Path) -> bool:
    try:
        Repository.open(str(folder))
    except NotFound:
        return False
    return True


def type_names(view: View) -> list[str]:
    """The types of a snapshot; where a node type and an edge type have one name, their table keys."""
    keys = {key: key.partition(":")[2] for key in view.catalog.tables}
    names = list(keys.values())
    return sorted(name if names.count(name) == 1 else key for key, name in keys.items())


def call(repository: Repository, procedure: str, what: str, where: str) -> list[str]:
    """What `CALL og.system.<procedure>` does: what came of it, and the commit that it is about."""
    history = repository.history
    if procedure == "merge":
        merged = merge_branches(repository, what, where, MergeOptions())
        return [merged.outcome.replace("_", " "), merged.target_commit if merged.commit is None else merged.commit.id]
    if procedure == "delete_branch":
        head = history.revisions.commit(what)
        history.branches.delete(what, at=head)
        return ["deleted", head.id]
    if procedure == "create_tag":
        commit = history.revisions.commit(where)
        history.tags.create(what, commit.ref)
    else:
        commit = history.branches.create(what, history.revisions.entry(where)).head.commit
    return ["created", commit.id]


def about_schema(name: str) -> StructType:
    """The columns of a table about a graph."""
    from pyspark.sql.types import StringType, StructType, TimestampType

    schema = StructType()
    for column in ABOUT_GRAPHS[name]:
        schema.add(column, TimestampType() if column == "time" else StringType())
    return schema if ABOUT_GRAPHS[name] else spark_schema()


@dataclass
class CountReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not checked
    """How many rows a table has, in one row."""

    rows: int

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        yield (self.rows,)


@dataclass
class AboutReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not checked
    """The history of a revision or the branches of its graph, some columns of them: one task, which holds few commits at a time."""

    address: Address
    name: str
    revision: str
    columns: list[str]

    def read(self, partition: Any) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(about_schema(self.name), timezone="UTC")
        history = self.address.open_graph().history
        if self.name == "branches":
            rows: Iterator[dict[str, Any]] = (
                {"branch": entry.branch, "commit": entry.head.commit.id, "time": entry.head.commit.at}
                for entry in history.branches.list()
            )
        else:
            rows = (
                {
                    "commit": commit.id,
                    "parent": None if commit.parent is None else commit.parent.id,
                    "merged": None if commit.merged is None else commit.merged.id,
                    "kind": commit.kind,
                    "actor": commit.actor,
                    "message": commit.message,
                    "time": commit.at,
                }
                for commit in history.log.walk(history.revisions.entry(self.revision))
            )
        while block := list(itertools.islice(rows, BATCH_COMMITS)):
            yield pa.RecordBatch.from_pylist(block, schema).select(self.columns)
