"""One short session that does a little of everything, so that the JVM has seen the classes that the work needs.

python -m omnigraph.spark.start_training [JVM option ...]
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.sessions import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = "1g"


def use(session: SparkSession) -> None:
    """Tasks as a load has them, and SQL as a query on Spark has it."""
    assert SparkRunner(session, 2).map("train", abs, [-1, -2]) == [1, 2]
    rows = session.createDataFrame([(1, "a", 0.5), (2, "b", None)], "number long, text string, part double")
    rows.createOrReplaceTempView("rows")
    frame = session.sql("""
        WITH pairs AS (SELECT l.number, r.text FROM rows l JOIN rows r ON l.number = r.number WHERE l.part IS NULL)
        SELECT text, count(*) AS n, max(number) AS most FROM pairs GROUP BY text ORDER BY n DESC, text
    """)
    assert frame.toArrow().to_pylist() == [{"text": "b", "n": 1, "most": 2}]


def main(java_options: list[str]) -> int:
    """The exit code of the JVM, after it has written what it has to write."""
    session = start("local[2,3]", MEMORY, "omnigraph", java_options)
    use(session)
    jvm = session.sparkContext._gateway.proc
    session.stop()
    jvm.stdin.close()
    return int(jvm.wait())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
