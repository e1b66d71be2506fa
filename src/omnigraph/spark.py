"""OmniGraph in Spark sessions: `og.spark.session()` and `og.spark.register(session)`.

spark = og.spark.session()
spark.read.format("omnigraph").option("graph", "./people").option("type", "Person").load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def session(master: str | None = None, memory: str | None = None, app_name: str = "omnigraph") -> SparkSession:
    """The active Spark session, or a new one with settings that suit the work, in which the data source is registered.

    SPARK_REMOTE or `sc://` connects, another `master` names a cluster, spark-submit's own settings are kept, and otherwise Spark runs on
    this machine's cores. `memory` is for the JVM on this machine ("4g"); rows are processed outside it, in Python.
    """
    from omnigraph.pipeline.spark.session import spark_session

    started = spark_session(master, memory, app_name)
    register(started)
    return started


def register(spark: SparkSession) -> None:
    """Register the data source "omnigraph" in a session. Relative paths of graphs start at the current working directory."""
    from omnigraph.pipeline.spark.source import register

    register(spark)
