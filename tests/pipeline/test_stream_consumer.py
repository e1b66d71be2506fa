"""A consumer that knows only the streaming source has the branch, whatever was committed and wherever it was stopped."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from changes.test_feed import change_something
from merge import model
from pipeline import stream_consumer

import omnigraph as og
from omnigraph.values.arrow import OUTSIDE_NAMES


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=model.SCHEMA, durability="process")
    with graph.transaction() as tx:
        for name in "abcdefgh":
            tx.insert("Person", name=name)
    return graph


def commit_something(graph: og.Graph, dice: random.Random) -> None:
    """Mutations, merges and compactions, and loads and edges besides."""
    match dice.randrange(5):
        case 0:
            people = [{"name": dice.choice("abcdefgh") + str(number), "age": number} for number in range(4)]
            graph.load({"Person": people_table(people)}, mode="merge", engine="local")
        case 1:
            with graph.transaction() as tx:
                for name in ("x", "y"):
                    tx.upsert("Person", name=name)
                if graph.entity("Knows", "xy") is None:
                    tx.insert("Knows", {"id": "xy"}, from_="x", to="y")
                else:
                    tx.delete("Knows", "xy")
        case _:
            change_something(graph, dice)


def people_table(people: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(people)


def branch_of(graph: og.Graph) -> dict[str, Any]:
    return {
        f"{type_name} {id}": {OUTSIDE_NAMES.get(name, name): value for name, value in row.items()}
        for (_, type_name, id), row in model.state_of(graph, "main").items()
    }


@pytest.mark.spark
def test_a_consumer_that_stops_anywhere_has_the_branch(graph: og.Graph, tmp_path: Path, spark: Any) -> None:
    from pyspark.errors import PySparkException

    from omnigraph.spark.source import register

    register(spark)

    class Stopping(stream_consumer.Consumer):
        def stop(self) -> None:
            raise RuntimeError("stopped")

    dice = random.Random(5)
    for steps in (1, 2):
        for _ in range(7):
            commit_something(graph, dice)
        consumer = Stopping(spark, graph.uri, tmp_path, steps, steps)
        with pytest.raises(PySparkException, match="stopped"):
            consumer.run()
    last = stream_consumer.Consumer(spark, graph.uri, tmp_path, 0, 0)
    last.run()
    assert last.entities == branch_of(graph)


@pytest.mark.soak
def test_a_killed_consumer_has_the_branch_after_a_thousand_commits(graph: og.Graph, tmp_path: Path) -> None:
    dice = random.Random(11)
    codes = []
    for number in range(10):
        while graph.head().ref.seq < 100 * (number + 1):
            commit_something(graph, dice)
        # The first run has one batch, the baseline.
        steps = 0 if number == 9 else dice.randrange(1, 6 if number else 3)
        command = [sys.executable, stream_consumer.__file__, graph.uri, str(tmp_path), str(number), str(steps)]
        codes.append(subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode)
    # On a busy machine Spark may give up on a worker that is slow to start: that is one more way to be stopped.
    assert codes.count(-9) >= 5
    assert codes[-1] == 0
    consumer = stream_consumer.Consumer(None, graph.uri, tmp_path, 0, 0)
    assert consumer.entities == branch_of(graph)
