"""One CSV file read by many tasks: cut anywhere, it gives the same rows, the same rejects with the same lines, and the same words."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.storage.options import open_store

SCHEMA = "node P { name: String @key  age: I32?  text: String? }"
ROWS = [
    b"ada,36,plain",
    b'bob,1,"a line\nand, another\n\n"',
    b'5" pipe,2,a "quoted" word',
    b"",
    b'"c""y",,"""',
    b'still the same cell"',
    b"dora,x,wrong age",
    b"eve,4",
    b'"fay",5,""',
    b"gus,6,caf\xe9",
    b'"hal',
    b'ter",7,"1\r\n2"\r',
    b"ida,8,\xc3\xa9t\xc3\xa9",
    b'jo,9,"' + b"long " * 30 + b'\n"',
]


def load_file(graph: og.Graph, path: str, rejects: Path, **options: Any) -> tuple[Any, ...]:
    rejects.unlink(missing_ok=True)
    receipt = graph.load(path, mode="overwrite", rejects=rejects, **options)
    rows = graph.query(
        "query q() { match { $p: P } return { $p.name as n, $p.age as a, $p.text as t } order { n } }"
    ).rows
    refused = [json.loads(line) for line in rejects.read_text().splitlines()] if rejects.exists() else []
    tasks = {stage.stage: stage.tasks for stage in receipt.stages}
    return [dict(row) for row in rows], refused, tasks


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="process")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("header", [b"name,age,text\n", b""])
def test_wherever_it_is_cut(graph: og.Graph, tmp_path: Path, mark: bytes, header: bytes) -> None:
    path, rejects = tmp_path / "P.csv", tmp_path / "rejects.jsonl"
    path.write_bytes(mark + header + b"\n".join(ROWS) + b"\n")
    options: dict[str, Any] = {"engine": "local"} if header else {"engine": "local", "columns": ["name", "age", "text"]}
    rows, refused, tasks = load_file(graph, str(path), rejects, **options)
    assert len(rows) == 8
    first = 2 if header else 1
    assert [(each["line"] - first, each["reason"].partition(" ")[0]) for each in refused] == [
        (9, "P.age"), (10, "expected"), (12, "column"),
    ]  # fmt: skip
    assert tasks["read"] == 1
    for size in [*range(1, 60, 7), 100, 200]:
        conf = {"spark.omnigraph.splitBytes": str(size)}
        cut = load_file(graph, str(path), rejects, conf=conf, **options)
        assert cut[:2] == (rows, refused), size
        assert cut[2]["read"] > 1, size


def test_random_files(graph: og.Graph, tmp_path: Path) -> None:
    dice = random.Random(20)
    path, rejects = tmp_path / "P.csv", tmp_path / "rejects.jsonl"
    for turn in range(25):
        lines = [dice.choice(ROWS).replace(b"a", b"%d" % number, 1) for number in range(dice.randint(5, 40))]
        path.write_bytes(b"name,age,text\n" + b"\n".join(lines) + dice.choice([b"", b"\n", b'\nz,1,"open']))
        conf = {"spark.omnigraph.splitBytes": str(dice.randint(10, 300))}
        assert _outcome(graph, path, rejects) == _outcome(graph, path, rejects, conf=conf), turn


def _outcome(graph: og.Graph, path: Path, rejects: Path, **options: Any) -> object:
    try:
        return load_file(graph, str(path), rejects, engine="local", **options)[:2]
    except errors.OmnigraphError as error:
        return type(error), error.message, error.hint, str(error)


@pytest.mark.parametrize(("where", "line"), [(0, 3), (1, 1003)])
def test_a_quote_that_is_never_closed(graph: og.Graph, tmp_path: Path, where: int, line: int) -> None:
    """It swallows what follows; the record that it is in is named, in whichever piece."""
    rows = [b"n%d,1,t" % number for number in range(2000)]
    rows[[1, 1001][where]] = b'x,1,"open'
    path = tmp_path / "P.csv"
    path.write_bytes(b"name,age,text\n" + b"\n".join(rows) + b"\n")
    for conf in ({}, {"spark.omnigraph.splitBytes": "1000"}):
        with pytest.raises(errors.UnreadableInput, match="quote") as raised:
            graph.load(path, mode="append", engine="local", conf=conf)
        assert (raised.value.message, raised.value.line) == ("a quote is not closed", line)


def test_a_quote_inside_of_a_cell_is_a_sign_like_others(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "P.csv"
    path.write_text('name,age,text\n5" pipe,3,half an inch: 1/2"\n')
    assert graph.load(path, mode="append", engine="local").total.inserted == 1


def test_distinct_rows_of_a_map_are_found_in_the_whole_file(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("who\n" + "".join(f"n{number % 7}\n" for number in range(300)))
    source = {"file": "sales.csv", "type": "P", "columns": {"name": "who"}, "distinct": True}
    (tmp_path / "map.json").write_text(json.dumps({"sources": [source]}))
    conf = {"spark.omnigraph.splitBytes": "100"}
    receipt = graph.load(tmp_path / "sales.csv", map=tmp_path / "map.json", mode="append", engine="local", conf=conf)
    assert receipt.total.inserted == 7


def _large(put: Callable[[bytes], str]) -> str:
    rows = [b'n%d,%d,"a, b\nc ""%d"""' % (number, number % 90, number) for number in range(3000)]
    rows[1500] = b"bad,x,y"
    rows[2500] = b"short,1"
    return put(b"name,age,text\n" + b"\n".join(rows) + b"\n")


def _check_large(graph: og.Graph, path: str, rejects: Path, **options: Any) -> None:
    rows, refused, tasks = load_file(graph, path, rejects, conf={"spark.omnigraph.splitBytes": "20000"}, **options)
    assert len(rows) == 2998
    assert {"n": "n7", "a": 7, "t": 'a, b\nc "7"'} in rows
    assert [each["line"] for each in refused] == [2 + 2 * 1500, 2 + 2 * 2500 - 1]
    assert tasks["find records"] == tasks["read"] == 4


@pytest.mark.spark
def test_on_spark(graph: og.Graph, spark: Any, tmp_path: Path) -> None:
    def put(data: bytes) -> str:
        (tmp_path / "P.csv").write_bytes(data)
        return str(tmp_path / "P.csv")

    _check_large(graph, _large(put), tmp_path / "rejects.jsonl", engine=spark)


@pytest.mark.s3
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_from_an_object_store(engine: str, request: pytest.FixtureRequest, s3: Any, tmp_path: Path) -> None:
    address = f"s3://{s3.new_bucket()}"

    def put(data: bytes) -> str:
        open_store(address, storage_options=s3.options).put("P.csv", data)
        return f"{address}/P.csv"

    graph = og.init(f"{address}/graph", SCHEMA, storage_options=s3.options)
    chosen = "local" if engine == "local" else request.getfixturevalue("spark")
    _check_large(graph, _large(put), tmp_path / "rejects.jsonl", engine=chosen)
