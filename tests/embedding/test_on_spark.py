"""Texts of a load on Spark are embedded by its tasks, and a text is asked for there as in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

ASKED = "query q($t: String) { match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, $t) } limit 2 }"


@pytest.mark.spark
def test_the_tasks_of_a_load_embed(spark: Any, tmp_path: Path) -> None:
    schema = 'node Doc { slug: String @key  text: String?  vec: Vector(8)? @embed("text", model="mock") }'
    g = og.init(tmp_path / "graph", schema, durability="process")
    rows = [(f"d{number:03}", f"word{number} other{number % 7}" if number % 10 else None) for number in range(500)]
    frame = spark.createDataFrame(rows, "slug string, text string").repartition(3)
    g.load({"Doc": frame}, mode="append", engine=spark)
    missing = g.query("query q() { match { $d: Doc  $d.vec is null } return { count($d) as n } }").rows
    assert missing == [{"n": 50}]
    here = g.query(ASKED, {"t": "word123 other4"}).rows
    assert here[0] == {"s": "d123"}
    assert g.query(ASKED, {"t": "word123 other4"}, engine=spark).rows == here
