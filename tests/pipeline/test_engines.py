"""Which engine a load takes when nobody chooses, and what it says about that."""

from __future__ import annotations

import importlib.util
import io
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline.conftest import Write, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load.files import InputFile
from omnigraph.load.inputs import FoundInputs, FoundRows
from omnigraph.load.text import TextOptions
from omnigraph.tasks import engines
from omnigraph.tasks.engines import AUTO, MAX_IN_PROCESS_BYTES, choose_engine
from omnigraph.tasks.progress import PlainProgress, Status, waiting_for

LARGE = MAX_IN_PROCESS_BYTES + 1


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMNIGRAPH_ENGINE", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_size_decides_where_nothing_else_does() -> None:
    assert choose_engine(AUTO, "/g", MAX_IN_PROCESS_BYTES, None).engine == "local"
    assert choose_engine(AUTO, "s3://b/g", 310, None).reason == "310 bytes of input; Spark from 500 MB on"
    large = choose_engine(AUTO, "/g", LARGE, None)
    assert (large.engine, large.reason) == ("spark", "500 MB of input, more than 500 MB")
    assert choose_engine(AUTO, "memory://g", LARGE, None).engine == "local", "Spark's workers could not reach it"


def test_what_was_chosen_counts_before_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_engine("spark", "/g", 1, None).engine == "spark"
    session: Any = object()
    assert choose_engine(AUTO, "/g", 1, session).engine is session
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert choose_engine(AUTO, "/g", 1, None).engine == "spark"
    monkeypatch.setenv("OMNIGRAPH_ENGINE", "local[3]")
    assert choose_engine(AUTO, "/g", 1, None).engine == "local[3]"
    assert choose_engine("local", "/g", LARGE, None).engine == "local"


def test_without_spark_large_inputs_are_loaded_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name))
    assert choose_engine(AUTO, "/g", LARGE, None).engine == "local"


def test_parquet_counts_as_the_text_it_stands_for() -> None:
    def found(*files: tuple[int, Any]) -> int:
        inputs = tuple(FoundRows(InputFile("x", f"/{size}", size, {}), format, None) for size, format in files)
        return FoundInputs(inputs, (), TextOptions()).text_bytes

    assert found((100, "jsonl"), (10, "csv")) == 110
    assert found((100, "parquet")) == 400


def test_a_load_takes_the_process_and_says_so(graph: og.Graph, write: Write) -> None:
    receipt = graph.load(write("p.jsonl", person("a")), mode="append")
    assert receipt.engine == "in process"
    assert "of input; Spark from" in str(receipt.engine_reason)
    assert receipt.seconds > 0
    assert graph.load({"Person": pa.table({"email": ["b"]})}, mode="append").engine == "in process"


def test_the_environment_decides_for_library_and_command_line(
    graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_ENGINE", "elsewhere")
    with pytest.raises(errors.UsageError, match="'elsewhere' is not an engine") as refused:
        graph.load(write("p.jsonl", person("a")), mode="append")
    assert str(refused.value.hint).startswith("auto (of a load), local")


def test_the_command_line_asks_flag_then_environment_then_config(
    graph: og.Graph, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from omnigraph.cli.main import run

    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("defaults: {engine: of-config}\n")
    monkeypatch.setenv("OMNIGRAPH_HOME", str(home))
    load = ["load", str(graph.uri), "--data", write("p.jsonl", person("a")), "--mode", "merge"]
    assert run(load) == 2
    assert "'of-config' is not an engine" in capsys.readouterr().err
    monkeypatch.setenv("OMNIGRAPH_ENGINE", "of-environment")
    assert run(load) == 2
    assert "'of-environment' is not an engine" in capsys.readouterr().err
    assert run([*load, "--engine", "local"]) == 0
    assert "in process (as chosen), 0." in capsys.readouterr().err


@pytest.mark.spark
def test_a_dataframe_of_spark_is_loaded_by_its_session(graph: og.Graph, spark: Any) -> None:
    frame = spark.createDataFrame([("a", 1)], "email string, age int")
    receipt = graph.load({"Person": frame}, mode="append")
    assert (receipt.engine, receipt.engine_reason) == ("on Spark", "the session of the DataFrame")


def test_a_wait_without_tasks_is_shown_until_it_ends() -> None:
    class Heard(PlainProgress):
        def update(self, status: Status) -> None:
            super().update(status)
            if status.seconds > 0:
                again.set()

    again = threading.Event()
    out = io.StringIO()
    with waiting_for("starting Spark", Heard(out, every_seconds=0, after_seconds=0)):
        assert again.wait(60)
    lines = out.getvalue().splitlines()
    assert lines[0] == "starting Spark: 0 s"
    assert all(line.startswith("starting Spark: ") for line in lines)
    assert len(lines) >= 2
