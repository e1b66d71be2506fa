"""A copy of a branch, kept by nothing but the streaming source; also as a process of its own, which may be killed.

    python stream_consumer.py <graph> <folder> <seed> <steps before it is killed, or 0>

A step is a batch that was received or stored; after the given number the process kills itself.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any


class Consumer:
    """The copy is in one file, replaced after each batch; the checkpoint of the query is beside it."""

    def __init__(self, session: Any, graph: str, folder: Path, seed: int, steps: int) -> None:
        self.session = session
        self.graph = graph
        self.folder = folder
        self.random = random.Random(seed)
        self.left = steps

    @property
    def file(self) -> Path:
        return self.folder / "copy.json"

    @property
    def entities(self) -> dict[str, Any]:
        """Entities by type and id."""
        copy: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return copy

    def run(self) -> None:
        """Take everything that is there, in batches of random size."""
        limits = {"max_commits": str(self.random.randint(2, 40)), "max_rows": str(self.random.randint(10, 200))}
        source = self.session.readStream.format("omnigraph").options(
            graph=self.graph, changes="true", start="baseline", **limits
        )
        writer = source.load().writeStream.foreachBatch(self.apply).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def apply(self, batch: Any, _number: int) -> None:
        """What was applied before is applied again without harm."""
        rows = sorted(batch.collect(), key=lambda row: row.time)
        self.step()
        entities = self.entities
        for row in rows:
            if row.op == "delete":
                entities.pop(f"{row.type} {row.id}", None)
            else:
                entities[f"{row.type} {row.id}"] = json.loads(row.after)
        unfinished = self.file.with_suffix(".new")
        unfinished.write_text(json.dumps(entities))
        unfinished.replace(self.file)
        self.step()

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.stop()

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    from omnigraph.spark.sessions import spark_session
    from omnigraph.spark.source import register

    spark = spark_session("local[2]", memory="1g")
    register(spark)
    Consumer(spark, sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])).run()
    spark.stop()
