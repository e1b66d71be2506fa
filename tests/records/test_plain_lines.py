"""Lines that a pattern calls plainly right: read together as one by one, and all the others refused for the same reasons."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.language.schema.compiler import compile_schema
from omnigraph.records import graph_batch
from omnigraph.records.graph_batch import GraphBatchReader
from omnigraph.records.ids import FreshIds
from omnigraph.records.json_columns import TypeColumns

SCHEMA = """
node P { name: String @key  n: I32?  big: I64?  f: F64?  small: F32?  yes: Bool?  day: Date?  at: DateTime?
    tags: [String]?  list: [I32]?  vec: Vector(2)? }
edge K: P -> P { since: Date? }
"""
CATALOG = compile_schema(SCHEMA)
FRESH = FreshIds.new()
DICE = random.Random(5)
VALUES: dict[str, list[Any]] = {
    "name": ["ada", "Zoë", "日本", "😀", 'a "b"', "a\\b", "", None, 5, "x\ty", "\u0001"],
    "n": [0, -1, 2**31 - 1, 2**31, 1.5, "1", None, True, 10**30],
    "big": [0, 2**53, 2**63 - 1, 2**63, "17", None],
    "f": [0, -1.5, 1e300, 1e-7, "x", None, 123456789012345678901234567890],
    "small": [0, 0.1, 1e38, 1e39, None],
    "yes": [True, False, "true", 1, None],
    "day": ["2026-02-28", "2026-02-30", "2024-02-29", "yesterday", 20_000, "2026-1-1", None],
    "at": ["2026-02-28T03:04:05Z", "2026-02-28 03:04:05", "2026-02-28T25:00:00Z", 1_700_000_000_000, "x", None],
    "tags": [[], ["a"], ["a", None], "a", [1], None],
    "list": [[], [1, 2], [2**31], ["x"], None],
    "vec": [[1, 2], [1.5, 2], [1], [1, "x"], None],
    "nick": ["x"],
}


def line() -> bytes:
    names = DICE.sample(list(VALUES)[:-1], DICE.randint(0, 4)) + DICE.choices(["nick"], k=DICE.random() < 0.1)
    data = {name: DICE.choice(VALUES[name][: 2 if DICE.random() < 0.6 else None]) for name in ["name", *names]}
    record: dict[str, Any] = {"type": "P", "data": data}
    if DICE.random() < 0.3:
        ends = {"from": DICE.choice(["ada", "", None, 5]), "to": "bo"}
        record = {"edge": "K", **ends, "data": {"since": DICE.choice(VALUES["day"])}}
    text = json.dumps(record, ensure_ascii=DICE.random() < 0.2, separators=DICE.choice([(",", ":"), (", ", ": ")]))
    if DICE.random() < 0.05:
        text = text[: DICE.randint(1, len(text))] + DICE.choice(["", "}", "}}"])
    data_bytes = text.encode()
    return (data_bytes.replace(b"ada", b"a\xe9a") if DICE.random() < 0.02 else data_bytes) + b"\n"


def read_of(lines: list[bytes], *, by_lines: bool) -> tuple[Any, ...]:
    reader = GraphBatchReader(CATALOG, FRESH)
    if by_lines:
        reader._types = []
    rows: dict[tuple[str, int], Any] = {}
    for typed in reader.read(b"".join(lines), 1):
        for number, row in zip(typed.lines.to_pylist(), typed.rows.to_pylist(), strict=True):
            rows[typed.key, number] = row
    return sorted(rows.items(), key=lambda each: each[0]), sorted(
        (reject.line, reject.reason, reject.code) for reject in reader.rejects
    )


def test_a_plain_line_is_right() -> None:
    types = {entity.name: TypeColumns(CATALOG, entity, FRESH) for entity in CATALOG.tables.values()}
    plain = 0
    for _ in range(3_000):
        text = line()
        for columns in types.values():
            if columns.plain_lines(pa.array([text], pa.binary()))[0].as_py():
                plain += 1
                assert read_of([text], by_lines=True)[1] == [], text
    assert plain > 400


@pytest.mark.parametrize("size", [1, 7, 300, 3_000])
def test_many_lines_are_read_as_one_by_one(size: int) -> None:
    for _ in range(3):
        lines = [line() for _ in range(size)]
        assert repr(read_of(lines, by_lines=False)) == repr(read_of(lines, by_lines=True))


def test_of_every_kind_of_wrong_line_only_those_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    parsed = graph_batch.parsed_line
    monkeypatch.setattr(graph_batch, "parsed_line", lambda text, *more: seen.append(text) or parsed(text, *more))
    bad = [
        *({"n": "x"}, {"nick": 1}, {"day": "yesterday"}, {"name": None}, {"name": ""}, {"at": "2026-13-01T00:00:00Z"}),
        *({"tags": [None]}, {"list": "1"}, {"yes": 1}, {"f": "1"}, {"name": 5}, {"n": 2**40}),
    ]
    texts = []
    for number in range(6_000):
        record = {"name": f"p{number}é", "n": number, "day": "2026-01-01", "at": "2026-01-01T03:04:05Z", "yes": True}
        if number % 10 == 3:
            record.update(bad[number // 10 % len(bad)])
        text = json.dumps({"type": "P", "data": record}, ensure_ascii=False).encode()
        texts.append((text[:-4] if number % 100 == 53 else text) + b"\n")
    reader = GraphBatchReader(CATALOG, FRESH)
    rows = sum(len(typed.lines) for typed in reader.read(b"".join(texts), 1))
    assert (rows, len(reader.rejects), len(seen)) == (5_400, 600, 600)
