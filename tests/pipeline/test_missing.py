"""What a load does about edges that name missing nodes: refuse, skip, stub. Whatever the way in, the counts add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import EndpointMissing, UsageError
from omnigraph.load import checks

SCHEMA = """
node Package { name: String @key  section: String? }
node Tag { tag: I64 @key }
edge Depends: Package -> Package { kind: String? }
edge Tagged: Package -> Tag
"""
NODES = [f"p{number}" for number in range(20)]
EDGES = [(f"p{number}", f"p{number + 3}") for number in range(20)]  # Three of them end at nothing.
TAGS = [("p1", "1"), ("p2", "2"), ("gone", "3"), ("gone", "1")]
MISSING = {"p20", "p21", "p22"}


def graph_at(tmp_path: Path, schema: str = SCHEMA) -> og.Graph:
    return og.init(tmp_path / "g", schema, durability="process")


def write_jsonl(folder: Path) -> str:
    records = [{"type": "Package", "data": {"name": name}} for name in NODES]
    records += [{"type": "Tag", "data": {"tag": 1}}]
    records += [{"edge": "Depends", "from": start, "to": end, "data": {"kind": "x"}} for start, end in EDGES]
    records += [{"edge": "Tagged", "from": start, "to": end, "data": {}} for start, end in TAGS]
    (folder / "all.jsonl").write_text("\n".join(map(json.dumps, records)))
    return str(folder / "all.jsonl")


def write_csv(folder: Path) -> list[str]:
    tables = {
        "Package": ["name", *NODES],
        "Tag": ["tag", "1"],
        "Depends": ["from,to,kind", *(f"{start},{end},x" for start, end in EDGES)],
        "Tagged": ["from,to", *(f"{start},{end}" for start, end in TAGS)],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return [str(folder / f"{name}.csv") for name in tables]


def frames() -> dict[str, Any]:
    import pyarrow as pa

    return {
        "Package": pa.table({"name": NODES}),
        "Tag": pa.table({"tag": [1]}),
        "Depends": pa.table({"from": [edge[0] for edge in EDGES], "to": [edge[1] for edge in EDGES]}),
        "Tagged": pa.table({"from": [edge[0] for edge in TAGS], "to": [edge[1] for edge in TAGS]}),
    }


def sources(way: str, folder: Path, spark: Any = None) -> Any:
    if way == "jsonl":
        return write_jsonl(folder)
    if way == "csv":
        return write_csv(folder)
    if way == "frames":
        return frames()
    return {name: spark.createDataFrame(table.to_pandas()) for name, table in frames().items()}


def count(graph: og.Graph, type: str) -> int:
    kind = "$e: Package" if type == "Package" else "$a: Package  $a $e:depends $b"
    return int(graph.query(f"query q() {{ match {{ {kind} }} return {{ count($e) as n }} }}").rows[0]["n"])


def check_skip(graph: og.Graph, receipt: og.types.LoadReceipt, *, is_dry_run: bool) -> None:
    """17 of 20 dependencies and 1 of 4 tags have both ends."""
    assert receipt.loaded == {"node:Package": 20, "node:Tag": 1, "edge:Depends": 17, "edge:Tagged": 1}
    assert (dict(receipt.skipped), dict(receipt.stubs), receipt.rejected) == (
        {"edge:Depends": 3, "edge:Tagged": 3},
        {},
        6,
    )
    assert receipt.refusals == ()
    assert {(each.edge, each.end, each.node, each.edges, each.nodes) for each in receipt.missing} == {
        ("Depends", "to", "Package", 3, 3),
        ("Tagged", "from", "Package", 2, 1),
        ("Tagged", "to", "Tag", 2, 2),
    }
    assert {id for each in receipt.missing if each.edge == "Depends" for id in each.examples} == MISSING
    assert count(graph, "Depends") == (0 if is_dry_run else 17)


def check_stub(graph: og.Graph, receipt: og.types.LoadReceipt, *, is_dry_run: bool) -> None:
    assert receipt.loaded == {"node:Package": 20, "node:Tag": 1, "edge:Depends": 20, "edge:Tagged": 4}
    assert (dict(receipt.stubs), dict(receipt.skipped), receipt.rejected) == ({"node:Package": 4, "node:Tag": 2}, {}, 0)
    assert count(graph, "Package") == (0 if is_dry_run else 24)
    if not is_dry_run:
        assert graph.entity("Package", "p21") == {"id": "p21", "name": "p21", "section": None}
        assert (graph.entity("Tag", "3") or {})["tag"] == 3


CHECKS = {"skip": check_skip, "stub": check_stub}


@pytest.mark.parametrize("missing", CHECKS)
@pytest.mark.parametrize("way", ["jsonl", "csv", "frames"])
def test_missing_nodes_in_process(way: str, missing: Any, tmp_path: Path) -> None:
    graph = graph_at(tmp_path)
    data = sources(way, tmp_path)
    for is_dry_run in (True, False):
        receipt = graph.load(data, mode="append", engine="local", missing=missing, dry_run=is_dry_run)
        CHECKS[missing](graph, receipt, is_dry_run=is_dry_run)
    assert graph.maintenance.verify(deep=True).is_whole


def test_checks_in_buckets_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "BUCKET_ROWS", 4)
    graph = graph_at(tmp_path)
    check_skip(graph, graph.load(write_csv(tmp_path), mode="append", engine="local", missing="skip"), is_dry_run=False)


def test_without_it_the_load_is_refused_and_says_how(tmp_path: Path) -> None:
    graph = graph_at(tmp_path)
    with pytest.raises(EndpointMissing) as refused:
        graph.load(write_csv(tmp_path), mode="append", engine="local")
    assert "missing='skip' sets such edges aside, missing='stub' creates the nodes" in str(refused.value.hint)
    with pytest.raises(UsageError, match="'ignore' does not say"):
        graph.load(write_csv(tmp_path), mode="append", missing="ignore")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not go with the mode overwrite"):
        graph.load(write_csv(tmp_path), mode="overwrite", missing="stub")


@pytest.mark.parametrize("way", ["csv", "frames"])
def test_skipped_edges_are_among_the_rejects(way: str, tmp_path: Path) -> None:
    graph, rejects = graph_at(tmp_path), tmp_path / "rejects.jsonl"
    data = sources(way, tmp_path)
    if way == "csv":
        (tmp_path / "Package.csv").write_text((tmp_path / "Package.csv").read_text() + ",\n")
    receipt = graph.load(data, mode="append", engine="local", missing="skip", rejects=rejects)
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert len(lines) == receipt.rejected == (7 if way == "csv" else 6)
    missing = [line for line in lines if line["code"] == "endpoint_missing"]
    assert {line["reason"] for line in missing} == {
        *(f"to '{id}' not found in Package" for id in MISSING),
        "to '2' not found in Tag",
        "from 'gone' not found in Package",
    }
    named = {(line["file"].rsplit("/", 1)[-1], line["line"]) for line in missing}
    if way == "csv":
        assert named == {
            *(("Depends.csv", line) for line in (19, 20, 21)),
            *(("Tagged.csv", line) for line in (3, 4, 5)),
        }
    record = json.loads(next(line for line in missing if "p20" in line["reason"])["record"])
    assert (record["edge"], record["from"], record["to"]) == ("Depends", "p17", "p20")


def test_all_edges_may_be_skipped_and_a_merge_meets_the_nodes_that_are_there(tmp_path: Path) -> None:
    graph = graph_at(tmp_path)
    assert graph.load(write_csv(tmp_path)[2:], mode="append", engine="local", missing="skip").commit is None
    graph.load(write_csv(tmp_path)[:1], mode="append", engine="local")
    receipt = graph.load(write_csv(tmp_path)[2:3], mode="merge", engine="local", missing="skip")
    assert (receipt.loaded, receipt.rejected) == ({"edge:Depends": 17}, 3)
    assert graph.load(write_csv(tmp_path)[2:3], mode="overwrite", engine="local", missing="skip").total.deleted == 17


def test_a_type_that_needs_more_than_its_key_has_no_stubs(tmp_path: Path) -> None:
    schema = """
    node Package { name: String @key  section: String }
    node Tag { tag: I64 @key }
    edge Depends: Package -> Package
    edge Tagged: Package -> Tag
    """
    graph = graph_at(tmp_path, schema)
    packages = [{"type": "Package", "data": {"name": "a", "section": "x"}}]

    def load(edge: dict[str, Any]) -> og.types.LoadReceipt:
        (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, [*packages, edge])))
        return graph.load(tmp_path / "e.jsonl", mode="merge", engine="local", missing="stub")

    with pytest.raises(UsageError, match="cannot create Package 'b': 'section' needs a value"):
        load({"edge": "Depends", "from": "a", "to": "b", "data": {}})
    with pytest.raises(EndpointMissing, match="'x'"):  # No key of a Tag.
        load({"edge": "Tagged", "from": "a", "to": "x", "data": {}})
    assert load({"edge": "Tagged", "from": "a", "to": "7", "data": {}}).stubs == {"node:Tag": 1}


def test_a_key_of_several_members_and_a_type_without_a_key(tmp_path: Path) -> None:
    graph = graph_at(
        tmp_path, "node Day { y: I64  m: I64  @key(y, m) }\nnode Note { text: String? }\nedge On: Note -> Day"
    )
    (tmp_path / "On.csv").write_text('from,to\nn1,"[""2026"",""1""]"\nn1,"[""2026"",""2""]"\n')
    receipt = graph.load(tmp_path / "On.csv", mode="append", engine="local", missing="stub")
    assert receipt.stubs == {"node:Day": 2, "node:Note": 1}
    assert (graph.entity("Day", '["2026","2"]') or {})["m"] == 2
    assert graph.entity("Note", "n1") == {"id": "n1", "text": None}


@pytest.mark.spark
def test_missing_nodes_on_spark(tmp_path: Path, spark: Any) -> None:
    """Files, DataFrames, the data source and both kinds of streams."""
    from omnigraph.spark.source import register

    register(spark)
    graph = graph_at(tmp_path)
    check_skip(graph, graph.load(write_csv(tmp_path), mode="append", engine=spark, missing="skip"), is_dry_run=False)
    other = og.init(tmp_path / "other", SCHEMA, durability="process")
    frames = sources("spark", tmp_path, spark)
    check_stub(other, other.load(frames, mode="append", engine=spark, missing="stub", dry_run=True), is_dry_run=True)
    check_stub(other, other.load(frames, mode="append", engine=spark, missing="stub"), is_dry_run=False)

    def written(writer: Any) -> Any:
        return writer.format("omnigraph").option("graph", graph.uri).option("type", "Depends").option("missing", "skip")

    written(frames["Depends"].write).mode("append").save()
    assert count(graph, "Depends") == 34
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps({"from": a, "to": b}) + "\n" for a, b in EDGES))
    stream = spark.readStream.schema("from string, to string").json(str(tmp_path / "in"))
    places = [str(tmp_path / "c1"), str(tmp_path / "c2")]
    written(stream.writeStream).option("checkpointLocation", places[0]).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert count(graph, "Depends") == 51
    into = graph.stream_into("Depends", mode="append", missing="stub")
    started = stream.writeStream.foreachBatch(into).option("checkpointLocation", places[1]).trigger(availableNow=True)
    started.start().awaitTermination()
    assert (count(graph, "Depends"), count(graph, "Package")) == (71, 23)
