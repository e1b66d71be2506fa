"""A schema that is guessed from data parses, has nothing to complain about, and takes its own data."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import omnigraph as og
from omnigraph.errors import AlreadyExists, RejectedRecords, UnreadableInput, UsageError
from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.records.documents import cell_of


def catalog_of(inferred: og.types.InferredSchema) -> Catalog:
    assert og.lint_schema(inferred.schema, is_first=True) == ()
    return compile_schema(inferred.schema)


def loaded(inferred: og.types.InferredSchema, folder: Path) -> tuple[og.Graph, og.types.LoadReceipt]:
    """A graph with the schema that was guessed and all of the data."""
    shutil.rmtree(folder, ignore_errors=True)
    graph = og.init(folder, inferred.schema, durability="process")
    return graph, graph.load(list(inferred.files), mode="append", map=inferred.map, engine="local")


def types_of(catalog: Catalog, type: str) -> dict[str, str]:
    return {name: str(each.type) for name, each in catalog.tables[type].properties.items()}


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def infer_text(tmp_path: Path, text: str, name: str = "things.csv", **options: Any) -> og.types.InferredSchema:
    return og.infer_schema(write(tmp_path / name, text), **options)


def test_types_are_those_that_every_value_has(tmp_path: Path) -> None:
    header = "code,whole,part,day,at,yes,zip,big,huge,mixed,list,none,kind"
    rows = [
        f"c{number},{number},{number}.5,2026-01-{number:02},2026-01-01T10:00:00Z,true,0{number},{2**63},{2**70},"
        f'{"x" if number == 9 else number},"[1, {number}]",,{"ab"[number % 2]}'
        for number in range(1, 31)
    ]
    inferred = infer_text(tmp_path, "\n".join([header, *rows]))
    assert types_of(catalog_of(inferred), "node:Thing") == {
        "code": "String", "whole": "I64", "part": "F64", "day": "Date", "at": "DateTime", "yes": "Bool", "zip": "String",
        "big": "U64", "huge": "String", "mixed": "String", "list": "[I64]", "none": "String?", "kind": "enum(a, b)",
    }  # fmt: skip
    assert "'mixed': text: 1 of 30 values are not I64, such as \"x\"" in inferred.schema
    assert "'zip': digits with leading zeros are codes, so text" in inferred.schema
    assert "'kind': 2 different words in 30 values" in inferred.schema
    assert "Based on all 30 rows." in inferred.schema
    assert "// No two rows share 'whole', 'zip', 'mixed' either (--key Thing.column, or @unique)." in inferred.schema
    assert loaded(inferred, tmp_path / "g")[1].total_entities == 30


WRITTEN = [
    (["Yes", "NO", "yes"], "Bool", "yes/no", [True, False, True]),
    (["Y", "n", "N/A"], "Bool?", "yes/no", [True, False, None]),
    (["TRUE", "False"], "Bool", "yes/no", [True, False]),
    (["8,400", "12", "-1,234,567"], "I64", "1,234.5", [8400, 12, -1234567]),
    (["8,400.25", "12"], "F64", "1,234.5", [8400.25, 12.0]),
    (["1.234,5", "-2,25"], "F64", "1.234,5", [1234.5, -2.25]),
    (["1 234", "12\u00a0345"], "I64", "1 234,5", [1234, 12345]),
    (["1'234.5", "7"], "F64", "1'234.5", [1234.5, 7.0]),
    (["$5", "-$1,200.50", "$ -3"], "F64", "$1,234.5", [5.0, -1200.5, -3.0]),
    (["€ 1.234,50", "N/A", "€2,00"], "F64?", "€1.234,5", [1234.5, None, 2.0]),
    (["1\u00a0234,50 €", "-3,00€"], "F64", "1 234,5 €", [1234.5, -3.0]),
    (["€1.234", "€2.500"], "F64", "€1.234,5", [1234.0, 2500.0]),
    (["CHF 1'234.50", "CHF 2"], "F64", "CHF1'234.5", [1234.5, 2.0]),
    (["12.5 %", "-3%", "0 %"], "F64", "1,234.5 %", [12.5, -3.0, 0.0]),
    (["12,345 %", "7,5 %"], "F64", "1.234,5 %", [12.345, 7.5]),
    (["$5", "€6"], "String", None, ["$5", "€6"]),
    (["$5", "6 $"], "String", None, ["$5", "6 $"]),
    (["$007", "$1"], "String", None, ["$007", "$1"]),
    (["LHR 123", "LHR 456"], "String", None, ["LHR 123", "LHR 456"]),
    (["USD", "EUR"], "String", None, ["USD", "EUR"]),
    (["1", "NA", "-", "2"], "I64?", None, [1, None, None, 2]),
    (["31.01.2026", "1.2.2026"], "Date", "%d.%m.%Y", ["2026-01-31", "2026-02-01"]),
    (["01/31/2026", "02/01/2026"], "Date", "%m/%d/%Y", ["2026-01-31", "2026-02-01"]),
    (["31/01/26", "01/02/26"], "Date", "%d/%m/%y", ["2026-01-31", "2026-02-01"]),
    (["31-Jan-2026", "1-feb-2026"], "Date", "%d-%b-%Y", ["2026-01-31", "2026-02-01"]),
    (["January 31, 2026", "May 1, 2026"], "Date", "%B %d, %Y", ["2026-01-31", "2026-05-01"]),
    (["2026/01/31 23:59", "2026/02/01 0:05"], "DateTime", "%Y/%m/%d %H:%M", ["2026-01-31T23:59:00+00:00", "2026-02-01T00:05:00+00:00"]),
    (["31.01.2026 1:05 PM", "?"], "DateTime?", "%d.%m.%Y %I:%M %p", ["2026-01-31T13:05:00+00:00", None]),
    (["01/02/2026", "03/04/2026"], "String", None, ["01/02/2026", "03/04/2026"]),
    (["31.02.2026", "01.02.2026"], "String", None, ["31.02.2026", "01.02.2026"]),
    (["007", "1,234"], "String", None, ["007", "1,234"]),
    (["99,999,999,999,999,999,999", "1"], "String", None, ["99,999,999,999,999,999,999", "1"]),
    (["none", "some"], "String", None, ["none", "some"]),
    (["1.2.3", "10.0.1"], "String", None, ["1.2.3", "10.0.1"]),
]  # fmt: skip


def test_values_are_read_as_people_write_them(tmp_path: Path) -> None:
    longest = max(len(cells) for cells, *_ in WRITTEN)
    columns = [[*cells, *[cells[0]] * (longest - len(cells))] for cells, *_ in WRITTEN]
    header = "\t".join(["key", *(f"v{place}" for place in range(len(WRITTEN)))])
    rows = ["\t".join([f"k{row}", *(column[row] for column in columns)]) for row in range(longest)]
    inferred = infer_text(tmp_path, "\n".join([header, *rows]), key=["Thing.key"])
    types, formats = types_of(catalog_of(inferred), "node:Thing"), inferred.map["sources"][0]["formats"]
    graph, _ = loaded(inferred, tmp_path / "g")
    entities = [graph.entity("Thing", f"k{row}") or {} for row in range(longest)]
    for place, (cells, type, format, values) in enumerate(WRITTEN):
        name = f"v{place}"
        assert (types[name], formats.get(name)) == (type, format), cells
        held = [entity[name] for entity in entities[: len(cells)]]
        assert [each.isoformat() if isinstance(each, dt.date) else each for each in held] == values, cells


@pytest.mark.parametrize(
    ("column", "type", "reason"),
    [
        (["Nan", *(f"c{place}" for place in range(59))], "String", "60 different in 60 values"),
        (["Nan", "Phrae", "Phayao"] * 20, "enum(Nan, Phayao, Phrae)", "3 different words"),
        (["N/A", "open", "closed"] * 20, "String", "text, 3 different in 60 values"),
        (
            ["NaN", "n/a", "n/a", *map(str, range(57))],
            "I64?",
            '1 of 60 are "NaN", 2 are "n/a", which are taken for null',
        ),
        (["none", *["2026-01-02"] * 59], "Date?", '1 of 60 are "none", which is taken for null'),
        (["none", "Null", "-", "?"] * 15, "String", "text, 4 different in 60 values"),
    ],
)
def test_only_an_empty_cell_of_a_text_is_null(column: list[str], type: str, reason: str, tmp_path: Path) -> None:
    inferred = infer_text(tmp_path, "row,x\n" + "".join(f"r{row},{cell}\n" for row, cell in enumerate(column)))
    assert types_of(catalog_of(inferred), "node:Thing")["x"] == type
    assert reason in inferred.schema
    graph, _ = loaded(inferred, tmp_path / "g")
    kept = graph.query("query q() { match { $t: Thing  $t.x is not null } return { count($t) as n } }").rows[0]["n"]
    assert kept == sum(1 for cell in column if type in ("String", "enum(Nan, Phayao, Phrae)") or cell[0].isdigit())


def test_a_word_that_is_said_to_mean_null_does_everywhere(tmp_path: Path) -> None:
    write(tmp_path / "ports.csv", "code\nA\nB\n")
    write(tmp_path / "calls.csv", "id,port,ship\n1,A,unknown\n2,unknown,Ada\n3,B,Bo\n")
    inferred = og.infer_schema(tmp_path, null=["unknown"])
    assert '1 of 3 are "unknown", which is taken for null, as asked for with --null' in inferred.schema
    graph, receipt = loaded(inferred, tmp_path / "g")
    assert receipt.loaded == {"node:Call": 3, "node:Port": 2, "edge:CallPort": 2}
    assert (graph.entity("Call", "1") or {})["ship"] is None


def test_a_city_that_no_table_has_is_not_taken_for_no_reference(tmp_path: Path) -> None:
    write(tmp_path / "cities.csv", "city\nPhrae\nPhayao\n")
    write(tmp_path / "people.csv", "id,city\n1,Phrae\n2,Nan\n3,Phayao\n")
    graph, _ = loaded(og.infer_schema(tmp_path), tmp_path / "g")
    assert (graph.entity("Person", "2") or {})["city"] == "Nan"


KEYED: dict[str, tuple[dict[str, Any], str, tuple[str, object]]] = {
    "same": (
        {str(n): {"geonameid": n, "name": "Nan", "names": ["Nan"]} for n in range(60)},
        "geonameid",
        ("name", "Nan"),
    ),
    "other": ({f"k/{n}": {"name": f"c{n % 7}", "at": {"lat": n / 2}} for n in range(4)}, "key", ("at_lat", 0.0)),
    "unlike": ({f"k{n}": {f"m{n}": n} for n in range(60)}, "key", ("m0", 0)),
    "days": ({f"2026-01-{n:02}": {"n": n} for n in range(1, 20)}, "key", ("n", 1)),
    "plain": ({f"k{n}": f"v{n}" for n in range(300)}, "key", ("value", "v0")),
}


@pytest.mark.parametrize("kind", KEYED)
def test_an_object_keyed_by_id_is_a_table(kind: str, tmp_path: Path) -> None:
    document, key, (property, value) = KEYED[kind]
    inferred = infer_text(tmp_path, json.dumps(document), "cities.json")
    assert catalog_of(inferred).nodes["City"].key == (key,)
    graph, receipt = loaded(inferred, tmp_path / "g")
    assert receipt.loaded == {"node:City": len(document)}
    first = next(iter(document))
    entity = graph.entity("City", first) or {}
    assert (str(entity[key]), entity[property]) == (first, value)


def test_objects_keyed_by_id_inside_of_documents(tmp_path: Path) -> None:
    packages = [
        {"name": f"p{n}", "files": {f"f{n}-{place}": {"size": place} for place in range(3)}, "urls": {"home": {"u": 1}}}
        for n in range(20)
    ]
    inferred = infer_text(
        tmp_path, json.dumps({"packages": packages, "by": {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}}), "w.json"
    )
    _, receipt = loaded(inferred, tmp_path / "g")
    assert receipt.loaded == {"node:By": 3, "node:File": 60, "node:Package": 20, "edge:PackageFile": 60}
    assert "home" not in catalog_of(inferred).nodes  # One name in every record is a role, not a key.


def test_what_is_built_of_an_object_is_bounded_and_linear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = []
    for rows in (2_000, 8_000):
        calls = Counted()
        monkeypatch.setattr("omnigraph.records.documents.cell_of", calls)
        infer_text(
            tmp_path, json.dumps({str(n): {"id": n, "name": f"c{n}", "at": {"x": 1}} for n in range(rows)}), "c.json"
        )
        work.append(calls.count)
    assert work[1] <= 4.1 * work[0]
    with pytest.raises(UsageError, match="more than 2,000 different members of one kind of object"):
        infer_text(tmp_path, json.dumps([{f"m{n}": [n] for n in range(3_000)}]), "wide.json")
    with pytest.raises(UsageError, match="more than 200 kinds of objects"):
        infer_text(tmp_path, json.dumps([{f"m{n}": [{f"x{n}": 1}] for n in range(300)}]), "types.json")


class Counted:
    """`cell_of`, and how often it was called."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: object) -> str | None:
        self.count += 1
        return cell_of(value)


def test_lists_inside_of_objects_are_found(tmp_path: Path) -> None:
    pages = [
        {"page": n, "data": {"at": "x", "items": [{"sku": f"{n}-{each}", "n": each} for each in range(n)]}}
        for n in (1, 2, 3)
    ]
    inferred = infer_text(tmp_path, "\n".join(map(json.dumps, pages)), "pages.jsonl")
    assert types_of(catalog_of(inferred), "node:Page") == {"page": "I64", "data_at": "String"}
    graph, receipt = loaded(inferred, tmp_path / "g")
    assert receipt.loaded == {"node:Page": 3, "node:Item": 6, "edge:PageItem": 6}
    counted = (
        "query q() { match { $p: Page  $p pageItem $i } return { $p.page as page, count($i) as items } order { page } }"
    )
    assert [tuple(row.values()) for row in graph.query(counted)] == [(1, 1), (2, 2), (3, 3)]
    whole = infer_text(tmp_path, json.dumps(pages[2]), "one.json")
    assert types_of(catalog_of(whole), "node:Item") == {"sku": "String", "n": "I64"}


def test_compressed_files_other_files_and_lines_that_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "things.csv.gz").write_bytes(gzip.compress(b"a;b\n1;x\n2;y\n"))
    write(folder / "more.tsv", "code\tn\nk\t1\nl\t2\todd\n")
    write(folder / "notes.txt", "x")
    imported = og.import_data(folder, tmp_path / "g", rejects=tmp_path / "aside.jsonl", engine="local")
    assert "// Ignored, because they are not data: notes.txt." in imported.inferred.schema
    assert imported.receipt is not None
    assert (dict(imported.receipt.loaded), imported.receipt.rejected) == ({"node:More": 1, "node:Thing": 2}, 1)


def test_every_label_of_an_export_is_known_whatever_the_sample(tmp_path: Path) -> None:
    for name, text in NEO4J.items():
        write(tmp_path / name, text)
    assert loaded(og.infer_schema(tmp_path, sample=1), tmp_path / "g")[1].total_entities == 8


def test_a_reference_may_be_missing_in_words(tmp_path: Path) -> None:
    write(tmp_path / "ports.csv", "code\nA\nB\n")
    write(tmp_path / "calls.csv", "id,port\n1,A\n2,N/A\n3,B\n")
    inferred = og.infer_schema(tmp_path)
    assert "'N/A' means none (1 of 3)" in inferred.schema
    assert loaded(inferred, tmp_path / "g")[1].loaded == {"node:Call": 3, "node:Port": 2, "edge:CallPort": 2}


def test_objects_that_come_again_in_lists_are_shared(tmp_path: Path) -> None:
    labels = [{"id": place, "name": f"l{place}"} for place in range(3)]
    issues = [{"number": number, "labels": labels[: number % 4], "owner": labels[0]} for number in range(1, 9)]
    inferred = infer_text(tmp_path, json.dumps(issues), "issues.json")
    held = sum(len(issue["labels"]) for issue in issues)  # type: ignore[arg-type]  # a list
    assert loaded(inferred, tmp_path / "g")[1].loaded == {
        "node:Issue": 8, "node:Label": 3, "edge:IssueLabel": held, "edge:IssueOwner": 8
    }  # fmt: skip


def test_folders_that_stand_for_a_column_are_one(tmp_path: Path) -> None:
    for day in (1, 2):
        part = tmp_path / "lake" / "sales" / f"sold on=2026-01-0{day}"
        part.mkdir(parents=True)
        pq.write_table(pa.table({"sale": [f"s{day}"], "n": [day]}), part / "part-0000.parquet")
    imported = og.import_data(tmp_path / "lake", tmp_path / "g", engine="local")
    assert imported.graph is not None
    assert types_of(catalog_of(imported.inferred), "node:Sale") == {"sale": "String", "n": "I64", "sold_on": "Date"}
    assert str((imported.graph.entity("Sale", "s2") or {})["sold_on"]) == "2026-01-02"


def test_other_files_of_a_folder_with_a_map_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "things.csv", "a\n1\n")
    inferred = og.infer_schema(folder)
    write(folder / "README.md", "x")
    graph = og.init(tmp_path / "g", inferred.schema, durability="process")
    assert graph.load(folder, mode="append", map=inferred.map, engine="local").total_entities == 1
    with pytest.raises(UsageError, match="the format of"):
        graph.load(folder / "README.md", mode="append", map=inferred.map, engine="local")


def test_a_key_and_references_to_it_make_an_edge(tmp_path: Path) -> None:
    write(tmp_path / "ports.csv", "LOCODE,Port Name\nA,Aah\nB,Bee\nC,Cee\n")
    write(tmp_path / "calls.csv", "id,port,note\n1,A,x\n2,B,x\n3,,x\n4,A,x\n")
    inferred = og.infer_schema(tmp_path)
    catalog = catalog_of(inferred)
    assert catalog.nodes["Port"].key == ("locode",)
    assert catalog.nodes["Call"].key == ("call_id",)
    assert (catalog.edges["CallPort"].source, catalog.edges["CallPort"].target) == ("Call", "Port")
    assert "'port': all 2 different values are keys of Port" in inferred.schema
    graph, receipt = loaded(inferred, tmp_path / "g")
    assert receipt.loaded == {"node:Call": 4, "node:Port": 3, "edge:CallPort": 3}
    found = graph.query(
        "query q() { match { $c: Call  $c callPort $p } return { $c.call_id as call, $p.port_name as port } order { call } }"
    )
    assert [tuple(row.values()) for row in found] == [(1, "Aah"), (2, "Bee"), (4, "Aah")]


def test_a_table_of_two_references_is_an_edge(tmp_path: Path) -> None:
    write(tmp_path / "people.csv", "name,age\nAda,36\nBo,28\n")
    write(tmp_path / "knows.csv", "from,to,since\nAda,Bo,2020-01-01\n")
    catalog = catalog_of(og.infer_schema(tmp_path))
    assert (catalog.edges["Know"].source, types_of(catalog, "edge:Know")) == (
        "Person",
        {"since": "Date"},
    )


def test_keys_beyond_the_sample_do_not_cost_an_edge(tmp_path: Path) -> None:
    write(tmp_path / "ports.csv", "code\nA\nB\nC\nD\n")
    write(tmp_path / "calls.csv", "id,port,other\n1,A,A\n2,D,C\n3,,C\n")
    inferred = og.infer_schema(tmp_path, sample=2)
    assert set(catalog_of(inferred).edges) == {"CallPort"}
    assert "'port': 1 of 2 different values are keys of the 2 sampled rows of Port" in inferred.schema
    assert loaded(inferred, tmp_path / "g")[1].loaded == {"node:Call": 3, "node:Port": 4, "edge:CallPort": 2}


def test_choices_instead_of_guesses(tmp_path: Path) -> None:
    write(tmp_path / "ports.csv", "code,land\nA,x\nB,y\nC,x\n")
    write(tmp_path / "lanes.csv", "port,to_port,tag\nA,B,fast\nB,Z,slow\nC,C,fast\n")

    def edges(**options: Any) -> dict[str, tuple[str, str]]:
        inferred = og.infer_schema(tmp_path, **options)
        loads = og.init(tmp_path / "g", inferred.schema, durability="process").load(
            list(inferred.files), mode="append", map=inferred.map, engine="local", missing="skip"
        )
        shutil.rmtree(tmp_path / "g")
        assert loads.total_entities
        return {name: (edge.source, edge.target) for name, edge in catalog_of(inferred).edges.items()}

    assert (
        "'to_port': text, 3 different in 3 values; 66.7% of 3 values are keys of Port, not 'Z' (--choose Lane.to_port=Port, or "
        in (og.infer_schema(tmp_path).schema)
    )
    assert edges() == {"LanePort": ("Lane", "Port")}
    assert edges(missing="skip") == {"Lane": ("Port", "Port")}
    assert edges(missing="skip", choose={"Lane": "node"}) == {
        "LanePort": ("Lane", "Port"),
        "LaneToPort": ("Lane", "Port"),
    }
    assert edges(choose={"Lane.port": "property"}) == {}
    assert edges(choose={"Lane.to_port": "Port", "Lane": "edge"}) == {"Lane": ("Port", "Port")}
    assert edges(choose={"Lane.tag": "node", "Lane.to_port": "property"}) == {"Lane": ("Port", "Tag")}
    assert edges(choose={"Port.land": "node", "Lane.port": "property"}) == {"PortLand": ("Port", "Land")}
    for choose in ({"Ship": "node"}, {"Lane.x": "Port"}, {"Lane": "thing"}, {"Lane.port": "Ship"}, {"Port": "edge"}):
        with pytest.raises(UsageError):
            og.infer_schema(tmp_path, choose=choose)


def test_a_value_of_no_key_leaves_a_property(tmp_path: Path) -> None:
    write(tmp_path / "ports.csv", "code\nA\nB\n")
    write(tmp_path / "calls.csv", "id,port\n1,A\n2,B\n3,Z\n")
    catalog = catalog_of(og.infer_schema(tmp_path))
    assert not catalog.edges
    assert "port" in catalog.nodes["Call"].properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", None),
        ("a,b\n", {"a": "String?", "b": "String?"}),
        ("\ufeffname,n\nx,1\ny,2\n", {"name": "String", "n": "I64"}),
        ("a;b\n1;2\n3;4\n", {"a": "I64", "b": "I64"}),
        ("x,x,x\n1,2,\n3,4,5\n", {"x": "I64", "x_2": "I64", "x_3": "I64?"}),
        ("id,from,to,src,_rowid,match\n1,2,3,4,5,6\n", dict.fromkeys(["thing_id", "from_2", "to_2", "src_2", "rowid", "match"], "I64")),
        ("größe,2nd,, \n1,2,3,4\n", {"grosse": "I64", "n2_nd": "I64", "column_3": "I64", "column_4": "I64"}),
        ("A,a,a_2\n1,2,3\n", {"a": "I64", "a_2": "I64", "a_2_2": "I64"}),
        ('a\n"say ""hi""\nthere"\n"b // c"\n', {"a": "String"}),
    ],
)  # fmt: skip
def test_hostile_headers_and_cells(text: str, properties: dict[str, str] | None, tmp_path: Path) -> None:
    if properties is None:
        with pytest.raises(UsageError, match="nothing to infer a schema from"):
            infer_text(tmp_path, text)
        return
    inferred = infer_text(tmp_path, text)
    assert types_of(catalog_of(inferred), "node:Thing") == properties
    loaded(inferred, tmp_path / "g")


def test_300_columns(tmp_path: Path) -> None:
    names = [f"column {number}" for number in range(300)]
    inferred = infer_text(tmp_path, ",".join(names) + "\n" + ",".join(map(str, range(300))) + "\n")
    assert len(catalog_of(inferred).nodes["Thing"].properties) == 300
    assert loaded(inferred, tmp_path / "g")[1].total_entities == 1


def test_the_sample_is_stated_and_what_comes_later_is_refused(tmp_path: Path) -> None:
    inferred = infer_text(tmp_path, "n\n1\n2\nmany\n", sample=2)
    assert "Based on the first 2 rows" in inferred.schema
    with pytest.raises(RejectedRecords, match=r"things\.csv:4"):
        loaded(inferred, tmp_path / "g")
    everything = infer_text(tmp_path, "n\n1\n2\nmany\n", sample=0)
    assert loaded(everything, tmp_path / "g")[1].total_entities == 3


def test_a_key_that_is_asked_for_is_taken_or_refused(tmp_path: Path) -> None:
    text = "a,b\n1,x\n2,x\n"
    assert catalog_of(infer_text(tmp_path, text, key=["Thing.a"])).nodes["Thing"].key == ("a",)
    assert catalog_of(infer_text(tmp_path, text, key=["Thing.a,b"])).nodes["Thing"].key == ("a", "b")
    with pytest.raises(
        UsageError, match=r"'b' of things\.csv cannot be a key: 0 of 2 rows have no value, and there are 1 different"
    ):
        infer_text(tmp_path, text, key=["b"])
    with pytest.raises(UsageError, match=r"no table has the key 'Thing\.c'"):
        infer_text(tmp_path, text, key=["Thing.c"])


ISSUES = [
    {
        "number": number,
        "author": {"login": "ab"[number % 2], "site": "s"},
        "milestone": {"title": "m", "due": "2026-01-01"},
        "labels": ["x", "y"][: number % 3],
        "comments": [{"body": f"b{each}", "author": {"login": "a", "site": "s"}} for each in range(number % 3)],
    }
    for number in range(1, 8)
]


@pytest.mark.parametrize("shape", ["lines", "array", "document"])
def test_nested_json_becomes_types_edges_and_flat_properties(shape: str, tmp_path: Path) -> None:
    text = {
        "lines": "\n".join(map(json.dumps, ISSUES)),
        "array": json.dumps(ISSUES, indent=1),
        "document": json.dumps({"issues": ISSUES}),
    }[shape]
    inferred = infer_text(tmp_path, text, "issues.json")
    catalog = catalog_of(inferred)
    assert types_of(catalog, "node:Issue") == {
        "number": "I64", "milestone_title": "String", "milestone_due": "Date", "labels": "[String]"
    }  # fmt: skip
    assert catalog.nodes["Author"].key == ("login",)
    assert set(catalog.edges) == {"IssueAuthor", "CommentAuthor", "IssueComment"}
    comments = sum(len(issue["comments"]) for issue in ISSUES)  # type: ignore[arg-type]  # a list
    assert loaded(inferred, tmp_path / "g")[1].loaded == {
        "node:Issue": 7, "node:Author": 2, "node:Comment": comments, "edge:IssueAuthor": 7, "edge:CommentAuthor": comments,
        "edge:IssueComment": comments,
    }  # fmt: skip


AUTHORS = [{"name": f"a{number}", "born": 1900 + number} for number in range(8)]
DATED = [{"name": "Al", "email": f"{who}@x.org", "date": f"2026-01-{day:02}"} for day in range(1, 9) for who in "ab"]


@pytest.mark.parametrize(
    ("authors", "key", "kept"),
    [
        ([AUTHORS[number % 8] for number in range(10)], "name", {}),
        ([{"name": f"a{number % 4}"} for number in range(12)], "name", {}),
        ([{"author_id": number % 3, "site": f"s{number % 3}"} for number in range(12)], "author_id", {}),
        ([None, *({"name": f"a{number % 3}", "site": None} for number in range(12))], "name", {}),
        (DATED, "email", {"author_date": "Date"}),
        (
            [{"email": f"m{number % 3}", "name": f"n{number}"} for number in range(12)],
            "email",
            {"author_name": "String"},
        ),
    ],
    ids=["few repeat", "only a name", "a name that ends in id", "some without", "with a date", "with several names"],
)
def test_an_object_that_comes_again_is_one_node(
    authors: list[dict[str, Any] | None], key: str, kept: dict[str, str], tmp_path: Path
) -> None:
    """Members in which equal ones differ belong to the record around them."""
    books = [{"title": f"t{number}", "author": author} for number, author in enumerate(authors)]
    inferred = infer_text(tmp_path, json.dumps(books), "books.json")
    catalog = catalog_of(inferred)
    assert catalog.nodes["Author"].key == (key,)
    assert types_of(catalog, "node:Book") == {"title": "String", **kept}
    named = [author[key] for author in authors if author is not None]
    assert loaded(inferred, tmp_path / "g")[1].loaded == {
        "node:Author": len(set(named)), "node:Book": len(books), "edge:BookAuthor": len(named)
    }  # fmt: skip


@pytest.mark.parametrize("place", ["author", "committer"])
def test_people_in_two_roles_are_of_one_type(place: str, tmp_path: Path) -> None:
    log = [{"commit": f"c{number}", "author": DATED[number], "committer": DATED[-number]} for number in range(16)]
    inferred = infer_text(tmp_path, json.dumps(log), "log.json")
    assert catalog_of(inferred).edges[f"Log{place.title()}"].target == "Author"
    assert loaded(inferred, tmp_path / "g")[1].loaded["node:Author"] == 2


@pytest.mark.parametrize(
    "member",
    [
        [{"name": "only", "born": 1900}] * 9,
        [{"x": number % 3, "y": number % 2} for number in range(9)],
        [{"code": 200 + number % 2} for number in range(9)],
        [{"name": f"a{number % 3}", "share": number} for number in range(9)],
        [{"email": f"m{number % 3}", "seen": [number]} for number in range(9)],
    ],
    ids=["always the same", "no name", "a number", "a name of different things", "lists that differ"],
)
def test_an_object_that_does_not_say_which_one_it_is_is_flattened(member: list[dict[str, Any]], tmp_path: Path) -> None:
    text = json.dumps([{"title": f"t{number}", "inner": inner} for number, inner in enumerate(member)])
    assert set(catalog_of(infer_text(tmp_path, text, "things.json")).nodes) == {"Thing"}


def test_parts_of_one_table_are_one_type(tmp_path: Path) -> None:
    for part in range(3):
        frame = pa.table(
            {
                "event": [f"{part}-{row}" for row in range(4)],
                "at": pa.array([0] * 4, pa.timestamp("ms")),
                "x": {"y": [1] * 4}["y"],
            }
        )
        pq.write_table(frame, tmp_path / f"events-{part:04}.parquet")
    inferred = og.infer_schema(tmp_path)
    assert types_of(catalog_of(inferred), "node:Event") == {"event": "String", "at": "DateTime", "x": "I64"}
    assert loaded(inferred, tmp_path / "g")[1].loaded == {"node:Event": 12}


def test_columns_of_parquet_keep_their_types(tmp_path: Path) -> None:
    columns = {
        "u": pa.array([2**64 - 1], pa.uint64()),
        "d": pa.array([1], pa.decimal128(10, 2)),
        "s": pa.array([{"a": 1, "b": {"c": "x"}}]),
        "l": pa.array([[{"a": 1}]]),
        "t": pa.array([1], pa.time64("us")),
        "k": pa.array(["x"]).dictionary_encode(),
        "raw": pa.array([b"x"]),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    inferred = og.infer_schema(tmp_path)
    assert types_of(catalog_of(inferred), "node:Row") == {
        "u": "U64", "d": "F64", "s_a": "I64", "s_b_c": "String", "l": "String", "t": "String", "k": "String", "raw": "Blob"
    }  # fmt: skip
    graph, _ = loaded(inferred, tmp_path / "g")
    (row,) = graph.query("query q() { match { $r: Row } return { $r.l as l, $r.t as t, $r.s_b_c as c } }").rows
    assert row == {"l": '[{"a": 1}]', "t": "00:00:00.000001", "c": "x"}


NEO4J = {
    "people.csv": "personId:ID(P),name,born:int,aliases:string[],:LABEL\n1,Ann,1970,a;b,Person\n2,Bo,,,Person;Actor\n",
    "works.csv": ":ID(W),title,:LABEL\n1,Up,Movie\n2,It,Book\n",
    "roles.csv": ":START_ID(P),role,:END_ID(W),:TYPE\n1,x,1,ACTED_IN\n2,,1,ACTED_IN\n2,,1,LIKES\n1,,2,LIKES\n",
}


def test_an_export_for_neo4j_is_what_its_headers_say(tmp_path: Path) -> None:
    for name, text in NEO4J.items():
        write(tmp_path / name, text)
    inferred = og.infer_schema(tmp_path)
    catalog = catalog_of(inferred)
    assert types_of(catalog, "node:Person") == {
        "personId": "I64", "name": "String", "born": "I64?", "aliases": "[String]?", "labels": "[String]"
    }  # fmt: skip
    ends = {name: (edge.source, edge.target) for name, edge in catalog.edges.items()}
    assert ends == {
        "ActedIn": ("Person", "Movie"), "PersonLikesMovie": ("Person", "Movie"), "PersonLikesBook": ("Person", "Book")
    }  # fmt: skip
    graph, receipt = loaded(inferred, tmp_path / "g")
    assert receipt.loaded == {
        "node:Person": 2, "node:Movie": 1, "node:Book": 1, "edge:ActedIn": 2, "edge:PersonLikesMovie": 1,
        "edge:PersonLikesBook": 1,
    }  # fmt: skip
    assert (graph.entity("Person", "2") or {})["labels"] == ["Person", "Actor"]


def test_a_relationship_to_no_node_is_named(tmp_path: Path) -> None:
    for name, text in NEO4J.items():
        write(tmp_path / name, text + ("9,,1,LIKES\n" if name == "roles.csv" else ""))
    with pytest.raises(UsageError, match=r"'9' in ':START_ID\(P\)' of roles\.csv is the id of no node"):
        og.infer_schema(tmp_path)


KUZU = {
    "schema.cypher": "CREATE NODE TABLE User (name STRING, zip STRING, age INT64, PRIMARY KEY(name));\n"
    "CREATE NODE TABLE IF NOT EXISTS `City` (id SERIAL PRIMARY KEY, name STRING);\n"
    "CREATE REL TABLE Follows (FROM User TO User, since INT64, MANY_MANY);\nCREATE REL TABLE LivesIn (FROM User TO City);\n",
    "copy.cypher": 'COPY User FROM "users.csv" (header=true);\nCOPY Follows FROM "f.csv" (header=true);\n'
    'COPY City FROM "c.csv";\nCOPY LivesIn FROM "LivesIn.csv" (header=false);\n',
    "users.csv": "name,zip,age\nAda,1010,36\nBo,2020,28\n",
    "f.csv": "a,b,since\nAda,Bo,2020\n",
    "c.csv": "1,Paris\n2,Lyon\n",
    "LivesIn.csv": "Ada,1\nBo,2\n",
}


def test_a_folder_of_kuzu_is_what_its_schema_says(tmp_path: Path) -> None:
    for name, text in KUZU.items():
        write(tmp_path / name, text)
    inferred = og.infer_schema(tmp_path)
    catalog = catalog_of(inferred)
    assert {name: node.key for name, node in catalog.nodes.items()} == {"User": ("name",), "City": ("city_id",)}
    assert types_of(catalog, "node:User") == {"name": "String", "zip": "String", "age": "I64"}
    assert {name: (each.source, each.target, list(each.properties)) for name, each in catalog.edges.items()} == {
        "Follow": ("User", "User", ["since"]), "LivesIn": ("User", "City", [])
    }  # fmt: skip
    assert loaded(inferred, tmp_path / "g")[1].total_entities == 7


def test_a_header_of_neo4j_may_be_a_file_of_its_own(tmp_path: Path) -> None:
    for name, text in {
        "movies-header.csv": "id:ID(M),title,year:int,:LABEL\n",
        "movies-part1.csv": "007,Up,2009,Movie\n",
        "movies-part2.csv": "008,It,,Movie\n",
        "likes_header.csv": ":START_ID(M),:END_ID(M),:TYPE\n",
        "likes.csv": "007,008,LIKES\n",
    }.items():
        write(tmp_path / name, text)
    inferred = og.infer_schema(tmp_path)
    assert types_of(catalog_of(inferred), "node:Movie") == {"movie_id": "String", "title": "String", "year": "I64?"}
    graph, receipt = loaded(inferred, tmp_path / "g")
    assert receipt.loaded == {"node:Movie": 2, "edge:Like": 1}
    assert (graph.entity("Movie", "007") or {})["year"] == 2009


SHOP = """
create table customers (id integer primary key, email text not null);
create table products (sku text primary key, price real);
create table orders (id integer primary key, customer_id integer references customers(id), placed text);
create table order_items (order_id integer references orders(id), sku text references products, n integer, primary key (order_id, sku));
create table parts (sku text, no integer, inside_sku text, inside_no integer, name varchar(9), is_new boolean, paid decimal(9, 2), primary key (sku, no), foreign key (inside_sku, inside_no) references parts (sku, no));
create table managers (id integer primary key, manager_id integer references managers(id));
insert into customers values (1, 'a@x'), (2, 'b@x');
insert into products values ('p1', 9.5), ('p2', 3);
insert into orders values (1, 1, '2026-01-01'), (2, null, '2026-01-02');
insert into order_items values (1, 'p1', 2), (1, 'p2', 1);
insert into parts values ('p1', 1, null, null, '12', true, 3);
insert into parts values ('p1', 2, 'p1', 1, '34', false, 4.5);
insert into managers values (1, null);
insert into managers values (2, 1);
"""


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_foreign_keys_and_join_tables_of_a_database_are_edges(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection: Any = sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(str(path))
    for statement in filter(str.strip, SHOP.split(";")):
        connection.execute(statement)
    connection.commit()
    connection.close()
    inferred = og.infer_schema(path)
    catalog = catalog_of(inferred)
    assert {name: node.key for name, node in catalog.nodes.items()} == {
        "Customer": ("customer_id",), "Order": ("order_id",), "Product": ("sku",), "Part": ("sku", "no"),
        "Manager": ("manager_id",),
    }  # fmt: skip
    assert {name: (edge.source, edge.target) for name, edge in catalog.edges.items()} == {
        "OrderCustomer": ("Order", "Customer"), "OrderItem": ("Order", "Product"), "PartPart": ("Part", "Part"),
        "ManagerManager": ("Manager", "Manager"),
    }  # fmt: skip
    assert types_of(catalog, "node:Part") == {
        "sku": "String", "no": "I64", "name": "String", "is_new": "Bool", "paid": "F64"
    }  # fmt: skip
    assert loaded(inferred, tmp_path / "g")[1].loaded == {
        "node:Customer": 2, "node:Order": 2, "node:Product": 2, "edge:OrderCustomer": 1, "edge:OrderItem": 2, "node:Part": 2,
        "edge:PartPart": 1, "node:Manager": 2, "edge:ManagerManager": 1,
    }  # fmt: skip


def test_what_is_no_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"\x1f\x8b123")
    with pytest.raises(UnreadableInput, match="the file is gzip data"):
        og.infer_schema(tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="there is no data in"):
        og.infer_schema(Path(write(tmp_path / "other" / "readme.md", "x")).parent)


def test_an_import_is_one_commit_and_can_be_run_again_after_it_failed(tmp_path: Path) -> None:
    source = write(tmp_path / "things.csv", "n\n1\n2\nmany\n")
    dry = og.import_data(source, tmp_path / "g", sample=2, dry_run=True)
    assert (dry.graph, (tmp_path / "g").exists()) == (None, False)
    with pytest.raises(RejectedRecords) as caught:
        og.import_data(source, tmp_path / "g", sample=2, engine="local")
    assert "was made and is empty: run the import again" in str(caught.value.hint)
    imported = og.import_data(source, tmp_path / "g", engine="local")
    assert imported.graph is not None
    assert next(commit.kind for commit in imported.graph.commits()) == "load"
    assert imported.graph.snapshot().types[0].entities == 3
    with pytest.raises(AlreadyExists):
        og.import_data(source, tmp_path / "g", engine="local")


# ---------------------------------------------------------------- anything


def quoted(cell: str | None) -> str:
    return "" if cell is None else '"' + cell.replace('"', '""') + '"'


CELL = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(
        [
            "",
            "true",
            "007",
            "2026-01-01",
            "2026-02-30",
            "2026-01-01 10:00",
            "[1]",
            '["a"]',
            "[",
            "N/A",
            "a",
            "b",
            "$1,5",
            "2 %",
            "€",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=5),
)
NAME = st.one_of(
    st.sampled_from(["id", "name", "from", "to", "type", "Table", "a b", "", "#", "x:ID", "_rowid", "a.b"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6),
)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[list[str], list[list[str | None]]]]:
    drawn = []
    for _ in range(draw(st.integers(1, 3))):
        header = draw(st.lists(NAME, min_size=2, max_size=4))
        column = st.one_of(
            CELL, draw(st.sampled_from([st.integers(0, 5).map(str), st.sampled_from(["k1", "k2", "k3"])]))
        )
        drawn.append((header, draw(st.lists(st.lists(column, min_size=len(header), max_size=len(header)), max_size=8))))
    return drawn


@given(tables())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=8
)
def test_whatever_the_files_hold_their_schema_takes_them(
    tmp_path: Path, drawn: list[tuple[list[str], list[list[str | None]]]]
) -> None:
    folder = tmp_path / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, (header, rows) in enumerate(drawn):
        with (folder / f"t{number}x.csv").open("w", encoding="utf-8", newline="") as file:
            for row in [header, *rows]:
                file.write(",".join(map(quoted, row)) + "\n")
    inferred = og.infer_schema(folder)
    catalog_of(inferred)
    _, receipt = loaded(inferred, tmp_path / "g")
    nodes = sum(count for key, count in receipt.loaded.items() if key.startswith("node:"))
    whole = sum(any(cell is not None for cell in row) for _, rows in drawn for row in rows)
    assert nodes + sum(receipt.loaded.values()) >= whole >= nodes


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(allow_nan=False), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "login", "a", "b.c", "#", "x y", ""]), inner, max_size=4),
    ),
    max_leaves=8,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["id", "name", "user", "items", "é"]), JSON, max_size=4), min_size=1, max_size=6
    )
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=8
)
def test_whatever_json_holds_its_schema_takes_it(tmp_path: Path, documents: list[dict[str, Any]]) -> None:
    text = json.dumps(documents)
    (tmp_path / "docs.json").write_text(text, encoding="utf-8")
    try:
        inferred = og.infer_schema(tmp_path / "docs.json")
    except UsageError:
        assert not any(documents)
        return
    catalog_of(inferred)
    loaded(inferred, tmp_path / "g")
