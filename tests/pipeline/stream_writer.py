"""The driver of a stream into a graph, as a process of its own, which may be killed.

    python stream_writer.py <graph> <inbox> <checkpoint> <master>

Each file of the inbox is a micro-batch of visits. It ends when all of them are read.
"""

from __future__ import annotations

import sys
from typing import Any


def run(session: Any, graph: str, inbox: str, checkpoint: str) -> None:
    visits = session.readStream.schema("name string, age int").option("maxFilesPerTrigger", "1").json(inbox)
    sink = visits.writeStream.format("omnigraph").option("graph", graph).option("type", "Visit")
    query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


if __name__ == "__main__":
    from omnigraph.spark.sessions import spark_session
    from omnigraph.spark.source import register

    spark = spark_session(sys.argv[4], memory="1g")
    register(spark)
    run(spark, *sys.argv[1:4])
    spark.stop()
