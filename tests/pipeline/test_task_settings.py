"""Sizes of tasks: how they are set, and that they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import Write, content, knows, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load import assembly, checks
from omnigraph.load.fragments import FragmentWriter
from omnigraph.tasks.engines import TaskSettings

ROWS = [person(f"p{number}") for number in range(100)]


def test_amounts_are_read_as_spark_reads_them() -> None:
    settings = TaskSettings.of(
        {
            "spark.omnigraph.splitBytes": "64m",
            "spark.omnigraph.parallelism": "7",
            "spark.omnigraph.taskMemory": "1GB",
            "spark.executor.memory": "whatever",
        }
    )
    assert settings == TaskSettings(64 * 1024**2, 7, 1024**3)
    assert TaskSettings.of({"spark.omnigraph.splitBytes": "1000"}).split_bytes == 1000
    assert TaskSettings.of({}) == TaskSettings()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("spark.omnigraph.splitBytes", "much", "cannot be 'much'"),
        ("spark.omnigraph.splitBytes", "0", "cannot be '0'"),
        ("spark.omnigraph.parallelism", "-1", "cannot be '-1'"),
        ("spark.omnigraph.taskMemory", "1m", "too little"),
        ("spark.omnigraph.splitbytes", "1m", "there is no setting"),
        ("splitBytes", "1m", "'splitBytes' is not a setting"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_done(
    graph: og.Graph, write: Write, name: str, value: str, said: str
) -> None:
    with pytest.raises(errors.UsageError, match=said):
        graph.load(write("p.jsonl", *ROWS), mode="append", conf={name: value})
    assert graph.head().kind == "init"


def tasks_of(receipt: og.types.LoadReceipt, stage: str = "read") -> int:
    return next(each.tasks for each in receipt.stages if each.stage == stage)


def test_the_split_size_decides_how_many_tasks_read(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    path = write("p.jsonl", *ROWS)
    size = Path(path).stat().st_size
    receipt = graph.load(path, mode="append", conf={"spark.omnigraph.splitBytes": str(-(-size // 5))}, **engine)
    assert tasks_of(receipt) == 5
    assert len(content(graph, tmp_path)) == 100


@pytest.mark.spark
def test_a_session_says_what_holds_for_all_its_loads(graph: og.Graph, write: Write, spark: Any) -> None:
    path = write("p.jsonl", *ROWS)
    spark.conf.set("spark.omnigraph.splitBytes", str(Path(path).stat().st_size // 2 + 1))
    try:
        assert tasks_of(graph.load(path, mode="merge", engine=spark)) == 2
        one = {"spark.omnigraph.splitBytes": "1m"}
        assert tasks_of(graph.load(path, mode="merge", engine=spark, conf=one)) == 1, "what the load says comes first"
    finally:
        spark.conf.unset("spark.omnigraph.splitBytes")


@pytest.mark.spark
def test_a_running_session_keeps_its_settings(graph: og.Graph, write: Write, spark: Any) -> None:
    path = write("p.jsonl", *ROWS)
    with pytest.raises(errors.UsageError, match=r"has spark.executor.memory=None, and 8g was asked for"):
        graph.load(path, mode="append", engine=spark, conf={"spark.executor.memory": "8g"})
    same = {"spark.sql.session.timeZone": "UTC"}
    assert graph.load(path, mode="append", engine=spark, conf=same).total.inserted == 100


def test_rules_are_checked_in_as_many_buckets_as_fit_a_task(
    graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "IN_PROCESS_ROWS", 0)
    seen: list[int] = []
    whole = checks._in_buckets

    def counted(stage: str, tasks: Any, runner: Any, max_rows: int) -> Any:
        seen.append(max_rows)
        return whole(stage, tasks, runner, max_rows)

    monkeypatch.setattr(checks, "_in_buckets", counted)
    rows = [*ROWS, *(knows(f"p{number}", f"p{number + 1}") for number in range(99))]
    graph.load(write("p.jsonl", *rows), mode="append", engine="local", conf={"spark.omnigraph.taskMemory": "64m"})
    assert set(seen) == {64 * 1024**2 // 128}


def test_a_task_writes_when_it_holds_its_share_of_memory(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    written: list[int] = []
    write = FragmentWriter._write

    def counted(writer: FragmentWriter, key: str) -> None:
        written.append(writer._sizes[key])
        write(writer, key)

    monkeypatch.setattr(FragmentWriter, "_write", counted)
    long = pa.table({"text": ["x" * 100_000] * 400})
    rows = pa.Table.from_batches(long.to_batches(max_chunksize=20))
    graph.load({"Note": rows}, mode="append", engine="local")
    assert len(written) == 1, "40 MB are little"
    del written[:]
    graph.load({"Note": rows}, mode="append", engine="local", conf={"spark.omnigraph.taskMemory": "64m"})
    assert len(written) > 2
    assert max(written) < 20 * 1024**2, "a quarter of 64 MiB, and the last batch"


# ---------------------------------------------------------------- explained


def test_a_load_is_explained_without_being_run(graph: og.Graph, write: Write) -> None:
    path = write("p.jsonl", *ROWS)
    explained = graph.explain_load(path)
    assert (explained.engine, explained.files, explained.tasks) == ("in process", 1, 1)
    assert explained.input_bytes == Path(path).stat().st_size
    assert explained.max_in_process_bytes == 500_000_000
    assert graph.head().kind == "init"
    conf = {"spark.omnigraph.splitBytes": str(explained.input_bytes // 3), "spark.omnigraph.parallelism": "9"}
    cut = graph.explain_load(path, engine="spark", conf=conf)
    assert (cut.engine, cut.reason, cut.tasks, cut.parallelism) == ("on Spark", "as chosen", 4, 9)
    assert graph.explain_load(path, engine="local[5]").parallelism == 5
    cluster = graph.explain_load(path, engine="spark://host:7077")
    assert (cluster.parallelism, cluster.tasks) == (None, None)
    orc = graph.explain_load("Person", format="orc")
    assert (orc.engine, orc.reason, orc.tasks) == ("on Spark", "Spark reads orc", None)


def test_the_command_line_explains_with_the_threshold(
    graph: og.Graph, write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.cli.main import run

    monkeypatch.delenv("OMNIGRAPH_ENGINE", raising=False)
    command = ["load", graph.uri, "--data", write("p.jsonl", *ROWS), "--mode", "append", "--explain"]
    assert run(command) == 0
    said = capsys.readouterr().out
    assert said.startswith("would run in process (")
    assert "a load of up to 500 MB of input runs in process" in said
    assert "1 task that reads up to 16 MiB" in said
    assert run([*command, "--conf", "spark.omnigraph.splitBytes=2k", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["engine"], value["task_bytes"], value["tasks"]) == ("in process", 2048, 3)
    assert run([*command, "--conf", "nonsense"]) == 2
    assert "write --conf NAME=VALUE" in capsys.readouterr().err
