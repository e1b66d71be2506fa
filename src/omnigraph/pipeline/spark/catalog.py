"""The graphs of a folder as a catalog of Spark: `og.people.Person` in its SQL.

The catalog itself is Java (tools/spark_catalog, compiled into the jar of this package). The lists that it shows it asks of the data
source, which answers with a schema that has a column for each name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import NotFound, UsageError
from omnigraph.storage.options import scheme_of
from omnigraph.views import Repository, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR = Path(__file__).with_name("omnigraph_catalog.jar")
_CLASS = "omnigraph.spark.Catalog"
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
