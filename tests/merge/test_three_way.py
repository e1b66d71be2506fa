"""The three-way rule as a pure function of Arrow tables: every combination of absent, present and doubtful rows, against
the model."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from merge import model

from omnigraph.language.projection import arrow_schema
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.merge import three_way, virtual_base
from omnigraph.merge.three_way import BaseRows, ThreeWay
from omnigraph.merge.virtual_base import BaseEntity

CATALOG = compile_schema("node P { x: I32?  y: [String]? }\nedge E: P -> P { x: I32? }")
P, E = CATALOG.nodes["P"], CATALOG.edges["E"]

NODE_ROWS = [model.ABSENT, *({"x": x, "y": y} for x in (None, 1, 2) for y in (None, [], ["a"]))]
EDGE_ROWS = [model.ABSENT, *({"src": s, "dst": d, "x": x} for s in "ab" for d in "ab" for x in (None, 1))]

Case = tuple[model.Maybe, Any, Any]
"""The base, and the rows of the source and the target."""


def doubtful(rows: list[Any]) -> list[model.Maybe]:
    """Some of the rows; and with several candidates for a value, or for whether they exist."""
    few = [row for row in rows[1:] if row.get("src", "a") == row.get("dst", "a") == "a" and row.get("y", []) == []]
    certain = [model.Maybe.of(row) for row in [model.ABSENT, *few]]
    several = []
    for names in certain[1].cells:
        cell = [tuple(row[name] for name in names) for row in rows[1:]]
        several.append(model.Maybe([True], {**certain[1].cells, names: [cell[0], cell[-1]]}))
    return [*certain, *several, *(model.Maybe([True, False], dict(each.cells)) for each in [*certain[1:], *several])]


def base_rows(entity: Any, ids: list[str], cases: list[Case]) -> BaseRows:
    """The bases as the rule takes them."""
    present: list[dict[str, Any]] = []
    doubts: list[dict[str, Any]] = []
    for id, (base, _, _) in zip(ids, cases, strict=True):
        if base.row is not model.ABSENT:
            row = {name: None if value is model.UNKNOWN else value for name, value in base.row.items()}
            present.append({"id": id, **row})
        flags = {f"unknown_{place}": len(cell) > 1 for place, cell in enumerate(base.cells.values())}
        doubts.append({"id": id, "unsure": len(base.exists) > 1, **flags})
    return BaseRows(
        pa.Table.from_pylist(present, schema=arrow_schema(entity)),
        pa.Table.from_pylist(doubts, schema=three_way.doubts_schema(entity)),
    )


def side_rows(entity: Any, ids: list[str], rows: list[Any]) -> pa.Table:
    present = [{"id": id, **row} for id, row in zip(ids, rows, strict=True) if row is not model.ABSENT]
    return pa.Table.from_pylist(present, schema=arrow_schema(entity))


@pytest.mark.parametrize("base", ["certain", "doubtful"])
@pytest.mark.parametrize("strategy", ["fail", "ours", "theirs"])
@pytest.mark.parametrize("by", ["row", "property"])
@pytest.mark.parametrize(("entity", "rows"), [(P, NODE_ROWS), (E, EDGE_ROWS)], ids=["node", "edge"])
def test_every_combination(entity: Any, rows: list[Any], by: Any, strategy: Any, base: str) -> None:
    bases = [model.Maybe.of(row) for row in rows] if base == "certain" else doubtful(rows)
    cases: list[Case] = list(itertools.product(bases, rows, rows))
    ids = [f"{number:05d}" for number in range(len(cases))]
    decision = ThreeWay(
        entity,
        pa.array(ids),
        base=base_rows(entity, ids, cases),
        theirs=side_rows(entity, ids, [theirs for _, theirs, _ in cases]),
        ours=side_rows(entity, ids, [ours for _, _, ours in cases]),
    )
    verdicts, kinds = decision.verdicts(by, strategy).tolist(), decision.conflict_kinds().tolist()
    combined = decision.merged_rows(strategy).to_pylist()
    for place, (old, theirs, ours) in enumerate(cases):
        expected = model.entity(old.row, theirs, ours, by, strategy, unsure=len(old.exists) > 1)
        conflict = kinds[place] if verdicts[place] == three_way.CONFLICT else None
        row = {"theirs": theirs, "combined": combined[place]}.get(verdicts[place], ours)
        if verdicts[place] == three_way.COMBINED:
            del row["id"]
            assert row not in (ours, theirs), "a row that one branch has is not written anew"
        assert (row, conflict) == expected, (old, theirs, ours)


@pytest.mark.parametrize(("entity", "rows"), [(P, NODE_ROWS), (E, EDGE_ROWS)], ids=["node", "edge"])
def test_merge_bases_are_merged_value_by_value(entity: Any, rows: list[Any]) -> None:
    def as_entity(side: model.Maybe) -> BaseEntity:
        return BaseEntity(list(side.exists), tuple(map(list, side.cells.values())))

    for base, one, other in itertools.product(doubtful(rows), repeat=3):
        expected = model.merged_maybe(base, one, other)
        found = virtual_base.merged(*map(as_entity, (base, one, other)))
        assert sorted(found.exists) == sorted(expected.exists), (base, one, other)
        assert [sorted(cell, key=repr) for cell in found.values] == [
            sorted(cell, key=repr) for cell in expected.cells.values()
        ], (base, one, other)
        assert virtual_base.merged(*map(as_entity, (base, other, one))).exists in (found.exists, found.exists[::-1])
