"""OmniGraph in Spark sessions: `og.spark.session()`, `og.spark.register(session)` and `og.spark.catalog(session, root=...)`.

spark = og.spark.session()
spark.read.format("omnigraph").option("graph", "./people").option("type", "Person").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["catalog", "register", "session"]


def session(master: str | None = None, memory: str | None = None, app_name: str = "omnigraph") -> SparkSession:
    """The active Spark session, or a new one with settings that suit the work, in which the data source is registered.

    SPARK_REMOTE or `sc://` connects, another `master` names a cluster, spark-submit's own settings are kept, and otherwise Spark runs on
    this machine's cores. `memory` is for the JVM on this machine ("4g"); rows are processed outside it, in Python. A session that is
    started here has Spark's pages on a free port: `session.sparkContext.uiWebUrl`.
    """
    from omnigraph.spark.sessions import spark_session

    started = spark_session(master, memory, app_name, has_pages=True)
    register(started)
    return started


def register(spark: SparkSession) -> None:
    """Register the data source "omnigraph" in a session. Relative paths of graphs start at the current working directory."""
    from omnigraph.spark.source import register

    register(spark)


def catalog(
    spark: SparkSession, root: str, name: str = "og", *, storage_options: Mapping[str, str] | None = None
) -> None:
    """Make the graphs in a folder (or below an address) a catalog of a session: `SELECT * FROM og.people.Person`.

    `og.people.review.Person` is the type on a branch. `VERSION AS OF` takes any revision. A relative path starts at the current
    working directory.
    """
    from omnigraph.spark.graph_catalog import add_catalog

    register(spark)
    add_catalog(spark, name, root, storage_options or {})
