"""Reading records: the fast way by columns says the same as the strict way line by line, wherever a file is cut."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from omnigraph.errors import InputError
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.load.reading import line_blocks
from omnigraph.records import graph_batch
from omnigraph.records.csv_rows import CsvReader
from omnigraph.records.graph_batch import GraphBatchReader, parsed_line
from omnigraph.records.ids import FreshIds
from omnigraph.records.json_columns import TypeColumns
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
node D { day: Date @key }
node T { at: DateTime @key }
edge E: A -> B { w: F64? }
edge G: D -> T
""")
FRESH = FreshIds.new()

DATES = [
    "2020-01-01",
    "0000-01-01",
    "0001-01-01",
    "2020-02-30",
    "2020-01-01T00:00:00Z",
    "2020-01-01 00:00:00.123456",
    "2020-01-01T00:00:00.1234567Z",
    "2020-01-01T00:00:00.123456000Z",
    "0000-12-31T23:59:59Z",
    "2020-01-01T24:00:00Z",
    "2020-01-01T23:59:60Z",
    "2020-01-01T00:00:00+01:00",
]

numbers = st.one_of(
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 1, -1, 2**31, 1e39]),
)
texts = st.one_of(st.text(max_size=4), st.sampled_from([*DATES, "base64:aGk=", "", "12", "-0", "9223372036854775808"]))
values = st.one_of(st.none(), st.booleans(), numbers, texts, st.lists(st.one_of(numbers, st.none(), texts), max_size=3))
properties = st.sampled_from(
    ["k", "s", "e", "i", "u", "f", "g", "b", "d", "t", "v", "l", "m", "p", "id", "a", "n", "x", "y", "w", "day", "at"]
)
bodies = st.dictionaries(properties, values, max_size=4)
fitting = st.fixed_dictionaries(
    {"k": st.integers(-5, 5)},
    optional={
        "s": texts,
        "i": st.integers(-9, 9),
        "f": st.floats(-9, 9),
        "d": st.integers(-9, 9),
        "t": st.sampled_from(DATES),
        "v": st.just([1, 2]),
    },
)
records = st.one_of(
    st.builds(lambda data: {"type": "A", "data": data}, st.one_of(fitting, bodies)),
    st.builds(lambda data: {"type": "B", "data": data}, bodies),
    st.builds(lambda data: {"type": "C", "data": data}, bodies),
    st.builds(lambda a, b, data: {"edge": "E", "from": a, "to": b, "data": data}, texts, texts, bodies),
    st.builds(lambda data: {"data": data, "type": "A"}, fitting),
    st.builds(lambda day: {"type": "D", "data": {"day": day}}, st.sampled_from(DATES)),
    st.builds(lambda at: {"type": "T", "data": {"at": at}}, st.sampled_from([*DATES, 5, -1])),
    st.builds(lambda a, b: {"edge": "G", "from": a, "to": b, "data": {"id": "g"}}, texts, texts),
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
            record = parsed_line(data, CATALOG)
            key, row = record.entity.table_key, record.row(CATALOG, lambda n=number: FRESH.for_row(n))
        except InputError as error:
            refused[number] = error.message
        else:
            rows[number] = (key, row)
    return rows, refused


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=12), st.integers(1, 4), st.integers(0, 12))
def test_reading_by_columns_is_reading_line_by_line(text: list[str], halves: int, cut: int) -> None:
    """In two blocks: what was wrong in the first decides how the second is read."""
    rows, refused = slowly(text)
    reader = GraphBatchReader(CATALOG, FRESH)
    keep, graph_batch._MIN_HALVES = graph_batch._MIN_HALVES, halves
    typed: list[Any] = []
    try:
        for first_line, part in ((1, text[:cut]), (cut + 1, text[cut:])):
            if part:
                block = "".join(f"{line}\n" for line in part).encode("utf-8", "surrogatepass")
                typed += reader.read(block, first_line)
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


cells = st.one_of(
    st.none(),
    st.sampled_from([*DATES, "true", "false", "TRUE", "0", "-1", "007", "+5", "1.5", ".5", "1e3", "1e999", "nan", "1_0", " 1", "[]", "[1]", '["x"]', "[null]", "[NaN]", "x", "y", "", "base64:aGk=", "19723", "9223372036854775808"]),
    st.integers(-(2**64), 2**64).map(str),
    st.floats().map(repr),
)  # fmt: skip
of_one_kind = [
    st.sampled_from([date for date in DATES if len(date) == 10 and date != "2020-02-30"]),
    st.sampled_from(["2020-01-01 00:00:00.123456", "1969-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"]),
    st.integers(-(2**31), 2**31).map(str),
    st.integers(0, 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["true", "false"]),
    st.sampled_from(["x", "y"]),
]
"""Columns that are read as a whole, nearly always."""
columns_of_cells = st.sampled_from([cells, *of_one_kind, *(st.none() | kind for kind in of_one_kind)])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["node:A", "node:B", "node:D", "node:T", "edge:G"]), st.data())
def test_reading_cells_by_columns_is_reading_row_by_row(key: str, data: st.DataObject) -> None:
    entity = CATALOG.tables[key]
    ends = ["from", "to"] if key.startswith("edge:") else []
    optional = [name for name in entity.properties if not entity.properties[name].is_required]
    needed = [*ends, *(name for name in entity.properties if name not in optional)]
    names = needed + data.draw(st.lists(st.sampled_from(["id", *optional]), max_size=3, unique=True))
    count = data.draw(st.integers(1, 4))
    columns = {}
    for name in names:
        column = data.draw(st.lists(data.draw(columns_of_cells), min_size=count, max_size=count))
        columns[name] = pa.array(column, pa.string())
    lines = pa.array(range(2, 2 + count))
    reader, by_rows = (TabularReader(CATALOG, key, names, FRESH, text=True) for _ in range(2))
    found = list(reader.read(pa.table(columns), lines))
    named = {target: columns[name] for target, name in by_rows._columns.items()}
    wanted = list(by_rows._by_rows(named, lines, is_name=False))

    def by_line(several: list[Any]) -> str:
        rows = (pair for each in several for pair in zip(each.lines.to_pylist(), each.rows.to_pylist(), strict=True))
        return repr(sorted(rows, key=lambda pair: pair[0]))

    assert by_line(found) == by_line(wanted)
    assert sum(rows.explicit_ids for rows in found) == sum(rows.explicit_ids for rows in wanted)
    assert sorted(reader.rejects, key=lambda reject: reject.line) == by_rows.rejects


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
    typed = [rows for table, at in source.blocks() for rows in reader.read(table, at)]
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
    assert list(reader.read(pa.table({"k": column}), pa.array([1]))) == []
    assert [reject.reason for reject in reader.rejects] == [said]


@pytest.mark.parametrize(
    "bad", [{"k": "x"}, {"k": 5, "unknown": 1}], ids=["a value of another kind", "an unknown member"]
)
def test_a_bad_line_does_not_hold_up_the_good_ones(bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is refused is read line by line: rejects cost what they are, not what the file is."""
    seen: list[bytes] = []
    parsed = graph_batch.parsed_line
    monkeypatch.setattr(graph_batch, "parsed_line", lambda line, *more: seen.append(line) or parsed(line, *more))
    records = [bad if number % 10 == 3 else {"k": number} for number in range(2_000)]
    block = "".join(f'{{"type":"A","data":{json.dumps(record)}}}\n' for record in records).encode()
    reader = GraphBatchReader(CATALOG, FRESH)
    typed = list(reader.read(block, 1))
    assert (len(seen), len(reader.rejects), sum(len(rows.lines) for rows in typed)) == (200, 200, 1_800)


@pytest.mark.parametrize("bad", [{"k": "x"}, {"k": 5, "unknown": 1}], ids=["value", "member"])
def test_what_was_wrong_before_is_looked_for_first(bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is not parsed in vain when the one before it had such records."""
    counted: list[int] = []
    parse = TypeColumns._parse
    monkeypatch.setattr(
        TypeColumns, "_parse", lambda self, *more, **named: counted.append(1) or parse(self, *more, **named)
    )
    records = [bad if number % 10 == 3 else {"k": number} for number in range(1_000)]
    block = "".join(f'{{"type":"A","data":{json.dumps(record)}}}\n' for record in records).encode()
    reader = GraphBatchReader(CATALOG, FRESH)
    for number in range(3):
        counted.clear()
        typed = list(reader.read(block, 1 + 1_000 * number))
        assert sum(len(rows.lines) for rows in typed) == 900
    assert len(counted) == 1


def test_a_bad_cell_does_not_hold_up_the_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    row = TabularReader._row
    monkeypatch.setattr(TabularReader, "_row", lambda self, cells, line: seen.append(line) or row(self, cells, line))
    reader = TabularReader(CATALOG, "node:B", ["a", "n"], FRESH, text=True)
    cells = pa.array(["x" if number % 10 == 3 else str(number % 50) for number in range(2_000)])
    typed = list(reader.read(pa.table({"a": cells, "n": cells}), pa.array(range(2_000))))
    assert (len(seen), len(reader.rejects), sum(len(rows.lines) for rows in typed)) == (200, 200, 1_800)
