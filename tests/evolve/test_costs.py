"""A schema change that no row can break asks the same few requests of an object store, whatever the graph holds."""

from __future__ import annotations

import pytest
from s3_server import S3Server

import omnigraph as og

pytestmark = pytest.mark.s3

COMMON = "interface Common { label: String? }\n"
WIDER = 'interface Common { title: String? @rename_from("label")  rank: I64 @default(3) }\n'


def schema(tables: int, common: str = COMMON, more: str = "") -> str:
    return common + "".join(f"node T{n} implements Common {{ k: I32 @key  n: I32?  {more} }}\n" for n in range(tables))


def requests_of_a_change(s3: S3Server, tables: int, rows: int, branches: int, on: str) -> list[str]:
    uri = f"s3://{s3.new_bucket()}/graph"
    g = og.init(uri, schema=schema(tables), storage_options=s3.options)
    if rows:
        with g.transaction() as tx:
            for n in range(5):
                tx.insert_many(f"T{n}", [{"k": k, "n": k, "label": f"l{k}"} for k in range(rows)])
    for n in range(branches):
        g.branches.create(f"b{n}")
    assert g.snapshot(on).schema
    s3.reset()
    receipt = g.schema.apply(schema(tables, WIDER, "x: [String]?").replace("n: I32?", "n: I64?"), branch=on)
    assert receipt.commit is not None
    return [f"{request.kind} {request.key.split('/')[1]}" for request in s3.requests()]


def test_a_change_of_metadata_asks_three_requests(s3: S3Server) -> None:
    found = {
        case: requests_of_a_change(s3, *case)
        for case in [
            (5, 0, 1, "main"),
            (5, 2_000, 1, "main"),
            (5, 2_000, 20, "b7"),
            (200, 0, 1, "main"),
            (200, 2_000, 1, "b0"),
        ]
    }
    assert len(set(map(tuple, found.values()))) == 1, found
    assert len(next(iter(found.values()))) <= 4
    assert [request.split()[1] for request in found[5, 0, 1, "main"]] == ["branches", "schemas", "branches"]
