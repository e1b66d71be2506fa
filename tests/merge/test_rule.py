"""The three-way rule as a pure function of Arrow tables: every combination of absent and present values, against the model."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from merge import model

from omnigraph.language.arrow import arrow_schema
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.merge import rule

CATALOG = compile_schema("node P { x: I32?  y: [String]? }\nedge E: P -> P { x: I32? }")
P, E = CATALOG.nodes["P"], CATALOG.edges["E"]

NODE_ROWS = [model.ABSENT, *({"x": x, "y": y} for x in (None, 1, 2) for y in (None, [], ["a"]))]
EDGE_ROWS = [model.ABSENT, *({"src": s, "dst": d, "x": x} for s in "ab" for d in "ab" for x in (None, 1))]
STRATEGY = {"nobody": "fail", "host": "ours", "guest": "theirs"}


@pytest.mark.parametrize("unknown", [False, True], ids=["base known", "no base"])
@pytest.mark.parametrize("winner", STRATEGY)
@pytest.mark.parametrize("by", ["row", "property"])
@pytest.mark.parametrize(("entity", "rows"), [(P, NODE_ROWS), (E, EDGE_ROWS)], ids=["node", "edge"])
def test_every_combination(entity: Any, rows: list[Any], by: Any, winner: Any, unknown: bool) -> None:
    cases = list(itertools.product([model.ABSENT] if unknown else rows, rows, rows))
    ids = [f"{number:05d}" for number in range(len(cases))]
    relations = {"ids": pa.table({"id": ids, "unknown": [unknown] * len(ids)})}
    for name, side in (("base", 0), ("guest", 1), ("host", 2)):
        present = [
            {"id": id, **case[side]} for id, case in zip(ids, cases, strict=True) if case[side] is not model.ABSENT
        ]
        relations[name] = pa.Table.from_pylist(present, schema=arrow_schema(entity))
    verdicts = rule.decide(entity, relations, by=by, winner=winner).to_pylist()
    assert [verdict["id"] for verdict in verdicts] == ids
    for verdict, (base, guest, host) in zip(verdicts, cases, strict=True):
        expected, conflict = model.entity(base, guest, host, by, STRATEGY[winner], unknown)
        assert outcome(verdict, guest, host) == (expected, conflict), (verdict, base, guest, host)


def outcome(verdict: dict[str, Any], guest: Any, host: Any) -> tuple[Any, str | None]:
    """The row a verdict leaves, and the kind of its conflict."""
    match verdict["verdict"]:
        case rule.CONFLICT:
            return host, verdict["kind"]
        case rule.KEEP:
            return host, None
        case rule.TAKE:
            return guest, None
        case rule.DELETE:
            assert guest is model.ABSENT
            return guest, None
        case rule.COMBINE:
            row = {name: verdict[name] for name in host}
            assert row != host, "a combined row that is the host's own would be written for nothing"
            return row, None
    raise AssertionError(verdict)
