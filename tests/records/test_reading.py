"""Reading records: the fast way by columns says the same as the strict way line by line, wherever a file is cut."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import InputError
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.pipeline.load.reading import line_blocks
from omnigraph.records import graph_batch
from omnigraph.records.csv_rows import CsvReader
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.records.graph_batch import GraphBatchReader
from omnigraph.records.lines import record_row
from omnigraph.records.tabular import TabularReader

CATALOG = compile_schema("""
node A {
  k: I64 @key
  s: String?
  e: enum(x, y)?
  i: I32?
  u: U64?
  f: F32?
  g: F64?
  b: Bool?
  d: Date?
  t: DateTime?
  v: Vector(2)?
  l: [I32]?
  m: [Date]?
  p: Blob?
}
node B { a: String  n: I32? @default(7) }
node C { x: F64  y: String  @key(x, y) }
edge E: A -> B { w: F64? }
""")
FRESH = FreshIds.after("01ARZ3NDEKTSV4RRFFQ69G5FAV")

numbers = st.one_of(
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 1, -1, 2**31, 1e39]),
)
texts = st.one_of(st.text(max_size=4), st.sampled_from(["2020-01-01", "2020-01-01T00:00:00Z", "base64:aGk=", "", "12"]))
values = st.one_of(st.none(), st.booleans(), numbers, texts, st.lists(st.one_of(numbers, st.none(), texts), max_size=3))
properties = st.sampled_from(
    ["k", "s", "e", "i", "u", "f", "g", "b", "d", "t", "v", "l", "m", "p", "id", "a", "n", "x", "y", "w"]
)
bodies = st.dictionaries(properties, values, max_size=4)
fitting = st.fixed_dictionaries(
    {"k": st.integers(-5, 5)},
    optional={
        "s": texts,
        "i": st.integers(-9, 9),
        "f": st.floats(-9, 9),
        "d": st.integers(-9, 9),
        "v": st.just([1, 2]),
    },
)
records = st.one_of(
    st.builds(lambda data: {"type": "A", "data": data}, st.one_of(fitting, bodies)),
    st.builds(lambda data: {"type": "B", "data": data}, bodies),
    st.builds(lambda data: {"type": "C", "data": data}, bodies),
    st.builds(lambda a, b, data: {"edge": "E", "from": a, "to": b, "data": data}, texts, texts, bodies),
    st.builds(lambda data: {"data": data, "type": "A"}, fitting),
)
lines = st.one_of(
    st.builds(
        lambda record, tight: json.dumps(record, separators=(",", ":") if tight else None), records, st.booleans()
    ),
    st.builds(lambda record: json.dumps(record, ensure_ascii=False), records),
    st.sampled_from(
        ["", "  ", "null", "{}", '{"type":"A"}', '{"type":"A","data":{"k":1,"k":2}}', '{"type":"A","data":{"k":1}}}']
    ),
)


def slowly(text: list[str]) -> tuple[dict[int, tuple[str, dict[str, Any]]], dict[int, str]]:
    rows, refused = {}, {}
    for number, line in enumerate(text, start=1):
        data = line.encode("utf-8", "surrogatepass").strip(b" \t\r\n")
        if not data:
            continue
        try:
            key, row, _ = record_row(data, CATALOG, lambda n=number: FRESH.for_row(n))
        except InputError as error:
            refused[number] = error.message
        else:
            rows[number] = (key, row)
    return rows, refused


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=12), st.integers(1, 4))
def test_reading_by_columns_is_reading_line_by_line(text: list[str], halves: int) -> None:
    rows, refused = slowly(text)
    block = "".join(f"{line}\n" for line in text).encode("utf-8", "surrogatepass")
    reader = GraphBatchReader(CATALOG, FRESH)
    keep, graph_batch._MIN_HALVES = graph_batch._MIN_HALVES, halves
    try:
        typed = list(reader.read(block, 1)) if block else []
    finally:
        graph_batch._MIN_HALVES = keep
    found = {
        line: (one.key, row)
        for one in typed
        for line, row in zip(one.lines.to_pylist(), one.rows.to_pylist(), strict=True)
    }
    assert {reject.line: reject.reason for reject in reader.rejects} == refused
    assert found.keys() == rows.keys()
    for line, (key, row) in rows.items():
        assert found[line][0] == key
        assert repr(found[line][1]) == repr({name: row[name] for name in found[line][1]})


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"a", b"bb", b"ccccc"]), max_size=8),
    st.booleans(),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_every_line_belongs_to_exactly_one_split(text: list[bytes], ends: bool, cuts: list[int]) -> None:
    data = b"\n".join(text) + (b"\n" if ends and text else b"")
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found: list[bytes] = []
    for start, end in itertools.pairwise(places):
        file = io.BytesIO(data)
        file.seek(max(start - 1, 0))
        for block in line_blocks(file, start, end):
            found += block.removesuffix(b"\n").split(b"\n")
    assert found == (data.removesuffix(b"\n").split(b"\n") if data else [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**35 - 1), min_size=1, max_size=9))
def test_many_fresh_ids_are_the_single_ones(rows: list[int]) -> None:
    ids = FRESH.for_rows(pa.array(rows, pa.int64())).to_pylist()
    assert ids == [FRESH.for_row(row) for row in rows]
    assert sorted(ids) == [FRESH.for_row(row) for row in sorted(rows)]
    assert all(len(id) == 26 for id in ids)


def test_cells_of_csv_keep_null_apart_from_empty_text() -> None:
    source = CsvReader(io.BytesIO(b'\xef\xbb\xbfa,n\n"",5\n\n,6\n"x\n""y""",\n'))
    reader = TabularReader(CATALOG, "node:B", source.header, FRESH, text=True)
    typed = [reader.read(table, at) for table, at in source.blocks()]
    source.finish()
    assert [(row["a"], row["n"]) for one in typed for row in one.rows.to_pylist()] == [
        ("", 5),
        (None, 6),
        ('x\n"y"', None),
    ]
    assert [line for one in typed for line in one.lines.to_pylist()] == [2, 4, 5]
    assert source.rejects == reader.rejects == []


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1.5]), "A.k expects I64, got 1.5"),
        (pa.array([2.0**53 * 2]), "A.k expects I64, got 1.8014398509481984e+16"),
        (pa.array(["x"]), "A.k expects I64, got 'x'"),
        (pa.array([None], pa.int64()), "key property A.k is missing"),
        (pa.array([2**63], pa.uint64()), f"A.k expects I64 ({-(2**63)} to {2**63 - 1}), got {2**63}"),
    ],
)
def test_typed_columns_are_never_rounded_or_cut(column: pa.Array, said: str) -> None:
    reader = TabularReader(CATALOG, "node:A", ["k"], FRESH, text=False)
    assert reader.read(pa.table({"k": column}), pa.array([1])).rows.num_rows == 0
    assert [reject.reason for reject in reader.rejects] == [said]
