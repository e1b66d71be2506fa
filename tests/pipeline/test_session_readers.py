"""Formats that the Spark session reads by itself, by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.tasks.engines import engine_with_reader


def emails(graph: og.Graph) -> list[tuple[str, int | None]]:
    result = graph.query("query q() { match { $p: Person } return { $p.email, $p.age } order { $p.email asc } }")
    return [(row["p.email"], row["p.age"]) for row in result.rows]


@pytest.mark.spark
def test_orc_files_are_loaded_whatever_names_the_type(graph: og.Graph, spark: Any, tmp_path: Path) -> None:
    people = spark.createDataFrame([("a", 1), ("b", None)], "email string, age int")
    people.write.orc(str(tmp_path / "in" / "Person"))
    receipt = graph.load(tmp_path / "in" / "Person", mode="append", format="orc", engine=spark)
    assert (receipt.total.inserted, receipt.engine) == (2, "on Spark")
    assert emails(graph) == [("a", 1), ("b", None)]
    spark.createDataFrame([("c", 3)], "`E Mail` string, age int").write.orc(str(tmp_path / "more"))
    renamed = graph.load(
        tmp_path / "more", mode="append", format="orc", type="Person", map={"E Mail": "email"}, engine=spark
    )
    assert renamed.total.inserted == 1
    with pytest.raises(errors.UsageError, match="does not say of which type its rows are") as untyped:
        graph.load(tmp_path / "more", mode="append", format="orc", engine=spark)
    assert "type='TYPE'" in str(untyped.value.hint)
    with pytest.raises(errors.UsageError, match="has no column 'mail'"):
        graph.load(tmp_path / "more", mode="append", format="orc", type="Person", map={"mail": "email"}, engine=spark)


@pytest.mark.spark
def test_rows_of_a_session_reader_are_checked_as_any_others(graph: og.Graph, spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame([("a", 1), ("b c", 2)], "email string, age int").write.orc(str(tmp_path / "Person"))
    with pytest.raises(errors.RejectedRecords, match="1 record was rejected"):
        graph.load(tmp_path / "Person", mode="append", format="orc", engine=spark)
    aside = tmp_path / "rejects.jsonl"
    receipt = graph.load(tmp_path / "Person", mode="append", format="orc", engine=spark, rejects=aside)
    assert (receipt.total.inserted, receipt.rejected) == (1, 1)
    assert "b c" in aside.read_text()


@pytest.mark.spark
def test_a_database_is_loaded_through_jdbc(graph: og.Graph, spark: Any, tmp_path: Path) -> None:
    """Derby comes with Spark."""
    place = f"jdbc:derby:{tmp_path / 'crm'}"
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "email string, age int")
    options = {"dbtable": "people", "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    rows.write.format("jdbc").options(url=f"{place};create=true", **options).save()
    receipt = graph.load(
        place,
        mode="append",
        format="jdbc",
        type="Person",
        reader_options={**options, "dbtable": '(SELECT * FROM people WHERE "age" > 1) AS older'},
        engine=spark,
    )
    assert receipt.total.inserted == 1
    assert emails(graph) == [("b", 2)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format", "place", "options", "said", "advice"),
    [
        ("delta", "Person", {}, "the Spark session cannot read 'delta'", "'spark.sql.extensions': 'io.delta.sql"),
        ("iceberg", "db.Person", {}, "the Spark session cannot read 'iceberg'", "org.apache.iceberg:iceberg-spark"),
        ("cvs", "Person", {}, "the Spark session cannot read 'cvs'", "check its name"),
        ("jdbc", "jdbc:none:x", {"dbtable": "t"}, "no driver for 'jdbc:none:x'", "conf={'spark.jars'"),
        ("orc", "nowhere/Person", {}, "there is nothing to load at 'nowhere/Person'", "check the path"),
    ],
)
def test_what_the_session_cannot_read_is_one_sentence_with_advice(
    graph: og.Graph, spark: Any, format: str, place: str, options: dict[str, str], said: str, advice: str
) -> None:
    with pytest.raises(errors.UsageError, match=said) as refused:
        graph.load(place, mode="append", format=format, type="Person", reader_options=options, engine=spark)
    assert advice in str(refused.value.hint)


@pytest.mark.spark
def test_a_file_of_another_kind_is_unreadable(graph: og.Graph, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "Person.orc").write_text("not orc at all\n")
    with pytest.raises(errors.UnreadableInput, match="Spark cannot read it as orc"):
        graph.load(tmp_path / "Person.orc", mode="append", format="orc", engine=spark)


def test_only_spark_reads_other_formats(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.UsageError, match="'orc' is read by Spark, and the engine is local"):
        graph.load("Person", mode="append", format="orc", engine="local")
    assert engine_with_reader("auto", "orc").engine == "spark"
    assert engine_with_reader("local[2]", "orc").reason == "as chosen"
    monkeypatch.setenv("OMNIGRAPH_ENGINE", "local")
    with pytest.raises(errors.UsageError, match="the engine is local"):
        engine_with_reader("auto", "orc")


def test_options_that_no_reader_takes_are_refused(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="reader options are for a format that Spark reads"):
        graph.load("people.jsonl", mode="append", reader_options={"header": "true"})
    with pytest.raises(errors.UsageError, match="'delimiter' is for CSV files"):
        graph.load("Person", mode="append", format="orc", delimiter=";")
    with pytest.raises(errors.UsageError, match="a map file is for jsonl, csv, parquet"):
        graph.load(
            "Person",
            mode="append",
            format="orc",
            map={"sources": []} | {"sources": [{"file": "x", "type": "Person", "columns": {"email": "e"}}]},
        )
