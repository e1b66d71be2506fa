"""The three-way rule as a pure function of Arrow tables: every combination of absent, present and doubtful rows, against
the model."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from merge import model

from omnigraph.language.arrow import arrow_schema
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.merge import three_way
from omnigraph.merge.three_way import Rows, ThreeWay

CATALOG = compile_schema("node P { x: I32?  y: [String]? }\nedge E: P -> P { x: I32? }")
P, E = CATALOG.nodes["P"], CATALOG.edges["E"]

NODE_ROWS = [model.ABSENT, *({"x": x, "y": y} for x in (None, 1, 2) for y in (None, [], ["a"]))]
EDGE_ROWS = [model.ABSENT, *({"src": s, "dst": d, "x": x} for s in "ab" for d in "ab" for x in (None, 1))]

Case = tuple[tuple[Any, bool], ...]
"""The rows of the base, the source and the target, each with whether it may not exist."""


def doubtful(rows: list[Any]) -> list[tuple[Any, bool]]:
    """Rows, and some of them with values and with an existence that nobody knows."""
    few = [row for row in rows[1:] if row.get("src", "a") == row.get("dst", "a") == "a" and row.get("y", []) == []]
    unknown = [{**row, name: model.UNKNOWN} for row in few[:1] for name in row if name not in ("src", "dst")]
    ends = [{**row, "src": model.UNKNOWN, "dst": model.UNKNOWN} for row in few[:1] if "src" in row]
    some = [model.ABSENT, *few, *unknown, *ends]
    return [*((row, False) for row in some), *((row, True) for row in some[1:])]


def rows_of(entity: Any, ids: list[str], cases: list[Case], side: int) -> Rows:
    """A side's rows as the rule takes them."""
    present: list[dict[str, Any]] = []
    doubts: list[dict[str, Any]] = []
    for id, case in zip(ids, cases, strict=True):
        row, unsure = case[side]
        if row is not model.ABSENT:
            present.append({"id": id, **{name: None if v is model.UNKNOWN else v for name, v in row.items()}})
            unknown = [any(row[name] is model.UNKNOWN for name in names) for names in three_way.values_of(entity)]
            doubts.append({"id": id, "unsure": unsure, **{f"unknown_{n}": each for n, each in enumerate(unknown)}})
    return Rows(
        pa.Table.from_pylist(present, schema=arrow_schema(entity)),
        pa.Table.from_pylist(doubts, schema=three_way.doubts_schema(entity)),
    )


def prepared(entity: Any, cases: list[Case]) -> ThreeWay:
    ids = [f"{number:05d}" for number in range(len(cases))]
    base, theirs, ours = (rows_of(entity, ids, cases, side) for side in range(3))
    return ThreeWay(entity, pa.array(ids), base=base, theirs=theirs, ours=ours)


@pytest.mark.parametrize("base", ["certain", "doubtful"])
@pytest.mark.parametrize("strategy", ["fail", "ours", "theirs"])
@pytest.mark.parametrize("by", ["row", "property"])
@pytest.mark.parametrize(("entity", "rows"), [(P, NODE_ROWS), (E, EDGE_ROWS)], ids=["node", "edge"])
def test_every_combination(entity: Any, rows: list[Any], by: Any, strategy: Any, base: str) -> None:
    certain = [(row, False) for row in rows]
    bases = certain if base == "certain" else doubtful(rows)
    cases: list[Case] = list(itertools.product(bases, certain, certain))
    decision = prepared(entity, cases)
    verdicts, kinds = decision.verdicts(by, strategy).tolist(), decision.conflict_kinds().tolist()
    combined = decision.merged_rows(strategy).to_pylist()
    for place, ((b, unsure), (theirs, _), (ours, _)) in enumerate(cases):
        expected = model.entity(b, theirs, ours, by, strategy, unsure=unsure)
        conflict = kinds[place] if verdicts[place] == three_way.CONFLICT else None
        row = {"theirs": theirs, "combined": combined[place]}.get(verdicts[place], ours)
        if verdicts[place] == three_way.COMBINED:
            del row["id"]
            assert row not in (ours, theirs), "a row that one branch has is not written anew"
        assert (row, conflict) == expected, (b, unsure, theirs, ours)


@pytest.mark.parametrize(("entity", "rows"), [(P, NODE_ROWS), (E, EDGE_ROWS)], ids=["node", "edge"])
def test_merge_bases_are_merged_value_by_value(entity: Any, rows: list[Any]) -> None:
    sides = doubtful(rows)
    cases: list[Case] = list(itertools.product(sides, sides, sides))
    decision = prepared(entity, cases)
    merged = decision.merged()
    present = {row.pop("id"): row for row in merged.values.to_pylist()}
    doubts = {row.pop("id"): row for row in merged.doubts.to_pylist()}
    for id, ((b, unsure_b), (theirs, unsure_t), (ours, unsure_o)) in zip(decision.ids.to_pylist(), cases, strict=True):
        row, unsure = model.merged_base_row(b, theirs, ours, unsure_b, unsure_t, unsure_o)
        assert unsure == doubts[id]["unsure"], (b, theirs, ours)
        if row is model.ABSENT:
            assert id not in present
            continue
        unknown = [
            name for n, names in enumerate(three_way.values_of(entity)) if doubts[id][f"unknown_{n}"] for name in names
        ]
        found = {name: model.UNKNOWN if name in unknown else value for name, value in present[id].items()}
        assert found == row, (b, theirs, ours)
